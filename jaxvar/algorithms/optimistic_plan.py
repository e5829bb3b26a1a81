"""Optimistic backward induction: what all value-targeted algorithms for linear mixture MDPs share.

From ``V_{H+1} = 0`` backwards, with ``phi_V(s, a) = sum_{s'} phi(s' | s, a) V(s')``:

    Q_h(s, a) = clip(r(s, a) + bound(phi_{V_{h+1}}(s, a)), 0, value_bound)        V_h(s) = max_a Q_h(s, a)

``bound`` is the algorithm's upper confidence bound on ``<phi_V, theta*>``. The clip at 0 changes nothing while the
bound holds, since values are not negative. Stages are counted from 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxvar import planning, random
from jaxvar.algorithms import bandit
from jaxvar.algorithms.interface import Model, Step, Typed, by_rule
from jaxvar.lowering import (
    backwards,
    combine,
    computed_once,
    largest,
    lowest,
    only_row,
    square_lengths,
    stored_or_anew,
    take,
    together,
)
from jaxvar.parameters import Number, count, number, pytree

Arrays = tuple[jax.Array, ...]


class Plan(NamedTuple):
    """The policy of an episode, and the optimistic values behind it."""

    q: jax.Array  # [H, S, A]
    value: jax.Array  # [H + 1, S]   the last is zero
    policy: jax.Array  # [H, S]   int32, actions
    feature: jax.Array  # [H, S, d]   phi of the next stage's value, for the policy's actions


@pytree
class Greedy(Typed):
    """Base of the algorithms that play the best action of their plan, by the common rule for ties."""

    ties: str = bandit.declare_ties("action")
    tie_tolerance: Number = bandit.declare_tolerance()

    def draws(self, model: Model, key: jax.Array | None) -> jax.Array | None:
        """Return the numbers that break an episode's ties, [H, S]; None where the lowest action wins."""
        if self.ties != "random" or key is None:
            return None
        words = random.bits(random.key_words(key), (model.horizon, model.num_states))
        return random.uniform(words, jnp.float32)

    def greedy(self, q: jax.Array, u: jax.Array | None, value_bound: Number) -> tuple[jax.Array, jax.Array]:
        """Return the best actions and the values of ``q [S, A]``, both [S]; ``u [S]`` breaks ties."""
        by_action = jnp.moveaxis(q, 1, 0)
        value = computed_once(largest(by_action))
        best = bandit.near(by_action, value, self.tie_tolerance, value_bound)
        return together((lowest(best) if u is None else bandit.by_rank(best, u), value))


@pytree
class Planner(Greedy):
    """Base of the algorithms that plan by optimistic backward induction on features."""

    dim: int = count(kw_only=False, doc="d, the length of a feature.")

    def optimistic_plan(
        self,
        model: Model,
        bound: Callable[..., jax.Array],
        key: jax.Array | None,
        value_bound: Number = 1.0,
        stages: Arrays | None = None,
        first: jax.Array | None = None,
    ) -> Plan:
        """Plan an episode.

        Args:
          model: phi and rewards.
          bound: features ``[N, d]`` -> upper bounds ``[N]``, which three loops read; further arguments are the entries
            of ``stages``, if given.
          key: the episode's; without it ties go to the lowest action.
          value_bound: no value is larger, [].
          stages: arrays ``[H, ...]`` of which each stage's bound is made, where stages do not share one.
          first: the state in which the episode begins, int32 []. Told it, only that state is right in the first stage.
        """
        num_states, num_actions, _, dim = model.phi.shape
        pairs = model.phi.reshape(num_states * num_actions, num_states, dim)
        draws = self.draws(model, key)
        # No value follows the last stage: its features and their bounds are 0.
        last_q = jnp.clip(model.reward, 0, value_bound)
        last_policy, last_value = self.greedy(last_q, None if draws is None else draws[-1], value_bound)
        last = Plan(last_q, last_value, last_policy, jnp.zeros((num_states, dim), last_q.dtype))

        def in_states(
            phi: jax.Array, reward: jax.Array, value: jax.Array, u: jax.Array | None, here: Arrays | None
        ) -> Plan:
            """Plan a stage for some states, ``phi [S A, S', d]`` and ``reward [S, A]``, before a ``value [S']``."""
            feature = jnp.sum(phi * value[None, :, None], axis=1)  # a sum, which XLA computes once
            upper = bound(feature, *(() if here is None else here))
            q = jnp.clip(reward + upper.reshape(reward.shape), 0, value_bound)
            policy, value = self.greedy(q, u, value_bound)
            return Plan(q, value, policy, take(jnp.moveaxis(feature.reshape(*reward.shape, dim), 1, 0), policy))

        def back(stage: jax.Array, after: Plan) -> Plan:
            given = jax.tree.map(lambda x: planning.at_stage(x, stage), (draws, stages))
            return in_states(pairs, model.reward, after.value, *given)

        def in_first(first: jax.Array, after: Plan) -> Plan:
            u, here = jax.tree.map(lambda x: x[0], (draws, stages))

            def in_state(i: jax.Array) -> Plan:
                phi = lax.dynamic_slice_in_dim(pairs, i * np.asarray(num_actions, i.dtype), num_actions)
                reward, mine = jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, i, 1), (model.reward, u))
                return jax.tree.map(lambda x: x[0], in_states(phi, reward, after.value, mine, here))

            return only_row(in_state, lambda: in_states(pairs, model.reward, after.value, u, here), first, last)

        plan = backwards(back, last, model.horizon, None if first is None else functools.partial(in_first, first))
        return plan._replace(value=planning.with_end(plan.value))


