"""What float32 changes: ``python -m experiments speed precision``.

Every game is played three times, each time in an interpreter of its own, since precision is settled for a whole
process: in float64, in float32 on the same arms and noise (they agree up to rounding), and in float64 with a float32
shadow that learns from the same history (:mod:`experiments.speed.shared_history`). The first two say what rounding
does to decisions and to regret; the third says what it does to widths and estimates, layer by layer.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.stats

import jaxvar as jv
from experiments.speed.shared_history import shared_history
from jaxvar.algorithms.bandit import default_tolerance
from jaxvar.parameters import float_dtype, pytree, static

Array = np.ndarray[Any, Any]
ALGORITHMS = ("save", "ave_ucb", "oful", "ucrl_ave")
MODES = ("float64", "float32", "shared")
ROOT = Path(__file__).parents[2]
LEVEL = 0.95  # of the intervals


@dataclasses.dataclass(frozen=True)
class Precision:
    """Compare float32 with float64 on the same arms and noise."""

    seeds: int = 200
    """Seeds of each game."""
    rounds: int = 20_000
    """Rounds of a bandit; an episode of ucrl_ave has 10 steps, and it plays a tenth as many episodes."""
    algorithms: tuple[str, ...] = ALGORITHMS
    """Which of save, ave_ucb, oful and ucrl_ave."""
    settings: tuple[str, ...] = ("ordinary", "small noise", "deep", "deep, scaled ties")
    """Which of: ordinary (noise 0.3), small noise (0.01), deep (small noise and short arms too), and deep, scaled ties
    (where the tolerance for ties is as small as the arms)."""


SETTINGS: dict[str, dict[str, Any]] = {
    "ordinary": {"dim": 5, "arms": 20, "fresh": False, "noise": 0.3, "bound": 1.0, "norm": 1.0, "rows": 1.0},
    "small noise": {"dim": 2, "arms": 10, "fresh": True, "noise": 0.01, "bound": 0.1, "norm": 1.0, "rows": 0.03},
    # An arm shorter than 4^-m is certain in the layers up to m from the start: these learn from layer 5 on.
    "deep": {"dim": 2, "arms": 10, "fresh": True, "noise": 1e-4, "bound": 0.01, "norm": 0.002, "rows": 0.01},
}
SETTINGS["deep, scaled ties"] = {**SETTINGS["deep"], "ties": SETTINGS["deep"]["norm"]}
# bound: R; norm: of the arms; rows: concentration of the rows of a random mixture, near 0 where they are certain;
# ties: multiplies the tolerance.


@dataclasses.dataclass(frozen=True)
class LayerError:
    """How far float32 is from float64 in one layer after the same history."""

    layer: int
    updates: float  # mean over seeds
    width: float  # relative error of a width in the worst direction: median over seeds that used the layer,
    largest_width: float  # and the largest
    estimate: float  # |theta_hat32 - theta_hat64| / |theta_hat64|: median,
    largest_estimate: float  # and the largest


@dataclasses.dataclass(frozen=True)
class Row:
    """One game."""

    setting: str
    algorithm: str
    seeds: int
    rounds: int  # or steps, in episodes
    differ: float  # the fraction of all rounds in which the two runs decide differently
    seeds_differ: float  # the fraction of seeds in which they ever do
    first: float | None  # the first such round: median over the seeds that have one
    first_layer: float | None  # the layer of float64 in it, likewise; 0 where it learned nothing there
    regret: float  # mean of float64
    difference: float  # float32 minus float64, mean over seeds
    half_width: float  # of its 95 % interval, from paired seeds
    shared_differ: float  # the fraction of rounds in which float32 would decide differently after the same history
    layers: tuple[LayerError, ...]


@pytree
class Decisions:
    """A recorder of the last round's decision: action and layer; of an episode, those of its steps."""

    name = "decisions"
    steps: int = static(default=1)

    def init(self, algorithm: Any, instance: Any) -> Array | jax.Array:
        """No decision yet."""
        return jnp.zeros((2, self.steps), jnp.int16)

    def update(self, memory: Any, event: Any, algorithm: Any, instance: Any) -> jax.Array:
        """The event's."""
        pair = (event.action.reshape(-1), jnp.asarray(event.layer).reshape(-1))
        return jnp.stack([x.astype(jnp.int16) for x in pair])

    def read(self, memory: Any) -> Any:
        """[2, steps]."""
        return memory


