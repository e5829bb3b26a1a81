"""What the theory says about UCRL-VTR+, HF-UCRL-VTR+ and UCRL-WVTR, how they reduce to each other, and what fails."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.algorithms import moments
from tests.helpers.problems import as_tables, small_mdps
from tests.reference.ucrl_vtr_plus_numpy import radii

KEY = jax.random.key(6)
S, A, D, H, K = 3, 2, 2, 4, 40
NUM_SEEDS = 300
DELTA = 1e-7
FACTORIES = ("ucrl_vtr_plus", "hf_ucrl_vtr_plus", "ucrl_wvtr")


@functools.cache
def worlds() -> dict[str, Any]:
    return small_mdps(S, A, D, H)


def plus(**options: Any) -> Any:
    return jv.ucrl_vtr_plus(D, H, **{"norm_bound": 2.0, "lam": 1 / 2.0**2, "delta": DELTA, **options})


def hf(**options: Any) -> Any:
    """With the theorem's 11 moments."""
    return jv.hf_ucrl_vtr_plus(D, H, K, **{"norm_bound": 2.0, "lam": D / 2.0**2, "delta": DELTA, **options})


def wvtr(**options: Any) -> Any:
    return jv.ucrl_wvtr(D, H, **options)


@jax.jit
def traces(algorithms: Any, environments: Any, seeds: Any) -> Any:
    return jax.vmap(lambda a, e, s: jv.trace(a, e, KEY, num_episodes=K, seed=s))(algorithms, environments, seeds)


def traced(*cases: tuple[Any, Any, int]) -> list[Any]:
    """The traces of (algorithm, environment, seed), all in one program."""
    algorithms, environments, seeds = zip(*cases, strict=True)
    stack = functools.partial(jax.tree.map, lambda *x: np.stack(x))
    out = jax.tree.map(np.asarray, traces(stack(*algorithms), stack(*environments), np.array(seeds)))
    assert not np.any(out.status)
    return [jax.tree.map(lambda x, i=i: x[i], out) for i in range(len(cases))]


PLAYERS = {"plus": plus, "per_step": functools.partial(plus, per_step=True), "hf": hf}
# Small enough for the event to fail in some seeds and not in others; |theta*| is below 1.5.
TINY = {"beta_scale": 1e-4, "norm_bound": 1.5, "lam": 1e-3, "value_bound": 0.9}
REDUCED = {"beta_scale": 0.0, "norm_bound": 1.2, "lam": D / 1.2**2}


@functools.cache
def played(kind: str) -> dict[Any, Any]:
    """Many seeds with the theorem's constants, some with radii that are too small, and what the tests below compare."""
    make, world = PLAYERS[kind], worlds()["mixture"]
    cases = {("theorem", s): (make(), world, s) for s in range(NUM_SEEDS)}
    cases |= {("tiny", s): (make(**TINY), world, s) for s in range(40)}
    for name, environment in worlds().items():
        cases |= {("optimism", name, s): (make(), environment, s) for s in range(4)}
    cases["reduced"] = (make(**REDUCED), world, 0)
    half = dataclasses.replace(world, reward=world.reward * 0.5)
    cases["half"] = (make(beta_scale=1e-3, value_bound=0.5), half, 0)
    cases["whole"] = (make(beta_scale=1e-3), world, 0)
    return dict(zip(cases, traced(*cases.values()), strict=True))


def distances(t: Any) -> np.ndarray:
    """``|theta_hat - theta*|_Sigma`` of every regression after every episode."""
    error = t.learner.regressions.theta_hat - t.instance.theta_star
    return np.sqrt(np.einsum("...d,...de,...e->...", error, np.linalg.inv(t.learner.regressions.sigma_inv), error))


