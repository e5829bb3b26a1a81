"""The algorithms on nets against their NumPy twins, round by round and cell by cell, on the same arrays."""

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import jaxvar as jv
from tests.helpers.programs import trace
from tests.helpers.twins import EPISODE, drawn, episode_arrays, in_common
from tests.reference.var_lin2_numpy import run_var_lin2
from tests.reference.var_lin_numpy import run_var_lin
from tests.reference.voful2_numpy import run_voful2
from tests.reference.voful_numpy import run_voful

# Cells are compared without any tolerance: a sum within 1e-13 of its limit decides one in some 10^6 tests differently
# with probability below 1e-6.
SEED = 5
FACTORIES = {
    "voful": (jv.voful, run_voful),
    "voful2": (jv.voful2, run_voful2),
    "var_lin": (jv.var_lin, run_var_lin),
    "var_lin2": (jv.var_lin2, run_var_lin2),
}

QUICK = {"voful", "voful-empty", "voful-space", "voful2", "var_lin", "var_lin2-paper"}


def some_slow(names: Any) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


def assert_same_nets(ours: Any, twin: Any, num: int) -> None:
    """Boxes to rounding, cells exactly. The twin's sides are differences of coordinates, so their errors are theirs."""
    np.testing.assert_allclose(ours.center[:num], twin.center[:num], rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.half[:num], twin.half[:num], rtol=0, atol=1e-14)
    np.testing.assert_array_equal(ours.alive[:num], twin.alive[:num])


class Bandit(NamedTuple):
    """An algorithm with its options, and the problem it plays."""

    algorithm: str
    dim: int
    options: dict[str, Any]
    noise_size: float = 0.1
    noise_bound: float = 0.1
    ties: str = "random"
    zooms: int = 1  # boxes that must come after the first
    empty: bool = False  # no cell must be left at some time
    num_rounds: int = 100


SMALL = {"cells": 8, "num_directions": 4, "num_scales": 4, "every": 10}
BANDITS = {
    "voful": Bandit("voful", 2, {**SMALL, "beta_scale": 0.3}),
    "voful-theorem": Bandit("voful", 2, {**SMALL, "num_scales": None, "num_directions": 3}),
    "voful-paper": Bandit("voful", 2, {**SMALL, "test": "paper", "beta_scale": 0.03}, ties="lowest", zooms=4),
    "voful-space": Bandit("voful", 3, {**SMALL, "cells": 5, "num_directions": 6, "num_scales": 3, "beta_scale": 0.2}),
    "voful-line": Bandit("voful", 1, {**SMALL, "num_directions": 1, "cells": 16, "beta_scale": 0.2}, zooms=2),
    "voful-empty": Bandit("voful", 2, {**SMALL, "beta_scale": 0.02}, noise_size=0.5, zooms=0, empty=True),
    "voful2": Bandit("voful2", 2, {**SMALL, "num_scales": None, "num_directions": 3, "beta_scale": 0.2}, zooms=4),
    "voful2-paper": Bandit("voful2", 2, {**SMALL, "test": "paper", "beta_scale": 1e-3}, ties="lowest", zooms=4),
}


@pytest.mark.parametrize("name", some_slow(BANDITS))
def test_bandits_follow_their_twins(name: str) -> None:
    """A wrong sum, limit, allowance for a cell, zoom or fall-back changes a cell or an arm in some round."""
    case, key = BANDITS[name], jax.random.key(list(BANDITS).index(name))
    rng = np.random.default_rng(list(BANDITS).index(name))
    theta = rng.normal(size=case.dim)
    theta *= 0.9 / np.linalg.norm(theta)
    arms = rng.normal(size=(case.num_rounds, 5, case.dim))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True) * rng.uniform(1, 2, size=(case.num_rounds, 5, 1))
    noise = case.noise_size * rng.choice([-1.0, 0.0, 1.0], size=(case.num_rounds, 5))
    factory, run_twin = FACTORIES[case.algorithm]
    shared = {"noise_bound": case.noise_bound, "theta_bound": 1.2, "delta": 0.05, "ties": case.ties, **case.options}
    algorithm = factory(case.dim, case.num_rounds, **shared)
    environment = jv.replay_bandit(arms, arms @ theta, noise, theta_star=theta)
    ours = jax.tree.map(np.asarray, trace(algorithm, environment, key, num_rounds=case.num_rounds, seed=SEED))
    uniform = drawn(key, SEED, case.num_rounds)
    shared = {"test": "tight", "beta_scale": 1.0, **shared}
    twin = run_twin(arms, arms @ theta, noise, uniform, horizon=case.num_rounds, **shared)

    common = in_common(ours, twin, ("action",))
    assert common > case.num_rounds // 2
    np.testing.assert_array_equal(ours.reward[:common], twin.reward[:common])
    assert_same_nets(ours.state.net, twin, common)
    emptied = np.cumsum(twin.empty[:common]) > 0
    np.testing.assert_array_equal(ours.state.status[:common], np.where(emptied, jv.status.EMPTY, 0))
    assert case.empty == emptied.any()
    assert len(np.unique(twin.half, axis=0)) > case.zooms and not twin.alive[-1].all()


