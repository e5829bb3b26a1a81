"""The experiment table1, on results that were never played: what is chosen, what is compared, and what is refused."""

import dataclasses

import numpy as np
import pytest

from experiments import tuning
from experiments.experiment import discovered
from experiments.table1 import bounds, calibrated, conclude, crossing, labels, sizes
from experiments.table1.bounds import Size
from jaxvar.algorithms.catalogue import CLAIMS
from tests.helpers.synthetic_study import cell, curves, study, unplayed

SEEDS = 400
POWER = {"rounds": 0.4, "dim": 1.2, "variance": 0.25}


@pytest.fixture(scope="module")
def studies():
    return discovered("table1").studies()


def made_up(plan, *, seeds=SEEDS, kept=0.0, seconds=1.0):
    """A result of a study: regret by a law, least at multiplier ``kept``, below which the confidence event is lost."""
    spread = np.exp(0.1 * np.random.default_rng(1).normal(size=(seeds, 1)))

    def dim_of(one):
        return one.environment_settings.get("dim", 2)

    def records(one):
        multiplier = next(iter(one.algorithm_settings.values()), 1.0)
        noise = one.environment_settings["noise.std"]
        scale = (
            dim_of(one) ** POWER["dim"]
            * max(noise, 0.01) ** (2 * POWER["variance"])
            * (1 + abs(np.log(max(multiplier, 1e-5) / kept)))
        )
        made = {"regret": scale * spread * plan.recorded.astype(float) ** POWER["rounds"]}
        if "confidence" in one.record:
            made["confidence"] = np.full((seeds, len(plan.recorded), 1), multiplier >= kept)
        return made

    return unplayed(plan, records, seconds=lambda one: seconds * dim_of(one) ** 2, runs=[])


def with_multipliers(plan, multiplier, only=None):
    """A study in which every chosen multiplier (of one kind only) is this one, and all others 0.03."""
    entries = []
    for entry in plan.algorithms:
        label = labels.read(entry.label)
        if label.kind not in ("calibrated", "tuned"):
            entries.append(entry)
            continue
        mine = multiplier if only in (None, label.kind) else 0.03
        options = dict(entry.options)
        if "constants" in options:
            options["constants"] = {"preset": "practical", "beta_scale": mine}
        else:
            options["beta_scale"] = mine
        entries.append(dataclasses.replace(entry, label=f"{label.name} ({label.kind} x{mine:g})", options=options))
    unique = {
        str(e.to_config() | {"label": ""}): e for e in reversed(entries)
    }  # calibrated and tuned ones are now equal
    return dataclasses.replace(plan, algorithms=list(reversed(unique.values())))


@pytest.fixture(scope="module")
def results(studies):
    """All studies, where 0.03 is the best multiplier and the smallest that keeps the confidence event."""
    main = {name: with_multipliers(studies[name], 0.03) for name in conclude.MAIN}
    return {
        name: made_up(plan, kept=0.03, seeds=20 if name in main else SEEDS)
        for name, plan in {**studies, **main}.items()
    }


@pytest.fixture(scope="module")
def tables(results):
    return conclude.conclude(results).tables


def test_exponents_of_a_law_are_found_beside_the_claimed_ones(tables):
    growth = {(row[0], row[1]): row[2:] for row in tables["growth"].rows}
    oful, save = growth["OFUL", "paper"], growth["SAVE", "practical"]
    assert oful[0] == oful[2] == pytest.approx(0.5) and oful[4] == 0
    assert save[2] == 0 and 0.45 < save[0] < 0.5 and 0.4 < save[4] < 0.5  # the term of lower order counts
    for _, noisy, _, quiet, _, variance in (oful, save):
        assert noisy.estimate == pytest.approx(POWER["rounds"], abs=1e-6)
        assert quiet.estimate == pytest.approx(POWER["rounds"], abs=1e-6)
        assert variance.estimate == pytest.approx(POWER["variance"], abs=1e-6)
    for row in tables["dimension"].rows:
        assert row[3].estimate == pytest.approx(POWER["dim"], abs=1e-6)
    by_name = {row[0]: row for row in tables["cost"].rows}
    assert by_name["SAVE"][-1] == pytest.approx(2, abs=1e-6)
    assert by_name["VOFUL"][1] == "exponential in d" and by_name["SAVE"][1] == "polynomial"


def test_every_row_of_the_table_is_measured(tables):
    names = {claim.name for claim in CLAIMS if claim.table == 1} | {"LOSAN", "LOFAV", "AVE-UCB"}
    for name in ("claims", "regret", "growth", "dimension", "cost"):
        assert {row[0] for row in tables[name].rows} == names, name
    assert {row[0] for name in ("tuned", "tuned_nets") for row in tables[name].rows} == names
    assert all(row[5] is None for row in tables["regret"].rows if row[0] == "OFUL")  # no difference to itself


def test_multipliers_that_were_not_chosen_are_refused_at_full_size_only(results, studies):
    tuned = {name: _of_size(results[name], studies[name].seeds) for name in conclude.CHOOSING}
    conclude.conclude({**results, **tuned})
    for kind in ("tuned", "calibrated"):
        plan = with_multipliers(studies["noise"], 0.3, kind)
        wrong = {**results, "noise": made_up(plan, kept=0.03, seeds=20)}
        with pytest.raises(ValueError, match=rf"\({kind} x0\.3\) .* but held-out seeds give 0\.03"):
            conclude.conclude({**wrong, **tuned})
    conclude.conclude({**wrong, **{name: _of_size(wrong[name], 8) for name in conclude.CHOOSING}})


