"""Studies from Python: what they refuse, what they fill in, and the cells they become."""

import dataclasses
import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings

import jaxvar as jv
from jaxvar import engine, game, random
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.study import factories
from jaxvar.study.cells import canonical, cells, digest, unsupported
from jaxvar.study.definition import Entry, Study
from jaxvar.study.factories import StudyError, build
from tests.helpers.study_strategies import studies

NAN, INF = float("nan"), float("inf")
BANDIT = Entry("linear_bandit", options={"dim": 2, "num_arms": 3})
MDP = Entry("mixture_mdp", options={"num_states": 3, "num_actions": 2, "dim": 2, "horizon": 3})


def study(*algorithms, environments=(BANDIT,), **fields):
    return Study(
        **{"name": "s", "seeds": 4, "rounds": 100, **fields},
        algorithms=algorithms or (Entry("oful"),),
        environments=environments,
    )


def episodic(*algorithms, environments=(MDP,), **fields):
    return study(*algorithms, environments=environments, **{"rounds": None, "episodes": 100, **fields})


def on(**options):
    """A linear bandit with some options changed."""
    return Entry("linear_bandit", options={"dim": 2, "num_arms": 3, **options})


def one_cell(algorithm, environment, make=study, **fields):
    (cell,) = cells(make(algorithm, environments=(environment,), **fields))
    return cell


