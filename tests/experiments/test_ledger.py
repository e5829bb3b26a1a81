"""The ledger of constants: its file comes from the stored numbers, and calls nothing proved that is not."""

import json
from pathlib import Path

import jaxvar as jv
from experiments import ledger, tuning
from experiments.experiment import FOLDER

ENTRIES = ledger.collect()


def test_file_is_made_of_the_stored_numbers():
    """Fails if a number was typed by hand, or the ledger was not written again: python -m experiments.ledger."""
    assert ledger.PATH.read_text() == ledger.as_json(ENTRIES)
    assert "<!-- written: ledger -->" in (Path(ledger.PATH).parents[1] / "ledger.md").read_text()


def test_only_what_has_a_proof_is_called_proved():
    """Fails if a printed, measured or tuned radius, or one without a proof, is called proved."""
    proved = {(e.factory, e.radius) for e in ENTRIES if e.proved}
    assert proved == {(f, r) for f in ("save", "ave_ucb", "ucrl_ave") for r in ("paper_fixed", "sharp")}
    assert {e.kind for e in ENTRIES if e.proved} == {"proved"} and all(e.proved for e in ENTRIES if e.kind == "proved")
    assert all(e.multiplier == 1 for e in ENTRIES if e.kind in ("printed", "smallest", "proved"))
    assert {row[2] for row in ledger.table(ENTRIES).rows} <= {"printed", "smallest", "proved", "measured", "tuned"}


def test_every_algorithm_with_a_radius_is_listed():
    """Fails if an algorithm is left out, or a multiplier is not the one that is used."""
    others = {e.factory for e in ENTRIES} - set(ledger.with_radius())
    assert others == {"ucrl_wvtr"} and set(ledger.with_radius()) <= {e.factory for e in ENTRIES}
    practical = {(e.factory, e.multiplier) for e in ENTRIES if e.radius == "practical"}
    bandit, episodes = (float(jv.constants.practical(setting=s).beta_scale) for s in ("bandit", "episodes"))
    assert practical == {("save", bandit), ("ave_ucb", bandit), ("ucrl_ave", episodes)}
    tuned = tuning.found_in(FOLDER / "variance" / "found.json")
    assert {e.algorithm: e.multiplier for e in ENTRIES if (e.kind, e.where) == ("tuned", "variance")} == tuned


def test_rounds_are_those_of_the_experiment():
    """Fails if prediction and play of SAVE's printed constants are not those of the experiment switch."""
    (printed,) = [e for e in ENTRIES if (e.factory, e.radius) == ("save", "paper")]
    parting = ledger.of_experiment("switch").tables["parting"].rows[0]
    assert (printed.matters_predicted, printed.matters_seen) == (parting[3], parting[5])


def test_a_changed_number_is_noticed(tmp_path):
    """Fails if the comparison above would let a changed file pass."""
    content = json.loads(ledger.PATH.read_text())
    content["entries"][0]["multiplier"] = 2.0
    assert json.dumps(content, indent=1) + "\n" != ledger.as_json(ENTRIES)
    assert ledger.main(tmp_path / "ledger.json") == 0
    assert (tmp_path / "ledger.json").read_text() == ledger.as_json(ENTRIES)
