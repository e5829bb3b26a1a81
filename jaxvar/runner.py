"""One seed, one scan: an algorithm meets an environment.

Keys: the root key and the seed's number give the seed's key; it has a branch for each stream (instance, contexts,
noise, algorithm), and each branch one key per round, all by ``fold_in``. So every algorithm meets the same arms and
the same noise in round k of seed s, whatever else runs, and a run can start at any round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import checks, random, records, status, ties
from jaxvar.algorithms.interface import Side
from jaxvar.batching import seeds_last
from jaxvar.sweep import grid_of

STREAMS = ("instance", "contexts", "noise", "algorithm")
DEFAULT_RECORDERS = (records.regret(), records.variance())


class Seed(NamedTuple):
    """What stays the same over the rounds of one seed."""

    instance: Any
    streams: jax.Array  # [3, 2]   uint32, the keys of contexts, noise and algorithm


class Carry(NamedTuple):
    """What one seed carries from round to round."""

    state: Any  # the algorithm's
    keys: tuple[jax.Array, jax.Array]  # two [3], uint32: the next round's keys, made one round ahead
    memories: tuple[Any, ...]  # the recorders'
    status: jax.Array  # []   int32
    status_round: jax.Array  # []   int32, the first round with a status; 0 while there is none


class RunResult(NamedTuple):
    """One run: each recorder's readings at ``rounds``."""

    rounds: jax.Array  # [records]
    records: dict[str, jax.Array]  # name -> [records, ...]
    status: jax.Array  # []
    status_round: jax.Array  # []

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


def run(
    algorithm: Any,
    environment: Any,
    key: jax.Array,
    *,
    num_rounds: int,
    seed: Any = 0,
    records: int | Sequence[int] | None = None,
    record: tuple[Any, ...] = DEFAULT_RECORDERS,
) -> RunResult:
    """Play ``num_rounds`` rounds with one seed; safe inside a caller's ``jit``, ``vmap`` and ``scan``.

    Args:
      algorithm: see :mod:`jaxvar.algorithms.interface`.
      environment: see :mod:`jaxvar.environments.interface`.
      key: the root key; ``seed`` is folded into it.
      num_rounds: rounds to play (static).
      seed: number of the seed, as in ``simulate``.
      records: how many evenly spaced rounds to record, or which rounds; 100 if not given.
      record: recorders, from :mod:`jaxvar.record`.

    Returns:
      The readings at the recorded rounds, and the status.
    """
    num_rounds = check_call(algorithm, environment, key, num_rounds, record)
    rounds = _record_rounds(records, num_rounds)
    fixed, carry = begin(algorithm, environment, random.key_words(key), _seed(seed), record)

    def step(carry: Carry, round: jax.Array) -> Carry:
        return advance(algorithm, environment, record, fixed, carry, round)[0]

    carry, readings = play(step, lambda c: read(record, c), carry, rounds, num_rounds)
    return RunResult(jnp.asarray(rounds), readings, carry.status, carry.status_round)


def trace(algorithm: Any, environment: Any, key: jax.Array, *, num_rounds: int, seed: Any = 0) -> Trace:
    """Play one seed and keep everything, as arrays over rounds: memory grows with them."""
    num_rounds = check_call(algorithm, environment, key, num_rounds, ())
    return _trace(algorithm, environment, random.key_words(key), _seed(seed), num_rounds)


def _trace(algorithm: Any, environment: Any, words: jax.Array, seed: jax.Array, num_rounds: int) -> Trace:
    fixed, carry = begin(algorithm, environment, words, seed, (records.regret(),))

    def step(carry: Carry, round: jax.Array) -> tuple[Carry, Any]:
        carry, (event, observation) = advance(algorithm, environment, (records.regret(),), fixed, carry, round)
        return carry, (event, observation, carry.memories[0].total)

    carry, (event, observation, regret) = jax.lax.scan(step, carry, jnp.arange(1, num_rounds + 1, dtype=jnp.int32))
    return Trace(
        arms=observation.arms,
        mean=observation.mean,
        action=event.action,
        layer=event.layer,
        weight=event.weight,
        reward=event.reward,
        noise_var=event.noise_var,
        regret=regret,
        state=event.state,
        instance=fixed.instance,
        status=carry.status,
        status_round=carry.status_round,
    )


def begin(
    algorithm: Any, environment: Any, words: jax.Array, seed: jax.Array, recorders: tuple[Any, ...]
) -> tuple[Seed, Carry]:
    """Draw the seed's problem and set everything up for round 1; ``words`` are those of the root key."""
    root = jax.random.wrap_key_data(words, impl="threefry2x32")
    own = random.fold_in(root, seed)
    instance_key, *rest = (random.fold_in(own, i) for i in range(len(STREAMS)))
    instance = environment.init(instance_key)
    streams = jnp.stack([jax.random.key_data(k) for k in rest])
    algorithm = _specialise(algorithm, environment, instance)
    carry = Carry(
        state=algorithm.init(),
        keys=_round_keys(streams, jnp.int32(1)),
        memories=tuple(r.init(algorithm, instance) for r in recorders),
        status=jnp.int32(0),
        status_round=jnp.int32(0),
    )
    return Seed(instance, streams), carry


