"""UCB1 and UCB-V: N arms without features, each with an index from the number, mean and variance of its rewards."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random
from jaxvar.algorithms.bandit import best, declare_ties, declare_tolerance, lost, pick
from jaxvar.algorithms.interface import Choice, Side, Typed
from jaxvar.claims import Claim
from jaxvar.lowering import lowest
from jaxvar.parameters import Number, choice, count, factory, number, pytree
from jaxvar.sums import Sum, empty_sum

_ASSUMPTION = "fixed arms, rewards in [0, 1]"
CLAIMS = {
    "ucb1": Claim(
        "UCB1",
        "Auer, Cesa-Bianchi, Fischer 2002",
        "sum_a 1 / Delta_a",
        section="K-armed bandit",
        variance="not used",
        constants="reconstructed",
        assumption=_ASSUMPTION,
    ),
    "ucb_v": Claim(
        "UCB-V",
        "Audibert, Munos, Szepesvari 2009; Fan, Han, Lv, Xu, Zhou 2024",
        "sum_a sigma_a^2 / Delta_a + N",
        section="K-armed bandit",
        deterministic="N",
        constants="read",
        assumption=_ASSUMPTION,
    ),
}


class ArmsState(NamedTuple):
    """State of an index policy for one seed."""

    pulls: jax.Array  # [num_arms]   int32, how often each arm was pulled
    mean: jax.Array  # [num_arms]   of the rewards of each arm
    squares: Sum  # [num_arms]   of the squared deviations of its rewards from their mean
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class IndexPolicy(Typed):
    """Base of the policies that pull every arm once, then the arm of the largest index.

    An arm is known by its number alone, whatever its features are.
    """

    num_arms: int = count(kw_only=False, doc="N, the number of arms.")
    noise_bound: Number = number(
        above=0,
        squared=True,
        default=1.0,
        doc=r"R, with \|noise\| <= R, and the unit in which ties are judged; 1 for rewards in [0, 1], as in the paper.",
    )
    ties: str = declare_ties()
    tie_tolerance: Number | None = declare_tolerance()

    def index(self, state: ArmsState, pulls: jax.Array) -> jax.Array:
        """Return the index of each arm, [num_arms], from its number of ``pulls [num_arms]``, at least 1."""
        raise NotImplementedError

    def init(self) -> ArmsState:
        """Return arms of which nothing is known."""
        zeros = jnp.zeros(self.num_arms, self.dtype)
        squares = empty_sum((self.num_arms,), self.dtype)
        return ArmsState(jnp.zeros(self.num_arms, jnp.int32), zeros, squares, jnp.int32(0), jnp.int32(0))

    def select(self, state: ArmsState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose an available arm that was never pulled, if there is one, else the one of the largest index."""
        if arms.shape[0] != self.num_arms:
            raise ValueError(
                f"num_arms must be the number of arms of the environment, {arms.shape[0]}, got {self.num_arms}"
            )
        there = side.mask(self.num_arms)
        untried = there & (state.pulls == 0)
        index = self.index(state, jnp.maximum(state.pulls, 1).astype(self.dtype))
        allowed = jnp.where(jnp.any(untried), untried, there)  # the indices of arms that were never pulled are equal
        candidates = best(index, allowed, self.tie_tolerance, self.noise_bound)
        action = pick(candidates, random.key_words(key), self.ties)
        return Choice(action, jnp.ones_like(action), jnp.ones((), self.dtype), lost(index, side.available))

    def recommend(self, state: ArmsState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the available arm of the largest mean, []; one that was never pulled only where all are such."""
        there = side.mask(self.num_arms)
        tried = there & (state.pulls > 0)
        allowed = jnp.where(jnp.any(tried), tried, there)
        return lowest(best(state.mean, allowed, self.tie_tolerance, self.noise_bound))

    def update(self, state: ArmsState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> ArmsState:
        """Learn the reward of the pulled arm by a step of Welford's recursion."""
        pulled = np.arange(self.num_arms, dtype=np.int32) == choice.action
        pulls = state.pulls + pulled.astype(jnp.int32)
        ahead = jnp.where(pulled, reward - state.mean, 0)
        mean = state.mean + ahead / jnp.maximum(pulls, 1).astype(self.dtype)
        squares = state.squares.add(ahead * jnp.where(pulled, reward - mean, 0))
        return ArmsState(pulls, mean, squares, state.round + 1, state.status | choice.status)


@pytree
class Ucb1(IndexPolicy):
    r"""UCB1: pull every arm once, then :math:`\arg\max_a \hat\mu_a + R\sqrt{\rho\ln t / n_a}`.

    t is the number of rounds played so far, :math:`n_a` the number of pulls of arm a and :math:`\hat\mu_a` the mean of
    its rewards. The regret is at most :math:`\sum_a 8\ln T/\Delta_a + (1 + \pi^2/3)\sum_a\Delta_a` over the arms of
    gaps :math:`\Delta_a > 0`, for rewards in [0, 1] and :math:`\rho = 2`.

    It is meant for fixed arms: an arm is known by its number alone. Where arms are drawn anew in each round, numbers
    mean nothing, and it learns nothing. Features are ignored.

    References:
      Auer, Cesa-Bianchi, Fischer (2002), Finite-time analysis of the multiarmed bandit problem, Figure 1 and Theorem 1.
    """

    rho: Number = number(above=0, default=2.0, doc="a multiplier of the logarithm; 2 is the theorem.")

    def index(self, state: ArmsState, pulls: jax.Array) -> jax.Array:
        log_t = jnp.log(jnp.maximum(state.round, 1).astype(self.dtype))
        return state.mean + self.noise_bound * jnp.sqrt(self.rho * log_t / pulls)


ucb1 = factory(Ucb1)


@pytree
class UcbV(IndexPolicy):
    r"""UCB-V: pull every arm once, then the arm of the largest index, whose bonus shrinks with the empirical variance.

    With :math:`n_a` pulls of arm a, their mean :math:`\hat\mu_a` and their variance :math:`\hat\sigma_a^2`, a sum over
    :math:`n_a`, the index is

    .. math::
        \hat\mu_a + \max\{\hat\sigma_a, R\sqrt{\rho\ln T / n_a}\}\sqrt{\rho\ln T / n_a}
        \qquad\text{or}\qquad
        \hat\mu_a + \sqrt{2\zeta\hat\sigma_a^2\ln t / n_a} + 3 c R\zeta\ln t / n_a

    with ``form="maximum"``, where T is ``num_rounds``, or with ``form="classical"`` in round t. Both have the same
    terms where :math:`2\zeta = 3c\zeta = \rho`. The regret is at most of the order of
    :math:`\sum_a (\sigma_a^2/\Delta_a + R)\ln T` over the arms of gaps :math:`\Delta_a > 0`.

    The numbers of pulls can be unstable. Where the better of two arms has no noise, with ``maximum`` it is pulled in a
    share of all rounds if the gap is above :math:`\sigma_2\sqrt{\rho\ln T/T}`, and some :math:`\sqrt T/\sigma_2` times
    if the gap is below; near this gap the number is random.

    It is meant for fixed arms: an arm is known by its number alone. Where arms are drawn anew in each round, numbers
    mean nothing, and it learns nothing. Features are ignored.

    References:
      Fan, Han, Lv, Xu, Zhou (2024), Precise asymptotics and refined regret of variance-aware UCB, Algorithm 1.
      Audibert, Munos, Szepesvari (2009), Exploration-exploitation tradeoff using variance estimates in multi-armed
      bandits, the classical form.

    Deviations:
      - R in the term without the variance: the papers have rewards in [0, 1], where R = 1.
      - The defaults of zeta and c are reconstructed.
    """

    num_rounds: Number | None = number(at_least=1, default=None, kw_only=False, doc="T; needed by ``maximum`` only.")
    form: str = choice("maximum", "classical", default="maximum", doc="which of the two.")
    rho: Number = number(above=0, default=2.0, doc="of ``maximum``: a multiplier of ln T; the theorem needs rho > 1.")
    zeta: Number = number(above=0, default=1.2, doc="of ``classical``: a multiplier of ln t.")
    c: Number = number(above=0, default=1.0, doc="of ``classical``: a multiplier of the term without the variance.")

    def check(self) -> None:
        """Refuse a form without the number it needs."""
        if self.num_rounds is None and self.form == "maximum":
            raise ValueError("num_rounds must be given for form='maximum', got None")

    @property
    def unused(self) -> tuple[str, ...]:
        """Assumptions that the index does not rest on."""
        return () if self.form == "maximum" else ("num_rounds",)

    def index(self, state: ArmsState, pulls: jax.Array) -> jax.Array:
        std = jnp.sqrt(state.squares.total / pulls)
        if self.form == "maximum" and self.num_rounds is not None:
            share = jnp.sqrt(self.rho * jnp.log(self.num_rounds) / pulls)
            return state.mean + jnp.maximum(std, self.noise_bound * share) * share
        share = self.zeta * jnp.log((state.round + 1).astype(self.dtype)) / pulls
        return state.mean + std * jnp.sqrt(2 * share) + 3 * self.c * self.noise_bound * share


ucb_v = factory(UcbV)
