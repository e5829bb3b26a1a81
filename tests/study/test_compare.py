"""``jv.compare``: objects in, the result of a study out, in memory or on disk."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from tests.helpers.small_study import stored

KEY = jax.random.split(jax.random.key(5))[1]  # not the key of a small number
BANDIT = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.3))


class Pull(NamedTuple):
    action: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Always:
    arm: Any

    def init(self):
        return jnp.zeros(())

    def select(self, state, arms, key, side):
        return Pull(jnp.asarray(self.arm, jnp.int32))

    def update(self, state, choice, x, reward, side):
        return state + reward


@dataclasses.dataclass
class Cycle:
    """No pytree."""

    period: int

    def init(self):
        return jnp.int32(0)

    def select(self, state, arms, key, side):
        return Pull(state % self.period)

    def update(self, state, choice, x, reward, side):
        return state + 1


def compare(algorithms, environments=None, **changes):
    given = {"key": KEY, "num_seeds": 4, "num_rounds": 10, "record_at": 2}
    return jv.compare(algorithms, environments or {"bandit": BANDIT}, **{**given, **changes})


def test_the_numbers_are_those_of_simulate_and_everything_follows():
    players = {"first arm": Always(0), "OFUL": jv.oful(2), "half": jv.oful(2, beta_scale=0.5)}
    result = compare(players)
    for cell, player in zip(result.cells, players.values(), strict=True):
        player = Always(jnp.asarray(0)) if isinstance(player, Always) else player
        expected = jv.simulate(player, BANDIT, key=KEY, num_seeds=4, num_rounds=10, record_at=2)
        assert np.array_equal(cell.regret, expected.regret) and np.array_equal(cell.rounds, [5, 10])
    assert [cell.constants for cell in result.cells] == ["none", "theorem", "scaled x0.5"]
    assert result.reference == "first arm" and result.unit == "round" and result.name == "comparison"
    assert "first arm" in jv.tables.final_regret(result).to("latex")


def test_a_folder_is_resumed_extended_and_guarded(tmp_path):
    """The same objects made again are the same; other numbers, or another class of the same name, are not."""
    out = tmp_path / "arms"
    compare({"mine": Always(0)}, out=out)
    before = stored(out)
    compare({"mine": Always(0)}, out=out)
    assert stored(out) == before and jv.load(out).name == "arms"
    more = compare({"mine": Always(0), "other": Always(1)}, out=out, num_seeds=8)
    assert before.items() <= stored(out).items() and len(more.cells[1].seeds) == 8
    with pytest.raises(jv.RunError, match=r"algorithm.object.arm was 0 and is 2"):
        compare({"mine": Always(2), "other": Always(1)}, out=out, num_seeds=8)
    made = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.2))
    with pytest.raises(jv.RunError, match=r"environment.object.noise.schedule.std was 0.3 and is 0.2"):
        compare({"mine": Always(0), "other": Always(1)}, {"bandit": made}, out=out, num_seeds=8)
    config = json.loads(Path(out, "run.json").read_text())["study"]
    with pytest.raises(jv.StudyError, match=r"'.*:Always' was an object in Python"):
        jv.Study.from_config(config)


def test_plain_objects_and_recorders_that_not_all_have(tmp_path):
    with pytest.warns(UserWarning, match="'cycle' on 'bandit': Cycle is no pytree"):
        result = compare(
            {"cycle": Cycle(3), "save": jv.save(2, 10, constants=jv.constants.practical(0.3))},
            recorders=(jv.record.regret(), jv.record.layer_rounds()),
        )
    assert [sorted(cell.records) for cell in result.cells] == [["regret"], ["layer_rounds", "regret"]]
    assert [cell.constants for cell in result.cells] == ["none", "practical, beta_scale 0.3"]


def test_constants_are_told_by_the_objects():
    label = jv.study.factories.constants_of
    assert label(jv.save(2, 10)) == "paper" and label(jv.save(2, 10, constants=jv.constants.tight())) == "tight"
    assert label(jv.ucrl_ave(2, 3, 10, constants=jv.constants.practical())) == "practical"
    assert label(jv.oful(2, fixed_radius=0.5)) == "fixed radius 0.5" and label(jv.uniform()) == "none"
    own = jv.constants.custom("tuned", **{n: 1.0 for n in jv.constants.number_names()})
    assert label(jv.save(2, 10, constants=own)) == "tuned"


MDP = jv.mixture_mdp(num_states=3, num_actions=2, dim=2, horizon=3)
REFUSED = {
    "no algorithm": (({},), {}, r"algorithms must be a dictionary, label -> object, got \{\}"),
    "a list": (([Always(0)],), {}, "algorithms must be a dictionary, label -> object, got .*Always"),
    "a class": (({"mine": Always},), {}, r"algorithms\['mine'\] must be one object in one setting, got <class"),
    "a sweep": (({"o": jv.sweep(jv.oful(2), lam=[1.0])},), {}, r"algorithms\['o'\] must be one object in one setting"),
    "a label": (({"": Always(0)},), {}, "label must not be empty, got ''"),
    "seeds": (({"mine": Always(0)},), {"num_seeds": 0}, "num_seeds must be an integer of at least 1, got 0"),
    "rounds": (({"mine": Always(0)},), {"num_rounds": -1}, "num_rounds must be an integer of at least 1, got -1"),
    "both": (({"mine": Always(0)},), {"num_episodes": 3}, "give num_rounds or num_episodes, got num_rounds=10"),
    "key": (({"mine": Always(0)},), {"key": 3}, "key must be a key as made by jax.random.key"),
    "when": (({"mine": Always(0)},), {"record_at": [11]}, r"record_at must increase strictly within 1..10, got \[11\]"),
    "recorders": (({"mine": Always(0)},), {"recorders": ["regret"]}, "recorders must be from jaxvar.record .*'regret'"),
    "optimism": (
        ({"mine": Always(0)},),
        {"recorders": (jv.record.regret(), jv.record.optimism())},
        "recorders: 'optimism' can be recorded of none",
    ),
    "reference": (({"mine": Always(0)},), {"reference": "min"}, "reference .* 'min'; did you mean 'mine'"),
    "in episodes": (
        ({"mine": Always(0)}, {"mdp": MDP}),
        {},
        "environment 'mdp': .* is played in episodes, got num_rounds",
    ),
    "not for it": (
        ({"mine": Always(0)}, {"mdp": MDP}),
        {"num_rounds": None, "num_episodes": 3},
        "algorithm 'mine': algorithm must have a method 'plan' .*, got Always",
    ),
}


@pytest.mark.parametrize(("args", "options", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_compared_is_refused(args, options, said):
    with pytest.raises(ValueError, match=said):
        compare(*args, **options)


def test_results_as_frames_datasets_and_short_texts(monkeypatch):
    """One row for each label, seed and recorded round; a line or two for people."""
    result = compare({"first": Always(0), "second": Always(1)})
    frame = result.to_pandas()
    names = ["algorithm", "environment", "constants", "seed", "round", "regret", "variance", "status"]
    assert list(frame.columns) == names and len(frame) == 2 * 4 * 2
    row = frame[(frame.algorithm == "second") & (frame.seed == 3) & (frame["round"] == 10)]
    assert row.regret.item() == result.cells[1].regret[3, 1]
    assert float(result.to_xarray().regret.sel(seed=3, round=10)[1]) == row.regret.item()
    assert repr(result).startswith("Study 'comparison': 2 cells, recorded up to round 10: regret, variance")
    assert len(repr(result).splitlines()) == 4 and "second" in repr(result) and len(repr(result.cells)) < 1000
    assert result._repr_html_().count("<tr>") == 3
    swept = jv.simulate(
        jv.sweep(Always(jnp.asarray(0)), arm=[0, 1, 2]), BANDIT, key=KEY, num_seeds=4, num_rounds=10, record_at=2
    )
    frame = swept.to_pandas()
    assert list(frame.columns) == ["arm", "seed", "round", "regret", "variance", "status"] and len(frame) == 3 * 4 * 2
    assert np.array_equal(frame.regret[frame.arm == 1], swept.regret[1].ravel())
    assert swept.to_xarray().regret.sel(cell=1).equals(swept.to_xarray().regret[1])
    assert len(repr(swept).splitlines()) == 5 and "<td>2</td>" in swept._repr_html_()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^pandas is needed for this: pip install pandas$"):
        swept.to_pandas()


def test_constants_by_name():
    """Wherever they are an argument; a wrong name is told the near one."""
    assert jv.save(2, 10, constants="tight").constants.label == "tight"
    named, made = jv.save(2, 10, constants="practical"), jv.save(2, 10, constants=jv.constants.practical())
    assert all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(named), jax.tree.leaves(made), strict=True))
    assert jv.ucrl_ave(2, 3, 10, constants="practical").constants.setting == "episodes"
    with pytest.raises(
        ValueError, match=r"constants must be one of 'paper', .*, got 'practicle'; did you mean 'practical'"
    ):
        jv.lin_vdts(2, 10, constants="practicle")
