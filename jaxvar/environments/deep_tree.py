"""DeepTree: two decisions, of which only the first counts, and leaves that matter to a model but not to a value."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvar import parameters
from jaxvar.environments.explicit_mdp import ExplicitMdp, explicit_mdp, normalised, tabular

_HORIZON = 2
_NUM_STATES, _NUM_ACTIONS = 15, 2
_INNER = 3  # states before the leaves: the root and its two children
_QUARTER = 3  # leaves below each child and action

Array = np.ndarray[Any, Any]


def deep_tree(*, features: str = "tabular") -> ExplicitMdp:
    r"""A tree of 15 states and H = 2: a root, two inner states, and 12 leaves in four quarters of three.

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
    transition = _transition()
    phi, theta_star = tabular(transition) if features == "tabular" else _reduced(transition)
    reward = np.zeros((_NUM_STATES, _NUM_ACTIONS))
    reward[2] = 1
    return explicit_mdp(phi, reward, theta_star, _HORIZON)


def _transition() -> Array:
    transition = np.zeros((_NUM_STATES, _NUM_ACTIONS, _NUM_STATES))
    for a in range(_NUM_ACTIONS):
        transition[0, a, 1 + a] = 1
        for b in range(_NUM_ACTIONS):
            first = _INNER + _QUARTER * (_NUM_ACTIONS * a + b)
            transition[1 + a, b, first : first + _QUARTER] = 1 / _QUARTER
    for leaf in range(_INNER, _NUM_STATES):
        transition[leaf, :, leaf] = 1
    return transition


def _reduced(transition: Array) -> tuple[Array, Array]:
    """Return features ``[15, 2, 15, 91]`` and parameter ``[91]``: the last coordinate is that of leaves."""
    inner = transition[:_INNER]
    phi = np.zeros((*transition.shape, inner.size + 1))
    phi[:_INNER, ..., : inner.size] = np.eye(inner.size).reshape(*inner.shape, inner.size)
    phi[_INNER:, ..., inner.size] = transition[_INNER:]
    return normalised(phi, np.append(inner.ravel(), 1.0))
