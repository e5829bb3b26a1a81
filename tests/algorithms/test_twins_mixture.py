"""UCRL-VTR+, HF-UCRL-VTR+ and UCRL-WVTR against their NumPy twins, step by step, on the same models and numbers."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from tests.algorithms.test_episode_twins import SEED, mixture
from tests.helpers.problems import as_tables
from tests.helpers.programs import trace
from tests.helpers.twins import EPISODE, episode_arrays, in_common
from tests.reference.hf_ucrl_vtr_plus_numpy import hf_radius, num_moments_of, run_hf_ucrl_vtr_plus
from tests.reference.ucrl_vtr_plus_numpy import radii, run_ucrl_vtr_plus
from tests.reference.ucrl_wvtr_numpy import run_ucrl_wvtr

NUM_EPISODES = 150
S, A, D, H = 4, 3, 3, 5
TWINS = {"ucrl_vtr_plus": run_ucrl_vtr_plus, "hf_ucrl_vtr_plus": run_hf_ucrl_vtr_plus, "ucrl_wvtr": run_ucrl_wvtr}


@dataclasses.dataclass(frozen=True)
class Case:
    """Who plays what, with which options."""

    name: str
    environment: Any  # or the name of a world
    options: dict[str, Any]


@functools.cache
def world(kind: str) -> Any:
    made = {
        "dense": mixture(S, A, D, H, seed=1),
        "sparse": mixture(S, A, D, H, seed=2, reward="sparse", concentration=1.0),
        "sharp": mixture(S, A, D, H, seed=3, concentration=0.02, initial=np.full(S, 1 / S)),
        "wide": mixture(3, 2, 4, 7, seed=4),
    }
    return as_tables(made[kind])


CASES = {
    "plus": Case("ucrl_vtr_plus", "dense", {}),
    "plus-small": Case("ucrl_vtr_plus", "sparse", {"beta_scale": 1e-3}),
    "plus-bound": Case("ucrl_vtr_plus", "sharp", {"beta_scale": 3e-3, "value_bound": 0.8, "norm_bound": 4.0}),
    "plus-lam": Case("ucrl_vtr_plus", "sparse", {"beta_scale": 0.01, "lam": 0.2, "ties": "lowest"}),
    "plus-per_step": Case("ucrl_vtr_plus", "sharp", {"beta_scale": 2e-3, "per_step": True}),
    "plus-per_step-theorem": Case("ucrl_vtr_plus", "dense", {"per_step": True}),
    "hf": Case("hf_ucrl_vtr_plus", "dense", {}),
    "hf-small": Case("hf_ucrl_vtr_plus", "sparse", {"beta_scale": 1e-3}),
    "hf-bound": Case("hf_ucrl_vtr_plus", "sharp", {"beta_scale": 1e-4, "value_bound": 0.8, "norm_bound": 6.0}),
    "hf-few": Case("hf_ucrl_vtr_plus", "wide", {"beta_scale": 2e-3, "num_moments": 2, "lam": 0.3, "ties": "lowest"}),
    "hf-one": Case("hf_ucrl_vtr_plus", "wide", {"beta_scale": 1e-4, "num_moments": 1, "norm_bound": 9.0}),
    "wvtr": Case("ucrl_wvtr", "dense", {}),
    "wvtr-small": Case("ucrl_wvtr", "sparse", {"fixed_radius": 0.05, "sigma_min": 0.2, "gamma": 0.9}),
    "wvtr-bound": Case("ucrl_wvtr", "sharp", {"fixed_radius": 0.3, "value_bound": 0.9, "lam": 0.2}),
    "wvtr-two": Case("ucrl_wvtr", "wide", {"num_moments": 2, "fixed_radius": 0.2, "ties": "lowest"}),
}
SLOW = {"plus-per_step-theorem", "plus-lam", "hf-few", "hf-one", "wvtr-two"}  # programs of their own


def play(case: Case, seed: int, num_episodes: int = NUM_EPISODES) -> tuple[Any, Any]:
    """The library's trace and the twin's run of the same case."""
    environment = world(case.environment) if isinstance(case.environment, str) else case.environment
    key, sizes = jax.random.key(seed), (environment.dim, environment.horizon)
    options = {"ties": "random", **case.options}
    if case.name != "ucrl_wvtr":
        options = {"norm_bound": float(environment.norm_bound), "delta": 0.01, **options}
    if case.name == "hf_ucrl_vtr_plus":
        options["num_episodes"] = num_episodes
    algorithm = getattr(jv, case.name)(*sizes, **options)
    ours = jax.tree.map(np.asarray, trace(algorithm, environment, key, num_episodes=num_episodes, seed=SEED))
    return ours, TWINS[case.name](*episode_arrays(ours, key, SEED), **options)


def check(case: Case, seed: int, num_episodes: int = NUM_EPISODES) -> tuple[int, Any]:
    ours, twin = play(case, seed, num_episodes)
    common = in_common(ours, twin, (*EPISODE, "layer"))
    assert ours.status == 0
    np.testing.assert_allclose(ours.value[:common], twin.value[:common], rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.diff(ours.regret, prepend=0)[:common], twin.regret[:common], rtol=0, atol=1e-9)
    # A variance is a difference of numbers of size v^2, so that its own error is absolute: 1e-11 at most.
    mine, theirs = (np.where(x.layer[:common] > 0, x.weight[:common], 1.0) ** -2.0 for x in (ours, twin))
    np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)
    if common == num_episodes:
        last = jax.tree.map(lambda v: v[-1], ours.learner.regressions)
        np.testing.assert_allclose(last.theta_hat, twin.theta, rtol=0, atol=1e-9)
        np.testing.assert_allclose(last.sigma_inv, np.linalg.inv(twin.Sigma), rtol=1e-8, atol=1e-9)
    return common, twin


@pytest.mark.variants(7)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in CASES])
def test_follows_its_twin(name: str) -> None:
    """A wrong sign, factor, index, weight, moment or tie rule changes a policy, a weight or a value somewhere."""
    common, twin = check(CASES[name], seed=list(CASES).index(name))
    assert common > NUM_EPISODES // 2
    informative = twin.layer > 0
    if name in ("plus-small", "plus-bound"):  # both sides of the floor
        assert twin.floor[informative].any() and not twin.floor[informative].all()
    if name in ("hf-small", "hf-bound", "wvtr-small"):  # and weights that the data chose, in more than one moment
        bars = twin.sb2[informative]
        assert np.all(np.ptp(bars[:, :2], axis=0) > 0.01) and np.min(bars) < 1
    if name == "hf-one":  # weights of at most 1, and some below it
        assert set(np.unique(twin.weight[informative] >= 1)) == {False, True} and twin.weight.max() == 1
    if case_learns(name):
        assert len(np.unique(twin.policy.reshape(len(twin.policy), -1), axis=0)) > 1
        assert np.any(twin.value[-1, : twin.value.shape[1] - 2] < CASES[name].options.get("value_bound", 1.0) - 1e-6)


def case_learns(name: str) -> bool:
    """Whether the radius is so small that something is learned in 150 episodes."""
    return name not in ("plus", "plus-per_step-theorem", "hf")


def random_case(seed: int) -> Case:
    rng = np.random.default_rng([9, seed])
    sizes = (int(rng.integers(1, 7)), int(rng.integers(1, 5)), int(rng.integers(1, 6)), int(rng.integers(1, 11)))
    environment = mixture(*sizes, seed=seed, concentration=float(rng.choice([0.01, 0.1, 1.0, 10.0])))
    name = ("ucrl_vtr_plus", "hf_ucrl_vtr_plus", "ucrl_wvtr")[seed % 3]
    options = {"ties": str(rng.choice(["lowest", "random"])), "value_bound": float(rng.choice([0.5, 1.0, 3.0]))}
    if name == "ucrl_wvtr":
        own = {
            "num_moments": int(rng.integers(1, 6)),
            "gamma": float(rng.choice([0.0, 0.5, 2.0])),
            "fixed_radius": float(rng.choice([0.0, 0.1, 1.0])),
        }
    else:
        own = {
            "norm_bound": float(rng.choice([1.0, 3.0, 20.0])),
            "beta_scale": float(rng.choice([0.0, 1e-3, 1e-2, 1.0])),
        }
    if name == "ucrl_vtr_plus":
        own["per_step"] = bool(rng.integers(2))
    return Case(name, environment, {**options, **own})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_follows_its_twin_on_random_problems(seed: int) -> None:
    """As above, for sizes and options nobody picked."""
    check(random_case(seed), seed, num_episodes=200)


# --- radii ---


@pytest.mark.parametrize("per_step", [False, True])
def test_radius_of_ucrl_vtr_plus(per_step: bool) -> None:
    """Fails if a constant, the count of steps or what the multiplier leaves alone is another than the theorem's."""
    numbers = {"norm_bound": 3.0, "delta": 0.07, "lam": 0.2, "value_bound": 0.8}
    bias = np.sqrt(0.2) * 3.0
    for scale in (0.0, 0.1, 1.0):
        algorithm = jv.ucrl_vtr_plus(D, H, per_step=per_step, beta_scale=scale, **numbers)
        state = algorithm.init(model_of("dense"))
        for k in (1, 50):
            shown = algorithm.confidence(state._replace(steps=jnp.int32((k - 1) * H)))
            expected = radii(k, H, D, per_step=per_step, beta_scale=scale, **numbers)[0]
            whole = radii(k, H, D, per_step=per_step, beta_scale=1.0, **numbers)[0]
            assert shown.beta_hat.shape == (H if per_step else 1,)
            np.testing.assert_allclose(shown.beta_hat, expected, rtol=1e-12)
            np.testing.assert_allclose(shown.beta_hat, bias + scale * (whole - bias), rtol=1e-12)


