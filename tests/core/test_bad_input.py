"""Bad input is refused where it enters: a ValueError that names the argument, before anything is compiled.

What is declared is tried from its declaration, for every factory there is; by hand stands only what nothing declares.
"""

import dataclasses
import inspect
import re

import jax
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import engine
from jaxvar.study import factories
from tests.helpers import arguments as examples
from tests.helpers import cases as table

KEY = jax.random.key(0)
NAN, INF = float("nan"), float("inf")
NOT_A_NUMBER = [NAN, INF, -INF, "a", "0.5", 1j, True, [0.5], np.zeros(2), np.eye(2)]
BAD_NUMBER = [*NOT_A_NUMBER, None, [[1], [1, 2]]]
NOT_POSITIVE = [0.0, -1.0, *BAD_NUMBER]
NOT_COUNT = [0, -1, 1.5, NAN, "2", [2], True]
BAD_ARMS = [
    np.zeros((0, 2)),
    np.zeros((3, 0)),
    np.zeros(3),
    np.zeros((2, 2, 2, 2)),
    [[NAN, 0.0]],
    [[0.0, INF]],
    [["a", "b"]],
    [[1j, 0.0]],
    [[0.1], [0.1, 0.2]],
]

ALGORITHM = jv.greedy(2)
ENVIRONMENT = jv.linear_bandit(2, 3)


def forbid_programs(monkeypatch):
    """Let the simulator's program be out of reach."""

    def reached(*args, **kwargs):
        raise AssertionError("a program was reached")

    for method in ("play", "advance", "compile"):
        monkeypatch.setattr(engine.Program, method, reached)
    monkeypatch.setattr(engine, "play_rounds", reached)


@pytest.fixture(autouse=True)
def nothing_is_played(monkeypatch):
    """Bad input must not get as far as a program."""
    forbid_programs(monkeypatch)


# --- declared parameters ---

FACTORIES = {name: factory.call for name, factory in factories.public_factories().items()}
FACTORIES |= {f"noise.{name}": factory.call for name, factory in factories.NOISES.items()}
FACTORIES |= {f"schedules.{name}": factory.call for name, factory in factories.SCHEDULES.items()}
# What an environment needs and does not declare, and what keeps one argument from being refused for another.
NEEDED = {
    "explicit_mdp": table.EXPLICIT,
    "kernel_mixture_mdp": table.KERNEL_MIXTURE,
    "tabular_mdp": table.TABULAR,
    "linear_mdp": table.LINEAR,
    "hypercube_blocks": {"levels": [0.5, 1.0]},
    "dueling_bandit": {"num_arms": 3},
    "k_armed": {"means": [0.5, 2.0, 0.1]},
    "linear_bandit": {"num_arms": 3},
    "logistic_bandit": {"num_arms": 3},
    "data_bandit": {"task": "wine"},
    "table_bandit": table.TABLE,
    "replay_bandit": {"arms": np.zeros((5, 3, 2)), "means": np.zeros((5, 3)), "noise": np.zeros(5)},
    "schedules.bursts": {"low": 0.1, "high": 0.5, "period": 4, "length": 2},
    "schedules.front_loaded": {"low": 0.1, "high": 0.5, "length": 2},
    "schedules.by_arm": {"low": 0.1, "high": 0.5, "direction": [1.0, 0.0]},
    "schedules.by_round": {"std": [0.1, 0.2]},
    "schedules.each_arm": {"std": [0.1, 0.2]},
    "schedules.between": {"low": 0.1, "high": 0.5},
    "schedules.two_level": {"low": 0.1, "high": 0.5},
    "noise.two_point": {"std": 0.5},
    "noise.uniform": {"std": 0.5},
    "noise.sparse": {"std": 0.5},
    "noise.clipped_gaussian": {"std": 0.5},
    "noise.gaussian": {"std": 0.5},
    "noise.student_t": {"std": 0.5},
    "noise.pareto": {"std": 0.5},
}


