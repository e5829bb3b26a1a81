"""The experiment ``sharp``: coverage, slack and steps of the proved radius."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from experiments.sharp import __main__ as experiment
from experiments.sharp import coverage, steps
from jaxvar import sharp


@pytest.fixture(scope="module")
def layers():
    return steps.recorded(0.1, rounds=400, seeds=8)


def test_last_step_is_the_preset(layers):
    """Fails if the steps do not end in the radius that is used, or one of them makes it larger than it should be."""
    assert [sums.number for sums in layers][:3] == [1, 2, 3]
    for sums in layers:
        q = jnp.full(len(sums.loss), sums.q)
        preset = sharp.radius(q, jnp.asarray(sums.loss), jv.constants.sharp(), steps.DELTA, 1.0, 1.0)
        radii = {name: radius(sums) for name, (_, radius) in steps.STEPS.items()}
        np.testing.assert_allclose(list(radii.values())[-1], preset, rtol=1e-5)
        means = [float(radius.mean()) for radius in radii.values()]
        assert means[:5] == sorted(means[:5], reverse=True)  # up to Lemma 2 each step is a gain


def test_slack_is_error_over_radius():
    """Fails if the recorder mixes layers or weights: at the last round it is what plain algebra gives."""
    algorithm = jv.ave_ucb(2, 60, constants="sharp", capacity=3)
    environment = jv.linear_bandit(2, 5, noise=jv.noise.two_point(0.5))
    shared = {"key": jax.random.key(2), "num_rounds": 60, "num_seeds": 4, "record_at": 1}
    recorders = (coverage.SlackRecorder(), jv.record.confidence())
    out = jv.simulate(algorithm, environment, recorders=recorders, **shared)
    assert np.array_equal(np.all(out.records["slack"] <= 1, axis=-1), np.all(out.records["confidence"], axis=-1))
    half = dataclasses.replace(jv.constants.sharp(), beta_scale=np.asarray(0.02))  # now some radius fails
    spoilt = jv.ave_ucb(2, 60, constants=half, capacity=3)
    out = jv.simulate(spoilt, environment, recorders=recorders, **shared)
    slack, held = out.records["slack"][:, -1], out.records["confidence"][:, -1]
    assert not held.all()
    assert np.array_equal(slack[slack > 0] <= 1, held[slack > 0])


def test_cases_are_played_once(tmp_path, monkeypatch):
    """Fails if a finished case is played again, or one of another size is taken for it."""
    played = []
    monkeypatch.setattr(coverage, "play_case", lambda case, seeds: played.append(case) or np.full((seeds, 2), 0.5))
    monkeypatch.setattr(coverage, "play_stream", lambda n, f, k, seeds: np.full((seeds, f.stream.layer), 0.25))
    found = coverage.cover(tmp_path, 3)
    assert len(played) == 2 * 12 + 8 and len(found) == len(played) + len(coverage.streams())
    assert {case.about["player"] for case in found} == {*coverage.PLAYERS, "one layer"}
    coverage.cover(tmp_path, 3)
    assert len(played) == 32
    coverage.cover(tmp_path, 4)
    assert len(played) == 64
    table = experiment.coverage_table(found)
    assert len(table.rows) == len(found) and all(row[5] == 0 for row in table.rows)


def test_a_failed_seed_is_counted():
    """Fails if a ratio above one in any layer is not a failure, or layers that did not learn count as slack."""
    ratio = np.zeros((5, 3), np.float32)
    ratio[:, 0], ratio[1, 1] = 0.5, 1.25
    about = {"player": "one layer", "instance": "made", "length": 9}
    case = coverage.Covered(about, ratio)
    assert case.held == 4
    (row,) = experiment.coverage_table([case]).rows
    assert row[3:6] == (2, 5, 1) and row[-1] == 1.25
    slack = experiment.slack_table([case]).rows
    assert [r[2:4] for r in slack] == [(1, 5), (2, 1)]
