"""VACDB: SAVE on the differences of arms, for duels (Di et al. 2024); and MaxInP, its rival with one ellipsoid.

Both estimate theta* by maximum likelihood. Every estimate is a sum over all duels that it has learned from: over pairs
of arms where these never change, which is exact and does not grow with the rounds; else over a memory of duels.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import cholesky, parameters, random, ridge, status
from jaxvar.algorithms.bandit import (
    EXPLORE,
    EXPLORE_DOC,
    Eliminating,
    FixedArms,
    best,
    declare_beta_scale,
    declare_capacity,
    declare_memory,
)
from jaxvar.algorithms.interface import Ellipsoids, Pair, Side, by_rule
from jaxvar.claims import Claim
from jaxvar.lowering import combine, gram, inner, is_layer, largest, square_lengths, take
from jaxvar.parameters import Number, choice, factory, number, pytree

CLAIMS = {
    "vacdb": Claim(
        "VACDB",
        "Di, Jin, Wu, Zhao, Farnoud, Gu 2024",
        "d sqrt(sum sigma^2) + d",
        constants="read",
        told="K, B, delta, least slope",
        assumption="logistic link; 1 / least slope is hidden",
    ),
    "max_in_p": Claim(
        "MaxInP",
        "Saha 2021",
        "d sqrt(K)",
        variance="not used",
        constants="derived again",
        told="K, B, delta, least slope",
        assumption="logistic link; 1 / least slope is hidden",
    ),
}
_NEWTON_STEPS = 50  # at most: three to five are usual, twenty where all duels were won
_LARGEST_SLOPE = 0.25  # L_mu, of the logistic link


class Likelihood(NamedTuple):
    """Duels that estimates are made of: those of each pair of arms, or one after the other."""

    z: jax.Array | None  # [M, d]   differences, where they are remembered one by one; else those of the fixed arms
    weight: jax.Array  # [layers, M]   sum w^2
    won: jax.Array  # [layers, M]   sum w^2 o, o = 1 where the first arm of the pair won


def pairs(num_arms: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the two arms of each of the M = N (N + 1) / 2 pairs, an arm with itself included, [M] each."""
    first, second = np.triu_indices(num_arms)
    return first.astype(np.int32), second.astype(np.int32)


def differences(arms: jax.Array) -> jax.Array:
    """Return ``x_i - x_j`` for each pair of ``arms [N, d]``, [M, d]."""
    first, second = pairs(arms.shape[0])
    return arms[first] - arms[second]


