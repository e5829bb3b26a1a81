"""The contract of algorithms and environments, in rounds and in episodes: each check raises ContractError."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import planning, random
from jaxvar.algorithms.interface import Algorithm, EpisodicAlgorithm, Model, Side, Step
from jaxvar.blocks import batch_last
from jaxvar.environments.interface import Environment, EpisodicEnvironment
from jaxvar.environments.linear_bandit import draw_arms
from jaxvar.parameters import float_dtype

Target = TypeVar("Target")
State = TypeVar("State")
Seen = TypeVar("Seen")
T = TypeVar("T")
_Round = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array | None, jax.Array]  # what an environment showed

_BATCH = 3  # seeds played together
_ROUNDS = 12
_EPISODES = 4
_MASKED_ROUNDS = 24
_VALUE_FUNCTIONS = 64  # for which the feature bound is tried
_TABLES = ("phi", "reward", "theta_star", "transition", "initial")  # of an episodic environment


class ContractError(AssertionError):
    """A rule of the interface is broken."""


def check_algorithm(
    algorithm: Algorithm, *, dim: int, num_arms: int, key: jax.Array | None = None, absent_arms: bool = False
) -> None:
    """Hold an algorithm for bandits or duels to the contract of :mod:`jaxvar.algorithms.interface`.

    Checks that it is a pytree; that ``init`` works on abstract values; that ``update`` keeps the state's shapes and
    types; that actions are indices of arms, and what ``recommend`` returns where there is one; that nothing is NaN;
    that methods are pure; that a block of different seeds equals a loop over them; that new numbers in old shapes do
    not compile again; and, if asked, that no arm is chosen or recommended that ``side.available`` says is absent.

    Args:
      algorithm: one seed's algorithm.
      dim: length of an arm it accepts.
      num_arms: size of a decision set it accepts.
      key: for the arms and rewards it is tried on.
      absent_arms: whether also to play rounds in which arms are absent, for an algorithm that is to meet such rounds.
    """
    duels = hasattr(algorithm, "pair") and not hasattr(algorithm, "select")

    def one_round(
        algorithm: Any,
        state: object,
        key: jax.Array,
        keeps: Callable[[object], None],
        available: jax.Array | None = None,
    ) -> tuple[object, jax.Array]:
        arms_key, select_key, noise_key = (random.fold_in(key, j) for j in range(3))
        arms = draw_arms(random.key_words(arms_key), num_arms, dim, "sphere", float_dtype())
        told = Side(None if duels else jnp.full(num_arms, 0.01, float_dtype()), available)
        choice = (algorithm.pair if duels else algorithm.select)(state, arms, select_key, told)
        names = ("action", "rival") if duels else ("action",)
        chosen = [_index(f"choice.{name}", getattr(choice, name)) for name in names]
        noise = random.signs(random.bits(random.key_words(noise_key), ()), float_dtype())
        if duels:
            x, reward = arms[choice.action] - arms[choice.rival], (1 + noise) / 2
        else:
            x = arms[choice.action]
            reward = x[0] + np.asarray(0.1, float_dtype()) * noise
        state = algorithm.update(state, choice, x, reward, Side(jnp.asarray(0.01, float_dtype())))
        keeps(state)
        if hasattr(algorithm, "recommend"):
            chosen.append(_index("what recommend returns", algorithm.recommend(state, arms, Side(None, available))))
        return state, jnp.stack(chosen)

    _require_methods(algorithm, "init", "pair" if duels else "select", "update")
    for state, actions in _play_learner(algorithm, lambda a: a.init(), one_round, _ROUNDS, key):
        inside = (np.asarray(actions) >= 0) & (np.asarray(actions) < num_arms)
        _require(np.all(inside), "actions must be arms' indices")
        _require_finite(state, "the state must stay finite")
    if not absent_arms or num_arms == 1:
        return

    def masked_play(algorithm: Algorithm, key: jax.Array) -> jax.Array:
        def masked_round(state: object, i: jax.Array) -> tuple[object, jax.Array]:
            here = random.fold_in(key, i)
            word = random.bits(random.key_words(random.fold_in(here, 3)), (num_arms,))
            available = (word >> np.uint32(31) == 0) | (word == jnp.max(word, axis=0))  # never none
            state, action = one_round(algorithm, state, here, lambda state: None, available)
            return state, jnp.where(jnp.all(available[action]), 0, 1)

        return jnp.sum(jax.lax.scan(masked_round, algorithm.init(), jnp.arange(_MASKED_ROUNDS))[1])

    broken = int(jax.jit(masked_play)(algorithm, jax.random.key(0) if key is None else key))
    rule = "an absent arm was chosen in {} of {} rounds: select must choose where side.available is true"
    _require(broken == 0, rule.format(broken, _MASKED_ROUNDS))


def check_episodic_algorithm(algorithm: EpisodicAlgorithm, *, model: Model, key: jax.Array | None = None) -> None:
    """Hold an algorithm to the contract of episodes in :mod:`jaxvar.algorithms.interface`.

    Checks that it is a pytree; that ``init`` works on abstract values; that ``plan`` gives an action for each stage and
    state, and values of the right shape where it gives values; that ``update`` keeps the state's shapes and types; that
    nothing is NaN; that methods are pure; that a block of different seeds equals a loop over them; and that new
    numbers in old shapes do not compile again.

    Args:
      algorithm: one seed's algorithm.
      model: features and rewards it is tried on; next states are drawn uniformly.
      key: for what is drawn.
    """
    num_states, horizon = model.num_states, model.horizon

    def one_episode(
        algorithm: EpisodicAlgorithm, state: object, key: jax.Array, keeps: Callable[[object], None]
    ) -> tuple[object, tuple[jax.Array, jax.Array | None]]:
        plan_key, path_key = random.fold_in(key, 0), random.fold_in(key, 1)
        takes_key = "key" in inspect.signature(algorithm.plan).parameters
        plan = algorithm.plan(state, model, **({"key": plan_key} if takes_key else {}))
        policy = jnp.asarray(plan.policy)
        _require(policy.shape == (horizon, num_states), "plan.policy must be [H, S]")
        _require(jnp.issubdtype(policy.dtype, jnp.integer), "plan.policy must hold integers")
        value = getattr(plan, "value", None)
        if value is not None:
            _require(value.shape == (horizon + 1, num_states), "plan.value must be [H + 1, S]")
        u = random.uniform(random.bits(random.key_words(path_key), (horizon + 1,)), jnp.float32)
        path = jnp.minimum((u * np.float32(num_states)).astype(jnp.int32), num_states - 1)
        for h in range(horizon):
            action = policy[h, path[h]].astype(jnp.int32)
            step = Step(jnp.int32(h), path[h], action, path[h + 1], jnp.asarray(model.reward)[path[h], action])
            state = algorithm.update(state, model, plan, step)
            keeps(state)
        return state, (policy, value)

    _require_methods(algorithm, "init", "plan", "update")
    for state, (policy, value) in _play_learner(algorithm, lambda a: a.init(model), one_episode, _EPISODES, key):
        inside = (np.asarray(policy) >= 0) & (np.asarray(policy) < model.num_actions)
        _require(np.all(inside), "plan.policy must hold actions")
        _require_finite(state, "the state must stay finite")
        _require_finite(value, "plan.value must be finite")


def check_environment(environment: Environment, *, key: jax.Array | None = None, num_draws: int = 4096) -> None:
    """Hold an environment of bandits or duels to the contract of :mod:`jaxvar.environments.interface`.

    Checks that it is a pytree; shapes; that arms are those of the instance in every round where ``fixed_arms`` says
    so; that at least one arm is available in each round; that nothing is NaN; that methods are pure and a block
    of seeds equals a loop; and that the noise of arm 0 (in duels: of arms 0 and 1) in round 1 has mean zero and the
    variance that ``noise_var`` states (z-tests on ``num_draws`` draws; a right environment fails with probability
    below 1e-6).

    Args:
      environment: one seed's environment.
      key: for what it draws.
      num_draws: draws of the noise.
    """
    key = jax.random.key(0) if key is None else key
    duels = hasattr(environment, "duel")
    _require_methods(environment, "init", "observe", "duel" if duels else "pull")

    def one_round(environment: Any, key: jax.Array, number: int) -> _Round:
        instance = environment.init(random.fold_in(key, 0))
        round = jnp.asarray(number, jnp.int32)
        observation = environment.observe(instance, round, random.fold_in(random.fold_in(key, 1), round))
        _require(jnp.ndim(observation.arms) == 2, "observation.arms must be [num_arms, dim]")
        num = observation.arms.shape[0]
        for name in ("mean",) if duels else ("mean", "noise_var"):
            _require(jnp.shape(getattr(observation, name)) == (num,), f"observation.{name} must be [num_arms]")
        available = getattr(observation, "available", None)
        available = jnp.ones(num, bool) if available is None else available
        is_mask = jnp.shape(available) == (num,) and available.dtype == bool
        _require(is_mask, "observation.available must be [num_arms], True or False")
        reward_key = random.fold_in(random.fold_in(key, 2), round)
        reward, _, noise_var = result(environment, instance, observation, num - 1, round, reward_key)
        _require(jnp.shape(reward) == (), "the reward must be one number")
        fixed = getattr(instance, "arms", None)
        return observation.arms, observation.mean, noise_var, reward, fixed, available

    def result(
        environment: Any, instance: object, observation: Any, arm: int, round: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the reward of an arm, or of its duel with the next one, with its mean and its variance."""
        if duels:
            rival = jnp.int32((arm + 1) % observation.arms.shape[0])
            outcome = environment.duel(instance, observation, jnp.int32(arm), rival, round, key)
            return outcome.reward, outcome.mean, outcome.noise_var
        reward = environment.pull(instance, observation, jnp.int32(arm), round, key)
        return reward, observation.mean[arm], observation.noise_var[arm]

    seen = _check_transformations(lambda e, k: [one_round(e, k, i) for i in (1, 2, 3)], environment, key)[0]
    _require_finite(seen, "arms, means, variances and rewards must be finite")
    for shown in seen:
        _require(np.any(shown[5]), "at least one arm must be available in every round")
    if getattr(environment, "fixed_arms", False):
        _require(np.array_equal(seen[0][0], seen[1][0]), "fixed_arms is true but the arms of two rounds differ")
        _require_close(seen[0][4], seen[0][0], "fixed_arms is true but instance.arms are other arms")

    @jax.jit
    def first_arm(environment: Any, key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        instance = environment.init(random.fold_in(key, 0))
        observation = environment.observe(instance, jnp.int32(1), random.fold_in(key, 1))
        keys = jax.vmap(lambda i: random.fold_in(random.fold_in(key, 2), i))(jnp.arange(num_draws))
        rewards, means, variances = jax.vmap(lambda k: result(environment, instance, observation, 0, jnp.int32(1), k))(
            keys
        )
        return rewards, means[0], variances[0]

    rewards, mean, stated = first_arm(environment, key)
    noise, variance = np.asarray(rewards, np.float64) - float(mean), float(stated)
    if np.ptp(noise) < 1e-6:  # a replayed or noiseless reward: nothing to test
        return
    # Each statistic is compared with 5.2 of its own standard errors: 2e-7 two-sided, 4e-7 for both tests together.
    limit = 5.2
    mean_error = abs(noise.mean()) / (noise.std() / np.sqrt(num_draws))
    _require(mean_error < limit, f"the noise must have mean zero: {mean_error:.1f} standard errors away")
    square = noise**2
    error = abs(square.mean() - variance)
    allowed = limit * square.std() / np.sqrt(num_draws) + 1e-5 * variance
    _require(error <= allowed, f"noise_var must be the noise's variance: says {variance:g}, is {square.mean():g}")


def check_episodic_environment(environment: EpisodicEnvironment, *, key: jax.Array | None = None) -> None:
    """Hold an environment to the contract of episodes in :mod:`jaxvar.environments.interface`.

    Checks that it is a pytree with a ``horizon``; shapes; that the rows of ``transition`` and ``initial`` are
    distributions and ``transition`` is ``<phi, theta_star>``; that no path collects more than a reward of 1; the
    feature bound for the constant and for some random value functions; that ``transition`` is linear in ``features``
    where there are any; that nothing is NaN; that methods are pure and a block of seeds equals a loop.

    Args:
      environment: one seed's environment.
      key: for what it draws.
    """
    key = jax.random.key(0) if key is None else key
    _require_methods(environment, "init")
    horizon = getattr(environment, "horizon", None)
    _require(isinstance(horizon, int) and horizon >= 1, "horizon must be a positive integer")

    def draw(environment: EpisodicEnvironment, key: jax.Array) -> dict[str, jax.Array]:
        found = environment.init(key)
        for name in _TABLES:
            _require(hasattr(found, name), f"the instance must have {name}")
        told = _TABLES if getattr(found, "features", None) is None else (*_TABLES, "features")
        return {name: jnp.asarray(getattr(found, name)) for name in told}

    tables = _check_transformations(draw, environment, key)[0]
    _require_finite(tables, "the tables must be finite")
    phi, reward, theta_star, transition, initial = (np.asarray(tables[name]) for name in _TABLES)
    _require(reward.ndim == 2, "reward must be [S, A]")
    num_states, num_actions = reward.shape
    dim = theta_star.shape[0]
    _require(phi.shape == (num_states, num_actions, num_states, dim), "phi must be [S, A, S, d]")
    _require(transition.shape == phi.shape[:3], "transition must be [S, A, S]")
    _require(initial.shape == (num_states,), "initial must be [S]")
    for name, rows in (("transition", transition), ("initial", initial)):
        _require(np.all(rows >= 0), f"{name} must not be negative")
        _require_close(rows.sum(-1), np.ones(rows.shape[:-1], rows.dtype), f"{name} must sum to 1")
    _require_close(phi @ theta_star, transition, "transition must be <phi, theta_star>")
    most = np.asarray(planning.largest_return(tables["transition"], tables["reward"], horizon or 1))
    _require(np.all(reward >= 0), "reward must not be negative")
    _require(np.all(most <= 1 + 1e-5), "no path may collect a reward of more than 1")
    words = np.asarray(random.bits(random.key_words(random.fold_in(key, 1)), (_VALUE_FUNCTIONS, num_states)))
    values = np.concatenate([np.ones((1, num_states)), words >> 31])
    norms = np.linalg.norm(np.einsum("satd,vt->vsad", phi, values), axis=-1)
    _require(np.all(norms <= 1 + 1e-5), "|phi_V| must be at most 1 for V in [0, 1]")
    if "features" in tables:
        features = np.asarray(tables["features"], float)
        right = features.ndim == 3 and features.shape[:2] == reward.shape
        _require(right, "features must be [S, A, length]")
        _require(np.all(np.linalg.norm(features, axis=2) <= 1 + 1e-5), "no feature may be longer than 1")
        rows, wanted = features.reshape(-1, features.shape[2]), transition.reshape(-1, num_states)
        fitted = rows @ np.linalg.lstsq(rows, wanted.astype(float), rcond=None)[0]
        _require_close(fitted.astype(wanted.dtype), wanted, "transition must be linear in the features")


def _index(name: str, value: jax.Array) -> jax.Array:
    """Return the index of an arm, int32 []; refuse what cannot be one."""
    _require(jnp.shape(value) == (), f"{name} must be one number")
    _require(jnp.issubdtype(value.dtype, jnp.integer), f"{name} must be an integer")
    return value.astype(jnp.int32)


def _play_learner(
    algorithm: Target,
    init: Callable[[Target], State],
    turn: Callable[[Target, State, jax.Array, Callable[[object], None]], tuple[State, Seen]],
    num_turns: int,
    key: jax.Array | None,
) -> list[tuple[State, Seen]]:
    """Play a learner ``turn`` by turn, each a round or an episode; return the last state and what was seen, by seed."""
    abstract = jax.eval_shape(init, algorithm)

    def keeps(state: object) -> None:
        one, other = (
            (jax.tree.structure(tree), [(x.shape, x.dtype) for x in jax.tree.leaves(tree)])
            for tree in (jax.eval_shape(lambda s: s, state), abstract)
        )
        _require(one == other, "update must keep the state's shapes and types")

    def play(algorithm: Target, key: jax.Array) -> tuple[State, Seen]:
        def step(state: State, i: jax.Array) -> tuple[State, Seen]:
            return turn(algorithm, state, random.fold_in(key, i), keeps)

        return jax.lax.scan(step, init(algorithm), jnp.arange(num_turns))

    return _check_transformations(play, algorithm, jax.random.key(0) if key is None else key)


def _check_transformations(play: Callable[[Target, jax.Array], Seen], target: Target, key: jax.Array) -> list[Seen]:
    """Trace ``play`` twice, and compare it alone and in a block of seeds; return what it returned for some seeds."""
    one, other = (jax.make_jaxpr(lambda target, key: play(target, key))(target, key) for _ in range(2))
    same = str(one) == str(other) and all(map(np.array_equal, _numbers(one.consts), _numbers(other.consts)))
    _require(same, "methods must be pure: the same arguments gave another program the second time")
    num_traces = 0

    def counted(target: Target, key: jax.Array) -> Seen:
        nonlocal num_traces
        num_traces += 1
        return play(target, key)

    compiled = jax.jit(counted)
    keys = jax.jit(jax.vmap(random.fold_in, in_axes=(None, 0)))(key, np.arange(_BATCH))
    compiled(target, keys[0])
    before = num_traces
    alone = [_numbers(compiled(jax.tree.map(copy.copy, target), k)) for k in keys]
    _require(num_traces == before, "new numbers in old shapes must not compile again")
    together = _numbers(jax.jit(jax.vmap(batch_last(play), in_axes=(None, 0)))(target, keys))
    for i in range(_BATCH):
        mine = jax.tree.map(lambda x, i=i: x[i], together)
        _require_close(mine, alone[i], "a block of seeds must equal a loop over them")
    return alone


def _numbers(tree: T) -> T:
    """Return the tree with NumPy arrays, random keys as their words."""

    def plain(x: jax.Array) -> np.ndarray[Any, Any]:
        is_key = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(x) if is_key else x)

    return jax.tree.map(plain, tree)


