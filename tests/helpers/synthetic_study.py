"""Results of studies that were never run: cells from NumPy arrays, for tests of what is made of results."""

import numpy as np

from jaxvar.study.result import CellResult, StudyResult

ROUNDS = np.array([1, 3, 10, 30, 100, 300, 1000], np.int32)


def cell(regret, *, algorithm="SAVE", environment="sphere", **fields):
    """A cell with ``regret [seeds, records]``; records are the last of ROUNDS unless given."""
    regret = np.asarray(regret, float)
    seeds = len(regret)
    records = {"regret": regret} | fields.pop("records", {})
    given = {
        "algorithm_settings": {},
        "environment_settings": {},
        "constants": "practical",
        "num_rounds": 1000,
        "rounds": ROUNDS[-regret.shape[1] :],
        "seeds": np.arange(seeds),
        "status": np.zeros(seeds, np.int32),
        "status_round": np.zeros(seeds, np.int32),
        "seconds": 2.0,
    }
    return CellResult(algorithm=algorithm, environment=environment, records=records, **(given | fields))


def study(cells, reference=None, **fields):
    given = {"name": "made up", "question": "Which one?", "unit": "round", "config": {}}
    return StudyResult(cells=tuple(cells), reference=reference, **(given | fields))


def unplayed(plan, records, *, seconds=lambda one: 1.0, **config):
    """The result of a study as if it had been played: ``records(cell)`` are the arrays of each of its cells by name."""
    found = []
    for one in plan.cells:
        arrays = records(one)
        found.append(
            cell(
                arrays["regret"],
                algorithm=one.algorithm_label,
                environment=one.environment_label,
                algorithm_settings=one.algorithm_settings,
                environment_settings=one.environment_settings,
                constants=one.constants,
                num_rounds=plan.length,
                rounds=plan.recorded,
                seeds=plan.first_seed + np.arange(len(arrays["regret"])),
                records=arrays,
                seconds=seconds(one),
            )
        )
    about = {"name": plan.name, "question": plan.question, "unit": plan.unit}
    return study(found, plan.reference, config={"study": plan.to_config(), **config}, **about)


def curves(seed=0, seeds=40, scale=1.0, power=0.5, spread=0.3):
    """Regret ``scale * k^power`` times a log-normal factor of mean 1 for each seed, [seeds, records]."""
    factors = np.exp(spread * np.random.default_rng(seed).normal(size=(seeds, 1)) - spread**2 / 2)
    return scale * ROUNDS.astype(float) ** power * factors


def layered(deepest=3, seeds=40):
    """Rounds per layer, adding up to the round, in a capacity two above the deepest layer that is reached."""
    shares = np.zeros(deepest + 3)
    shares[: deepest + 1] = np.arange(1, deepest + 2)
    counts = np.floor(ROUNDS[:, None] * shares / shares.sum())
    counts[:, 1] += ROUNDS - counts.sum(1)
    return np.broadcast_to(counts, (seeds, *counts.shape)).astype(np.int32)


def confident(failing=1, seeds=40, layers=3):
    """The confidence event, lost by the first seeds at the last round in the last layer."""
    held = np.ones((seeds, len(ROUNDS), layers), bool)
    held[:failing, -1, -1] = False
    return held


def whole_study(algorithms=("SAVE", "OFUL"), levels=(0.1, 0.3, 1.0), seeds=40):
    """Several algorithms at several noise levels, with layers and confidence; the last algorithm is the reference."""
    cells = [
        cell(
            curves(seed=9, seeds=seeds, scale=(1 + i) * level**0.5),
            algorithm=name,
            environment_settings={"noise.std": level},
            records={"layer_rounds": layered(1 + i % 4, seeds), "confidence": confident(i, seeds)},
            constants="practical" if i else "paper",
        )
        for level in levels
        for i, name in enumerate(algorithms)
    ]
    return study(cells, reference=algorithms[-1])


def two_parameters(algorithms=("save", "oful"), dims=(2, 5, 20), seeds=6):
    """A study with a table of environment settings."""
    cells = [
        cell(
            curves(seed=i, seeds=seeds, scale=dim * (1 + i)),
            algorithm=name,
            environment="linear_bandit",
            environment_settings={"dim": dim, "noise.std": level},
        )
        for dim in dims
        for level in (0.1, 0.3, 1.0)
        for i, name in enumerate(algorithms)
    ]
    return study(cells, reference=algorithms[-1])
