"""One seed, one scan: ``run`` reads recorders at some rounds, ``trace`` keeps everything."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from chex import ArrayTree

from jaxvar import engine, game, memory, parameters, random, status
from jaxvar import records as recording
from jaxvar.algorithms.interface import Algorithm, EpisodicAlgorithm
from jaxvar.blocks import batch_last
from jaxvar.environments.interface import Environment, EpisodicEnvironment, MdpInstance
from jaxvar.game import DEFAULT_RECORDERS, check_call, renamed_arguments
from jaxvar.records import Recorder
from jaxvar.simulate import SimulationError


class RunResult(NamedTuple):
    """One run: each recorder's readings at ``rounds`` (episodes, where there are any)."""

    rounds: jax.Array  # [records]
    records: dict[str, jax.Array]  # name -> [records, ...]
    status: jax.Array  # []
    status_round: jax.Array  # []

    @property
    def episodes(self) -> jax.Array:
        """``rounds``, under the name they have where a round is an episode."""
        return self.rounds

    @property
    def regret(self) -> jax.Array:
        """Cumulative pseudo-regret, [records]."""
        return self.records["regret"]

    def raise_if_failed(self) -> None:
        """Raise a :class:`SimulationError` with round, cause and remedy, if the run (or one of a batch) failed."""
        _raise_if_failed(self.status, self.status_round)


class Trace(NamedTuple):
    """Every decision of one seed, enough to check the algorithm again."""

    arms: jax.Array  # [K, num_arms, dim]
    mean: jax.Array  # [K, num_arms]
    action: jax.Array  # [K]
    layer: jax.Array  # [K]   1..L as in the paper; 0 where no layer learned
    weight: jax.Array  # [K]
    reward: jax.Array  # [K]
    noise_var: jax.Array  # [K]   of the pulled arm
    available: jax.Array | None  # [K, num_arms]   bool, which arms could be pulled; None where all could
    rival: jax.Array | None  # [K]   the second arm, in duels
    regret: jax.Array  # [K]   cumulative
    state: ArrayTree  # [K, ...]   the algorithm's, after each round
    instance: ArrayTree
    status: jax.Array  # []
    status_round: jax.Array  # []

    def raise_if_failed(self) -> None:
        """Raise a :class:`SimulationError` with round, cause and remedy, if the run failed."""
        _raise_if_failed(self.status, self.status_round)


class EpisodeTrace(NamedTuple):
    """Every decision of one seed in K episodes of H steps, enough to check the algorithm again."""

    state: jax.Array  # [K, H]
    action: jax.Array  # [K, H]
    next_state: jax.Array  # [K, H]
    layer: jax.Array  # [K, H]   1..L as in the paper; 0 where no layer learned
    weight: jax.Array  # [K, H]
    policy: jax.Array  # [K, H, S]
    value: jax.Array | None  # [K, H + 1, S]   the plan's, where it has values
    regret: jax.Array  # [K]   cumulative
    variance: jax.Array  # [K]   of V* along the episode's path: the terms of Var*_K
    learner: ArrayTree  # [K, ...]   the algorithm's state, after each episode
    instance: MdpInstance
    status: jax.Array  # []
    status_round: jax.Array  # []

    def raise_if_failed(self) -> None:
        """Raise a :class:`SimulationError` with round, cause and remedy, if the run failed."""
        _raise_if_failed(self.status, self.status_round)


