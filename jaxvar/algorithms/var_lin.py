"""VarLin (Zhang, Yang, Ji, Du 2021) on a net, for linear mixture MDPs of two or three base models."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jaxvar import checks
from jaxvar.algorithms import netted_episodes
from jaxvar.claims import Claim
from jaxvar.pytrees import pytree

CLAIM = Claim(
    name="VarLin",
    factory="var_lin",
    reference="Zhang, Yang, Ji, Du 2021",
    setting="episodes",
    regret="d^4.5 sqrt(K) + d^9",
    deterministic="none claimed",
    variance="estimated",
    efficient=False,
    constants="reconstructed",
    table=2,
    assumption="homogeneous, rewards add up to at most 1",
)


@pytree
class VarLin(netted_episodes.NettedEpisodes):
    """VarLin; built by :func:`var_lin`."""

    @property
    def iota(self) -> Any:
        """``16 d log(d K H / delta)``."""
        return 16 * self.dim * jnp.log(self.dim * self.num_episodes * self.horizon / self.delta)


def var_lin(
    dim: int,
    horizon: int,
    num_episodes: Any,
    *,
    norm_bound: Any = 1.0,
    delta: Any = 0.01,
    test: str = "tight",
    beta_scale: Any = 1.0,
    num_moments: int = 3,
    num_groups: int = 5,
    cells: int | None = None,
    num_directions: int | None = None,
    num_scales: int = 6,
    every: int = 1,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> VarLin:
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

    Args:
      dim: d, the length of a feature, at most 3.
      horizon: H, steps per episode.
      num_episodes: K, in iota and in how fine exponents are; the run itself may be shorter.
      norm_bound: B, with \|theta*\| <= B.
      delta: failure probability.
      test: ``tight`` or ``paper``.
      beta_scale: c, a multiplier of the slabs' widths (not of the allowance for the size of a cell); 1 is the theorem.
      num_moments: powers 1, 2, 4, ... of the value; the theory has ``log2(K H)`` of them.
      num_groups: of variances.
      cells: along each axis of the box; 64, 32, 12 in dimension 1, 2, 3 if not given.
      num_directions: of the half sphere; 1, 16, 64 if not given.
      num_scales: the theory has ``log2(K H) + 1``. Fewer moments, groups, directions or scales give a larger set, as
        valid.
      every: episodes between two looks at the net.
      ties: ``random`` or ``lowest`` action, among those within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    Raises:
      ValueError: for d above 3, with the size that the net would have.

    References:
      Zhang, Yang, Ji, Du (2021), Improved variance-aware confidence sets for linear bandits and linear mixture MDP.
      Freedman (1975), On tail probabilities for martingales, for the tight test.

    Deviations:
      The net is coarse, and moments, groups and scales are fewer than in the proof; validity needs none of them. The
      tight test replaces the printed one, whose constants are reconstructed: Freedman's supermartingale with a grid of
      exponents, in all episodes at once, on the event that no earlier variance bound failed. Variances are cut at 1/4
      instead of 1, the most that a value in [0, 1] can have. Q is also cut at 0 from below.
    """
    num_episodes = checks.parameter("num_episodes", num_episodes)
    shared = netted_episodes.parameters(
        dim,
        horizon,
        num_episodes,
        checks.count("num_scales", num_scales),
        norm_bound,
        delta,
        test,
        beta_scale,
        num_moments,
        num_groups,
        cells,
        num_directions,
        every,
        ties,
        tie_tolerance,
    )
    return VarLin(**shared)