@pytest.mark.parametrize("horizon", [H, 1, 100])
def test_radius_of_hf_ucrl_vtr_plus(horizon: int) -> None:
    """As above; with H = 1 and d = 9 the published logarithm would be that of a negative number."""
    numbers, dim = {"norm_bound": 3.0, "delta": 0.07, "lam": 0.2}, 9
    model = jv.Model(phi=np.zeros((2, 2, 2, dim)), reward=np.zeros((2, 2)), horizon=horizon)
    for scale in (0.0, 0.1, 1.0):
        algorithm = jv.hf_ucrl_vtr_plus(dim, horizon, 100, beta_scale=scale, **numbers)
        assert algorithm.num_moments == num_moments_of(100, horizon)
        state = algorithm.init(model)
        for k in (1, 50):
            shown = algorithm.confidence(state._replace(steps=jnp.int32((k - 1) * horizon))).beta_hat
            expected = hf_radius(k, horizon, dim, beta_scale=scale, **numbers)
            whole, bias = hf_radius(k, horizon, dim, beta_scale=1.0, **numbers), np.sqrt(0.2) * 3.0
            np.testing.assert_allclose(shown, [expected], rtol=1e-12)
            np.testing.assert_allclose(shown, [bias + scale * (whole - bias)], rtol=1e-12)


def model_of(kind: str) -> Any:
    return jv.Model(phi=world(kind).phi, reward=world(kind).reward, horizon=world(kind).horizon)
