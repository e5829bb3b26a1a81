"""Wrappers in study files: ``wrap = {name = "delayed", delay = 3}`` in the table of an algorithm or environment."""

import jax
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.study.factories import StudyError

STUDY = """
seeds = 2
rounds = 12
records = 3

[[algorithm]]
name = "oful"
label = "late"
wrap = { name = "delayed", delay = 1 }
sweep = { "wrap.delay" = [0, 3] }

[[environment]]
name = "linear_bandit"
dim = 2
num_arms = 3
noise = { name = "two_point", std = 0.1 }
wrap = { name = "corrupted", budget = 2.0 }
"""


def read(folder, text):
    path = folder / "late.toml"
    path.write_text(text)
    return jv.read_study(path)


@pytest.mark.filterwarnings("ignore:.*its theorem does not hold")
def test_numbers_are_those_of_the_wrapped_objects(tmp_path):
    result = jv.run_study(read(tmp_path, STUDY), tmp_path / "out", progress=False)
    bandit = jv.corrupted(jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1)), 2.0)
    for cell, delay in zip(result.cells, (0, 3), strict=True):
        assert cell.algorithm_settings == {"wrap.delay": delay}
        late = jv.delayed(jv.oful(2), delay)
        out = jv.simulate(late, bandit, key=jax.random.key(0), num_rounds=12, num_seeds=2, record_at=3)
        np.testing.assert_array_equal(cell.regret, out.regret)
    stored = next(iter(result.config["cells"]))["config"]["environment"]["wrap"]
    assert stored == {"name": "corrupted", "budget": 2.0, "per_round": 2.0}
    assert np.any(result.cells[0].regret != result.cells[1].regret)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("delay = 1 }", "delay = 1, more = 2 }", "no argument of delayed named 'more'"),
        ('name = "delayed"', 'name = "delay"', "there is no wrap 'delay'; did you mean 'delayed'"),
        ('name = "delayed", delay = 1', 'name = "delayed"', None),
        ('{ name = "delayed", delay = 1 }', "3", "wrap.delay needs wrap to be a table, got 3"),
        ('{ name = "corrupted", budget = 2.0 }', "3", "wrap must be a table with a name, got 3"),
        ('name = "delayed", delay = 1', "delay = 1", "wrap must be a table with a name, one of batched, corrupted"),
        ("[0, 3]", "[0, -3]", "wrap: delay must be an integer of at least 0, got -3"),
        ('"corrupted", budget = 2.0', '"batched", every = 2', "algorithm must be a bandit algorithm with the methods"),
    ],
)
def test_wrong_tables(tmp_path, old, new, said):
    """One sentence each, before anything is played; a swept argument need not be given."""
    assert old in STUDY
    if said is None:
        list(read(tmp_path, STUDY.replace(old, new)).cells)
        return
    with pytest.raises(StudyError, match=said):
        list(read(tmp_path, STUDY.replace(old, new)).cells)