def betas(kind: str, algorithm: Any) -> np.ndarray:
    """The radii of every regression in the episodes 2..K + 1, ``[K, 1, 2]`` or ``[K, M]``."""
    if kind == "hf":
        model = jv.Model(phi=worlds()["mixture"].phi, reward=worlds()["mixture"].reward, horizon=H)
        states = [algorithm.init(model)._replace(steps=jnp.int32(k * H)) for k in range(1, K + 1)]
        return np.array([algorithm.confidence(s).beta_hat for s in states])
    names = ("delta", "lam", "norm_bound", "value_bound", "beta_scale")
    numbers = {n: float(getattr(algorithm, n)) for n in names}
    found = [radii(k + 1, H, D, per_step=algorithm.per_step, **numbers) for k in range(1, K + 1)]
    return np.array([[(hat, tilde)] for hat, _, tilde in found])  # beta_hat is below beta_check


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLAYERS)
def test_all_confidence_sets_hold_with_the_theorems_constants(kind: str) -> None:
    """Fails if a radius of any moment is too small; by chance with probability below 300 (2 * 11 + 1) 1e-7 = 7e-4."""
    radius = betas(kind, PLAYERS[kind]())
    found = np.array([distances(played(kind)["theorem", s]) for s in range(NUM_SEEDS)])
    assert found.shape[1:] == ((K, 11) if kind == "hf" else (K, H if kind == "per_step" else 1, 2))
    assert np.all(found <= radius)
    small = betas(kind, PLAYERS[kind](**TINY))
    outside = [np.any(distances(played(kind)["tiny", s]) > small) for s in range(40)]
    assert np.mean(outside) > 0.5  # the distance can tell


@pytest.mark.variants(1)
@pytest.mark.parametrize("kind", PLAYERS)
def test_plans_are_optimistic_with_the_theorems_constants(kind: str) -> None:
    """Fails if a bound is too low; by chance in 12 runs with probability below 3e-5."""
    for name in worlds():
        for seed in range(4):
            t = played(kind)["optimism", name, seed]
            first, best = t.state[:, 0], optimum(t)
            assert np.all(t.value[np.arange(K), 0, first] >= best[0, first] - 1e-9)
            assert np.all(t.value >= best - 1e-9)
    tiny = [played(kind)["tiny", s] for s in range(40)]
    assert any(np.any(t.value < optimum(t) - 1e-3) for t in tiny)  # there is something to fall below


def optimum(t: Any) -> np.ndarray:
    """V* of a trace's problem, ``[H + 1, S]``."""
    value = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        value[h] = np.max(t.instance.reward + t.instance.transition @ value[h + 1], axis=1)
    return value


@pytest.mark.parametrize("kind", ["per_step", pytest.param("hf", marks=pytest.mark.slow)])
def test_the_recorded_event_is_that_of_the_regressions(kind: str) -> None:
    """Fails if what a state says of its last step is not what the regression in plans has learned from."""
    algorithm, world = PLAYERS[kind](**TINY), worlds()["mixture"]
    record = (jv.record.confidence(), jv.record.layer_rounds())

    def play(seed: Any) -> Any:
        return jv.run(algorithm, world, KEY, num_episodes=K, seed=seed, record_at=K, recorders=record).records

    got = jax.jit(jax.vmap(play))(np.arange(40))
    ts = [played(kind)["tiny", seed] for seed in range(40)]
    first = np.array([distances(t) for t in ts])[..., 0].reshape(40, K, -1)  # of the regressions in plans
    radius = betas(kind, algorithm)[..., 0].reshape(K, -1)
    held = np.logical_and.accumulate(first <= radius, axis=1)
    assert held.any() and not held.all() and np.all(np.abs(first - radius) > 1e-9)
    np.testing.assert_array_equal(got["confidence"], held)
    learned = np.array([[np.sum(t.layer == i, axis=1) for i in range(held.shape[2] + 1)] for t in ts])
    np.testing.assert_array_equal(got["layer_rounds"], np.moveaxis(np.cumsum(learned, axis=2), 1, 2))


