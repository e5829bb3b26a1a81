"""The growth program plays every size it was asked for beside Numba; the times themselves are not tested."""

import json

import numpy as np
import pytest

from experiments.speed import growth as module
from experiments.speed.comparison import Contender, Task
from experiments.speed.growth import Growth, figure, growth, points, read, sized, tables


@pytest.fixture
def rivals(monkeypatch):
    """Programs that play nothing, in the place of jaxvar and Numba. Returns the order of play."""
    order = []

    def task_of(options, name, fresh):
        def contender(label):
            return Contender(label, lambda: order.append(label) or np.array([1.0]), 10)

        return Task(name, None, None, [contender("jaxvar"), contender("numba"), contender("numpy")])

    monkeypatch.setattr(module, "task_of", task_of)
    return order


def test_both_programs_take_turns(rivals):
    # A slow moment of the machine must not fall on one program alone.
    (point,) = points(Growth(folder="", axis=("dim",), algorithms=("ucrl_ave",), values=(4,)))
    row = module.measure(point, 2)
    assert rivals == ["jaxvar", "numba"] * 3 and len(row["first_call"]) == 2
    assert row["ratio"] == np.median(row["numba"]) / np.median(row["jaxvar"])
    assert row["sizes"]["features"] == 4 and row["sizes"]["layers"] is None


def test_numbers_figure_and_tables(rivals, tmp_path, capsys):
    # A second command adds its points to those of the first, and measures again what both ask for.
    growth(Growth(folder=str(tmp_path), axis=("dim",), values=(4, 8), algorithms=("save", "ucrl_ave"), repeats=1))
    path = growth(Growth(folder=str(tmp_path), axis=("dim", "seeds"), values=(8,), algorithms=("save",), repeats=2))
    rows = read(path)["rows"]
    found = [(row["axis"], row["algorithm"], row["fresh"], row["value"], row["repeats"]) for row in rows]
    save = [("dim", "save", fresh, value, repeats) for fresh in (False, True) for value, repeats in ((4, 1), (8, 2))]
    mixture = [("dim", "ucrl_ave", False, value, 1) for value in (4, 8)]
    assert found == [*save, *mixture, ("seeds", "save", False, 8, 2)]
    assert {p.name for p in tmp_path.iterdir()} >= {"growth.json", "ratios.png", "ratios.pdf"}
    assert len(figure(read(path)).figure.axes) == 2
    text = tables(read(path))
    assert "| dimension d | 4 | 8 |" in text and text.count("| SAVE, fresh arms |") == 1
    assert f"({rows[0]['ratio']:.2f})" in text and "First calls" in text
    assert capsys.readouterr().out.count("save fixed") == 4


def test_sizes_follow_the_cost_of_a_round():
    # A play of jaxvar takes about as long everywhere, and the lanes of the episodic program are full.
    cheap, dear = (sized("arms", "save", True, arms, 1.0) for arms in (10, 10_000))
    assert cheap.rounds * cheap.seeds > 100 * dear.rounds * dear.seeds and dear.seeds >= 16
    mixtures = [sized("states", "ucrl_ave", False, value, 0.05) for value in module.AXES["states"].episodic]
    assert all(m.episode_seeds % module.LANES == 0 and m.episodes >= 16 for m in mixtures)
    assert sized("seeds", "oful", False, 65_536, 1.0).seeds == 65_536
    assert sized("layers", "ave_ucb", False, 8, 1.0).layers == 8


def test_each_algorithm_has_its_sizes():
    chosen = list(points(Growth(folder="")))
    axes = {name: {p.axis for p in chosen if p.algorithm == name} for name in module.ALGORITHMS}
    assert axes["oful"] == {"dim", "arms", "seeds"} and axes["save"] == {"dim", "arms", "layers", "seeds"}
    assert axes["ucrl_ave"] == {"dim", "layers", "seeds", "states", "actions", "horizon"}
    assert {p.axis for p in chosen if p.fresh} == {"dim", "arms"}


def test_wrong_options_are_refused(tmp_path):
    with pytest.raises(ValueError, match="algorithms must be among oful, save, ave_ucb, ucrl_ave, got ucb"):
        growth(Growth(folder=str(tmp_path), algorithms=("ucb",)))
    with pytest.raises(ValueError, match=r"axis must be among dim, arms, .*, got rounds"):
        growth(Growth(folder=str(tmp_path), axis=("rounds",)))
    (tmp_path / "growth.json").write_text(json.dumps({"machine": "another", "rows": []}))
    with pytest.raises(ValueError, match=r"was measured with another; this is .* Name another --folder"):
        growth(Growth(folder=str(tmp_path), axis=("dim",)))


@pytest.mark.slow
def test_a_point_is_played(tmp_path):
    """The programs play the same game: their mean regrets are close."""
    path = growth(Growth(folder=str(tmp_path), axis=("dim",), values=(4,), algorithms=("oful",), seconds=0.02))
    for row in read(path)["rows"]:
        ours, theirs = row["regret"]
        assert abs(ours - theirs) < 0.2 * ours and row["ratio"] > 0
