"""One round of a bandit: a decision set, a choice, a reward, and what is learned from it."""

from __future__ import annotations

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp

from jaxvar import records, seeds, status, ties
from jaxvar.algorithms.interface import Side
from jaxvar.batching import seeds_last


def begin(
    algorithm: Any, environment: Any, words: jax.Array, seed: jax.Array, recorders: tuple[Any, ...]
) -> tuple[seeds.Seed, seeds.Carry]:
    """Draw the seed's problem and set everything up for round 1; ``words`` are those of the root key."""
    instance, streams = seeds.instance_and_streams(environment, words, seed)
    algorithm = _specialise(algorithm, environment, instance)
    memories = tuple(r.init(algorithm, instance) for r in recorders)
    return seeds.Seed(instance, None, streams), seeds.start(algorithm.init(), streams, memories)


def advance(each: seeds.Each, recorders: tuple[Any, ...], carry: Any, round: jax.Array) -> tuple[Any, Any]:
    """Play a round; returns what is carried on, and the event and the observation."""
    return each(functools.partial(_round, recorders), carry, shared=(round,))


def settle(each: seeds.Each, carry: Any) -> Any:
    """Let an algorithm finish what it left for the next round, where it has a ``settled(state) -> state``."""
    return each(_settle, carry)


def _settle(algorithm: Any, environment: Any, fixed: seeds.Seed, carry: seeds.Carry) -> seeds.Carry:
    algorithm = _specialise(algorithm, environment, fixed.instance)
    return carry._replace(state=algorithm.settled(carry.state)) if hasattr(algorithm, "settled") else carry


def _round(
    recorders: tuple[Any, ...],
    algorithm: Any,
    environment: Any,
    fixed: seeds.Seed,
    carry: seeds.Carry,
    round: jax.Array,
) -> tuple[seeds.Carry, tuple[records.Event, Any]]:
    instance = fixed.instance
    algorithm = _specialise(algorithm, environment, instance)
    k_contexts, k_noise, k_algorithm = seeds.round_keys(carry)
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
    memories = tuple(r.update(m, event, algorithm, instance) for r, m in zip(recorders, carry.memories, strict=True))
    return seeds.finish_round(carry, fixed, state, memories, bits, round), (event, observation)


def _specialise(algorithm: Any, environment: Any, instance: Any) -> Any:
    if getattr(environment, "fixed_arms", False) and hasattr(algorithm, "with_fixed_arms"):
        return algorithm.with_fixed_arms(instance.arms)
    return algorithm


@seeds_last
def _look_up(
    arms: jax.Array, mean: jax.Array, noise_var: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    taken = (ties.take(v, action) for v in (arms, mean, noise_var))
    return (*taken, jnp.max(mean, axis=0))  # type: ignore[return-value]