def good(name):
    """Arguments that the factory takes."""
    known = {**table.SIZES, **table.SMALL, **table.MODEL_SIZE, **NEEDED.get(name, {})}
    known |= {"num_episodes": None, "gap": 0.01} if name.startswith("horizon_") else {}
    return examples.arguments(FACTORIES[name], known)


def outside(parameter):
    """Values that a declaration does not allow, each with a part of the message that says what it does allow."""
    kind, allowed = examples.kind(parameter), parameter.range
    if kind == "choice":
        return [(value, repr(word)) for value in ("nonsense", 3, True, None) for word in parameter.options]
    if kind == "flag":
        return [(value, "True or False") for value in (1, 0, None, "yes", NAN)]
    if kind == "part":
        return [(object(), "")]
    low, high = allowed["low"], allowed["high"]
    if kind == "count":
        above = [] if high is None else [high + 1]
        said = f"an integer of at least {low}" + ("" if high is None else f" and at most {high}")
        return [(value, said) for value in (low - 1, -7, 1.5, 2.0, NAN, INF, True, "2", [2], np.arange(2), *above)]
    open_, shut = allowed["low_open"] or low == -INF, allowed["high_open"] or high == INF
    said = f"{'(' if open_ else '['}{low:g}, {high:g}{')' if shut else ']'}"
    wrong = [*NOT_A_NUMBER]
    if low > -INF:
        wrong += [low if open_ else np.nextafter(low, -INF), low - 1]
    if high < INF:
        wrong += [high if shut else np.nextafter(high, INF), high + 1]
    smallest, largest = (1e-160, 1e160) if allowed["squared"] else (1e-310, None)
    extreme = [x for x in (smallest, largest) if x is not None and low <= x <= high]
    return [*((value, said) for value in wrong), *((value, "must be between") for value in extreme)]


@pytest.mark.parametrize("name", FACTORIES)
def test_declared_parameters_are_checked(name):
    """Whatever is declared is refused outside of its range: argument first, with the range and the value."""
    make, arguments = FACTORIES[name], good(name)
    make(**arguments)
    defaults = inspect.signature(make).parameters
    for argument, parameter in examples.declared(make).items():
        cases = outside(parameter)
        if parameter.range and defaults[argument].default is not None:
            cases.append((None, ""))
        for value, said in cases:
            with pytest.raises(ValueError, match=rf"^{argument} must") as found:
                make(**{**arguments, argument: value})
            message = str(found.value)
            assert said in message, (argument, value, message)
            assert repr(value) in message or examples.kind(parameter) == "part", (argument, value, message)


def test_every_algorithm_declares_all_its_parameters():
    """What is not declared is not tried above; the two without a claim are made of others."""
    for name in factories.factory_names("algorithm"):
        assert [*examples.declared(FACTORIES[name])] == [*inspect.signature(FACTORIES[name]).parameters], name


def test_environments_declare_their_parameters():
    """Only those that turn their arguments into other numbers check some of them by hand."""
    partly = {"data_bandit", "deep_tree", "hypercube_bandit", "hypercube_blocks", "k_armed", "riverswim"}
    for name in set(factories.factory_names("environment")) - partly:
        assert [*examples.declared(FACTORIES[name])] == [*inspect.signature(FACTORIES[name]).parameters], name
    for name in factories.SCHEDULES:
        make = FACTORIES[f"schedules.{name}"]
        assert [*examples.declared(make)] == [*inspect.signature(make).parameters], name


# What stands in many papers. Other names may mean different things in two algorithms.
COMMON = ("beta_scale", "delta", "dim", "fixed_radius", "horizon", "lam", "noise_bound", "norm_bound", "num_episodes")
COMMON += ("num_rounds", "theta_bound", "tie_tolerance", "ties", "value_bound", "variance_bound", "variance_scale")


@pytest.mark.parametrize("argument", COMMON)
def test_a_common_name_has_one_range(argument):
    """A user who knows ``delta`` of one algorithm knows it of all; a slip in a single declaration stands out."""
    ranges = {}
    for name in factories.factory_names("algorithm"):
        parameter = examples.declared(FACTORIES[name]).get(argument)
        if parameter is not None:
            ranges.setdefault((str(parameter.range), parameter.options), []).append(name)
    assert len(ranges) == 1, ranges


