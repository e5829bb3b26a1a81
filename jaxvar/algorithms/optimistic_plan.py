"""Optimistic backward induction: what all value-targeted algorithms for linear mixture MDPs share.

From ``V_{H+1} = 0`` backwards, with ``phi_V(s, a) = sum_{s'} phi(s' | s, a) V(s')``:

    Q_h(s, a) = clip(r(s, a) + bound(phi_{V_{h+1}}(s, a)), 0, value_bound)        V_h(s) = max_a Q_h(s, a)

``bound`` is the algorithm's upper confidence bound on ``<phi_V, theta*>``. The clip at 0 changes nothing while the
bound holds, since values are not negative. Stages are counted from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import planning, random, ridge
from jaxvar import ties as tie_rules
from jaxvar.algorithms.interface import Model, Step
from jaxvar.batching import once


class Plan(NamedTuple):
    """What an optimistic algorithm will do in an episode, and why."""

    q: jax.Array  # [H, S, A]
    value: jax.Array  # [H + 1, S]   the last is zero
    policy: jax.Array  # [H, S]   int32, actions
    feature: jax.Array  # [H, S, A, d]   phi of the next stage's value


def optimistic_plan(
    model: Model,
    bound: Callable[..., jax.Array],
    value_bound: Any,
    words: jax.Array | None,
    ties: str,
    tie_tolerance: Any,
    batch: tuple[int, ...],
    stages: Any = None,
) -> Plan:
    """Plan an episode; part of a ``seeds_last`` kernel.

    Args:
      model: phi and rewards.
      bound: features ``[N, d]`` -> upper bounds ``[N]``; where there are ``stages``, their entries of the stage are its
        second argument.
      value_bound: no value is larger, [].
      words: ``[2]`` of the episode's key; without them ties go to the lowest action.
      ties: ``random`` or ``lowest``.
      tie_tolerance: relative, [].
      batch: shape of the seeds' axes.
      stages: arrays ``[H, ...]`` of which each stage's bound is made, where stages do not share one.
    """
    num_states, num_actions, _, dim = model.phi.shape[:4]
    pairs = num_states * num_actions
    by_next = jnp.moveaxis(model.phi, 2, 0).reshape(num_states, pairs, dim, *model.phi.shape[4:])
    draws = None
    if ties == "random" and words is not None:
        draws = random.uniform(random.bits(words, (model.horizon, num_states)), jnp.float32)

    # The feature, not the value, is what a stage hands on: XLA then computes it once, not anew for each of its uses.
    def back(feature: jax.Array, given: tuple[jax.Array | None, Any]) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        u, here = given
        upper = (bound(feature) if stages is None else bound(feature, here)).reshape(num_states, num_actions, *batch)
        q = jnp.clip(model.reward + upper, 0, value_bound[None, None])
        by_action = jnp.moveaxis(q, 1, 0)
        best = tie_rules.best(by_action, jnp.ones_like(by_action, bool), tie_tolerance[None])
        policy = tie_rules.lowest(best) if u is None else tie_rules.by_rank(best, u)
        value = once(tie_rules.largest(by_action))
        return ridge.combine(by_next, value[:, None, None]), (q, value, policy, feature)

    end = jnp.zeros((pairs, dim, *batch), model.reward.dtype)
    _, (q, value, policy, feature) = jax.lax.scan(back, end, (draws, stages), length=model.horizon, reverse=True)
    feature = feature.reshape(model.horizon, num_states, num_actions, dim, *batch)
    return Plan(q, jnp.concatenate([value, jnp.zeros_like(value[:1])]), policy, feature)


def ellipsoid_bound(feature: jax.Array, theta_hat: jax.Array, shape: jax.Array) -> jax.Array:
    """``<f, theta_hat> + sqrt(f^T shape f)`` for each row f of ``feature [N, d]``, with ``shape = beta^2 Sigma^-1``.

    Part of a ``seeds_last`` kernel.
    """
    return ridge.combine(jnp.moveaxis(feature, 1, 0), theta_hat[:, None]) + ridge.norm(feature, shape)


def known_model(model: Any, dim: int, horizon: int) -> Model:
    """What an algorithm made for ``dim`` and ``horizon`` uses of ``model``, which must fit it."""
    chex.assert_shape(model.phi, (None, None, None, dim))
    if getattr(model, "horizon", horizon) != horizon:
        raise ValueError(f"the model must have the algorithm's horizon {horizon}, got {model.horizon}")
    return Model(phi=jnp.asarray(model.phi), reward=jnp.asarray(model.reward), horizon=horizon)


def batch_shape(model: Model, words: jax.Array | None, *numbers: Any) -> tuple[int, ...]:
    """The seeds' axes that a plan has: those of the model, of the key's words and of the algorithm's ``numbers []``."""
    drawn = () if words is None else words.shape[1:]
    shapes = (jnp.shape(x) for x in numbers)
    return jnp.broadcast_shapes(model.phi.shape[4:], model.reward.shape[2:], drawn, *shapes)


def regression_pair(plan: Plan, step: Step) -> tuple[jax.Array, jax.Array]:
    """What a step teaches: the feature ``phi_{V_{h+1}}(s, a) [d]`` and its target ``V_{h+1}(s') []``."""
    feature, value = planning.at_stage(plan.feature, step.stage), planning.at_stage(plan.value, step.stage + 1)
    num_states, num_actions, dim = feature.shape[:3]
    pairs = feature.reshape(num_states * num_actions, dim, *feature.shape[3:])
    return tie_rules.take(pairs, step.state * num_actions + step.action), tie_rules.take(value, step.next_state)
