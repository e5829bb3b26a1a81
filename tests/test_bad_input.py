"""Bad input is refused where it enters: a ValueError that names the argument, before anything is compiled."""

import dataclasses
import importlib
import re

import jax
import numpy as np
import pytest

import jaxvar as jv

KEY = jax.random.key(0)
NAN, INF = float("nan"), float("inf")
BAD_NUMBER = [NAN, INF, -INF, "a", "0.5", None, 1j, [0.5], True, [[1], [1, 2]]]
NOT_POSITIVE = [0.0, -1.0, *BAD_NUMBER]
NEGATIVE = [-1.0, *BAD_NUMBER]
NOT_PROBABILITY = [0.0, 1.0, 1.5, -0.1, *BAD_NUMBER]
NOT_COUNT = [0, -1, 1.5, NAN, "2", [2], True]
NOT_CHOICE = ["nonsense", 3]
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


def without(bad, *values):
    """``bad`` without what means something for this argument."""
    return [v for v in bad if not any(v is w for w in values)]


# (factory, argument, its bad values)
FACTORIES = [
    ("save", lambda **k: jv.save(**{"dim": 2, "num_rounds": 100, **k}), {
        "dim": [*NOT_COUNT, None], "num_rounds": [0, -5, *BAD_NUMBER], "noise_bound": NOT_POSITIVE,
        "delta": NOT_PROBABILITY, "constants": ["paper", 1.0], "explore": NOT_CHOICE, "ties": NOT_CHOICE,
        "tie_tolerance": without(NEGATIVE, None), "capacity": [*NOT_COUNT, 201],
    }),
    ("ave_ucb", lambda **k: jv.ave_ucb(**{"dim": 2, "num_rounds": 100, **k}), {
        "dim": [*NOT_COUNT, None], "num_rounds": [0, -5, *BAD_NUMBER], "noise_bound": NOT_POSITIVE,
        "delta": NOT_PROBABILITY, "constants": ["paper", 1.0], "cap": without(NOT_POSITIVE, None), "ties": NOT_CHOICE,
        "tie_tolerance": without(NEGATIVE, None), "capacity": [*NOT_COUNT, 201],
    }),
    ("oful", lambda **k: jv.oful(**{"dim": 2, **k}), {
        "dim": [*NOT_COUNT, None], "noise_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY, "lam": NOT_POSITIVE,
        "theta_bound": NOT_POSITIVE, "norm_bound": NOT_POSITIVE, "radius": NOT_CHOICE, "beta_scale": NEGATIVE,
        "fixed_radius": without(NEGATIVE, None), "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    ("greedy", lambda **k: jv.greedy(**{"dim": 2, **k}), {
        "dim": [*NOT_COUNT, None], "lam": NOT_POSITIVE, "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    ("confidence_ball", lambda **k: jv.confidence_ball(**{"dim": 2, **k}), {
        "dim": [*NOT_COUNT, None], "noise_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY, "lam": NOT_POSITIVE,
        "theta_bound": NOT_POSITIVE, "beta_scale": NEGATIVE, "fixed_radius": without(NEGATIVE, None),
        "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    ("cw_oful", lambda **k: jv.cw_oful(**{"dim": 2, "threshold": 0.2, **k}), {
        "dim": [*NOT_COUNT, None], "threshold": NOT_POSITIVE, "noise_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY,
        "lam": NOT_POSITIVE, "theta_bound": NOT_POSITIVE, "norm_bound": NOT_POSITIVE, "radius": NOT_CHOICE,
        "beta_scale": NEGATIVE, "fixed_radius": without(NEGATIVE, None), "ties": NOT_CHOICE,
        "tie_tolerance": without(NEGATIVE, None),
    }),
    ("sup_lin_ucb", lambda **k: jv.sup_lin_ucb(**{"dim": 2, "num_rounds": 100, **k}), {
        "dim": [*NOT_COUNT, None], "num_rounds": [0, -5, *BAD_NUMBER], "noise_bound": NOT_POSITIVE,
        "delta": NOT_PROBABILITY, "theta_bound": NOT_POSITIVE, "beta_scale": NEGATIVE, "explore": NOT_CHOICE,
        "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None), "capacity": [*NOT_COUNT, 201],
    }),
    ("weighted_oful", lambda **k: jv.weighted_oful(**{"dim": 2, **k}), {
        "dim": [*NOT_COUNT, None], "noise_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY,
        "lam": without(NOT_POSITIVE, None), "theta_bound": NOT_POSITIVE, "norm_bound": NOT_POSITIVE,
        "beta_scale": NEGATIVE, "fixed_radius": without(NEGATIVE, None), "variance_scale": NEGATIVE,
        "variance_bound": without(NEGATIVE, None), "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    ("weighted_oful_plus", lambda **k: jv.weighted_oful_plus(**{"dim": 2, "num_rounds": 100, **k}), {
        "dim": [*NOT_COUNT, None], "num_rounds": [0, -5, *BAD_NUMBER], "noise_bound": NOT_POSITIVE,
        "delta": NOT_PROBABILITY, "lam": without(NOT_POSITIVE, None), "theta_bound": NOT_POSITIVE,
        "norm_bound": NOT_POSITIVE, "alpha": without(NOT_POSITIVE, None), "gamma": without(NEGATIVE, None),
        "beta_scale": NEGATIVE, "fixed_radius": without(NEGATIVE, None), "variance_scale": NEGATIVE,
        "variance_bound": without(NEGATIVE, None), "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    ("hf_ucrl_vtr_plus", lambda **k: jv.hf_ucrl_vtr_plus(**{"dim": 2, "horizon": 3, "num_episodes": 100, **k}), {
        "dim": [*NOT_COUNT, None], "horizon": [*NOT_COUNT, None], "num_episodes": [0, -5, *BAD_NUMBER],
        "norm_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY, "lam": without(NOT_POSITIVE, None),
        "num_moments": [*NOT_COUNT, 65], "value_bound": NOT_POSITIVE, "beta_scale": NEGATIVE, "ties": NOT_CHOICE,
        "tie_tolerance": without(NEGATIVE, None),
    }),
    ("ucrl_vtr_plus", lambda **k: jv.ucrl_vtr_plus(**{"dim": 2, "horizon": 3, **k}), {
        "dim": [*NOT_COUNT, None], "horizon": [*NOT_COUNT, None], "norm_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY,
        "lam": without(NOT_POSITIVE, None), "per_step": [1, 0, None, "yes"], "value_bound": NOT_POSITIVE,
        "beta_scale": NEGATIVE, "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    ("ucrl_wvtr", lambda **k: jv.ucrl_wvtr(**{"dim": 2, "horizon": 3, **k}), {
        "dim": [*NOT_COUNT, None], "horizon": [*NOT_COUNT, None], "fixed_radius": NEGATIVE, "lam": NOT_POSITIVE,
        "num_moments": [*NOT_COUNT, None, 65], "sigma_min": NOT_POSITIVE, "gamma": NEGATIVE,
        "value_bound": NOT_POSITIVE, "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    *(
        (name, lambda make=make, **k: make(**{"dim": 2, "num_rounds": 100, **k}), {
            "dim": [*NOT_COUNT, None, 4], "num_rounds": [0, -5, *BAD_NUMBER], "noise_bound": NOT_POSITIVE,
            "theta_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY, "test": NOT_CHOICE, "beta_scale": NEGATIVE,
            "cells": [*NOT_COUNT, 1], "num_directions": NOT_COUNT, "num_scales": NOT_COUNT, "every": [*NOT_COUNT, None],
            "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
        })
        for name, make in (("voful", jv.voful), ("voful2", jv.voful2))
    ),
    *(
        (name, lambda make=make, **k: make(**{"dim": 2, "horizon": 3, "num_episodes": 100, **k}), {
            "dim": [*NOT_COUNT, None, 4], "horizon": [*NOT_COUNT, None], "num_episodes": [0, -5, *BAD_NUMBER],
            "norm_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY, "test": NOT_CHOICE, "beta_scale": NEGATIVE,
            "num_moments": [*NOT_COUNT, None], "num_groups": [*NOT_COUNT, None], "cells": [*NOT_COUNT, 1],
            "num_directions": NOT_COUNT, "num_scales": NOT_COUNT, "every": [*NOT_COUNT, None], "ties": NOT_CHOICE,
            "tie_tolerance": without(NEGATIVE, None),
        })
        for name, make in (("var_lin", jv.var_lin), ("var_lin2", jv.var_lin2))
    ),
    ("losan", lambda **k: jv.losan(**{"dim": 2, **k}), {
        "dim": [*NOT_COUNT, None], "noise_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY, "theta_bound": NOT_POSITIVE,
        "beta_scale": NEGATIVE, "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    ("lofav", lambda **k: jv.lofav(**{"dim": 2, "num_rounds": 100, **k}), {
        "dim": [*NOT_COUNT, None], "num_rounds": [0, -5, *BAD_NUMBER], "noise_bound": NOT_POSITIVE,
        "delta": NOT_PROBABILITY, "theta_bound": NOT_POSITIVE, "beta_scale": NEGATIVE, "ties": NOT_CHOICE,
        "tie_tolerance": without(NEGATIVE, None),
    }),
    ("lin_ts", lambda **k: jv.lin_ts(**{"dim": 2, "num_rounds": 100, **k}), {
        "dim": [*NOT_COUNT, None], "num_rounds": [0, -5, *BAD_NUMBER], "scale": NOT_CHOICE,
        "noise_bound": NOT_POSITIVE, "delta": NOT_PROBABILITY, "lam": NOT_POSITIVE, "theta_bound": NOT_POSITIVE,
        "beta_scale": NEGATIVE, "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    ("weighted_lin_ts", lambda **k: jv.weighted_lin_ts(**{"dim": 2, "num_rounds": 100, **k}), {
        "dim": [*NOT_COUNT, None], "num_rounds": [0, -5, *BAD_NUMBER], "noise_bound": NOT_POSITIVE,
        "delta": NOT_PROBABILITY, "theta_bound": NOT_POSITIVE, "norm_bound": NOT_POSITIVE, "beta_scale": NEGATIVE,
        "variance_scale": NOT_POSITIVE, "variance_bound": without(NEGATIVE, None), "ties": NOT_CHOICE,
        "tie_tolerance": without(NEGATIVE, None),
    }),
    ("lin_vdts", lambda **k: jv.lin_vdts(**{"dim": 2, "num_rounds": 100, **k}), {
        "dim": [*NOT_COUNT, None], "num_rounds": [0, -5, *BAD_NUMBER], "noise_bound": NOT_POSITIVE,
        "delta": NOT_PROBABILITY, "constants": ["paper", 1.0], "ties": NOT_CHOICE,
        "tie_tolerance": without(NEGATIVE, None), "capacity": [*NOT_COUNT, 201],
    }),
    ("fgts_va", lambda **k: jv.fgts_va(**{"dim": 2, "num_rounds": 100, **k}), {
        "dim": [*NOT_COUNT, None], "num_rounds": [0, -5, *BAD_NUMBER], "feel_good": without(NEGATIVE, None),
        "lam": NOT_POSITIVE, "variance_scale": NOT_POSITIVE, "variance_bound": without(NEGATIVE, None),
        "num_proposals": NOT_COUNT, "ties": NOT_CHOICE, "tie_tolerance": without(NEGATIVE, None),
    }),
    ("linear_bandit", lambda **k: jv.linear_bandit(**{"dim": 2, "num_arms": 3, **k}), {
        "dim": [*NOT_COUNT, None], "num_arms": [*NOT_COUNT, None], "noise": [0.1, "two_point"],
        "arms": [*BAD_ARMS, "nonsense", 3, [[2.0, 0.0]] * 3, np.zeros((4, 2))], "norm_bound": NOT_POSITIVE,
        "theta_star": [[2.0, 0.0], [NAN, 0.0], [INF, 0.0], [0.1], "ab", [[0.1, 0.1]], [1j, 0.0]],
    }),
    ("hypercube_bandit", lambda **k: jv.hypercube_bandit(**{"cube_dim": 2, "num_rounds": 100, **k}), {
        "cube_dim": [*NOT_COUNT, None, 17], "num_rounds": [*NOT_COUNT, None], "level": NOT_POSITIVE,
        "gap_multiplier": [1000.0, *NOT_POSITIVE], "budget": [0.5, *without(NOT_POSITIVE, None)],
    }),
    ("hypercube_blocks", lambda **k: jv.hypercube_blocks(
        **{"cube_dim": 2, "num_rounds": 100, "levels": [0.5, 1.0], **k}), {
        "cube_dim": [*NOT_COUNT, None, 17], "num_rounds": [*NOT_COUNT, None],
        "gap_multiplier": [1000.0, *NOT_POSITIVE],
        "levels": [[0.0, 1.0], [-1.0], [NAN, 1.0], [INF], [], 0.5, [[0.5]], "a", [1j]],
        "order": [[0], [0, 2], [-1, 0, 1], [0.0, 1.0], [], "a", 1],
    }),
    ("replay_bandit", lambda **k: jv.replay_bandit(
        **{"arms": np.zeros((5, 3, 2)), "means": np.zeros((5, 3)), "noise": np.zeros(5), **k}), {
        "arms": [*BAD_ARMS, np.zeros((4, 3, 2)), "ab"], "means": [np.zeros(3), np.zeros((4, 3)), [[NAN] * 3] * 5, "a"],
        "noise": [np.zeros(0), np.zeros((5, 2)), [NAN] * 5, [[0.1], [0.1, 0.2]], "a", [1j] * 5],
        "noise_var": [np.zeros(4), np.zeros((5, 2)), [NAN] * 5, [-1.0] * 5, "a"],
        "theta_star": [[0.1], [NAN, 0.0], "ab"], "norm_bound": [0.0, -1.0, NAN, "a"],
    }),
    ("two_point", lambda **k: jv.noise.two_point(**k), {"std": NEGATIVE}),
    ("uniform", lambda **k: jv.noise.uniform(**k), {"std": NEGATIVE}),
    ("sparse", lambda **k: jv.noise.sparse(**{"std": 0.5, **k}), {"std": NEGATIVE, "bound": [0.4, *NOT_POSITIVE]}),
    ("clipped_gaussian", lambda **k: jv.noise.clipped_gaussian(**{"std": 0.5, **k}), {
        "std": NEGATIVE, "bound": NOT_POSITIVE,
    }),
    ("bernoulli", lambda **k: jv.noise.bernoulli(**k), {"scale": NOT_POSITIVE}),
    ("constant", lambda **k: jv.schedules.constant(**k), {"std": NEGATIVE}),
    ("two_level", lambda **k: jv.schedules.two_level(**{"low": 0.1, "high": 0.5, **k}), {
        "low": NEGATIVE, "high": [0.05, *NEGATIVE], "prob_high": [-0.1, 1.1, *BAD_NUMBER],
    }),
    ("between", lambda **k: jv.schedules.between(**{"low": 0.1, "high": 0.5, **k}), {
        "low": NEGATIVE, "high": [0.05, *NEGATIVE],
    }),
    ("decaying", lambda **k: jv.schedules.decaying(**{"std": 0.1, **k}), {"std": NEGATIVE, "power": NEGATIVE}),
    ("bursts", lambda **k: jv.schedules.bursts(**{"low": 0.1, "high": 0.5, "period": 4, "length": 2, **k}), {
        "low": NEGATIVE, "high": [0.05, *NEGATIVE], "period": NOT_COUNT, "length": [-1, 5, 1.5, "1"],
    }),
    ("by_round", lambda **k: jv.schedules.by_round(**k), {
        "std": [[], [-0.1], [NAN], 0.1, np.zeros((2, 2, 2)), "a", [1j], [[0.1], [0.1, 0.2]]],
    }),
    ("by_arm", lambda **k: jv.schedules.by_arm(**{"low": 0.1, "high": 0.5, "direction": [1.0, 0.0], **k}), {
        "low": NEGATIVE, "high": [0.05, *NEGATIVE], "direction": [[], [2.0, 0.0], [NAN, 1.0], 1.0, "a", [[1.0, 0.0]]],
    }),
    ("paper", lambda **k: jv.constants.paper(**k), {"beta_scale": NEGATIVE}),
]  # fmt: skip
CASES = [(name, make, argument, value) for name, make, bad in FACTORIES for argument in bad for value in bad[argument]]


def short(value):
    return f"shape{value.shape}" if isinstance(value, np.ndarray) else repr(value)


@pytest.fixture(autouse=True)
def nothing_compiles(monkeypatch):
    """The simulator's program must not be reached."""

    def reached(*args, **kwargs):
        raise AssertionError("the program was reached with bad input")

    monkeypatch.setattr(importlib.import_module("jaxvar.simulate"), "_program", reached)


@pytest.mark.parametrize(
    ("make", "argument", "value"), [c[1:] for c in CASES], ids=[f"{n}-{a}-{short(v)}" for n, _, a, v in CASES]
)
def test_factories_refuse(make, argument, value):
    """A wrong number found after an hour of simulation is worse than an error at the call."""
    with pytest.raises(ValueError, match=rf"\b{argument}\b"):
        make(**{argument: value})


def test_linear_bandit_refuses_what_does_not_fit_together():
    """Arguments that are right alone and wrong together."""
    with pytest.raises(ValueError, match="fresh"):
        jv.linear_bandit(arms=np.eye(2), fresh=True)
    with pytest.raises(ValueError, match="arms"):
        jv.linear_bandit(3, 2, arms=np.eye(2))


@pytest.mark.parametrize("theta", [[-0.5, 0.5], [1.0, 0.0], None])
def test_bernoulli_needs_means_that_are_probabilities(theta):
    """A probability below 0 or above 1 would bias the rewards without a sign of it."""
    with pytest.raises(ValueError, match="bernoulli"):
        jv.linear_bandit(arms=np.eye(2), theta_star=theta, noise=jv.noise.bernoulli(0.8))


@pytest.mark.parametrize(
    "schedule",
    [jv.schedules.by_round(np.full((9, 4), 0.1)), jv.schedules.by_arm(0.1, 0.2, [1.0, 0.0, 0.0])],
    ids=["by_round", "by_arm"],
)
def test_schedules_must_fit_the_arms(schedule):
    """Levels for four arms, or a direction in three dimensions, mean nothing for three arms in the plane."""
    with pytest.raises(ValueError, match=r"noise|std|direction"):
        jv.linear_bandit(2, 3, noise=jv.noise.two_point(schedule))


def test_custom_constants_need_every_name():
    """A misspelt constant must not fall back to some default."""
    with pytest.raises(ValueError, match="missing"):
        jv.constants.custom(beta_scale=1.0)
    values = {n: 1.0 for n in type(jv.constants.paper()).__dataclass_fields__ if n not in ("label", "setting")}
    with pytest.raises(ValueError, match="nonsense"):
        jv.constants.custom(**values, nonsense=1.0)
    with pytest.raises(ValueError, match="switch"):
        jv.constants.custom(**{**values, "switch": NAN})


GOOD = {"key": KEY, "num_rounds": 10, "num_seeds": 2}
BAD_RECORDS = [0, -1, 11, 1.5, "5", [], [0, 5], [5, 11], [5, 3], [3, 3], [1.0, 2.0], [[1, 2]], ["a"]]
BAD_CALLS = {
    "num_rounds": [0, -1, 1.5, NAN, "10", None, True],
    "num_seeds": [0, -1, 1.5, NAN, "10", None, True],
    "first_seed": [-1, 1.5, "0", None, 2**31 - 1, 2**40],
    "records": BAD_RECORDS,
    "chunk": [0, -8, 1.5, "8", True],
    "devices": [[]],
    "key": [0, None, "0"],
    "record": [jv.record.regret(), ("regret",)],
}


@pytest.mark.parametrize(
    ("argument", "value"),
    [(a, v) for a, bad in BAD_CALLS.items() for v in bad],
    ids=[f"{a}-{type(v).__name__ if a == 'record' else v!r}" for a, bad in BAD_CALLS.items() for v in bad],
)
def test_simulate_refuses(argument, value):
    """Each argument by name, before the program is even traced."""
    with pytest.raises(ValueError, match=rf"\b{argument}\b"):
        jv.simulate(ALGORITHM, ENVIRONMENT, **{**GOOD, argument: value})


@pytest.mark.parametrize("play", [jv.run, jv.trace])
@pytest.mark.parametrize("value", [0, -1, 1.5, "10", None])
def test_run_and_trace_refuse_rounds(play, value):
    """The same rules for one seed as for many."""
    with pytest.raises(ValueError, match="num_rounds"):
        play(ALGORITHM, ENVIRONMENT, KEY, num_rounds=value)


@pytest.mark.parametrize("value", BAD_RECORDS, ids=repr)
def test_run_refuses_records(value):
    """A round that is never reached would leave its slot at zero."""
    with pytest.raises(ValueError, match="records"):
        jv.run(ALGORITHM, ENVIRONMENT, KEY, num_rounds=10, records=value)


@pytest.mark.parametrize("value", [-1, 1.5, "a"])
def test_run_refuses_seeds(value):
    """A seed that is not a seed's number of simulate would be folded in as another one."""
    with pytest.raises(ValueError, match="seed"):
        jv.run(ALGORITHM, ENVIRONMENT, KEY, num_rounds=2, seed=value)


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
