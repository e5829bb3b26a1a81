"""Nets of parameters: exact sums, boxes that zoom in, and the guarantee that theta* stays."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxvar as jv
from jaxvar import nets
from jaxvar.algorithms import catalogue

KEY = jax.random.key(3)
NUM_SEEDS, DELTA = 300, 0.1
# How many of 300 seeds may lose theta* before we doubt that each does so with probability at most delta: a right set
# raises this alarm with probability below 1e-6.
ALLOWED = int(stats.binom.isf(1e-6, NUM_SEEDS, DELTA))


# --- sums and inequalities ---


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_statistics_are_the_sums_over_all_rounds(dim: int) -> None:
    """Fails if T or V of any constraint at any parameter differs from its definition by more than rounding."""
    rng = np.random.default_rng(dim)
    x = rng.uniform(-1, 1, size=(400, dim)) / np.sqrt(dim)
    y = x @ rng.uniform(-1, 1, dim) + rng.choice([-0.3, 0.3], size=400)
    clip = nets.clipping(dim, 5, 6)

    def step(sums: Any, seen: Any) -> tuple[Any, None]:
        return nets.add(sums, nets.weights(seen[0], clip), *seen), None

    sums = jax.jit(lambda *seen: jax.lax.scan(step, nets.init_sums(clip.num, dim, float), seen)[0])(x, y)
    points = rng.uniform(-1, 1, size=(20, dim))
    deviation, square = nets.deviation(sums.ay, sums.ax, points), nets.square_sum(sums, points)
    assert np.all(np.abs(np.linalg.norm(clip.directions, axis=1) - 1) < 1e-12)
    for c, (scale, mu) in enumerate(itertools.product(clip.scales, clip.directions)):
        a = np.clip(x @ mu, -scale, scale)
        for n, theta in enumerate(points):
            residual = y - x @ theta
            size = np.sum(np.abs(a) * (np.abs(y) + np.abs(x @ theta)))
            assert abs(deviation[c, n] - abs(np.sum(a * residual))) <= 1e-12 * size
            assert abs(square[c, n] - np.sum((a * residual) ** 2)) <= 1e-12 * size


@pytest.mark.parametrize("dim", [2, 3])
def test_directions_cover_the_half_sphere(dim: int) -> None:
    """Fails if some direction is further from the net, or from its negative, than the stated angle."""
    num = {2: 32, 3: 256}[dim]
    angle = {2: np.pi / 64, 3: 2.7 / np.sqrt(512)}[dim]
    other = np.random.default_rng(0).normal(size=(4000, dim))
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    nearest = np.max(np.abs(other @ nets.clipping(dim, num, 1).directions.T), axis=1)
    assert np.all(nearest >= np.cos(angle) - 1e-12)


def test_rates_are_those_of_the_inequalities() -> None:
    """Fails if ``exp(lam z - psi(lam) z^2) <= 1 + lam z``, or Freedman's for a fair coin, does not hold on [-1, 1]."""
    z = np.linspace(-1, 1, 2001)
    for lam in nets.exponents(0.95, 20):
        assert np.all(np.exp(lam * z - nets.empirical_rate(lam) * z**2) <= 1 + lam * z + 1e-14)
        gap = 1 + lam * z + nets.freedman_rate(lam) * z**2 - np.exp(lam * z)
        assert np.all(gap >= -1e-14) and abs(gap[-1]) < 1e-14  # Freedman's rate is exact at z = 1


def test_the_limit_is_near_its_best_exponent() -> None:
    """Fails if the grid of exponents loses more than 10 percent to the best, for any variance that K rounds have."""
    lam, log = nets.exponents(0.95, 7 + 12), np.float64(11.0)
    fine = np.geomspace(1e-4, 0.95, 100_000)
    for square in np.geomspace(1, 2**12, 40):
        best = np.min((nets.empirical_rate(fine) * square + log) / fine)
        ours = float(nets.exponential_limit(jnp.asarray(square), log, lam, nets.empirical_rate(lam)))
        assert best <= ours * (1 + 1e-9) and ours <= 1.1 * best
        assert ours <= np.sqrt(2 * square * log) + 1.1 * log


# --- boxes ---


def box(alive: Any, cells: int, dim: int) -> nets.Net:
    rng = np.random.default_rng(1)
    return nets.Net(rng.normal(size=dim), rng.uniform(0.1, 2, dim), np.asarray(alive))