def same(one, other):
    """Equal pytrees: structure, types and every number."""
    leaves, structure = jax.tree.flatten(one)
    theirs, their_structure = jax.tree.flatten(other)
    assert structure == their_structure
    for x, y in zip(leaves, theirs, strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype and np.array_equal(x, y)
    return True


def test_every_public_factory_has_its_name_and_kind():
    """Found by inspection: nothing is missing that the catalogue of claims or the package knows."""
    algorithms = {name: factories.public_factories()[name].kinds for name in factories.factory_names("algorithm")}
    claimed = {claim.factory: {claim.setting} for claim in CLAIMS}
    assert algorithms == claimed | {"greedy": {"bandit"}, "uniform": {"bandit", "duels", "episodes"}}
    environments = {name: factories.public_factories()[name].kinds for name in factories.factory_names("environment")}
    bandits = {"linear_bandit", "hypercube_bandit", "hypercube_blocks", "replay_bandit", "table_bandit", "data_bandit"}
    bandits |= {"k_armed", "logistic_bandit"}
    assert {name for name, kinds in environments.items() if kinds == {"bandit"}} == bandits
    assert environments["dueling_bandit"] == {"duels"}
    assert environments.keys() - bandits == {
        "dueling_bandit",
        "mixture_mdp",
        "graded_mdp",
        "linear_mdp",
        "riverswim",
        "deep_tree",
        "explicit_mdp",
        "tabular_mdp",
        "kernel_mixture_mdp",
        "horizon_free_mdp",
        "horizon_dependent_mdp",
    }


def test_parts_have_their_names():
    """Noise, schedules, presets and recorders, and nothing beside them."""
    assert set(factories.NOISES) == {
        "two_point",
        "uniform",
        "sparse",
        "clipped_gaussian",
        "gaussian",
        "student_t",
        "pareto",
        "bernoulli",
        "none",
    }
    assert set(factories.SCHEDULES) == {
        "constant",
        "two_level",
        "between",
        "decaying",
        "bursts",
        "by_round",
        "by_arm",
        "each_arm",
        "front_loaded",
    }
    assert set(factories.PRESETS) == {"paper", "paper_fixed", "tight", "sharp", "practical"}
    assert set(factories.RECORDERS) == {
        "simple_regret",
        "regret",
        "variance",
        "layer_rounds",
        "confidence",
        "optimism",
        "value_variance",
    }


def test_no_argument_is_taken_for_a_key_of_the_table():
    """A factory with an argument ``label`` could not be given it."""
    for name, factory in factories.public_factories().items():
        assert not {"name", "label", "record", "sweep"} & set(factory.parameters), name


NEAREST = {
    "algorithm": (lambda: Entry("sav"), "'save'"),
    "argument": (lambda: Entry("save", options={"noise_bond": 1.0}), "'noise_bound'"),
    "preset": (lambda: Entry("save", options={"constants": "practicle"}), "'practical'"),
    "constant": (lambda: Entry("save", options={"constants": {"preset": "paper", "beta_scal": 1.0}}), "'beta_scale'"),
    "noise": (lambda: on(noise={"name": "two_pint", "std": 0.1}), "'two_point'"),
    "noise argument": (lambda: on(noise={"name": "two_point", "stdd": 0.1}), "'std'"),
    "schedule": (lambda: on(noise={"name": "two_point", "std": {"name": "burst", "low": 0.1}}), "'bursts'"),
    "schedule argument": (
        lambda: on(noise={"name": "two_point", "std": {"name": "decaying", "std": 0.1, "powr": 1.0}}),
        "'power'",
    ),
    "swept": (lambda: Entry("save", sweep={"detla": [0.1]}), "'delta'"),
    "swept constant": (lambda: Entry("save", sweep={"constants.beta_scal": [0.1]}), "'beta_scale'"),
    "swept noise": (
        lambda: Entry("linear_bandit", options={"noise": {"name": "sparse", "std": 0.1}}, sweep={"noise.bond": [1.0]}),
        "'bound'",
    ),
    "recorder": (lambda: study(record=["regret", "varance"]), "'variance'"),
    "own recorder": (lambda: Entry("oful", record=["regret", "confidense"]), "'confidence'"),
    "reference": (lambda: study(reference="ofull"), "'oful'"),
    "precision": (lambda: study(precision="float46"), "'float64'"),
    "spacing": (lambda: study(records={"spacing": "lgo", "number": 9}), "'log'"),
    "records": (lambda: study(records={"spacing": "log", "numbr": 9}), "'number'"),
    "study": (lambda: Study.from_config({"nmae": "s"}), "'name'"),
    "table": (
        lambda: Study.from_config({"name": "s", "seeds": 1, "algorithm": [{"name": "oful", "lable": "x"}]}),
        "'label'",
    ),
}


@pytest.mark.parametrize(("make", "right"), NEAREST.values(), ids=NEAREST.keys())
def test_misspelt_names_are_refused_with_the_nearest_right_one(make, right):
    """The commonest slip of all."""
    with pytest.raises(StudyError, match=f"did you mean {right}"):
        make()


def test_words_that_resemble_nothing_get_the_whole_list():
    """There is no nearest one to guess."""
    with pytest.raises(StudyError, match="there are bernoulli, clipped_gaussian, gaussian, none"):
        on(noise={"name": "qqqqqq"})


MANY = list(range(1, 400))
REFUSED = {
    "seeds zero": ({"seeds": 0}, "seeds", ("seeds",)),
    "seeds flag": ({"seeds": True}, "seeds", ("seeds",)),
    "seeds fraction": ({"seeds": 4.0}, "seeds", ("seeds",)),
    "seeds beyond int32": ({"seeds": 2**31}, "seeds", ("seeds",)),
    "last seed beyond int32": ({"first_seed": 2**31 - 4}, "first_seed", ("first_seed",)),
    "first seed": ({"first_seed": -1}, "first_seed", ("first_seed",)),
    "rounds": ({"rounds": 2**31}, "rounds", ("rounds",)),
    "rounds flag": ({"rounds": True}, "rounds", ("rounds",)),
    "rounds text": ({"rounds": "100"}, "rounds", ("rounds",)),
    "neither": ({"rounds": None}, "neither", ("episodes",)),
    "both": ({"episodes": 10}, "both", ("episodes",)),
    "too many numbers": ({"seeds": 2**30, "records": 3}, "seeds times records", ("records",)),
    "records zero": ({"records": 0}, "records", ("records",)),
    "records flag": ({"records": True}, "records", ("records",)),
    "records beyond": ({"records": [1, 101]}, "records", ("records",)),
    "records more than rounds": ({"records": 101}, "records", ("records",)),
    "records not increasing": ({"records": [5, 5]}, "records", ("records",)),
    "records fractions": ({"records": [1.0, 2.0]}, "records", ("records",)),
    "records incomplete": ({"records": {"spacing": "log"}}, "number", ("records",)),
    "records one of log": ({"records": {"spacing": "log", "number": 1}}, "number", ("records",)),
    "records text": ({"records": {"spacing": "log", "number": "9"}}, "number", ("records", "number")),
    "record empty": ({"record": []}, "record", ("record",)),
    "record text": ({"record": "regret"}, "record", ("record",)),
    "record twice": ({"record": ["regret", "regret"]}, "twice", ("record",)),
    "record without regret": ({"record": ["variance"]}, "regret", ("record",)),
    "key": ({"key": -1}, "key", ("key",)),
    "key fraction": ({"key": 0.0}, "key", ("key",)),
    "key beyond": ({"key": 2**64}, "key", ("key",)),
    "chunk": ({"chunk": 0}, "chunk", ("chunk",)),
    "name empty": ({"name": " "}, "name", ("name",)),
    "name with a slash": ({"name": "a/b"}, "name", ("name",)),
    "name of a parent folder": ({"name": ".."}, "name", ("name",)),
    "name with a control character": ({"name": "a\x00b"}, "name", ("name",)),
    "name a number": ({"name": 3}, "name", ("name",)),
    "question": ({"question": "a\x07"}, "question", ("question",)),
    "question too long": ({"question": "a" * 2001}, "question", ("question",)),
    "no algorithms": ({"algorithms": ()}, "algorithms", ("algorithm",)),
    "no environments": ({"environments": ()}, "environments", ("environment",)),
    "algorithm a name": ({"algorithms": ("oful",)}, "Entry", ("algorithm", 0)),
    "environment as algorithm": (
        {"algorithms": (BANDIT,)},
        "'linear_bandit' is an environment",
        ("algorithm", 0, "name"),
    ),
    "algorithm as environment": (
        {"environments": (Entry("oful"),)},
        "'oful' is an algorithm",
        ("environment", 0, "name"),
    ),
    "labels": ({"algorithms": (Entry("oful"), Entry("greedy", label="oful"))}, "labels", ("algorithm", 1, "label")),
    "bandit algorithm wanted": (
        {"algorithms": (Entry("oful"), Entry("ucrl_ave"))},
        "episodes",
        ("algorithm", 1, "name"),
    ),
    "mixed environments": ({"environments": (BANDIT, MDP)}, "episodes", ("environment", 1, "name")),
    "too many cells": (
        {"algorithms": (Entry("oful", sweep={"delta": [i / 401 for i in MANY], "lam": MANY}),)},
        "159,201",
        (),
    ),
    "equal cells": (
        {"algorithms": (Entry("oful"), Entry("oful", label="b", options={"delta": 0.01}))},
        "'oful'.*'b'",
        (),
    ),
    "value": (
        {"algorithms": (Entry("oful", options={"delta": 2.0}),)},
        "algorithm 'oful': delta",
        ("algorithm", 0, "delta"),
    ),
    "swept value": (
        {"algorithms": (Entry("oful", label="x", sweep={"lam": [1.0, -1.0]}),)},
        "'x' with lam = -1.0: lam",
        ("algorithm", 0, "sweep", "lam"),
    ),
    "missing": ({"algorithms": (Entry("cw_oful"),)}, "threshold must be given", ("algorithm", 0)),
    "missing size": ({"environments": (Entry("linear_bandit"),)}, "dim", ("environment", 0)),
    "noise value": (
        {"environments": (on(noise={"name": "two_point", "std": -1.0}),)},
        "noise: std",
        ("environment", 0, "noise", "std"),
    ),
    "schedule value": (
        {"environments": (on(noise={"name": "two_point", "std": {"name": "decaying", "std": 0.1, "power": -1}}),)},
        "std: power",
        ("environment", 0, "noise", "std", "power"),
    ),
    "swept noise value": (
        {
            "environments": (
                Entry(
                    "linear_bandit",
                    options={"dim": 2, "num_arms": 2, "noise": {"name": "two_point"}},
                    sweep={"noise.std": [0.1, -0.1]},
                ),
            )
        },
        "noise.std = -0.1",
        ("environment", 0, "sweep", "noise.std"),
    ),
    "dim contradicts": (
        {"algorithms": (Entry("oful", options={"dim": 3}),)},
        "dim 3 contradicts.*dim 2",
        ("algorithm", 0, "dim"),
    ),
    "swept dim contradicts": (
        {"algorithms": (Entry("oful", sweep={"dim": [2, 3]}),)},
        "dim 3 contr",
        ("algorithm", 0, "sweep", "dim"),
    ),
    "too few rounds given": (
        {"environments": (on(noise={"name": "two_point", "std": {"name": "by_round", "std": [0.1] * 99}}),)},
        "99 rounds",
        ("environment", 0),
    ),
    "recorder": ({"record": ["regret", "layer_rounds"]}, "layer_rounds.*no layers.*of its own", ("algorithm", 0)),
    "own recorder": (
        {"algorithms": (Entry("uniform", record=["regret", "confidence"]),)},
        "confidence",
        ("algorithm", 0, "record"),
    ),
    "recorder of episodes": ({"record": ["regret", "optimism"]}, "episodes", ("algorithm", 0)),
}


@pytest.mark.parametrize(("fields", "message", "where"), REFUSED.values(), ids=REFUSED.keys())
def test_studies_refuse(fields, message, where):
    """Each with what is wrong, and where."""
    good = {"name": "s", "seeds": 4, "rounds": 100, "algorithms": (Entry("oful"),), "environments": (BANDIT,)}
    with pytest.raises(StudyError, match=message) as refused:
        Study(**{**good, **fields})
    assert refused.value.where == where


DEEP: list = [1.0]
for _ in range(10):
    DEEP = [DEEP]
REFUSED_ENTRIES = {
    "name a number": (("name",), lambda: Entry(3)),
    "empty label": (("label",), lambda: Entry("oful", label="")),
    "blank label": (("label",), lambda: Entry("oful", label=" \u00a0")),
    "long label": (("label",), lambda: Entry("oful", label="x" * 201)),
    "label a number": (("label",), lambda: Entry("oful", label=7)),
    "control character": (("label",), lambda: Entry("oful", label="a\nb")),
    "escape sequence": (("label",), lambda: Entry("oful", label="\x1b[31mred")),
    "line separator": (("label",), lambda: Entry("oful", label="a\u2028b")),
    "half a character": (("label",), lambda: Entry("oful", label="\ud800")),
    "nan": (("delta",), lambda: Entry("oful", options={"delta": NAN})),
    "inf": (("delta",), lambda: Entry("oful", options={"delta": INF})),
    "nan in a list": (("arms",), lambda: on(arms=[[NAN, 0.0]] * 3)),
    "swept nan": (("sweep", "delta"), lambda: Entry("oful", sweep={"delta": [0.1, NAN]})),
    "nothing": (("delta",), lambda: Entry("oful", options={"delta": None})),
    "an object": (("noise",), lambda: on(noise=jv.noise.two_point(0.1))),
    "complex": (("delta",), lambda: Entry("oful", options={"delta": 1j})),
    "huge": (("delta",), lambda: Entry("oful", options={"delta": 10**400})),
    "flag for a number": (("delta",), lambda: Entry("oful", options={"delta": True})),
    "flag for a size": (("dim",), lambda: on(dim=True)),
    "fraction for a size": (("dim",), lambda: on(dim=2.0)),
    "number for a flag": (("fresh",), lambda: on(fresh=1)),
    "text for a flag": (("fresh",), lambda: on(fresh="true")),
    "number for a word": (("ties",), lambda: Entry("oful", options={"ties": 1})),
    "mixed list": (("arms",), lambda: on(arms=[[True, 0.0], [0.5, 0.5]])),
    "too deep": (("arms",), lambda: on(arms=DEEP)),
    "table for a number": (("delta",), lambda: Entry("oful", options={"delta": {"name": "two_point"}})),
    "table without a name": (("noise",), lambda: on(noise={"std": 0.1})),
    "noise without its std": (("noise",), lambda: on(noise={"name": "two_point"})),
    "schedule within a schedule": (
        ("noise", "std", "std"),
        lambda: on(noise={"name": "two_point", "std": {"name": "constant", "std": {"name": "constant"}}}),
    ),
    "preset a number": (("constants",), lambda: Entry("save", options={"constants": 1.0})),
    "negative constant": (("constants", "switch"), lambda: Entry("save", options={"constants": {"switch": -1.0}})),
    "flag for a constant": (("constants", "switch"), lambda: Entry("save", options={"constants": {"switch": True}})),
    "options a list": ((), lambda: Entry("save", options=[1])),
    "key a number": ((3,), lambda: Entry("save", options={3: 1})),
    "sweep a list": (("sweep",), lambda: Entry("save", sweep=[1])),
    "sweep of one number": (("sweep", "delta"), lambda: Entry("save", sweep={"delta": 0.1})),
    "sweep of a word": (("sweep", "ties"), lambda: Entry("save", sweep={"ties": "random"})),
    "empty sweep": (("sweep", "delta"), lambda: Entry("save", sweep={"delta": []})),
    "value twice": (("sweep", "lam"), lambda: Entry("oful", sweep={"lam": [1, 2.0, 1.0]})),
    "path twice": (
        ("sweep", "constants"),
        lambda: Entry("save", sweep={"constants.switch": [1.0], "constants": ["paper"]}),
    ),
    "path through a number": (
        ("sweep", "delta.x"),
        lambda: Entry("save", options={"delta": 0.1}, sweep={"delta.x": [1.0]}),
    ),
    "path with a hole": (("sweep", "constants."), lambda: Entry("save", sweep={"constants.": [1.0]})),
    "wrong first value": (
        ("sweep", "dim"),
        lambda: Entry("linear_bandit", options={"num_arms": 2}, sweep={"dim": [2.5]}),
    ),
    "environment that records": (("record",), lambda: Entry("riverswim", record=["regret"])),
}


@pytest.mark.parametrize(("where", "make"), REFUSED_ENTRIES.values(), ids=REFUSED_ENTRIES.keys())
def test_entries_refuse(where, make):
    """Before a study is made of them."""
    with pytest.raises(StudyError) as refused:
        make()
    assert refused.value.where == where


@pytest.mark.parametrize("sweep", [{"fresh": [True, 1]}, {"dim": [2, 3.0]}, {"noise.std": [0.1, True]}], ids=str)
def test_later_values_of_a_sweep_are_looked_at_too(sweep):
    """A wrong type in the second place must not wait for its turn."""
    noisy = {"dim": 2, "num_arms": 3, "noise": {"name": "two_point", "std": 0.1}}
    with pytest.raises(StudyError) as refused:
        study(environments=(Entry("linear_bandit", options=noisy, sweep=sweep),))
    assert refused.value.where == ("environment", 0, "sweep", *sweep)


def test_a_table_that_is_too_large_is_an_error_and_no_crash():
    """No memory has room for tables of 10^16 numbers."""
    with pytest.raises(StudyError, match="num_states must be smaller"):
        episodic(Entry("uniform"), environments=(Entry("riverswim", options={"num_states": 4 * 10**7}),))


@pytest.mark.parametrize(
    "label", ["<script>alert(1)</script>", "\"'`&;", "../../etc/passwd", "شبكة", "a\u202eb", "β̂ = 0.3 ⚙", "x" * 200]
)
def test_labels_may_be_any_text(label):
    """They are escaped where they are shown, and never become the name of a file."""
    cell = one_cell(Entry("oful", label=label), BANDIT)
    assert cell.algorithm_label == label
    assert label not in json.dumps(cell.config, ensure_ascii=False)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(studies())
def test_config_makes_the_same_study_again(one):
    """Through JSON text, as it is stored beside results; types included."""
    config = one.to_config()
    again = Study.from_config(json.loads(json.dumps(config)))
    assert again == one
    assert json.dumps(again.to_config()) == json.dumps(config)
    assert [c.hash for c in cells(again)] == [c.hash for c in cells(one)]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(studies())
def test_cells_are_numbered_and_all_different(one):
    """As many as the product of the sweeps, and one hash each."""
    found = cells(one)
    expected = [len(list(_product(e))) for e in (one.algorithms[0], one.environments[0])]
    assert len(found) == expected[0] * expected[1]
    assert len({c.hash for c in found}) == len(found)
    for cell in found:
        assert json.loads(json.dumps(cell.config)) == cell.config


def _product(entry):
    points = [{}]
    for path, values in entry.sweep.items():
        points = [{**point, path: value} for point in points for value in values]
    return points


def test_a_study_keeps_nothing_of_its_callers():
    """What is checked stays checked."""
    options, arms = {"dim": 2, "num_arms": 2}, [[1.0, 0.0], [0.0, 1.0]]
    options["arms"] = arms
    entry = Entry("linear_bandit", options=options)
    arms[0][0] = NAN
    options["dim"] = -1
    assert entry.options == {"dim": 2, "num_arms": 2, "arms": ((1.0, 0.0), (0.0, 1.0))}
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.name = "oful"


def test_numpy_values_are_plain_numbers():
    """NumPy arrays and scalars from a script mean what lists and numbers mean in TOML."""
    numpy = Entry(
        "linear_bandit",
        options={"arms": np.eye(2), "norm_bound": np.float64(2.0)},
        sweep={"noise": [{"name": "sparse", "std": np.float32(0.5)}]},
    )
    plain = Entry(
        "linear_bandit",
        options={"arms": [[1.0, 0.0], [0.0, 1.0]], "norm_bound": 2.0},
        sweep={"noise": [{"name": "sparse", "std": 0.5}]},
    )
    assert numpy == plain
    assert json.dumps(numpy.to_config()) == json.dumps(plain.to_config())
    assert Entry("oful", sweep={"delta": np.array([0.1, 0.2])}).sweep == {"delta": (0.1, 0.2)}
    assert study(seeds=np.int64(4), records=np.array([1, 5])).records == (1, 5)


def test_replaced_fields_are_checked_again():
    """A command line changes seeds and rounds in this way."""
    assert dataclasses.replace(study(), seeds=9).seeds == 9
    with pytest.raises(StudyError, match="rounds"):
        dataclasses.replace(study(), rounds=0)


def test_sizes_come_from_the_study_and_the_environment():
    """dim, num_rounds and norm_bound are what the environment and the study say; noise_bound is not touched."""
    cell = one_cell(Entry("weighted_oful_plus"), on(norm_bound=2.0), rounds=700)
    assert same(cell.algorithm, jv.weighted_oful_plus(2, 700, norm_bound=2.0))
    cell = one_cell(Entry("ucrl_ave"), MDP, episodic)
    assert same(
        cell.algorithm, jv.ucrl_ave(2, 3, 100, norm_bound=np.sqrt(2), constants=jv.constants.paper(setting="episodes"))
    )
    cell = one_cell(Entry("oful"), on(noise={"name": "two_point", "std": 0.1}))
    assert same(cell.algorithm, jv.oful(2))


def test_given_arguments_win():
    """The K inside a logarithm need not be the rounds played."""
    cell = one_cell(Entry("save", options={"num_rounds": 10**6}), BANDIT)
    assert float(cell.algorithm.num_rounds) == 10**6
    assert same(one_cell(Entry("oful", options={"norm_bound": 3.0}), BANDIT).algorithm, jv.oful(2, norm_bound=3.0))


def test_environments_are_filled_in_too():
    """The lower-bound instances are made for the rounds or episodes that are played, unless their gap is given."""
    assert same(
        one_cell(Entry("uniform"), Entry("hypercube_bandit", options={"cube_dim": 2})).environment,
        jv.hypercube_bandit(2, 100),
    )
    hard = Entry("horizon_free_mdp", options={"dim": 3, "horizon": 4})
    assert same(one_cell(Entry("uniform"), hard, episodic).environment, jv.horizon_free_mdp(3, 4, num_episodes=100))
    gap = Entry("horizon_free_mdp", options={"dim": 3, "horizon": 4, "gap": 0.05})
    assert same(one_cell(Entry("uniform"), gap, episodic).environment, jv.horizon_free_mdp(3, 4, gap=0.05))


def test_arrays_are_lists_of_lists():
    """Given arms, played-back rounds and whole models."""
    arms = [[0.6, 0.8], [1.0, 0.0]]
    cell = one_cell(Entry("oful"), Entry("linear_bandit", options={"arms": arms}))
    assert same(cell.environment, jv.linear_bandit(arms=np.array(arms)))
    assert cell.algorithm.dim == 2
    played = {"arms": arms, "means": [0.1, 0.2], "noise": [0.0] * 100}
    cell = one_cell(Entry("oful"), Entry("replay_bandit", options=played))
    assert same(cell.environment, jv.replay_bandit(**played)) and cell.algorithm.dim == 2
    with pytest.raises(StudyError, match="theta_star"):
        one_cell(Entry("oful", record=["regret", "confidence"]), Entry("replay_bandit", options=played))
    river = jv.riverswim(3, 4)
    model = {"phi": river.phi, "reward": river.reward, "theta_star": river.theta_star, "horizon": 4}
    cell = one_cell(Entry("ucrl_vtr"), Entry("explicit_mdp", options=model), episodic)
    assert same(cell.environment, river)
    assert same(cell.algorithm, jv.ucrl_vtr(3, 4, norm_bound=float(river.norm_bound)))


def test_data_has_its_name():
    """The task is an argument like others, and the algorithm is told the sizes."""
    cell = one_cell(Entry("oful"), Entry("data_bandit", options={"task": "wine"}))
    assert same(cell.environment, jv.data_bandit("wine")) and cell.algorithm.dim == 27
    with pytest.raises(StudyError, match="task must be one of 'digits'"):
        one_cell(Entry("oful"), Entry("data_bandit", options={"task": "iris"}))


def test_noise_is_built_with_its_schedule():
    """A table in a table."""
    noise = {
        "name": "sparse",
        "std": {"name": "bursts", "low": 0.1, "high": 0.4, "period": 9, "length": 2},
        "bound": 2.0,
    }
    expected = jv.noise.sparse(jv.schedules.bursts(0.1, 0.4, 9, 2), 2.0)
    assert same(one_cell(Entry("oful"), on(noise=noise)).environment, jv.linear_bandit(2, 3, noise=expected))


CONSTANTS = {
    "default": ("save", {}, "paper", lambda: jv.constants.paper()),
    "preset": ("save", {"constants": "tight"}, "tight", lambda: jv.constants.tight()),
    "scaled": ("save", {"constants": {"beta_scale": 0.3}}, "paper, beta_scale 0.3", lambda: jv.constants.paper(0.3)),
    "changed": (
        "ave_ucb",
        {"constants": {"preset": "practical", "emp_coef": 4.0}},
        "practical, emp_coef 4",
        lambda: dataclasses.replace(jv.constants.practical(), emp_coef=np.float64(4.0)),
    ),
    "theorem": ("oful", {}, "theorem", None),
    "multiplied": ("oful", {"beta_scale": 0.25}, "scaled x0.25", None),
    "fixed": ("oful", {"fixed_radius": 0.5}, "fixed radius 0.5", None),
    "none": ("greedy", {}, "none", None),
    "nothing": ("uniform", {}, "none", None),
}


@pytest.mark.parametrize(("name", "options", "label", "expected"), CONSTANTS.values(), ids=CONSTANTS.keys())
def test_constants_are_labelled_and_built(name, options, label, expected):
    """Every figure says which constants were used; a changed number must not hide behind a preset's name."""
    cell = one_cell(Entry(name, options=options), BANDIT)
    assert cell.constants == label
    if expected is not None:
        assert same(cell.algorithm.constants, expected())


def test_presets_for_episodes_are_those_printed_for_episodes():
    """The same name means other numbers there."""
    cell = one_cell(Entry("ucrl_ave", options={"constants": "practical"}), MDP, episodic)
    assert same(cell.algorithm.constants, jv.constants.practical(setting="episodes"))
    assert cell.config["algorithm"]["constants"]["beta_scale"] != jv.constants.practical().beta_scale


def test_sweeps_are_products_in_order():
    """Environments and their settings outermost, then algorithms, then their settings; the last path fastest."""
    one = Entry("oful", sweep={"lam": [1.0, 2.0], "ties": ["random", "lowest"]})
    noisy = Entry(
        "linear_bandit",
        options={"num_arms": 3, "noise": {"name": "two_point", "std": 0.5}},
        sweep={"dim": [2, 4], "noise.std": [0.0, 0.1]},
    )
    found = cells(study(one, Entry("greedy"), environments=(noisy, Entry("hypercube_bandit", options={"cube_dim": 1}))))
    of_oful = [{"lam": lam, "ties": ties} for lam in (1.0, 2.0) for ties in ("random", "lowest")]
    of_noisy = [{"dim": dim, "noise.std": std} for dim in (2, 4) for std in (0.0, 0.1)]
    expected = [
        (label, setting, name, own)
        for label, points in (("linear_bandit", of_noisy), ("hypercube_bandit", [{}]))
        for setting in points
        for name, mine in (("oful", of_oful), ("greedy", [{}]))
        for own in mine
    ]
    assert [
        (c.environment_label, c.environment_settings, c.algorithm_label, c.algorithm_settings) for c in found
    ] == expected
    for cell in found:
        if cell.environment_label == "linear_bandit":
            assert cell.environment.dim == cell.algorithm.dim == cell.environment_settings["dim"]
            assert float(cell.environment.noise.schedule.std) == cell.environment_settings["noise.std"]
    assert noisy.options["noise"]["std"] == 0.5  # what is swept is put into a copy


def test_sweeps_reach_structure_of_models():
    """States and horizon; the algorithm follows."""
    swept = Entry("mixture_mdp", options=MDP.options, sweep={"horizon": [2, 5], "num_states": [3, 4]})
    found = cells(episodic(Entry("ucrl_vtr_plus"), environments=(swept,)))
    assert [(c.environment.horizon, c.environment.num_states) for c in found] == [(2, 3), (2, 4), (5, 3), (5, 4)]
    assert all(c.algorithm.horizon == c.environment.horizon for c in found)


def test_sweeps_reach_constants_and_schedules():
    """Also where the constants are a word, or not given at all; and presets, noise and schedules can be swept whole."""
    for preset, constants in (
        ("paper", {}),
        ("practical", {"constants": "practical"}),
        ("tight", {"constants": {"preset": "tight", "beta_scale": 9.0}}),
    ):
        found = cells(study(Entry("save", options=constants, sweep={"constants.beta_scale": [0.1, 0.3]})))
        assert [float(c.algorithm.constants.beta_scale) for c in found] == [0.1, 0.3]
        assert [c.constants for c in found] == [f"{preset}, beta_scale 0.1", f"{preset}, beta_scale 0.3"]
        assert {c.algorithm.constants.label for c in found} == {preset}
    presets = cells(study(Entry("save", sweep={"constants": ["paper", {"preset": "tight", "switch": 0.0}]})))
    assert [c.constants for c in presets] == ["paper", "tight, switch 0"]
    decaying = {"name": "decaying", "std": 0.5, "power": 1.0}
    swept = Entry(
        "linear_bandit",
        options={"dim": 2, "num_arms": 3, "noise": {"name": "two_point", "std": decaying}},
        sweep={"noise": {"std": {"power": [0.5, 1.0]}, "name": ["uniform"]}},
    )
    assert swept.sweep == {"noise.std.power": (0.5, 1.0), "noise.name": ("uniform",)}
    found = cells(study(environments=(swept,)))
    assert [float(c.environment.noise.schedule.power) for c in found] == [0.5, 1.0]
    assert all(isinstance(c.environment.noise, type(jv.noise.uniform(0.1))) for c in found)


def test_hashes_depend_on_what_is_run_and_on_nothing_else():
    """Labels, defaults written out, and the way a number is written do not matter; any argument does."""
    base = one_cell(Entry("save"), BANDIT).hash
    same_cell = Entry(
        "save",
        label="other",
        options={"ties": "random", "delta": 0.01, "noise_bound": 1, "constants": "paper"},
        record=["regret", "variance"],
    )
    renamed = Entry("linear_bandit", label="x", options={"num_arms": 3, "dim": 2, "fresh": False})
    assert one_cell(same_cell, renamed, seeds=9, question="?").hash == base
    for changed in ({"key": 5}, {"precision": "float32"}, {"record": ["regret"]}):
        assert one_cell(Entry("save"), BANDIT, **changed).hash != base
    for options in ({"delta": 0.02}, {"explore": "first"}, {"constants": {"switch": 1.0}}):
        assert one_cell(Entry("save", options=options), BANDIT).hash != base
    assert one_cell(Entry("save"), on(fresh=True)).hash != base
    assert one_cell(Entry("save"), BANDIT, rounds=101).hash != base  # SAVE's constants depend on the rounds
    assert one_cell(Entry("oful"), BANDIT, rounds=101).hash == one_cell(Entry("oful"), BANDIT).hash


def test_hashes_are_the_same_in_every_process():
    """They name folders: no randomised hash may enter."""
    config = json.dumps(study(Entry("save")).to_config())
    lines = (
        "import jaxvar, json",
        f"study = jaxvar.Study.from_config(json.loads({config!r}))",
        "print(jaxvar.study.cells.cells(study)[0].hash)",
    )
    out = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert out.stdout.split() == [one_cell(Entry("save"), BANDIT).hash]


def test_canonical_text():
    """Sorted keys, shortest floats that read back, whole floats as integers; true is not 1."""
    assert (
        canonical({"b": 0.1, "a": (1.0, True, None, -0.0, 1e300, "ü")})
        == '{"a":[1,true,null,0,1e+300,"\\u00fc"],"b":0.1}'
    )
    assert digest({"a": 1}) == digest({"a": 1.0}) != digest({"a": True})
    assert digest({}) == "44136fa355b3678a1146"  # sha256 of "{}"
    with pytest.raises(ValueError, match=r"nan|Out of range"):
        canonical(NAN)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_cells_are_built_in_the_study_s_precision(precision):
    """Whatever the session's is, which stays as it was."""
    for outside in (True, False):
        with jax.enable_x64(outside):
            cell = one_cell(Entry("save"), on(noise={"name": "two_point", "std": 0.1}), precision=precision)
            assert bool(jax.config.jax_enable_x64) == outside
        leaves = jax.tree.leaves((cell.algorithm, cell.environment))
        assert {np.asarray(x).dtype for x in leaves} == {np.dtype(precision)}
        assert cell.config["environment"]["noise"]["std"] == 0.1


def test_recorded_rounds():
    """What each way of writing them means."""
    assert study().recorded.tolist() == list(range(1, 101))
    assert study(records=4).recorded.tolist() == [25, 50, 75, 100]
    assert study(records=[3, 70]).recorded.tolist() == [3, 70]
    assert study(records={"spacing": "linear", "number": 4}).recorded.tolist() == [25, 50, 75, 100]
    assert study(records={"spacing": "log", "number": 3}).recorded.tolist() == [1, 10, 100]


def test_own_records_replace_the_study_s():
    """An entry says what its algorithm can serve."""
    found = cells(study(Entry("save"), Entry("uniform", record=["regret"]), record=["regret", "layer_rounds"]))
    assert [c.record for c in found] == [("regret", "layer_rounds"), ("regret",)]
    assert [r.name for r in found[0].recorders] == ["regret", "layer_rounds"]


def _traces(algorithm, environment, recorders):
    """Whether one round or episode with these recorders can be traced."""
    made = tuple(factories.RECORDERS[name].call() for name in recorders)

    def play(words, seed):
        rules = engine.game_of(environment)
        fixed, carry = rules.begin(algorithm, environment, game.seed_keys(words, seed), made)
        return game.read(made, rules.step(algorithm, environment, made, fixed, carry, jax.numpy.int32(1))[0])

    try:
        jax.eval_shape(play, random.key_words(jax.random.key(0)), jax.numpy.int32(0))
    except ValueError:
        return False
    return True


QUICK = ("oful", "uniform", "ucrl_vtr")
SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in factories.factory_names("algorithm") if n not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_support_is_known_without_tracing(name):
    """What is said beforehand is what tracing finds."""
    factory = factories.public_factories()[name]
    known = {"dim": 2, "num_arms": 3, "horizon": 3, "num_rounds": 100, "num_episodes": 100, "norm_bound": 2.0}
    algorithm = build(factory, {"threshold": 0.5} if name == "cw_oful" else {}, known).target
    problems = {
        "bandit": jv.linear_bandit(2, 3),
        "duels": jv.dueling_bandit(2, 3),
        "episodes": jv.mixture_mdp(3, 2, 2, 3),
    }
    for kind in factory.kinds:
        refused = {r for r in factories.RECORDERS if unsupported(r, algorithm, problems[kind])}
        assert _traces(algorithm, problems[kind], [r for r in factories.RECORDERS if r not in refused])
        for recorder in refused - {"layer_rounds"}:  # which could be traced, but would count one layer that is none
            assert not _traces(algorithm, problems[kind], [recorder])


def test_headline_has_the_objects_one_would_write_by_hand():
    """Fails if the study that README and figures stand on plays other algorithms, constants or noise than it says."""
    study = dataclasses.replace(jv.read_study("headline"), rounds=300)
    assert np.array_equal(study.recorded, jv.log_spaced(300, 60)) and study.key == 0
    told = {"noise_bound": 1.0, "delta": 0.01}
    practical = jv.constants.practical()
    expected = {
        "SAVE (paper constants)": jv.save(5, 300, **told),
        "SAVE (practical)": jv.save(5, 300, constants=practical, explore="optimistic", **told),
        "AVE-UCB (practical)": jv.ave_ucb(5, 300, constants=practical, **told),
        "OFUL (theorem)": jv.oful(5, **told),
        "Weighted OFUL+ (theorem)": jv.weighted_oful_plus(5, 300, **told),
        "Greedy": jv.greedy(5),
    }
    found = cells(study)
    assert tuple(dict.fromkeys(c.environment_settings["noise.std"] for c in found)) == (0.0, 0.1, 0.3, 1.0)
    assert len(found) == 4 * len(expected)
    for cell in found:
        noise = jv.noise.two_point(cell.environment_settings["noise.std"])
        assert same(cell.algorithm, expected[cell.algorithm_label])
        assert same(cell.environment, jv.linear_bandit(5, 20, noise=noise))


@pytest.mark.parametrize("name", ["headline", "episodes", "quick"])
def test_named_studies_can_be_traced(name):
    """Every algorithm with the recorders it is given."""
    first = {cell.algorithm_label: cell for cell in reversed(cells(jv.read_study(name)))}
    for cell in first.values():
        assert _traces(cell.algorithm, cell.environment, cell.record), cell.title


@pytest.mark.slow
def test_cells_are_what_simulate_takes():
    """Built by name, they play as if built by hand."""
    quick = jv.read_study("quick")
    by_hand = {
        "SAVE (practical)": jv.save(3, 500, constants=jv.constants.practical(), explore="optimistic"),
        "OFUL (theorem)": jv.oful(3),
    }
    environment = jv.linear_bandit(3, 10, noise=jv.noise.two_point(0.1))
    for cell in cells(quick):
        shared = {"key": jax.random.key(quick.key), "num_rounds": 500, "num_seeds": 4, "record_at": quick.recorded}
        out = jv.simulate(cell.algorithm, cell.environment, recorders=cell.recorders, **shared)
        out.raise_if_failed()
        assert np.array_equal(out.regret, jv.simulate(by_hand[cell.algorithm_label], environment, **shared).regret)


def test_episodes_study_is_one():
    """UCRL-AVE with practical constants beside its rivals."""
    found = cells(jv.read_study("episodes"))
    assert [c.constants for c in found] == [
        "practical",
        "practical, beta_scale 0.01",
        "theorem",
        "scaled x0.01",
        "theorem",
        "scaled x0.01",
    ]
    assert {c.config["algorithm"]["norm_bound"] for c in found} == {2.0}  # sqrt(4), from the environment
