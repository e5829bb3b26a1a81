"""Sizes are estimated before anything is allocated, and nasty values are refused by name: nothing here is compiled."""

import dataclasses
import inspect
import re
import shutil
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import engine, memory, parameters
from jaxvar.algorithms import thompson
from jaxvar.study import store
from jaxvar.study.factories import in_precision
from jaxvar.study.limits import check_sizes
from tests.core.test_bad_input import FACTORIES, forbid_programs, good

KEY = jax.random.key(0)
GIB = 2**30
ALGORITHM, ENVIRONMENT = jv.oful(2), jv.linear_bandit(2, 3)
BANDIT = jv.Entry("linear_bandit", options={"dim": 2, "num_arms": 3})

NAN, INF = float("nan"), float("inf")
NUMBERS = [NAN, INF, -INF, -1, 0, -0.0, 1e308, 1e-308, 1e200, 1e30, 2**31, 2**63, 10**30, 10**400, 10**5000, True]
OTHERS = [None, "x", "", b"x", [], {}, (), {1, 2}, range(3), object(), int, np.float64, len, 1j, 0.5 + 0j, KEY]
ARRAYS = [
    np.zeros((2, 2)),
    np.zeros(0),
    np.array(["a"]),
    np.array([None]),
    np.array(1j),
    np.full(3, NAN),
    np.array([3]),
]
SINGLE = jnp.float32  # which both precisions hold
ARRAYS += [np.full((2, 2), 1e308), jnp.ones(2, SINGLE), jnp.zeros((2, 3), SINGLE), jnp.ones((), SINGLE)]
ARRAYS += [jnp.array(1 + 1j, jnp.complex64), jnp.array(True)]
ODD = [np.True_, np.complex64(1), np.timedelta64(1, "s"), Decimal("0.5"), Fraction(1, 2), [[1], [1, 2]], [1, "a"]]
NASTY = [*NUMBERS, *OTHERS, *ARRAYS, *ODD]
WRAPPED = {
    "delayed": lambda **given: jv.delayed(**{"algorithm": ALGORITHM, "delay": 2, **given}),
    "batched": lambda **given: jv.batched(**{"algorithm": ALGORITHM, "every": 2, **given}),
    "corrupted": lambda **given: jv.corrupted(**{"environment": ENVIRONMENT, "budget": 2.0, **given}),
}
OF_WRAPPED = {"delayed": "delay", "batched": "every", "corrupted": "budget"}


def attempt(make, arguments, argument, value):
    """Build or refuse: a ValueError that begins with an argument, or names the one that was wrong."""
    try:
        make(**{**arguments, argument: value})
    except ValueError as error:
        names = "|".join([*arguments, argument, *inspect.signature(make).parameters])
        assert re.match(rf"({names})\b", str(error)) or re.search(rf"\b{argument}\b", str(error)), (
            argument,
            value,
            error,
        )
        assert len(str(error)) < 1000


@pytest.mark.parametrize("name", FACTORIES)
def test_nasty_values_are_refused_by_name(name):
    """No value of any kind ends in an error of Python, NumPy or JAX, in either precision."""
    for precision in ("float64", "float32"):
        with in_precision(precision):
            arguments = good(name)
            for argument in inspect.signature(FACTORIES[name]).parameters:
                for value in NASTY:
                    attempt(FACTORIES[name], arguments, argument, value)


@pytest.mark.parametrize("name", WRAPPED)
def test_wrappers_refuse_nasty_values(name):
    """Likewise."""
    for value in NASTY:
        attempt(WRAPPED[name], {}, OF_WRAPPED[name], value)


@pytest.fixture
def nothing_is_played(monkeypatch):
    """A machine with 16 GiB, and no program."""
    forbid_programs(monkeypatch)
    monkeypatch.setattr(memory, "free_memory", lambda mesh=None: 16 * GIB)


MANY_ARMS = jv.linear_bandit(2, 2 * 10**9)
PLAYS = {
    "simulate": lambda a, e: jv.simulate(a, e, key=KEY, num_seeds=2, num_rounds=3),
    "run": lambda a, e: jv.run(a, e, KEY, num_rounds=3),
    "trace": lambda a, e: jv.trace(a, e, KEY, num_rounds=3),
    "compare": lambda a, e: jv.compare({"a": a}, {"e": e}, key=KEY, num_seeds=2, num_rounds=3),
}


@pytest.mark.usefixtures("nothing_is_played")
@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS.keys())
def test_too_many_arms_are_refused_with_estimate_and_limit(play):
    """Two billion arms were killed by the system after minutes."""
    with pytest.raises(ValueError, match=r"seeds? .*need.* [\d.]+ GiB .*limit is 12.8 GiB.*problem\.arms"):
        play(ALGORITHM, MANY_ARMS)


