"""Wrappers of environments, which change what they pay: rewards that an adversary corrupts, and a theta* that moves."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import memory, parameters
from jaxvar.engine import as_pytree, unwrap
from jaxvar.environments.interface import Environment
from jaxvar.lowering import inner, take
from jaxvar.parameters import Number, factory, number, part, pytree
from jaxvar.wrappers.base import Wrapper, held


@pytree
class ChangesRewards(Wrapper):
    """Base of the wrappers of environments."""

    HOLDS: ClassVar[str] = "environment"
    FACTS: ClassVar[tuple[str, ...]] = ("dim", "fixed_arms", "max_rounds", "noise_bound", "norm_bound", "num_arms")

    environment: Environment = held("environment", "init", "observe", "pull")


@pytree
class Corrupted(ChangesRewards):
    r"""An environment whose first rewards an adversary corrupts, with a total budget.

    The adversary turns the mean of the pulled arm around, as far as it may: it pays

    .. math:: r_k - c_k, \qquad c_k = \max\{-m_k, \min\{m_k, 2\mu_k\}\}, \qquad m_k = \max\{0, \min\{p, C - (k-1)p\}\}

    in round k, where :math:`\mu_k` is the true mean, C the budget and p the largest corruption of one round. So
    :math:`\sum_k |c_k| \le C` for whatever arms are pulled, and no history is needed. While :math:`m_k \ge 2|\mu_k|`
    the rewards of a linear bandit are exactly those of :math:`-\theta^*`.

    Means, variances and pseudo-regret stay those of the true rewards. The rewards have other means in the corrupted
    rounds, so :func:`jaxvar.testing.check_environment` refuses it unless the budget is 0; with a budget of 0 it is the
    environment itself, to the bit. ``noise_bound`` grows by the largest corruption, so that an algorithm that was told
    less is warned about.

    References:
      He, Zhou, Zhang, Gu (2022), Nearly optimal algorithms for linear contextual bandits with adversarial corruptions,
      Section 3: their level of corruption, a sum of maxima over arms, is at most C.
    """

    budget: Number = number(at_least=0, kw_only=False, doc="C, the sum over all rounds of absolute corruptions.")
    per_round: Number = number(
        above=0, default=2.0, doc="p, the largest corruption of one round; 2 turns any mean in [-1, 1] around."
    )

    @property
    def noise_bound(self) -> Number:
        """R + the largest corruption: no reward is farther from its mean."""
        return self.inner.noise_bound + jnp.minimum(self.per_round, self.budget)

    def init(self, key: jax.Array) -> Any:
        """Draw a problem."""
        return self.inner.init(key)

    def observe(self, instance: Any, round: jax.Array, key: jax.Array) -> Any:
        """Return the decision set of a round, with true means."""
        return self.inner.observe(instance, round, key)

    def pull(self, instance: Any, observation: Any, action: jax.Array, round: jax.Array, key: jax.Array) -> jax.Array:
        """Return the reward of an arm after corruption, []."""
        reward = self.inner.pull(instance, observation, action, round, key)
        return reward - self.corruption(take(observation.mean, action), round)

    def corruption(self, mean: jax.Array, round: jax.Array) -> jax.Array:
        """Return ``c_k``, which is taken from a reward of mean ``mean []`` in ``round``, []."""
        spent = self.per_round * (jnp.asarray(round) - 1).astype(mean.dtype)
        most = jnp.clip(self.budget - spent, 0, self.per_round)
        return jnp.clip(2 * mean, -most, most)


corrupted = factory(Corrupted)


class AngleSchedule(Protocol):
    """The angle by which theta* has turned in each round."""

    def at(self, round: jax.Array) -> Any:
        """Return the angle in radians in ``round``, counted from 1, []."""


@pytree
class Steady:
    """An angle that grows by ``speed`` radians per round, from 0 in round 1."""

    speed: Number = number(kw_only=False, doc="radians per round.")

    def at(self, round: jax.Array) -> jax.Array:
        return jnp.asarray(self.speed) * (round - 1).astype(jnp.result_type(self.speed))


def _angles(name: str, value: Any) -> Any:
    """Return a schedule of angles; a number stands for a steady one."""
    if callable(getattr(value, "at", None)):
        return as_pytree(value)
    return Steady(speed=parameters.parameters(Steady)["speed"].check(name, value))


class DriftingInstance(NamedTuple):
    """One problem; there is no ``theta_star`` that holds for all rounds."""

    problem: Any  # the environment's own, with the theta* of round 1

    @property
    def arms(self) -> jax.Array:
        """The decision set where it never changes, [num_arms, dim]."""
        return self.problem.arms


@pytree
class Drifting(ChangesRewards):
    r"""An environment whose :math:`\theta^*` turns in the plane of the first two coordinates.

    .. math:: \theta^*_k = (\theta_1\cos\phi_k - \theta_2\sin\phi_k,\ \theta_1\sin\phi_k + \theta_2\cos\phi_k,
        \theta_3, \dots, \theta_d)

    with the angle :math:`\phi_k` of round k: ``schedule`` times k - 1 where it is a number, else ``schedule.at(k)``;
    :func:`jaxvar.schedules.by_round` takes a list of angles. The norm of theta* stays. Means, variances, noise and
    regret are those of :math:`\theta^*_k`: the best arm is the best of its round. The confidence event cannot be
    recorded, since no single theta* holds for all rounds.

    It takes any environment whose instance has a ``theta_star`` (and ``mean``, where it keeps the means of fixed
    arms), and whose means are ``<a, theta_star>``. Rewards that are probabilities cannot turn. With a ``schedule`` of
    0 it is the environment itself, to the bit.
    """

    schedule: AngleSchedule = part(
        _angles, kw_only=False, doc="radians per round, or an object with ``at(round)``, the angle in that round."
    )

    @property
    def max_rounds(self) -> int | None:
        """The number of rounds that the environment and the schedule are given for, if they are."""
        parts = (self.inner, unwrap(self.schedule))
        given = [num for num in (getattr(part, "max_rounds", None) for part in parts) if num is not None]
        return min(given, default=None)

    def check(self) -> None:
        """Refuse an environment without a theta* that its means and variances follow."""
        super().check()
        environment, who, key = self.inner, type(self.inner).__name__, jax.random.key(0)
        theta = getattr(jax.eval_shape(environment.init, key), "theta_star", None)
        if theta is None or theta.ndim != 1 or theta.shape[0] < 2:
            raise ValueError(f"environment must have instances with a theta_star of length 2 or more, got {who}")
        if any(parameters.is_traced(x) for x in jax.tree.leaves(self)):
            return
        memory.check_problem(environment, free=memory.free_memory())
        for quarter in range(4):
            problem = _turned(environment.init(key), jnp.asarray(quarter * math.pi / 2))
            seen = environment.observe(problem, jnp.int32(1), key)
            expected = np.asarray(seen.arms) @ np.asarray(problem.theta_star)
            if not np.allclose(seen.mean, expected, rtol=1e-3, atol=1e-5):
                raise ValueError(f"environment must have means that are <a, theta_star> of its instance, got {who}")
            if np.min(seen.noise_var) < 0:
                raise ValueError(
                    f"environment must have noise whose variance is right for any mean, got {who} with a variance of "
                    f"{np.min(seen.noise_var):g} after a turn by {quarter * 90} degrees"
                )

    def init(self, key: jax.Array) -> DriftingInstance:
        """Draw a problem."""
        return DriftingInstance(self.inner.init(key))

    def at(self, instance: DriftingInstance, round: jax.Array) -> Any:
        """Return the environment's own instance as it is in ``round``, with that round's ``theta_star``."""
        return _turned(instance.problem, unwrap(self.schedule).at(round))

    def observe(self, instance: DriftingInstance, round: jax.Array, key: jax.Array) -> Any:
        """Return the decision set of a round, with the means of its theta*."""
        return self.inner.observe(self.at(instance, round), round, key)

    def pull(
        self, instance: DriftingInstance, observation: Any, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return the reward of an arm, []."""
        return self.inner.pull(self.at(instance, round), observation, action, round, key)


drifting = factory(Drifting)


def _turned(problem: Any, angle: jax.Array) -> Any:
    """Return an instance whose theta*, and means where it keeps them, are turned by an angle []."""
    theta = problem.theta_star
    cos, sin = (turn(angle).astype(theta.dtype) for turn in (jnp.cos, jnp.sin))
    plane = jnp.stack([theta[0] * cos - theta[1] * sin, theta[0] * sin + theta[1] * cos])
    changes = {"theta_star": jnp.concatenate([plane, theta[2:]])}
    if getattr(problem, "mean", None) is not None:
        changes["mean"] = inner(problem.arms, changes["theta_star"])
    if hasattr(problem, "_replace"):
        return problem._replace(**changes)
    return dataclasses.replace(problem, **changes)
