"""Recorders, which say what a run keeps, and the rounds at which they are read.

A recorder is any object with a ``name`` and three pure methods for one seed: ``init(algorithm, instance) -> memory``,
``update(memory, event, algorithm, instance) -> memory`` in every round, and ``read(memory) -> array`` at the recorded
rounds. What is kept of a run grows with the recorded rounds, never with the rounds played.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import cholesky, parameters
from jaxvar.algorithms.interface import Ellipsoids, Recommender, Side
from jaxvar.environments.interface import Observation
from jaxvar.lowering import take
from jaxvar.parameters import pytree, static
from jaxvar.sums import Sum, empty_sum

MAX_RECORDS = 1_000_000  # recorded rounds that are spaced for the user


class Event(NamedTuple):
    """One round, after the algorithm has learned from it."""

    round: jax.Array  # []   int32, from 1
    action: jax.Array  # []   int32
    layer: jax.Array  # []   int32, from 1; 0 where nothing was learned or the algorithm has no layers
    weight: jax.Array  # []
    reward: jax.Array  # []
    mean: jax.Array  # []   of the pulled arm
    regret: jax.Array  # []   of this round
    noise_var: jax.Array  # []   of the pulled arm
    state: Any  # the algorithm's
    rival: jax.Array | None = None  # []   int32, in duels: the second arm; reward, mean and noise_var are the outcome's
    observation: Observation | None = None  # the round's decision set, for recorders; in duels without variances


class EpisodeEvent(NamedTuple):
    """One episode, after the algorithm has learned from it; stages h on the axes of length H."""

    round: jax.Array  # []   int32, the episode's number, from 1
    action: jax.Array  # [H]   int32
    layer: jax.Array  # [H]   int32, from 1; 0 where nothing was learned or the algorithm has no layers
    weight: jax.Array  # [H]
    reward: jax.Array  # [H]   what the regression aims at: V_{h+1}(s'), of the episode's plan
    mean: jax.Array  # [H]   its mean, [P V_{h+1}](s, a)
    regret: jax.Array  # []   of this episode: V*(s_1) - V^pi(s_1)
    noise_var: jax.Array  # []   the sum over the path of the conditional variances of V*_{h+1}
    state: Any  # the algorithm's
    optimistic: jax.Array | None  # []   bool, whether V_h >= V*_h in all states and stages
    value_variance: jax.Array | None  # []   the sum over the path of the conditional variances of V_{h+1}
    plan: Any  # the algorithm's, of this episode
    visits: Any  # its steps, see :class:`jaxvar.episodes.Visit`


class Recorder(Protocol):
    """The name and the three methods of every recorder."""

    @property
    def name(self) -> str:
        """The name of what is recorded."""

    def init(self, algorithm: Any, instance: Any) -> Any:
        """Return the memory before the first round."""

    def update(self, memory: Any, event: Any, algorithm: Any, instance: Any) -> Any:
        """Return the memory after a round."""

    def read(self, memory: Any) -> jax.Array:
        """Return what is recorded of the memory."""


@pytree
class RunningSum:
    """The sum over all rounds (or episodes) so far of one number of each event."""

    name: str = static()
    field: str = static()  # of the event
    reads_plan = False  # of an episode; else its first stage is traced once more, for all states

    def init(self, algorithm: object, instance: object) -> Sum:
        """Return an empty sum."""
        return empty_sum()

    def update(self, memory: Sum, event: Event | EpisodeEvent, algorithm: object, instance: object) -> Sum:
        """Add the event's number."""
        return memory.add(_of_event(event, self.field, self.name))

    def read(self, memory: Sum) -> jax.Array:
        """Return the sum so far, []."""
        return memory.total


@pytree
class LayerRounds:
    """Rounds that ended in each layer so far (in episodes: steps it learned from); entry 0: nothing was learned."""

    name = "layer_rounds"

    def init(self, algorithm: object, instance: object) -> jax.Array:
        """Return zeros, [capacity + 1]."""
        return jnp.zeros(_num_layers(algorithm) + 1, jnp.int32)

    def update(self, memory: jax.Array, event: Event | EpisodeEvent, algorithm: object, instance: object) -> jax.Array:
        """Count a round of the event's layer, or each of its steps."""
        numbers = np.arange(memory.shape[0], dtype=np.int32)
        ended = numbers[:, None] == event.layer.reshape(1, -1)
        return memory + jnp.sum(ended.astype(jnp.int32), axis=1, dtype=jnp.int32)

    def read(self, memory: jax.Array) -> jax.Array:
        """Return the counts, [capacity + 1]."""
        return memory


