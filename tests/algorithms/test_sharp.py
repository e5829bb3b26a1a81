"""The preset ``sharp``: the steps of its proof (docs/sharp.md) on numbers, its radius, and how often it holds."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import ridge, sharp

SHARP = jv.constants.sharp()
LAYERS = np.arange(1, 9)


class Path(NamedTuple):
    """One layer after each of n observations, of many seeds; index 0 is the empty layer."""

    distance2: np.ndarray  # [n + 1, seeds]   |theta_hat - theta*|_Z^2
    loss: np.ndarray  # [n + 1, seeds]   the least regularised loss
    noise2: np.ndarray  # [n + 1, seeds]   sum of eta^2
    drift: np.ndarray  # [n + 1, seeds]   sum of 2 eta h + h^2


def play(layer: int, noise: np.ndarray, dim: int = 2, seed: int = 0, theta_norm: float = 1.0) -> Path:
    """Fill a layer with ``noise [n, seeds]``, by matrices that are summed and inverted."""
    num, seeds = noise.shape
    rng, q = np.random.default_rng(seed), 4.0**-layer
    theta = rng.normal(size=(seeds, dim))
    theta *= theta_norm / np.linalg.norm(theta, axis=1, keepdims=True)
    Z, b = np.broadcast_to(q * np.eye(dim), (seeds, dim, dim)).copy(), np.zeros((seeds, dim))
    squares, noise2, drift = np.zeros(seeds), np.zeros(seeds), np.zeros(seeds)
    rows = [(q * np.sum(theta**2, axis=1), squares, noise2, drift)]
    for k in range(num):
        inverse = np.linalg.inv(Z)
        estimate = np.einsum("sde,se->sd", inverse, b)
        a = rng.normal(size=(seeds, dim)) if k % 2 else theta - estimate + 1e-12  # often where the error is largest
        a /= np.linalg.norm(a, axis=1, keepdims=True)
        weight = 2.0**-layer / np.sqrt(np.einsum("sd,sde,se->s", a, inverse, a))
        weight = np.where(weight <= 1, weight, 0)  # an arm that is known well enough is not learned from
        x, eta = weight[:, None] * a, weight * noise[k]
        h = np.sum(x * (theta - estimate), axis=1)
        y = np.sum(x * theta, axis=1) + eta
        Z, b = Z + x[:, :, None] * x[:, None, :], b + x * y[:, None]
        estimate = np.linalg.solve(Z, b[:, :, None])[:, :, 0]
        squares, noise2, drift = squares + y**2, noise2 + eta**2, drift + 2 * eta * h + h**2
        gap = estimate - theta
        distance2 = np.einsum("sd,sde,se->s", gap, Z, gap)
        rows.append((distance2, squares - np.sum(estimate * b, axis=1), noise2, drift))
    return Path(*(np.array(column) for column in zip(*rows, strict=True)))


def two_point(seed: int, shape: tuple[int, int], chance: float) -> np.ndarray:
    """Centred noise with the values 1 (with ``chance`` at most 1/2) and ``-chance / (1 - chance)``."""
    up = np.random.default_rng(seed).random(shape) < chance
    return np.where(up, 1.0, -chance / (1 - chance))


def radius(layer: np.ndarray | int, loss: np.ndarray | float, delta: float = 0.01, bound: float = 1.0) -> np.ndarray:
    q = np.broadcast_to(4.0 ** -np.asarray(layer, float), np.broadcast_shapes(np.shape(layer), np.shape(loss)))
    return np.asarray(sharp.radius(q, jnp.broadcast_to(jnp.asarray(loss), q.shape), SHARP, delta, bound, bound))


@pytest.mark.parametrize("layer", [1, 3, 5])
def test_identities_of_the_proof(layer: int) -> None:
    """Fails if a sign or a factor of the two exact identities is wrong."""
    path, q = play(layer, two_point(layer, (60, 7), 0.3), dim=3, theta_norm=0.8), 4.0**-layer
    start = q * 0.64
    np.testing.assert_allclose(path.distance2, start + q * path.loss - path.drift, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(path.noise2 + start, path.loss + path.distance2, rtol=1e-7, atol=1e-10)
    assert np.all(np.diff(path.loss, axis=0) >= -1e-12)


def test_exponential_inequalities_of_the_proof() -> None:
    """Fails if a step of Lemma A or B is not a supermartingale; noise of two values is the extreme case."""
    h, low = np.meshgrid(np.linspace(-4, 4, 401), np.linspace(0.01, 1, 100))  # noise 1, or -low; its mean is 0
    chance = low / (1 + low)
    mean = chance * np.exp(-h - h**2 / 2) + (1 - chance) * np.exp(low * h - h**2 / 2)
    assert mean.max() <= 1 + 1e-12
    for b, p in zip(sharp.BENDS, sharp.CURVES, strict=True):
        y = np.linspace(-b, 5, 2001)
        assert np.all(np.exp(y - p * y**2) <= 1 + y + 1e-12)
        assert np.exp(-b - 0.99 * p * b**2) > 1 - b  # a smaller p is not enough


def test_radius_follows_its_arguments() -> None:
    """Fails if delta, the bound on the noise or the unit enters wrongly."""
    loss = np.array([0.0, 0.01, 1.0, 30.0])[:, None]
    layers = LAYERS[None]
    by_delta = np.array([radius(layers, loss, delta) for delta in (1e-6, 1e-3, 0.1, 0.9)])
    assert np.all(np.diff(by_delta, axis=0) < 0)
    doubled = sharp.radius(4.0**-LAYERS, jnp.full(8, 4 * 0.3), SHARP, 0.01, 2.0, 2.0, 4.0)
    np.testing.assert_allclose(doubled, 2 * radius(LAYERS, 0.3), rtol=1e-12)  # R, B and rewards in other units
    half = sharp.radius(4.0**-LAYERS, jnp.full(8, 0.3), dataclasses.replace(SHARP, beta_scale=0.5), 0.01, 1.0, 1.0)
    np.testing.assert_allclose(half - 2.0**-LAYERS, (radius(LAYERS, 0.3) - 2.0**-LAYERS) / 2, rtol=1e-4)
    # Layers 1 and 2 have Lemma A alone: sqrt(q + q L + 2 log(l (l + 1) / delta)).
    assert radius(2, 5.0) == pytest.approx(np.sqrt((1 + 5) / 16 + 2 * np.log(600)), rel=1e-5)


def test_without_noise_the_deterministic_part_is_left() -> None:
    """Fails if a term stays that should vanish with R, or if Lemma B does not fall with 2^-l."""
    for bound in (1e-3, 1e-6):
        np.testing.assert_allclose(radius(LAYERS, 0.0, bound=bound), 2.0**-LAYERS, rtol=max(100 * bound, 1e-5) * 1e3)
    deep = radius(np.arange(3, 12), 0.0) * 2.0 ** np.arange(3, 12)  # R = 1, and no residual was seen
    assert np.all(deep < 20) and np.all(np.diff(deep) < 1)
    assert np.all(radius(LAYERS[3:], 0.0) < 0.5 * radius(LAYERS[3:], 4.0 ** LAYERS[3:]))


@pytest.mark.parametrize("num", [1, 100, 100_000])
@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])  # of the largest residuals there can be
def test_radius_is_below_the_printed_one(num: int, share: float) -> None:
    """Fails if the radius is not what the preset is for: it is smaller wherever both are defined."""
    q, ones = 4.0**-LAYERS, np.ones(8)
    emp, log = share * num * ones, ones * np.log(4 * num**2 * 25 / 0.01)
    for preset in (jv.constants.paper(), jv.constants.paper_fixed(), jv.constants.tight()):
        printed = ridge.radius(q, emp, ones * num, ones * num, preset, 1.0, log, log)
        assert np.all(radius(LAYERS, emp + q) < np.asarray(printed))


@pytest.mark.parametrize("chance", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("layer", [1, 3])
def test_radius_holds(layer: int, chance: float) -> None:
    """Fails if the radius is too small in a layer that is filled, for noise of variance 1, 0.11 and 0.01 (R = 1).

    With delta = 0.9 layer l may fail with probability 0.9 / (l (l + 1)): in 135 or 23 of 300 seeds. Layer 1 did in 7 at
    variance 1, and no other did; a quarter of what is allowed is asked for. The last assertion keeps the check from
    being empty.
    """
    path = play(layer, two_point(7, (600, 300), chance), dim=1, seed=1)
    ratio = np.sqrt(path.distance2[1:]) / radius(layer, path.loss[1:], delta=0.9)
    assert np.sum(np.any(ratio > 1, axis=0)) <= 300 * 0.9 / (layer * (layer + 1)) / 4
    if chance == 0.5:
        assert ratio.max() > 0.8


def test_constants_that_are_not_used_are_refused() -> None:
    """A study that sweeps a constant without effect would show nothing, and say so nowhere."""
    with pytest.raises(ValueError, match=r"'sharp' has no constant sqrt_coef.*beta_scale"):
        jv.save(2, 100, constants=dataclasses.replace(SHARP, sqrt_coef=np.asarray(1.0)))
    with pytest.raises(ValueError, match="bias_coef of 'sharp'"):
        jv.ucrl_ave(2, 3, 100, constants=dataclasses.replace(SHARP, bias_coef=np.asarray(0.0)))
    with pytest.raises(ValueError, match="printed form"):
        ridge.radius(0.25, 1.0, 1.0, 1.0, SHARP, 1.0, 1.0, 1.0)
    assert jv.ave_ucb(2, 100, constants="sharp").constants.form == "sharp"


@pytest.mark.variants(1)
@pytest.mark.parametrize("intersect", [False, True])
def test_confidence_holds_in_play(intersect: bool) -> None:
    """Fails if a layer is checked with another one's radius or weight: the event holds in all of 32 seeds."""
    algorithm = jv.ave_ucb(2, 400, constants="sharp", intersect=intersect, capacity=4)
    environment = jv.linear_bandit(2, 8, noise=jv.noise.two_point(1.0))
    shared = {"key": jax.random.key(3), "num_rounds": 400, "num_seeds": 32, "record_at": 1}
    result = jv.simulate(algorithm, environment, recorders=(jv.record.confidence(), jv.record.regret()), **shared)
    assert result.records["confidence"].all()
    alone = jv.simulate(jv.losan(2, delta=0.005), environment, recorders=(jv.record.regret(),), **shared)
    if intersect:  # at this size the regression over all rounds decides nearly all rounds
        assert result.records["regret"].mean() < 1.5 * alone.records["regret"].mean()


