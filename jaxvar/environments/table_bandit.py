"""Bandits from a table: contexts in rows, arms in columns, with features, exact means and exact variances."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments import noise as noises
from jaxvar.environments.interface import Array, Drawn, GivenInstance, Observation, array_of, entry
from jaxvar.lowering import take
from jaxvar.parameters import Number, choice, factory, number, part, pytree

_Family = noises.TwoPoint | noises.Uniform | noises.Gaussian | noises.Bernoulli


class TableSummary(NamedTuple):
    """What a linear method, and one that adapts to the variance, can make of a table."""

    best_theta: Array  # [dim]   the least-squares fit of the means
    misspecification: float  # root mean square of ``mean - <features, best_theta>``
    largest_error: float  # the largest ``|mean - <features, best_theta>|``
    linear_regret: float  # regret per round of playing the arm that ``best_theta`` prefers
    uniform_regret: float  # regret per round of uniform play
    variance_ratio: float  # total variance / (K R^2) of optimal play over K rounds; 0 where R is infinite


def _contexts(name: str, value: Any) -> Any:
    """Check the law of contexts, or their rows by round, [rounds]."""
    if isinstance(value, str):
        return Drawn(law=parameters.check_choice(name, value, ("uniform",)))
    parameters.check_array(name, value, (None,))
    if parameters.is_traced(value):
        return value
    rows = np.asarray(value)
    if rows.dtype.kind not in "iu":
        raise ValueError(f"{name} must be 'uniform' or integers, the rows of the table, got dtype {rows.dtype}")
    return rows.astype(np.int32)


@pytree
class TableBandit:
    """A table of N contexts and K arms: each round shows the arms of one context, drawn uniformly or given.

    Means and variances are those of the table, so that regret is exact pseudo-regret and ``noise_var`` the exact
    variance of a reward, whether or not means are linear in the features. With one context the arms are fixed.

    ``summary()`` of what is returned says how linear the table is: ``best_theta`` (the least-squares fit),
    ``misspecification`` (the root mean square of its error), ``largest_error``, ``linear_regret`` (per round, of the
    arm that the fit prefers) and ``uniform_regret``; and ``variance_ratio``, the total variance of optimal play over
    K R^2: at 1 there is nothing for a variance-adaptive method to gain.
    """

    features: Any = part(
        array_of(3, 2),
        kw_only=False,
        doc="``[N, K, d]``, or ``[N, p]`` for a block of coordinates of its own for each arm: arm k of a row then has "
        "the row in its k-th block and zeros elsewhere, d = K p.",
    )
    means: Any = part(array_of(2), kw_only=False, doc="``[N, K]``, the expected rewards.")
    variances: Any = part(
        array_of(2, optional=True, squared=False),
        default=None,
        kw_only=False,
        doc="``[N, K]``, of the rewards. If not given, rewards are 0 or 1: Bernoulli, of variance mean (1 - mean).",
    )
    contexts: Any = part(
        _contexts,
        default="uniform",
        doc="``uniform``, a row drawn in each round; or the row of each round, ``[rounds]``, integers from 0.",
    )
    noise: str = choice(
        "two_point", "uniform", "gaussian", default="two_point", doc="the law of rewards around their means, where "
        "variances are given."
    )  # fmt: skip
    theta_star: Any = part(
        array_of(1, optional=True),
        default=None,
        doc="``[d]``, where means are ``<features, theta_star>``; needed to record the confidence event.",
    )
    noise_scale: Number = number(
        at_least=0,
        at_most=1,
        squared=True,
        default=1.0,
        doc="s: a reward is its mean plus s times its deviation from it, so that variances are s^2 times as large. "
        "Means, arms and the bound R stay as they are.",
    )

    @property
    def dim(self) -> int:
        """Length of an arm."""
        return int(self.features.shape[-1])

    @property
    def num_arms(self) -> int:
        """Size of the decision set."""
        return int(self.features.shape[-2])

    @property
    def num_contexts(self) -> int:
        """Number of rows of the table."""
        return int(self.features.shape[-3])

    @property
    def fixed_arms(self) -> bool:
        """True if there is only one context."""
        return self.num_contexts == 1

    @property
    def max_rounds(self) -> int | None:
        """The number of rounds that contexts are given for, if they are."""
        return None if isinstance(self.contexts, Drawn) else int(self.contexts.shape[-1])

    @property
    def norm_bound(self) -> jax.Array:
        """The norm of the longest arm."""
        return jnp.sqrt(jnp.max(jnp.sum(jnp.square(jnp.asarray(self.features)), axis=-1)))

    @property
    def noise_bound(self) -> Number:
        """R: no noise is larger, at any ``noise_scale``."""
        if self.variances is None:
            return self._family().bound
        return self._family(jnp.sqrt(jnp.max(jnp.asarray(self.variances)))).bound

    def _family(self, largest: Number = 0.0) -> _Family:
        """Return the noise; its bound, which draws do not use, is that of the ``largest`` deviation."""
        return noises.bernoulli() if self.variances is None else getattr(noises, self.noise)(largest)

    def check(self) -> None:
        """Refuse tables that do not fit together; give each arm its block where rows of features are given."""
        num_contexts, num_arms = self.means.shape
        if self.features.ndim == 2:
            parameters.check_array("features", self.features, (num_contexts, None))
            self.__dict__["features"] = block_features(self.features, num_arms)
        parameters.check_array("features", self.features, (num_contexts, num_arms, None))
        if self.theta_star is not None:
            parameters.check_array("theta_star", self.theta_star, (self.dim,))
        if self.variances is not None:
            parameters.check_array("variances", self.variances, (num_contexts, num_arms))
            _check_range("variances", self.variances, np.inf, "not be negative")
        else:
            _check_range("means", self.means, 1, "lie in [0, 1] where variances is not given")
        if not isinstance(self.contexts, Drawn):
            _check_range("contexts", self.contexts, num_contexts - 1, f"be rows from 0 to {num_contexts - 1}")

    def summary(self) -> TableSummary:
        """Return how linear the table is and how much its variance leaves to gain, on the host in float64."""
        drawn = isinstance(self.contexts, Drawn)
        rows = np.arange(self.num_contexts) if drawn else np.asarray(self.contexts)
        features, means = np.asarray(self.features, float)[rows], np.asarray(self.means, float)[rows]
        variances = means * (1 - means) if self.variances is None else np.asarray(self.variances, float)[rows]
        variances = variances * float(self.noise_scale) ** 2
        best_theta = np.linalg.lstsq(features.reshape(-1, self.dim), means.reshape(-1), rcond=None)[0]
        fitted, each = features @ best_theta, np.arange(len(means))
        best, bound = means.max(axis=1), float(self.noise_bound)
        return TableSummary(
            best_theta=best_theta,
            misspecification=float(np.sqrt(np.mean((means - fitted) ** 2))),
            largest_error=float(np.abs(means - fitted).max()),
            linear_regret=float(np.mean(best - means[each, fitted.argmax(axis=1)])),
            uniform_regret=float(np.mean(best - means.mean(axis=1))),
            variance_ratio=float(variances[each, means.argmax(axis=1)].mean() / bound**2) if bound > 0 else 0.0,
        )

    def init(self, key: jax.Array) -> GivenInstance:
        """Return what is the same in all rounds; nothing is drawn."""
        theta = None if self.theta_star is None else jnp.asarray(self.theta_star)
        return GivenInstance(theta, jnp.asarray(self.features)[0] if self.fixed_arms else None)

    def observe(self, instance: GivenInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return the arms, means and variances of the round's context."""
        if self.fixed_arms:
            row = jnp.int32(0)
        elif isinstance(self.contexts, Drawn):
            word = random.bits(random.key_words(key), ())
            row = (word % np.uint32(self.num_contexts)).astype(jnp.int32)
        else:
            row = entry(self.contexts, round - 1)
        arms = entry(self.features, row) if instance.arms is None else instance.arms
        mean = entry(self.means, row)
        variance = mean * (1 - mean) if self.variances is None else entry(self.variances, row)
        variance = variance * jnp.square(self.noise_scale)
        return Observation(arms, mean, variance, jnp.sqrt(variance))

    def pull(
        self, instance: GivenInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return the arm's mean plus noise, []: 0 or 1 where neither variances nor a noise_scale were given."""
        mean, std = take(observation.mean, action), take(observation.noise_std, action)
        noise = self._family().draw(random.bits(random.key_words(key), ()), std, mean)
        # The other laws have the scale in their deviation; that of 0 and 1 has none.
        return mean + (noise * self.noise_scale if self.variances is None else noise)


table_bandit = factory(TableBandit)


def block_features(rows: Array, num_arms: int) -> Array:
    """Return features ``[N, K, K p]`` of ``rows [N, p]``: arm k has the row in its k-th block, zeros elsewhere."""
    num_contexts, length = rows.shape
    blocks = np.eye(num_arms, dtype=rows.dtype)[None, :, :, None] * rows[:, None, None, :]
    return blocks.reshape(num_contexts, num_arms, num_arms * length)


def _check_range(name: str, table: Array, high: float, allowed: str) -> None:
    """Refuse entries below 0 or above ``high``; the message says what is ``allowed``."""
    if parameters.is_traced(table):
        return
    wrong = np.argwhere((table < 0) | (table > high))
    if len(wrong):
        where = tuple(int(i) for i in wrong[0])
        raise ValueError(f"{name} must {allowed}, got {table[where]} at index {where}")