@pytest.mark.parametrize(("dim", "cells"), [(1, 9), (2, 6), (3, 5)])
def test_zoom_keeps_what_is_left(dim: int, cells: int) -> None:
    """Fails if a zoomed box misses a part of a cell that was left, is larger than need be, or comes too early."""
    rng = np.random.default_rng(2)
    grid = nets.grid(dim, cells)
    zooms = 0
    for _ in range(200):
        corner, reach = rng.uniform(-1, 1, dim), rng.uniform(0.1, 1.5)
        alive = np.all(np.abs(grid - corner) < reach, axis=1) & (rng.uniform(size=len(grid)) < 0.7)
        if not alive.any():
            continue
        old = box(alive, cells, dim)
        new = jax.tree.map(np.asarray, nets.zoom(old, cells))
        low = np.min(np.asarray(nets.points(old, cells))[alive], axis=0) - old.half / cells
        high = np.max(np.asarray(nets.points(old, cells))[alive], axis=0) + old.half / cells
        if np.prod((high - low) / (2 * old.half)) > 0.5 + 1e-9:
            assert all(np.array_equal(a, b) for a, b in zip(new, old, strict=True))
            continue
        zooms += 1
        np.testing.assert_allclose(new.center - new.half, low, atol=1e-12)
        np.testing.assert_allclose(new.center + new.half, high, atol=1e-12)
        assert new.alive.all()
        theta = np.asarray(nets.points(old, cells))[np.argmax(alive)] + rng.uniform(-1, 1, dim) * old.half / cells
        assert nets.contains(old, cells, theta) and nets.contains(new, cells, theta)
    assert zooms > 50


@pytest.mark.parametrize("dim", [2, 3])
def test_bounds_over_cells_hold_inside_them(dim: int) -> None:
    """Fails if an upper bound, an allowance or a ball's edge is exceeded by some parameter within a cell left."""
    rng = np.random.default_rng(dim)
    cells = 4
    net = box(rng.uniform(size=cells**dim) < 0.3, cells, dim)
    first, second = rng.uniform(-1, 1, (2, 6, dim))
    upper = np.asarray(nets.support(first, net, cells))
    variance = np.asarray(nets.largest_variance(first, second, net, cells))
    points, cell = np.asarray(nets.points(net, cells)), net.half / cells
    roots = rng.uniform(-1, 1, (6, dim, dim))
    matrices = roots @ np.swapaxes(roots, 1, 2)
    norm, shift = np.asarray(nets.cell_norm(matrices, cell)), np.asarray(nets.cell_shift(first, cell))
    in_ball = np.asarray(nets.meets_ball(points, cell, np.float64(1.1)))
    for point, alive, may_be_short in zip(points, net.alive, in_ball, strict=True):
        if not alive:
            continue
        inside = point + rng.uniform(-1, 1, (50, dim)) * cell
        assert np.all(inside @ first.T <= upper + 1e-12)
        assert np.all(inside @ second.T - (inside @ first.T) ** 2 <= variance + 1e-12)
        assert may_be_short or np.all(np.linalg.norm(inside, axis=1) > 1.1)
        delta = inside - point
        assert np.all(np.sqrt(np.einsum("nd,cde,ne->nc", delta, matrices, delta)) <= norm + 1e-12)
        assert np.all(np.abs(delta @ first.T) <= shift + 1e-12)
    assert in_ball.any() and not in_ball.all()
    corners = np.array(list(itertools.product((-1, 1), repeat=dim))) * cell
    np.testing.assert_allclose(np.max(corners @ first.T, axis=0), shift)  # and not because they are far too large
    np.testing.assert_allclose(np.max(np.einsum("nd,cde,ne->nc", corners, matrices, corners), axis=0), norm**2)


def test_cells_without_a_kernel_are_left_out() -> None:
    """Fails if a theta that gives distributions is left out, or one far from any such is not."""
    instance = jax.jit(jv.mixture_mdp(3, 2, 2, 4, model_seed=0).init)(KEY)
    model = jv.Model(phi=instance.phi, reward=instance.reward, horizon=4)
    algorithm = jv.var_lin(2, 4, 10, norm_bound=1.5, cells=64)
    state = jax.jit(algorithm.init)(model)
    for w in np.linspace(0, 1, 11):
        assert algorithm.contains(state, np.sqrt(2) * np.array([w, 1 - w]))
    points = np.asarray(nets.reflect(nets.points(state.net, 64), state.mirror))[np.asarray(state.net.alive)]
    cell = 1.5 / 64
    assert len(points) > 30 and np.all(np.abs(points.sum(axis=1) - np.sqrt(2)) <= np.sqrt(2) * cell + 1e-9)
    total = np.sum(np.asarray(instance.phi)[0, 0], axis=0)
    np.testing.assert_allclose(nets.reflect(total[None], state.mirror)[0], [-np.linalg.norm(total), 0], atol=1e-15)


# --- whether theta* stays ---


