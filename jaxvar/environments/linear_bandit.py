"""Linear bandits: arms drawn or given, theta* drawn or given, any noise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxvar import parameters, random
from jaxvar.environments import noise as noises
from jaxvar.environments.interface import Drawn, Observation, array_of
from jaxvar.lowering import computed_once, inner, take, together, unit_rows
from jaxvar.parameters import Number, count, factory, flag, number, part, pytree, static

ARMS = ("sphere", "uniform", "hypercube")


class LinearInstance(NamedTuple):
    """One problem."""

    theta_star: jax.Array  # [dim]
    arms: jax.Array | None  # [num_arms, dim] where they are fixed
    mean: jax.Array | None  # [num_arms] where the arms are fixed


@pytree
class SomeArms:
    """A number of arms that are there in each round, drawn uniformly at random without replacement."""

    num: int = static()

    def draw(self, word: jax.Array) -> jax.Array:
        """Return which arms are there, bool [N], from a word for each arm."""
        num_arms = word.shape[0]
        low = np.uint32((1 << (num_arms - 1).bit_length()) - 1)
        order = (word & ~low) | np.arange(num_arms, dtype=np.uint32)  # no two are equal
        rank = jnp.sum((order[None] < order[:, None]).astype(jnp.int32), axis=1, dtype=jnp.int32)
        return rank < self.num


@pytree
class ChanceArms:
    """Arms that are there independently with a probability; where none is, one drawn uniformly at random."""

    probability: Number = number(above=0, below=1, doc="of each arm.")

    def draw(self, word: jax.Array) -> jax.Array:
        """Return which arms are there, bool [N], from a word for each arm."""
        u = random.uniform(word, jnp.result_type(self.probability))
        return u <= jnp.maximum(self.probability, jnp.min(u, axis=0))


def _available(name: str, value: object) -> SomeArms | ChanceArms | None:
    """Check how many arms are there in a round: None for all of them."""
    if value is None:
        return None
    try:
        if isinstance(value, int | np.integer):
            return SomeArms(num=parameters.check_count(name, value))
        declared = parameters.parameters(ChanceArms)["probability"]
        return ChanceArms(probability=declared.check(name, value))
    except ValueError:
        allowed = "a number of arms (an integer of at least 1) or a probability in (0, 1)"
        raise ValueError(f"{name} must be {allowed}, got {parameters.shown(value)}") from None


def _noise(name: str, value: Any) -> Any:
    value = noises.none() if value is None else value
    if not all(hasattr(value, method) for method in ("draw", "variance", "schedule")):
        raise ValueError(f"{name} must come from jaxvar.noise or have its methods, got {parameters.shown(value)}")
    return value


def _size(axis: int) -> Callable[[LinearArms], int | None]:
    """Return the rule of a size that may be left out where the arms are given."""
    return lambda bandit: None if isinstance(bandit.arms, Drawn) else bandit.arms.shape[axis]


@pytree
class LinearArms:
    """Base of the environments whose arms are drawn or given, and whose means follow from ``<a, theta*>``."""

    LONGEST_THETA: ClassVar[float] = 1.0  # the largest norm of a given theta*

    dim: int = count(default=None, rule=_size(1), kw_only=False, doc="d; not needed where ``arms`` is an array.")
    num_arms: int = count(default=None, rule=_size(0), kw_only=False, doc="size of the decision set; likewise.")
    arms: Any = part(
        Drawn.or_given(*ARMS),
        default="sphere",
        doc="``sphere`` (uniform on the unit sphere), ``uniform`` (coordinates uniform in [-1, 1] / sqrt(d)), "
        "``hypercube`` (coordinates -1 or 1, over sqrt(d)), or an array ``[num_arms, dim]``.",
    )
    fresh: bool = flag(default=False, doc="draw arms anew in each round; greedy play then explores nearly for free.")
    theta_star: Any = part(
        array_of(1, optional=True),
        default=None,
        doc="``[dim]``, of norm at most 1; drawn on the unit sphere if not given.",
    )
    norm_bound: Number = number(
        above=0, squared=True, default=1.0, doc="A: no given arm may be longer, and drawn arms are scaled by it."
    )
    available: Any = part(
        _available,
        default=None,
        doc="which arms can be pulled, drawn anew in each round: an integer for that many of them, a probability in "
        "(0, 1) for each arm by itself (at least one is always there); all of them if not given.",
    )

    @property
    def kind(self) -> str:
        """The law of drawn arms; ``given`` where they are not drawn."""
        return self.arms.law if isinstance(self.arms, Drawn) else "given"

    @property
    def fixed_arms(self) -> bool:
        """True if the arms are the same in all rounds."""
        return not self.fresh

    def check(self) -> None:
        """Refuse arms and theta* that do not fit together."""
        given = not isinstance(self.arms, Drawn)
        if given:
            parameters.check_array("arms", self.arms, (self.num_arms, self.dim), max_norm=self.norm_bound)
        if given and self.fresh:
            raise ValueError(
                "fresh must be False where arms is an array; jaxvar.replay_bandit plays arrays over rounds"
            )
        if isinstance(self.available, SomeArms) and self.available.num > self.num_arms:
            raise ValueError(f"available must be at most the number of arms, {self.num_arms}, got {self.available.num}")
        if self.theta_star is not None:
            parameters.check_array("theta_star", self.theta_star, (self.dim,), max_norm=self.LONGEST_THETA)

    def init(self, key: jax.Array) -> LinearInstance:
        """Draw theta*, and the arms where they are fixed."""
        if self.theta_star is None:
            words = random.key_words(random.fold_in(key, 0))
            theta = draw_arms(words, 1, self.dim, "sphere", jnp.result_type(self.norm_bound))[0]
        else:
            theta = jnp.asarray(self.theta_star)
        theta = self.scaled(theta)
        if not self.fixed_arms:
            return LinearInstance(theta, None, None)
        arms = self._arms(random.key_words(random.fold_in(key, 1)))
        return LinearInstance(theta, arms, inner(arms, theta))

    def scaled(self, theta: jax.Array) -> jax.Array:
        """Return theta* in the units of the problem."""
        return theta

    def decision_set(self, instance: LinearInstance, words: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array | None]:
        """Return the round's arms ``[N, d]``, ``<a, theta*> [N]``, and which arms are there where some are not."""
        if instance.arms is None or instance.mean is None:
            arms = self._arms(words)
            mean = together(inner(arms, instance.theta_star))
        else:
            arms, mean = instance.arms, instance.mean
        if self.available is None:
            return arms, mean, None
        drawn = self.available.draw(random.bits(words, mean.shape, stream=2))
        return arms, mean, computed_once(drawn.astype(jnp.float32)) > 0

    def _arms(self, words: jax.Array) -> jax.Array:
        if not isinstance(self.arms, Drawn):
            return jnp.asarray(self.arms)
        dtype = jnp.result_type(self.norm_bound)
        return draw_arms(words, self.num_arms, self.dim, self.kind, dtype, self.norm_bound, self.fresh)


