"""A study of seconds, which the tests of running, killing and reading share."""

import hashlib

import jaxvar as jv

BANDIT = jv.Entry(
    "linear_bandit",
    label="two noise levels",
    options={"dim": 2, "num_arms": 3, "noise": {"name": "two_point", "std": 0.1}},
    sweep={"noise.std": [0.1, 0.5]},
)
OFUL = jv.Entry("oful")
UNIFORM = jv.Entry("uniform")


def small_study(**changes):
    """OFUL and uniform play at two noise levels: four cells of three shards, the last one not asked for in full."""
    given = {
        "name": "small",
        "seeds": 20,
        "rounds": 60,
        "chunk": 8,
        "records": [1, 10, 20, 30, 45, 60],
        "key": 3,
        "algorithms": (OFUL, UNIFORM),
        "environments": (BANDIT,),
    }
    return jv.Study(**{**given, **changes})


SMALL_TOML = """
name = "small"
seeds = 20
rounds = 60
chunk = 8
records = [1, 10, 20, 30, 45, 60]
key = 3
[[algorithm]]
name = "oful"
[[algorithm]]
name = "uniform"
[[environment]]
name = "linear_bandit"
label = "two noise levels"
dim = 2
num_arms = 3
noise = { name = "two_point", std = 0.1 }
[environment.sweep]
"noise.std" = [0.1, 0.5]
"""


def stored(folder, parts=("shards",)):
    """Every file of some parts of a study's folder, by name: the digest of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in parts
        for path in sorted((folder / part).rglob("*"))
        if path.is_file()
    }


def arrays(result):
    """All numbers of a result but the times."""
    return [
        (c.seeds, c.rounds, c.status, c.status_round, *(c.records[n] for n in sorted(c.records))) for c in result.cells
    ]
