"""One episode of a linear mixture MDP: a plan, H steps, what is learned from them, and the plan's exact regret.

Stages are counted from 0. The loop over stages runs outside of what is mapped over seeds (see ``seeds.Each``): the
seeds' axis then stays last all the way.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import planning, random, records, seeds, status, ties
from jaxvar.algorithms.interface import Model, Step
from jaxvar.batching import kept, scan_numbers, seeds_last

_UNROLL = 32  # up to this many states, running sums are written out


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


class Learned(NamedTuple):
    """What the algorithm says it did with a step."""

    layer: jax.Array  # []   int32, from 1; 0 where it learned nothing or has no layers
    weight: jax.Array  # []


def begin(
    algorithm: Any, environment: Any, words: jax.Array, seed: jax.Array, recorders: tuple[Any, ...]
) -> tuple[seeds.Seed, seeds.Carry]:
    """Draw the seed's problem and set everything up for episode 1; ``words`` are those of the root key."""
    instance, streams = seeds.instance_and_streams(environment, words, seed)
    # One model for all seeds is a constant; the TPU's compiler never finishes to compute its values.
    instance = kept(instance)
    model = model_of(environment, instance)
    chex.assert_equal_shape([instance.transition, model.phi[..., 0]])
    memories = tuple(r.init(algorithm, instance) for r in recorders)
    fixed = seeds.Seed(
        instance, _facts(instance.transition, instance.reward, instance.initial, environment.horizon), streams
    )
    return fixed, seeds.start(algorithm.init(model), streams, memories)


def model_of(environment: Any, instance: Any) -> Model:
    """What the learner is told of an instance."""
    return Model(phi=instance.phi, reward=instance.reward, horizon=environment.horizon)


def advance(
    each: seeds.Each, recorders: tuple[Any, ...], carry: Any, episode: jax.Array, horizon: int
) -> tuple[Any, Any]:
    """Play an episode; returns what is carried on, and the event, the plan and the visits."""
    plan, first, draws = each(_plan, carry)

    def step(loop: Any, rest: None, stage: jax.Array) -> tuple[Any, None, Any]:
        loop, seen = each(_step, loop, plan, draws, shared=(stage,))
        return loop, rest, seen

    stages = jnp.arange(horizon, dtype=jnp.int32)
    (state, _), _, (visits, learned) = scan_numbers(step, (carry.state, first), None, stages, first.ndim)
    return each(functools.partial(_finish, recorders), carry, state, plan, visits, learned, shared=(episode,))


def _plan(algorithm: Any, environment: Any, fixed: seeds.Seed, carry: seeds.Carry) -> tuple[Any, jax.Array, jax.Array]:
    """The episode's plan, its first state and the random words of its transitions."""
    k_contexts, k_noise, k_algorithm = seeds.round_keys(carry)
    model = model_of(environment, fixed.instance)
    takes_key = "key" in inspect.signature(algorithm.plan).parameters
    plan = algorithm.plan(carry.state, model, **({"key": k_algorithm} if takes_key else {}))
    chex.assert_shape(plan.policy, (model.horizon, model.num_states))
    first = _first_state(fixed.instance.initial, random.key_words(k_contexts))
    return plan, first, _words(random.key_words(k_noise), jnp.zeros(model.horizon))


def _step(
    algorithm: Any, environment: Any, fixed: seeds.Seed, loop: Any, plan: Any, draws: jax.Array, stage: jax.Array
) -> tuple[Any, tuple[Visit, Learned]]:
    state, here = loop
    instance, facts = fixed.instance, fixed.facts
    value = getattr(plan, "value", None)
    visit = _move(instance.transition, plan.policy, value, facts.variance, here, draws, stage)
    reward = _at_pair(instance.reward, visit.state, visit.action)
    step = Step(stage, visit.state, visit.action, visit.next_state, reward)
    state = algorithm.update(state, model_of(environment, instance), plan, step)
    layer = getattr(state, "layer", jnp.int32(0))
    weight = getattr(state, "weight", jnp.zeros((), facts.optimal.dtype))
    return (state, visit.next_state), (visit, Learned(layer, weight))


def _finish(
    recorders: tuple[Any, ...],
    algorithm: Any,
    environment: Any,
    fixed: seeds.Seed,
    carry: seeds.Carry,
    state: Any,
    plan: Any,
    visits: Visit,
    learned: Learned,
    episode: jax.Array,
) -> tuple[seeds.Carry, tuple[records.EpisodeEvent, Any, Visit]]:
    instance, facts = fixed.instance, fixed.facts
    played = planning.policy_values(instance.transition, instance.reward, plan.policy)
    value = getattr(plan, "value", None)
    gap, optimistic, variance, value_variance = _summary(facts.optimal, played, value, visits)
    event = records.EpisodeEvent(
        round=episode,
        action=visits.action,
        layer=learned.layer,
        weight=learned.weight,
        reward=visits.target,
        mean=visits.mean,
        regret=gap,
        noise_var=variance,
        state=state,
        optimistic=None if value is None else optimistic,
        value_variance=None if value is None else value_variance,
        plan=plan,
        visits=visits,
    )
    finite = jnp.isfinite(gap) & jnp.isfinite(value_variance)
    bits = getattr(state, "status", jnp.int32(0)) | jnp.where(finite, 0, status.NONFINITE).astype(jnp.int32)
    memories = tuple(r.update(m, event, algorithm, instance) for r, m in zip(recorders, carry.memories, strict=True))
    seen = (event._replace(plan=None, visits=None), plan, visits)  # a trace keeps each of them once
    return seeds.finish_round(carry, fixed, state, memories, bits | facts.status, episode), seen


