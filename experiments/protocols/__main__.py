"""``python -m experiments protocols``: what late, batched and corrupted rewards cost OFUL, SAVE and CW-OFUL."""

from __future__ import annotations

import dataclasses
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import tyro

import jaxvar as jv
from experiments.experiment import publish, write
from experiments.protocols.conclude import Part, Weights, conclude
from jaxvar.algorithms.save import Save
from jaxvar.environments.linear_bandit import LinearBandit

ROOT_KEY = 0
DIM, NUM_ARMS, NOISE = 5, 20, 0.3
LATE = (0, 10, 100, 300)  # rounds; a batch of 1 is late by nothing
WEIGHED = (1, 10, 100)  # delays at which the weights of SAVE are looked at
BUDGETS = (0.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
EXPECTED = 100.0  # C, the corruption that CW-OFUL is built for


@dataclasses.dataclass(frozen=True)
class Options:
    """Play every algorithm under every protocol, then write tables and figure."""

    seeds: int = 256
    """Seeds per algorithm and protocol."""
    rounds: int = 10_000
    """Rounds per seed."""
    out: str = "results/protocols"
    """Folder for everything."""
    publish: bool = False
    """Put tables and figure into the experiment's own folder as well. Only at the sizes that are the default."""
    progress: bool = True
    """Say what is played."""

    def __post_init__(self) -> None:
        if self.publish and (self.seeds, self.rounds) != (Options.seeds, Options.rounds):
            raise ValueError("publish is for the experiment as it is, without seeds and rounds")


def bandit() -> LinearBandit:
    """Return the problem before it is made harder."""
    return jv.linear_bandit(DIM, NUM_ARMS, noise=jv.noise.two_point(NOISE))


def save_practical(options: Options) -> Save:
    """Return SAVE with practical constants."""
    return jv.save(DIM, options.rounds, noise_bound=NOISE, constants=jv.constants.practical())


def weigh(options: Options) -> list[Weights]:
    """Return what the first layer of SAVE learned in seed 0, for each delay."""
    found, length = [], min(options.rounds, 1000)
    for delay in WEIGHED:
        algorithm = jv.delayed(save_practical(options), delay)
        layers = jv.trace(algorithm, bandit(), jax.random.key(ROOT_KEY), num_rounds=length).state.learner.layers
        found.append(Weights(delay, int(layers.count[-1, 0]), float(layers.weight_sum[-1, 0])))
    return found


def play(options: Options) -> dict[str, Part]:
    """Play all: late and batched rewards, then corrupted ones."""
    environment = bandit()
    learners = {"OFUL (theorem)": jv.oful(DIM, noise_bound=NOISE), "SAVE (practical)": save_practical(options)}
    late = {}
    for label, learner in learners.items():
        delays = [jv.delayed(learner, value) for value in LATE]
        batches = [jv.batched(learner, max(value, 1)) for value in LATE]
        late[f"{label}, delayed"] = np.stack([_final(one, environment, options) for one in delays])
        late[f"{label}, batched"] = np.stack([_final(one, environment, options) for one in batches])

    # The threshold of the theorem up to logarithms, and the part alpha C of its radius as a larger bound on theta*.
    threshold = (NOISE * DIM**0.5 + 1) / EXPECTED
    robust = {
        "OFUL (theorem)": learners["OFUL (theorem)"],
        "CW-OFUL (threshold for C = 100)": jv.cw_oful(DIM, threshold, noise_bound=NOISE),
        "CW-OFUL (threshold and radius for C = 100)": jv.cw_oful(
            DIM, threshold, noise_bound=NOISE, theta_bound=1 + threshold * EXPECTED
        ),
    }
    budgets = jv.sweep(jv.corrupted(environment, 0.0), budget=list(BUDGETS))
    spoiled = {label: _final(learner, budgets, options) for label, learner in robust.items()}
    return {
        "late": Part("Late rewards", "rounds", "rounds of delay, or in a batch", LATE, late),
        "corrupted": Part("Corrupted rewards", "budget", "budget of the adversary, C", BUDGETS, spoiled),
    }


def _final(algorithm: object, environment: object, options: Options) -> np.ndarray:
    """Return the regret after the last round, [seeds], or [settings, seeds] of a sweep."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*its theorem does not hold")  # which is the question here
        out = jv.simulate(
            algorithm,
            environment,
            key=jax.random.key(ROOT_KEY),
            num_rounds=options.rounds,
            num_seeds=options.seeds,
            record_at=[options.rounds],
        )
    out.raise_if_failed()
    if options.progress:
        seconds = time.perf_counter() - start
        print(f"{type(algorithm).__name__} in {type(environment).__name__}: {seconds:.0f} s", flush=True)
    return out.regret[..., 0]


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 when done, 1 when a run failed; bad usage exits with 2."""
    options = tyro.cli(Options, prog="python -m experiments protocols", args=arguments)
    jv.tune_cpu()
    jv.keep_programs()
    jax.config.update("jax_enable_x64", True)  # before anything is built: leaves have the session's float type
    start = time.perf_counter()
    try:
        conclusions = conclude(play(options), weigh(options), options.rounds)
    except jv.SimulationError as error:
        print(f"the experiment failed: {error}", file=sys.stderr)
        return 1
    write(conclusions, Path(options.out))
    for table in conclusions.tables.values():
        print(f"\n{table.text()}", end="")
    print(f"\n{time.perf_counter() - start:.0f} seconds.")
    if options.publish:
        for path in publish("protocols", conclusions):
            print(f"  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
