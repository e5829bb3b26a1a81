"""One round of duels: a pair of arms, which of the two won, what is learned from it, and the regret of both.

The functions are those of :mod:`jaxvar.game`, with pairs for arms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from chex import ArrayTree

from jaxvar import game, records, status
from jaxvar.algorithms.interface import Side
from jaxvar.lowering import take

begin = game.begin


def step(
    algorithm: Any,
    environment: Any,
    recorders: tuple[records.Recorder, ...],
    fixed: game.SeedConstants,
    carry: game.Carry,
    round: jax.Array,
) -> tuple[game.Carry, Callable[[], tuple[records.Event, ArrayTree]]]:
    """Play a duel; returns what is carried on, and what returns the event and the observation."""
    instance = fixed.instance
    k_contexts, k_noise, k_algorithm = game.round_keys(carry)
    observation = environment.observe(instance, round, k_contexts)
    available = getattr(observation, "available", None)
    wanted: dict[str, tuple[str | int, ...]] = {"arms": ("num_arms", "dim"), "mean": ("num_arms",)}
    if available is not None:
        wanted["available"] = ("num_arms",)
    game.check_returned(environment, "observe", observation, wanted)
    side = Side(None, None if available is None else jnp.asarray(available, bool))
    algorithm = game.with_fixed_arms(algorithm, environment, instance, observation)
    choice = algorithm.pair(carry.state, observation.arms, k_algorithm, side)
    game.check_returned(algorithm, "pair", choice, {"action": (), "rival": ()})
    action, rival = (jnp.asarray(i).astype(jnp.int32) for i in (choice.action, choice.rival))
    outcome = environment.duel(instance, observation, action, rival, round, k_noise)
    game.check_returned(environment, "duel", outcome, {"reward": (), "mean": (), "noise_var": ()})
    x = take(observation.arms, action) - take(observation.arms, rival)
    state = algorithm.update(carry.state, choice, x, outcome.reward, Side(outcome.noise_var))
    game.check_state(algorithm, carry.state, state)

    best = jnp.max(side.present(observation.mean), axis=0)
    event = records.Event(
        round=round,
        action=action,
        layer=getattr(choice, "layer", jnp.int32(0)),
        weight=getattr(choice, "weight", jnp.zeros_like(outcome.reward)),
        reward=outcome.reward,
        mean=outcome.mean,
        regret=(best - take(observation.mean, action)) + (best - take(observation.mean, rival)),
        noise_var=outcome.noise_var,
        state=state,
        rival=rival,
        observation=observation,
    )
    finite = jnp.isfinite(outcome.reward) & jnp.isfinite(event.regret)
    memories = tuple(r.update(m, event, algorithm, instance) for r, m in zip(recorders, carry.memories, strict=True))
    bits: jax.Array | int = 0
    if side.available is not None:
        there = side.available.astype(jnp.int32)
        both = (take(there, action) > 0) & (take(there, rival) > 0)
        bits = jnp.where(both, 0, status.ABSENT).astype(jnp.int32)
    after = game.finish(carry, fixed, state, memories, finite, round, bits)
    return after, lambda: (event._replace(observation=None), observation)  # a trace keeps it once
