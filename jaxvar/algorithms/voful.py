"""VOFUL (Zhang, Yang, Ji, Du 2021) and VOFUL2 (Kim, Yang, Jun 2022) on a net, and what all algorithms on nets share."""

from __future__ import annotations

import math
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import nets, parameters, random
from jaxvar.algorithms.bandit import BoundedBandit, declare_beta_scale, lost
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.claims import Claim
from jaxvar.parameters import Number, choice, count, factory, number, pytree

CLAIMS = {
    "voful": Claim(
        "VOFUL",
        "Zhang, Yang, Ji, Du 2021",
        "d^4.5 sqrt(sum sigma^2) + d^5",
        efficient=False,
        constants="reconstructed",
        row=5,
        printed="d^2 without noise: the entries of VOFUL and VOFUL2 are swapped, as their general bounds show",
    ),
    "voful2": Claim(
        "VOFUL2",
        "Kim, Yang, Jun 2022",
        "d^1.5 sqrt(sum sigma^2) + d^2",
        efficient=False,
        constants="reconstructed",
        row=6,
        printed="d^5 without noise: the entries of VOFUL and VOFUL2 are swapped, as their general bounds show",
    ),
}

MAX_DIM = 3
MAX_SCALES = 1100  # 2^-1100 is no float64 any more
CELLS = (64, 32, 12)  # along each axis, in dimension 1, 2, 3
DIRECTIONS = (1, 16, 64)
LARGEST_EXPONENT = 0.95  # psi(lam) is finite below 1


@pytree
class Netted:
    """Base of the algorithms on a net; each gives ``num_scales``, ``num_exponents`` and ``every``."""

    dim: int = count(kw_only=False, doc="d, the length of an arm or of a feature, at most 3.")
    test: str = choice("tight", "paper", default="tight", doc="``tight`` or ``paper``.")
    beta_scale: Number = declare_beta_scale("the tests' limits (not of the allowance for the size of a cell)")
    cells: int = count(
        low=2,
        default=None,
        rule=lambda self: CELLS[min(self.dim, MAX_DIM) - 1],
        doc="along each axis of the box; 64, 32, 12 in dimension 1, 2, 3 if not given.",
    )
    num_directions: int = count(
        default=None,
        rule=lambda self: DIRECTIONS[self.dim - 1] if self.dim <= MAX_DIM else 4 ** (min(self.dim, 12) - 1),
        doc="of the half sphere; 1, 16, 64 if not given.",
    )
    num_scales: int = count(
        high=MAX_SCALES, doc="of the clipping. Fewer directions or scales give a larger set, as valid."
    )
    num_exponents: int = count(high=MAX_SCALES, doc="of the tight test's grid G.")
    every: int = count(doc="time between two looks at the net.")

    def check(self) -> None:
        """Refuse dimensions in which a net is too large."""
        if self.dim > MAX_DIM:
            points = f"{self.cells**self.dim:.1e}" if self.dim < 100 else f"{self.cells}^{self.dim}"
            raise ValueError(
                f"dim must be at most {MAX_DIM} on a net, got {self.dim}: {self.cells} cells along each axis are "
                f"{points} net points, each to be tried against {self.num_directions} directions at "
                f"{self.num_scales} scales or more"
            )
        sizes = ("cells", "num_directions", "num_scales")
        largest = max(sizes, key=lambda name: int(getattr(self, name)))
        shape = (self.num_directions, self.num_scales, *(self.cells,) * self.dim)
        parameters.check_table(largest, getattr(self, largest), shape)

    @property
    def clip(self) -> nets.Clipping:
        """Directions and scales."""
        return nets.clipping(self.dim, self.num_directions, self.num_scales)


def log2_of(num: Number) -> float:
    """Return the logarithm of a number of rounds; of 2^16 where it is traced, since it sets shapes."""
    return 16.0 if parameters.is_traced(num) else math.log2(float(num))


def fine_scales(num: float, dim: int) -> int:
    """Return ``L + 2``, the number of scales that Kim, Yang, Jun (2022) use in ``num`` rounds."""
    return max(1, math.floor(math.log2(1 + num / dim))) + 2


def fine_iota(num: Number, dim: int, delta: Number) -> jax.Array:
    """Return ``128 log((12 n 2^L)^(d + 2) / delta)``, their factor in ``num`` rounds n, [].

    ``L = max(1, floor(log2(1 + n / d)))``.
    """
    finest = jnp.maximum(jnp.floor(jnp.log2(1 + num / dim)), 1)
    inner = jnp.log(12 * num) + finest * math.log(2)
    return 128 * ((dim + 2) * inner - jnp.log(delta))