def test_plans_are_optimistic() -> None:
    """Fails if the radius of UCRL-AVE is too small: every plan of 16 seeds is optimistic, and the event holds."""
    environment = jv.mixture_mdp(4, 3, 2, 5, model_seed=1)
    bound = float(environment.norm_bound)
    algorithm = jv.ucrl_ave(2, 5, 60, norm_bound=bound, constants="sharp", capacity=4)
    recorders = (jv.record.optimism(), jv.record.confidence(), jv.record.layer_rounds())
    sizes = {"num_episodes": 60, "num_seeds": 16, "record_at": 1}
    result = jv.simulate(algorithm, environment, key=jax.random.key(4), recorders=recorders, **sizes)
    result.raise_if_failed()
    assert np.all(result.records["optimistic"] == 60) and result.records["confidence"].all()
    assert np.all(result.records["layer_rounds"][:, -1, 2] > 0)  # layer 3 has learned


@pytest.mark.parametrize("constants", ["sharp", "paper"])
def test_layers_share_delta_with_the_regression(constants: str) -> None:
    """Fails if UCRL-AVE's layers spend more than half of delta beside a regression over all steps."""
    sizes = {"constants": constants, "capacity": 4}
    whole = jv.ucrl_ave(2, 3, 50, delta=0.02, intersect=True, **sizes)
    half = jv.ucrl_ave(2, 3, 50, delta=0.01, **sizes)
    state = half.init(jv.Model(phi=np.zeros((2, 2, 2, 2)), reward=np.zeros((2, 2)), horizon=3))
    losses = state.layers.losses._replace(total=jnp.full(4, 0.5))
    state = state._replace(layers=state.layers._replace(count=jnp.full(4, 9, jnp.int32), losses=losses))
    np.testing.assert_allclose(whole.radii(state), half.radii(state), rtol=1e-12)
    np.testing.assert_allclose(whole.plain.delta, 0.01, rtol=1e-12)