class Kept:
    """Whether the cell of theta* has been left in every round so far, and the half-side of cells by now."""

    name = "kept"

    def init(self, algorithm, instance):
        return jnp.ones(2, float)

    def update(self, memory, event, algorithm, instance):
        kept = algorithm.contains(event.state, instance.theta_star)
        return jnp.stack([memory[0] * kept.astype(float), jnp.max(event.state.net.half) / algorithm.cells])

    def read(self, memory):
        return memory


NET = {"cells": 8, "num_directions": 6, "num_scales": 4, "delta": DELTA}
BANDITS = {
    "voful": (jv.voful, 2, {}),
    "voful2": (jv.voful2, 2, {}),
    "voful-paper": (jv.voful, 2, {"test": "paper"}),
    "voful-space": (jv.voful, 3, {"cells": 5, "num_directions": 9}),
}


@functools.cache
def bandit_runs(name: str) -> Any:
    """Theorem, a tenth of it and nothing but the allowance for cells; without and with noise."""
    factory, dim, options = BANDITS[name]
    algorithm = jv.sweep(factory(dim, 120, every=8, **{**NET, **options}), beta_scale=[1.0, 0.1, 0.0])
    environment = jv.sweep(jv.linear_bandit(dim, 6, noise=jv.noise.two_point(0.0), fresh=True), std=[0.0, 1.0])
    setting = {"key": KEY, "num_rounds": 120, "num_seeds": NUM_SEEDS, "record_at": 1}
    return jv.simulate(algorithm, environment, recorders=(jv.record.regret(), Kept()), **setting)


@pytest.mark.slow
@pytest.mark.parametrize("name", BANDITS)
def test_theta_star_stays_in_the_set_of_a_bandit(name: str) -> None:
    """Fails if a test is too strict or a zoom loses a cell; by chance with probability below 1e-6 (see ALLOWED)."""
    result = bandit_runs(name)
    kept, cell = result.records["kept"][..., 0, 0] > 0, result.records["kept"][..., 0, 1]
    lost = NUM_SEEDS - kept.sum(axis=2)
    assert lost[0, 1] <= ALLOWED  # with noise, at the theorem
    assert not lost[:, 0].any()  # without noise the allowance for cells alone must do, at any multiplier
    assert np.all(result.status[:, 0] == 0)
    assert lost[2, 1] > ALLOWED  # a set too small raises the alarm
    assert np.all((result.status[2, 1] & jv.status.EMPTY) > 0 | kept[2, 1])
    first = 1 / (5 if "space" in name else 8)
    assert np.all(cell[2, 0] < first / 100)  # the resolution follows the data: no floor from the first box
    assert np.all(cell <= first + 1e-12)
    if name == "voful":
        assert np.mean(cell[0, 0] < first) > 0.9  # at the theorem too
        assert result.regret[1, 0].mean() < result.regret[1, 1].mean()  # less noise, less regret: it adapts