def _of_size(result, seeds):
    config = {**result.config, "study": {**result.config["study"], "seeds": seeds}}
    return dataclasses.replace(result, config=config)


def trials(held, regret, empty=()):
    """A study of one algorithm whose event held in so many of 400 seeds at 1, 0.3, 0.1, ... with that regret."""
    found = []
    for i, (number, mean) in enumerate(zip(held, regret, strict=True)):
        events = (np.arange(SEEDS) < number)[:, None, None]
        status = np.where(np.arange(SEEDS) < (3 if i in empty else 0), 16, 0).astype(np.int32)
        found.append(
            cell(
                np.full((SEEDS, 1), float(mean)),
                algorithm="OFUL",
                algorithm_settings={"beta_scale": (1.0, 0.3, 0.1, 0.03)[i]},
                records={"confidence": events},
                status=status,
            )
        )
    return study(found)


def test_calibrated_multiplier_is_the_last_before_the_event_is_lost():
    assert calibrated.chosen(trials([400, 400, 390, 400], [4, 3, 2, 1])) == {"OFUL": 0.3}  # not 0.03, held by luck
    assert calibrated.chosen(trials([399, 400, 400, 400], [4, 3, 2, 1])) == {"OFUL": None}  # 399 do not show 0.99
    assert calibrated.chosen(trials([400] * 4, [4, 3, 2, 1])) == {"OFUL": 0.03}


def test_tuned_multiplier_never_has_an_empty_set():
    found = trials([400] * 4, [4, 3, 2, 1], empty=(2, 3))
    (one,) = tuning.tried(found).values()
    assert (one.best, one.failed, one.place) == (0.3, {0.1: 3, 0.03: 3}, "3 runs failed at x0.1")
    row = tuning.table(found).rows[0]
    assert row[:2] == ("OFUL", "0.3") and row[-2:] == (None, None)


def test_empty_sets_in_trials_are_findings_and_other_failures_stay_failures(results):
    first, second, *rest = results["tune_nets"].cells
    seeds = np.arange(SEEDS)
    some = [np.where(seeds == 0, code, 0).astype(np.int32) for code in (16, 1)]
    broken = [dataclasses.replace(c, status=s) for c, s in zip((first, second), some, strict=True)]
    left = tuning.without_empty_sets(dataclasses.replace(results["tune_nets"], cells=(*broken, *rest)))
    assert len(left.cells) == len(rest) + 1 and left.cells[0].status.any()


def test_bounds_without_noise_are_the_claimed_ones():
    noiseless = Size(4, 900, 0)
    claimed = {"d sqrt(K)": 120, "sqrt(d K)": 60, "R sqrt(d K)": 60, "d": 4, "d^5": 1024, "d^2": 16}
    rates = {claim.name: claim.deterministic for claim in CLAIMS if claim.name in bounds.BOUNDS}
    assert set(rates) == set(bounds.BOUNDS)
    for name, text in rates.items():
        assert bounds.BOUNDS[name](noiseless) == pytest.approx(claimed[text]), name
    assert bounds.exponent("LOFAV", (noiseless, noiseless), 10) is None


def test_lines_meet_where_their_laws_do():
    """6 k^0.2 and 2 k^0.5 meet at 3^(1/0.3); the other way round they never do."""
    slow, fast = curves(scale=6.0, power=0.2), curves(scale=2.0, power=0.5)
    cells = [cell(regret, num_rounds=100) for regret in (slow, fast / 100)]
    state, after = crossing._crossing(*cells)
    assert state == "above, and grows slower"
    assert after.low <= after.estimate <= after.high
    assert after.estimate == pytest.approx(300 ** (1 / 0.3))
    assert crossing._crossing(cell(100 * fast), cell(slow)) == ("above, and not surely growing slower", None)
    assert crossing._crossing(cells[1], cells[0]) == ("below", None)


def test_event_is_counted_at_its_worst_noise_level():
    events = [(np.arange(SEEDS) < number)[:, None, None] for number in (400, 390, 399)]
    levels = (0.0, 0.1, 1.0)
    found = [
        cell(
            np.ones((SEEDS, 1)),
            algorithm="OFUL (paper)",
            environment_settings={"noise.std": level},
            records={"confidence": event},
        )
        for level, event in zip(levels, events, strict=True)
    ]
    ((name, constants, share, level),) = calibrated.kept(study(found)).rows
    assert (name, constants, level) == ("OFUL", "paper", "0.1") and share.estimate == 390 / 400


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_layer_takes_as_many_observations_as_computed(layer):
    """Arms along the axes, the most uncertain one first, until none is too uncertain."""
    eigenvalues, number = np.full(3, 4.0**-layer), 0
    while (norms := eigenvalues**-0.5).max() > 2.0**-layer * (1 + 1e-12):
        widest = norms.argmax()
        eigenvalues[widest] += (2.0**-layer / norms[widest]) ** 2
        number += 1
    assert number - 3 <= sizes.observations(3, layer) <= number


@pytest.mark.parametrize("label", ["OFUL", "OFUL (theorem)", "OFUL (tuned x)", " (paper)x"])
def test_labels_without_constants_are_refused(label):
    with pytest.raises(ValueError, match="label must be a name and its constants"):
        labels.read(label)
