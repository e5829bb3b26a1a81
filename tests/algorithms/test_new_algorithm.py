"""A new algorithm is its file and its twin: written into a copy of the package, it is found by everything there is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = (
    "__init__.py",
    "conftest.py",
    "helpers/__init__.py",
    "helpers/arguments.py",
    "helpers/cases.py",
    "helpers/programs.py",
    "helpers/twins.py",
    "core/__init__.py",
    "core/test_bad_input.py",
    "core/test_parameters.py",
    "algorithms/__init__.py",
    "algorithms/test_contract.py",
    "algorithms/test_twin_interface.py",
    "experiments/__init__.py",
    "experiments/test_bench_catalogue.py",
    "package/__init__.py",
    "package/test_listing.py",
)

ALGORITHM = '''\
"""Epsilon-greedy: ridge regression, and a random arm now and then."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import random, ridge
from jaxvar.algorithms import bandit
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.claims import Claim
from jaxvar.lowering import inner
from jaxvar.parameters import choice, count, factory, number, pytree

CLAIM = Claim(
    name="epsilon-greedy",
    factory="epsilon_greedy",
    reference="Sutton, Barto 1998",
    setting="bandit",
    regret="none claimed",
    deterministic="none claimed",
    variance="not used",
    efficient=True,
    constants="read",
)


