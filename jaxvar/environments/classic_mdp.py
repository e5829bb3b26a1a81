"""Two small MDPs of published experiments, by their tables: RiverSwim and DeepTree."""

from __future__ import annotations

import math

import numpy as np

from jaxvar import parameters
from jaxvar.environments.explicit_mdp import ExplicitMdp, explicit_mdp, normalised, tabular_features

_DEFAULTS = {"mixture": (10, 100), "tabular": (5, 20)}  # S and H of the published experiments with RiverSwim
_SMALL, _LARGE = 0.005, 1.0  # RiverSwim's rewards at the first and at the last state, before division by H
_INNER = 3  # states of DeepTree before its leaves: the root and its two children
_QUARTER = 3  # leaves below each child and action


def riverswim(
    num_states: int | None = None, horizon: int | None = None, *, features: str = "mixture", initial: object = 0
) -> ExplicitMdp:
    r"""Return a chain of S states with two actions: 0 drifts left, 1 swims right.

    Action 0 moves from s to s - 1 surely (the first state stays). It pays .005 / H in the first state, and action 1
    pays 1 / H in the last one; all other rewards are zero. The two kinds differ in the law of action 1:

    * ``mixture``: right, stay and left have the unknown probabilities :math:`\theta^* = (.9, .05, .05)` everywhere, so
      that d = 3. The features of action 1 are :math:`e_1` at s + 1, :math:`e_2` at s and :math:`e_3` at s - 1. At the
      ends a move that has no room joins *stay*: in the first state left does, so that
      :math:`\phi(0 | 0, 1) = e_2 + e_3`, and in the last state right does, :math:`\phi(S-1 | S-1, 1) = e_1 + e_2`.
      Action 0 has :math:`e_1 + e_2 + e_3` at its only next state.
    * ``tabular``: left .1, stay .6 and right .3; .3 and .7 (stay, right) in the first state, .1 and .9 (left, stay) in
      the last. Every (s, a, s') has its own coordinate: d = 2 S^2.

    In both, features are divided by the largest :math:`|\phi_V|` (sqrt 3, sqrt S) and :math:`\theta^*` is multiplied by
    it.

    Args:
      num_states: S, at least 2; the published 10 (mixture) or 5 (tabular) where it is None.
      horizon: H; the published 100 (mixture) or 20 (tabular) where it is None.
      features: ``mixture`` or ``tabular``.
      initial: the first state of every episode, or the distribution ``[S]`` it is drawn from.

    Returns:
      The environment, a pytree.

    References:
      Strehl, Littman (2008), the chain; Huang et al. (2024), experiments, ``mixture``; Ayoub et al. (2020), experiments
      and Appendix B, ``tabular``.

    Deviations:
      Rewards are divided by H, so that no path collects more than 1. In ``mixture``, action 0 stays in the first state,
      as the features say; the published simulator moves to the second one there.
    """
    default = _DEFAULTS[parameters.check_choice("features", features, tuple(_DEFAULTS))]
    num_states = default[0] if num_states is None else parameters.check_count("num_states", num_states, low=2)
    horizon = default[1] if horizon is None else parameters.check_count("horizon", horizon, high=parameters.MAX_HORIZON)
    num_features = 3 if features == "mixture" else 2 * num_states**2
    parameters.check_table("num_states", num_states, (num_states, 2, num_states, num_features))
    last = num_states - 1
    reward = np.zeros((num_states, 2))
    reward[0, 0], reward[last, 1] = _SMALL / horizon, _LARGE / horizon
    if features == "mixture":
        phi = np.zeros((num_states, 2, num_states, 3))
        for s in range(num_states):
            phi[s, 0, max(s - 1, 0)] = 1
            for i, target in enumerate((min(s + 1, last), s, max(s - 1, 0))):
                phi[s, 1, target, i] = 1
        phi, theta_star = normalised(phi, np.array([0.9, 0.05, 0.05]))
    else:
        transition = np.zeros((num_states, 2, num_states))
        transition[0, 0, 0] = 1
        for s in range(1, num_states):
            transition[s, 0, s - 1] = 1
            transition[s, 1, s - 1 : s + 2] = (0.1, 0.6, 0.3) if s < last else (0.1, 0.9)
        transition[0, 1, :2] = 0.3, 0.7
        phi, theta_star = tabular_features(transition.shape), transition.ravel() * math.sqrt(num_states)
    return explicit_mdp(phi, reward, theta_star, horizon, initial=initial)


def deep_tree(*, features: str = "tabular") -> ExplicitMdp:
    r"""Return a tree of 15 states and H = 2: a root, two inner states, and 12 leaves in four quarters of three.

    Every episode starts in the root, state 0, where action a leads to state 1 + a surely. From state 1 + a, action b
    leads to one of the three leaves of the quarter (a, b), each with probability 1/3: leaves 3..5 are the quarter
    (0, 0), then 6..8, 9..11 and 12..14. Leaves stay. State 2 pays 1 for either action, everything else 0, so
    :math:`V^* = 1` by action 1 in the root. A model of all next states has much to learn here, and the values depend on
    almost none of it.

    Args:
      features: ``tabular``, one coordinate for each (s, a, s'), d = 450; or ``reduced``, one for each (s, a, s') with s
        no leaf, and a single one for *a leaf stays*, d = 6 * 15 + 1 = 91. The kernel is the same. With two steps no
        action is ever taken in a leaf, so that 360 of the 450 coordinates never get an observation: ``reduced`` leaves
        a learner as ignorant of the six pairs that matter and spares the arithmetic. In both, features are divided by
        the largest :math:`|\phi_V|`, sqrt 15, and :math:`\theta^*` is multiplied by it.

    Returns:
      The environment, a pytree.

    References:
      Ayoub et al. (2020), experiments and Appendix B (the tabular features).

    Deviations:
      ``reduced`` features are ours.
    """
    parameters.check_choice("features", features, ("tabular", "reduced"))
    transition = np.zeros((15, 2, 15))
    for a in range(2):
        transition[0, a, 1 + a] = 1
        for b in range(2):
            first = _INNER + _QUARTER * (2 * a + b)
            transition[1 + a, b, first : first + _QUARTER] = 1 / _QUARTER
    for leaf in range(_INNER, 15):
        transition[leaf, :, leaf] = 1
    if features == "tabular":
        phi, theta_star = tabular_features(transition.shape), transition.ravel() * math.sqrt(len(transition))
    else:  # the last coordinate is that of leaves
        inner = transition[:_INNER]
        phi = np.zeros((*transition.shape, inner.size + 1))
        phi[:_INNER, ..., : inner.size] = np.eye(inner.size).reshape(*inner.shape, inner.size)
        phi[_INNER:, ..., inner.size] = transition[_INNER:]
        phi, theta_star = normalised(phi, np.append(inner.ravel(), 1.0))
    reward = np.zeros(transition.shape[:2])
    reward[2] = 1
    return explicit_mdp(phi, reward, theta_star, 2)
