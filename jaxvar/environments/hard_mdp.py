"""The MDPs behind the lower bounds: a hypercube bandit in one state, or in each state of a chain."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments.hypercube import all_signs
from jaxvar.environments.interface import MdpInstance
from jaxvar.parameters import count, leaf, number, pytree, static
from jaxvar.planning import mixture

_MAX_DIM = 13  # 2^12 actions
_HORIZON_FREE_BASE = 1.0 / 6.0

Array = np.ndarray[Any, Any]


@pytree
class HardMdp:
    """Hidden signs decide which action reaches the goal; by :func:`horizon_free_mdp` or :func:`horizon_dependent_mdp`.

    The states 0 .. n-1, n the chain's length, lead to the goal n + 1 by luck and else to the next state; n and n + 1
    stay.
    """

    gap: Any = number(above=0, doc="D: each coordinate of mu is -D or D.")
    dim: int = count(low=2, high=_MAX_DIM, doc="d.")
    horizon: int = count(low=2, doc="H, steps per episode.")
    base: float = static()  # delta: the probability to reach the goal is delta + <mu, a>
    chain_length: int = static()
    num_episodes: int | None = static()  # what the gap was made for; None where the gap was given

    @property
    def num_states(self) -> int:
        """S: the chain, its end and the goal."""
        return self.chain_length + 2

    @property
    def num_actions(self) -> int:
        """``2^(d - 1)``: all signs."""
        return int(2 ** (self.dim - 1))

    @property
    def norm_bound(self) -> Any:
        """``1 + D (d - 1)``, the norm of every parameter drawn."""
        return 1 + self.gap * (self.dim - 1)

    @property
    def lower_bound(self) -> float | None:
        """``(d - 1) sqrt K / (16 sqrt 3) (H - 1) / H``: no algorithm's expected regret in K episodes is smaller.

        The expectation is over mu as well. It is claimed of the horizon-free instance at the gap made for K
        ``num_episodes``, where K is at least ``3 (d - 1)^2``; None otherwise. See :func:`horizon_free_mdp`.
        """
        num_signs = self.dim - 1
        if self.chain_length > 1 or self.num_episodes is None or self.num_episodes < 3 * num_signs**2:
            return None
        return num_signs * math.sqrt(self.num_episodes) / (16 * math.sqrt(3)) * (self.horizon - 1) / self.horizon

    def init(self, key: jax.Array) -> MdpInstance:
        """Draw the signs of mu; features, rewards and the first state are the same for all keys."""
        gap = jnp.asarray(self.gap)
        norm = jnp.sqrt(1 + gap * (self.dim - 1))  # 1 / alpha
        signs = random.signs(random.bits(random.key_words(key), (self.dim - 1,)), gap.dtype)
        theta_star = jnp.concatenate([norm[None], signs * (jnp.sqrt(gap) * norm)])  # (1 / alpha, mu / beta)
        phi = self._features(gap, 1 / norm)
        reward, initial = np.zeros((self.num_states, self.num_actions), gap.dtype), np.zeros(self.num_states, gap.dtype)
        reward[-1], initial[0] = 1 / self.horizon, 1
        return MdpInstance(phi, jnp.asarray(reward), theta_star, mixture(phi, theta_star), jnp.asarray(initial))

    def _features(self, gap: jax.Array, alpha: jax.Array) -> jax.Array:
        """Return phi, [S, A, S, d]."""
        known, lucky = _chain(self.chain_length, self.base)
        actions = all_signs(self.dim - 1).astype(gap.dtype)
        first = (alpha * known.astype(gap.dtype))[:, None, :, None]
        others = (alpha * jnp.sqrt(gap) * lucky.astype(gap.dtype))[:, None, :, None] * actions[None, :, None]
        first = jnp.broadcast_to(first, (*others.shape[:3], 1))
        return jnp.concatenate([first, others], axis=3)


def horizon_free_mdp(dim: int, horizon: int, *, num_episodes: int | None = None, gap: Any = None) -> HardMdp:
    r"""One informative step per episode, then a reward in all that follow or in none.

    From :math:`x_1`, where every episode starts, action :math:`a \in \{-1,1\}^{d-1}` leads to :math:`x_3` with
    probability :math:`1/6 + \langle\mu, a\rangle` and else to :math:`x_2`; both stay. :math:`x_3` pays 1 / H per step,
    and :math:`\mu` is uniform on :math:`\{-\Delta,\Delta\}^{d-1}`, drawn per seed. With
    :math:`\alpha = (1 + (d-1)\Delta)^{-1/2}`, :math:`\beta = \alpha\sqrt\Delta` and :math:`\delta = 1/6`,

    .. math::
        \phi(x_2 | x_1, a) = (\alpha(1 - \delta), -\beta a), \quad \phi(x_3 | x_1, a) = (\alpha\delta, \beta a), \quad
        \phi(x_i | x_i, a) = (\alpha, 0), \quad \theta^* = (1/\alpha, \mu/\beta).

    With :math:`\Delta = \sqrt{\delta/K}/(4\sqrt 2) = 1/\sqrt{192 K}` and :math:`K \ge 3 (d-1)^2`, every algorithm has
    an expected regret of at least :math:`\frac{d-1}{16\sqrt 3} \sqrt K \frac{H-1}{H}` in K episodes, on average over
    :math:`\mu`: only the first transition informs, so an episode is one pull of a Bernoulli hypercube bandit with
    d - 1 coordinates, and reaching :math:`x_3` is worth (H - 1) / H. K episodes tell a sign from its opposite so badly
    (KL at most 1/2) that each coordinate is wrong in at least K / 4 of them, at :math:`2\Delta` apiece. Uniform play
    has exactly twice that regret: give a ``gap`` of your own, .05 for instance, to compare algorithms.

    Args:
      dim: d, from 2 to 13: there are ``2^(d-1)`` actions.
      horizon: H, at least 2: at 1 nothing is earned.
      num_episodes: K, makes the gap of the lower bound.
      gap: :math:`\Delta`, instead of ``num_episodes``; ``(d - 1) Delta`` must be at most 1/6.

    Returns:
      The environment, a pytree.

    References:
      Zhou, Gu (2022), the lower bound's instance; Zhou, Gu, Szepesvari (2021), Lemma C.8, the hypercube bandit.

    Deviations:
      The constant is for d - 1 coordinates and H - 1 rewarded steps, which the published order hides.
    """
    return _hard_mdp(dim, horizon, num_episodes, gap, base=_HORIZON_FREE_BASE, chain_length=1)


def horizon_dependent_mdp(dim: int, horizon: int, *, num_episodes: int | None = None, gap: Any = None) -> HardMdp:
    r"""A chain of H states, each with the same small chance to reach the goal.

    States :math:`x_1, \dots, x_{H+2}`. From :math:`x_h`, h = 1..H, action :math:`a \in \{-1,1\}^{d-1}` leads to
    :math:`x_{H+2}` with probability :math:`1/H + \langle\mu, a\rangle` and else to :math:`x_{h+1}`; :math:`x_{H+1}` and
    :math:`x_{H+2}` stay. :math:`x_{H+2}` pays 1 / H per step. :math:`\mu`, drawn per seed, and the features are as in
    :func:`horizon_free_mdp`, with :math:`\delta = 1/H` and with :math:`(x_{h+1}, x_{H+2})` in place of
    :math:`(x_2, x_3)`.

    Args:
      dim: d, from 2 to 13: there are ``2^(d-1)`` actions.
      horizon: H, at least 2.
      num_episodes: K, makes the gap of the lower bound, :math:`\Delta = \sqrt{\delta/K}/(4\sqrt 2)`.
      gap: :math:`\Delta`, instead of ``num_episodes``; ``(d - 1) Delta`` must be at most 1 / H.

    Returns:
      The environment, a pytree. Its ``lower_bound`` is None.

    References:
      Zhou, Gu, Szepesvari (2021), the lower bound's instance.

    Deviations:
      One :math:`\mu` for all steps, so that the kernel is homogeneous; the published bound is for a :math:`\mu_h` of
      each step, and is not claimed here. Rewards are divided by H, so that no path collects more than 1.
    """
    horizon = parameters.parameters(HardMdp)["horizon"].check("horizon", horizon)
    return _hard_mdp(dim, horizon, num_episodes, gap, base=1 / horizon, chain_length=horizon)


def _hard_mdp(dim: Any, horizon: Any, num_episodes: Any, gap: Any, *, base: float, chain_length: int) -> HardMdp:
    declared = parameters.parameters(HardMdp)
    dim, horizon = declared["dim"].check("dim", dim), declared["horizon"].check("horizon", horizon)
    if (num_episodes is None) == (gap is None):
        raise ValueError(f"give one of num_episodes and gap, got num_episodes={num_episodes!r} and gap={gap!r}")
    if gap is None:
        least = math.ceil((dim - 1) ** 2 / (32 * base) * (1 - 1e-12))
        num_episodes = parameters.check_count("num_episodes", num_episodes, low=max(least, 1))
        gap = math.sqrt(base / num_episodes) / (4 * math.sqrt(2))
    else:
        declared["gap"].check("gap", gap)
        most = base / (dim - 1)
        if not parameters.is_traced(gap) and float(gap) > most * (1 + 1e-12):
            raise ValueError(f"gap must be in (0, {most:g}] for probabilities in [0, 1] at dim {dim}, got {gap!r}")
    return HardMdp(
        gap=leaf(gap), dim=dim, horizon=horizon, base=base, chain_length=chain_length, num_episodes=num_episodes
    )


def _chain(length: int, base: float) -> tuple[Array, Array]:
    """Return the known part of each transition's probability, and the sign with which luck enters it, [S, S] each."""
    known, lucky = np.zeros((length + 2, length + 2)), np.zeros((length + 2, length + 2))
    goal = length + 1
    for s in range(length):
        known[s, s + 1], known[s, goal] = 1 - base, base
        lucky[s, s + 1], lucky[s, goal] = -1, 1
    known[length, length] = known[goal, goal] = 1
    return known, lucky
