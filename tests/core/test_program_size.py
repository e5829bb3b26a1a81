"""Programs do not grow unnoticed: their size is compared with committed numbers, without timing anything.

Equations of the traced round hardly depend on the version of JAX, and are always compared. Instructions and fusions of
the compiled round are those of one compiler, and are compared where its version is the stored one. After a change that
is meant to cost something, or that saves a lot, write the numbers anew and commit them:

    python tests/core/test_program_size.py
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxvar as jv
from experiments.speed import hlo
from experiments.speed.comparison import Comparison, bandit_game, episodic_game
from experiments.speed.kernels import devices, equations, precision, target, traced

STORED = Path(__file__).with_name("program_size.json")
ALLOWED = 1.2  # a program may grow by this factor
SMALL = Comparison(dim=3, arms=4, rounds=50, states=3, actions=2, features=2, horizon=3, episodes=20)
NUM_SEEDS = 4
PROGRAMS = ("save fresh", "save fixed", "ave_ucb fresh", "oful fresh", "ucrl_ave")


def size(algorithm, environment, num_turns):
    """Equations, instructions and kernels of one turn of the scan, each inner loop counted once."""
    program = traced(algorithm, environment, NUM_SEEDS, num_turns, target(devices()["cpu"]))
    compiled = hlo.Program(program.lower().compile().as_text())
    loop = compiled.scan(num_turns)
    return {
        "equations": equations(program.jaxpr, num_turns),
        "instructions": compiled.size(loop.instruction.calls("body")[0]),
        "kernels": _kernels(loop.turn),
    }


def _kernels(turn):
    return len(turn.kernels) + sum(_kernels(loop.turn) for loop in turn.loops)


def measure(name):
    with precision("float64"):
        if name == "ucrl_ave":
            return size(*episodic_game(SMALL), SMALL.episodes)
        kind, arms = name.split()
        return size(*bandit_game(SMALL, kind, arms == "fresh"), SMALL.rounds)


def grown(stored, version, found, running):
    """What of ``found`` exceeds what ``version`` of JAX had when it was ``stored``, as sentences."""
    comparable = stored if version == running else {"equations": stored["equations"]}
    return [
        f"{found[what]} {what} in a round, {before} when last written down"
        for what, before in comparable.items()
        if found[what] > ALLOWED * before
    ]


def write():
    """Store the sizes of today."""
    sizes = {name: measure(name) for name in PROGRAMS}
    STORED.write_text(json.dumps({"jax": jax.__version__, "programs": sizes}, indent=2) + "\n")


def stored():
    return json.loads(STORED.read_text())


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_has_not_grown(name):
    """Slower code shows here first: more to do in a round."""
    told = grown(stored()["programs"][name], stored()["jax"], measure(name), jax.__version__)
    assert not told, f"{name}: {'; '.join(told)}. If it is meant: python tests/core/test_program_size.py"


@pytest.mark.parametrize("kind", ["uniform", "hypercube"])
def test_arms_are_drawn_once(kind):
    """XLA repeats a chain of cheap operations in each use; arms drawn in every kernel cost ten times as much."""
    sphere, found = (
        size(jv.oful(3), jv.linear_bandit(3, 4, arms=arms, fresh=True), SMALL.rounds)["instructions"]
        for arms in ("sphere", kind)
    )
    assert found < sphere  # no normals, no norms


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Bloated:
    """OFUL that draws seven times as many random numbers as the arms need, and sorts them."""

    oful: Any

    def init(self):
        return self.oful.init()

    def select(self, state, arms, key, side):
        for stream in range(2, 8):
            word = jv.random.bits(jv.random.key_words(key), arms.shape, stream)
            arms = arms + 1e-12 * jnp.sort(jv.random.normal(word, arms.dtype), axis=0)
        return self.oful.select(state, arms, key, side)

    def update(self, state, choice, x, reward, side):
        return self.oful.update(state, choice, x, reward, side)


def test_a_bloated_program_is_noticed():
    """By what is traced alone, and by what is compiled where the compiler is the stored one."""
    with precision("float64"):
        oful, environment = bandit_game(SMALL, "oful", True)
        found = size(Bloated(oful), environment, SMALL.rounds)
    before = stored()["programs"]["oful fresh"]
    assert len(grown(before, "another", found, "version")) == 1
    assert len(grown(before, "same", found, "same")) == 3


def test_growth_is_judged_by_the_version():
    """Up to a fifth more passes; another compiler's instructions say nothing."""
    before = {"equations": 100, "instructions": 100, "kernels": 10}
    assert grown(before, "1", {"equations": 120, "instructions": 120, "kernels": 12}, "1") == []
    assert len(grown(before, "1", {"equations": 100, "instructions": 121, "kernels": 13}, "1")) == 2
    assert grown(before, "1", {"equations": 100, "instructions": 999, "kernels": 99}, "2") == []
    assert "121 equations" in grown(before, "1", {"equations": 121, "instructions": 1, "kernels": 1}, "2")[0]


if __name__ == "__main__":
    write()