@pytest.mark.usefixtures("nothing_is_played")
def test_a_state_that_does_not_fit_is_refused():
    """A matrix of the size of the dimension, and a queue of rewards."""
    with pytest.raises(ValueError, match=r"TiB of memory.*state\.regression"):
        PLAYS["run"](jv.oful(10**6), jv.linear_bandit(10**6, 2))
    with pytest.raises(ValueError, match=r"GiB of memory.*state\.waiting"):
        PLAYS["run"](jv.delayed(ALGORITHM, 2**31 - 2), ENVIRONMENT)
    with pytest.raises(ValueError, match=r"problem|observation"):
        jv.drifting(MANY_ARMS, 0.1)


@pytest.mark.usefixtures("nothing_is_played")
def test_records_that_do_not_fit_are_refused():
    """A billion seeds, and a trace of as many rounds."""
    with pytest.raises(ValueError, match=r"records of 1,000,000,000 seeds at 3 rounds need .*GiB.*record_at"):
        jv.simulate(ALGORITHM, ENVIRONMENT, key=KEY, num_seeds=10**9, num_rounds=3, chunk=2**17)
    with pytest.raises(ValueError, match=r"record_at must be .* at most 1000000, got 2000000"):
        jv.run(ALGORITHM, ENVIRONMENT, KEY, num_rounds=10**7, record_at=2 * 10**6)
    with pytest.raises(ValueError, match=r"num_rounds must be .* at most 2\^31 - 2"):
        jv.run(ALGORITHM, ENVIRONMENT, KEY, num_rounds=2**31 - 1)


def test_a_trace_that_does_not_fit_is_refused(monkeypatch):
    """It keeps every round: the shapes of the traced program say how much."""
    monkeypatch.setattr(memory, "free_memory", lambda mesh=None: 16 * GIB)
    with pytest.raises(ValueError, match=r"a trace of 2,000,000,000 rounds needs .*GiB"):
        jv.trace(jv.uniform(), ENVIRONMENT, KEY, num_rounds=2 * 10**9)


@pytest.mark.usefixtures("nothing_is_played")
def test_a_large_run_asks_the_compiled_program(monkeypatch):
    """Where shapes say that a run is large and fits, the program may hold more than they know of."""
    asked = []
    monkeypatch.setattr(engine.Program, "memory", lambda self, num, is_whole: asked.append(is_whole) or 10**12)
    with pytest.raises(ValueError, match=r"\d+ seeds at once need \d+ GiB of memory"):
        jv.simulate(ALGORITHM, jv.linear_bandit(2, 2**25), key=KEY, num_seeds=2, num_rounds=3)
    assert asked == [True]


@pytest.mark.usefixtures("nothing_is_played")
def test_too_many_chunks_are_refused():
    """A chunk of one seed was silent for minutes; the message has the least chunk that is allowed."""
    with pytest.raises(ValueError, match=r"chunk must be at least 1,000 .* 100,000,000 calls"):
        jv.simulate(ALGORITHM, ENVIRONMENT, key=KEY, num_seeds=10**8, num_rounds=3, chunk=1, record_at=1)
    study = {"name": "x", "rounds": 3, "records": 1, "algorithms": [jv.Entry("oful")], "environments": [BANDIT]}
    with pytest.raises(jv.StudyError, match=r"chunk must be at least 1,000 .* 100,000,000 shards") as found:
        jv.Study(**study, seeds=10**8, chunk=1)
    assert found.value.where == ("chunk",)
    with pytest.raises(jv.StudyError, match=r"chunk must be at least 10,000"):
        jv.run_study(jv.Study(**study, seeds=10**9), "never-made")
    manifest = store.new_manifest(jv.Study(**study, seeds=100_001), [8])
    cells = (dataclasses.replace(manifest.cells[0], chunk=1),)
    with pytest.raises(ValueError, match="100,001 shards"):
        store._check(dataclasses.replace(manifest, cells=cells))


BAD_RUNS = {
    "checkpoint_seconds": [NAN, -1, 0, INF, "a", None, 1j],
    "shard": [1, (1,), (0, 2), (3, 2), "1/2", (1.0, 2), None],
    "devices": [[], 1, "cpu", [None], [0], [[1], [1, 2]], np.array(0.5)],
    "study": [None, "quick", {}],
    "out": [None, 1, []],
}


@pytest.mark.parametrize("argument", BAD_RUNS)
def test_run_study_refuses(argument, tmp_path):
    """With an error that the command line prints as a sentence, before there is a folder."""
    study = jv.Study(name="x", seeds=2, rounds=3, algorithms=[jv.Entry("oful")], environments=[BANDIT])
    for value in BAD_RUNS[argument]:
        with pytest.raises(jv.StudyError, match=rf"\b{argument}\b"):
            jv.run_study(**{"study": study, "out": tmp_path / "new", argument: value})
    assert not (tmp_path / "new").exists()


