"""The contract of episodic algorithms and environments."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import planning, random
from jaxvar.algorithms.interface import Model, Step
from jaxvar.parameters import float_dtype
from jaxvar.testing import contract

_EPISODES = 4
_VALUE_FUNCTIONS = 64


def check_episodic_algorithm(algorithm: Any, *, model: Model, key: jax.Array | None = None) -> None:
    """Hold an algorithm to the contract of episodes in :mod:`jaxvar.algorithms.interface`.

    Checks that it is a pytree; that ``init`` works on abstract values; that ``plan`` gives an action for each stage and
    state, and values of the right shape where it gives values; that ``update`` keeps the state's shapes and types; that
    nothing is NaN; that ``jit`` changes nothing; that a block of different seeds equals a loop over them; and that
    new numbers in old shapes do not compile again.

    Args:
      algorithm: one seed's algorithm.
      model: features and rewards it is tried on; next states are drawn uniformly.
      key: for what is drawn.
    """
    key = jax.random.key(0) if key is None else key
    contract.check_pytree(algorithm)
    contract.require_methods(algorithm, ("init", "plan", "update"))
    abstract = jax.eval_shape(lambda a: a.init(model), algorithm)
    num_states, num_actions, horizon = model.num_states, model.num_actions, model.horizon
    takes_key = "key" in inspect.signature(algorithm.plan).parameters

    def one_episode(algorithm: Any, state: Any, key: jax.Array) -> tuple[Any, Any]:
        plan_key, path_key = random.fold_in(key, 0), random.fold_in(key, 1)
        plan = algorithm.plan(state, model, **({"key": plan_key} if takes_key else {}))
        policy = jnp.asarray(plan.policy)
        contract.require(policy.shape == (horizon, num_states), "plan.policy must be [H, S]")
        contract.require(bool(jnp.issubdtype(policy.dtype, jnp.integer)), "plan.policy must hold integers")
        value = getattr(plan, "value", None)
        if value is not None:
            contract.require(value.shape == (horizon + 1, num_states), "plan.value must be [H + 1, S]")
        u = random.uniform(random.bits(random.key_words(path_key), (horizon + 1,)), jnp.float32)
        path = jnp.minimum((u * np.float32(num_states)).astype(jnp.int32), num_states - 1)
        for h in range(horizon):
            action = policy[h, path[h]].astype(jnp.int32)
            step = Step(jnp.int32(h), path[h], action, path[h + 1], jnp.asarray(model.reward)[path[h], action])
            state = algorithm.update(state, model, plan, step)
            rule = "update must keep the state's shapes and types"
            contract.same_shapes(state, abstract, rule)
        return state, (policy, value)

    def first_episode(algorithm: Any, key: jax.Array) -> Any:
        return one_episode(algorithm, algorithm.init(model), key)

    def play(algorithm: Any, key: jax.Array) -> Any:
        def episode(state: Any, i: jax.Array) -> tuple[Any, Any]:
            return one_episode(algorithm, state, random.fold_in(key, i))

        return jax.lax.scan(episode, algorithm.init(model), jnp.arange(_EPISODES))

    for state, (policy, value) in contract.check_transformations(first_episode, play, algorithm, key):
        inside = (np.asarray(policy) >= 0) & (np.asarray(policy) < num_actions)
        contract.require(bool(np.all(inside)), "plan.policy must hold actions")
        contract.check_finite(state, "the state must stay finite")
        contract.check_finite(value, "plan.value must be finite")


def check_episodic_environment(environment: Any, *, key: jax.Array | None = None) -> None:
    """Hold an environment to the contract of episodes in :mod:`jaxvar.environments.interface`.

    Checks that it is a pytree with a ``horizon``; shapes; that the rows of ``transition`` and ``initial`` are
    distributions and ``transition`` is ``<phi, theta_star>``; that no path collects more than a reward of 1; the
    feature bound for the constant and for some random value functions; that nothing is NaN; that ``jit`` changes
    nothing and a block of seeds equals a loop.

    Args:
      environment: one seed's environment.
      key: for what it draws.
    """
    key = jax.random.key(0) if key is None else key
    contract.check_pytree(environment)
    contract.require_methods(environment, ("init",))
    horizon = getattr(environment, "horizon", None)
    contract.require(isinstance(horizon, int) and horizon >= 1, "horizon must be a positive integer")

    def draw(environment: Any, key: jax.Array) -> Any:
        found = environment.init(key)
        fields = ("phi", "reward", "theta_star", "transition", "initial")
        for name in fields:
            contract.require(hasattr(found, name), f"the instance must have {name}")
        return {name: jnp.asarray(getattr(found, name)) for name in fields}

    tables = contract.check_transformations(draw, draw, environment, key)[0]
    contract.check_finite(tables, "the tables must be finite")
    phi, reward, transition, initial = (np.asarray(tables[n]) for n in ("phi", "reward", "transition", "initial"))
    theta_star = np.asarray(tables["theta_star"])
    contract.require(reward.ndim == 2, "reward must be [S, A]")
    num_states, num_actions = reward.shape
    dim = theta_star.shape[0]
    contract.require(phi.shape == (num_states, num_actions, num_states, dim), "phi must be [S, A, S, d]")
    contract.require(transition.shape == phi.shape[:3], "transition must be [S, A, S]")
    contract.require(initial.shape == (num_states,), "initial must be [S]")
    for name, rows in (("transition", transition), ("initial", initial)):
        contract.require(bool(np.all(rows >= 0)), f"{name} must not be negative")
        contract.close(rows.sum(-1), np.ones(rows.shape[:-1], rows.dtype), f"{name} must sum to 1")
    contract.close(phi @ theta_star, transition, "transition must be <phi, theta_star>")
    most = np.asarray(planning.largest_return(tables["transition"], tables["reward"], horizon or 1))
    contract.require(bool(np.all(reward >= 0)), "reward must not be negative")
    contract.require(bool(np.all(most <= 1 + 1e-5)), "no path may collect a reward of more than 1")
    words = random.bits(random.key_words(random.fold_in(key, 1)), (_VALUE_FUNCTIONS, num_states))
    values = np.concatenate([np.ones((1, num_states)), np.asarray(random.uniform(words, float_dtype())) > 0.5])
    norms = np.linalg.norm(np.einsum("satd,vt->vsad", phi, values), axis=-1)
    contract.require(bool(np.all(norms <= 1 + 1e-5)), "|phi_V| must be at most 1 for V in [0, 1]")
