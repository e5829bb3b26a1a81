"""Results of studies that nobody ran, for tests of what is made of results."""

import numpy as np

from jaxvar.study.result import CellResult, StudyResult


def curves(rng, rounds, num_seeds, scale, power):
    """Regret that grows like ``scale * k^power`` with seeds of their own, [seeds, records]."""
    own = rng.gamma(12.0, scale / 12.0, size=(num_seeds, 1))
    steps = np.diff(rounds.astype(float) ** power, prepend=0.0)
    return own * np.cumsum(steps * rng.gamma(4.0, 0.25, size=(num_seeds, len(rounds))), axis=1)


def layers(rng, rounds, num_seeds, num_layers):
    """Counts that add up to the rounds, [seeds, records, layers + 1]."""
    share = rng.dirichlet(np.full(num_layers + 1, 2.0), size=(num_seeds, 1))
    counts = np.floor(share * rounds[None, :, None]).astype(np.int32)
    counts[..., -1] += rounds[None, :].astype(np.int32) - counts.sum(-1)
    return counts


def cell(rng, algorithm, environment, settings, *, rounds, num_seeds, scale, power, num_layers, constants="practical"):
    """One cell with every record."""
    records = {
        "regret": curves(rng, rounds, num_seeds, scale, power),
        "variance": np.tile(0.01 * rounds, (num_seeds, 1)),
        "layer_rounds": layers(rng, rounds, num_seeds, num_layers),
        "confidence": np.broadcast_to(
            rng.random((num_seeds, 1, num_layers)) < 0.995, (num_seeds, len(rounds), num_layers)
        ),
    }
    return CellResult(
        algorithm=algorithm,
        environment=environment,
        algorithm_settings={},
        environment_settings=settings,
        constants=constants,
        num_rounds=int(rounds[-1]),
        rounds=rounds.astype(np.int32),
        seeds=np.arange(num_seeds),
        records=records,
        status=np.zeros(num_seeds, np.int32),
        status_round=np.zeros(num_seeds, np.int32),
        seconds=float(rng.uniform(0.5, 40.0)),
    )


def study(
    *,
    name="headline",
    question="Which algorithms notice how little noise there is?",
    algorithms=("SAVE (paper)", "SAVE (practical)", "AVE-UCB (practical)", "OFUL (theorem)", "uniform"),
    environment="sphere",
    levels=(0.01, 0.1, 0.3, 1.0),
    reference="OFUL (theorem)",
    num_seeds=64,
    num_rounds=20_000,
    num_records=50,
    seed=0,
):
    """A study whose regret depends on the algorithm's number and on the noise level."""
    rng = np.random.default_rng(seed)
    rounds = np.unique(np.linspace(0, num_rounds, num_records + 1)[1:].astype(np.int32))
    cells = []
    for level in levels:
        for i, algorithm in enumerate(algorithms):
            scale = (0.6 + 0.5 * i) * (0.3 + level)
            cells.append(
                cell(
                    rng,
                    algorithm,
                    environment,
                    {"noise.std": level},
                    rounds=rounds,
                    num_seeds=num_seeds,
                    scale=scale,
                    power=0.5 + 0.05 * (i % 6),
                    num_layers=1 + i % 5,
                    constants=("paper", "practical", "practical", "theorem", "none")[i % 5],
                )
            )
    config = {"study": {"name": name, "seeds": num_seeds, "rounds": num_rounds}, "versions": {"jaxvar": "0.1.0"}}
    return StudyResult(name, question, "round", reference, config, tuple(cells))