def same(one: Any, other: Any, scale: float = 1.0) -> None:
    for name in ("policy", "state", "action", "next_state", "layer"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.value, scale * other.value, rtol=0, atol=1e-10)
    np.testing.assert_allclose(one.regret, scale * other.regret, rtol=0, atol=1e-9)


def test_values_divided_by_their_bound() -> None:
    """Fails if HF-UCRL-VTR+ with rewards and bound halved does anything but the same with half the values."""
    half, whole = played("hf")["half"], played("hf")["whole"]
    same(half, whole, 0.5)
    np.testing.assert_allclose(half.weight, 2 * whole.weight, rtol=1e-9)
    assert np.any(whole.value[-1, : H - 1] < 0.999)


@pytest.mark.slow
def test_one_moment_is_ucrl_vtr() -> None:
    """Fails if HF-UCRL-VTR+ or UCRL-WVTR with one moment is not plain regression, as far as no weight is below 1."""
    world, lam = worlds()["mixture"], REDUCED["lam"]  # gamma^2 |f| is at most B / d = 0.6
    (one,) = traced((hf(num_moments=1, **REDUCED), world, 0))
    (fixed,) = traced((wvtr(num_moments=1, gamma=0.0, lam=lam, fixed_radius=np.sqrt(D)), world, 0))
    (vtr,) = traced((jv.ucrl_vtr(D, norm_bound=1.2, lam=lam, beta_scale=0.0), world, 0))
    assert set(np.unique(one.weight)) == {0.0, 1.0}
    same(one, vtr)
    same(fixed, vtr)
    np.testing.assert_allclose(one.learner.regressions.loss[:, 0], vtr.learner.regression.loss, rtol=1e-9)
    assert np.any(vtr.value[-1, : H - 1] < 0.999)


@pytest.mark.slow
def test_a_fixed_radius_is_ucrl_wvtr() -> None:
    """Fails if HF-UCRL-VTR+ without its stochastic part is not UCRL-WVTR of radius sqrt(d), with its other numbers."""
    options = {"num_moments": 11, "lam": REDUCED["lam"], "sigma_min": H**-0.5, "gamma": D**-0.25}
    (t,) = traced((wvtr(fixed_radius=np.sqrt(D), **options), worlds()["mixture"], 0))
    same(played("hf")["reduced"], t)
    np.testing.assert_allclose(played("hf")["reduced"].weight, t.weight, rtol=1e-9)
    assert len(np.unique(t.weight)) > K


@pytest.mark.slow
def test_two_steps_have_one_regression_each_way() -> None:
    """Fails if pooled and separate regressions differ where only the first of two steps teaches anything."""
    environment = as_tables(jv.mixture_mdp(S, A, D, 2, model_seed=4))
    make = functools.partial(jv.ucrl_vtr_plus, D, 2, norm_bound=1.2, beta_scale=0.0)
    (pooled,), (apart,) = (traced((make(per_step=p), environment, 0)) for p in (False, True))
    same(pooled, apart)
    np.testing.assert_allclose(pooled.weight, apart.weight, rtol=1e-12)
    assert not np.any(apart.learner.regressions.loss[:, 1]) and np.all(apart.learner.regressions.loss[-1, 0] > 0)


def test_stages_learn_apart() -> None:
    """Fails if a step of one stage moves the regression of another."""
    t = played("per_step")["theorem", 0]
    np.testing.assert_array_equal(t.layer, np.tile([*range(1, H), 0], (K, 1)))
    assert not np.any(t.learner.regressions.log_det[:, -1]) and np.all(t.learner.regressions.log_det[:, :-1] > 0)


# --- what fails, and numbers ---


def made(name: str) -> Any:
    sizes = (D, H, K) if name == "hf_ucrl_vtr_plus" else (D, H)
    return getattr(jv, name)(*sizes)


