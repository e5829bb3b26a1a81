"""What a bandit algorithm receives and returns.

An algorithm is any object with three pure methods, for one seed::

    init() -> state
    select(state, arms [num_arms, dim], key, side) -> choice
    update(state, choice, x [dim], reward [], side) -> state

``choice`` needs an ``action``; ``layer`` and ``weight`` are recorded where it has them. ``state`` is any pytree of
arrays of fixed shapes; where it has a ``status`` (int32, bits of :mod:`jaxvar.status`), the runner reports it.
Optional methods: ``with_fixed_arms(arms)`` returns the algorithm to use when the decision set never changes,
``grow()`` returns one with more capacity, to rerun with after ``status.CAPACITY``, and ``confidence(state)`` returns
:class:`Confidence`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax


class Side(NamedTuple):
    """What the environment reveals beyond the reward."""

    noise_var: (
        jax.Array
    )  # the round's noise variance: of each arm, [num_arms], in select; of the pulled arm, [], in update


class Choice(NamedTuple):
    """A decision of one of our algorithms."""

    action: jax.Array  # []   int32, index of the arm
    layer: jax.Array  # []   int32, the layer that will learn, 1-based; 0 where none does
    weight: jax.Array  # []   w, the regression weight of the observation; 0 where none learns
    status: jax.Array  # []   int32, bits of jaxvar.status


class Confidence(NamedTuple):
    """What is needed to say whether ``|theta_hat - theta*|_Sigma <= beta`` in each layer.

    With ``F = sum w^2 (y - <theta, x>)^2 + ridge |theta|^2``, the loss that ``theta_hat`` minimises,
    ``|theta_hat - theta*|_Sigma^2 = F(theta*) - F(theta_hat)``: so a sum over the noise and the least loss suffice.
    """

    loss: jax.Array  # [layers]   F(theta_hat)
    ridge: jax.Array  # [layers]
    beta_hat: jax.Array  # [layers]


class Algorithm(Protocol):
    """The three methods every bandit algorithm has."""

    def init(self) -> Any:
        """The state before the first round."""
        ...

    def select(self, state: Any, arms: jax.Array, key: jax.Array, side: Side) -> Any:
        """Choose one of ``arms [num_arms, dim]``."""
        ...

    def update(self, state: Any, choice: Any, x: jax.Array, reward: jax.Array, side: Side) -> Any:
        """Learn from the reward of ``x [dim]``."""
        ...
