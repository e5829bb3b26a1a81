r"""Least-squares value iteration for linear MDPs: LSVI-UCB, and LSVI-UCB++ with weights by variances.

In a linear MDP :math:`P(s' | s, a) = \langle\phi(s, a), \mu(s')\rangle`: the mean of the next value is linear in the
feature of (s, a). Both algorithms regress next values on features, and plan by optimistic backward induction:

    Q_h(s, a) = min(r(s, a) + <phi(s, a), w_h> + beta |phi(s, a)|_{Sigma^-1}, v)        V_h(s) = max_a Q_h(s, a)

    Sigma = lam I + sum w^2 phi phi^T        w_h = Sigma^-1 sum w^2 phi V_{h+1}(s')

The sum behind :math:`w_h` is over all steps so far, and changes with :math:`V_{h+1}` in every episode. With finitely
many states it needs no history: it is :math:`M V_{h+1}` for the matrix ``M = sum w^2 phi e_{s'}^T``, [d, S].

Features are those of :func:`jaxvar.linear_mdp`. A problem without them has one coordinate for each pair (s, a): every
finite MDP is a linear MDP with d = S A. Stages are counted from 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxvar import planning, ridge
from jaxvar.algorithms.bandit import declare_beta_scale
from jaxvar.algorithms.interface import Model, Step, by_rule
from jaxvar.algorithms.tabular import TabularPlan, ValueIteration
from jaxvar.claims import Claim
from jaxvar.lowering import combine, largest, square_lengths, take
from jaxvar.parameters import Number, choice, factory, flag, number, pytree

CLAIMS = {
    "lsvi_ucb": Claim(
        "LSVI-UCB",
        "Jin, Yang, Wang, Jordan 2020",
        "sqrt(d^3 H^4 K)",
        variance="not used",
        constants="reconstructed",
        assumption="inhomogeneous, rewards add up to at most H",
        section="linear MDP",
        deterministic="none claimed",
    ),
    "lsvi_ucb_plus": Claim(
        "LSVI-UCB++",
        "He, Zhao, Zhou, Gu 2023",
        "d sqrt(H^3 K)",
        constants="reconstructed",
        assumption="inhomogeneous, rewards add up to at most H",
        section="linear MDP",
    ),
}


class Regression(NamedTuple):
    """The regression of all next states at once. There is one group for each stage, or one for all."""

    ridge: ridge.Ridge  # [groups, ...]   on features; its own targets are the rewards
    moments: jax.Array  # [groups, d, S]   M, the sum of w^2 phi e_{s'}^T


class Estimates(NamedTuple):
    """The regressions as they look from each pair (s, a)."""

    kernel: jax.Array  # [groups, S, A, S]   phi^T Sigma^-1 M: its product with V is <phi, w_h>
    width: jax.Array  # [groups, S, A]   |phi|_{Sigma^-1}
    reward: jax.Array  # [groups, S, A]   the reward by the regression


@pytree
class LeastSquares(ValueIteration):
    """Base of the algorithms that regress next values on the features of a linear MDP."""

    num_episodes: Number = number(at_least=1, kw_only=False, doc="K, which sets the logarithm of the radius.")
    per_stage: bool = flag(
        default=False,
        doc="regress in each stage apart, as published for transitions that differ between stages; by default all "
        "stages share their regression, since they share their transitions.",
    )

    def features(self, model: Model) -> jax.Array:
        """Return the features of all pairs, [S, A, d]; without any a unit vector for each pair."""
        shape = (model.num_states, model.num_actions)
        if model.features is None:
            return jnp.eye(math.prod(shape), dtype=self.dtype).reshape(*shape, -1)
        if len(model.features.shape) != 3 or model.features.shape[:2] != shape:
            raise ValueError(f"features must have shape [S, A, d] = {[*shape, 'd']}, got {list(model.features.shape)}")
        return jnp.asarray(model.features)

    def empty(self, model: Model, lam: Number) -> Regression:
        """Return regressions that have seen nothing."""
        groups, dim = model.horizon if self.per_stage else 1, self.features(model).shape[2]
        one = ridge.init_ridge(dim, lam, self.dtype)
        stack = jax.tree.map(lambda x: jnp.broadcast_to(x, (groups, *x.shape)), one)
        return Regression(stack, jnp.zeros((groups, dim, model.num_states), self.dtype))

    def estimates(self, model: Model, regression: Regression) -> Estimates:
        """Return what the regressions say of every pair."""
        features = self.features(model)
        shape, by_coordinate = features.shape[:2], jnp.moveaxis(features, 2, 0)

        def of_group(group: ridge.Ridge, moments: jax.Array) -> Estimates:
            seen = combine(group.root[:, :, None], moments[:, None])  # R^T M
            measures = combine(group.root.T[:, :, None], seen[:, None])
            return Estimates(
                kernel=combine(by_coordinate[..., None], measures[:, None, None]),
                width=jnp.sqrt(square_lengths(features.reshape(-1, features.shape[2]), group.root)).reshape(shape),
                reward=combine(by_coordinate, group.theta_hat[:, None, None]),
            )

        return jax.vmap(of_group)(regression.ridge, regression.moments)

    def learn(
        self, regression: Regression, model: Model, step: Step, weight: Number
    ) -> tuple[Regression, ridge.Update]:
        """Learn from a step with a regression weight."""
        features, group = self.features(model), self.group(step.stage)
        feature = take(features.reshape(-1, features.shape[2]), step.state * model.num_actions + step.action)
        here = jax.tree.map(lambda x: planning.at_stage(x, group), regression)
        new, update = ridge.regress(here.ridge, weight * feature, weight * step.reward)
        arrived = (np.arange(model.num_states, dtype=np.int32) == step.next_state).astype(self.dtype)
        after = Regression(new, here.moments + weight**2 * feature[:, None] * arrived[None])
        return jax.tree.map(lambda x, y: planning.with_stage(x, group, y), regression, after), update

    def group(self, stage: jax.Array) -> jax.Array:
        """Return the number of the regression that a stage uses, []."""
        return stage if self.per_stage else jnp.zeros_like(stage)


class LsviState(NamedTuple):
    """State of LSVI-UCB for one seed. Plans are made of what it holds at the start of an episode."""

    regression: Regression
    status: jax.Array  # []   int32


@pytree
class LsviUcb(LeastSquares):
    r"""LSVI-UCB: least-squares value iteration with a bonus by the width of the feature.

    .. math:: Q_h = \min(r + \langle\phi, w_h\rangle + \beta\|\phi\|_{\Sigma^{-1}},\ v), \quad
              \beta = c\, d\, v\sqrt{\log(2 d H K / \delta)}

    .. math:: \Sigma = \lambda I + \sum\phi\phi^T, \quad w_h = \Sigma^{-1}\sum\phi\,V_{h+1}(s')

    Sums are over all steps so far, or with ``per_stage`` over those of stage h. With ``reward="regressed"`` the targets
    are :math:`r + V_{h+1}(s')`, and no reward is known.

    References:
      Jin, Yang, Wang, Jordan (2020), Provably efficient reinforcement learning with linear function approximation,
      Algorithm 1 and Theorem 3.1.

    Deviations:
      The theorem leaves the absolute constant c open: 1 is ours. One scale for all algorithms: values lie in [0, v]
      instead of [0, H], so that H is v in the clip and in the factor of the radius; where it counts steps it stays.
      Rewards are known by default, and then need not be linear in the features. By default one regression for all
      stages. The tie rule is ours.
    """

    lam: Number = number(above=0, default=1.0, doc="the ridge.")
    beta_scale: Number = number(
        at_least=0, default=1.0, doc="c, a multiplier of the radius; 0 is certainty equivalence."
    )
    reward: str = choice(
        "known",
        "regressed",
        default="known",
        doc="rewards are ``known``, or ``regressed`` on the features, as published: they must be linear in these.",
    )

    def init(self, model: Model) -> LsviState:
        """Return empty regressions."""
        return LsviState(self.empty(model, self.lam), jnp.int32(0))

    def plan(self, state: LsviState, model: Model, key: jax.Array | None = None) -> TabularPlan:
        """Plan the coming episode; without a key ties go to the lowest action."""
        found, beta = self.estimates(model, state.regression), self.beta(model)

        def look(value: jax.Array, stage: jax.Array) -> jax.Array:
            here = jax.tree.map(lambda x: planning.at_stage(x, self.group(stage)), found)
            reward = model.reward if self.reward == "known" else here.reward
            upper = reward + planning.expectation(here.kernel, value) + beta * here.width
            return jnp.minimum(upper, self.value_bound)

        return self.plan_by(look, model, key)

    def update(self, state: LsviState, model: Model, plan: TabularPlan, step: Step) -> LsviState:
        """Learn from a step."""
        regression, update = self.learn(state.regression, model, step, 1.0)
        return LsviState(regression, state.status | ridge.failure(update))

    def beta(self, model: Model) -> jax.Array:
        """Return the radius, []."""
        dim = self.features(model).shape[2]
        log = math.log(2 * dim * model.horizon) + jnp.log(self.num_episodes) - jnp.log(self.delta)
        return self.beta_scale * dim * self.value_bound * jnp.sqrt(log)


lsvi_ucb = factory(LsviUcb)


class LsviPlusPlan(NamedTuple):
    """The policy of an episode, the values behind it, and what the steps of the episode learn with."""

    q: jax.Array  # [H, S, A]   optimistic
    value: jax.Array  # [H + 1, S]   the last is zero
    policy: jax.Array  # [H, S]   int32, actions
    low: jax.Array  # [H, S, A]   pessimistic
    var_bar: jax.Array  # [H, S, A]   1 / w^2 of a visit
    switched: jax.Array  # []   bool, whether a determinant has doubled, so that q and low were made anew
    last: jax.Array  # [groups]   log det Sigma when q and low were made


class LsviPlusState(NamedTuple):
    """State of LSVI-UCB++ for one seed. Plans are made of what it holds at the start of an episode."""

    regression: Regression
    q: jax.Array  # [H, S, A]   of the last plan
    low: jax.Array  # [H, S, A]   likewise
    last: jax.Array  # [groups]   likewise
    layer: jax.Array  # []   int32, the regression that learned from the last step, from 1
    weight: jax.Array  # []   w, its weight
    status: jax.Array  # []   int32


@pytree
class LsviUcbPlus(LeastSquares):
    r"""LSVI-UCB++: regressions weighted by estimated variances, monotone values, and plans that seldom change.

    In episodes in which the determinant of some :math:`\Sigma` is at least twice what it was at the last such episode,

    .. math:: Q_h = \min(r + \langle\phi, \hat w_h\rangle + \beta n,\ Q_h^{old},\ v), \quad
              \check Q_h = \max(r + \langle\phi, \check w_h\rangle - \bar\beta n,\ \check Q_h^{old},\ 0), \quad
              n = \|\phi\|_{\Sigma^{-1}}

    and in all others both stay. :math:`\hat w_h`, :math:`\check w_h` and :math:`\tilde w_h` regress :math:`V_{h+1}`,
    :math:`\check V_{h+1}` and :math:`V_{h+1}^2`. A step has the weight :math:`1 / \bar\sigma`, by the estimates of its
    episode's start:

    .. math:: \bar\sigma^2 = \max(\mathrm{var} + E + D + v^2 / H,\ v^2 / H,\ 4 f^2 d^6 H^3 v\, n), \quad
              \mathrm{var} = [\langle\phi, \tilde w_h\rangle]_{[0, v^2]} - [\langle\phi, \hat w_h\rangle]_{[0, v]}^2

    .. math:: E = \min(v\bar\beta n, v^2) + \min(2 v\bar\beta n, v^2), \quad
              D = f\min(4 d^3 H v\,(\langle\phi, \hat w_h - \check w_h\rangle + 2\bar\beta n),\ d^3 H v^2)

    .. math:: \beta = v\sqrt{d\lambda} + c\sqrt d\,\ell, \quad \bar\beta = v\sqrt{d\lambda} + c\, d^{3/2} H \ell, \quad
              \ell = \log\frac{d H^3 K}{\delta\lambda v^2}

    With f = 1 hardly anything is learned in any run that can be played, whatever c: the first step with a feature of
    length 1 has the weight :math:`1 / (2 d^3 H^{3/2} v)`.

    References:
      He, Zhao, Zhou, Gu (2023), Nearly minimax optimal reinforcement learning for linear Markov decision processes,
      Algorithm 1.

    Deviations:
      Reconstructed: the theorem gives the radii up to constants, which are 1 here. It is the published algorithm for
      rewards multiplied by H / v, so that they add up to H, written in our unit: a value x there is x v / H here, their
      ridge 1 / H^2 is 1 / v^2, and their floor sqrt H of the weights is v / sqrt H. By default one regression for all
      stages. The multiplier f and the tie rule are ours.
    """

    lam: Number = by_rule(lambda self: 1 / self.value_bound**2, "the ridge; ``1 / v^2`` if not given.")
    beta_scale: Number = declare_beta_scale("the stochastic part of the radii")
    floor_scale: Number = number(
        at_least=0,
        default=1.0,
        doc="f, a multiplier of what keeps weights small: D and the floor by the width; 1 is the theorem.",
    )

    def init(self, model: Model) -> LsviPlusState:
        """Return empty regressions, the largest values and the smallest ones."""
        regression, shape = self.empty(model, self.lam), (model.horizon, model.num_states, model.num_actions)
        return LsviPlusState(
            regression=regression,
            q=jnp.full(shape, self.value_bound, self.dtype),
            low=jnp.zeros(shape, self.dtype),
            last=regression.ridge.log_det,
            layer=jnp.int32(0),
            weight=jnp.zeros((), self.dtype),
            status=jnp.int32(0),
        )

    def plan(self, state: LsviPlusState, model: Model, key: jax.Array | None = None) -> LsviPlusPlan:
        """Plan the coming episode; without a key ties go to the lowest action."""
        found, (beta, beta_bar), v = self.estimates(model, state.regression), self.radii(model), self.value_bound
        log_det = state.regression.ridge.log_det
        switched = jnp.any(log_det - state.last >= math.log(2) - self.tie_tolerance)

        def back(
            values: tuple[jax.Array, jax.Array], given: tuple[jax.Array | None, jax.Array, jax.Array, jax.Array]
        ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, ...]]:
            (value, low_value), (u, stage, q, low) = values, given
            here = jax.tree.map(lambda x: planning.at_stage(x, self.group(stage)), found)
            mean, low_mean, second = (planning.expectation(here.kernel, x) for x in (value, low_value, value**2))
            var_bar = self.var_bar(model, here.width, mean, low_mean, second)
            upper = jnp.minimum(jnp.minimum(model.reward + mean + beta * here.width, q), v)
            lower = jnp.maximum(jnp.maximum(model.reward + low_mean - beta_bar * here.width, low), 0)
            q, low = jnp.where(switched, upper, q), jnp.where(switched, lower, low)
            policy, value = self.greedy(q, u, v)
            return (value, largest(jnp.moveaxis(low, 1, 0))), (q, value, policy, low, var_bar)

        end, stages = jnp.zeros(model.num_states, self.dtype), jnp.arange(model.horizon, dtype=jnp.int32)
        given = (self.draws(model, key), stages, state.q, state.low)
        _, (q, value, policy, low, var_bar) = lax.scan(back, (end, end), given, reverse=True)
        last = jnp.where(switched, log_det, state.last)
        return LsviPlusPlan(q, planning.with_end(value), policy, low, var_bar, switched, last)

    def update(self, state: LsviPlusState, model: Model, plan: LsviPlusPlan, step: Step) -> LsviPlusState:
        """Learn from a step with its weight, and keep the plan of its stage."""
        of_stage = planning.at_stage(plan.var_bar, step.stage).reshape(-1)
        weight = 1 / jnp.sqrt(take(of_stage, step.state * model.num_actions + step.action))
        regression, update = self.learn(state.regression, model, step, weight)
        q = planning.with_stage(state.q, step.stage, planning.at_stage(plan.q, step.stage))
        low = planning.with_stage(state.low, step.stage, planning.at_stage(plan.low, step.stage))
        layer, failure = self.group(step.stage) + 1, ridge.failure(update)
        return LsviPlusState(regression, q, low, plan.last, layer, weight, state.status | failure)

    def var_bar(
        self, model: Model, width: jax.Array, mean: jax.Array, low_mean: jax.Array, second: jax.Array
    ) -> jax.Array:
        """Return the variance that a step is weighted by, from what the regressions say of each pair, all [S, A]."""
        dim, v, horizon = self.features(model).shape[2], self.value_bound, model.horizon
        unsure = self.radii(model)[1] * width
        variance = jnp.clip(second, 0, v**2) - jnp.clip(mean, 0, v) ** 2
        error = jnp.minimum(v * unsure, v**2) + jnp.minimum(2 * v * unsure, v**2)
        gap = jnp.minimum(4 * v * (mean - low_mean + 2 * unsure), v**2) * (self.floor_scale * dim**3 * horizon)
        floor = 4 * self.floor_scale**2 * dim**6 * horizon**3 * v * width
        least = v**2 / horizon
        return jnp.maximum(jnp.maximum(variance + error + gap + least, least), floor)

    def radii(self, model: Model) -> tuple[jax.Array, jax.Array]:
        """Return ``beta``, of optimistic values, and ``beta_bar``, of pessimistic ones and of the variance, both []."""
        dim, horizon = self.features(model).shape[2], model.horizon
        log = math.log(dim * horizon**3) + jnp.log(self.num_episodes / (self.delta * self.lam * self.value_bound**2))
        bias, scale = self.value_bound * jnp.sqrt(dim * self.lam), self.beta_scale * log
        return bias + math.sqrt(dim) * scale, bias + dim**1.5 * horizon * scale


lsvi_ucb_plus = factory(LsviUcbPlus)
