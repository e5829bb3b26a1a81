"""VarLin (Zhang, Yang, Ji, Du 2021) and VarLin2 (Kim, Yang, Jun 2022) on a net, for two or three base models.

Moments m are counted from 0, groups of variance from 0, stages from 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import nets
from jaxvar.algorithms.interface import Model, Step
from jaxvar.algorithms.moments import MAX_MOMENTS, moment_pairs
from jaxvar.algorithms.optimistic_plan import ConfidentPlanner, Plan, known_model
from jaxvar.algorithms.voful import MAX_SCALES, Netted, fine_iota, fine_scales, log2_of
from jaxvar.claims import Claim
from jaxvar.parameters import MAX_HORIZON, Number, count, factory, number, pytree

CLAIMS = {
    "var_lin": Claim(
        "VarLin",
        "Zhang, Yang, Ji, Du 2021",
        "d^4.5 sqrt(K) + d^9",
        efficient=False,
        constants="reconstructed",
        row=3,
        assumption="homogeneous, rewards add up to at most 1",
    ),
    "var_lin2": Claim(
        "VarLin2",
        "Kim, Yang, Jun 2022",
        "d sqrt(K) + d^2",
        efficient=False,
        constants="reconstructed",
        row=4,
        assumption="homogeneous, rewards add up to at most 1",
    ),
}

LARGEST_EXPONENT = 4.0  # a larger one gains nothing unless the variance is far below the scale
LARGEST_VARIANCE = 0.25  # of anything in [0, 1]


class Slabs(NamedTuple):
    """Sums over the steps of each moment m and group i of variance, for each of C = J M constraints.

    The variance bound eta does not depend on theta, so that each constraint is a slab.
    """

    ay: jax.Array  # [m, i, C]   sum a y
    ax: jax.Array  # [m, i, C, d]   sum a x
    aaeta: jax.Array  # [m, i, C]   sum a^2 eta


class VarLinState(NamedTuple):
    """State of VarLin or VarLin2 for one seed; plans are made of the net at the start of an episode.

    Rows of a kernel add up to 1, which confines theta to a plane. Parameters and features are reflected so that the
    first axis is normal to it: the net then spends its cells on the plane.
    """

    mirror: jax.Array  # [d]   w, with the reflection x - 2 <w, x> w
    slabs: Slabs
    net: nets.Net
    steps: jax.Array  # []   int32, steps played in all episodes
    layer: jax.Array  # []   int32, 1 where the last step taught something, else 0
    weight: jax.Array  # []   likewise
    status: jax.Array  # []   int32


@pytree
class VarLin(Netted, ConfidentPlanner):
    r"""VarLin: optimism over a set of parameters that explain all powers of the next value.

    **Setting.** Homogeneous linear mixture MDP with total reward at most 1; d = 1, 2 or 3.

    **Selection.** :math:`Q_h(s, a) = [r + \max_{\theta\in\Theta} \langle\phi_{V_{h+1}}(s, a), \theta\rangle]_{[0, 1]}`,
    the maximum taken for each state, action and stage by itself, over the set at the episode's start.

    **Update.** A step gives for each moment m the feature :math:`x^m = \phi_{V^{2^m}}(s, a)` and its target
    :math:`y^m = V(s')^{2^m}`, with V the plan's value of the next stage, and an upper bound of its variance,
    :math:`\eta^m = \max_{\theta\in\Theta} \langle x^{m+1}, \theta\rangle - \langle x^m, \theta\rangle^2`; it is 1/4 for
    the last moment and never more. The step belongs to the group i of moment m with
    :math:`\eta^m \in (2^{-i-3}, 2^{-i-2}]`, the last group taking all below.

    **Set.** With :math:`a = \mathrm{clip}(\langle x^m, \mu\rangle, l)`, a parameter stays while for each moment, group,
    direction :math:`\mu` and scale :math:`l = 1, 1/2, \dots` the sum
    :math:`|\sum a (y^m - \langle x^m, \theta\rangle)|` is at most, with :math:`S = \sum a^2 \eta^m`,

    .. math:: c\, l \min_\lambda \frac{(e^\lambda - 1 - \lambda) S / l^2 + \log(2 |G| C / \delta)}{\lambda}
              \quad\text{(tight)}, \qquad 4 c\,(\sqrt{\iota S} + l \iota) \quad\text{(paper)}

    where :math:`\lambda` is in a grid G, C counts all constraints and :math:`\iota = 16 d \log(d K H / \delta)`.
    Parameters have :math:`|\theta| \le B` and make every :math:`\langle\phi(\cdot | s, a), \theta\rangle` a
    distribution; the net's first axis is normal to the plane that this confines them to.

    **State.** Each constraint is a slab, known by d + 2 sums; and which of the N cells of a box are left:
    :math:`C (d + 2) + N` numbers and a few, whatever K. With no cell left the last set is kept and ``status.EMPTY`` is
    set.

    **Cost.** A plan tries H S A N products and a step 2 N for each moment; the end of an episode C N tests, divided by
    ``every``. With the defaults N = 1024 and C = 1440 at d = 2, N = 1728 and C = 5760 at d = 3.

    References:
      Zhang, Yang, Ji, Du (2021), Improved variance-aware confidence sets for linear bandits and linear mixture MDP.
      Freedman (1975), On tail probabilities for martingales, for the tight test.

    Deviations:
      The net is coarse, and moments, groups and scales are fewer than in the proof; validity needs none of them. The
      tight test replaces the printed one, whose constants are reconstructed: Freedman's supermartingale with a grid of
      exponents, in all episodes at once, on the event that no earlier variance bound failed. Variances are cut at 1/4
      instead of 1, the most that a value in [0, 1] can have. Q is also cut at 0 from below.

    Raises:
      ValueError: for d above 3, with the size that the net would have.
    """

    horizon: int = count(high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    num_episodes: Number = number(
        at_least=1, kw_only=False, doc="K, in iota and in how fine the tests are; the run itself may be shorter."
    )
    num_moments: int = count(
        high=MAX_MOMENTS, default=3, doc="powers 1, 2, 4, ... of the value; the theory has ``log2(K H)`` of them."
    )
    num_groups: int = count(high=MAX_SCALES, default=5, doc="of variances.")
    num_scales: int = count(
        high=MAX_SCALES,
        default=6,
        doc="the theory has ``log2(K H) + 1``. Fewer moments, groups, directions or scales give a larger set, as "
        "valid.",
    )
    num_exponents: int = count(
        high=MAX_SCALES,
        default=None,
        rule=lambda self: 11 + math.floor(log2_of(self.num_episodes) + math.log2(self.horizon)),
        doc="of the tight test's grid G; ``11 + floor(log2(K H))`` if not given.",
    )
    every: int = count(default=1, doc="episodes between two looks at the net.")

    @property
    def iota(self) -> jax.Array:
        """The logarithmic factor of the printed test, ``16 d log(d K H / delta)``."""
        return 16 * self.dim * jnp.log(self.dim * self.num_episodes * self.horizon / self.delta)

    def init(self, model: Model) -> VarLinState:
        """Return no step, and all cells that may hold a theta of norm at most B whose kernel is one."""
        phi = known_model(model, self.dim, self.horizon).phi
        net = nets.init_net(self.dim, self.cells, self.norm_bound, self.dtype)
        mirror = nets.mirror(jnp.sum(phi[0, 0], axis=0))
        alive = self.plausible(nets.points(net, self.cells), net.half / self.cells, phi, mirror)
        shape, zero = (self.num_moments, self.num_groups, self.clip.num), jnp.int32(0)
        slabs = Slabs(*(jnp.zeros(s, self.dtype) for s in (shape, (*shape, self.dim), shape)))
        return VarLinState(mirror, slabs, net._replace(alive=alive), zero, zero, jnp.zeros((), self.dtype), zero)

    def plan(
        self, state: VarLinState, model: Model, key: jax.Array | None = None, first: jax.Array | None = None
    ) -> Plan:
        """Plan the coming episode; without a key ties go to the lowest action."""

        def bound(feature: jax.Array) -> jax.Array:
            return nets.support(nets.reflect(feature, state.mirror), state.net, self.cells)

        return self.optimistic_plan(known_model(model, self.dim, self.horizon), bound, key, first=first)

    def update(self, state: VarLinState, model: Model, plan: Plan, step: Step) -> VarLinState:
        """Add to the sums; at the end of every ``every``-th episode drop the cells that no longer pass."""
        known = known_model(model, self.dim, self.horizon)
        x, y = moment_pairs(known, plan.value, step, self.num_moments, 1)
        x = nets.reflect(x, state.mirror)
        slabs = self.learn(state, x, y)
        steps = state.steps + 1
        due = steps % (self.horizon * self.every) == 0

        def keep(points: jax.Array, cell: jax.Array) -> jax.Array:
            return self.passes(slabs, points, cell) & self.plausible(points, cell, known.phi, state.mirror)

        net, empty = nets.refine(state.net, self.cells, due, keep)
        taught = jnp.any(x[0] != 0)
        return VarLinState(
            mirror=state.mirror,
            slabs=slabs,
            net=net,
            steps=steps,
            layer=taught.astype(jnp.int32),
            weight=taught.astype(self.dtype),
            status=state.status | nets.failure(empty, x, y),
        )

    def learn(self, state: VarLinState, x: jax.Array, y: jax.Array) -> Slabs:
        """Return the sums with one more step ``x [m, d], y [m]``, each moment's in the group of its variance bound."""
        slabs, last = state.slabs, jnp.full_like(y[:1], LARGEST_VARIANCE)
        if self.num_moments == 1:
            eta = last
        else:
            bound = nets.largest_variance(x[:-1], x[1:], state.net, self.cells)
            eta = jnp.concatenate([jnp.clip(bound, 0, LARGEST_VARIANCE), last])
        a = jnp.stack([nets.weights(x[m], self.clip) for m in range(self.num_moments)])
        # Group i has variances in (2^-(i+3), 2^-(i+2)], the last one all below.
        index = np.arange(self.num_groups, dtype=np.int32)[None]
        upper = (LARGEST_VARIANCE * 2.0**-index).astype(self.dtype)
        below, above = eta[:, None] <= upper, eta[:, None] > upper / 2
        in_group = (below | (index == 0)) & (above | (index == self.num_groups - 1))
        belongs = in_group.astype(self.dtype)[:, :, None]
        return Slabs(
            ay=slabs.ay + belongs * (a * y[:, None])[:, None],
            ax=slabs.ax + belongs[:, :, :, None] * (a[:, :, None] * x[:, None])[:, None],
            aaeta=slabs.aaeta + belongs * (a * a * eta[:, None])[:, None],
        )

    def plausible(self, points: jax.Array, cell: jax.Array, phi: jax.Array, mirror: jax.Array) -> jax.Array:
        """Return which cells may hold a parameter that is possible before anything is seen, bool [N]."""
        reflected = nets.reflect(phi.reshape(-1, self.dim), mirror).reshape(phi.shape)
        return nets.meets_ball(points, cell, self.norm_bound) & nets.meets_kernels(points, cell, reflected)

    def passes(self, slabs: Slabs, points: jax.Array, cell: jax.Array) -> jax.Array:
        """Return which cells ``points [N, d]`` of half-sides ``cell [d]`` may hold a theta in every slab, bool [N]."""
        num = self.num_moments * self.num_groups * self.clip.num
        ay, ax, aaeta = slabs.ay.reshape(num), slabs.ax.reshape(num, self.dim), slabs.aaeta.reshape(num)
        scale = np.tile(self.clip.scale, self.num_moments * self.num_groups).astype(self.dtype)
        limit: jax.Array | np.ndarray
        if self.test == "paper":
            limit = 4 * jnp.sqrt(self.iota * aaeta) + 4 * scale * self.iota
        else:
            lam = nets.exponents(LARGEST_EXPONENT, self.num_exponents)
            log = jnp.log(2 * self.num_exponents * num / self.delta)
            limit = scale * nets.exponential_limit(aaeta / scale**2, log, lam, nets.freedman_rate(lam))
        width = self.beta_scale * limit + nets.cell_shift(ax, cell)
        return jnp.all(nets.deviation(ay, ax, points) <= width[:, None], axis=0)

    def contains(self, state: VarLinState, theta: jax.Array) -> jax.Array:
        """Return whether the cell of ``theta [dim]`` is left, bool []."""
        chex.assert_shape(theta, (self.dim,))
        return nets.contains(state.net, self.cells, nets.reflect(jnp.asarray(theta)[None], state.mirror)[0])


