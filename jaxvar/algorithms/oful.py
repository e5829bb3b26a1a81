"""OFUL (Abbasi-Yadkori, Pal, Szepesvari 2011), and with a fixed radius of zero the greedy rule."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, random, ridge, status
from jaxvar import ties as tie_rules
from jaxvar.algorithms.interface import Choice, Confidence, Side
from jaxvar.batching import kept, seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, leaf, pytree, static
from jaxvar.written_out import written_out

CLAIM = Claim(
    name="OFUL",
    factory="oful",
    reference="Abbasi-Yadkori, Pal, Szepesvari 2011",
    setting="bandit",
    regret="d sqrt(K)",
    deterministic="d sqrt(K)",
    variance="not used",
    efficient=True,
    constants="derived again",
    table=1,
)

RADII = ("determinant", "data_free")


class OfulState(NamedTuple):
    """State of OFUL for one seed."""

    sigma_inv: jax.Array  # [d, d]   inverse of V = lam I + sum x x^T
    theta_hat: jax.Array  # [d]
    loss: jax.Array  # []   the least value of sum (y - <theta, x>)^2 + lam |theta|^2
    log_det: jax.Array  # []   log det V - d log lam
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    width2: jax.Array | None  # [num_arms]   a^T V^-1 a, only for fixed arms
    pred: jax.Array | None  # [num_arms]   <a, theta_hat>, only for fixed arms


@pytree
class Oful:
    """OFUL; built by :func:`oful`, or by :func:`greedy`."""

    noise_bound: Any  # R
    delta: Any
    lam: Any
    theta_bound: Any  # B
    norm_bound: Any  # A, in the data-free radius
    beta_scale: Any
    tie_tolerance: Any
    fixed_radius: Any  # replaces the whole radius, or None
    dim: int = static()
    radius: str = static()
    ties: str = static()
    fixed_arms: Any = None  # [num_arms, dim] where the decision set never changes

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    def init(self) -> OfulState:
        """An empty regression."""
        arms = self.fixed_arms
        return OfulState(
            **ridge.init_ridge(self.dim, self.lam, self.dtype)._asdict(),
            round=jnp.int32(0),
            status=jnp.int32(0),
            width2=None if arms is None else jnp.sum(arms * arms, axis=1) / self.lam,
            pred=None if arms is None else jnp.zeros(arms.shape[0], self.dtype),
        )

    def select(self, state: OfulState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest upper confidence bound."""
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, random.key_words(key))

    def update(self, state: OfulState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> OfulState:
        """One step of ridge regression."""
        chex.assert_shape(x, (self.dim,))
        return _update(self, state, choice, x, reward)

    def confidence(self, state: OfulState) -> Confidence:
        """The one ellipsoid, as a layer."""
        return Confidence(state.loss[None], jnp.asarray(self.lam)[None], _radius(self, state)[None])

    def with_fixed_arms(self, arms: jax.Array) -> Oful:
        """The same algorithm for arms ``[num_arms, dim]`` that never change: O(N d) a round, the same choices."""
        chex.assert_shape(arms, (None, self.dim))
        return dataclasses.replace(self, fixed_arms=arms)


def oful(
    dim: int,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    lam: Any = 1.0,
    theta_bound: Any = 1.0,
    norm_bound: Any = 1.0,
    radius: str = "determinant",
    beta_scale: Any = 1.0,
    fixed_radius: Any = None,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> Oful:
    r"""OFUL: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + \beta \|a\|_{V^{-1}}`.

    .. math:: \beta_t = c R \sqrt{2\log(1/\delta) + \log\det V_t - d\log\lambda} + \sqrt\lambda B

    or, with ``radius="data_free"``, :math:`\beta_t = c R \sqrt{d\log((1 + tA^2/\lambda)/\delta)} + \sqrt\lambda B`.

    Args:
      dim: d, the length of an arm.
      noise_bound: R; noise in [-R, R] is R-sub-Gaussian.
      delta: failure probability.
      lam: the ridge.
      theta_bound: B, a bound on the norm of theta*.
      norm_bound: A, a bound on the norm of an arm; used by ``data_free`` only.
      radius: ``determinant`` or ``data_free``.
      beta_scale: c, a multiplier of the stochastic part; 1 is the theorem.
      fixed_radius: a constant that replaces the whole radius.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    References:
      Abbasi-Yadkori, Pal, Szepesvari (2011), Improved algorithms for linear stochastic bandits, Theorems 2 and 3.
    """
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return Oful(
        noise_bound=leaf(checks.parameter("noise_bound", noise_bound)),
        delta=leaf(checks.parameter("delta", delta)),
        lam=leaf(checks.parameter("lam", lam)),
        theta_bound=leaf(checks.parameter("theta_bound", theta_bound)),
        norm_bound=leaf(checks.parameter("norm_bound", norm_bound)),
        beta_scale=leaf(checks.parameter("beta_scale", beta_scale)),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        fixed_radius=None if fixed_radius is None else leaf(checks.parameter("fixed_radius", fixed_radius)),
        dim=checks.count("dim", dim),
        radius=checks.choice("radius", radius, RADII),
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def greedy(dim: int, *, lam: Any = 1.0, ties: str = "random", tie_tolerance: Any = None) -> Oful:
    """Ridge regression and no exploration: :func:`oful` with a radius of zero."""
    return oful(dim, lam=lam, fixed_radius=0.0, ties=ties, tie_tolerance=tie_tolerance)


def _radius(self: Oful, state: OfulState) -> jax.Array:
    if self.fixed_radius is not None:
        return jnp.broadcast_to(self.fixed_radius, state.log_det.shape)
    if self.radius == "determinant":
        growth = 2 * jnp.log(1 / self.delta) + state.log_det
    else:
        rounds = state.round.astype(self.dtype)
        growth = self.dim * jnp.log((1 + rounds * self.norm_bound**2 / self.lam) / self.delta)
    return self.beta_scale * self.noise_bound * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.theta_bound


@seeds_last
def _select(self: Oful, state: OfulState, arms: jax.Array, words: jax.Array) -> Choice:
    if state.width2 is None or state.pred is None:
        width2, pred = ridge.quadratic(arms, state.sigma_inv), ridge.inner(arms, state.theta_hat)
    else:
        width2, pred = state.width2, state.pred
    upper = pred + _radius(self, state)[None] * jnp.sqrt(width2)
    return kept(_choose(dataclasses.replace(self, fixed_arms=None), upper, words))


@written_out
def _choose(self: Oful, upper: jax.Array, words: jax.Array) -> Choice:
    candidates = tie_rules.best(upper, jnp.ones(upper.shape, bool), self.tie_tolerance)
    action = tie_rules.pick(candidates, words, self.ties)
    lost = jnp.where(jnp.isfinite(jnp.max(upper, axis=0)), 0, status.NONFINITE).astype(jnp.int32)
    return Choice(action, jnp.ones_like(action), jnp.ones(action.shape, self.dtype), lost)


@seeds_last
def _update(self: Oful, state: OfulState, choice: Choice, x: jax.Array, reward: jax.Array) -> OfulState:
    before = ridge.Ridge(state.sigma_inv, state.theta_hat, state.loss, state.log_det)
    after, (direction, gain, step, error, width2) = ridge.regress(before, x, reward)
    finite = jnp.isfinite(error) & jnp.isfinite(width2)
    failure = jnp.where(finite, jnp.where(width2 >= 0, 0, status.INDEFINITE), status.NONFINITE).astype(jnp.int32)
    if state.width2 is None or state.pred is None:
        cached_width2, cached_pred = None, None
    else:
        along = ridge.inner(self.fixed_arms, direction)
        cached_width2 = jnp.maximum(state.width2 - gain[None] * along * along, 0)
        cached_pred = state.pred + step[None] * along
    return OfulState(
        **after._asdict(),
        round=state.round + 1,
        status=state.status | choice.status | failure,
        width2=cached_width2,
        pred=cached_pred,
    )