class ConfidenceMemory(NamedTuple):
    """The noise part of the loss at theta*, and whether the event has held."""

    noise_loss: Sum  # [layers]   of w^2 (y - <theta*, x>)^2
    held: jax.Array  # [layers]   bool


@pytree
class ConfidenceEvent:
    """The event that ``|theta_hat - theta*|_Sigma <= beta`` has held in each layer in every round so far.

    Needs an algorithm with ``confidence`` and an instance with ``theta_star``. See
    :class:`jaxvar.algorithms.interface.Confidence` for the identity it rests on. Where ``confidence`` returns
    :class:`jaxvar.algorithms.interface.Ellipsoids` the distance itself is computed.
    """

    name = "confidence"

    def init(self, algorithm: object, instance: object) -> ConfidenceMemory:
        """Return no loss yet: the event holds before the first round if theta* is as short as assumed."""
        if not hasattr(algorithm, "confidence") or getattr(instance, "theta_star", None) is None:
            raise ValueError(
                "the confidence event needs an algorithm with `confidence` and an instance with `theta_star`"
            )
        num = _num_layers(algorithm)
        return ConfidenceMemory(empty_sum((num,)), jnp.ones(num, bool))

    def update(self, memory: ConfidenceMemory, event: Any, algorithm: Any, instance: Any) -> ConfidenceMemory:
        """Check every layer (only the one that learned can have changed)."""
        shape, theta_star = algorithm.confidence(event.state), instance.theta_star
        if isinstance(shape, Ellipsoids):

            def distance2(inverse: jax.Array, away: jax.Array) -> jax.Array:
                return jnp.sum(away * cholesky.solve(cholesky.factor(inverse), away), axis=0)

            inside = jax.vmap(distance2)(shape.sigma_inv, shape.theta_hat - theta_star[None]) <= shape.beta_hat**2
            return memory._replace(held=memory.held & inside)
        if isinstance(event, EpisodeEvent):
            _of_event(event, "value_variance", self.name)  # targets are values of the plan
        layers, noise = event.layer.reshape(-1), (event.weight * (event.reward - event.mean)).reshape(-1)
        numbers = np.arange(1, memory.held.shape[0] + 1, dtype=np.int32)
        learned = jnp.sum(jnp.where(numbers[:, None] == layers[None], (noise * noise)[None], 0), axis=1)
        noise_loss = memory.noise_loss.add(learned)
        more = noise_loss.minus(Sum(shape.loss, jnp.asarray(shape.lost, shape.loss.dtype)))
        inside = more + shape.ridge * jnp.sum(theta_star * theta_star, axis=0) <= shape.beta_hat**2
        return ConfidenceMemory(noise_loss, memory.held & inside)

    def read(self, memory: ConfidenceMemory) -> jax.Array:
        """Return whether the event has held, bool [layers]."""
        return memory.held


@pytree
class OptimisticEpisodes:
    """The number of episodes so far that had a plan with ``V_h >= V*_h`` in all states and stages."""

    name = "optimistic"

    def init(self, algorithm: object, instance: object) -> jax.Array:
        """Return zero, int32 []."""
        return jnp.int32(0)

    def update(self, memory: jax.Array, event: Event | EpisodeEvent, algorithm: object, instance: object) -> jax.Array:
        """Count an episode with an optimistic plan."""
        return memory + _of_event(event, "optimistic", self.name).astype(jnp.int32)

    def read(self, memory: jax.Array) -> jax.Array:
        """Return the number of such episodes, int32 []."""
        return memory


@pytree
class SimpleRegret:
    """The regret of the arm that the algorithm would recommend after the round, in the round's own decision set.

    Needs an algorithm with ``recommend(state, arms, side)``, the index of an arm; ``side`` tells only which arms are
    there. It is asked in every round, on top of playing.
    """

    name = "simple_regret"

    def init(self, algorithm: object, instance: object) -> jax.Array:
        """Return zero, []."""
        if not hasattr(algorithm, "recommend"):
            raise ValueError(
                f"the simple regret needs an algorithm with a method `recommend`, got {type(algorithm).__name__}"
            )
        return jnp.zeros(())

    def update(self, memory: jax.Array, event: Event, algorithm: Recommender, instance: object) -> jax.Array:
        """Return the gap between the best arm that is there and the recommended one, []."""
        seen = getattr(event, "observation", None)
        if seen is None:
            raise ValueError("record: 'simple_regret' needs rounds, in which there is a decision set")
        available = getattr(seen, "available", None)
        side = Side(None, None if available is None else jnp.asarray(available, bool))
        action = jnp.asarray(algorithm.recommend(event.state, seen.arms, side))
        if action.shape != () or not jnp.issubdtype(action.dtype, jnp.integer):
            who, came = type(algorithm).__name__, f"{action.dtype}{list(action.shape)}"
            raise ValueError(f"{who}.recommend must return the index of an arm, one integer, got an array {came}")
        best = jnp.max(side.present(seen.mean), axis=0)
        return (best - take(seen.mean, action.astype(jnp.int32))).astype(memory.dtype)

    def read(self, memory: jax.Array) -> jax.Array:
        """Return the regret of the last recommendation, []."""
        return memory


