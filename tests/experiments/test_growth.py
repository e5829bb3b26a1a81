"""The growth program measures every size it was asked for; the times themselves are not tested."""

import json

import numpy as np
import pytest

from experiments.speed import growth as module
from experiments.speed.growth import Growth, Point, growth

pytestmark = pytest.mark.slow  # programs that measure; nothing else depends on them


def small(folder, **options):
    common = {"algorithms": ("oful",), "layers": (1, 2), "dims": (2,), "arms": (2, 3), "sweeps": (1, 2), "repeats": 2}
    sizes = {"rounds": (20, 40), "seeds": (1, 2), "base_rounds": 20, "base_seeds": 2}
    return Growth(folder=str(folder), **{**common, **sizes, **options})


@pytest.mark.slow
def test_numbers_and_figures(tmp_path):
    # Every quantity is in the file with each of its sizes, and has a figure.
    path = growth(small(tmp_path, algorithms=("save", "oful", "ucrl_ave")))
    content = json.loads(path.read_text())
    found = {}
    for row in content["rows"]:
        found.setdefault((row["quantity"], row["algorithm"]), []).append(row["value"])
        assert len(row["wall"]) == len(row["cpu"]) == 2
        assert row["wall_median"] == np.median(row["wall"]) > 0
    assert found["rounds", "save"] == [20, 40] and found["compile_sweep", "oful"] == [1, 2]
    assert ("layers", "oful") not in found and found["layers", "ucrl_ave"] == [1, 2]
    quantities = {quantity for quantity, _ in found}
    assert len(quantities) == 8
    assert {p.stem for p in tmp_path.glob("*.png")} == quantities
    assert content["machine"]["cores"] >= 1 and content["options"]["repeats"] == 2


def test_sizes_follow_the_scale(tmp_path):
    # One option makes a trial of a whole measurement; sizes that become equal are measured once.
    full, trial = (Growth(folder=str(tmp_path), scale=scale) for scale in (1.0, 0.001))

    def values(options):
        points = [p for quantity in module.speed_points(options) for p in quantity]
        return {q: sorted({p.value for p in points if p.quantity == q}) for q in ("rounds", "seeds", "dim", "arms")}

    assert values(full)["rounds"][-1] == 10**7 and values(full)["seeds"][-1] == 4096
    assert values(full)["dim"] == [2, 4, 8, 16, 32, 64] and values(full)["arms"][-1] == 500
    assert values(trial) == {"rounds": [1, 10, 100, 1000, 10000], "seeds": [1, 4], "dim": [2], "arms": [2]}
    long = [p for p in module.speed_points(full)[0] if p.value == 10**7]
    assert {p.seeds for p in long} == {max(2, module.jax.device_count())}


def test_all_points_take_turns():
    # A slow moment of the machine must not fall on one size alone; times are per round.
    order = []

    def prepare(point):
        return lambda: order.append(point.value) or 10

    points = [Point("rounds", "oful", v, v, 1, 2, 2) for v in (1, 2, 3)]
    measured = module.measure(points, 2, prepare)
    assert order == [1, 2, 3, 1, 2, 3]
    assert [m.point.value for m in measured] == [1, 2, 3] and all(len(m.wall) == 2 for m in measured)


def test_compilation_is_timed_without_playing():
    # A program of 2^31 rounds would take an hour to play.
    compile_anew = module._compiler(Point("compile_rounds", "oful", 2**31 - 1, 2**31 - 1, 2, 2, 2))
    assert compile_anew() == 1


def test_wrong_algorithms_are_refused(tmp_path):
    with pytest.raises(ValueError, match="algorithms must be among"):
        growth(small(tmp_path, algorithms=("ucb",)))
