"""Thompson sampling around a ridge estimate: LinTS, from a normal distribution, and FGTS-VA, from a tilted one."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import random, ridge
from jaxvar.algorithms import bandit
from jaxvar.algorithms.bandit import BoundedBandit, ToldVariance, lost
from jaxvar.algorithms.interface import Choice, Side, Typed
from jaxvar.claims import Claim
from jaxvar.lowering import combine, inner, lowest, take
from jaxvar.parameters import Number, choice, count, factory, number, pytree
from jaxvar.sums import Sum, empty_sum

CLAIMS = {
    "lin_ts": Claim(
        "LinTS",
        "Agrawal, Goyal 2013; Abeille, Lazaric 2017",
        "d^1.5 sqrt(K)",
        variance="not used",
        constants="derived again",
    ),
    "fgts_va": Claim(
        "FGTS-VA", "Li, Gu 2025", "d sqrt(sum sigma^2) + d", variance="told before the pull", constants="reconstructed"
    ),
}

_PROPOSALS_PER_ARM = 8  # all are refused with probability below exp(-8)
_MOST_UNROLLED = 256  # arms that are compared one by one; more are gathered
SCALES = ("abeille_lazaric", "agrawal_goyal", "bayes")
# Streams of the round's key, apart from that of ties, which is 0.
NORMALS, PROPOSED, ACCEPTED = 1, 2, 3


class SamplerState(NamedTuple):
    """State of a Thompson sampler for one seed."""

    regression: ridge.Ridge  # V = lam I + sum w^2 x x^T
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class Sampler(BoundedBandit):
    """Base of the Thompson samplers ``theta_hat + beta R z``; each gives ``lam``, ``weight`` and ``spread``."""

    beta_scale: Number = number(at_least=0, default=1.0, doc="c, a multiplier of the stochastic part of the radius.")

    @property
    def lam(self) -> Number:
        """The ridge."""
        raise NotImplementedError

    def weight(self, state: SamplerState, x: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``w`` of an observation of ``x [d]``, told the noise variance, []."""
        raise NotImplementedError

    def spread(self, state: SamplerState) -> jax.Array:
        """Return ``beta`` of the next round, by which a standard normal vector is multiplied, []."""
        raise NotImplementedError

    def init(self) -> SamplerState:
        """Return an empty regression."""
        return SamplerState(ridge.init_ridge(self.dim, self.lam, self.dtype), jnp.int32(0), jnp.int32(0))

    def select(self, state: SamplerState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Draw a parameter and choose its best of ``arms [num_arms, dim]``.

        The variances in ``side`` do not enter the choice; they give the weight that is recorded with it.
        """
        chex.assert_shape(arms, (None, self.dim))
        words = random.key_words(key)
        sampled = inner(arms, draw(state.regression, self.spread(state), words))
        action = self.best(sampled, words, side.available)
        weight = self.weight(state, take(arms, action), take(side.noise_var, action))
        return Choice(action, jnp.ones_like(action), weight, lost(sampled, side.available))

    def update(self, state: SamplerState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> SamplerState:
        """Learn by one step of regression, with the weight that follows from what ``side`` tells after the pull."""
        chex.assert_shape(x, (self.dim,))
        weight = self.weight(state, x, side.noise_var)
        after, update = ridge.regress(state.regression, weight * x, weight * reward)
        return SamplerState(after, state.round + 1, state.status | choice.status | ridge.failure(update))

    def recommend(self, state: SamplerState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest estimate, []: nothing is drawn."""
        return self.top(inner(arms, state.regression.theta_hat), side.mask(arms.shape[0]))


def draw(regression: ridge.Ridge, scale: jax.Array, words: jax.Array) -> jax.Array:
    """Return ``theta_hat + scale R z``, [d], with standard normal z from the words ``[2]`` of the round's key."""
    theta_hat = regression.theta_hat
    z = random.normal(random.bits(words, theta_hat.shape, stream=NORMALS), theta_hat.dtype)
    return theta_hat + scale * inner(regression.root, z)


@pytree
class LinTs(Sampler):
    r"""LinTS: draw :math:`\tilde\theta = \hat\theta + \beta V^{-1/2} z`, z standard normal, and pull its best arm.

    In round k, with :math:`V = \lambda I + \sum x x^\top` and the square root of :math:`V^{-1}` that regressions carry,

    - ``abeille_lazaric``: :math:`\beta = c R \sqrt{2\log(4K/\delta) + \log\det V - d\log\lambda} + \sqrt\lambda B`,
      OFUL's radius at the level :math:`\delta/(4K)`;
    - ``agrawal_goyal``: :math:`\beta = c R \sqrt{9 d \log(k/\delta)}`;
    - ``bayes``: :math:`\beta = c R`, the posterior under normal noise and the prior
      :math:`N(0, R^2 I/\lambda)` where c = 1.

    Noise in [-R, R] is R-sub-Gaussian, and c = 1 is the analysis.

    References:
      Agrawal, Goyal (2013), Thompson sampling for contextual bandits with linear payoffs. Abeille, Lazaric (2017),
      Linear Thompson sampling revisited.
    """

    num_rounds: Number | None = number(
        at_least=1, default=None, kw_only=False, doc="K; needed by ``abeille_lazaric`` only."
    )
    scale: str = choice(*SCALES, default="abeille_lazaric", doc="which of the three.")
    delta: Number = number(above=0, below=1, default=0.01, doc="failure probability; not used by ``bayes``.")
    lam: Number = number(above=0, default=1.0, doc="the ridge.")

    def check(self) -> None:
        """Refuse a scale without the number it needs."""
        if self.num_rounds is None and self.scale == "abeille_lazaric":
            raise ValueError("num_rounds must be given for scale='abeille_lazaric', got None")

    @property
    def unused(self) -> tuple[str, ...]:
        """Assumptions that the scale does not rest on."""
        return () if self.scale == "abeille_lazaric" else ("num_rounds",)

    def weight(self, state: SamplerState, x: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Count every observation once."""
        return jnp.ones((), self.dtype)

    def spread(self, state: SamplerState) -> jax.Array:
        c, bound = self.beta_scale, self.noise_bound
        if self.scale == "abeille_lazaric" and self.num_rounds is not None:
            growth = 2 * jnp.log(4 * self.num_rounds / self.delta) + state.regression.log_det
            return c * bound * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.theta_bound
        if self.scale == "agrawal_goyal":
            k = (state.round + 1).astype(self.dtype)
            return c * bound * jnp.sqrt(9 * self.dim * jnp.log(k / self.delta))
        return jnp.asarray(c * bound)


lin_ts = factory(LinTs)


class FgtsChoice(NamedTuple):
    """A decision of FGTS-VA."""

    action: jax.Array  # []   int32, index of the arm
    layer: jax.Array  # []   int32, 1
    weight: jax.Array  # []   1 / sigma_bar of the pulled arm
    status: jax.Array  # []   int32
    refused: jax.Array  # []   bool, whether every proposal was


class FgtsState(NamedTuple):
    """State of FGTS-VA for one seed."""

    regression: ridge.Ridge  # V = lam I + sum x x^T / sigma_bar^2
    variance_sum: Sum  # []   of sigma_bar^2
    num_refused: jax.Array  # []   int32, rounds in which every proposal was refused
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class FgtsVa(ToldVariance, Typed):
    r"""FGTS-VA for linear rewards: draw theta from a posterior that prefers large best rewards, pull its best arm.

    With the variance :math:`\sigma_k^2` known before the pull, :math:`\bar\sigma_k^2 = \max(\sigma_k^2, 1/K)` and
    :math:`\lambda_k = c \sqrt{\sum_{i \le k} \bar\sigma_i^2}/\bar\sigma_k^2`, the density in round k is proportional to

    .. math:: \exp\Big(-\lambda|\theta|^2 - \sum_{i<k} (r_i - \langle x_i, \theta\rangle)^2/\bar\sigma_i^2
       + \lambda_k \max_a \langle a, \theta\rangle\Big).

    Without the last term it is the normal distribution around :math:`\hat\theta` of covariance :math:`V^{-1}/2`,
    :math:`V = \lambda I + \sum x x^\top/\bar\sigma^2`. Times :math:`e^{\lambda_k \langle a, \theta\rangle}` it is one
    of the same covariance around :math:`\hat\theta + \tfrac{\lambda_k}2 V^{-1} a`, of mass proportional to
    :math:`\exp(\lambda_k\langle a, \hat\theta\rangle + \tfrac{\lambda_k^2}4 \|a\|_{V^{-1}}^2)`. So a proposal picks an
    arm with these probabilities, draws theta around its centre, and is accepted with probability
    :math:`\max_a e^{\lambda_k\langle a, \theta\rangle}/\sum_a e^{\lambda_k\langle a, \theta\rangle}`, which is at
    least one over the number of arms: the first accepted proposal has exactly the density above. All exponents are
    taken relative to the largest.

    **Cost.** Every round draws all 8 N proposals of d normal numbers and measures N arms under each, about
    :math:`8 N^2 d` products where SAVE has :math:`N d^2` per layer: with N = 20 and d = 10 it takes some 25 times as
    long as SAVE. Drawing until one is accepted would take fewer, but a loop whose length differs between seeds. Use
    float64: the exponents reach :math:`\lambda_k^2`, of the order of K^2 without noise.

    References:
      Li, Gu (2025), Variance-aware feel-good Thompson sampling for contextual bandits.

    Deviations:
      The source's c and floor were not read: c is left to tune, the floor is that of Weighted OFUL+. Where the variance
      depends on the arm, the largest of the round's counts in :math:`\lambda_k`, and the pulled arm's in the regression
      and in the sum. The sampler is ours.
    """

    dim: int = count(kw_only=False, doc="d, the length of an arm.")
    num_rounds: Number = number(at_least=1, kw_only=False, doc="K, in the floor of the variance.")
    feel_good: Number = number(
        at_least=0,
        default=None,
        rule=lambda self: self.dim**-0.5,
        doc=r"c, :math:`1/\sqrt d` if not given; 0 is posterior sampling.",
    )
    lam: Number = number(above=0, default=1.0, doc="the ridge; the prior is N(0, I / (2 lam)).")
    num_proposals: int | None = count(
        high=2**20,
        default=None,
        doc="drawn in each round, 8 for each arm if not given. Should all be refused, which is counted in "
        "``state.num_refused`` and has probability below exp(-8), the one nearest to acceptance is taken.",
    )
    ties: str = bandit.declare_ties()
    tie_tolerance: Number = bandit.declare_tolerance()

    @property
    def unit(self) -> Number:
        """The size of what values are made of: the spread of the prior, up to a factor."""
        return self.lam**-0.5

    def init(self) -> FgtsState:
        """Return an empty regression."""
        zero = jnp.int32(0)
        regression, none = ridge.init_ridge(self.dim, self.lam, self.dtype), empty_sum((), self.dtype)
        return FgtsState(regression, none, zero, zero, zero)

    def select(self, state: FgtsState, arms: jax.Array, key: jax.Array, side: Side) -> FgtsChoice:
        """Draw a parameter and choose its best of ``arms [num_arms, dim]``, told all variances ``[num_arms]``."""
        chex.assert_shape(arms, (None, self.dim))
        chex.assert_shape(side.noise_var, (arms.shape[0],))
        told = side.noise_var if self.variance_bound is None else jnp.zeros_like(side.noise_var) + self.variance_bound
        bar2 = jnp.maximum(self.variance_scale * told, 1 / self.num_rounds)  # sigma_bar^2 of each arm
        largest = jnp.max(side.present(bar2), axis=0)
        tilt = self.feel_good * jnp.sqrt(state.variance_sum.total + largest) / largest
        words, num = random.key_words(key), self.num_proposals or _PROPOSALS_PER_ARM * arms.shape[0]
        theta, refused = draw_feel_good(state.regression, tilt, arms, words, num, side.available)
        sampled = inner(arms, theta)
        best = bandit.best(sampled, side.mask(arms.shape[0]), self.tie_tolerance, self.unit)
        action = bandit.pick(best, words, self.ties)
        weight = 1 / jnp.sqrt(take(bar2, action))
        return FgtsChoice(action, jnp.ones_like(action), weight, lost(sampled, side.available), refused)

    def update(self, state: FgtsState, choice: FgtsChoice, x: jax.Array, reward: jax.Array, side: Side) -> FgtsState:
        """Learn by one step of the regression with the weight of the choice."""
        chex.assert_shape(x, (self.dim,))
        after, update = ridge.regress(state.regression, choice.weight * x, choice.weight * reward)
        return FgtsState(
            regression=after,
            variance_sum=state.variance_sum.add(1 / choice.weight**2),
            num_refused=state.num_refused + choice.refused.astype(jnp.int32),
            round=state.round + 1,
            status=state.status | choice.status | ridge.failure(update),
        )

    def recommend(self, state: FgtsState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest estimate, []: nothing is drawn."""
        estimate = inner(arms, state.regression.theta_hat)
        return lowest(bandit.best(estimate, side.mask(arms.shape[0]), self.tie_tolerance, self.unit))


fgts_va = factory(FgtsVa)


def draw_feel_good(
    regression: ridge.Ridge,
    tilt: jax.Array,
    arms: jax.Array,
    words: jax.Array,
    num: int,
    available: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Sample from the density of :func:`fgts_va` with ``lambda_k = tilt []``, by at most ``num`` proposals.

    Where a mask ``available [N]`` is given, absent arms have no mass, and are not among those compared.

    Returns:
      theta ``[d]``, and whether every proposal was refused, bool ``[]``.
    """
    dtype, (num_arms, dim) = arms.dtype, arms.shape
    if available is not None:
        arms = jnp.where(available[:, None], arms, 0)
    seen = combine(regression.root[:, None], arms.T[:, :, None])  # R^T a, [N, d]
    log_mass = tilt * inner(arms, regression.theta_hat) + tilt**2 / 4 * jnp.sum(seen * seen, axis=1)
    if available is not None:
        log_mass = jnp.where(available, log_mass, -jnp.inf)
    mass = jnp.exp(log_mass - jnp.max(log_mass, axis=0))
    edges = jnp.cumsum(mass, axis=0) / jnp.sum(mass, axis=0)

    u = random.uniform(random.bits(words, (num,), stream=PROPOSED), dtype)
    proposed = jnp.sum((u[:, None] > edges[None, :-1]).astype(jnp.int32), axis=1, dtype=jnp.int32)
    centre = jnp.zeros((), dtype) if num_arms <= _MOST_UNROLLED else seen[proposed]
    for i in range(num_arms if num_arms <= _MOST_UNROLLED else 0):
        centre = jnp.where((proposed == i)[:, None], seen[i][None], centre)  # [num, d]
    z = random.normal(random.bits(words, (num, dim), stream=NORMALS), dtype)
    half = jnp.asarray(0.5, dtype)
    away = half * tilt * centre + jnp.sqrt(half) * z
    theta = regression.theta_hat[None] + combine(regression.root.T[:, None], away.T[:, :, None])  # R away, [num, d]

    values = combine(arms.T[:, None], theta.T[:, :, None])  # [num, N]
    if available is not None:
        values = jnp.where(available[None], values, -jnp.inf)
    excess = values - jnp.max(values, axis=1)[:, None]
    chance = 1 / jnp.sum(jnp.exp(tilt * excess), axis=1)
    ratio = random.uniform(random.bits(words, (num,), stream=ACCEPTED), dtype) / chance
    accepted = ratio < 1
    refused = ~jnp.any(accepted, axis=0)
    nearest = ratio <= jnp.min(ratio, axis=0)
    return take(theta, lowest(accepted | (refused & nearest))), refused
