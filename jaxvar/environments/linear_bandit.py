"""Linear bandits: arms drawn or given, theta* drawn or given, any noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments import noise as noises
from jaxvar.environments.interface import Observation
from jaxvar.lowering import computed_once, inner, take
from jaxvar.parameters import choice, count, leaf, number, part, pytree, static

ARMS = ("sphere", "uniform", "hypercube")


class LinearInstance(NamedTuple):
    """One problem."""

    theta_star: jax.Array  # [dim]
    arms: jax.Array | None  # [num_arms, dim] where they are fixed
    mean: jax.Array | None  # [num_arms] where the arms are fixed


def _noise(name: str, value: Any) -> Any:
    value = noises.none() if value is None else value
    if not all(hasattr(value, method) for method in ("draw", "variance", "schedule")):
        raise ValueError(f"{name} must come from jaxvar.noise or have its methods, got {value!r}")
    return value


def _short_vector(name: str, value: Any) -> Any:
    return None if value is None else leaf(parameters.check_array(name, value, (None,), max_norm=1.0))


@pytree
class LinearBandit:
    """A linear bandit; built by :func:`linear_bandit`."""

    noise: Any = part(_noise, doc="from :mod:`jaxvar.noise`.")
    theta_star: Any = part(_short_vector, doc="``[dim]``, of norm at most 1, or None to draw it on the unit sphere.")
    arms: Any  # [num_arms, dim], or None to draw them
    norm_bound: Any = number(above=0, squared=True, doc="A, by which drawn arms are scaled.")
    dim: int = count(doc="d, the length of an arm.")
    num_arms: int = count(doc="size of the decision set.")
    kind: str = choice("given", *ARMS, doc="the law of drawn arms.")
    fixed_arms: bool = static()

    @property
    def noise_bound(self) -> Any:
        """R: no noise is larger."""
        return self.noise.bound

    @property
    def max_rounds(self) -> int | None:
        """The number of rounds that the noise schedule is given for, if it is."""
        return getattr(self.noise.schedule, "max_rounds", None)

    def init(self, key: jax.Array) -> LinearInstance:
        """Draw theta*, and the arms where they are fixed."""
        if self.theta_star is None:
            words = random.key_words(random.fold_in(key, 0))
            theta = draw_arms(words, 1, self.dim, "sphere", jnp.result_type(self.norm_bound))[0]
        else:
            theta = jnp.asarray(self.theta_star)
        if not self.fixed_arms:
            return LinearInstance(theta, None, None)
        arms = self._arms(random.key_words(random.fold_in(key, 1)))
        return LinearInstance(theta, arms, inner(arms, theta))

    def observe(self, instance: LinearInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return the round's arms, means and noise levels."""
        words = random.key_words(key)
        if instance.arms is None or instance.mean is None:
            arms = self._arms(words)
            mean = inner(arms, instance.theta_star)
        else:
            arms, mean = instance.arms, instance.mean
        schedule = self.noise.schedule
        std = schedule.levels(schedule.at(round), arms, random.bits(words, (), stream=1))
        std = jnp.broadcast_to(std, mean.shape)
        return Observation(arms, mean, self.noise.variance(std, mean), std)

    def pull(
        self, instance: LinearInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return ``<a, theta*> + noise``, []."""
        mean, std = take(observation.mean, action), take(observation.noise_std, action)
        return mean + self.noise.draw(random.bits(random.key_words(key), ()), std, mean)

    def _arms(self, words: jax.Array) -> jax.Array:
        if self.arms is not None:
            return jnp.asarray(self.arms)
        drawn = draw_arms(words, self.num_arms, self.dim, self.kind, jnp.result_type(self.norm_bound))
        return drawn * self.norm_bound


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
        ``hypercube`` (coordinates -1 or 1, over sqrt(d)), or an array ``[num_arms, dim]``.
      fresh: draw the decision set anew in each round. Exploration is then nearly free: greedy play does well.
      theta_star: ``[dim]``, of norm at most 1; drawn uniformly on the unit sphere if not given.
      norm_bound: A; an arm of an array must not be longer, and drawn arms are scaled by it.

    Returns:
      The environment, a pytree.
    """
    declared = parameters.parameters(LinearBandit)
    norm_bound = declared["norm_bound"].check("norm_bound", norm_bound)
    kind, given = "given", None
    if isinstance(arms, str):
        kind = parameters.check_choice("arms", arms, ARMS)
    else:
        parameters.check_array("arms", arms, (num_arms, dim), max_norm=norm_bound)
        if fresh:
            raise ValueError(
                "fresh must be False where arms is an array; jaxvar.replay_bandit plays arrays over rounds"
            )
        given = leaf(arms)
        num_arms, dim = given.shape
    others = {"dim": dim, "num_arms": num_arms, "theta_star": theta_star, "noise": noise}
    made = LinearBandit(
        **{name: declared[name].check(name, value) for name, value in others.items()},
        arms=given,
        norm_bound=norm_bound,
        kind=kind,
        fixed_arms=not fresh,
    )
    if theta_star is not None:
        parameters.check_array("theta_star", theta_star, (made.dim,))
    _check_bernoulli(made.noise, given, theta_star)
    if hasattr(made.noise.schedule, "check"):
        made.noise.schedule.check(made.num_arms, made.dim)
    return made


def draw_arms(words: jax.Array, num_arms: int, dim: int, kind: str, dtype: Any) -> jax.Array:
    """Return arms ``[num_arms, dim]`` of a kind of :data:`ARMS` from the words ``[2]`` of a key."""
    word = random.bits(words, (num_arms, dim))
    if kind == "hypercube":
        return computed_once(random.signs(word, dtype) * np.asarray(dim**-0.5, dtype))
    if kind == "uniform":
        return computed_once((2 * random.uniform(word, dtype) - 1) * np.asarray(dim**-0.5, dtype))
    z = random.normal(word, dtype)
    norm = jnp.maximum(jnp.sqrt(jnp.sum(z * z, axis=1)), np.finfo(dtype).tiny)
    return z / norm[:, None]


def _check_bernoulli(noise: Any, arms: Any, theta_star: Any) -> None:
    """Refuse means that are no probabilities, where the noise is Bernoulli."""
    if not isinstance(noise, noises.Bernoulli) or parameters.is_traced(noise.scale):
        return
    if arms is None or theta_star is None:
        raise ValueError("noise=bernoulli needs arms and theta_star given as arrays, with means in [0, scale]")
    if not parameters.is_traced(arms) and not parameters.is_traced(theta_star):
        means = np.asarray(arms) @ np.asarray(theta_star)
        if means.min() < 0 or means.max() > float(noise.scale):
            worst = means.min() if means.min() < 0 else means.max()
            raise ValueError(f"noise=bernoulli needs means in [0, {float(noise.scale):g}], got {worst:g}")
