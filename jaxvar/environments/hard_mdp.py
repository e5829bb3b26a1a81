"""The MDPs behind the lower bounds: a hypercube bandit in one state, or in each state of a chain."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments.hypercube import all_signs
from jaxvar.environments.interface import MdpInstance
from jaxvar.parameters import MAX_HORIZON, Number, count, factory, leaf, number, pytree
from jaxvar.planning import mixture


@pytree
class HardMdp:
    """Base of the instances, in which hidden signs decide which action reaches the goal.

    The states 0 .. n-1, n the chain's length, lead to the goal n + 1 by luck and else to the next state; n and n + 1
    stay.
    """

    dim: int = count(low=2, high=13, kw_only=False, doc="d: there are ``2^(d-1)`` actions.")
    horizon: int = count(low=2, high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    num_episodes: int | None = count(
        default=None, doc="K, makes the gap of the lower bound, sqrt(delta / K) / (4 sqrt 2)."
    )
    gap: Number = number(
        above=0, default=None, doc="Delta, instead of ``num_episodes``; ``(d - 1) Delta`` must be at most delta."
    )

    @property
    def chain(self) -> tuple[int, float]:
        """The chain's length, and delta: the probability to reach the goal from it is ``delta + <mu, a>``."""
        raise NotImplementedError

    @property
    def num_states(self) -> int:
        """S: the chain, its end and the goal."""
        return self.chain[0] + 2

    @property
    def num_actions(self) -> int:
        """``2^(d - 1)``: all signs."""
        return int(2 ** (self.dim - 1))

    @property
    def norm_bound(self) -> Number:
        """``1 + D (d - 1)``, the norm of every parameter drawn."""
        return 1 + self.gap * (self.dim - 1)

    @property
    def lower_bound(self) -> float | None:
        """A bound on every expected regret in ``num_episodes``, over mu as well; None where none is claimed."""
        return None

    def check(self) -> None:
        """Refuse probabilities outside [0, 1]; make the gap where ``num_episodes`` is given instead."""
        if (self.num_episodes is None) == (self.gap is None):
            given = f"num_episodes={self.num_episodes!r} and gap={self.gap!r}"
            raise ValueError(f"give one of num_episodes and gap, got {given}")
        shape = (self.num_states, self.num_actions, self.num_states, self.dim)
        parameters.check_table("horizon", self.horizon, shape)
        base = self.chain[1]
        if self.num_episodes is not None:
            least = math.ceil((self.dim - 1) ** 2 / (32 * base) * (1 - 1e-12))
            parameters.check_count("num_episodes", self.num_episodes, low=max(least, 1))
            self.__dict__["gap"] = leaf(math.sqrt(base / self.num_episodes) / (4 * math.sqrt(2)))
        elif not parameters.is_traced(self.gap):
            most, gap = float(leaf(base / (self.dim - 1))), float(self.gap)
            if gap > most * (1 + 1e-12):
                raise ValueError(
                    f"gap must be in (0, {most:g}] for probabilities in [0, 1] at dim {self.dim}, got {gap!r}"
                )

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
        length, base = self.chain
        goal = length + 1
        known = np.zeros((length + 2, length + 2), gap.dtype)  # the part of the probability that is known
        lucky = np.zeros_like(known)  # the sign with which luck enters it
        for s in range(length):
            known[s, s + 1], known[s, goal] = 1 - base, base
            lucky[s, s + 1], lucky[s, goal] = -1, 1
        known[length, length] = known[goal, goal] = 1
        actions = all_signs(self.dim - 1).astype(gap.dtype)
        first = (alpha * known)[:, None, :, None]
        others = (alpha * jnp.sqrt(gap) * lucky)[:, None, :, None] * actions[None, :, None]
        first = jnp.broadcast_to(first, (*others.shape[:3], 1))
        return jnp.concatenate([first, others], axis=3)


@pytree
class HorizonFreeMdp(HardMdp):
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

    References:
      Zhou, Gu (2022), the lower bound's instance; Zhou, Gu, Szepesvari (2021), Lemma C.8, the hypercube bandit.

    Deviations:
      The constant is for d - 1 coordinates and H - 1 rewarded steps, which the published order hides.
    """

    @property
    def chain(self) -> tuple[int, float]:
        """One state, and 1/6."""
        return 1, 1 / 6

    @property
    def lower_bound(self) -> float | None:
        """``(d - 1) sqrt K / (16 sqrt 3) (H - 1) / H``; None where K, ``num_episodes``, is below ``3 (d - 1)^2``."""
        num_signs = self.dim - 1
        if self.num_episodes is None or self.num_episodes < 3 * num_signs**2:
            return None
        return num_signs * math.sqrt(self.num_episodes) / (16 * math.sqrt(3)) * (self.horizon - 1) / self.horizon


@pytree
class HorizonDependentMdp(HardMdp):
    r"""A chain of H states, each with the same small chance to reach the goal.

    States :math:`x_1, \dots, x_{H+2}`. From :math:`x_h`, h = 1..H, action :math:`a \in \{-1,1\}^{d-1}` leads to
    :math:`x_{H+2}` with probability :math:`1/H + \langle\mu, a\rangle` and else to :math:`x_{h+1}`; :math:`x_{H+1}` and
    :math:`x_{H+2}` stay. :math:`x_{H+2}` pays 1 / H per step. :math:`\mu`, drawn per seed, and the features are as in
    :func:`horizon_free_mdp`, with :math:`\delta = 1/H` and with :math:`(x_{h+1}, x_{H+2})` in place of
    :math:`(x_2, x_3)`.

    References:
      Zhou, Gu, Szepesvari (2021), the lower bound's instance.

    Deviations:
      One :math:`\mu` for all steps, so that the kernel is homogeneous; the published bound is for a :math:`\mu_h` of
      each step, and is not claimed here. Rewards are divided by H, so that no path collects more than 1.
    """

    @property
    def chain(self) -> tuple[int, float]:
        """H states, and 1 / H."""
        return self.horizon, 1 / self.horizon


horizon_free_mdp = factory(HorizonFreeMdp)
horizon_dependent_mdp = factory(HorizonDependentMdp)
