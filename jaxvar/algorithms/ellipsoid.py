"""Optimism over one ellipsoid around a ridge estimate: OFUL and its kin.

With the weight ``w`` of each observation,

    Sigma = lam I + sum w^2 x x^T          theta_hat = Sigma^-1 sum w^2 y x

and the arm with the largest ``<a, theta_hat> + beta |a|_{Sigma^-1}`` is pulled. That is the best arm under the best
theta of the ellipsoid ``|theta - theta_hat|_Sigma <= beta``, so there is nothing else to optimise. A weighted
observation ``(x, y)`` is a plain one of ``(w x, w y)``: :func:`jaxvar.ridge.regress` does the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import random, ridge
from jaxvar.algorithms.bandit import BoundedBandit, FixedArms, ToldVariance, declare_beta_scale, lost
from jaxvar.algorithms.interface import Choice, Confidence, Side
from jaxvar.claims import Claim
from jaxvar.lowering import inner, take
from jaxvar.parameters import Number, choice, factory, number, pytree

CLAIMS = {
    "confidence_ball": Claim(
        "ConfidenceBall_2", "Dani, Hayes, Kakade 2008", "d sqrt(K)", variance="not used", constants="read", row=1
    ),
    "oful": Claim(
        "OFUL",
        "Abbasi-Yadkori, Pal, Szepesvari 2011",
        "d sqrt(K)",
        variance="not used",
        constants="derived again",
        row=2,
    ),
    "cw_oful": Claim(
        "CW-OFUL",
        "He, Zhou, Zhang, Gu 2022",
        "d sqrt(K)",
        told="R, B, delta, threshold",
        variance="not used",
        constants="derived again",
        assumption="no corruption",
    ),
}


class EllipsoidState(NamedTuple):
    """State of an ellipsoid algorithm for one seed."""

    regression: ridge.Ridge  # of the weighted observations
    tally: Any  # []   what else the radius follows: the largest w so far (0 before the first), or a Sum of errors
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    stats: ridge.ArmStats | None  # only for fixed arms


@pytree
class Optimist(BoundedBandit, FixedArms):
    """Base of the algorithms with one ellipsoid: all of them but ``update``, weights and radius."""

    @property
    def lam(self) -> Number:
        """The ridge."""
        raise NotImplementedError

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``w`` of an observation of an arm of ``width`` (before learning), told the noise variance; all []."""
        raise NotImplementedError

    def beta(self, state: EllipsoidState) -> jax.Array:
        """Return ``beta`` for the next round, []."""
        raise NotImplementedError

    def init(self) -> EllipsoidState:
        """Return an empty regression."""
        regression = ridge.init_ridge(self.dim, self.lam, self.dtype)
        stats = None if self.fixed_arms is None else ridge.arm_stats(regression, jnp.asarray(self.fixed_arms))
        return EllipsoidState(regression, jnp.zeros((), self.dtype), jnp.int32(0), jnp.int32(0), stats)

    def follow(self, state: EllipsoidState, after: ridge.Ridge, update: ridge.Update) -> ridge.ArmStats | None:
        """Return the statistics of the fixed arms after an update, which the regression ``after`` includes."""
        if state.stats is None:
            return None
        return ridge.follow(state.stats, after, update, jnp.asarray(self.fixed_arms), state.round + 1)

    def select(self, state: EllipsoidState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest upper confidence bound.

        The variances in ``side`` do not enter the choice; they give the weight that is recorded with it.
        """
        chex.assert_shape(arms, (None, self.dim))
        width2, pred = ridge.arm_stats(state.regression, arms) if state.stats is None else state.stats
        width = jnp.sqrt(width2)
        upper = pred + self.beta(state) * width
        action = self.best(upper, random.key_words(key), side.available)
        weight = self.weight(take(width, action), take(side.noise_var, action))
        return Choice(action, jnp.ones_like(action), weight, lost(upper, side.available))

    def recommend(self, state: EllipsoidState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest estimate, []."""
        return self.top(inner(arms, state.regression.theta_hat), side.mask(arms.shape[0]))

    def confidence(self, state: EllipsoidState) -> Confidence:
        """Return the one ellipsoid, as a layer."""
        loss, lost = state.regression.losses
        return Confidence(loss[None], jnp.asarray(self.lam)[None], self.beta(state)[None], lost[None])


@pytree
class Ellipsoid(Optimist):
    """Base of OFUL and its kin; each gives ``weight`` and ``radius_of``."""

    lam: Number = number(above=0, default=1.0, doc="the ridge.")
    fixed_radius: Number | None = number(at_least=0, default=None, doc="a constant that replaces the whole radius.")

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Count every observation once."""
        return jnp.ones_like(width)

    def radius_of(self, state: EllipsoidState) -> jax.Array:
        """Return the theorem's ``beta`` for the next round, []."""
        raise NotImplementedError

    def beta(self, state: EllipsoidState) -> jax.Array:
        return self.radius_of(state) if self.fixed_radius is None else jnp.asarray(self.fixed_radius)

    @property
    def unused(self) -> tuple[str, ...]:
        """Assumptions that the radius does not rest on: all where it is given."""
        return () if self.fixed_radius is None else ("noise_bound", "norm_bound", "num_rounds")

    def update(
        self, state: EllipsoidState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> EllipsoidState:
        """Learn by one step of ridge regression, with the weight that follows from what ``side`` tells."""
        chex.assert_shape(x, (self.dim,))
        weight = self.weight(jnp.sqrt(ridge.width2(state.regression.root, x)), side.noise_var)
        regression, update = ridge.regress(state.regression, weight * x, weight * reward)
        return EllipsoidState(
            regression=regression,
            tally=jnp.maximum(state.tally, weight),
            round=state.round + 1,
            status=state.status | choice.status | ridge.failure(update),
            stats=self.follow(state, regression, update),
        )


@pytree
class KnownVarianceEllipsoid(ToldVariance, Ellipsoid):
    """An ellipsoid algorithm that is told the noise variance of each pulled arm, with its reward."""

    norm_bound: Number = number(above=0, squared=True, default=1.0, doc="A, a bound on the norm of an arm.")


@pytree
class ConfidenceBall(Ellipsoid):
    r"""ConfidenceBall_2: pull :math:`\arg\max_a \langle a, \hat\theta_t\rangle + u\sqrt{\beta_t}\,\|a\|_{A_t^{-1}}`.

    .. math::
        \beta_t = \max\{128\, d \log t \log(t^2/\delta),\ (\tfrac83 \log(t^2/\delta))^2\}, \qquad
        A_t = \lambda I + \sum_{s<t} a_s a_s^\top, \qquad u = c\max\{R, B\}

    The paper has u = 1: arms of norm at most 1, and noise and theta* of size at most 1. The noise variance is not used.

    References:
      Dani, Hayes, Kakade (2008), Stochastic linear optimization under bandit feedback, Algorithm 3.1 and Theorem 2.

    Deviations:
      - :math:`A_1 = \lambda I`, not the sum over a barycentric spanner of the decision set: here sets may change, and
        theta* is bounded in norm. The induction of the proof then starts at :math:`B^2 \le u^2\beta_1`, which holds for
        :math:`\delta \le 0.68`; the paper's start needs :math:`d \le (\tfrac83\log(1/\delta))^2`, which it does not
        say.
      - Rewards are maximised, the paper minimises a cost. Its proof takes the noise to be at most 1, where costs in
        [-1, 1] give only 2: R says which it is, and rewards are measured in units of max(R, B).
      - The regret theorem's last factor is log(T + 1); log T, as printed, fails at T = 1.
    """

    lam: Number = number(above=0, default=1.0, doc="the ridge; 1 is the theorem.")
    beta_scale: Number = declare_beta_scale("the radius, which has no separate part for the bias")

    def radius_of(self, state: EllipsoidState) -> jax.Array:
        """Return ``c max(R, B) sqrt(beta_t)``, []: the paper's ``beta_t`` is a squared radius."""
        log_t = jnp.log((state.round + 1).astype(self.dtype))
        log1 = 2 * log_t - jnp.log(self.delta)  # log(t^2 / delta)
        squared = jnp.maximum(128 * self.dim * log_t * log1, (8 / 3 * log1) ** 2)
        return self.beta_scale * jnp.maximum(self.noise_bound, self.theta_bound) * jnp.sqrt(squared)


confidence_ball = factory(ConfidenceBall)


@pytree
class Oful(Ellipsoid):
    r"""OFUL: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + \beta \|a\|_{V^{-1}}`.

    .. math:: \beta_t = c R \sqrt{2\log(1/\delta) + \log\det V_t - d\log\lambda} + \sqrt\lambda B

    or, with ``radius="data_free"``, :math:`\beta_t = c R \sqrt{d\log((1 + tA^2/\lambda)/\delta)} + \sqrt\lambda B`,
    which does not look at the arms pulled. Noise in [-R, R] is R-sub-Gaussian, which is all that the theorem needs.

    References:
      Abbasi-Yadkori, Pal, Szepesvari (2011), Improved algorithms for linear stochastic bandits, Theorems 2 and 3.
    """

    norm_bound: Number = number(
        above=0, squared=True, default=1.0, doc="A, a bound on the norm of an arm; used by ``data_free`` only."
    )
    radius: str = choice("determinant", "data_free", default="determinant", doc="``determinant`` or ``data_free``.")

    @property
    def unused(self) -> tuple[str, ...]:
        """Assumptions that the radius does not rest on: those on arms, or all where it is given."""
        return super().unused or (("norm_bound",) if self.radius == "determinant" else ())

    def radius_of(self, state: EllipsoidState) -> jax.Array:
        """Return the self-normalised radius, [], valid for weights of at most 1."""
        if self.radius == "determinant":
            growth = 2 * jnp.log(1 / self.delta) + state.regression.log_det
        else:
            rounds = state.round.astype(self.dtype)
            growth = self.dim * jnp.log((1 + rounds * self.norm_bound**2 / self.lam) / self.delta)
        return self.beta_scale * self.noise_bound * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.theta_bound


oful = factory(Oful)


def greedy(
    dim: int, *, lam: Number = 1.0, theta_bound: Number = 1.0, ties: str = "random", tie_tolerance: Number | None = None
) -> Oful:
    """Return the greedy rule, ridge regression without exploration: :func:`oful` with a radius of zero.

    Args:
      dim: d, the length of an arm.
      lam: the ridge.
      theta_bound: B, a bound on the norm of theta*: the unit in which ties are judged.
      ties: ``random`` or ``lowest`` index, among those within ``tie_tolerance`` of the best.
      tie_tolerance: relative to the size of what is compared; 1e-9 in float64 and 1e-5 in float32 if not given.
    """
    return oful(dim, lam=lam, theta_bound=theta_bound, fixed_radius=0.0, ties=ties, tie_tolerance=tie_tolerance)


@pytree
class CwOful(Oful):
    r"""CW-OFUL: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + \beta\|a\|_{\Sigma^{-1}}`, weights at most 1.

    .. math::
        \Sigma_t = \lambda I + \sum_{s\le t} w_s^2 a_s a_s^\top, \qquad
        w_s^2 = \min\{1, \alpha / \|a_s\|_{\Sigma_{s-1}^{-1}}\}, \qquad
        \beta_t = c R\sqrt{d\log((1 + tA^2/\lambda)/\delta)} + \sqrt\lambda B

    The paper's weight is our :math:`w_s^2`. Weights of at most 1 leave the noise R-sub-Gaussian, so that the radius is
    that of :func:`jaxvar.oful`; with a large threshold the algorithm is too. The noise variance is not used.

    References:
      He, Zhou, Zhang, Gu (2022), Nearly optimal algorithms for linear contextual bandits with adversarial corruptions,
      Algorithm 1.

    Deviations:
      - The corruption term :math:`\alpha C` of the radius is left out: C = 0.
      - t in the place of K in the radius: valid in every round, and smaller.
    """

    threshold: Number = number(
        above=0,
        kw_only=False,
        doc="alpha, the width from which on an arm counts less. The theorem's, (R sqrt(d) + sqrt(lam) B) / C up to "
        "logarithms, is for a known corruption C; there is none here.",
    )
    radius: str = choice(
        "determinant",
        "data_free",
        default="data_free",
        doc="``data_free``, or ``determinant`` as in :func:`jaxvar.oful`, which is smaller.",
    )

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return the root of ``min(1, threshold / width)``, [], which is the paper's factor of the squared error."""
        return jnp.sqrt(self.threshold / jnp.maximum(width, self.threshold))


cw_oful = factory(CwOful)