def run(
    algorithm: Algorithm | EpisodicAlgorithm,
    environment: Environment | EpisodicEnvironment,
    key: jax.Array,
    *,
    num_rounds: int | None = None,
    num_episodes: int | None = None,
    seed: int | jax.Array = 0,
    record_at: int | Sequence[int] | None = None,
    recorders: tuple[Recorder, ...] = DEFAULT_RECORDERS,
    records: int | Sequence[int] | None = None,
    record: tuple[Recorder, ...] | None = None,
) -> RunResult:
    """Play one seed; safe inside a caller's ``jit``, ``vmap`` and ``scan``.

    Where more layers are needed than the algorithm stores, it is played again with more, as in ``simulate``. Inside a
    caller's ``jit`` that cannot be: ``status.CAPACITY`` is set, and ``raise_if_failed`` says what to do.

    Args:
      algorithm: see :mod:`jaxvar.algorithms.interface`.
      environment: see :mod:`jaxvar.environments.interface`.
      key: the root key; ``seed`` is folded into it.
      num_rounds: rounds to play (static), where the environment is a bandit.
      num_episodes: episodes to play (static), where it is episodic.
      seed: number of the seed, as in ``simulate``.
      record_at: how many evenly spaced rounds (or episodes) to record, or which; 100 if not given.
      recorders: what to record, from :mod:`jaxvar.record`.
      records: the old name of ``record_at``; to be removed.
      record: the old name of ``recorders``; to be removed.

    Returns:
      The readings at the recorded rounds, and the status.
    """
    record_at, recorders = renamed_arguments(record_at, recorders, records, record)
    num = check_call(algorithm, environment, key, num_rounds, num_episodes, recorders)
    when = recording.record_rounds(record_at, num)
    is_large = _check_memory(algorithm, environment, tuple(recorders), key, len(when))
    while True:
        play = _player(num, type(algorithm), type(environment))
        parts = [engine.as_pytree(part) for part in (algorithm, environment, *recorders)]
        inputs = (parts, when, random.key_words(key), _seed(seed))
        if is_large:
            needed = engine.compiled_bytes(play.lower(*inputs).compile())
            memory.refuse_above(memory.free_memory(), needed, "the seed needs", "make the problem smaller")
        result = RunResult(jnp.asarray(when), *play(*inputs))
        if parameters.is_traced(result.status) or not engine.needs_capacity(result.status, algorithm):
            return result
        algorithm = engine.grown(algorithm)


def trace(
    algorithm: Algorithm | EpisodicAlgorithm,
    environment: Environment | EpisodicEnvironment,
    key: jax.Array,
    *,
    num_rounds: int | None = None,
    num_episodes: int | None = None,
    seed: int | jax.Array = 0,
) -> Any:
    """Play one seed and keep everything, as arrays over rounds or episodes: memory grows with them.

    Capacity grows as in :func:`run`. Returns a :class:`Trace` of a bandit and an :class:`EpisodeTrace` of an episodic
    environment.
    """
    num = check_call(algorithm, environment, key, num_rounds, num_episodes, ())
    _check_memory(algorithm, environment, (), key, num)
    while True:
        play = _tracer(num, type(algorithm), type(environment))
        parts = [engine.as_pytree(part) for part in (algorithm, environment)]
        inputs = (parts, random.key_words(key), _seed(seed))
        needed = memory.num_bytes(jax.eval_shape(play, *inputs))
        memory.refuse_above(memory.free_memory(), needed, f"a trace of {num:,} rounds needs", "trace fewer rounds")
        seen, regret, fixed, carry = play(*inputs)
        if parameters.is_traced(carry.status) or not engine.needs_capacity(carry.status, algorithm):
            break
        algorithm = engine.grown(algorithm)
    ending = {"regret": regret, "instance": fixed.instance, "status": carry.status, "status_round": carry.status_round}
    if game.is_episodic(environment):
        event, plan, visits = seen
        return EpisodeTrace(
            state=visits.state,
            action=visits.action,
            next_state=visits.next_state,
            layer=event.layer,
            weight=event.weight,
            policy=plan.policy,
            value=getattr(plan, "value", None),
            variance=event.noise_var,
            learner=event.state,
            **ending,
        )
    event, observation = seen
    told = ("action", "layer", "weight", "reward", "noise_var", "rival", "state")
    return Trace(
        arms=observation.arms,
        mean=observation.mean,
        available=getattr(observation, "available", None),
        **{name: getattr(event, name) for name in told},
        **ending,
    )


