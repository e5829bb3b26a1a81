"""What the experiment on late and corrupted rewards plays and concludes."""

import numpy as np
import pytest

import jaxvar as jv
from experiments.protocols import __main__ as protocols
from experiments.protocols.conclude import Part, Weights, conclude


def test_conclusions_are_those_of_the_numbers():
    """Means, factors and mean squared weights, computed by hand here."""
    rng = np.random.default_rng(0)
    regret = np.array([100.0, 250.0])[:, None] + rng.choice([-1.0, 1.0], size=(2, 40))
    part = Part("Late rewards", "rounds", "rounds late", (0, 10), {"OFUL": regret})
    found = conclude({"late": part, "other": part._replace(about="budget")}, [Weights(10, 4, 6.0)], 500)
    ((label, first, last, factor, per_unit),) = found.tables["late"].rows
    assert label == "OFUL" and factor == regret[1].mean() / regret[0].mean()
    assert per_unit == (regret[1].mean() - regret[0].mean()) / 10
    assert (first.estimate, last.estimate) == (regret[0].mean(), regret[1].mean())
    assert found.tables["weights"].rows == ((10, 4, 1.5),)
    assert "500 rounds over 40 seeds" in found.tables["other"].caption
    (figure,) = found.figures.values()
    assert [axis.get_xlabel() for axis in figure.figure.axes] == ["rounds late", "budget"]


def test_every_protocol_is_played(monkeypatch):
    """With a simulation that only says what it was asked: nothing is left out, nothing played twice."""
    asked = []

    def final(algorithm, environment, options):
        asked.append((algorithm, environment))
        return np.ones((6, 3) if isinstance(environment, type(jv.corrupted(protocols.bandit(), 0.0))) else 3)

    monkeypatch.setattr(protocols, "_final", final)
    parts = protocols.play(protocols.Options(seeds=3, rounds=50))
    late = [a for a, e in asked if not hasattr(e, "budget")]
    assert [getattr(a, "delay", getattr(a, "every", None)) for a in late] == [0, 10, 100, 300, 1, 10, 100, 300] * 2
    assert [r.shape for part in parts.values() for r in part.regret.values()] == [(4, 3)] * 4 + [(6, 3)] * 3
    assert all(list(e.budget) == list(protocols.BUDGETS) for _, e in asked[len(late) :])


def test_only_the_whole_is_published():
    with pytest.raises(ValueError, match="publish is for the experiment as it is"):
        protocols.Options(seeds=3, publish=True)
