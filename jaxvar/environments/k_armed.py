"""Bandits of K arms that have means and nothing in common."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from jax.typing import ArrayLike

from jaxvar.environments.interface import array_of
from jaxvar.environments.linear_bandit import LinearBandit
from jaxvar.environments.noise import Noise
from jaxvar.parameters import factory, pytree


@pytree
class KArmed(LinearBandit):
    """A linear bandit whose arms are the unit vectors, and whose theta* holds their means; built by :func:`k_armed`."""

    LONGEST_THETA: ClassVar[float] = np.inf


def k_armed(means: ArrayLike, noise: Noise | None = None, *, available: int | float | None = None) -> KArmed:
    r"""Return a bandit of K fixed arms with the given means, which need not lie in the unit ball.

    Arm a is the unit vector :math:`e_a` and theta* is the vector of means, so that algorithms for linear bandits play
    it as well, with ``dim=K``: means are exact, and regret is in means. An algorithm that is told a ``theta_bound``
    needs one of at least the norm of the means. SAVE and UCB-V on two arms, of which the better one has no noise::

        arms = jv.k_armed([0.5, 0.4], jv.noise.two_point(jv.schedules.each_arm([0.0, 0.25])))
        players = {"SAVE": jv.save(2, 1000, constants="practical"), "UCB-V": jv.ucb_v(2, 1000)}
        jv.compare(players, {"two arms": arms}, num_rounds=1000, num_seeds=100, key=jax.random.key(0))

    Args:
      means: ``[K]``, the expected rewards.
      noise: from :mod:`jaxvar.noise`, none if not given; :func:`jaxvar.schedules.each_arm` gives each arm a standard
        deviation of its own.
      available: which arms can be pulled, drawn anew in each round: an integer for that many of them, a probability in
        (0, 1) for each arm by itself (at least one is always there); all of them if not given.

    Returns:
      The KArmed, a pytree.
    """
    theta = array_of(1)("means", means)
    return factory(KArmed)(arms=np.eye(theta.shape[0]), theta_star=theta, noise=noise, available=available)