@pytree
class ConfidentPlanner(Planner):
    """Base of the planners whose confidence set is proved to hold theta*."""

    norm_bound: Number = number(above=0, squared=True, default=1.0, doc=r"B, with \|theta*\| <= B.")
    delta: Number = number(above=0, below=1, default=0.01, doc="failure probability.")


@pytree
class ValueTargeted(ConfidentPlanner):
    """Base of the planners with one ellipsoid, whose values may have any scale."""

    lam: Number = by_rule(lambda self: 1 / self.norm_bound**2, "the ridge; ``1 / B^2`` if not given.")
    value_bound: Number = number(
        above=0, squared=True, default=1.0, doc="v, no value is larger: 1 where the total reward is at most 1."
    )
    beta_scale: Number = number(
        at_least=0, default=1.0, doc="c, a multiplier of the stochastic part of the radius; 1 is the theorem."
    )


def ellipsoid_bound(feature: jax.Array, theta_hat: jax.Array, root: jax.Array) -> jax.Array:
    """Return ``<f, theta_hat> + |root^T f|`` for each row f of ``feature [N, d]``, [N], computed once.

    The ``root [d, d]`` is that of ``beta^2 Sigma^-1``.
    """
    return computed_once(layer_bound(feature, theta_hat, root))


def layer_bound(feature: jax.Array, theta_hat: jax.Array, root: jax.Array) -> jax.Array:
    """Return what :func:`ellipsoid_bound` does, to be computed wherever it is used."""
    return combine(jnp.moveaxis(feature, 1, 0), theta_hat[:, None]) + jnp.sqrt(square_lengths(feature, root))


def known_model(model: Model, dim: int, horizon: int) -> Model:
    """Return what an algorithm made for ``dim`` and ``horizon`` uses of ``model``, which must fit it."""
    chex.assert_shape(model.phi, (None, None, None, dim))
    if getattr(model, "horizon", horizon) != horizon:
        raise ValueError(f"the model must have the algorithm's horizon {horizon}, got {model.horizon}")
    return Model(phi=jnp.asarray(model.phi), reward=jnp.asarray(model.reward), horizon=horizon)


def regression_pair(plan: Plan, step: Step, model: Model | None = None) -> tuple[jax.Array, jax.Array]:
    """Return what a step teaches: the feature ``phi_{V_{h+1}}(s, a) [d]`` and its target ``V_{h+1}(s') []``.

    The action is that of the plan: a step with another one would teach the feature of the plan's. Told the ``model``,
    the feature may also be made anew from the plan's value.
    """
    value = planning.at_stage(plan.value, step.stage + 1)

    def stored() -> jax.Array:
        return take(planning.at_stage(plan.feature, step.stage), step.state)

    def anew(model: Model) -> jax.Array:
        action = take(planning.at_stage(plan.policy, step.stage), step.state)
        return jnp.sum(planning.at_pair(model.phi, step.state, action) * value[:, None], axis=0)

    feature = stored() if model is None else stored_or_anew(stored, lambda: anew(model))
    return feature, take(value, step.next_state)
