"""Rewards with heavy tails and known variance: HEAVY-OFUL, and Hvt-UCB, which passes over them once.

Both divide a reward by a sigma of its own and clip what is left of it: nothing is assumed of the noise but its
variance, which is told with the reward. With the width ``n = |x|_{H^-1}`` of an arm before it is learned from,

    H = lam I + sum x x^T / sigma^2        w = n / sigma        tau = tau0 sqrt(1 + w^2) / w

and ``huber_tau(z)`` is ``z^2 / 2`` up to tau, and the line ``tau |z| - tau^2 / 2`` beyond it.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxvar import cholesky, parameters, ridge, status
from jaxvar.algorithms.bandit import ToldVariance, declare_memory
from jaxvar.algorithms.glb_omd import LinkOptimist, project
from jaxvar.algorithms.interface import Choice, Side, by_rule
from jaxvar.claims import Claim
from jaxvar.lowering import combine, gram, inner, take
from jaxvar.parameters import Number, factory, number, pytree

CLAIMS = {
    "heavy_oful": Claim(
        "HEAVY-OFUL",
        "Huang, Zhong, Wang, Yang 2023",
        "d sqrt(sum sigma^2) + d",
        variance="told after the pull",
        constants="read",
        assumption="no bound on the noise",
    ),
    "hvt_ucb": Claim(
        "Hvt-UCB",
        "Wang, Zhang, Zhao, Zhou 2025",
        "d sqrt(sum sigma^2) + d",
        variance="told after the pull",
        constants="reconstructed",
        assumption="no bound on the noise",
    ),
}
_STEPS = 40  # of the Huber regression, at most: one or two are usual, since it begins at the last estimate


class Observation(NamedTuple):
    """A reward in units of its sigma; a history of them has one more axis in front."""

    x: jax.Array  # [d]   x / sigma; zero where there is none yet
    y: jax.Array  # []   r / sigma
    tau: jax.Array  # []   where its residual is clipped


class HeavyState(NamedTuple):
    """State for one seed."""

    theta_hat: jax.Array  # [d]
    inverse: ridge.Inverse  # of H
    beta_hat: jax.Array  # []   the theorem's radius
    history: Observation | None  # [memory, ...]   of HEAVY-OFUL alone
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32

    @property
    def sigma_inv(self) -> jax.Array:
        """The inverse of H, [d, d]."""
        return self.inverse.matrix


class _Search(NamedTuple):
    """Where the search for the estimate is."""

    theta: jax.Array  # [d]
    newton: jax.Array  # []   bool: whether the next step is one of Newton's method
    found: jax.Array  # []   bool


def huber_regression(start: jax.Array, seen: Observation, lam: Number, radius: Number) -> tuple[jax.Array, jax.Array]:
    r"""Solve :math:`\min_{\|\theta\| \le B} \tfrac\lambda2\|\theta\|^2 + \sum_s huber_{\tau_s}(y_s - x_s^\top\theta)`.

    While it is known which residuals are clipped, the sum is a quadratic function, and its least point in the ball is
    the projection of its least point in the norm of its own matrix: that is a step of Newton's method. If the step
    leaves the same residuals clipped, on the same sides, it has solved the problem. A step that leads upwards is taken
    back, and one of reweighted least squares, which never does, is made instead.

    Args:
      start: [d] where to begin.
      seen: all observations, [M, ...].
      lam: [] the ridge.
      radius: [] B.

    Returns:
      The solution ``[d]``, and whether it was found up to rounding, [].
    """
    eye, limits = jnp.eye(start.shape[0], dtype=start.dtype), np.finfo(start.dtype)

    def clipped(z: jax.Array) -> jax.Array:
        return jnp.where(jnp.abs(z) <= seen.tau, 0, jnp.sign(z))

    def loss(theta: jax.Array, z: jax.Array) -> jax.Array:
        size = jnp.abs(z)
        terms = jnp.where(size <= seen.tau, size * size / 2, seen.tau * (size - seen.tau / 2))
        return lam / 2 * jnp.sum(theta * theta, axis=0) + jnp.sum(terms, axis=0)

    def step(at: _Search) -> _Search:
        z = seen.y - inner(seen.x, at.theta)
        outside = clipped(z)
        share = jnp.where(outside == 0, 1, jnp.where(at.newton, 0, seen.tau / jnp.abs(z)))
        gradient = lam * at.theta - combine(seen.x, jnp.clip(z, -seen.tau, seen.tau)[:, None])
        lower = cholesky.factor(gram(seen.x, share) + lam * eye)
        moved = at.theta - cholesky.solve(lower, gradient)
        theta, projected = project(moved, lambda: cholesky.solve(lower, eye), radius)
        after = seen.y - inner(seen.x, theta)
        same = jnp.all(clipped(after) == outside, axis=0)
        # A residual that rounding clips and does not clip in turn moves the estimate by no more than rounding.
        still = jnp.max(jnp.abs(theta - at.theta), axis=0) <= limits.eps**0.75 * radius
        found = at.newton & projected & (same | still)
        taken = ~at.newton | found | (loss(theta, after) <= loss(at.theta, z))
        return _Search(jnp.where(taken, theta, at.theta), taken, found)

    def search(_: int, at: _Search) -> _Search:
        return lax.cond(~at.found, step, lambda at: at, at)

    begin = _Search(start, jnp.ones((), bool), jnp.zeros((), bool))
    end = lax.fori_loop(0, _STEPS, search, begin)
    return end.theta, end.found


@pytree
class HeavyTailed(ToldVariance, LinkOptimist):
    """Base of both: their units, thresholds and ellipsoid; each gives sigma, the radius and the estimate."""

    num_rounds: Number = number(at_least=1, kw_only=False, doc="K, in the logarithms and in the least sigma.")
    norm_bound: Number = number(above=0, squared=True, default=1.0, doc="A, a bound on the norm of an arm.")
    lam: Number = by_rule(lambda self: self.dim / self.theta_bound**2, "the ridge; d / B^2 if not given.")
    least_std: Number = by_rule(
        lambda self: self.num_rounds**-0.5,
        "the least sigma, in the units of the rewards; 1 / sqrt(K) if not given.",
        squared=True,
    )

    @property
    def log_term(self) -> Number:
        """``lg``, the logarithm of one over the failure probability of an event."""
        raise NotImplementedError

    @property
    def radius(self) -> jax.Array:
        """``beta``, the theorem's radius in every round."""
        raise NotImplementedError

    def std(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``sigma`` of an observation of an arm of ``width []``, told the noise variance, []."""
        raise NotImplementedError

    def estimate(
        self, state: HeavyState, seen: Observation, inverse: ridge.Inverse
    ) -> tuple[jax.Array, Observation | None, jax.Array]:
        """Return the estimate ``[d]`` after one more observation, the history, and status bits.

        The matrix whose ``inverse`` is given includes the observation.
        """
        raise NotImplementedError

    @property
    def growth(self) -> jax.Array:
        """``kap``, a bound on ``log(det H / lam^d)`` after K rounds."""
        squared = self.norm_bound**2 / (self.dim * self.lam * self.least_std**2)
        return self.dim * jnp.log1p(self.num_rounds * squared)

    @property
    def tau0(self) -> jax.Array:
        """The threshold of clipping for an observation of width 1, but for a factor of at most sqrt(2)."""
        return jnp.sqrt(2 * self.growth / self.log_term)

    def init(self) -> HeavyState:
        """Return an estimate of zero."""
        inverse = ridge.init_inverse(self.dim, self.lam, self.dtype)
        beta = jnp.asarray(self.radius, self.dtype)
        return HeavyState(jnp.zeros(self.dim, self.dtype), inverse, beta, None, jnp.int32(0), jnp.int32(0))

    def width(self, state: HeavyState, x: jax.Array) -> jax.Array:
        """Return ``|x|_{H^-1}``, []."""
        return jnp.sqrt(ridge.width2(state.inverse.root, x))

    def select(self, state: HeavyState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest upper confidence bound.

        The variances in ``side`` do not enter the choice; they give the weight ``1 / sigma`` that is recorded with it.
        """
        choice = super().select(state, arms, key, side)
        width = self.width(state, take(arms, choice.action))
        return choice._replace(weight=1 / self.std(width, take(side.noise_var, choice.action)))

    def update(self, state: HeavyState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> HeavyState:
        """Learn from a reward, in units of its sigma."""
        chex.assert_shape(x, (self.dim,))
        std = self.std(self.width(state, x), side.noise_var)
        row = x / std
        inverse, _, width2 = ridge.learn_inverse(state.inverse, row)  # w^2
        tau = self.tau0 * jnp.sqrt(1 + 1 / jnp.maximum(width2, np.finfo(self.dtype).tiny))
        theta, history, bits = self.estimate(state, Observation(row, reward / std, tau), inverse)
        finite = jnp.isfinite(width2) & jnp.isfinite(jnp.sum(theta, axis=0))
        return HeavyState(
            theta_hat=theta,
            inverse=inverse,
            beta_hat=state.beta_hat,
            history=history,
            round=state.round + 1,
            status=state.status | choice.status | jnp.where(finite, bits, status.NONFINITE).astype(jnp.int32),
        )


@pytree
class HeavyOful(HeavyTailed):
    r"""HEAVY-OFUL: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + c\beta\|a\|_{H^{-1}}`; Huber regression.

    With :math:`\log_0 = \log(2K^2/\delta)`, :math:`\kappa = d\log(1 + K A^2/(d\lambda\sigma_{\min}^2))` and
    :math:`n = \|x\|_{H^{-1}}` before H learns, a reward has

    .. math::
        \sigma = \max\left\{\nu,\ \sigma_{\min},\ \sqrt{23 \log_0}\, n,\
        \sqrt{A B n}\left(\frac{24 \log_0}{\kappa}\right)^{1/4}\right\}, \qquad w = \frac n\sigma, \qquad
        \tau = \sqrt{\frac{2\kappa}{\log_0}} \frac{\sqrt{1 + w^2}}{w}

    where :math:`\nu^2` is its noise variance, told with it. Then :math:`H \leftarrow H + x x^\top/\sigma^2`,

    .. math::
        \hat\theta = \arg\min_{\|\theta\| \le B} \tfrac\lambda2\|\theta\|^2
        + \sum_s huber_{\tau_s}\left(\frac{r_s - \langle x_s, \theta\rangle}{\sigma_s}\right), \qquad
        \beta = 3\sqrt\lambda B + 24\sqrt{2\kappa\log_0}

    Which residuals are clipped depends on theta, so that no sums over rounds suffice: all of them are remembered, and
    every round solves the problem anew, to the last digits, from the last estimate. Time and memory of a round are
    :math:`O(K d^2)` and :math:`O(K d)`, those of a run :math:`O(K^2 d^2)`: for long runs there is
    :func:`jaxvar.hvt_ucb`. Weights reach :math:`1/\sigma_{\min} = \sqrt K`, so use float64.

    References:
      Huang, Zhong, Wang, Yang (2023), Tackling heavy-tailed rewards in reinforcement learning with function
      approximation: minimax optimal and instance-dependent regret bounds; the algorithm for linear bandits with finite
      variance, where epsilon = 1.

    Deviations:
      - The ridge is :math:`d / B^2` and the last term of sigma has :math:`\sqrt{A B}`: the same with A = B = 1, as
        the constants were read, and no choice depends on the units of rewards where all bounds change with them.
      - The multiplier and the rule for ties are ours.
    """

    memory: int = declare_memory("rounds to remember")

    @property
    def log_term(self) -> Number:
        """``log(2 K^2 / delta)``."""
        return jnp.log(2 / self.delta) + 2 * jnp.log(self.num_rounds)

    @property
    def radius(self) -> jax.Array:
        bias = 3 * jnp.sqrt(self.lam) * self.theta_bound
        return bias + 24 * jnp.sqrt(2 * self.growth * self.log_term)

    def std(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        lg = self.log_term
        root = jnp.sqrt(self.norm_bound * self.theta_bound * width) * (24 * lg / self.growth) ** 0.25
        floor = jnp.maximum(self.least_std, jnp.maximum(jnp.sqrt(23 * lg) * width, root))
        return jnp.maximum(jnp.sqrt(self.told(noise_var)), floor)

    def init(self) -> HeavyState:
        """Return an estimate of zero, and no rounds to remember."""
        empty = (jnp.zeros((self.memory, self.dim)), jnp.zeros(self.memory), jnp.ones(self.memory))
        return super().init()._replace(history=Observation(*(v.astype(self.dtype) for v in empty)))

    def estimate(
        self, state: HeavyState, seen: Observation, inverse: ridge.Inverse
    ) -> tuple[jax.Array, Observation | None, jax.Array]:
        """Remember the observation and solve for the estimate over all of them."""
        history = jax.tree.map(
            lambda rows, new: lax.dynamic_update_index_in_dim(rows, new, state.round, 0), state.history, seen
        )
        theta, found = huber_regression(state.theta_hat, history, self.lam, self.theta_bound)
        full = jnp.where(state.round < self.memory, 0, status.CAPACITY)
        return theta, history, full | jnp.where(found, 0, status.UNSOLVED)

    def grow(self) -> Self:
        """Return the same algorithm with more rounds remembered."""
        return parameters.replace(self, memory=2 * self.memory)


heavy_oful = factory(HeavyOful)


@pytree
class HvtUcb(HeavyTailed):
    r"""Hvt-UCB: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + c\beta\|a\|_{V^{-1}}`; one pass over rewards.

    A reward of noise variance :math:`\nu^2`, told with it, moves the estimate once. With
    :math:`\log_0 = \max\{1, \log(2/\delta)\}`, :math:`\kappa = \max\{1, d\log(1 + K A^2/(d\lambda\sigma_{\min}^2))\}`,
    :math:`\tau_0 = \sqrt{2\kappa/\log_0}` and :math:`n = \|x\|_{V^{-1}}` before V learns,

    .. math::
        \sigma = \max\left\{\nu,\ \sigma_{\min},\ \sqrt{2 c\beta/\tau_0}\, n\right\}, \qquad w = \frac n\sigma, \qquad
        \tau = \tau_0 \frac{\sqrt{1 + w^2}}{w}, \qquad V \leftarrow V + \frac{x x^\top}{\sigma^2}

    .. math::
        \hat\theta \leftarrow \Pi_V\left(\hat\theta + V^{-1} \frac x\sigma \left[\frac{r - \langle x, \hat\theta\rangle}
        \sigma\right]_{-\tau}^{\tau}\right), \qquad
        \beta = \tfrac52 \sqrt{\kappa\log_0} + \sqrt{\lambda B^2 + \tfrac{11}2 \kappa + \tfrac{13}5 \log_0}

    where :math:`\Pi_V` projects on the ball of radius B in the norm of V. Time and memory of a round are
    :math:`O(d^2)`, and :math:`O(d^3)` where the ball is left. Weights reach :math:`\sqrt K`, so use float64.

    References:
      Wang, Zhang, Zhao, Zhou (2025), Heavy-tailed linear bandits: Huber regression with one-pass update; the
      algorithm with finite variance, where epsilon = 1.

    Deviations:
      - The constants are reconstructed: the source's step size (here 1), ridge and radius were not read. With
        probability :math:`1 - \delta`, theta* is in the ellipsoid after each of K rounds. While it is, the error
        :math:`\Delta = \langle x, \hat\theta - \theta^*\rangle/\sigma` is at most :math:`\tau/2`, so the clipped
        residual is :math:`\phi - \Delta`, where the noise :math:`\phi`, clipped somewhere beyond :math:`\tau/2`, has
        variance at most 1, bias at most :math:`1/(2\tau)` and size at most :math:`3\tau/2`. The step then gives, with
        :math:`q = w^2/(1 + w^2)`, :math:`D_{t+1} \le D_t + 2(1 - q)\phi\Delta - (1 - q)\Delta^2 + q\phi^2` for
        :math:`D = \|\hat\theta - \theta^*\|_V^2`. Freedman's inequality bounds the sum of the last terms by
        :math:`\tfrac{11}2\kappa`, and that of the first by :math:`\tfrac52\beta\sqrt{\kappa\log_0}` and
        :math:`\tfrac{13}5\log_0`, its variance against the negative terms: the radius above solves it.
      - The multiplier and the rule for ties are ours.
    """

    @property
    def log_term(self) -> Number:
        """``max(1, log(2 / delta))``."""
        return jnp.maximum(1, jnp.log(2 / self.delta))

    @property
    def growth(self) -> jax.Array:
        """``kap``, a bound on ``log(det V / lam^d)`` after K rounds, at least 1."""
        return jnp.maximum(1, super().growth)

    @property
    def radius(self) -> jax.Array:
        lg, kap = self.log_term, self.growth
        return 2.5 * jnp.sqrt(kap * lg) + jnp.sqrt(self.lam * self.theta_bound**2 + 5.5 * kap + 2.6 * lg)

    def std(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        floor = jnp.maximum(self.least_std, jnp.sqrt(2 * self.beta_scale * self.radius / self.tau0) * width)
        return jnp.maximum(jnp.sqrt(self.told(noise_var)), floor)

    def estimate(
        self, state: HeavyState, seen: Observation, inverse: ridge.Inverse
    ) -> tuple[jax.Array, Observation | None, jax.Array]:
        """Make one step of mirror descent."""
        residual = seen.y - jnp.sum(seen.x * state.theta_hat, axis=0)
        moved = state.theta_hat + jnp.clip(residual, -seen.tau, seen.tau) * ridge.along(inverse.root, seen.x)[0]
        theta, found = project(moved, lambda: inverse.matrix, self.theta_bound)
        return theta, None, jnp.where(found, 0, status.UNSOLVED)


hvt_ucb = factory(HvtUcb)