# --- what environments take and do not declare, and what the generic values above miss ---

NOT_STD = [-1.0, *BAD_NUMBER]
UNDECLARED = {
    "save": {"constants": ["papers", 1.0]},
    "ucrl_ave": {"constants": ["papers", 1.0]},
    "voful": {"dim": [4]},
    "var_lin2": {"dim": [4]},
    "lin_ts": {"num_rounds": [None]},
    "ucb_v": {"num_rounds": [None]},
    "k_armed": {
        "means": [[], 0.5, "ab", [NAN, 0.0], [[0.1, 0.2]], [1j], None],
        "noise": [0.1, "two_point"],
        "available": [0, 4, 1.0, "a", -0.5],
    },
    "linear_bandit": {
        "noise": [0.1, "two_point"],
        "arms": [*BAD_ARMS, "nonsense", 3, [[2.0, 0.0]] * 3, np.zeros((4, 2))],
        "theta_star": [[2.0, 0.0], [NAN, 0.0], [INF, 0.0], [0.1], "ab", [[0.1, 0.1]], [1j, 0.0]],
    },
    "hypercube_bandit": {
        "num_rounds": [*NOT_COUNT, None],
        "gap_multiplier": [1000.0, *NOT_POSITIVE],
        "budget": [0.5, *(v for v in NOT_POSITIVE if v is not None)],
    },
    "hypercube_blocks": {
        "num_rounds": [*NOT_COUNT, None],
        "gap_multiplier": [1000.0, *NOT_POSITIVE],
        "levels": [[0.0, 1.0], [-1.0], [NAN, 1.0], [INF], [], 0.5, [[0.5]], "a", [1j]],
        "order": [[0], [0, 2], [-1, 0, 1], [0.0, 1.0], [], "a", 1],
    },
    "replay_bandit": {
        "arms": [*BAD_ARMS, np.zeros((4, 3, 2)), "ab"],
        "means": [np.zeros(3), np.zeros((4, 3)), [[NAN] * 3] * 5, "a"],
        "noise": [np.zeros(0), np.zeros((5, 2)), [NAN] * 5, [[0.1], [0.1, 0.2]], "a", [1j] * 5],
        "noise_var": [np.zeros(4), np.zeros((5, 2)), [NAN] * 5, [-1.0] * 5, "a"],
        "theta_star": [[0.1], [NAN, 0.0], "ab"],
        "norm_bound": [0.0, -1.0, NAN, "a"],
    },
    "data_bandit": {"task": ["iris", "", 3, None, True], "noise_scale": [-0.1, 1.1, NAN, "a", [0.5, 1.0]]},
    "table_bandit": {
        "features": [*BAD_ARMS, np.zeros((5, 2)), np.zeros((4, 2, 2)), np.zeros((3, 3, 2))],
        "means": [np.zeros(3), np.zeros((4, 0)), [[NAN] * 3] * 4, "a"],
        "variances": [np.zeros(4), np.zeros((4, 2)), np.full((4, 3), -0.1), [[NAN] * 3] * 4, "a"],
        "contexts": ["nonsense", [], [0.0, 1.0], [4], [-1], [[0, 1]], [True, False], [NAN], 2, None],
        "theta_star": [[0.1], [NAN, 0.0], "ab"],
    },
    "tabular_mdp": {
        "transition": [
            np.full((3, 2), 0.5),
            np.full((3, 2, 2), 0.5),
            np.full((3, 2, 3), 0.5),
            -table.TABULAR["transition"],
        ],
        "reward": [np.zeros((2, 2)), np.full((3, 2), 0.5), np.full((3, 2), -0.1), [[NAN, 0.0]] * 3],
        "initial": [3, -1, 0.5, [0.5, 0.5], [0.5, 0.6, 0.0], [-0.5, 0.5, 1.0], "a"],
    },
    "linear_mdp": {
        "features": [np.full((3, 2), 0.5), np.full((3, 2, 3), 0.5), np.full((3, 2, 2), 0.6), "uniform", None],
        "measures": [np.full((3, 3), 1 / 3), np.full((2, 3), 0.5), [[1.5, -0.5, 0.0]] * 2, [[NAN, 0.5, 0.5]] * 2],
        "reward": [np.zeros((2, 2)), np.full((3, 2), 0.5), np.full((3, 2), -0.1), "sparse", 0.1],
        "initial": [3, -1, 0.5, [0.5, 0.5], [0.5, 0.6, 0.0], "a"],
    },
    "kernel_mixture_mdp": {
        "kernels": [table.TABULAR["transition"], np.full((2, 3, 2, 2), 0.5), np.full((2, 3, 2, 3), 0.5)],
        "weights": [[0.5, 0.4], [1.5, -0.5], [1.0], [NAN, 1.0], "ab", 0.5],
        "reward": [np.zeros((2, 2)), np.full((3, 2), 0.5), np.full((3, 2), -0.1)],
    },
    "noise.two_point": {"std": NOT_STD},
    "noise.uniform": {"std": NOT_STD},
    "noise.sparse": {"std": NOT_STD, "bound": [0.4]},
    "noise.clipped_gaussian": {"std": NOT_STD},
    "noise.gaussian": {"std": NOT_STD},
    "noise.student_t": {"std": NOT_STD, "df": [2.0]},
    "noise.pareto": {"std": NOT_STD, "shape": [2.0]},
    "schedules.two_level": {"high": [0.05]},
    "schedules.between": {"high": [0.05]},
    "schedules.bursts": {"high": [0.05], "period": [0, -1, 1.5, NAN, "2", True], "length": [-1, 5, 1.5, "1"]},
    "schedules.front_loaded": {"high": [0.05], "length": [-1, 1.5, NAN, "2", True]},
    "schedules.by_round": {
        "std": [[], [-0.1], [NAN], 0.1, np.zeros((2, 2, 2)), "a", [1j], [[0.1], [0.1, 0.2]]],
    },
    "schedules.each_arm": {"std": [[], [-0.1], [NAN], 0.1, [[0.1, 0.2]], "a", [1j]]},
    "schedules.by_arm": {"high": [0.05], "direction": [[], [2.0, 0.0], [NAN, 1.0], 1.0, "a", [[1.0, 0.0]]]},
}