var_lin = factory(VarLin)


@pytree
class VarLin2(VarLin):
    r"""VarLin2: the set of VarLin with more scales and other constants; what is new is how its regret is counted.

    **Setting, selection, update, set, state, cost.** Those of :func:`jaxvar.var_lin`, with the scales
    :math:`1, 1/2, \dots, 2^{-L-1}`, :math:`L = \max(1, \lfloor\log_2(1 + KH/d)\rfloor)`, and in the printed test

    .. math:: 4 c\,(\sqrt{\iota S} + l \iota), \qquad \iota = 128 \log\frac{(12 K H 2^L)^{d+2}}{\delta}

    With the tight test VarLin and VarLin2 differ in their number of scales alone.

    References:
      Kim, Yang, Jun (2022), Improved regret analysis for variance-adaptive linear bandits and horizon-free linear
      mixture MDPs.

    Deviations:
      As for :func:`jaxvar.var_lin`. The printed iota is that of :func:`jaxvar.voful2` with K H steps for K rounds.
    """

    num_scales: int = count(
        high=MAX_SCALES,
        default=None,
        rule=lambda self: fine_scales(2.0 ** log2_of(self.num_episodes) * self.horizon, self.dim),
        doc="``L + 2`` if not given. Fewer moments, groups, directions or scales give a larger set, as valid.",
    )

    @property
    def iota(self) -> jax.Array:
        """The logarithmic factor of the printed test."""
        return fine_iota(self.num_episodes * self.horizon, self.dim, self.delta)


var_lin2 = factory(VarLin2)