@functools.cache
def _player(num: int, *kinds: type) -> jax.stages.Wrapped:
    """Return the compiled function that plays ``num`` rounds of one seed.

    Programs of different classes are kept apart: JAX may take two registered dataclasses for one.
    """

    @jax.jit
    @batch_last
    def play(parts: ArrayTree, when: jax.Array, key_data: jax.Array, seed: jax.Array) -> ArrayTree:
        algorithm, environment, *rest = (engine.unwrap(part) for part in parts)
        rules, recorders = engine.game_of(environment), tuple(rest)
        fixed, carry = rules.begin(algorithm, environment, game.seed_keys(key_data, seed), recorders)

        def step(carry: game.Carry, round: jax.Array) -> game.Carry:
            return rules.step(algorithm, environment, recorders, fixed, carry, round)[0]

        read = functools.partial(game.read, recorders)
        carry, store = engine.play_rounds(step, read, carry, engine.empty_store(read, carry, when), when, num)
        carry = game.check_digits(carry, jnp.int32(num))
        return {name: x[: when.shape[0]] for name, x in store.items()}, carry.status, carry.status_round

    return play


@functools.cache
def _tracer(num: int, *kinds: type) -> Callable[..., tuple[ArrayTree, jax.Array, game.SeedConstants, game.Carry]]:
    """Return the compiled function that plays ``num`` rounds of one seed and keeps all that happened in them."""
    recorders = (recording.regret(),)

    @jax.jit
    def play(parts: ArrayTree, key_data: jax.Array, seed: jax.Array) -> ArrayTree:
        algorithm, environment = (engine.unwrap(part) for part in parts)
        rules = engine.game_of(environment)
        fixed, carry = rules.begin(algorithm, environment, game.seed_keys(key_data, seed), recorders)

        def step(carry: game.Carry, round: jax.Array) -> tuple[game.Carry, ArrayTree]:
            carry, seen = rules.step(algorithm, environment, recorders, fixed, carry, round)
            return carry, (seen(), carry.memories[0].total)

        carry, (seen, regret) = jax.lax.scan(step, carry, jnp.arange(1, num + 1, dtype=jnp.int32))
        return seen, regret, fixed, game.check_digits(carry, jnp.int32(num))

    return play


def _check_memory(
    algorithm: Algorithm | EpisodicAlgorithm,
    environment: Environment | EpisodicEnvironment,
    recorders: tuple[Recorder, ...],
    key: jax.Array,
    num_records: int,
) -> bool:
    """Refuse a seed that does not fit into the memory; inside a caller's ``jit`` that is the caller's to know.

    Returns:
      Whether it is so large that the compiled program should be asked as well.
    """
    if any(map(parameters.is_traced, jax.tree.leaves((algorithm, environment, key)))):
        return False
    return memory.check(algorithm, environment, recorders, side_by_side=1, num_seeds=1, num_records=num_records)


def _seed(seed: int | jax.Array) -> jax.Array:
    if not parameters.is_traced(seed):
        seed = parameters.check_count("seed", seed, low=0, high=2**31 - 1)
    return jnp.asarray(seed)


def _raise_if_failed(bits: jax.Array, rounds: jax.Array) -> None:
    failed = np.argwhere(np.asarray(bits) != 0)
    if len(failed) == 0:
        return
    where = tuple(failed[0])
    found = int(np.asarray(bits)[where])
    of = f" {len(failed)} of {np.size(bits)} runs; the first" if np.size(bits) > 1 else " the run"
    remedy = ""
    if found & status.CAPACITY:
        remedy = (
            "; build the algorithm with a larger capacity= (or memory=), or call run, trace or simulate outside of jit"
            ": they grow it"
        )
    raise SimulationError(f"failed:{of} in round {int(np.asarray(rounds)[where])}, {status.describe(found)}{remedy}")