class Episodes(NamedTuple):
    """An algorithm with its options, and the environment it plays."""

    algorithm: str
    environment: Any
    options: dict[str, Any]
    ties: str = "random"
    zooms: int = 1
    groups: int = 2  # groups of variance that must have a step
    empty: bool = False
    num_episodes: int = 60


COARSE = {"cells": 8, "num_directions": 4, "num_scales": 3, "num_moments": 3, "num_groups": 3, "every": 4}
PLANE = {"model_seed": 3, "concentration": 0.3}
EPISODES = {
    "var_lin": Episodes("var_lin", jv.mixture_mdp(3, 2, 2, 4, **PLANE), {**COARSE, "beta_scale": 0.1}, zooms=6),
    "var_lin-theorem": Episodes("var_lin", jv.mixture_mdp(3, 2, 2, 4, **PLANE), {**COARSE, "every": 5}),
    "var_lin-paper": Episodes(
        "var_lin", jv.graded_mdp(3, 2, 2, 3, mix=0.2, model_seed=1), {**COARSE, "test": "paper", "beta_scale": 5e-4},
        ties="lowest",
    ),
    "var_lin-space": Episodes(
        "var_lin", jv.mixture_mdp(3, 2, 3, 3, model_seed=2),
        {**COARSE, "cells": 5, "num_moments": 2, "beta_scale": 0.05}, num_episodes=40,
    ),
    "var_lin-empty": Episodes(
        "var_lin", jv.mixture_mdp(3, 2, 2, 4, **PLANE),
        {**COARSE, "num_moments": 1, "num_groups": 1, "beta_scale": 1e-3},
        groups=1, zooms=0, empty=True, num_episodes=30,
    ),
    "var_lin2": Episodes(
        "var_lin2", jv.mixture_mdp(3, 2, 2, 4, **PLANE), {**COARSE, "num_scales": None, "beta_scale": 0.1},
    ),
    "var_lin2-paper": Episodes(
        "var_lin2", jv.mixture_mdp(3, 2, 2, 3, model_seed=4, reward="sparse"),
        {**COARSE, "test": "paper", "beta_scale": 2e-4}, ties="lowest",
    ),
}  # fmt: skip


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", some_slow(EPISODES))
def test_episodes_follow_their_twins(name: str) -> None:
    """A wrong moment, variance bound, group, slab or set of kernels changes a cell, a value or a policy."""
    case, key = EPISODES[name], jax.random.key(list(EPISODES).index(name))
    environment, num = case.environment, case.num_episodes
    factory, run_twin = FACTORIES[case.algorithm]
    shared = {"norm_bound": float(environment.norm_bound), "delta": 0.05, "ties": case.ties, **case.options}
    algorithm = factory(environment.dim, environment.horizon, num, **shared)
    ours = jax.tree.map(np.asarray, trace(algorithm, environment, key, num_episodes=num, seed=SEED))
    given = episode_arrays(ours, key, SEED)
    twin = run_twin(*given, num_episodes=num, **{"test": "tight", "beta_scale": 1.0, **shared})

    common = in_common(ours, twin, EPISODE)
    assert common > num // 2
    np.testing.assert_allclose(ours.value[:common], twin.value[:common], rtol=0, atol=1e-11)
    np.testing.assert_allclose(np.diff(ours.regret, prepend=0)[:common], twin.regret[:common], rtol=0, atol=1e-11)
    assert_same_nets(ours.learner.net, twin, common)
    emptied = np.cumsum(twin.empty[:common]) > 0
    np.testing.assert_array_equal(ours.learner.status[:common], np.where(emptied, jv.status.EMPTY, 0))
    assert case.empty == emptied.any()
    assert len(np.unique(twin.half, axis=0)) > case.zooms and not twin.alive.all()
    assert len(twin.groups) >= case.groups
