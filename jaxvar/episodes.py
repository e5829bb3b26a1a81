"""One episode of a linear mixture MDP: a plan, H steps, what is learned from them, and the plan's exact regret.

Stages are counted from 0. The functions are those of :mod:`jaxvar.game`, with episodes for rounds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from chex import ArrayTree

from jaxvar import game, planning, random, records, status
from jaxvar.algorithms.bandit import default_tolerance
from jaxvar.algorithms.interface import EpisodicAlgorithm, Model, Step
from jaxvar.environments.interface import EpisodicEnvironment, MdpInstance
from jaxvar.lowering import draw_state, take


class Facts(NamedTuple):
    """Exact quantities of a problem, computed once."""

    optimal: jax.Array  # [H + 1, S]   V*
    variance: jax.Array  # [H, S, A]   of V*_{h+1} in the next state
    status: jax.Array  # []   int32, status.MODEL where the tables are no MDP with total reward at most 1


class Visit(NamedTuple):
    """One step, and what it meant under the episode's plan."""

    state: jax.Array  # []   int32
    action: jax.Array  # []   int32
    next_state: jax.Array  # []   int32
    variance: jax.Array  # []   of V*_{h+1} in the next state
    target: jax.Array  # []   V_{h+1}(s'), of the plan; 0 where it has no values
    mean: jax.Array  # []   [P V_{h+1}](s, a)
    value_variance: jax.Array  # []   of V_{h+1} in the next state


class StepInfo(NamedTuple):
    """The layer that learned from a step, and its weight."""

    layer: jax.Array  # []   int32, from 1; 0 where it learned nothing or has no layers
    weight: jax.Array  # []


def begin(
    algorithm: EpisodicAlgorithm,
    environment: EpisodicEnvironment,
    keys: jax.Array,
    recorders: tuple[records.Recorder, ...],
) -> tuple[game.SeedConstants, game.Carry]:
    """Draw a seed's problem and set everything up for episode 1; its ``keys`` are those of :func:`game.seed_keys`."""
    instance = environment.init(random.of_words(keys[0]))
    tables = {"phi": ("S", "A", "S", "d"), "transition": ("S", "A", "S"), "reward": ("S", "A"), "initial": ("S",)}
    game.check_returned(environment, "init", instance, tables)
    model = model_of(environment, instance)
    memories = tuple(r.init(algorithm, instance) for r in recorders)
    facts = _facts(instance.transition, instance.reward, instance.initial, environment.horizon)
    return game.SeedConstants(instance, facts, keys[1:4]), game.start(algorithm.init(model), keys, memories)


def model_of(environment: EpisodicEnvironment, instance: MdpInstance) -> Model:
    """Return what the learner is told of an instance."""
    features = getattr(instance, "features", None)  # of a linear MDP
    return Model(phi=instance.phi, reward=instance.reward, features=features, horizon=environment.horizon)