@pytest.mark.parametrize("make", [jv.save, jv.ave_ucb])
def test_radius_in_play_is_that_of_the_layers_own_sums(make) -> None:
    """Fails for half the radius, a squared weight or another layer's radius: every layer again from a trace."""
    algorithm = make(2, 120, constants="sharp", capacity=4, delta=0.05, noise_bound=0.5)
    environment = jv.linear_bandit(2, 6, noise=jv.noise.two_point(0.5))
    trace = jv.trace(algorithm, environment, jax.random.key(5), num_rounds=120)
    number, weight = np.asarray(trace.layer), np.asarray(trace.weight)
    arms = np.asarray(trace.arms)[np.arange(120), np.asarray(trace.action)]
    assert set(number) >= {1, 2}
    for layer in set(number) - {0}:
        here, q = number == layer, 4.0**-layer
        Z = q * np.eye(2)
        for a, w in zip(arms[here], weight[here], strict=True):
            np.testing.assert_allclose(w, 2.0**-layer / np.sqrt(a @ np.linalg.solve(Z, a)), rtol=1e-4)
            Z = Z + w**2 * np.outer(a, a)
        x, y = weight[here, None] * arms[here], weight[here] * np.asarray(trace.reward)[here]
        theta = np.linalg.solve(Z, x.T @ y)
        loss = np.sum((y - x @ theta) ** 2) + q * theta @ theta
        if layer < 3:
            expected = np.sqrt(q * (1 + loss) + 2 * 0.25 * np.log(layer * (layer + 1) / 0.05))
        else:
            expected = radius(layer, loss, delta=0.05, bound=0.5)
        np.testing.assert_allclose(np.asarray(trace.state.beta_hat)[-1, layer - 1], expected, rtol=1e-3)
