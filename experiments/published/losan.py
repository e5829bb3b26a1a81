"""Little noise and a learner who is told of much (Jun, Kim 2024, public repository).

Claim: where noise of 0.01 is announced as noise of at most 1, LOSAN's regret over 100 rounds is a quarter below OFUL's,
LOFAV's a twentieth.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

import jaxvar as jv
from experiments.presentation import interval, write

DIM, NUM_ARMS, NOISE_STD, NOISE_BOUND, DELTA, ROOT_KEY = 32, 128, 0.01, 1.0, 0.2, 0


@dataclasses.dataclass(frozen=True)
class Options:
    """Theta* and 128 fixed arms uniform on the sphere in 32 dimensions, noise of 0.01, told R = 1 and delta = 0.2."""

    seeds: int = 1000
    """Seeds per algorithm and noise."""
    rounds: int = 100
    """Rounds per seed."""
    out: str = "results/published"
    """Folder for the table and the numbers."""


def noises() -> dict[str, Any]:
    """Label -> noise; 100 standard deviations away, the Gaussian's clipping at R changes nothing."""
    return {
        "Gaussian": jv.noise.clipped_gaussian(NOISE_STD, bound=NOISE_BOUND),
        "Rademacher": jv.noise.two_point(NOISE_STD),
    }


def algorithms(num_rounds: int) -> dict[str, Any]:
    """The repository's two, and what they are to be compared with."""
    told: dict[str, Any] = {"noise_bound": NOISE_BOUND, "delta": DELTA}
    return {
        "LOSAN (theorem)": jv.losan(DIM, **told),
        "LOFAV (theorem)": jv.lofav(DIM, num_rounds, **told),
        "OFUL (theorem)": jv.oful(DIM, **told),
        "LinTS (bayes, R = 1)": jv.lin_ts(DIM, scale="bayes", noise_bound=NOISE_BOUND),
        "Greedy": jv.greedy(DIM),
        "Uniform": jv.uniform(),
    }


def run(options: Options, progress: bool = True) -> tuple[np.ndarray, dict[str, dict[str, np.ndarray]]]:
    """The recorded rounds, and per noise and algorithm the regret ``[seeds, records]``."""
    rounds = jv.linear_spaced(options.rounds, min(options.rounds, 50))
    regret: dict[str, dict[str, np.ndarray]] = {}
    for kind, noise in noises().items():
        environment = jv.linear_bandit(DIM, NUM_ARMS, noise=noise)
        regret[kind] = {}
        for label, algorithm in algorithms(options.rounds).items():
            if progress:
                print(f"{kind}: {label}", flush=True)
            out = jv.simulate(
                algorithm,
                environment,
                key=jax.random.key(ROOT_KEY),
                num_rounds=options.rounds,
                num_seeds=options.seeds,
                records=rounds,
                progress=progress,
            )
            out.raise_if_failed()
            regret[kind][label] = out.regret
    return rounds, regret


def table(rounds: np.ndarray, regret: dict[str, dict[str, np.ndarray]]) -> str:
    """Regret at the half and at the end: mean and half width of the 95 % t interval, in Markdown."""
    half = len(rounds) // 2 - 1
    columns = [(kind, i) for kind in regret for i in (half, len(rounds) - 1)]
    head = " | ".join(f"{kind}, round {rounds[i]}" for kind, i in columns)
    lines = [f"| | {head} |", "|---" * (1 + len(columns)) + "|"]
    for label in next(iter(regret.values())):
        cells = []
        for kind, i in columns:
            mean, width = interval(regret[kind][label][:, i])
            cells.append(f"{mean:.2f} ± {width:.2f}")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when done, 1 when a run failed."""
    options = tyro.cli(Options, prog="python -m experiments.published losan", args=arguments)
    jv.tune_cpu()
    jax.config.update("jax_enable_x64", True)
    start = time.perf_counter()
    try:
        rounds, regret = run(options)
    except (ValueError, jv.SimulationError) as error:
        print(f"the study failed: {error}", file=sys.stderr)
        return 1
    text = table(rounds, regret)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    flat = {f"{kind}: {label}": values for kind, labels in regret.items() for label, values in labels.items()}
    paths = [
        write(out / "losan.txt", lambda b: b.write((text + "\n").encode()) and None),
        write(out / "losan.npz", lambda b: np.savez_compressed(b, rounds=rounds, **flat)),
    ]
    print(f"\nlosan, {options.seeds} seeds: mean ± half width of the 95 % t interval\n")
    print(f"{text}\n\n{time.perf_counter() - start:.0f} seconds. Written:")
    for path in paths:
        print(f"  {path.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