@pytest.mark.parametrize("name", FACTORIES)
def test_what_goes_wrong_is_reported(name: str) -> None:
    """Fails if a NaN in the model runs through without a word."""
    algorithm, world = made(name), worlds()["mixture"]
    model = jv.Model(phi=world.phi, reward=world.reward, horizon=H)
    step = jv.Step(*(jnp.int32(0) for _ in range(4)), reward=jnp.asarray(world.reward)[0, 0])

    @jax.jit
    def status(phi: Any) -> Any:
        seen = dataclasses.replace(model, phi=phi)
        state = algorithm.init(model)
        return algorithm.update(state, seen, algorithm.plan(state, model), step).status

    broken = np.array(world.phi)
    broken[0, 0, 1] = np.nan
    assert status(world.phi) == 0
    assert status(broken) == jv.status.NONFINITE


@pytest.mark.parametrize("name", FACTORIES)
def test_the_model_must_fit(name: str) -> None:
    """Fails if features of another length, or episodes of another length, get as far as a program."""
    algorithm = made(name)
    model = jv.Model(phi=np.zeros((S, A, S, D)), reward=np.zeros((S, A)), horizon=H + 1)
    with pytest.raises(ValueError, match=f"horizon {H}, got {H + 1}"):
        algorithm.init(model)
    with pytest.raises(AssertionError, match="shape"):
        algorithm.init(jv.Model(phi=np.zeros((S, A, S, D + 1)), reward=np.zeros((S, A)), horizon=H))


@pytest.mark.parametrize("name", FACTORIES)
def test_numbers_can_be_mapped_over(name: str) -> None:
    """Fails if a caller's vmap over a number of the algorithm meets a table that all of them share."""
    world = worlds()["mixture"]  # made outside of the trace, whichever test comes first

    def play(x: Any) -> Any:
        changed = jv.parameters.replace(made(name), value_bound=x)
        return jv.run(changed, world, KEY, num_episodes=K, record_at=3).regret

    assert jax.eval_shape(jax.vmap(play), np.array([0.5, 1.0])).shape == (2, 3)


def test_moments_need_a_number_of_episodes() -> None:
    """Fails if a traced number of episodes, which cannot set a shape, is not refused with a way out."""
    with pytest.raises(ValueError, match="num_episodes must be a plain number, since it sets shapes"):
        jax.jit(lambda k: jv.hf_ucrl_vtr_plus(D, H, k).num_moments)(5.0)
    assert jv.hf_ucrl_vtr_plus(D, 10, 1000).num_moments == 17  # log2(70000) = 16.1
    assert hf().num_moments == 11


def test_variance_bound_of_known_moments() -> None:
    """Fails if a clip, a square or the order of moments is wrong: means .5 and .3 of values in [0, 2], then clips."""
    number = jnp.asarray
    look = moments.Look(number([0.5, 0.3]), number([0.01, 0.02]))
    args = (number(3.0), number(7.0), number(2.0))
    np.testing.assert_allclose(moments.variance_bound(look, *args), [0.3 - 0.25 + 2 * 2 * 3 * 0.01 + 7 * 0.02])
    wide = moments.Look(number([5.0, -1.0]), number([10.0, 10.0]))
    np.testing.assert_allclose(moments.variance_bound(wide, *args), [0 - 4 + 4 + 4])


@pytest.mark.slow
def test_float32_runs() -> None:
    """Fails if high powers of values, which underflow in float32, break the recursions or change types."""
    jax.config.update("jax_enable_x64", False)
    try:
        algorithm = jv.hf_ucrl_vtr_plus(D, H, 10**6, norm_bound=2.0, beta_scale=1e-3)
        t = jax.jit(lambda: jv.trace(algorithm, jv.mixture_mdp(S, A, D, H, model_seed=1), KEY, num_episodes=300))()
    finally:
        jax.config.update("jax_enable_x64", True)
    assert t.status == 0
    for x in jax.tree.leaves((t.regret, t.value, t.learner)):
        assert x.dtype in (np.float32, np.int32) and np.all(np.isfinite(x))
