"""One seed, one scan: an algorithm meets an environment, in rounds or in episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import checks, episodes, random, records, rounds, seeds
from jaxvar.batching import on_accelerator, scan_numbers
from jaxvar.environments.interface import MdpInstance
from jaxvar.sweep import grid_of

STREAMS = seeds.STREAMS
DEFAULT_RECORDERS = (records.regret(), records.variance())


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


class Trace(NamedTuple):
    """Every decision of one seed, enough to check the algorithm again."""

    arms: jax.Array  # [K, num_arms, dim]
    mean: jax.Array  # [K, num_arms]
    action: jax.Array  # [K]
    layer: jax.Array  # [K]   1..L as in the paper; 0 where no layer learned
    weight: jax.Array  # [K]
    reward: jax.Array  # [K]
    noise_var: jax.Array  # [K]   of the pulled arm
    regret: jax.Array  # [K]   cumulative
    state: Any  # [K, ...]   the algorithm's, after each round
    instance: Any
    status: jax.Array  # []
    status_round: jax.Array  # []


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
    learner: Any  # [K, ...]   the algorithm's state, after each episode
    instance: MdpInstance
    status: jax.Array  # []
    status_round: jax.Array  # []


def run(
    algorithm: Any,
    environment: Any,
    key: jax.Array,
    *,
    num_rounds: int | None = None,
    num_episodes: int | None = None,
    seed: Any = 0,
    records: int | Sequence[int] | None = None,
    record: tuple[Any, ...] = DEFAULT_RECORDERS,
) -> RunResult:
    """Play one seed; safe inside a caller's ``jit``, ``vmap`` and ``scan``.

    Args:
      algorithm: see :mod:`jaxvar.algorithms.interface`.
      environment: see :mod:`jaxvar.environments.interface`.
      key: the root key; ``seed`` is folded into it.
      num_rounds: rounds to play (static), where the environment is a bandit.
      num_episodes: episodes to play (static), where it is episodic.
      seed: number of the seed, as in ``simulate``.
      records: how many evenly spaced rounds (or episodes) to record, or which; 100 if not given.
      record: recorders, from :mod:`jaxvar.record`.

    Returns:
      The readings at the recorded rounds, and the status.
    """
    num = check_call(algorithm, environment, key, num_rounds, num_episodes, record)
    when = _record_rounds(records, num)
    fixed, carry = begin(algorithm, environment, random.key_words(key), _seed(seed), record)
    each = _alone(algorithm, environment, fixed)

    def step(carry: Any, round: jax.Array) -> Any:
        return advance(each, environment, record, carry, round)[0]

    carry, readings = play(step, lambda c: read(record, c), carry, when, num)
    return RunResult(jnp.asarray(when), readings, carry.status, carry.status_round)


def trace(
    algorithm: Any,
    environment: Any,
    key: jax.Array,
    *,
    num_rounds: int | None = None,
    num_episodes: int | None = None,
    seed: Any = 0,
) -> Any:
    """Play one seed and keep everything, as arrays over rounds or episodes: memory grows with them.

    Returns a :class:`Trace` of a bandit and an :class:`EpisodeTrace` of an episodic environment.
    """
    recorders = (records.regret(),)
    num = check_call(algorithm, environment, key, num_rounds, num_episodes, recorders)
    fixed, carry = begin(algorithm, environment, random.key_words(key), _seed(seed), recorders)
    each = _alone(algorithm, environment, fixed)

    def step(carry: Any, round: jax.Array) -> tuple[Any, Any]:
        carry, seen = advance(each, environment, recorders, carry, round)
        return carry, (seen, carry.memories[0].total)

    carry, (seen, regret) = jax.lax.scan(step, carry, jnp.arange(1, num + 1, dtype=jnp.int32))
    ending = {"regret": regret, "instance": fixed.instance, "status": carry.status, "status_round": carry.status_round}
    if is_episodic(environment):
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
    return Trace(
        arms=observation.arms,
        mean=observation.mean,
        action=event.action,
        layer=event.layer,
        weight=event.weight,
        reward=event.reward,
        noise_var=event.noise_var,
        state=event.state,
        **ending,
    )


def is_episodic(environment: Any) -> bool:
    """Whether the environment is a Markov decision process (else it is a bandit)."""
    return hasattr(environment, "horizon") and not hasattr(environment, "observe")


def begin(
    algorithm: Any, environment: Any, words: jax.Array, seed: jax.Array, recorders: tuple[Any, ...]
) -> tuple[seeds.Seed, seeds.Carry]:
    """Draw the seed's problem and set everything up for round 1; ``words`` are those of the root key."""
    kind = episodes if is_episodic(environment) else rounds
    return kind.begin(algorithm, environment, words, seed, recorders)