def maximum_likelihood(
    start: jax.Array, z: jax.Array, weight: jax.Array, won: jax.Array, ridge: Number
) -> tuple[jax.Array, jax.Array]:
    r"""Solve :math:`\rho \theta + \sum_m (W_m \mu(\langle z_m, \theta\rangle) - O_m) z_m = 0` by Newton's method.

    It begins at ``start [d]``. ``z [M, d]`` are differences, ``weight [M]`` the sums W of the weights of each,
    ``won [M]`` the parts O of these in which the first arm won, and ``ridge []`` is rho. Returned are the solution
    ``[d]``, and whether it was found up to rounding, [].
    """
    dim = z.shape[1]

    def newton(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        mu = jax.nn.sigmoid(inner(z, theta))
        gradient = ridge * theta + combine(z, (weight * mu - won)[:, None])
        slopes = weight * mu * (1 - mu)
        step = cholesky.solve(cholesky.factor(gram(z, slopes) + ridge * jnp.eye(dim, dtype=z.dtype)), gradient)
        far = largest(jnp.where(weight > 0, jnp.abs(inner(z, step)), 0))  # beyond a logit of 4 slopes tell nothing
        return theta - step * jnp.minimum(1, 4 / jnp.maximum(far, 4)), jnp.sqrt(jnp.sum(step * step, axis=0))

    def is_small(theta: jax.Array, step: jax.Array) -> jax.Array:  # what is left is the square of the last step
        return step <= np.sqrt(np.finfo(z.dtype).eps) * (1 + jnp.sqrt(jnp.sum(theta * theta, axis=0)))

    def goes_on(loop: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return (loop[2] < _NEWTON_STEPS) & ~is_small(*loop[:2])

    begin = (start, jnp.full((), np.inf, z.dtype), jnp.int32(0))
    theta, step, _ = jax.lax.while_loop(goes_on, lambda loop: (*newton(loop[0]), loop[2] + 1), begin)
    return theta, is_small(theta, step)


@pytree
class LogisticDuels(FixedArms):
    """Base of the algorithms for duels with the logistic link."""

    num_rounds: Number = number(at_least=1, kw_only=False, doc="K, in the logarithms; the run itself may be shorter.")
    theta_bound: Number = number(
        above=0, squared=True, default=1.0, doc="S, a bound on the norm of theta*; it sets kappa, and the unit of ties."
    )
    kappa: Number = by_rule(
        lambda self: jax.nn.sigmoid(2 * self.theta_bound) * jax.nn.sigmoid(-2 * self.theta_bound),
        "a lower bound on the slope of the link; that at ``2 S``, for arms of norm at most 1, if not given.",
    )
    beta_scale: Number = declare_beta_scale()
    memory: int = declare_memory("duels to remember where arms change from round to round")

    @property
    def unit(self) -> Number:
        """The size of what values are made of: the bound on theta*."""
        return self.theta_bound

    def no_duels(self, num_layers: int) -> Likelihood:
        """Return sums over nothing."""
        num = self.memory if self.fixed_arms is None else len(pairs(self.fixed_arms.shape[0])[0])
        empty = jnp.zeros((num_layers, num), self.dtype)
        return Likelihood(jnp.zeros((num, self.dim), self.dtype) if self.fixed_arms is None else None, empty, empty)

    def remember(
        self, duels: Likelihood, layer: jax.Array, choice: Pair, z: jax.Array, won: jax.Array, round: jax.Array
    ) -> tuple[Likelihood, jax.Array]:
        """Return the sums with one duel more in ``layer`` (1-based, 0 for none), and the status bits of it.

        The duel ``round`` (counted from 0) has the difference ``z [d]`` and the weight of its choice.
        """
        num_layers, num = duels.weight.shape
        here = is_layer(num_layers, layer)[:, None]
        if duels.z is None:
            assert self.fixed_arms is not None
            first, second = pairs(self.fixed_arms.shape[0])
            at, differences = (first == choice.action) & (second == choice.rival), None
            bits = jnp.int32(0)
        else:
            at = np.arange(num, dtype=np.int32) == round
            differences = jnp.where(at[:, None], z[None], duels.z)
            bits = jnp.where((layer > 0) & (round >= num), status.CAPACITY, 0).astype(jnp.int32)
        more = jnp.where(here & at[None], choice.weight**2, 0)
        return Likelihood(differences, duels.weight + more, duels.won + more * won), bits

    def estimate(
        self, duels: Likelihood, layer: jax.Array, start: jax.Array, ridge: Number
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the estimate ``[d]`` of ``layer``, its ``sum w^2 (o - mu)^2 []``, and whether it was found, []."""
        z = differences(jnp.asarray(self.fixed_arms)) if duels.z is None else duels.z
        here = is_layer(duels.weight.shape[0], layer)[:, None]
        weight, won = (jnp.sum(jnp.where(here, v, 0), axis=0) for v in (duels.weight, duels.won))
        theta, found = maximum_likelihood(start, z, weight, won, ridge)
        mu = jax.nn.sigmoid(inner(z, theta))
        squares = won * (1 - 2 * mu) + weight * mu**2  # o^2 = o
        return theta, jnp.maximum(jnp.sum(squares, axis=0), 0), found


class VacdbState(NamedTuple):
    """State of VACDB for one seed."""

    layers: ridge.Layers  # theta_hat is that of maximum likelihood; the loss is not used
    beta_hat: jax.Array  # [capacity]
    duels: Likelihood
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


class End(NamedTuple):
    """The layer in which a round ends, with its M pairs."""

    active: jax.Array  # [N]   bool, the arms that survived all layers before
    width: jax.Array  # [M]   of the differences
    upper: jax.Array  # [M]   upper bounds of the sum of both arms
    done: jax.Array  # [N]   estimates of the deepest layer that is done, see `recommend`; else those of this one
    scale: jax.Array  # []   4^-l
    layer: jax.Array  # []   int32, l where the layer learns, 0 where every width is at most alpha
    lost: jax.Array  # []   int32, status bits


@pytree
class Vacdb(LogisticDuels, Eliminating):
    r"""VACDB: eliminate arms layer by layer, and let pairs duel whose difference is still too uncertain.

    In layer l, while no pair of active arms has :math:`\|x - y\|_{\Sigma_l^{-1}} > 2^{-l}`, arms whose estimate is more
    than :math:`2^{-l} \beta_l` below the best are dropped and the next layer is asked. A pair that is too uncertain
    duels, with weight :math:`w = 2^{-l} / \|x - y\|_{\Sigma_l^{-1}}`. The layer's estimate is that of maximum
    likelihood, :math:`4^{-l} \kappa \theta + \sum w^2 (\mu(\langle z, \theta\rangle) - o) z = 0`, and its radius

    .. math:: \beta_l = \tfrac{16}{\kappa} 2^{-l} \sqrt{(8 V + 18 \log_1) \log_0} + \tfrac{6}{\kappa} 2^{-l} \log_0
              + 2^{1-l}

    with :math:`\log_0 = \log(4 k^2 L / \delta)`, :math:`\log_1 = \log(4 (k + 1)^2 L / \delta)`, and V the sum of
    :math:`w^2 (o - \mu)^2` from the layer with :math:`2^l \ge 64 \tfrac{1}{4 \kappa} \sqrt{\log_1}` on, before it the
    number of duels. A round looks at all :math:`N (N + 1) / 2` pairs of arms, and solves for the estimate of the layer
    that learns anew: it takes longer than a round of SAVE by about the number of arms.

    References:
      Di, Jin, Wu, Zhao, Farnoud, Gu (2024), Variance-aware regret bounds for stochastic contextual dueling bandits.

    Deviations:
      The rule for ties is ours. The radius takes for granted that the slope of the link is at least kappa between the
      estimate and theta*, as the source does.
    """

    alpha: Number = by_rule(
        lambda self: 1 / self.num_rounds**1.5,
        "the width at which a pair is known well enough, which sets L; ``K^{-3/2}`` if not given.",
    )
    explore: str = choice(*EXPLORE, default="random", doc=EXPLORE_DOC.replace("arm", "pair").replace("paper", "source"))
    capacity: int = declare_capacity()

    @property
    def num_layers(self) -> jax.Array:
        """``L = ceil(log2(1 / alpha))``, at least 1: the L inside the logarithms."""
        return ridge.layer_count(jnp.asarray(self.alpha))

    def init(self) -> VacdbState:
        """Return empty layers."""
        layers = ridge.init_layers(self.dim, self.capacity, 1, self.dtype)
        initial = jnp.sqrt(ridge.scales(self.capacity, self.dtype)) * (1 + 1 / self.kappa)
        return VacdbState(layers, initial, self.no_duels(self.capacity), jnp.int32(0), jnp.int32(0))

    def pair(self, state: VacdbState, arms: jax.Array, key: jax.Array, side: Side) -> Pair:
        """Choose a pair of ``arms [num_arms, dim]``."""
        (first, second), end = pairs(arms.shape[0]), self.descend(state, arms, side)
        learns = end.layer > 0
        allowed = end.active[first] & end.active[second] & (~learns | (end.width > jnp.sqrt(end.scale)))
        widest = best(end.width, allowed, self.tie_tolerance, self.unit)
        chosen = self.explore_or_best(learns, widest, lambda: end.upper, allowed, random.key_words(key))
        weight = jnp.where(learns, jnp.sqrt(end.scale) / take(end.width, chosen), 0)
        return Pair(take(jnp.asarray(first), chosen), take(jnp.asarray(second), chosen), end.layer, weight, end.lost)

    def recommend(self, state: VacdbState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest estimate of the deepest layer that is done, [].

        A layer is done where it was passed, or where it knows every active pair up to alpha: it has the best bound on
        the error of all arms that survived. While no layer is done, it is the one in which the round ends.
        """
        end = self.descend(state, arms, side)
        return self.top(end.done, end.active)

    def descend(self, state: VacdbState, arms: jax.Array, side: Side) -> End:
        """Go down the layers, dropping arms, to the one where the round ends."""
        chex.assert_shape(arms, (None, self.dim))
        q, (first, second), z = ridge.scales(self.capacity, self.dtype), pairs(arms.shape[0]), differences(arms)
        active, stopped = side.mask(arms.shape[0]), jnp.zeros((), bool)
        # The layer in which the round ends, as seen from outside the loop.
        layer, scale = jnp.int32(0), jnp.ones((), self.dtype)
        width = upper = jnp.zeros(len(first), self.dtype)
        done, any_done = jnp.zeros(arms.shape[0], self.dtype), jnp.zeros((), bool)
        for i in range(self.capacity):
            both = active[first] & active[second]
            squared = square_lengths(z, state.layers.root[i]) / q[i]
            most = jnp.max(jnp.where(both, squared, 0), axis=0)
            if i == 0:
                finite = jnp.isfinite(most)
            certain, explores = most <= self.alpha**2, most > q[i]
            ends = ~stopped & (certain | explores)
            value = inner(arms, state.layers.theta_hat[i])
            root = jnp.sqrt(squared)
            width = jnp.where(ends, root, width)
            upper = jnp.where(ends, value[first] + value[second] + state.beta_hat[i] * root, upper)
            scale = jnp.where(ends, q[i], scale)
            layer = jnp.where(ends & explores & ~certain, i + 1, layer)
            here = ~stopped & (certain | ~explores) & (state.layers.count[i] > 0)
            done = jnp.where(here | (ends & ~any_done), value, done)
            any_done = any_done | here
            stopped = stopped | ends
            top = jnp.max(jnp.where(active, value, -jnp.inf), axis=0)
            active = active & ((value >= top - np.sqrt(q[i]) * state.beta_hat[i]) | stopped)
        lost = jnp.where(finite, jnp.where(stopped, 0, status.CAPACITY), status.NONFINITE).astype(jnp.int32)
        return End(active, width, upper, done, scale, layer, lost)

    def update(self, state: VacdbState, choice: Pair, x: jax.Array, reward: jax.Array, side: Side) -> VacdbState:
        """Let the layer of the choice learn from the duel of difference ``x [dim]``."""
        layers, update = ridge.observe(state.layers, choice.layer, x, reward)
        duels, full = self.remember(state.duels, choice.layer, choice, x, reward, state.round)
        here = is_layer(self.capacity, choice.layer)
        start = jnp.sum(jnp.where(here[:, None], state.layers.theta_hat, 0), axis=0)
        learns = choice.layer > 0
        penalty = jnp.where(learns, update.scale * self.kappa, 1)
        theta, variance, found = self.estimate(duels, choice.layer, start, penalty)
        beta = self.radius(update.scale, variance, update.num.astype(self.dtype), state.round + 1)
        unsolved = jnp.where(learns & ~found, status.UNSOLVED, 0).astype(jnp.int32)
        return VacdbState(
            layers=layers._replace(theta_hat=jnp.where(here[:, None], theta, state.layers.theta_hat)),
            beta_hat=jnp.where(here, beta, state.beta_hat),
            duels=duels,
            round=state.round + 1,
            status=state.status | choice.status | full | unsolved | ridge.layer_failure(update, beta),
        )

    def radius(self, q: jax.Array, variance: jax.Array, num: jax.Array, round: jax.Array) -> jax.Array:
        """Return ``beta_l`` of the layer of scale ``q = 4^-l`` that learned in ``round``, []."""
        k = round.astype(self.dtype)
        log0, log1 = (jnp.log(4 * self.num_layers / self.delta) + 2 * jnp.log(k + more) for more in (0, 1))
        root = jnp.sqrt(q)
        adaptive = 64 * _LARGEST_SLOPE / self.kappa * jnp.sqrt(log1) * root <= 1
        spread = jnp.sqrt((8 * jnp.where(adaptive, variance, num) + 18 * log1) * log0)
        return self.beta_scale * root / self.kappa * (16 * spread + 6 * log0) + 2 * root

    def confidence(self, state: VacdbState) -> Ellipsoids:
        """Return the ellipsoids of all layers."""
        q = ridge.scales(self.capacity, self.dtype)[:, None, None]
        return Ellipsoids(state.layers.theta_hat, state.layers.scaled_inv / q, state.beta_hat)

    def grow(self) -> Self:
        """Return the same algorithm with more layers stored and more duels remembered."""
        return parameters.replace(self, capacity=min(self.capacity + 4, ridge.MAX_LAYERS), memory=2 * self.memory)


vacdb = factory(Vacdb)


class MaxInPState(NamedTuple):
    """State of MaxInP for one seed."""

    regression: ridge.Ridge  # theta_hat is that of maximum likelihood; the loss is not used
    duels: Likelihood
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class MaxInP(LogisticDuels):
    r"""MaxInP: of the arms that may still be the best, let the two duel whose difference is most uncertain.

    With :math:`V = \lambda I + \sum z z^\top`, the estimate of maximum likelihood
    :math:`\lambda \kappa \theta + \sum (\mu(\langle z, \theta\rangle) - o) z = 0` and

    .. math:: \beta = \tfrac{1}{2 \kappa} \sqrt{2 \log(1/\delta) + \log(\det V / \lambda^d)} + \sqrt{\lambda} S

    an arm x may be the best if :math:`\langle x - y, \hat\theta\rangle + \beta \|x - y\|_{V^{-1}} \ge 0` for all y.
    As in VACDB, a round looks at all pairs of arms and solves anew, over all of them or, where arms change, K duels.

    References:
      Saha (2021), Optimal algorithms for stochastic contextual preference bandits.

    Deviations:
      The radius is that of self-normalised sums with noise of range 1, derived again; the source's has other constants.
      It takes for granted that the slope of the link is at least kappa between the estimate and theta*.
    """

    lam: Number = number(above=0, default=1.0, doc="the ridge.")

    def init(self) -> MaxInPState:
        """Return an empty regression."""
        regression = ridge.init_ridge(self.dim, self.lam, self.dtype)
        return MaxInPState(regression, self.no_duels(1), jnp.int32(0), jnp.int32(0))

    def pair(self, state: MaxInPState, arms: jax.Array, key: jax.Array, side: Side) -> Pair:
        """Choose a pair of ``arms [num_arms, dim]``."""
        chex.assert_shape(arms, (None, self.dim))
        (first, second), there = pairs(arms.shape[0]), side.mask(arms.shape[0])
        between = np.zeros((arms.shape[0], arms.shape[0]), np.int32)
        between[first, second] = between[second, first] = np.arange(len(first))
        width = jnp.sqrt(square_lengths(differences(arms), state.regression.root))
        value = inner(arms, state.regression.theta_hat)
        ahead = value[:, None] - value[None] + self.radius(state) * width[between]
        candidates = there & jnp.all((ahead >= 0) | ~there[None], axis=1)
        allowed = candidates[first] & candidates[second]
        chosen = self.best(width, random.key_words(key), allowed)
        one = jnp.ones((), self.dtype)
        lost = jnp.where(jnp.isfinite(jnp.max(width, axis=0)), 0, status.NONFINITE).astype(jnp.int32)
        return Pair(take(jnp.asarray(first), chosen), take(jnp.asarray(second), chosen), jnp.int32(1), one, lost)

    def update(self, state: MaxInPState, choice: Pair, x: jax.Array, reward: jax.Array, side: Side) -> MaxInPState:
        """Learn from the duel of difference ``x [dim]``."""
        regression, update = ridge.regress(state.regression, x, reward)
        duels, full = self.remember(state.duels, choice.layer, choice, x, reward, state.round)
        theta, _, found = self.estimate(duels, choice.layer, state.regression.theta_hat, self.lam * self.kappa)
        unsolved = jnp.where(found, 0, status.UNSOLVED).astype(jnp.int32)
        after = MaxInPState(regression._replace(theta_hat=theta), duels, state.round + 1, state.status)
        bits = choice.status | full | unsolved | ridge.failure(update, self.radius(after))
        return after._replace(status=state.status | bits)

    def recommend(self, state: MaxInPState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest estimate, []."""
        return self.top(inner(arms, state.regression.theta_hat), side.mask(arms.shape[0]))

    def radius(self, state: MaxInPState) -> jax.Array:
        """Return ``beta``, []."""
        spread = jnp.sqrt(2 * jnp.log(1 / self.delta) + state.regression.log_det)
        return self.beta_scale * spread / (2 * self.kappa) + jnp.sqrt(self.lam) * self.theta_bound

    def confidence(self, state: MaxInPState) -> Ellipsoids:
        """Return the one ellipsoid, as a layer."""
        estimate = state.regression
        return Ellipsoids(estimate.theta_hat[None], estimate.sigma_inv[None], self.radius(state)[None])


max_in_p = factory(MaxInP)
