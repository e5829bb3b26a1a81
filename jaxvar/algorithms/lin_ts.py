"""LinTS: linear Thompson sampling, with the scales of three analyses."""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, random, ridge
from jaxvar import ties as tie_rules
from jaxvar.algorithms import arm_view, posterior
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.algorithms.posterior import Posterior
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, leaf, pytree, static

CLAIM = Claim(
    name="LinTS",
    factory="lin_ts",
    reference="Agrawal, Goyal 2013; Abeille, Lazaric 2017",
    setting="bandit",
    regret="d^1.5 sqrt(K)",
    deterministic="d^1.5 sqrt(K)",
    variance="not used",
    efficient=True,
    constants="derived again",
)

SCALES = ("abeille_lazaric", "agrawal_goyal", "bayes")


class LinTsState(NamedTuple):
    """State of LinTS for one seed."""

    posterior: Posterior  # V = lam I + sum x x^T
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class LinTs:
    """LinTS; built by :func:`lin_ts`."""

    noise_bound: Any  # R
    delta: Any
    num_rounds: Any  # K in the scale of Abeille and Lazaric
    lam: Any
    theta_bound: Any  # B
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    scale: str = static()
    ties: str = static()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    def init(self) -> LinTsState:
        """An empty regression."""
        return LinTsState(posterior.init(self.dim, self.lam, self.dtype), jnp.int32(0), jnp.int32(0))

    def select(self, state: LinTsState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Draw a parameter and choose its best of ``arms [num_arms, dim]``."""
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, random.key_words(key))

    def update(self, state: LinTsState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> LinTsState:
        """One step of ridge regression."""
        chex.assert_shape(x, (self.dim,))
        return _update(state, choice, x, reward)


def lin_ts(
    dim: int,
    num_rounds: Any = None,
    *,
    scale: str = "abeille_lazaric",
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    lam: Any = 1.0,
    theta_bound: Any = 1.0,
    beta_scale: Any = 1.0,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> LinTs:
    r"""LinTS: draw :math:`\tilde\theta = \hat\theta + \beta V^{-1/2} z`, z standard normal, and pull its best arm.

    In round k, with :math:`V = \lambda I + \sum x x^\top` and the Cholesky factor of :math:`V^{-1}` for its root,

    - ``abeille_lazaric``: :math:`\beta = c R \sqrt{2\log(4K/\delta) + \log\det V - d\log\lambda} + \sqrt\lambda B`,
      OFUL's radius at the level :math:`\delta/(4K)`;
    - ``agrawal_goyal``: :math:`\beta = c R \sqrt{9 d \log(k/\delta)}`;
    - ``bayes``: :math:`\beta = c R`, the posterior under normal noise and the prior
      :math:`N(0, R^2 I/\lambda)` where c = 1.

    Args:
      dim: d, the length of an arm.
      num_rounds: K; needed by ``abeille_lazaric`` only.
      scale: which of the three.
      noise_bound: R; noise in [-R, R] is R-sub-Gaussian.
      delta: failure probability; not used by ``bayes``.
      lam: the ridge.
      theta_bound: B, a bound on the norm of theta*; used by ``abeille_lazaric`` only.
      beta_scale: c, a multiplier of the stochastic part; 1 is the analysis.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    References:
      Agrawal, Goyal (2013), Thompson sampling for contextual bandits with linear payoffs. Abeille, Lazaric (2017),
      Linear Thompson sampling revisited.
    """
    checks.choice("scale", scale, SCALES)
    if num_rounds is None:
        if scale == "abeille_lazaric":
            raise ValueError("num_rounds must be given for scale='abeille_lazaric', got None")
        num_rounds = 1.0
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return LinTs(
        noise_bound=leaf(checks.parameter("noise_bound", noise_bound)),
        delta=leaf(checks.parameter("delta", delta)),
        num_rounds=leaf(checks.parameter("num_rounds", num_rounds)),
        lam=leaf(checks.parameter("lam", lam)),
        theta_bound=leaf(checks.parameter("theta_bound", theta_bound)),
        beta_scale=leaf(checks.parameter("beta_scale", beta_scale)),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        dim=checks.count("dim", dim),
        scale=scale,
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def spread(self: LinTs, state: LinTsState) -> jax.Array:
    """``beta``, by which a standard normal vector is multiplied."""
    c, bound = self.beta_scale, self.noise_bound
    log_det = state.posterior.regression.log_det
    if self.scale == "abeille_lazaric":
        growth = 2 * jnp.log(4 * self.num_rounds / self.delta) + log_det
        return c * bound * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.theta_bound
    if self.scale == "agrawal_goyal":
        k = (state.round + 1).astype(self.dtype)
        return c * bound * jnp.sqrt(9 * self.dim * jnp.log(k / self.delta))
    return jnp.broadcast_to(c * bound, log_det.shape)


@seeds_last
def _select(self: LinTs, state: LinTsState, arms: jax.Array, words: jax.Array) -> Choice:
    sampled = ridge.inner(arms, posterior.draw(state.posterior, spread(self, state), words))
    best = tie_rules.best(sampled, jnp.ones(sampled.shape, bool), self.tie_tolerance)
    action = tie_rules.pick(best, words, self.ties)
    return Choice(action, jnp.ones_like(action), jnp.ones(action.shape, self.dtype), arm_view.lost(sampled))


@seeds_last
def _update(state: LinTsState, choice: Choice, x: jax.Array, reward: jax.Array) -> LinTsState:
    after, seen = posterior.learn(state.posterior, x, reward)
    return LinTsState(after, state.round + 1, state.status | choice.status | arm_view.failure(seen))
