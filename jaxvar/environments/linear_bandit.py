"""Linear bandits: arms drawn or given, theta* drawn or given, any noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import checks, random, ridge, ties
from jaxvar.batching import once, seeds_last
from jaxvar.environments import noise as noises
from jaxvar.environments.interface import Observation
from jaxvar.pytrees import leaf, pytree, static

ARMS = ("sphere", "uniform", "hypercube")


class LinearInstance(NamedTuple):
    """One problem."""

    theta_star: jax.Array  # [dim]
    arms: jax.Array | None  # [num_arms, dim] where they are fixed
    mean: jax.Array | None  # [num_arms] where the arms are fixed


@pytree
class LinearBandit:
    """A linear bandit; built by :func:`linear_bandit`."""

    noise: Any
    theta_star: Any  # [dim], or None to draw it on the unit sphere
    arms: Any  # [num_arms, dim], or None to draw them
    norm_bound: Any  # A
    dim: int = static()
    num_arms: int = static()
    kind: str = static()
    fixed_arms: bool = static()

    @property
    def noise_bound(self) -> Any:
        """R: no noise is larger."""
        return self.noise.bound

    @property
    def max_rounds(self) -> int | None:
        """How many rounds the noise schedule is given for, if it is."""
        return getattr(self.noise.schedule, "max_rounds", None)

    def init(self, key: jax.Array) -> LinearInstance:
        """Draw theta*, and the arms where they are fixed."""
        theta_words = random.key_words(random.fold_in(key, 0))
        arm_words = random.key_words(random.fold_in(key, 1))
        return _init(self, theta_words, arm_words)

    def observe(self, instance: LinearInstance, round: jax.Array, key: jax.Array) -> Observation:
        """The round's arms, means and noise levels."""
        return _observe(self, instance, self.noise.schedule.at(round), random.key_words(key))

    def pull(
        self, instance: LinearInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """``<a, theta*> + noise``."""
        return _pull(self, observation, action, random.key_words(key))


def linear_bandit(
    dim: int | None = None,
    num_arms: int | None = None,
    *,
    noise: Any = None,
    arms: Any = "sphere",
    fresh: bool = False,
    theta_star: Any = None,
    norm_bound: Any = 1.0,
) -> LinearBandit:
    r"""Rewards :math:`\langle a, \theta^*\rangle + \epsilon` with arms fixed for a seed or drawn anew in each round.

    Args:
      dim: d; may be left out where ``arms`` is an array.
      num_arms: size of the decision set; may be left out where ``arms`` is an array.
      noise: from :mod:`jaxvar.noise`; none if not given.
      arms: ``sphere`` (uniform on the unit sphere), ``uniform`` (coordinates uniform in [-1, 1] / sqrt(d)),
      ``hypercube``
        (coordinates -1 or 1, over sqrt(d)), or an array ``[num_arms, dim]``.
      fresh: draw the decision set anew in each round. Exploration is then nearly free: greedy play does well.
      theta_star: ``[dim]``, of norm at most 1; drawn uniformly on the unit sphere if not given.
      norm_bound: A; an arm of an array must not be longer, and drawn arms are scaled by it.

    Returns:
      The environment, a pytree.
    """
    norm_bound = leaf(checks.parameter("norm_bound", norm_bound))
    given = None
    if not isinstance(arms, str):
        checks.array("arms", arms, (num_arms, dim), max_norm=norm_bound)
        if fresh:
            raise ValueError(
                "fresh must be False where arms is an array; jaxvar.replay_bandit plays arrays over rounds"
            )
        given = leaf(arms)
        (num_arms, dim), kind = given.shape, "given"
    else:
        kind = checks.choice("arms", arms, ARMS)
    dim, num_arms = checks.count("dim", dim), checks.count("num_arms", num_arms)
    if theta_star is not None:
        checks.array("theta_star", theta_star, (dim,), max_norm=1.0)
    noise = noises.none() if noise is None else noise
    if not all(hasattr(noise, name) for name in ("draw", "variance", "schedule")):
        raise ValueError(f"noise must come from jaxvar.noise or have its methods, got {noise!r}")
    _check_bernoulli(noise, given, theta_star)
    if hasattr(noise.schedule, "check"):
        noise.schedule.check(num_arms, dim)
    return LinearBandit(
        noise=noise,
        theta_star=None if theta_star is None else leaf(theta_star),
        arms=given,
        norm_bound=norm_bound,
        dim=dim,
        num_arms=num_arms,
        kind=kind,
        fixed_arms=not fresh,
    )


def draw_arms(words: jax.Array, num_arms: int, dim: int, kind: str, dtype: Any) -> jax.Array:
    """Arms ``[num_arms, dim]`` of a kind of :data:`ARMS` from the words ``[2]`` of a key."""
    word = random.bits(words, (num_arms, dim))
    # Each kind ends in a true division, after which XLA stores the arms; else it would draw them anew in every use.
    if kind == "hypercube":
        return once(random.signs(word, dtype) * np.asarray(dim**-0.5, dtype))
    if kind == "uniform":
        return once((2 * random.uniform(word, dtype) - 1) * np.asarray(dim**-0.5, dtype))
    z = random.normal(word, dtype)
    norm = jnp.maximum(jnp.sqrt(jnp.sum(z * z, axis=1)), np.finfo(dtype).tiny)
    return z / norm[:, None]


def _check_bernoulli(noise: Any, arms: Any, theta_star: Any) -> None:
    if not isinstance(noise, noises.Bernoulli) or checks.is_traced(noise.scale):
        return
    if arms is None or theta_star is None:
        raise ValueError("noise=bernoulli needs arms and theta_star given as arrays, with means in [0, scale]")
    if not checks.is_traced(arms) and not checks.is_traced(theta_star):
        means = np.asarray(arms) @ np.asarray(theta_star)
        if means.min() < 0 or means.max() > float(noise.scale):
            worst = means.min() if means.min() < 0 else means.max()
            raise ValueError(f"noise=bernoulli needs means in [0, {float(noise.scale):g}], got {worst:g}")


@seeds_last
def _init(self: LinearBandit, theta_words: jax.Array, arm_words: jax.Array) -> LinearInstance:
    dtype = jnp.result_type(self.norm_bound)
    if self.theta_star is None:
        theta = draw_arms(theta_words, 1, self.dim, "sphere", dtype)[0]
    else:
        theta = jnp.asarray(self.theta_star)
    if not self.fixed_arms:
        return LinearInstance(theta, None, None)
    arms = _arms(self, arm_words)
    return LinearInstance(theta, arms, ridge.inner(arms, theta))


def _arms(self: LinearBandit, words: jax.Array) -> jax.Array:
    if self.arms is not None:
        return jnp.asarray(self.arms)
    drawn = draw_arms(words, self.num_arms, self.dim, self.kind, jnp.result_type(self.norm_bound))
    return drawn * self.norm_bound[None, None]


@seeds_last
def _observe(self: LinearBandit, instance: LinearInstance, level: Any, words: jax.Array) -> Observation:
    if instance.arms is None or instance.mean is None:
        arms = _arms(self, words)
        mean = ridge.inner(arms, instance.theta_star)
    else:
        arms, mean = instance.arms, instance.mean
    word = random.bits(words, (), stream=1)
    std = jnp.broadcast_to(self.noise.schedule.levels(level, arms, word), mean.shape)
    return Observation(arms, mean, self.noise.variance(std, mean), std)


@seeds_last
def _pull(self: LinearBandit, observation: Observation, action: jax.Array, words: jax.Array) -> jax.Array:
    mean, std = ties.take(observation.mean, action), ties.take(observation.noise_std, action)
    return mean + self.noise.draw(random.bits(words, ()), std, mean)