def _facts(transition: jax.Array, reward: jax.Array, initial: jax.Array, horizon: int) -> Facts:
    optimal = planning.optimal_values(transition, reward, horizon).value
    variance = jax.vmap(planning.conditional_variance, in_axes=(None, 0))(transition, optimal[1:])
    most = planning.largest_return(transition, reward, horizon)
    return Facts(optimal, variance, _model_status(transition, initial, most))


@seeds_last
def _model_status(transition: jax.Array, initial: jax.Array, most: jax.Array) -> jax.Array:
    tolerance = 1e-6 if transition.dtype.itemsize == 8 else 1e-4
    # Said of what is right, so that NaN is wrong.
    whole = jnp.all(jnp.abs(jnp.sum(transition, axis=2) - 1) <= tolerance, axis=(0, 1))
    right = whole & jnp.all(transition >= 0, axis=(0, 1, 2)) & (jnp.max(most, axis=0) <= 1 + tolerance)
    wrong = ~(right & (jnp.abs(jnp.sum(initial, axis=0) - 1) <= tolerance) & jnp.all(initial >= 0, axis=0))
    return jnp.where(wrong, status.MODEL, 0).astype(jnp.int32)


@seeds_last
def _words(words: jax.Array, stages: jax.Array) -> jax.Array:
    return random.bits(words, stages.shape[:1])


@seeds_last
def _first_state(initial: jax.Array, words: jax.Array) -> jax.Array:
    return draw_state(initial, random.uniform(random.bits(words, ()), initial.dtype))


@seeds_last
def _at_pair(table: jax.Array, state: jax.Array, action: jax.Array) -> jax.Array:
    return _pair(table, state, action)


def _pair(table: jax.Array, state: jax.Array, action: jax.Array) -> jax.Array:
    """``table[state, action]`` of ``[S, A, ...]``."""
    num_states, num_actions = table.shape[:2]
    return ties.take(table.reshape(num_states * num_actions, *table.shape[2:]), state * num_actions + action)


@seeds_last
def _move(
    transition: jax.Array,
    policy: jax.Array,
    value: jax.Array | None,
    variance: jax.Array,
    here: jax.Array,
    draws: jax.Array,
    stage: jax.Array,
) -> Visit:
    action = ties.take(planning.at_stage(policy, stage), here).astype(jnp.int32)
    row = _pair(transition, here, action)
    u = random.uniform(planning.at_stage(draws, stage), row.dtype)
    there = draw_state(row, u)
    optimal_variance = _pair(planning.at_stage(variance, stage), here, action)
    zero = jnp.zeros_like(u)
    if value is None:
        return Visit(here, action, there, optimal_variance, zero, zero, zero)
    following = planning.at_stage(value, stage + 1)
    mean = jnp.sum(row * following, axis=0)
    spread = jnp.sum(row * (following - mean[None]) ** 2, axis=0)
    return Visit(here, action, there, optimal_variance, ties.take(following, there), mean, spread)


def draw_state(row: jax.Array, u: jax.Array) -> jax.Array:
    """The state drawn from the distribution ``row [S]`` by the uniform number ``u []``: never one of probability 0.

    The last state whose share of the unit interval begins at or before u.
    """
    num_states = row.shape[0]
    if num_states > _UNROLL:
        before = jnp.cumsum(row, axis=0) - row
        index = np.arange(num_states, dtype=np.int32).reshape(num_states, *(1,) * (row.ndim - 1))
        begun = (row > 0) & ((u * jnp.sum(row, axis=0))[None] >= before)
        return jnp.max(jnp.where(begun, index, 0), axis=0).astype(jnp.int32)
    befores = [jnp.zeros_like(row[0])]
    for i in range(num_states):
        befores.append(befores[-1] + row[i])
    point, state = u * befores[-1], jnp.zeros(u.shape, jnp.int32)
    for i in range(num_states):
        state = jnp.where((row[i] > 0) & (point >= befores[i]), i, state)
    return state


@seeds_last
def _summary(
    optimal: jax.Array, played: jax.Array, value: jax.Array | None, visits: Visit
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The episode's regret, whether its plan was optimistic, and the variances of V* and of V along its path."""
    first = visits.state[0]
    gap = jnp.maximum(ties.take(optimal[0], first) - ties.take(played[0], first), 0)  # rounding may go below 0
    slack = ties.default_tolerance(optimal.dtype)
    optimistic = jnp.ones(gap.shape, bool) if value is None else jnp.all(value >= optimal - slack, axis=(0, 1))
    return gap, optimistic, jnp.sum(visits.variance, axis=0), jnp.sum(visits.value_variance, axis=0)