class EpsilonGreedyState(NamedTuple):
    """State of epsilon-greedy for one seed."""

    regression: ridge.Ridge
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class EpsilonGreedy:
    """Epsilon-greedy: any arm with probability epsilon, else the best one by ridge regression.

    References:
      Sutton, Barto (1998), Reinforcement learning: an introduction, Section 2.2.
    """

    dim: int = count(kw_only=False, doc="d, the length of an arm.")
    num_rounds: Any = number(at_least=1, kw_only=False, doc="K, which sets epsilon.")
    epsilon: Any = number(
        at_least=0,
        at_most=1,
        default=None,
        rule=lambda self: (self.num_rounds / self.dim + 1) ** (-1 / 3),
        doc="the probability of a random arm; ``(1 + K / d)^(-1/3)`` if not given.",
    )
    schedule: str = choice(
        "constant", "decaying", default="constant", doc="``constant``, or ``decaying`` as 1 / sqrt(k) in round k."
    )
    lam: Any = number(above=0, default=1.0, doc="the ridge.")
    ties: str = bandit.declare_ties()
    tie_tolerance: Any = bandit.declare_tolerance()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.lam)

    def init(self) -> EpsilonGreedyState:
        """Return an empty regression."""
        return EpsilonGreedyState(ridge.init_ridge(self.dim, self.lam, self.dtype), jnp.int32(0), jnp.int32(0))

    def select(self, state: EpsilonGreedyState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose one of ``arms [num_arms, dim]``."""
        words, there = random.key_words(key), side.mask(arms.shape[0])
        epsilon = jnp.asarray(self.epsilon)
        if self.schedule == "decaying":
            epsilon = epsilon / jnp.sqrt((state.round + 1).astype(self.dtype))
        values = inner(arms, state.regression.theta_hat)
        best = bandit.pick(bandit.best(values, there, self.tie_tolerance, 1), words, self.ties)
        coin = random.uniform(random.bits(words, (), stream=1), self.dtype)
        action = jnp.where(coin < epsilon, bandit.pick(there, words, "random"), best)
        return Choice(action, jnp.ones_like(action), jnp.ones((), self.dtype), jnp.int32(0))

    def update(
        self, state: EpsilonGreedyState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> EpsilonGreedyState:
        """Learn by one step of ridge regression."""
        regression, update = ridge.regress(state.regression, x, reward)
        return EpsilonGreedyState(regression, state.round + 1, state.status | ridge.failure(update))


epsilon_greedy = factory(EpsilonGreedy)
'''

TWIN = '''\
"""Epsilon-greedy on given numbers."""

import numpy as np

from .ties_numpy import argmax_with_ties, by_rank


class Twin:
    draws = {"coin": ("uniform", 1, ())}

    def __init__(self, *, dim, epsilon, schedule, lam, ties, tie_tolerance):
        self.V, self.b, self.round = lam * np.eye(dim), np.zeros(dim), 0
        self.epsilon, self.schedule, self.ties = epsilon, schedule, (ties, tie_tolerance)

    def estimates(self):
        return {"regression.theta_hat": np.linalg.inv(self.V) @ self.b}

    def select(self, arms, u, noise_var, coin):
        self.round += 1
        if coin < self.epsilon / (self.round**0.5 if self.schedule == "decaying" else 1.0):
            return by_rank(list(range(len(arms))), u)
        values = arms @ self.estimates()["regression.theta_hat"]
        return argmax_with_ties(values, np.ones(len(arms), bool), u, *self.ties)[0]

    def update(self, x, reward, noise_var):
        self.V, self.b = self.V + np.outer(x, x), self.b + reward * x
'''

STUDY = """\
seeds = 2
rounds = 20
[[algorithm]]
name = "epsilon_greedy"
schedule = "decaying"
[algorithm.sweep]
epsilon = [0.1, 0.5]
[[environment]]
name = "linear_bandit"
dim = 2
num_arms = 3
"""

SCRIPT = """
import inspect, pydoc, sys
from pathlib import Path

import jax

import jaxvar as jv
from jaxvar.cli import main

assert Path(jv.__file__).is_relative_to(Path.cwd()), jv.__file__
assert "epsilon_greedy" in jv.__all__ and jv.epsilon_greedy.__module__ == "jaxvar.algorithms.epsilon_greedy"
assert [*inspect.signature(jv.epsilon_greedy).parameters][:3] == ["dim", "num_rounds", "epsilon"]
text = pydoc.plain(pydoc.render_doc(jv.epsilon_greedy))
assert "epsilon: the probability of a random arm" in text and "schedule: " in text and "References:" in text
try:
    jv.epsilon_greedy(2, 10, epsilon=2)
except ValueError as error:
    assert str(error) == "epsilon must be a finite number in [0, 1], got 2", error
assert main(["list"]) == 0
result = jv.run_study(jv.read_study("mine.toml"), "out")
assert len(result.cells) == 2 and all((cell.status == 0).all() for cell in result.cells)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the package and of the tests that go over all algorithms, with one more algorithm."""
    here = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "jaxvar", here / "jaxvar")
    shutil.copytree(ROOT / "tests" / "reference", here / "tests" / "reference")
    shutil.copytree(ROOT / "experiments" / "speed", here / "experiments" / "speed")
    shutil.copy2(ROOT / "experiments" / "__init__.py", here / "experiments")
    for name in TESTS:
        (here / "tests" / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / "tests" / name, here / "tests" / name)
    shutil.copy2(ROOT / "pyproject.toml", here)
    (here / "jaxvar" / "algorithms" / "epsilon_greedy.py").write_text(ALGORITHM)
    (here / "tests" / "reference" / "epsilon_greedy_numpy.py").write_text(TWIN)
    (here / "mine.toml").write_text(STUDY)
    return here


def python(folder, *args):
    done = subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_checklist_shows_it():
    """What a contributor reads is what is tried here, line by line."""
    shown = (ROOT / "CONTRIBUTING.md").read_text().split("```python\n")[1].split("```")[0]
    lines = [line for line in shown.splitlines() if not line.startswith("    ...")]
    assert len(lines) > 20 and set(lines) <= set(ALGORITHM.splitlines())


def test_it_is_exported_explained_listed_and_studied(folder):
    """No line anywhere names it but its own."""
    said = python(folder, "-c", SCRIPT)
    assert "jv.epsilon_greedy" in said and "Sutton, Barto 1998" in said


@pytest.mark.slow
def test_it_is_tested_and_timed(folder):
    """Contract, bad input, twin, help, list and benchmark: each finds it, in all its variants."""
    said = python(folder, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", "epsilon_greedy or listing", "tests")
    assert "failed" not in said
    for found in (
        "test_contract.py::test_algorithms_keep_the_contract[epsilon_greedy]",
        "test_contract.py::test_algorithms_keep_the_contract[epsilon_greedy-decaying]",
        "test_contract.py::test_algorithms_keep_the_contract[epsilon_greedy-given]",
        "test_bad_input.py::test_declared_parameters_are_checked[epsilon_greedy]",
        "test_twin_interface.py::test_follows_its_twin[epsilon_greedy]",
        "test_twin_interface.py::test_follows_its_twin[epsilon_greedy-decaying]",
        "test_parameters.py::test_every_factory_explains_its_arguments[epsilon_greedy]",
        "test_bench_catalogue.py::test_twins_are_found_and_play[epsilon_greedy fresh]",
    ):
        assert f"{found} PASSED" in said, found


@pytest.mark.slow
def test_a_wrong_twin_is_noticed(folder):
    """A slip of the kind the twin is for: the wrong power of k."""
    path = folder / "tests" / "reference" / "epsilon_greedy_numpy.py"
    path.write_text(TWIN.replace("self.round**0.5", "self.round**1.0"))
    try:
        with pytest.raises(AssertionError, match=r"the twin plays \d, the algorithm \d"):
            python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "epsilon_greedy-decaying",
                   "tests/algorithms/test_twin_interface.py")  # fmt: skip
    finally:
        path.write_text(TWIN)
