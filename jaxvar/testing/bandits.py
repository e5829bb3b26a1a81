"""The contract of bandit algorithms and environments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random
from jaxvar.algorithms.interface import Side
from jaxvar.environments.linear_bandit import draw_arms
from jaxvar.parameters import float_dtype
from jaxvar.testing import contract

_ROUNDS = 12


def check_algorithm(algorithm: Any, *, dim: int, num_arms: int, key: jax.Array | None = None) -> None:
    """Hold a bandit algorithm to the contract of :mod:`jaxvar.algorithms.interface`.

    Checks that it is a pytree; that ``init`` works on abstract values; that ``update`` keeps the state's shapes and
    types; that actions are indices of arms; that nothing is NaN; that ``jit`` changes nothing; that a block of
    different seeds equals a loop over them; and that new numbers in old shapes do not compile again.

    Args:
      algorithm: one seed's algorithm.
      dim: length of an arm it accepts.
      num_arms: size of a decision set it accepts.
      key: for the arms and rewards it is tried on.
    """
    key = jax.random.key(0) if key is None else key
    contract.check_pytree(algorithm)
    contract.require_methods(algorithm, ("init", "select", "update"))
    abstract = jax.eval_shape(lambda a: a.init(), algorithm)

    def one_round(algorithm: Any, state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        arms_key, select_key, noise_key = (random.fold_in(key, j) for j in range(3))
        arms = draw_arms(random.key_words(arms_key), num_arms, dim, "sphere", float_dtype())
        choice = algorithm.select(state, arms, select_key, Side(jnp.full(num_arms, 0.01, float_dtype())))
        contract.require(jnp.shape(choice.action) == (), "choice.action must be one number")
        contract.require(jnp.issubdtype(choice.action.dtype, jnp.integer), "choice.action must be an integer")
        x = arms[choice.action]
        noise = random.signs(random.bits(random.key_words(noise_key), ()), float_dtype())
        reward = x[0] + np.asarray(0.1, float_dtype()) * noise
        new = algorithm.update(state, choice, x, reward, Side(jnp.asarray(0.01, float_dtype())))
        contract.same_shapes(
            jax.eval_shape(lambda s: s, new), abstract, "update must keep the state's shapes and types"
        )
        return new, choice.action

    def first_round(algorithm: Any, key: jax.Array) -> Any:
        return one_round(algorithm, algorithm.init(), key)

    def play(algorithm: Any, key: jax.Array) -> Any:
        def step(state: Any, i: jax.Array) -> tuple[Any, jax.Array]:
            return one_round(algorithm, state, random.fold_in(key, i))

        return jax.lax.scan(step, algorithm.init(), jnp.arange(_ROUNDS))

    for state, actions in contract.check_transformations(first_round, play, algorithm, key):
        inside = (np.asarray(actions) >= 0) & (np.asarray(actions) < num_arms)
        contract.require(bool(np.all(inside)), "actions must be arms' indices")
        contract.check_finite(state, "the state must stay finite")


def check_environment(environment: Any, *, key: jax.Array | None = None, num_draws: int = 4096) -> None:
    """Hold a bandit environment to the contract of :mod:`jaxvar.environments.interface`.

    Checks that it is a pytree; shapes; that arms are those of the instance in every round where ``fixed_arms`` says
    so; that nothing is NaN; that ``jit`` changes nothing and a block of seeds equals a loop; and that the noise of arm
    0 in round 1 has mean zero and the variance that ``noise_var`` states (z-tests on ``num_draws`` draws; a right
    environment fails with probability below 1e-6).

    Args:
      environment: one seed's environment.
      key: for what it draws.
      num_draws: draws of the noise.
    """
    key = jax.random.key(0) if key is None else key
    contract.check_pytree(environment)
    contract.require_methods(environment, ("init", "observe", "pull"))

    def one_round(environment: Any, key: jax.Array, round: Any = 1) -> Any:
        instance = environment.init(random.fold_in(key, 0))
        round = jnp.asarray(round, jnp.int32)
        observation = environment.observe(instance, round, random.fold_in(random.fold_in(key, 1), round))
        contract.require(jnp.ndim(observation.arms) == 2, "observation.arms must be [num_arms, dim]")
        num = observation.arms.shape[0]
        for name in ("mean", "noise_var"):
            contract.require(jnp.shape(getattr(observation, name)) == (num,), f"observation.{name} must be [num_arms]")
        reward_key = random.fold_in(random.fold_in(key, 2), round)
        reward = environment.pull(instance, observation, jnp.int32(num - 1), round, reward_key)
        contract.require(jnp.shape(reward) == (), "the reward must be one number")
        return observation.arms, observation.mean, observation.noise_var, reward, getattr(instance, "arms", None)

    def play(environment: Any, key: jax.Array) -> Any:
        return [one_round(environment, key, i) for i in (1, 2, 3)]

    seen = contract.check_transformations(one_round, play, environment, key)[0]
    contract.check_finite(seen, "arms, means, variances and rewards must be finite")
    if getattr(environment, "fixed_arms", False):
        contract.require(
            bool(np.array_equal(seen[0][0], seen[1][0])), "fixed_arms is true but the arms of two rounds differ"
        )
        contract.close(seen[0][4], seen[0][0], "fixed_arms is true but instance.arms are other arms")
    _check_noise(environment, key, num_draws)


def _check_noise(environment: Any, key: jax.Array, num_draws: int) -> None:
    instance = environment.init(random.fold_in(key, 0))
    observation = environment.observe(instance, jnp.int32(1), random.fold_in(key, 1))
    keys = jax.vmap(lambda i: random.fold_in(random.fold_in(key, 2), i))(jnp.arange(num_draws))
    pull = jax.jit(jax.vmap(lambda k: environment.pull(instance, observation, jnp.int32(0), jnp.int32(1), k)))
    noise = np.asarray(pull(keys), np.float64) - float(observation.mean[0])
    variance = float(observation.noise_var[0])
    if np.ptp(noise) < 1e-6:  # a replayed or noiseless reward: nothing to test
        return
    # Each statistic is compared with 5.2 of its own standard errors: 2e-7 two-sided, 4e-7 for both tests together.
    limit = 5.2
    mean_error = abs(noise.mean()) / (noise.std() / np.sqrt(num_draws))
    contract.require(mean_error < limit, f"the noise must have mean zero: {mean_error:.1f} standard errors away")
    square = noise**2
    error = abs(square.mean() - variance)
    allowed = limit * square.std() / np.sqrt(num_draws) + 1e-5 * variance
    contract.require(
        error <= allowed, f"noise_var must be the noise's variance: says {variance:g}, is {square.mean():g}"
    )