class VofulState(NamedTuple):
    """State of VOFUL or VOFUL2 for one seed; it does not grow with the rounds."""

    sums: nets.Sums  # over C = J M constraints
    net: nets.Net
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class Voful(Netted, BoundedBandit):
    r"""VOFUL: pull :math:`\arg\max_a \max_{\theta\in\Theta} \langle a, \theta\rangle`, with :math:`\Theta` on a net.

    **Setting.** Arms change from round to round; noise in [-R, R] of unknown variance; d = 1, 2 or 3.

    **Set.** With :math:`a_s = \mathrm{clip}(\langle x_s, \mu\rangle, l)`,
    :math:`T = |\sum_s a_s (y_s - \langle x_s, \theta\rangle)|` and
    :math:`V = \sum_s a_s^2 (y_s - \langle x_s, \theta\rangle)^2`, a parameter with :math:`|\theta| \le B` stays while
    for every direction :math:`\mu` and every scale :math:`l = 1, 1/2, 1/4, \dots`

    .. math:: T \le c\, l R \min_\lambda \frac{\psi(\lambda) V / (lR)^2 + \log(2 |G| C / \delta)}{\lambda}
              \quad\text{(tight)}, \qquad T \le c\,(\sqrt{\iota V} + l R \iota) \quad\text{(paper)}

    :math:`\psi(\lambda) = -\log(1 - \lambda) - \lambda`, :math:`\lambda` in a grid G, C constraints,
    :math:`\iota = 16 d \log(d K / \delta)`.

    **State.** Five sums for each constraint, from which T and V follow for any theta (:mod:`jaxvar.nets`), and which of
    the :math:`N` cells of a box are left: :math:`C (2 + 2 d + d^2) + N` numbers, whatever K.

    **Selection.** The upper bound of an arm is its largest mean over all cells left, edges included.

    **Update.** The sums grow in every round. In every ``every``-th, the box is zoomed where what is left fits into half
    of it, and cells that do not pass are dropped; in between an older set is used, which is as valid. With no
    cell left the last set is kept and ``status.EMPTY`` is set.

    **Cost.** A round tries ``num_arms`` N products for its choice, and C N tests, each a minimum over G, divided by
    ``every``: with the defaults N = 1024 and C = 16 (log2 K + 1) at d = 2, N = 1728 and C = 64 (log2 K + 1) at d = 3.

    References:
      Zhang, Yang, Ji, Du (2021), Improved variance-aware confidence sets for linear bandits and linear mixture MDP.
      Fan, Grama, Liu (2015), Exponential inequalities for martingales with applications, for the tight test.

    Deviations:
      The net is coarse where the proof's has spacing ``K^-3``: a union bound over the constraints that are tried is all
      that validity needs. The tight test replaces the printed one, whose constants are reconstructed; it holds with
      probability 1 - delta in all rounds at once. Directions of the ball of radius 2 with scales ``2^(2-j)`` become
      unit directions with scales ``2^(1-j)``, the same constraints divided by 2. Rewards are scaled by R.

    Raises:
      ValueError: for d above 3, with the size that the net would have.
    """

    num_rounds: Number = number(
        at_least=1,
        kw_only=False,
        doc="K, in iota and in how fine scales and exponents are; the run itself may be shorter.",
    )
    num_scales: int = count(
        high=MAX_SCALES,
        default=None,
        rule=lambda self: math.ceil(log2_of(self.num_rounds)) + 1,
        doc="``ceil(log2 K) + 1`` if not given. Fewer directions or scales give a larger set, as valid.",
    )
    num_exponents: int = count(
        high=MAX_SCALES,
        default=None,
        rule=lambda self: 7 + math.floor(log2_of(self.num_rounds)),
        doc="of the tight test's grid G; ``7 + floor(log2 K)`` if not given.",
    )
    every: int = count(default=16, doc="rounds between two looks at the net.")

    @property
    def iota(self) -> jax.Array:
        """The logarithmic factor of the printed test, ``16 d log(d K / delta)``."""
        return 16 * self.dim * jnp.log(self.dim * self.num_rounds / self.delta)

    def init(self) -> VofulState:
        """Return no observation, and all cells that meet the ball of radius B."""
        net = nets.init_net(self.dim, self.cells, self.theta_bound, self.dtype)
        alive = nets.meets_ball(nets.points(net, self.cells), net.half / self.cells, self.theta_bound)
        sums = nets.init_sums(self.clip.num, self.dim, self.dtype)
        return VofulState(sums, net._replace(alive=alive), jnp.int32(0), jnp.int32(0))

    def select(self, state: VofulState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest mean that a parameter left gives to any arm."""
        chex.assert_shape(arms, (None, self.dim))
        upper = nets.support(arms, state.net, self.cells)
        action = self.best(upper, random.key_words(key), side.available)
        return Choice(action, jnp.ones_like(action), jnp.ones((), self.dtype), lost(upper, side.available))

    def update(self, state: VofulState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> VofulState:
        """Add to the sums; in every ``every``-th round drop the cells that no longer pass."""
        chex.assert_shape(x, (self.dim,))
        sums = nets.add(state.sums, nets.weights(x, self.clip), x, reward)
        round = state.round + 1
        due = round % self.every == 0
        net, empty = nets.refine(state.net, self.cells, due, lambda points, cell: self.passes(sums, points, cell))
        failed = nets.failure(empty, x, reward)
        return VofulState(sums, net, round, state.status | choice.status | failed)

    def recommend(self, state: VofulState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest lower bound, []: a set has no estimate."""
        return self.top(-nets.support(-arms, state.net, self.cells), side.mask(arms.shape[0]))

    def passes(self, sums: nets.Sums, points: jax.Array, cell: jax.Array) -> jax.Array:
        """Return which cells ``points [N, d]`` of half-sides ``cell [d]`` may hold a theta that passes, bool [N]."""
        limit: jax.Array | np.ndarray
        bound = (self.clip.scale.astype(self.dtype) * self.noise_bound)[:, None]  # l R of each constraint
        root = jnp.sqrt(nets.square_sum(sums, points)) + nets.cell_norm(sums.aaxx, cell)[:, None]
        if self.test == "paper":
            limit = jnp.sqrt(self.iota) * root + bound * self.iota
        else:
            lam = nets.exponents(LARGEST_EXPONENT, self.num_exponents)
            log = jnp.log(2 * self.num_exponents * self.clip.num / self.delta)
            limit = bound * nets.exponential_limit((root / bound) ** 2, log, lam, nets.empirical_rate(lam))
        slack = nets.cell_shift(sums.ax, cell)[:, None]
        inside = nets.deviation(sums.ay, sums.ax, points) <= self.beta_scale * limit + slack
        return jnp.all(inside, axis=0) & nets.meets_ball(points, cell, self.theta_bound)

    def contains(self, state: VofulState, theta: jax.Array) -> jax.Array:
        """Return whether the cell of ``theta [dim]`` is left, bool []."""
        chex.assert_shape(theta, (self.dim,))
        return nets.contains(state.net, self.cells, theta)


voful = factory(Voful)


@pytree
class Voful2(Voful):
    r"""VOFUL2: the set of VOFUL with other scales and constants; what is new is how its regret is counted.

    **Setting, set, state, selection, update, cost.** Those of :func:`jaxvar.voful`, with the scales
    :math:`1, 1/2, \dots, 2^{-L-1}`, :math:`L = \max(1, \lfloor\log_2(1 + K/d)\rfloor)`, and in the printed test

    .. math:: T \le c\,(\sqrt{\iota V} + l R \iota), \qquad \iota = 128 \log\frac{(12 K 2^L)^{d+2}}{\delta}

    At d = 2, K = 2000 and delta = 0.05 this iota is 8.7e3: the printed test then drops nothing before some 10^5 rounds.
    With the tight test VOFUL and VOFUL2 differ in their number of scales alone.

    References:
      Kim, Yang, Jun (2022), Improved regret analysis for variance-adaptive linear bandits and horizon-free linear
      mixture MDPs.

    Deviations:
      As for :func:`jaxvar.voful`. Directions of the ball of radius 2 with scales ``2^-l`` become unit directions; those
      of norm 2, 1 and 1/2 have the scales ``2^(-l-1)``, ``2^-l`` and ``2^(1-l)``, of which 1 is the largest that clips.
    """

    num_scales: int = count(
        high=MAX_SCALES,
        default=None,
        rule=lambda self: fine_scales(2.0 ** log2_of(self.num_rounds), self.dim),
        doc="``L + 2`` if not given. Fewer directions or scales give a larger set, as valid.",
    )

    @property
    def iota(self) -> jax.Array:
        """The logarithmic factor of the printed test."""
        return fine_iota(self.num_rounds, self.dim, self.delta)


voful2 = factory(Voful2)