def step(
    algorithm: EpisodicAlgorithm,
    environment: EpisodicEnvironment,
    recorders: tuple[records.Recorder, ...],
    fixed: game.SeedConstants,
    carry: game.Carry,
    episode: jax.Array,
) -> tuple[game.Carry, Callable[[], tuple[records.EpisodeEvent, ArrayTree, Visit]]]:
    """Play an episode; returns what is carried on, and what returns the event, the plan and the visits."""
    instance, facts = fixed.instance, fixed.facts
    model = model_of(environment, instance)
    k_contexts, k_noise, k_algorithm = game.round_keys(carry)
    words = random.bits(random.key_words(k_noise), (model.horizon,))
    u = random.uniform(random.bits(random.key_words(k_contexts), ()), instance.initial.dtype)
    first = draw_state(instance.initial, u)
    taken = inspect.signature(algorithm.plan).parameters
    given: dict[str, Any] = {"key": k_algorithm} if "key" in taken else {}
    plan = algorithm.plan(carry.state, model, **given | ({"first": first} if "first" in taken else {}))
    game.check_returned(algorithm, "plan", plan, {"policy": (model.horizon, instance.reward.shape[0])})

    def plan_all() -> Any:
        """Return the plan with all of its first stage."""
        return algorithm.plan(carry.state, model, **given) if "first" in taken else plan

    whole = plan_all() if any(getattr(r, "reads_plan", True) for r in recorders) else plan
    value = getattr(plan, "value", None)

    def move(
        loop: tuple[ArrayTree, jax.Array], now: tuple[jax.Array, jax.Array]
    ) -> tuple[ArrayTree, tuple[Visit, StepInfo]]:
        (state, here), (stage, word) = loop, now
        visit = _visit(fixed, plan, here, word, stage)
        reward = planning.at_pair(instance.reward, here, visit.action)
        before = state
        state = algorithm.update(before, model, plan, Step(stage, here, visit.action, visit.next_state, reward))
        game.check_state(algorithm, before, state)
        layer = getattr(state, "layer", jnp.int32(0))
        weight = getattr(state, "weight", jnp.zeros((), facts.optimal.dtype))
        return (state, visit.next_state), (visit, StepInfo(layer, weight))

    stages = jnp.arange(model.horizon, dtype=jnp.int32)
    (state, _), (visits, info) = jax.lax.scan(move, (carry.state, first), (stages, words))

    played = planning.policy_values(instance.transition, instance.reward, plan.policy)
    start, slack = visits.state[0], default_tolerance(facts.optimal.dtype)
    gap = jnp.maximum(take(facts.optimal[0], start) - take(played[0], start), 0)  # rounding may go below 0
    event = records.EpisodeEvent(
        round=episode,
        action=visits.action,
        layer=info.layer,
        weight=info.weight,
        reward=visits.target,
        mean=visits.mean,
        regret=gap,
        noise_var=jnp.sum(visits.variance, axis=0),
        state=state,
        optimistic=None if value is None else jnp.all(whole.value >= facts.optimal - slack),
        value_variance=None if value is None else jnp.sum(visits.value_variance, axis=0),
        plan=whole,
        visits=visits,
    )
    memories = tuple(r.update(m, event, algorithm, instance) for r, m in zip(recorders, carry.memories, strict=True))
    # What is not finite in a later stage is in all before it: a value is a sum over all next states.
    finite = jnp.isfinite(gap) & (True if value is None else jnp.isfinite(take(value[0], first)))
    after = game.finish(carry, fixed, state, memories, finite, episode, facts.status)
    return after, lambda: (event._replace(plan=None, visits=None), plan_all(), visits)  # a trace keeps each once


def _facts(transition: jax.Array, reward: jax.Array, initial: jax.Array, horizon: int) -> Facts:
    optimal = planning.optimal_values(transition, reward, horizon).value
    variance = jax.vmap(planning.conditional_variance, in_axes=(None, 0))(transition, optimal[1:])
    most = planning.largest_return(transition, reward, horizon)
    tolerance = 1e-6 if transition.dtype.itemsize == 8 else 1e-4
    # Said of what is right, so that NaN is wrong.
    whole = jnp.all(jnp.abs(jnp.sum(transition, axis=2) - 1) <= tolerance)
    right = whole & jnp.all(transition >= 0) & (jnp.max(most) <= 1 + tolerance)
    right = right & (jnp.abs(jnp.sum(initial) - 1) <= tolerance) & jnp.all(initial >= 0)
    return Facts(optimal, variance, jnp.where(right, 0, status.MODEL).astype(jnp.int32))


def _visit(fixed: game.SeedConstants, plan: Any, here: jax.Array, word: jax.Array, stage: jax.Array) -> Visit:
    """Take the plan's action in the state ``here []``, and draw the next state with a ``word []``."""
    action = take(planning.at_stage(plan.policy, stage), here).astype(jnp.int32)
    row = planning.at_pair(fixed.instance.transition, here, action)
    there = draw_state(row, random.uniform(word, row.dtype))
    optimal_variance = planning.at_pair(planning.at_stage(fixed.facts.variance, stage), here, action)
    value = getattr(plan, "value", None)
    if value is None:
        zero = jnp.zeros((), row.dtype)
        return Visit(here, action, there, optimal_variance, zero, zero, zero)
    following = planning.at_stage(value, stage + 1)
    mean = jnp.sum(row * following, axis=0)
    spread = jnp.sum(row * (following - mean) ** 2, axis=0)
    return Visit(here, action, there, optimal_variance, take(following, there), mean, spread)