@pytest.mark.parametrize("name", UNDECLARED)
def test_other_arguments_are_checked(name):
    """A wrong number found after an hour of simulation is worse than an error at the call."""
    for argument, values in UNDECLARED[name].items():
        for value in values:
            with pytest.raises(ValueError, match=rf"^{argument}\b"):
                FACTORIES[name](**{**good(name), argument: value})


@pytest.mark.parametrize("name", table.PRESETS)
def test_presets_refuse(name):
    """Constants have one number to choose."""
    for value in (-1.0, *NOT_A_NUMBER):
        with pytest.raises(ValueError, match=r"^beta_scale must"):
            table.PRESETS[name](beta_scale=value)


def test_linear_bandit_refuses_what_does_not_fit_together():
    """Arguments that are right alone and wrong together."""
    with pytest.raises(ValueError, match="fresh"):
        jv.linear_bandit(arms=np.eye(2), fresh=True)
    with pytest.raises(ValueError, match="arms"):
        jv.linear_bandit(3, 2, arms=np.eye(2))


@pytest.mark.parametrize("mean", [-0.1, 1.5])
def test_tables_without_variances_need_means_that_are_probabilities(mean):
    """Rewards are then 0 or 1; the message says where the table is wrong."""
    means = np.full((4, 3), 0.5)
    means[2, 1] = mean
    with pytest.raises(ValueError, match=rf"^means must lie in \[0, 1\] .* got {mean} at index \(2, 1\)"):
        jv.table_bandit(table.TABLE["features"], means)
    jv.table_bandit(table.TABLE["features"], means, table.TABLE["variances"])


