"""What float32 changes: ``python -m experiments speed precision``.

Every game is played three times, each time in an interpreter of its own, since precision is settled for a whole
process: in float64, in float32 on the same arms and noise (they agree up to rounding), and in float64 with a float32
shadow that learns from the same history (:mod:`experiments.speed.shared_history`). The first two say what rounding
does to regret and to the confidence event; the third what it does to decisions, widths and estimates.
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
from jaxvar.parameters import float_dtype, pytree

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
    settings: tuple[str, ...] = ("ordinary", "small noise", "deep")
    """Which of: ordinary (noise 0.3), small noise (0.01), and deep (small noise and short arms too)."""
    constants: tuple[str, ...] = ("practical", "sharp")
    """Presets of the algorithms with layers: practical, sharp."""


SETTINGS: dict[str, dict[str, Any]] = {
    "ordinary": {"dim": 5, "arms": 20, "fresh": False, "noise": 0.3, "bound": 1.0, "norm": 1.0, "rows": 1.0},
    "small noise": {"dim": 2, "arms": 10, "fresh": True, "noise": 0.01, "bound": 0.1, "norm": 1.0, "rows": 0.03},
    # An arm shorter than 4^-m is certain in the layers up to m from the start: these learn from layer 5 on.
    "deep": {"dim": 2, "arms": 10, "fresh": True, "noise": 1e-4, "bound": 0.01, "norm": 0.002, "rows": 0.01},
}
# bound: R; norm: of the arms, and of the tolerance for ties; rows: concentration of the rows of a random mixture, near
# 0 where they are certain.


@dataclasses.dataclass(frozen=True)
class Row:
    """One game."""

    setting: str
    algorithm: str
    rounds: int  # or steps, in episodes
    lost: int  # seeds of which float32 says that an inverse lost its digits; nothing else is said of them
    regret: float  # mean of float64
    difference: float  # float32 minus float64, mean over seeds
    half_width: float  # of its 95 % interval, from paired seeds
    held: tuple[float, float]  # the fraction of seeds whose confidence event held in all rounds, float64 and float32
    differ: float  # the fraction of rounds in which float32 would decide differently after the same history
    width: float  # largest relative error of a width after the same history, over directions, layers and seeds
    estimate: float  # likewise |theta_hat32 - theta_hat64| in the norm of Sigma, to be compared with a radius


@pytree
class FinalStates:
    """A recorder of what the two precisions know: roots and estimates, float64 before float32."""

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
    """Root of Sigma^-1 ``[layers, d, d]``, estimate ``[layers, d]`` and number of observations ``[layers]``."""
    if hasattr(state, "layers"):
        layers = state.layers
        return layers.root / jnp.sqrt(layers.scale)[:, None, None], layers.theta_hat, layers.count
    return state.regression.root[None], state.regression.theta_hat[None], state.round[None]


def precision(options: Precision) -> list[Row]:
    """Play every game in every mode and compare."""
    known = (("algorithms", ALGORITHMS), ("settings", tuple(SETTINGS)), ("constants", ("practical", "sharp")))
    for name, names in known:
        unknown = sorted(set(getattr(options, name)) - set(names))
        if unknown:
            raise ValueError(f"{name} must be among {', '.join(names)}, got {', '.join(unknown)}")
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
        _row(setting, label, {m: _of_game(r, f"{setting}/{label}/") for m, r in results.items()})
        for setting, label, *_ in games(options)
    ]


def games(options: Precision) -> list[tuple[str, str, str, str]]:
    """Return setting, label, factory and preset of every game."""
    return [
        (setting, name if name == "oful" else f"{name} {preset}", name, preset)
        for setting in options.settings
        for name in options.algorithms
        for preset in options.constants
        if name != "oful" or preset == options.constants[0]
    ]


def _of_game(result: dict[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): x for name, x in result.items() if name.startswith(prefix)}


def _row(setting: str, label: str, played: dict[str, dict[str, Array]]) -> Row:
    good = ~np.any([r["status"] & jv.status.PRECISION for r in played.values()], axis=0)
    games = ({k: v[good] if np.ndim(v) else v for k, v in played[mode].items()} for mode in MODES)
    double, single, shared = games
    gap = single["regret"].astype(np.float64) - double["regret"]
    t, rounds = scipy.stats.t.ppf(0.5 + LEVEL / 2, len(gap) - 1), int(double["rounds"])
    width, estimate = errors(shared["states"], int(shared["dim"]))
    return Row(
        setting=setting,
        algorithm=label,
        rounds=rounds,
        lost=int(np.sum(~good)),
        regret=float(double["regret"].mean()),
        difference=float(gap.mean()),
        half_width=float(t * gap.std(ddof=1) / np.sqrt(len(gap))),
        held=(float(double["confidence"].all(1).mean()), float(single["confidence"].all(1).mean())),
        differ=float(shared["states"][:, -1].mean() / rounds),
        width=width,
        estimate=estimate,
    )


def errors(states: Array, dim: int) -> tuple[float, float]:
    """The largest relative error of a width, and error of an estimate, from the rows of :class:`FinalStates`."""
    seeds = len(states)
    capacity = (states.shape[1] - 1) // 2 // (dim * dim + dim + 1)
    both = states[:, :-1].reshape(seeds, 2, -1)
    root, estimate, count = np.split(both, np.cumsum([capacity * dim * dim, capacity * dim]), axis=2)
    root, estimate = root.reshape(seeds, 2, capacity, dim, dim), estimate.reshape(seeds, 2, capacity, dim)
    inverse, widths, away = root @ np.swapaxes(root, 3, 4), [0.0], [0.0]
    for s, i in np.argwhere(count[:, 0] > 0):
        ratios = scipy.linalg.eigvalsh(inverse[s, 1, i], inverse[s, 0, i])  # all x' P32 x / x' P64 x lie between these
        widths.append(np.abs(np.sqrt(np.maximum(ratios[[0, -1]], 0)) - 1).max())
        away.append(np.linalg.norm(np.linalg.solve(root[s, 0, i], estimate[s, 1, i] - estimate[s, 0, i])))
    return float(max(widths)), float(max(away))


def show(rows: list[Row]) -> None:
    """Print a table of all games."""
    print("| setting | algorithm | rounds | lost | regret | float32 - float64 | held 64 | held 32 ", end="")
    print("| other decisions | width | estimate |\n" + "|---" * 11 + "|")
    for r in rows:
        means = f"{r.regret:.4g} | {r.difference:+.2g} ± {r.half_width:.2g} | {r.held[0]:.1%} | {r.held[1]:.1%}"
        errors = f"{r.differ:.1e} | {r.width:.1e} | {r.estimate:.1e}"
        print(f"| {r.setting} | {r.algorithm} | {r.rounds:,} | {r.lost} | {means} | {errors} |")


def _play(mode: str, options: Precision, path: Path) -> None:
    """Play every game in one mode and write what it gave."""
    jv.tune_cpu()
    jax.config.update("jax_enable_x64", mode != "float32")
    out: dict[str, Any] = {}
    for setting, label, name, preset in games(options):
        algorithm, environment, length, steps = _game(name, preset, SETTINGS[setting], options.rounds)
        record: tuple[Any, ...] = (jv.record.regret(), jv.record.confidence())
        if mode == "shared":
            algorithm, record = shared_history(algorithm), (FinalStates(),)
        common: dict[str, Any] = {"key": jax.random.key(0), "num_seeds": options.seeds, "record_at": 1, **length}
        result = jv.simulate(algorithm, environment, recorders=record, **common)
        out[f"{setting}/{label}/status"] = result.status
        out |= {f"{setting}/{label}/{kind}": values[:, -1] for kind, values in result.records.items()}
        out[f"{setting}/{label}/dim"] = algorithm.dim
        out[f"{setting}/{label}/rounds"] = steps * next(iter(length.values()))
    np.savez(path, **out)


def _game(name: str, preset: str, setting: dict[str, Any], rounds: int) -> tuple[Any, Any, dict[str, int], int]:
    """Algorithm, environment, length of the run, and steps per round."""
    scale = 0.01 if name == "ucrl_ave" else 0.1
    constants = jv.constants.practical(scale) if preset == "practical" else jv.constants.sharp()
    tolerance = setting["norm"] * default_tolerance(float_dtype())
    if name == "ucrl_ave":
        horizon = 10
        episodes = max(rounds // horizon, 1)
        mdp = jv.mixture_mdp(4, 3, 3, horizon, concentration=setting["rows"])
        ave = jv.ucrl_ave(3, horizon, episodes, norm_bound=mdp.norm_bound, constants=constants)
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