def test_a_study_whose_records_fit_nowhere_is_refused(monkeypatch, tmp_path):
    """Results are on the disk first, and in memory when they are read."""
    study = jv.Study(name="x", seeds=10**6, rounds=1000, algorithms=[jv.Entry("oful")], environments=[BANDIT])
    check_sizes(study, tmp_path / "new", jax.devices())
    usage = shutil.disk_usage(tmp_path)._replace(free=GIB)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage)
        with pytest.raises(jv.StudyError, match=r"1\.49 GiB on the disk, and 1 GiB are free"):
            check_sizes(study, tmp_path / "new", jax.devices())
    monkeypatch.setattr(memory, "free_memory", lambda mesh=None: GIB)
    with pytest.raises(jv.StudyError, match=r"1,000,000 seeds of 1 cells at 100 rounds need 1\.49 GiB of memory"):
        check_sizes(study, tmp_path / "new", jax.devices())


def test_what_all_seeds_share_is_counted_once():
    """A given model is held once, a drawn one by every seed: else large models would be refused that fit."""
    shared, drawn = jv.mixture_mdp(3, 2, 2, 3, model_seed=1), jv.mixture_mdp(3, 2, 2, 3)
    phi = memory.check_problem(drawn)["problem.phi"]
    assert phi == 3 * 2 * 3 * 2 * parameters.float_dtype().itemsize
    assert memory.check_problem(shared, 8)["problem.phi"] == phi
    assert memory.check_problem(drawn, 8)["problem.phi"] == 8 * phi
    held = memory.held(jv.uniform(), drawn, (jv.record.regret(),), 8)
    assert held.playing > 8 * phi
    assert held.record == parameters.float_dtype().itemsize


def test_only_small_objects_skip_the_estimate():
    """Sizes of parts and of arrays count as well; of an own class nobody knows."""
    assert memory.is_small(jv.delayed(jv.save(5, 1e9), 100))
    assert not memory.is_small(jv.delayed(jv.save(5, 100), 1000))
    assert not memory.is_small(jv.linear_bandit(2, 1000))
    assert not memory.is_small(jv.replay_bandit(np.zeros((3, 2)), np.zeros(3), np.zeros(10**5)))
    assert not memory.is_small(object())


@pytest.mark.parametrize("make", [jv.noise.two_point, jv.noise.uniform, jv.noise.gaussian, jv.noise.clipped_gaussian])
def test_noise_whose_variance_overflows_is_refused(make):
    """Its variance was infinite, and regret NaN, without a word."""
    for precision, std in (("float64", 1e200), ("float32", 1e30)):
        with in_precision(precision):
            with pytest.raises(ValueError, match=r"^std must be between .* measure rewards in other units"):
                make(std)
            with pytest.raises(ValueError, match=r"^high must be between"):
                make(jv.schedules.two_level(0.1, std))
            with pytest.raises(ValueError, match=r"^std must be at most .* at index \(1,\)"):
                make(jv.schedules.by_round([0.1, std]))


def test_what_follows_from_a_rule_is_checked():
    """A theorem's value that is 0 or infinite was a math domain error that named nothing."""
    with pytest.raises(ValueError, match=r"^alpha must .* follows from the other parameters: give alpha"):
        jv.save(2, 1e300 if parameters.float_dtype().itemsize == 8 else 1e30)
    assert jv.sup_lin_ucb(2, 100, noise_bound=1e-15, delta=1e-30).capacity >= 1


@pytest.mark.parametrize("num_rounds", [3, 7, 10, 23])
def test_blocks_are_counted_without_writing_the_rounds_down(num_rounds):
    """Two billion rounds need no array of as many."""
    order = [0, 1, 1, 2, 0][: min(num_rounds, 5)] if num_rounds > 3 else [0, 1, 2]
    found = jv.hypercube_blocks(2, num_rounds, [0.1, 0.5, 1.0], order=order).block_rounds
    assert found.tolist() == np.bincount(np.resize(order, num_rounds), minlength=3).tolist()
    assert jv.hypercube_blocks(2, 2**31 - 2, [0.1, 0.5]).block_rounds.sum() == pytest.approx(2**31 - 2)


def test_proposals_for_many_arms_are_gathered(monkeypatch):
    """The very numbers of the comparison one by one."""
    algorithm = jv.fgts_va(2, 50)
    expected = jv.run(algorithm, ENVIRONMENT, KEY, num_rounds=4, record_at=4).regret
    monkeypatch.setattr(thompson, "_MOST_UNROLLED", 1)
    found = jv.run(algorithm, ENVIRONMENT, KEY, num_rounds=5, record_at=5).regret[:4]
    np.testing.assert_array_equal(found, expected)