@pytest.mark.parametrize("theta", [[-0.5, 0.5], [1.0, 0.0], None])
def test_bernoulli_needs_means_that_are_probabilities(theta):
    """A probability below 0 or above 1 would bias the rewards without a sign of it."""
    with pytest.raises(ValueError, match="bernoulli"):
        jv.linear_bandit(arms=np.eye(2), theta_star=theta, noise=jv.noise.bernoulli(0.8))


@pytest.mark.parametrize(
    "schedule",
    [
        jv.schedules.by_round(np.full((9, 4), 0.1)),
        jv.schedules.by_arm(0.1, 0.2, [1.0, 0.0, 0.0]),
        jv.schedules.each_arm([0.1, 0.2]),
    ],
    ids=["by_round", "by_arm", "each_arm"],
)
def test_schedules_must_fit_the_arms(schedule):
    """Levels for four arms, or a direction in three dimensions, mean nothing for three arms in the plane."""
    with pytest.raises(ValueError, match=r"noise|std|direction"):
        jv.linear_bandit(2, 3, noise=jv.noise.two_point(schedule))


def test_custom_constants_need_every_name():
    """A misspelt constant must not fall back to some default."""
    with pytest.raises(ValueError, match="missing"):
        jv.constants.custom(beta_scale=1.0)
    values = dict.fromkeys(jv.constants.number_names(), 1.0)
    with pytest.raises(ValueError, match="nonsense"):
        jv.constants.custom(**values, nonsense=1.0)
    with pytest.raises(ValueError, match="switch"):
        jv.constants.custom(**{**values, "switch": NAN})


GOOD = {"key": KEY, "num_rounds": 10, "num_seeds": 2}
BAD_RECORDS = [0, -1, 11, 1.5, "5", [], [0, 5], [5, 11], [5, 3], [3, 3], [1.5], [1.0, 2.0], [[1, 2]], ["a"]]
BAD_CALLS = {
    "num_rounds": [0, -1, 1.5, NAN, "10", None, True],
    "num_seeds": [0, -1, 1.5, NAN, "10", None, True],
    "first_seed": [-1, 1.5, "0", None, 2**31 - 1, 2**40],
    "record_at": BAD_RECORDS,
    "chunk": [0, -8, 1.5, "8", True, 2**31 - 1],
    "progress": [None, 1, "yes", np.zeros(2)],
    "devices": [[]],
    "key": [0, None, "0"],
    "recorders": [jv.record.regret(), ("regret",)],
}


@pytest.mark.parametrize("argument", BAD_CALLS)
def test_simulate_refuses(argument):
    """Each argument by name, before the program is even traced."""
    for value in BAD_CALLS[argument]:
        with pytest.raises(ValueError, match=rf"\b{argument}\b"):
            jv.simulate(ALGORITHM, ENVIRONMENT, **{**GOOD, argument: value})


@pytest.mark.parametrize("space", [jv.linear_spaced, jv.log_spaced])
def test_spacings_refuse(space):
    """A number of records that no memory holds, or a word, is refused by name."""
    for argument, values in {"num_rounds": [*NOT_COUNT, 2**31, None], "num": [*NOT_COUNT, 2**31, None]}.items():
        for value in values:
            with pytest.raises(ValueError, match=rf"^{argument} must"):
                space(**{"num_rounds": 10, "num": 3, argument: value})


@pytest.mark.parametrize("play", [jv.run, jv.trace])
def test_run_and_trace_refuse(play):
    """The same rules for one seed as for many; no other number is folded in as a seed's."""
    for argument, values in {"num_rounds": BAD_CALLS["num_rounds"], "seed": [-1, 1.5, "a"]}.items():
        for value in values:
            with pytest.raises(ValueError, match=rf"\b{argument}\b"):
                play(ALGORITHM, ENVIRONMENT, KEY, **{"num_rounds": 2, argument: value})


def test_run_refuses_records():
    """A round that is never reached would leave its slot at zero."""
    for value in BAD_RECORDS:
        with pytest.raises(ValueError, match="record_at"):
            jv.run(ALGORITHM, ENVIRONMENT, KEY, num_rounds=10, record_at=value)