def advance(
    each: seeds.Each, environment: Any, recorders: tuple[Any, ...], carry: Any, round: jax.Array
) -> tuple[Any, Any]:
    """One round or episode of one seed, or of a block of them; returns what is carried on and what was seen."""
    if is_episodic(environment):
        return episodes.advance(each, recorders, carry, round, environment.horizon)
    return rounds.advance(each, recorders, carry, round)


def settle(each: seeds.Each, environment: Any, carry: Any) -> Any:
    """What is carried, in the form in which any device goes on from it."""
    return carry if is_episodic(environment) else rounds.settle(each, carry)


def _alone(algorithm: Any, environment: Any, fixed: seeds.Seed) -> seeds.Each:
    def each(function: Any, *carried: Any, shared: tuple[Any, ...] = ()) -> Any:
        return function(algorithm, environment, fixed, *carried, *shared)

    return each


def read(recorders: tuple[Any, ...], carry: seeds.Carry) -> dict[str, jax.Array]:
    """Each recorder's reading."""
    return {r.name: r.read(m) for r, m in zip(recorders, carry.memories, strict=True)}


def play(step: Any, reading: Any, carry: Any, rounds: Any, num_rounds: int) -> tuple[Any, dict[str, jax.Array]]:
    """Play rounds 1 to ``num_rounds``; ``reading(carry)`` is stored at each of ``rounds``."""
    carry, store = play_on(step, reading, carry, empty_store(reading, carry, rounds), rounds, num_rounds)
    return carry, jax.tree.map(lambda s: s[: rounds.shape[0]], store)


def empty_store(reading: Any, carry: Any, rounds: Any) -> dict[str, jax.Array]:
    """Room for the readings at ``rounds``, with one slot more: rounds after the last recorded one write there."""
    num = rounds.shape[0] + 1
    return jax.tree.map(lambda x: jnp.zeros((num, *x.shape), x.dtype), jax.eval_shape(reading, carry))


def play_on(
    step: Any,
    reading: Any,
    carry: Any,
    store: dict[str, jax.Array],
    rounds: Any,
    num_rounds: Any,
    first: Any = 1,
    slot: Any = 0,
) -> tuple[Any, dict[str, jax.Array]]:
    """Play ``num_rounds`` rounds from ``first`` on; returns what is carried on, and the store.

    The store is part of the loop: each round writes the slot of the next recorded round, so that a single loop serves
    any spacing. Where ``num_rounds`` is an ``int`` the loop has a known number of turns, and an accelerator never asks
    the host whether to go on; else the same program plays any number.

    Args:
      step: ``step(carry, round) -> carry``.
      reading: ``reading(carry)`` is what is stored.
      carry: what is carried into round ``first``.
      store: from :func:`empty_store`, filled as far as played.
      rounds: [records] those to store.
      num_rounds: how many rounds to play.
      first: the first of them.
      slot: how many of ``rounds`` come before ``first``.
    """
    if on_accelerator():
        return _play_in_few_kernels(step, reading, carry, store, rounds, num_rounds, first)
    due = jnp.append(jnp.asarray(rounds, jnp.int32), 0)

    def body(loop: tuple[Any, Any, jax.Array, jax.Array]) -> tuple[Any, Any, jax.Array, jax.Array]:
        carry, store, slot, round = loop
        carry = step(carry, round)
        store = jax.tree.map(lambda s, x: jax.lax.dynamic_update_index_in_dim(s, x, slot, 0), store, reading(carry))
        return carry, store, slot + (round == due[slot]).astype(jnp.int32), round + 1

    start = (carry, store, jnp.int32(slot), jnp.int32(first))
    if isinstance(num_rounds, int):
        (carry, store, _, _), _ = jax.lax.scan(lambda loop, _: (body(loop), None), start, None, length=num_rounds)
    else:
        end = jnp.int32(first) + num_rounds
        carry, store, _, _ = jax.lax.while_loop(lambda loop: loop[3] < end, body, start)
    return carry, store