@pytree
class FinalStates:
    """A recorder of what the two precisions know: inverses and estimates, float64 before float32."""

    name = "states"

    def init(self, algorithm: Any, instance: Any) -> jax.Array:
        """Nothing yet."""
        dim, capacity = algorithm.dim, algorithm.capacity
        return jnp.zeros(2 * capacity * (dim * dim + dim + 1) + 1, jnp.float64)

    def update(self, memory: Any, event: Any, algorithm: Any, instance: Any) -> jax.Array:
        """Those of the event."""
        parts = [x for s in (event.state.double, event.state.single) for x in _knowledge(s)]
        return jnp.concatenate([x.reshape(-1).astype(jnp.float64) for x in (*parts, event.state.differs)])

    def read(self, memory: Any) -> Any:
        """All of it in one row."""
        return memory


def _knowledge(state: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Inverse ``[layers, d, d]``, estimate ``[layers, d]`` and number of observations ``[layers]``."""
    if hasattr(state, "layers"):
        return state.layers.scaled_inv, state.layers.theta_hat, state.layers.count
    return state.regression.sigma_inv[None], state.regression.theta_hat[None], state.round[None]


def precision(options: Precision) -> list[Row]:
    """Play every game in every mode and compare."""
    for name, known in (("algorithms", ALGORITHMS), ("settings", tuple(SETTINGS))):
        unknown = sorted(set(getattr(options, name)) - set(known))
        if unknown:
            raise ValueError(f"{name} must be among {', '.join(known)}, got {', '.join(unknown)}")
    with tempfile.TemporaryDirectory() as folder:
        results = {}
        for mode in MODES:
            path = Path(folder) / f"{mode}.npz"
            task = json.dumps(dataclasses.asdict(options))
            command = [sys.executable, "-m", "experiments.speed.precision", mode, task, path]
            subprocess.run(command, check=True, cwd=ROOT)
            with np.load(path) as file:
                results[mode] = dict(file)
    return [
        _row(options, setting, name, {m: _of_game(r, f"{setting}/{name}/") for m, r in results.items()})
        for setting in options.settings
        for name in options.algorithms
    ]


def _of_game(result: dict[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): x for name, x in result.items() if name.startswith(prefix)}


def _row(options: Precision, setting: str, name: str, played: dict[str, dict[str, Array]]) -> Row:
    double, single, shared = (played[mode] for mode in MODES)
    ours, theirs = (r["decisions"] for r in (double, single))  # [seeds, rounds, 2, steps]
    differs = np.any(ours != theirs, axis=2).reshape(options.seeds, -1)
    layer = ours[:, :, 1].reshape(options.seeds, -1)
    some = differs.any(1)
    first = differs.argmax(1)[some]
    gap = single["regret"].astype(np.float64) - double["regret"]
    t = scipy.stats.t.ppf(0.5 + LEVEL / 2, options.seeds - 1)
    return Row(
        setting=setting,
        algorithm=name,
        seeds=options.seeds,
        rounds=differs.shape[1],
        differ=float(differs.mean()),
        seeds_differ=float(some.mean()),
        first=float(np.median(first + 1)) if some.any() else None,
        first_layer=float(np.median(layer[some, first])) if some.any() else None,
        regret=float(double["regret"].mean()),
        difference=float(gap.mean()),
        half_width=float(t * gap.std(ddof=1) / np.sqrt(options.seeds)),
        shared_differ=float(shared["states"][:, -1].mean() / differs.shape[1]),
        layers=layer_errors(shared["states"], int(shared["dim"])),
    )


def layer_errors(states: Array, dim: int) -> tuple[LayerError, ...]:
    """The errors of every layer that learned something, from the rows of :class:`FinalStates`."""
    seeds = len(states)
    capacity = (states.shape[1] - 1) // 2 // (dim * dim + dim + 1)
    both = states[:, :-1].reshape(seeds, 2, -1)
    ends = np.cumsum([capacity * dim * dim, capacity * dim])
    inverse, estimate, count = np.split(both, ends, axis=2)
    inverse = inverse.reshape(seeds, 2, capacity, dim, dim)
    estimate = estimate.reshape(seeds, 2, capacity, dim)
    found = []
    for i in range(capacity):
        learned = np.flatnonzero(count[:, 0, i] > 0)
        if learned.size == 0:
            continue
        # The largest and the least x' P32 x / x' P64 x.
        ratios = np.array([scipy.linalg.eigvalsh(inverse[s, 1, i], inverse[s, 0, i]) for s in learned])
        width = np.abs(np.sqrt(np.maximum(ratios, 0)) - 1).max(1)
        away = np.linalg.norm(estimate[learned, 1, i] - estimate[learned, 0, i], axis=1)
        away = away / np.linalg.norm(estimate[learned, 0, i], axis=1)
        errors = (np.median(width), width.max(), np.median(away), away.max())
        found.append(LayerError(i + 1, float(count[:, 0, i].mean()), *map(float, errors)))
    return tuple(found)


def show(rows: list[Row]) -> None:
    """Print two tables: decisions and regret of each game, and the errors of its layers."""
    print(f"{rows[0].seeds} seeds; first round and its layer: medians over the seeds that differ; ", end="")
    print(f"interval: {LEVEL:.0%}, paired seeds\n")
    print("| setting | algorithm | rounds | decisions differ | seeds that differ | first round | in layer |", end="")
    print(" regret float64 | float32 - float64 | after the same history |")
    print("|---" * 10 + "|")
    for r in rows:
        first = "-" if r.first is None else f"{r.first:.0f}"
        layer = "-" if r.first_layer is None else f"{r.first_layer:.0f}"
        print(
            f"| {r.setting} | {r.algorithm} | {r.rounds} | {r.differ:.2%} | {r.seeds_differ:.1%} | {first} | {layer} | "
            f"{r.regret:.4g} | {r.difference:+.2g} ± {r.half_width:.2g} | {r.shared_differ:.1e} |"
        )
    print(
        "\nRelative error of float32 after the same history, widths in the worst direction: median and largest seed\n"
    )
    print("| setting | algorithm | layer | updates | width | largest | estimate | largest |\n" + "|---" * 8 + "|")
    for r in rows:
        for e in r.layers:
            errors = (e.width, e.largest_width, e.estimate, e.largest_estimate)
            cells = " | ".join(f"{x:.1e}" for x in errors)
            print(f"| {r.setting} | {r.algorithm} | {e.layer} | {e.updates:.0f} | {cells} |")


def _play(mode: str, options: Precision, path: Path) -> None:
    """Play every game in one mode and write what it gave."""
    jv.tune_cpu()
    jax.config.update("jax_enable_x64", mode != "float32")
    out: dict[str, Any] = {}
    for setting in options.settings:
        for name in options.algorithms:
            algorithm, environment, length, steps = _game(name, SETTINGS[setting], options.rounds)
            record: tuple[Any, ...] = (jv.record.regret(), Decisions(steps=steps))
            records = next(iter(length.values()))  # every one
            if mode == "shared":
                algorithm, record, records = shared_history(algorithm), (FinalStates(),), 1
            common: dict[str, Any] = {"key": jax.random.key(0), "num_seeds": options.seeds, **length}
            result = jv.simulate(algorithm, environment, record_at=records, recorders=record, **common)
            result.raise_if_failed()
            out[f"{setting}/{name}/dim"] = algorithm.dim
            for kind, values in result.records.items():
                out[f"{setting}/{name}/{kind}"] = values if kind == "decisions" else values[:, -1]
    np.savez(path, **out)


def _game(name: str, setting: dict[str, Any], rounds: int) -> tuple[Any, Any, dict[str, int], int]:
    """Algorithm, environment, length of the run, and steps per round."""
    constants = jv.constants.practical(0.01 if name == "ucrl_ave" else 0.1)  # as the documented numbers were made
    tolerance = setting.get("ties", 1.0) * default_tolerance(float_dtype())
    if name == "ucrl_ave":
        horizon = 10
        episodes = max(rounds // horizon, 1)
        mdp = jv.mixture_mdp(4, 3, 3, horizon, concentration=setting["rows"])
        ave = jv.ucrl_ave(3, horizon, episodes, norm_bound=mdp.norm_bound, constants=constants, tie_tolerance=tolerance)
        return ave, mdp, {"num_episodes": episodes}, horizon
    noise, norm, dim = jv.noise.two_point(setting["noise"]), setting["norm"], setting["dim"]
    bandit = jv.linear_bandit(dim, setting["arms"], noise=noise, fresh=setting["fresh"], norm_bound=norm)
    bound = {"noise_bound": setting["bound"], "tie_tolerance": tolerance}
    if name == "oful":  # a ridge that short arms can overcome
        return jv.oful(dim, lam=norm**2, norm_bound=norm, **bound), bandit, {"num_rounds": rounds}, 1
    factory: Any = getattr(jv, name)
    return factory(dim, rounds, constants=constants, **bound), bandit, {"num_rounds": rounds}, 1


if __name__ == "__main__":  # the interpreter of one mode
    _play(sys.argv[1], Precision(**json.loads(sys.argv[2])), Path(sys.argv[3]))