def advance(
    algorithm: Any, environment: Any, recorders: tuple[Any, ...], fixed: Seed, carry: Carry, round: jax.Array
) -> tuple[Carry, tuple[records.Event, Any]]:
    """One round of one seed."""
    instance = fixed.instance
    algorithm = _specialise(algorithm, environment, instance)
    # XLA would compute a round's keys anew for each number drawn from them, did they not come out of the carry.
    k_contexts, k_noise, k_algorithm = (
        jax.random.wrap_key_data(jnp.stack([carry.keys[0][i], carry.keys[1][i]]), impl="threefry2x32") for i in range(3)
    )
    observation = environment.observe(instance, round, k_contexts)
    chex.assert_rank([observation.arms, observation.mean, observation.noise_var], [2, 1, 1])
    choice = algorithm.select(carry.state, observation.arms, k_algorithm, Side(observation.noise_var))
    action = jnp.asarray(choice.action).astype(jnp.int32)
    x, mean, noise_var, best = _look_up(observation.arms, observation.mean, observation.noise_var, action)
    reward = environment.pull(instance, observation, action, round, k_noise)
    chex.assert_shape([reward, action], ())
    state = algorithm.update(carry.state, choice, x, reward, Side(noise_var))

    event = records.Event(
        round=round,
        action=action,
        layer=getattr(choice, "layer", jnp.int32(0)),
        weight=getattr(choice, "weight", jnp.zeros_like(reward)),
        reward=reward,
        mean=mean,
        regret=best - mean,
        noise_var=noise_var,
        state=state,
    )
    finite = jnp.isfinite(reward) & jnp.isfinite(best - mean)
    bits = getattr(state, "status", jnp.int32(0)) | jnp.where(finite, 0, status.NONFINITE).astype(jnp.int32)
    carry = Carry(
        state=state,
        keys=_round_keys(fixed.streams, round + 1),
        memories=tuple(r.update(m, event, algorithm, instance) for r, m in zip(recorders, carry.memories, strict=True)),
        status=carry.status | bits,
        status_round=jnp.where((carry.status_round == 0) & (bits != 0), round, carry.status_round),
    )
    return carry, (event, observation)


def read(recorders: tuple[Any, ...], carry: Carry) -> dict[str, jax.Array]:
    """Each recorder's reading."""
    return {r.name: r.read(m) for r, m in zip(recorders, carry.memories, strict=True)}


def play(step: Any, reading: Any, carry: Any, rounds: Any, num_rounds: int) -> tuple[Any, dict[str, jax.Array]]:
    """Scan over the rounds; ``reading(carry)`` is stored at each of ``rounds``.

    The store is part of the scan's carry: each round writes the slot of the next recorded round, so that a single
    loop with a known number of turns serves any spacing (an accelerator then never asks the host whether to go on).
    """
    num = rounds.shape[0]
    due = jnp.append(jnp.asarray(rounds, jnp.int32), 0)
    # One slot more than is kept: rounds after the last recorded one write there.
    store = jax.tree.map(lambda x: jnp.zeros((num + 1, *x.shape), x.dtype), jax.eval_shape(reading, carry))

    def body(loop: tuple[Any, Any, jax.Array, jax.Array], _: None) -> tuple[Any, None]:
        carry, store, slot, round = loop
        carry = step(carry, round)
        store = jax.tree.map(lambda s, x: jax.lax.dynamic_update_index_in_dim(s, x, slot, 0), store, reading(carry))
        return (carry, store, slot + (round == due[slot]).astype(jnp.int32), round + 1), None

    start = (carry, store, jnp.int32(0), jnp.int32(1))
    (carry, store, _, _), _ = jax.lax.scan(body, start, None, length=num_rounds)
    return carry, jax.tree.map(lambda s: s[:num], store)


def check_call(algorithm: Any, environment: Any, key: Any, num_rounds: Any, recorders: Any) -> int:
    """Refuse what cannot be played, before anything is traced; returns ``num_rounds``."""
    checks.key("key", key)
    for name, target in (("algorithm", algorithm), ("environment", environment)):
        if grid_of(target) is not None:
            raise ValueError(f"{name} must be one setting, got a sweep; jaxvar.simulate takes sweeps")
    ours, theirs = getattr(algorithm, "dim", None), getattr(environment, "dim", None)
    if ours is not None and theirs is not None and ours != theirs:
        raise ValueError(f"algorithm must have the environment's dim {theirs}, got dim {ours}")
    if not isinstance(recorders, tuple | list) or not all(
        hasattr(r, name) for r in recorders for name in ("name", "init", "update", "read")
    ):
        raise ValueError(f"record must be a tuple of recorders from jaxvar.record, got {recorders!r}")
    return checks.count("num_rounds", num_rounds, high=getattr(environment, "max_rounds", None))


def _seed(seed: Any) -> jax.Array:
    if not checks.is_traced(seed) and not (isinstance(seed, jax.Array | np.ndarray) and seed.dtype.kind in "iu"):
        seed = checks.count("seed", seed, low=0, high=2**31 - 1)
    return jnp.asarray(seed)


def _record_rounds(which: Any, num_rounds: int) -> np.ndarray[Any, Any]:
    return records.record_rounds(which, num_rounds)


def _specialise(algorithm: Any, environment: Any, instance: Any) -> Any:
    if getattr(environment, "fixed_arms", False) and hasattr(algorithm, "with_fixed_arms"):
        return algorithm.with_fixed_arms(instance.arms)
    return algorithm


@seeds_last
def _round_keys(streams: jax.Array, round: jax.Array) -> tuple[jax.Array, jax.Array]:
    """``fold_in(stream, round)`` of each stream ``[3, 2]``, as two arrays of words ``[3]``."""
    number = round.astype(jnp.uint32)[None]
    return random.threefry(streams[:, 0], streams[:, 1], jnp.zeros_like(number), number)


@seeds_last
def _look_up(
    arms: jax.Array, mean: jax.Array, noise_var: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    taken = (ties.take(v, action) for v in (arms, mean, noise_var))
    return (*taken, jnp.max(mean, axis=0))  # type: ignore[return-value]
