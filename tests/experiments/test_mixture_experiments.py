"""What the experiments on linear mixture MDPs conclude, on studies that were never run: regret c K^a H^b."""

import dataclasses

import numpy as np
import pytest

import jaxvar as jv
from experiments import tuning
from experiments.experiment import FOLDER
from experiments.horizon.conclude import conclude as conclude_horizon
from experiments.table2.conclude import conclude as conclude_table2
from experiments.table2.conclude import multiplier_at, share
from jaxvar.study.definition import Study
from jaxvar.study.result import StudyResult
from tests.helpers.synthetic_study import unplayed

SEEDS = 20


def law(label, options, horizon, rounds):
    """Uniform play and paper constants are linear in K, all others grow as sqrt(K H); small multipliers are best."""
    if "uniform" in label.lower() or "(paper)" in label:
        return 0.2 * rounds
    multiplier = next(iter(options.values()), 0.0)
    return (0.3 + multiplier) * np.sqrt(rounds * horizon)


def played(study: Study) -> StudyResult:
    """The study as if run: the law times a factor of each seed."""
    study = dataclasses.replace(study, seeds=SEEDS)
    factors = np.exp(0.2 * np.random.default_rng(0).normal(size=(SEEDS, 1)))

    def records(cell):
        horizon = cell.environment_settings.get("horizon", 10)
        grown = law(cell.algorithm_label, cell.algorithm_settings, horizon, study.recorded.astype(float))
        return {"regret": factors * grown}

    return unplayed(study, records)


def results(name):
    paths = sorted((FOLDER / name).glob("*.toml"))
    return {path.stem: played(jv.read_study(path)) for path in paths}


def column(table, title):
    return [c.title for c in table.columns].index(title)


def test_table2_has_every_row_of_the_paper_and_finds_the_exponents():
    found = conclude_table2(results("table2"))
    table = found.tables["table2"]
    names = [row[0] for row in table.rows]
    assert list(dict.fromkeys(names)) == [
        *("UCRL-VTR", "UCRL-VTR+", "VarLin", "VarLin2", "HF-UCRL-VTR+", "UCRL-AVE", "Uniform play")
    ]
    for row in table.rows:
        linear = row[1] == "paper" or row[0] == "Uniform play"
        assert row[column(table, "K, noisy")].estimate == pytest.approx(1 if linear else 0.5)
        assert row[column(table, "H, no noise")].estimate == pytest.approx(0 if linear else 0.5, abs=1e-12)
    needed = {row[0]: row for row in found.tables["needed"].rows}
    assert needed["UCRL-VTR"][2].estimate == pytest.approx(1000 / needed["UCRL-VTR"][1].estimate ** 2)
    assert set(found.figures) == {"episodes", "horizons", "nets"}


def test_the_horizons_exponents_are_also_given_beside_uniform_play():
    found = conclude_horizon(results("horizon"))
    for row in found.tables["exponents"].rows:
        flat = row[1] == "Uniform play" or "(paper)" in row[1]
        assert row[2].estimate == pytest.approx(0 if flat else 0.5, abs=1e-12)
        assert row[4].estimate == pytest.approx(1 if flat else np.sqrt(8))
        if row[1] != "Uniform play":
            assert row[3].estimate == pytest.approx(row[2].estimate, abs=1e-12)


def test_multipliers_that_tuning_did_not_find_are_refused_at_full_size_only():
    found = results("table2")
    assert set(tuning.chosen(found["tune"]).values()) == {0.0}
    assert {row[3] for row in tuning.table(found["tune"]).rows} == {"0: greedy but for the bias"}
    study = found["episodes"].config["study"]
    wrong = [{**entry, "beta_scale": 0.3} if "VTR (tuned" in entry["label"] else entry for entry in study["algorithm"]]
    found["episodes"] = dataclasses.replace(found["episodes"], config={"study": {**study, "algorithm": wrong}})
    conclude_table2(found)
    tune = found["tune"]
    seeds = jv.read_study(FOLDER / "table2" / "tune.toml").seeds
    found["tune"] = dataclasses.replace(tune, config={"study": tune.config["study"] | {"seeds": seeds}})
    with pytest.raises(ValueError, match=r"UCRL-VTR \(tuned x0\) .* multiplier 0\.3, but held-out seeds give 0"):
        conclude_table2(found)


@pytest.mark.parametrize(
    ("best", "place"),
    [(1.0, "the largest tried"), (0.1, "bracketed"), (0.01, "the least tried"), (0.0, "0: greedy but for the bias")],
)
def test_the_place_of_the_best_multiplier_is_said(best, place):
    grid = [1.0, 0.1, 0.01] + ([0.0] if best == 0 else [])
    assert tuning.Tried({x: np.full(3, abs(x - best)) for x in grid}, {}).place == place


def test_a_multiplier_between_two_of_the_grid():
    grid = {x: np.full(5, 100 * x) for x in (0.0, 0.01, 0.1, 1.0)}
    assert multiplier_at(grid, 5.0).estimate == pytest.approx(0.05)
    assert multiplier_at(grid, 0.5) is None
    assert multiplier_at(grid, 200.0) is None


def test_a_share_is_per_episode():
    cells = results("table2")
    cell = next(c for c in cells["nets"].cells if "(paper)" in c.algorithm)
    uniform = next(c for c in cells["episodes"].cells if c.algorithm == "Uniform play")
    found = share(cell, uniform)
    assert found.estimate == pytest.approx(1)
    assert found.low == pytest.approx(1)
    assert found.high == pytest.approx(1)