EPISODES = {
    "var_lin": (jv.var_lin, 2, {}),
    "var_lin2": (jv.var_lin2, 2, {}),
    "var_lin-paper": (jv.var_lin, 2, {"test": "paper"}),
    "var_lin-space": (jv.var_lin, 3, {"cells": 5, "num_directions": 9}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EPISODES)
def test_theta_star_stays_and_plans_are_optimistic(name: str) -> None:
    """Fails if a slab is too thin or a variance bound too small; by chance with probability below 1e-6 (ALLOWED)."""
    factory, dim, options = EPISODES[name]
    environment = jv.mixture_mdp(3, 2, dim, 4, concentration=0.5)
    base = factory(dim, 4, 40, norm_bound=environment.norm_bound, num_groups=3, **{**NET, **options})
    record = (jv.record.optimism(), Kept())
    setting = {"key": KEY, "num_episodes": 40, "num_seeds": NUM_SEEDS, "record_at": 1, "recorders": record}
    far_too_small = 1e-5 if "paper" in name else 0.005
    result = jv.simulate(jv.sweep(base, beta_scale=[1.0, far_too_small]), environment, **setting)
    kept, optimistic = result.records["kept"][..., 0, 0] > 0, result.records["optimistic"][..., 0]
    assert NUM_SEEDS - kept[0].sum() <= ALLOWED
    assert np.all(optimistic[kept] == 40)  # while theta* is there, no value is below the optimal one
    assert NUM_SEEDS - kept[1].sum() > ALLOWED and np.any(optimistic[1] < 40)  # a set too small raises the alarm
    assert np.all(result.status[0][kept[0]] == 0)


def test_zoom_reaches_fine_cells_in_episodes() -> None:
    """Fails if the box of an episodic run does not follow what is left of it: the first cells are far too wide."""
    environment = jv.graded_mdp(3, 2, 2, 4, mix=0.0)  # certain transitions: the allowance for cells is enough
    algorithm = jv.var_lin(2, 4, 40, norm_bound=np.sqrt(2), num_groups=3, beta_scale=0.0, **NET)
    setting = {"key": KEY, "num_episodes": 40, "num_seeds": 32, "record_at": 1, "recorders": (Kept(),)}
    result = jv.simulate(algorithm, environment, **setting)
    result.raise_if_failed()
    kept = result.records["kept"][:, 0]
    assert kept[:, 0].all()
    assert np.mean(kept[:, 1] < np.sqrt(2) / 8 / 20) > 0.5


# --- what else must hold ---


def test_an_empty_set_is_reported_and_the_last_one_kept() -> None:
    """Fails if noise far above what the tests allow empties the net in silence, or leaves nothing to choose from."""
    algorithm = jv.voful(2, 100, noise_bound=0.1, beta_scale=0.02, every=8, **NET)
    environment = jv.linear_bandit(2, 6, noise=jv.noise.two_point(1.0), fresh=True)
    with pytest.warns(UserWarning, match=r"told noise_bound=0\.1 .* has noise_bound=1: its theorem does not hold"):
        result = jv.simulate(algorithm, environment, key=KEY, num_rounds=60, num_seeds=8, record_at=1)
    assert np.all(result.status == jv.status.EMPTY) and np.all(result.status_round % 8 == 0)
    assert np.all(np.isfinite(result.regret))
    with pytest.raises(jv.SimulationError, match=r"8 of 8.*\n.*seed 0: round .*empty"):
        result.raise_if_failed()


@pytest.mark.parametrize("name", ["voful", "voful2", "var_lin", "var_lin2"])
def test_higher_dimensions_are_refused_with_the_size_of_the_net(name: str) -> None:
    """Fails if someone asks for the impossible and is not told why."""
    given = {"dim": 6, ("num_rounds" if "voful" in name else "num_episodes"): 100}
    if "voful" not in name:
        given["horizon"] = 5
    with pytest.raises(
        ValueError, match=r"dim must be at most 3 .*got 6: 12 cells .*3\.0e\+06 net points.*1024 direct"
    ):
        getattr(jv, name)(**given)
    with pytest.raises(ValueError, match=r"got 6: 20 cells .*6\.4e\+07 net points.*7 direct"):
        getattr(jv, name)(**given, cells=20, num_directions=7)


def test_the_state_does_not_grow_with_the_rounds() -> None:
    """Fails if what is carried from round to round depends on K by more than the number of scales, a logarithm."""

    def size(algorithm: Any, *model: Any) -> int:
        return sum(x.size for x in jax.tree.leaves(jax.eval_shape(lambda a: a.init(*model), algorithm)))

    model = jv.Model(phi=np.zeros((3, 2, 3, 2)), reward=np.zeros((3, 2)), horizon=4)
    cells = 32**2
    for short, long, per_scale in (
        (size(jv.voful(2, 2**10)), size(jv.voful(2, 2**20)), 16 * 10),
        (size(jv.var_lin2(2, 4, 2**8), model), size(jv.var_lin2(2, 4, 2**18), model), 3 * 5 * 16 * 4),
    ):
        assert long - short == 10 * per_scale
        assert short < cells + 13 * per_scale + 20
    assert size(jv.var_lin(2, 4, 2**8), model) == size(jv.var_lin(2, 4, 2**18), model)


def test_printed_constants() -> None:
    """Fails if an iota or a number of scales is not the one that is stated."""
    assert float(jv.voful(2, 2000, delta=0.05).iota) == pytest.approx(16 * 2 * np.log(2 * 2000 / 0.05))
    assert float(jv.voful2(2, 2000, delta=0.05).iota) == pytest.approx(8.7e3, rel=0.01)
    assert float(jv.var_lin(3, 10, 200, delta=0.05).iota) == pytest.approx(16 * 3 * np.log(3 * 2000 / 0.05))
    assert float(jv.var_lin2(2, 10, 200, delta=0.05).iota) == float(jv.voful2(2, 2000, delta=0.05).iota)
    assert jv.voful(2, 2000).num_scales == 12 and jv.voful(2, 2048).num_scales == 12
    assert jv.voful2(2, 2000).num_scales == 11 == jv.var_lin2(2, 10, 200).num_scales  # L = floor(log2 1001) = 9


def test_claims() -> None:
    """Fails if a claim of the tables is missing, or the two swapped entries are copied."""
    claims = {c.factory: c for c in catalogue.CLAIMS}
    assert (claims["voful"].deterministic, claims["voful2"].deterministic) == ("d^5", "d^2")
    assert "swapped" in claims["voful"].printed and "swapped" in claims["voful2"].printed
    for name in ("voful", "voful2", "var_lin", "var_lin2"):
        assert not claims[name].efficient and claims[name].constants == "reconstructed" and hasattr(jv, name)
