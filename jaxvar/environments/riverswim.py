"""RiverSwim: a chain where swimming against the current pays only at its far end."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvar import parameters
from jaxvar.environments.explicit_mdp import ExplicitMdp, explicit_mdp, normalised, tabular

_DEFAULTS = {"mixture": (10, 100), "tabular": (5, 20)}  # S and H of the published experiments
_SMALL, _LARGE = 0.005, 1.0  # rewards at the first and at the last state, before division by H

Array = np.ndarray[Any, Any]


def riverswim(
    num_states: int | None = None, horizon: int | None = None, *, features: str = "mixture", initial: Any = 0
) -> ExplicitMdp:
    r"""A chain of S states with two actions: 0 drifts left, 1 swims right.

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
    horizon = default[1] if horizon is None else parameters.check_count("horizon", horizon)
    reward = np.zeros((num_states, 2))
    reward[0, 0], reward[-1, 1] = _SMALL / horizon, _LARGE / horizon
    phi, theta_star = _mixture(num_states) if features == "mixture" else tabular(_classic(num_states))
    return explicit_mdp(phi, reward, theta_star, horizon, initial=initial)


def _mixture(num_states: int) -> tuple[Array, Array]:
    """Return features ``[S, 2, S, 3]`` and parameter ``[3]`` of one current everywhere."""
    phi = np.zeros((num_states, 2, num_states, 3))
    last = num_states - 1
    for s in range(num_states):
        phi[s, 0, max(s - 1, 0)] = 1
        for i, target in enumerate((min(s + 1, last), s, max(s - 1, 0))):
            phi[s, 1, target, i] = 1
    return normalised(phi, np.array([0.9, 0.05, 0.05]))


def _classic(num_states: int) -> Array:
    """Return the transition ``[S, 2, S]`` with a stronger current."""
    transition = np.zeros((num_states, 2, num_states))
    last = num_states - 1
    for s in range(num_states):
        transition[s, 0, max(s - 1, 0)] = 1
    for s in range(1, last):
        transition[s, 1, s - 1 : s + 2] = 0.1, 0.6, 0.3
    transition[0, 1, :2] = 0.3, 0.7
    transition[last, 1, last - 1 :] = 0.1, 0.9
    return transition
