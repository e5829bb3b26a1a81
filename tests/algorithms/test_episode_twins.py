"""Every episodic algorithm against its NumPy twin, step by step, on the same models and the same random numbers."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

import jaxvar as jv
from tests.helpers.programs import trace
from tests.helpers.twins import EPISODE, episode_arrays, in_common
from tests.reference.radius_numpy import EPISODIC_PRESETS
from tests.reference.ucrl_ave_numpy import run_ucrl_ave
from tests.reference.ucrl_vtr_numpy import run_ucrl_vtr

NUM_EPISODES = 300
CAPACITY = 7
SEED = 3


@dataclasses.dataclass(frozen=True)
class Case:
    """An environment, and the constants (UCRL-AVE) or options (UCRL-VTR) of the algorithm that plays it."""

    environment: Any
    constants: Any = None  # None plays UCRL-VTR
    ties: str = "random"
    norm_bound: float | None = None  # the environment's if not given
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    deepest: int = 1  # a layer that must learn
    adapts: bool = False  # layers that learned must use the empirical variance


def adaptive(beta_scale: float, switch: float = 0.0) -> Any:
    """The printed radius with the empirical variance already in low layers, and small enough to act."""
    return dataclasses.replace(jv.constants.paper(beta_scale, setting="episodes"), switch=np.asarray(switch))


def mixture(*sizes: int, seed: int = 0, **options: Any) -> Any:
    return jv.mixture_mdp(*sizes, model_seed=seed, **options)


CASES = {
    "paper": Case(mixture(4, 3, 3, 6), jv.constants.paper(), deepest=3),
    "paper-lowest": Case(mixture(6, 4, 4, 10, concentration=0.02), jv.constants.paper(), "lowest", deepest=3),
    "paper_fixed": Case(mixture(3, 2, 2, 5, seed=1), jv.constants.paper_fixed(), deepest=3),
    "paper_fixed-small": Case(mixture(3, 3, 2, 4, seed=2), jv.constants.paper_fixed(1e-4), deepest=3),
    "paper-switch": Case(mixture(5, 3, 3, 5, seed=3), adaptive(1e-3, 2.0), deepest=3, adapts=True),
    "paper-adaptive": Case(mixture(6, 4, 4, 10, seed=4), adaptive(1e-3), "lowest", deepest=3, adapts=True),
    "tight": Case(mixture(4, 3, 2, 6, seed=5, concentration=1.0), jv.constants.tight(0.01), deepest=3),
    "practical": Case(mixture(6, 4, 4, 10, seed=6), jv.constants.practical(), deepest=4, adapts=True),
    "practical-sparse": Case(
        mixture(5, 3, 3, 8, seed=7, reward="sparse"), jv.constants.practical(), "lowest", deepest=3, adapts=True
    ),
    "practical-drawn-start": Case(
        mixture(4, 2, 5, 6, seed=8, initial=np.full(4, 0.25)), jv.constants.practical(0.003), deepest=4, adapts=True
    ),
    "practical-graded": Case(
        jv.graded_mdp(5, 3, 3, 7, mix=0.0, model_seed=9), jv.constants.practical(0.03), deepest=3, adapts=True
    ),
    "practical-large-bound": Case(
        mixture(4, 3, 2, 5, seed=10), jv.constants.practical(), norm_bound=9.0, deepest=3, adapts=True
    ),
    "custom-shift": Case(
        mixture(3, 3, 3, 4, seed=11),
        dataclasses.replace(adaptive(1e-3, 1.0), log_shift=np.asarray(2.0), fallback_cross=np.asarray(0.5)),
        deepest=3,
    ),
    "one-state": Case(mixture(1, 3, 2, 4, seed=12), jv.constants.practical(), deepest=2),
    "vtr": Case(mixture(6, 4, 4, 10, seed=13)),
    "vtr-lowest": Case(mixture(4, 3, 3, 5, seed=14), ties="lowest", options={"lam": 0.3, "beta_scale": 0.2}),
    "vtr-bound": Case(mixture(4, 2, 2, 6, seed=15), options={"value_bound": 0.7, "beta_scale": 0.05}),
    "sharp": Case(mixture(4, 3, 2, 6, seed=16), jv.constants.sharp(), deepest=3),
    "sharp-sparse": Case(mixture(5, 3, 3, 8, seed=17, reward="sparse"), jv.constants.sharp(0.2), "lowest", deepest=3),
    "sharp-intersect": Case(
        mixture(4, 3, 2, 6, seed=18, concentration=0.1),
        jv.constants.sharp(),
        deepest=3,
        norm_bound=6.0,
        options={"intersect": True},
    ),
}


def play(case: Case, seed: int, num_episodes: int = NUM_EPISODES) -> tuple[Any, Any]:
    """The library's trace and the twin's run of the same case."""
    environment, key = case.environment, jax.random.key(seed)
    bound = float(environment.norm_bound) if case.norm_bound is None else case.norm_bound
    shared: dict[str, Any] = {"norm_bound": bound, "delta": 0.01, "ties": case.ties}
    if case.constants is None:
        algorithm = jv.ucrl_vtr(environment.dim, **shared, **case.options)
    else:
        algorithm = jv.ucrl_ave(
            environment.dim,
            environment.horizon,
            num_episodes,
            constants=case.constants,
            capacity=CAPACITY,
            **shared,
            **case.options,
        )
    ours = jax.tree.map(np.asarray, trace(algorithm, environment, key, num_episodes=num_episodes, seed=SEED))
    given = episode_arrays(ours, key, SEED)
    if case.constants is None:
        return ours, run_ucrl_vtr(*given, **shared, **case.options)
    numbers = {name: float(getattr(algorithm.constants, name)) for name in jv.constants.number_names()}
    numbers["is_sharp"] = float(algorithm.constants.form == "sharp")
    return ours, run_ucrl_ave(*given, num_episodes=num_episodes, constants=numbers, **shared, **case.options)


def check(case: Case, seed: int, num_episodes: int = NUM_EPISODES) -> int:
    ours, twin = play(case, seed, num_episodes)
    common = in_common(ours, twin, EPISODE if case.constants is None else (*EPISODE, "layer"))
    assert ours.status == 0
    np.testing.assert_allclose(ours.value[:common], twin.value[:common], rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.diff(ours.regret, prepend=0)[:common], twin.regret[:common], rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.variance[:common], twin.variance[:common], rtol=1e-9, atol=1e-12)
    if case.constants is None:
        return common
    np.testing.assert_allclose(ours.weight[:common], twin.weight[:common], rtol=1e-9)
    assert twin.layer.max() >= case.deepest
    if common == num_episodes:
        last = jax.tree.map(lambda v: v[-1], ours.learner)
        assert np.array_equal(last.layers.count[: twin.num_layers], twin.count[:CAPACITY])
        for i in np.flatnonzero(twin.count[:CAPACITY]):
            inverse = np.linalg.inv(twin.Sigma[i]) * 4.0 ** -(i + 1)
            np.testing.assert_allclose(last.layers.scaled_inv[i], inverse, rtol=1e-7, atol=1e-9)
    if case.adapts:
        # the twin's radii in the layers that learned must move with the empirical sums, not with the counts
        learned = np.flatnonzero(twin.count)
        assert twin.emp[-1, learned].max() > 0
    return common


QUICK = (
    "paper-adaptive",
    "practical",
    "sharp",
    "sharp-intersect",
    "one-state",
    "vtr",
)


@pytest.mark.variants(4)
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_follows_its_twin(name: str) -> None:
    """A wrong sign, factor, index, layer or tie rule changes a policy, a layer, a weight or a value in some episode."""
    assert check(CASES[name], seed=list(CASES).index(name)) > NUM_EPISODES // 2


@pytest.mark.parametrize("preset", ["paper", "paper_fixed", "tight", "practical", "sharp"])
def test_presets_are_those_of_the_twins(preset: str) -> None:
    """A typing error in a constant would be copied into every study."""
    ours = jv.constants.for_episodes(getattr(jv.constants, preset)())
    for name, value in EPISODIC_PRESETS[preset].items():
        if name not in ("initial_coef", "beta_scale", "is_sharp"):
            assert float(getattr(ours, name)) == pytest.approx(value, rel=1e-12), name


def random_case(seed: int) -> Case:
    rng = np.random.default_rng([7, seed])
    sizes = (int(rng.integers(1, 8)), int(rng.integers(1, 5)), int(rng.integers(1, 6)), int(rng.integers(1, 13)))
    sets = (
        jv.constants.paper(),
        jv.constants.paper_fixed(1e-3),
        jv.constants.tight(0.01),
        jv.constants.practical(),
        jv.constants.practical(0.001),
        adaptive(1e-4),
        adaptive(1e-3, 3.0),
    )
    ties = str(rng.choice(["lowest", "random"]))
    environment = mixture(*sizes, seed=seed, concentration=float(rng.choice([0.01, 0.1, 1.0, 10.0])))
    if seed % 4 == 0:
        return Case(environment, ties=ties, options={"beta_scale": float(rng.choice([0.01, 0.1, 1.0]))})
    return Case(
        environment, sets[rng.integers(len(sets))], ties, norm_bound=float(rng.choice([1.0, 3.0, 20.0])), deepest=0
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_follows_its_twin_on_random_problems(seed: int) -> None:
    """As above, for sizes and options nobody picked."""
    check(random_case(seed), seed, num_episodes=500)