def _require_methods(target: object, *names: str) -> None:
    """Require a pytree of numbers with these methods."""
    who, leaves = type(target).__name__, jax.tree.leaves(target)
    numbers = all(isinstance(x, jax.Array | np.ndarray | float | int | np.generic) for x in leaves)
    _require(numbers, f"{who} must be a pytree of numbers (jax.tree_util.register_dataclass)")
    is_leaf = len(leaves) == 1 and leaves[0] is target
    _require(not is_leaf, f"{who} must be a pytree (jax.tree_util.register_dataclass)")
    for name in names:
        _require(callable(getattr(target, name, None)), f"{who} must have a method {name}")


def _require_finite(tree: object, rule: str) -> None:
    """Require that no float of the tree is NaN or infinite."""
    for x in jax.tree.leaves(tree):
        if np.issubdtype(x.dtype, np.floating):
            _require(np.all(np.isfinite(x)), rule)


def _require_close(one: object, other: object, rule: str) -> None:
    """Require that two trees have the same values, up to rounding."""
    tolerance = 1e-9 if float_dtype().itemsize == 8 else 1e-4
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if jnp.issubdtype(x.dtype, jnp.floating):
            _require(np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True), rule)
        else:
            _require(np.array_equal(x, y), rule)


def _require(holds: bool | np.bool_ | jax.Array, rule: str) -> None:
    """Require that the rule holds."""
    if not holds:
        raise ContractError(rule)
