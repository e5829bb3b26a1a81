"""GLB-OMD: one pass over the rewards of a generalised linear bandit, with time and memory that do not grow.

The matrix of the ellipsoid is ``H = lam I + sum mu'(<x, theta>) x x^T``, each slope taken at the estimate that the
round leaves behind. Stored is a root of its inverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import cholesky, random, ridge, status
from jaxvar.algorithms.bandit import BoundedBandit, declare_beta_scale, declare_theta_bound, lost
from jaxvar.algorithms.interface import Choice, Ellipsoids, Side, by_rule
from jaxvar.claims import Claim
from jaxvar.lowering import inner, square_lengths, transform
from jaxvar.parameters import Number, choice, factory, flag, pytree

CLAIM = Claim(
    "GLB-OMD",
    "Zhang, Xu, Zhao, Sugiyama 2025",
    "d sqrt(K / kappa*) + kappa d^2",
    section="logistic bandit",
    constants="derived again",
    assumption="logistic or Poisson rewards",
)
_NEWTON_STEPS = 14  # of the projection: at most 7 up to a condition number of 100, 13 up to 1e8, in random examples


class GlbOmdState(NamedTuple):
    """State of GLB-OMD for one seed."""

    theta_hat: jax.Array  # [d]
    inverse: ridge.Inverse  # of H
    beta_hat: jax.Array  # []   the theorem's radius for the next round
    status: jax.Array  # []   int32

    @property
    def sigma_inv(self) -> jax.Array:
        """The inverse of H, [d, d]."""
        return self.inverse.matrix


def link_law(link: str, z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the mean ``mu(z)`` and the slope ``mu'(z)`` of a link."""
    if link == "poisson":
        return jnp.exp(z), jnp.exp(z)
    return jax.nn.sigmoid(z), jax.nn.sigmoid(z) * jax.nn.sigmoid(-z)