def _play_in_few_kernels(
    step: Any, reading: Any, carry: Any, store: dict[str, jax.Array], rounds: Any, num_rounds: int, first: Any
) -> tuple[Any, dict[str, jax.Array]]:
    """:func:`play_on` for an accelerator, where whatever a round changes may be a kernel of its own.

    So round and slot are looked up, the scan's own counter being all that is counted, and readings of one shape share a
    store, which is one write.
    """
    numbers = first + jnp.arange(num_rounds, dtype=jnp.int32)
    slots = jnp.searchsorted(jnp.asarray(rounds, jnp.int32), numbers).astype(jnp.int32)
    groups: dict[Any, list[str]] = {}
    for name, x in store.items():
        groups.setdefault((x.shape, x.dtype), []).append(name)
    names = list(groups.values())

    def stacked(values: dict[str, jax.Array], axis: int) -> list[jax.Array]:
        return [jnp.stack([values[name] for name in group], axis) for group in names]

    def body(carry: Any, stores: Any, now: tuple[jax.Array, jax.Array]) -> tuple[Any, Any, None]:
        round, slot = now
        carry = step(carry, round)
        new = stacked(reading(carry), 0)
        stores = [jax.lax.dynamic_update_index_in_dim(s, x, slot, 0) for s, x in zip(stores, new, strict=True)]
        return carry, stores, None

    carry, stores, _ = scan_numbers(body, carry, stacked(store, 1), (numbers, slots), carry.status.ndim)
    filled = {name: s[:, i] for s, group in zip(stores, names, strict=True) for i, name in enumerate(group)}
    return carry, filled


def check_call(algorithm: Any, environment: Any, key: Any, num_rounds: Any, num_episodes: Any, recorders: Any) -> int:
    """Refuse what cannot be played, before anything is traced; returns how many rounds or episodes to play."""
    checks.key("key", key)
    for name, target in (("algorithm", algorithm), ("environment", environment)):
        if grid_of(target) is not None:
            raise ValueError(f"{name} must be one setting, got a sweep; jaxvar.simulate takes sweeps")
    for name in ("dim", "horizon"):
        ours, theirs = getattr(algorithm, name, None), getattr(environment, name, None)
        if ours is not None and theirs is not None and ours != theirs:
            raise ValueError(f"algorithm must have the environment's {name} {theirs}, got {name} {ours}")
    if not isinstance(recorders, tuple | list) or not all(
        hasattr(r, name) for r in recorders for name in ("name", "init", "update", "read")
    ):
        raise ValueError(f"record must be a tuple of recorders from jaxvar.record, got {recorders!r}")
    episodic = is_episodic(environment)
    kind, method = ("episodic", "plan") if episodic else ("bandit", "select")
    if not hasattr(algorithm, method):
        raise ValueError(
            f"algorithm must have a method {method!r} to play the {kind} environment "
            f"{type(environment).__name__}, got {type(algorithm).__name__}"
        )
    wanted, other = ("num_episodes", "num_rounds") if episodic else ("num_rounds", "num_episodes")
    given, wrong = (num_episodes, num_rounds) if episodic else (num_rounds, num_episodes)
    if given is None or wrong is not None:
        raise ValueError(f"{wanted} must be given for the {kind} environment, and {other} must not")
    return checks.count(wanted, given, high=getattr(environment, "max_rounds", None))


def _seed(seed: Any) -> jax.Array:
    if not checks.is_traced(seed) and not (isinstance(seed, jax.Array | np.ndarray) and seed.dtype.kind in "iu"):
        seed = checks.count("seed", seed, low=0, high=2**31 - 1)
    return jnp.asarray(seed)


def _record_rounds(which: Any, num_rounds: int) -> np.ndarray[Any, Any]:
    return records.record_rounds(which, num_rounds)
