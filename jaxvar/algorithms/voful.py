"""VOFUL (Zhang, Yang, Ji, Du 2021) on a net, for two or three dimensions."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from jaxvar import checks
from jaxvar.algorithms import netted
from jaxvar.claims import Claim
from jaxvar.pytrees import pytree

CLAIM = Claim(
    name="VOFUL",
    factory="voful",
    reference="Zhang, Yang, Ji, Du 2021",
    setting="bandit",
    regret="d^4.5 sqrt(sum sigma^2) + d^5",
    deterministic="d^5",
    variance="estimated",
    efficient=False,
    constants="reconstructed",
    table=1,
    printed="d^2 without noise: the entries of VOFUL and VOFUL2 are swapped, as their general bounds show",
)


@pytree
class Voful(netted.NettedBandit):
    """VOFUL; built by :func:`voful`."""

    @property
    def iota(self) -> Any:
        """``16 d log(d K / delta)``."""
        return 16 * self.dim * jnp.log(self.dim * self.num_rounds / self.delta)


def voful(
    dim: int,
    num_rounds: Any,
    *,
    noise_bound: Any = 1.0,
    theta_bound: Any = 1.0,
    delta: Any = 0.01,
    test: str = "tight",
    beta_scale: Any = 1.0,
    cells: int | None = None,
    num_directions: int | None = None,
    num_scales: int | None = None,
    every: int = 16,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> Voful:
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

    Args:
      dim: d, the length of an arm, at most 3.
      num_rounds: K, in iota and in how fine scales and exponents are; the run itself may be shorter.
      noise_bound: R, with \|noise\| <= R.
      theta_bound: B, a bound on the norm of theta*.
      delta: failure probability.
      test: ``tight`` or ``paper``.
      beta_scale: c, a multiplier of the tests' limits (not of the allowance for the size of a cell); 1 is the theorem.
      cells: along each axis of the box; 64, 32, 12 in dimension 1, 2, 3 if not given.
      num_directions: of the half sphere; 1, 16, 64 if not given.
      num_scales: ``ceil(log2 K) + 1`` if not given. Fewer directions or scales give a larger set, as valid.
      every: rounds between two looks at the net.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    Raises:
      ValueError: for d above 3, with the size that the net would have.

    References:
      Zhang, Yang, Ji, Du (2021), Improved variance-aware confidence sets for linear bandits and linear mixture MDP.
      Fan, Grama, Liu (2015), Exponential inequalities for martingales with applications, for the tight test.

    Deviations:
      The net is coarse where the proof's has spacing ``K^-3``: a union bound over the constraints that are tried is all
      that validity needs. The tight test replaces the printed one, whose constants are reconstructed; it holds with
      probability 1 - delta in all rounds at once. Directions of the ball of radius 2 with scales ``2^(2-j)`` become
      unit directions with scales ``2^(1-j)``, the same constraints divided by 2. Rewards are scaled by R.
    """
    num_rounds = checks.parameter("num_rounds", num_rounds)
    if num_scales is None:
        num_scales = math.ceil(netted.log2_of(num_rounds)) + 1
    shared = netted.parameters(
        dim,
        num_rounds,
        checks.count("num_scales", num_scales),
        noise_bound,
        theta_bound,
        delta,
        test,
        beta_scale,
        cells,
        num_directions,
        every,
        ties,
        tie_tolerance,
    )
    return Voful(**shared)