def project(theta: jax.Array, inverse: Callable[[], jax.Array], radius: Number) -> tuple[jax.Array, jax.Array]:
    r"""Return the point ``[d]`` of the ball ``|v| <= radius`` that is nearest to ``theta [d]`` in the norm of a matrix.

    With the matrix H, given by its ``inverse() [d, d]``, the point is :math:`v = (I + \nu H^{-1})^{-1} \theta` for the
    :math:`\nu \ge 0` at which :math:`|v|` is the radius. Newton's method on :math:`1 / |v| = 1 / r`, a concave function
    of :math:`\nu`, comes to it from below without overshooting. A step is one Cholesky factor.

    Returns:
      The point, and whether it was found up to rounding, [].
    """
    eye = jnp.eye(theta.shape[0], dtype=theta.dtype)

    def length(v: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(v * v, axis=0))

    def solved() -> jax.Array:
        matrix = inverse()

        def newton(_: int, loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            nu, v = loop
            lower = cholesky.factor(eye + nu * matrix)
            v = cholesky.solve(lower, theta)
            slope = jnp.sum(v * cholesky.solve(lower, transform(matrix, v)), axis=0)
            ahead = length(v) / radius - 1
            return nu + jnp.maximum(ahead, 0) * jnp.sum(v * v, axis=0) / slope, v

        return jax.lax.fori_loop(0, _NEWTON_STEPS, newton, (jnp.zeros((), theta.dtype), theta))[1]

    point = jax.lax.cond(length(theta) > radius, solved, lambda: theta)
    return point, length(point) <= radius * (1 + np.sqrt(np.finfo(theta.dtype).eps))


@pytree
class LinkOptimist(BoundedBandit):
    """Base of the algorithms that choose by the largest upper confidence bound on ``<a, theta*>``: links increase.

    Their states have the estimate ``theta_hat [d]``, the ``inverse`` of the ellipsoid's matrix, and
    its radius ``beta_hat []``.
    """

    noise_bound: ClassVar[float] = math.inf  # type: ignore[misc]  # no bound is needed, so none is a parameter
    beta_scale: Number = declare_beta_scale("the radius")

    def select(self, state: Any, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest upper confidence bound."""
        chex.assert_shape(arms, (None, self.dim))
        width = jnp.sqrt(square_lengths(arms, state.inverse.root))
        upper = inner(arms, state.theta_hat) + self.beta_scale * state.beta_hat * width
        action = self.best(upper, random.key_words(key), side.available)
        return Choice(action, jnp.ones_like(action), jnp.ones((), self.dtype), lost(upper, side.available))

    def confidence(self, state: Any) -> Ellipsoids:
        """Return the one ellipsoid, as a layer."""
        beta = self.beta_scale * state.beta_hat
        return Ellipsoids(state.theta_hat[None], state.inverse.matrix[None], beta[None])

    def recommend(self, state: Any, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest estimate, []."""
        return self.top(inner(arms, state.theta_hat), side.mask(arms.shape[0]))


@pytree
class GlbOmd(LinkOptimist):
    r"""GLB-OMD: pull :math:`\arg\max_a \langle a, \theta_t\rangle + c\beta_t\|a\|_{H_t^{-1}}`; learn by mirror descent.

    With :math:`\eta = 1 + S` and :math:`\tilde H_t = H_t + \eta\mu'(\langle x_t, \theta_t\rangle) x_t x_t^\top`

    .. math::
        \theta_{t+1} = \arg\min_{\|\theta\| \le S}\ \eta (\mu(\langle x_t, \theta_t\rangle) - r_t)
        \langle x_t, \theta\rangle + \tfrac12 \|\theta - \theta_t\|_{\tilde H_t}^2, \qquad
        H_{t+1} = H_t + \mu'(\langle x_t, \theta_{t+1}\rangle) x_t x_t^\top

    from :math:`\theta_1 = 0` and :math:`H_1 = \lambda I`, in time and memory :math:`O(d^2)`, or :math:`O(d^3)` in a
    round in which the ball is left. Seeds are played side by side: a round in which the estimate of one of them leaves
    the ball has a projection for all, of 14 Cholesky factors, and takes several times as long. The radius is

    .. math:: \beta_t^2 = 4\lambda S^2
              + 2\eta \left(\log(1/\delta) + (3\eta + \tfrac12) \log(\det H_t / \lambda^d)\right)

    Arms must have norm at most 1. Rewards must follow the law of the link: nothing is assumed of their size.

    References:
      Zhang, Xu, Zhao, Sugiyama (2025), Generalized linear bandits: almost optimal regret with one-pass update.

    Deviations:
      - The radius is derived again from the source's lemmas: mirror descent pays for the distance from
        :math:`\theta_1`, Ville's inequality for the loss of theta* against that of a Gaussian mixture around the
        estimates, and the log-determinant for the mixture against the estimates.
      - The multiplier and the rule for ties are ours.
    """

    norm_bound: ClassVar[float] = 1.0
    theta_bound: Number = declare_theta_bound("S")
    link: str = choice(
        "logistic", "poisson", default="logistic", doc="the law of rewards: ``logistic``, 0 or 1; or ``poisson``."
    )
    lam: Number = by_rule(
        lambda self: self.eta * jnp.maximum(14 * self.dim, 6 * self.theta_bound * self.largest_slope),
        r"the ridge; :math:`\max(14 d \eta, 6 \eta S L)` if not given, L the largest slope of the link on "
        "[-S, S]. The theorem needs at least that.",
    )
    tight: bool = flag(
        default=False, doc=r"count the start as :math:`\lambda S^2`, which :math:`\theta_1 = 0` allows, in the radius."
    )

    @property
    def eta(self) -> Number:
        """The step size: both links have second derivatives of at most the first."""
        return 1 + self.theta_bound

    @property
    def largest_slope(self) -> Number:
        """L, the largest slope of the link on [-S, S]."""
        return 0.25 if self.link == "logistic" else jnp.exp(self.theta_bound)

    def init(self) -> GlbOmdState:
        """Return an estimate of zero."""
        inverse = ridge.init_inverse(self.dim, self.lam, self.dtype)
        return GlbOmdState(jnp.zeros(self.dim, self.dtype), inverse, self.radius(inverse.log_det), jnp.int32(0))

    def radius(self, log_det: jax.Array) -> jax.Array:
        """Return the theorem's ``beta`` for ``log(det H / lam^d) []``, []."""
        start = (1 if self.tight else 4) * self.lam * self.theta_bound**2
        growth = jnp.log(1 / self.delta) + (3 * self.eta + 0.5) * log_det
        return jnp.sqrt(start + 2 * self.eta * growth)

    def update(self, state: GlbOmdState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> GlbOmdState:
        """Learn by one step of mirror descent."""
        chex.assert_shape(x, (self.dim,))
        direction, width2 = ridge.along(state.inverse.root, x)
        mean, slope = link_law(self.link, jnp.sum(state.theta_hat * x, axis=0))
        ahead = 1 + self.eta * slope * width2
        moved = state.theta_hat - self.eta * (mean - reward) / ahead * direction

        def tilted() -> jax.Array:
            root = state.inverse.root
            return ridge.squared(ridge.moved(root, ridge.learn_root(root, x, self.eta * slope)[0]))

        theta, found = project(moved, tilted, self.theta_bound)
        inverse, _, _ = ridge.learn_inverse(state.inverse, x, link_law(self.link, jnp.sum(theta * x, axis=0))[1])
        beta = self.radius(inverse.log_det)
        finite = jnp.isfinite(width2) & jnp.isfinite(jnp.sum(theta, axis=0)) & jnp.isfinite(beta)
        bits = jnp.where(finite, jnp.where(found, 0, status.UNSOLVED), status.NONFINITE).astype(jnp.int32)
        return GlbOmdState(
            theta_hat=theta,
            inverse=inverse,
            beta_hat=beta,
            status=state.status | choice.status | bits,
        )


glb_omd = factory(GlbOmd)