SHORT = {
    "schedule": jv.linear_bandit(2, 3, noise=jv.noise.two_point(jv.schedules.by_round([0.1] * 9))),
    "replay": jv.replay_bandit(np.zeros((3, 2)), np.zeros(3), np.zeros(9)),
}


@pytest.mark.parametrize("environment", SHORT.values(), ids=SHORT.keys())
def test_more_rounds_than_given(environment):
    """JAX would read the last row again and again."""
    with pytest.raises(ValueError, match="num_rounds"):
        jv.simulate(ALGORITHM, environment, **GOOD)
    with pytest.raises(ValueError, match="num_rounds"):
        jv.run(ALGORITHM, environment, KEY, num_rounds=10)
    with pytest.raises(ValueError, match="num_rounds"):
        jv.trace(ALGORITHM, environment, KEY, num_rounds=10)


def test_dimensions_of_algorithm_and_environment_must_agree():
    """The commonest slip; it must not surface as a shape error from inside a compiled program."""
    with pytest.raises(ValueError, match="dim"):
        jv.simulate(jv.greedy(3), ENVIRONMENT, **GOOD)


BAD_SWEEPS = {
    "unknown": {"nonsense": [1.0]},
    "static": {"dim": [2, 3]},
    "empty": {"delta": []},
    "one number": {"delta": 0.1},
    "nan": {"delta": [0.1, NAN]},
    "inf": {"delta": [0.1, INF]},
    "word": {"delta": ["a"]},
    "number as word": {"delta": ["0.1"]},
    "complex": {"delta": [1j]},
    "ragged": {"delta": [[0.1], [0.1, 0.2]]},
    "matrix": {"delta": [[0.1, 0.2]]},
    "out of range": {"delta": [0.1, -0.1]},
}


@pytest.mark.parametrize("values", BAD_SWEEPS.values(), ids=BAD_SWEEPS.keys())
def test_sweep_refuses(values):
    """The name of the leaf is in the message."""
    with pytest.raises(ValueError, match=next(iter(values))):
        jv.sweep(jv.oful(2), **values)


def test_sweep_refuses_nothing_and_twice():
    """Nothing to sweep, or a grid of a grid, is a mistake."""
    with pytest.raises(ValueError, match="sweep"):
        jv.sweep(ALGORITHM)
    with pytest.raises(ValueError, match="sweep"):
        jv.sweep(jv.sweep(ALGORITHM, lam=[1.0, 2.0]), delta=[0.1])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Parts:
    one: object
    other: object
    count: int = 3


def test_sweep_refuses_ambiguous_names():
    """Two parts with a leaf of the same name: the message lists the full names, and a full name works."""
    target = Parts(jv.constants.paper(), jv.constants.tight())
    with pytest.raises(ValueError, match=r"beta_scale.*several.*other__beta_scale"):
        jv.sweep(target, beta_scale=[1.0])
    assert jv.sweep(target, other__beta_scale=[1.0, 2.0]).other.beta_scale.tolist() == [1.0, 2.0]


def test_sweep_does_not_round_values():
    """Fractions for a leaf that holds an integer must not silently become integers."""
    with pytest.raises(ValueError, match="count"):
        jv.sweep(Parts(1.0, 2.0), count=[0.25, 0.5])


@pytest.mark.parametrize("play", [jv.run, jv.trace])
def test_one_seed_refuses_a_sweep(play):
    """Only simulate knows what to do with many settings."""
    with pytest.raises(ValueError, match="sweep"):
        play(jv.sweep(ALGORITHM, lam=[1.0, 2.0]), ENVIRONMENT, KEY, num_rounds=5)


def test_tune_cpu_after_start():
    """JAX would ignore the settings silently once it has started."""
    jax.devices()
    with pytest.raises(RuntimeError, match=re.compile("tune_cpu.*before", re.DOTALL)):
        jv.tune_cpu(2)
    for value in (0, 1.5, "2"):
        with pytest.raises(ValueError, match="num_devices"):
            jv.tune_cpu(value)