def _of_event(event: Event | EpisodeEvent, field: str, name: str) -> jax.Array:
    """Return a field of the event; refuse to record ``name`` where the event does not have it."""
    found: jax.Array | None = getattr(event, field, None)
    if found is None:
        raise ValueError(f"record: {name!r} needs episodes whose plans have a `value`")
    return found


def _num_layers(algorithm: object) -> int:
    return int(getattr(algorithm, "capacity", 1))


def regret() -> RunningSum:
    """Record the cumulative pseudo-regret: the sum of gaps between means, never of noisy rewards."""
    return RunningSum(name="regret", field="regret")


def variance() -> RunningSum:
    """Record the total noise variance of the pulled arms; in episodes ``Var*_K``, that of V* along the paths."""
    return RunningSum(name="variance", field="noise_var")


def simple_regret() -> SimpleRegret:
    """Record the regret of the arm that the algorithm would recommend after the round: not a sum over rounds."""
    return SimpleRegret()


def layer_rounds() -> LayerRounds:
    """Record how many rounds ended in each layer."""
    return LayerRounds()


def confidence() -> ConfidenceEvent:
    """Record, per layer, whether the confidence event has held so far."""
    return ConfidenceEvent()


def optimism() -> OptimisticEpisodes:
    """Record how many episodes had an optimistic plan."""
    return OptimisticEpisodes()


def value_variance() -> RunningSum:
    """Record the sum over all paths of the conditional variances of the plans' value functions."""
    return RunningSum(name="value_variance", field="value_variance")


def linear_spaced(num_rounds: int, num: int) -> np.ndarray[Any, Any]:
    """Return about ``num`` rounds, evenly spaced, the last one being ``num_rounds``."""
    _check_spacing(num_rounds, num)
    return np.unique(np.round(np.linspace(0, num_rounds, num + 1)[1:]).astype(np.int32).clip(1))


def log_spaced(num_rounds: int, num: int) -> np.ndarray[Any, Any]:
    """Return at most ``num`` rounds from 1 to ``num_rounds``, evenly spaced on a logarithmic axis."""
    _check_spacing(num_rounds, num)
    return np.unique(np.round(np.geomspace(1, num_rounds, num)).astype(np.int32))


def _check_spacing(num_rounds: int, num: int) -> None:
    parameters.check_count("num_rounds", num_rounds, high=2**31 - 1)
    parameters.check_count("num", num, high=MAX_RECORDS)


def record_rounds(
    records: int | Sequence[int] | parameters.Array | None, num_rounds: int, name: str = "record_at"
) -> parameters.Array:
    """Return the rounds to record: a number of evenly spaced ones, or those given (increasing in 1..num_rounds).

    Errors call the argument ``name``.
    """
    if records is None:
        records = min(num_rounds, 100)
    if parameters.rank(name, records) == 0:
        return linear_spaced(num_rounds, parameters.check_count(name, records, high=min(num_rounds, MAX_RECORDS)))
    if parameters.rank(name, records) != 1 or parameters.kind_of(records) not in ("i", "u"):
        raise ValueError(
            f"{name} must be a number of rounds or a list of round numbers, got {parameters.shown(records)}"
        )
    rounds = np.asarray(records)
    if rounds[0] < 1 or rounds[-1] > num_rounds or np.any(np.diff(rounds) <= 0):
        raise ValueError(f"{name} must increase strictly within 1..{num_rounds}, got {parameters.shown(records)}")
    return rounds.astype(np.int32)


def join_chunks(parts: list[parameters.Array]) -> parameters.Array:
    """Concatenate readings of chunks; those played with fewer layers are padded: no rounds there, and no failure."""
    shape = np.max([part.shape[1:] for part in parts], axis=0)
    padded = []
    for part in parts:
        missing = [(0, 0)] + [(0, n - m) for n, m in zip(shape, part.shape[1:], strict=True)]
        padded.append(np.pad(part, missing, constant_values=part.dtype == bool) if np.any(missing) else part)
    return np.concatenate(padded)