@pytree
class LinearBandit(LinearArms):
    r"""Rewards :math:`\langle a, \theta^*\rangle + \epsilon` with arms fixed for a seed or drawn anew in each round."""

    noise: Any = part(_noise, default=None, doc="from :mod:`jaxvar.noise`; none if not given.")

    @property
    def noise_bound(self) -> Number:
        """R: no noise is larger."""
        return self.noise.bound

    @property
    def max_rounds(self) -> int | None:
        """The number of rounds that the noise schedule is given for, if it is."""
        return getattr(self.noise.schedule, "max_rounds", None)

    def check(self) -> None:
        """Refuse arms, theta* and noise that do not fit together."""
        super().check()
        if hasattr(self.noise.schedule, "check_arms"):
            self.noise.schedule.check_arms(self.num_arms, self.dim)
        if not isinstance(self.noise, noises.Bernoulli) or parameters.is_traced(self.noise.scale):
            return
        if isinstance(self.arms, Drawn) or self.theta_star is None:
            raise ValueError("noise=bernoulli needs arms and theta_star given as arrays, with means in [0, scale]")
        if not parameters.is_traced(self.arms) and not parameters.is_traced(self.theta_star):
            means, scale = np.asarray(self.arms) @ np.asarray(self.theta_star), float(self.noise.scale)
            if means.min() < 0 or means.max() > scale:
                worst = means.min() if means.min() < 0 else means.max()
                raise ValueError(f"noise=bernoulli needs means in [0, {scale:g}], got {worst:g}")

    def observe(self, instance: LinearInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return the round's arms, means and noise levels, and which arms are there."""
        words = random.key_words(key)
        arms, mean, available = self.decision_set(instance, words)
        schedule = self.noise.schedule
        std = schedule.levels(schedule.at(round), arms, random.bits(words, (), stream=1))
        std = jnp.broadcast_to(std, mean.shape)
        return Observation(arms, mean, self.noise.variance(std, mean), std, available)

    def pull(
        self, instance: LinearInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return ``<a, theta*> + noise``, []."""
        mean, std = take(observation.mean, action), take(observation.noise_std, action)
        return mean + self.noise.draw(random.bits(random.key_words(key), ()), std, mean)


linear_bandit = factory(LinearBandit)


def draw_arms(
    words: jax.Array, num_arms: int, dim: int, kind: str, dtype: DTypeLike, bound: Number = 1, fresh: bool = False
) -> jax.Array:
    """Return arms ``[num_arms, dim]`` of a kind of :data:`ARMS`, times ``bound``, from the words ``[2]`` of a key.

    Directions on the sphere that are drawn anew in every round may have float32's digits; all norms are 1 in ``dtype``.
    """
    if kind == "sphere":
        return unit_rows(functools.partial(random.bits_at, words), random.normal, num_arms, dim, dtype, bound, fresh)
    word = random.bits(words, (num_arms, dim))
    if kind == "hypercube":
        return computed_once(random.signs(word, dtype) * np.asarray(dim**-0.5, dtype)) * bound
    return computed_once((2 * random.uniform(word, dtype) - 1) * np.asarray(dim**-0.5, dtype)) * bound
