"""One run in float64, and beside it what float32 would have made of the same history.

Two runs in different precision part ways after their first different decision, and from then on their states differ
for reasons that have nothing to do with rounding. Here float64 decides; float32 is asked what it would have done, and
then learns from what was done. So states can be compared layer by layer after any number of rounds. Needs
``jax_enable_x64``.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar.algorithms import bandit as ties
from jaxvar.algorithms.interface import Choice, Model, Side, Step
from jaxvar.parameters import pytree


class PairState(NamedTuple):
    """Both states, and how often the decisions would have differed."""

    double: Any
    single: Any
    differs: jax.Array  # []   int32, rounds or steps so far
    status: jax.Array  # []   int32, of float64
    layer: jax.Array  # []   int32, likewise
    weight: jax.Array  # []   likewise


class PairChoice(NamedTuple):
    """What float64 does, and whether float32 would have done the same."""

    action: jax.Array
    layer: jax.Array
    weight: jax.Array
    status: jax.Array
    differs: jax.Array  # []   bool
    single_status: jax.Array  # []   int32


class PairPlan(NamedTuple):
    """What float64 will do in an episode, and what float32 would."""

    value: jax.Array
    policy: jax.Array
    double: Any
    single_policy: jax.Array  # [H, S]


@pytree
class SharedHistory:
    """A bandit algorithm in float64 with its float32 shadow; built by :func:`shared_history`."""

    double: Any
    single: Any

    @property
    def dim(self) -> int:
        """That of the algorithm."""
        return int(self.double.dim)

    @property
    def capacity(self) -> int:
        """Layers stored."""
        return int(getattr(self.double, "capacity", 1))

    def grow(self) -> Any:
        """The same pair with more layers stored."""
        if not hasattr(self.double, "grow"):
            return self
        return dataclasses.replace(self, double=self.double.grow(), single=self.single.grow())

    def init(self) -> PairState:
        """Both begin with nothing."""
        return _begin(self.double.init(), self.single.init())

    def select(self, state: PairState, arms: jax.Array, key: jax.Array, side: Side) -> PairChoice:
        """Float64's choice, compared with float32's."""
        ours = self.double.select(state.double, arms, key, side)
        theirs = self.single.select(state.single, single(arms), key, single(side))
        differs = (ours.action != theirs.action) | (ours.layer != theirs.layer)
        return PairChoice(ours.action, ours.layer, ours.weight, ours.status, differs, theirs.status)

    def update(self, state: PairState, choice: PairChoice, x: jax.Array, reward: jax.Array, side: Side) -> PairState:
        """Both learn from what float64 did."""
        ours = Choice(choice.action, choice.layer, choice.weight, choice.status)
        theirs = Choice(choice.action, choice.layer, single(choice.weight), choice.single_status)
        new = self.double.update(state.double, ours, x, reward, side)
        shadow = self.single.update(state.single, theirs, *single((x, reward, side)))
        differs = state.differs + choice.differs.astype(jnp.int32)
        return PairState(new, shadow, differs, new.status, choice.layer, choice.weight)


@pytree
class SharedEpisodes(SharedHistory):
    """The same for an episodic algorithm."""

    @property
    def horizon(self) -> int:
        """That of the algorithm."""
        return int(self.double.horizon)

    def init(self, model: Model) -> PairState:  # type: ignore[override]
        """Both begin with nothing."""
        return _begin(self.double.init(model), self.single.init(single(model)))

    def plan(self, state: PairState, model: Model, key: jax.Array) -> PairPlan:
        """Float64's plan, with the policy that float32 would have had."""
        ours = self.double.plan(state.double, model, key)
        theirs = self.single.plan(state.single, single(model), key)
        return PairPlan(ours.value, ours.policy, ours, theirs.policy)

    def update(self, state: PairState, model: Model, plan: PairPlan, step: Step) -> PairState:  # type: ignore[override]
        """Both learn from what float64 did."""
        new = self.double.update(state.double, model, plan.double, step)
        shadow = self.single.update(state.single, *single((model, plan.double, step)))
        # The policies are compared where the step was played.
        horizon, num_states = plan.policy.shape
        here = jnp.arange(horizon * num_states, dtype=jnp.int32) == step.stage * num_states + step.state
        differs = jnp.any(here & (plan.policy != plan.single_policy).reshape(-1))
        count = state.differs + differs.astype(jnp.int32)
        return PairState(new, shadow, count, new.status, new.layer, new.weight)


def shared_history(algorithm: Any) -> SharedHistory:
    """``algorithm``, made in float64, with its float32 shadow, which has float32's larger tolerance for ties."""
    larger = ties.default_tolerance(np.float32) / ties.default_tolerance(np.float64)
    tolerance = np.asarray(algorithm.tie_tolerance * larger, np.float32)
    shadow = dataclasses.replace(single(algorithm), tie_tolerance=tolerance)
    kind = SharedEpisodes if hasattr(algorithm, "plan") else SharedHistory
    return kind(double=algorithm, single=shadow)


def single(tree: Any) -> Any:
    """``tree`` with its float64 arrays rounded to float32."""

    def rounded(x: Any) -> Any:
        x = x if isinstance(x, jax.Array) else np.asarray(x)
        return x.astype(np.float32) if x.dtype == np.float64 else x

    return jax.tree.map(rounded, tree)


def _begin(double: Any, single: Any) -> PairState:
    zero = jnp.int32(0)
    return PairState(double, single, zero, zero, zero, jnp.zeros((), jnp.float64))
