"""The studies of the atlas, by size: who plays, on which problems, for how long; and a study as a TOML file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

from experiments.experiment import FOLDER
from experiments.found import read_found
from jaxvar.study.definition import Study

MODES = {
    "printed": "every radius has the constants of its source",
    "provable": "the smallest constants that have a proof",
    "calibrated": "multipliers at which the confidence event was seen to hold; not proved",
    "tuned": "the multiplier of least regret on held-out seeds; neither proved nor seen to hold",
}
GRID = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001, 0.0)
HELD_OUT = 1_000_000  # the first seed of the studies that tune
RATIOS = (1, 3, 10, 30, 100, 300, 1000)  # R / sigma; everyone is told R = 1
MIXES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
NUM_ARMS = 20
KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "sphere": ("sphere", {"arms": "sphere"}),
    "cube": ("corners of the cube", {"arms": "hypercube"}),
    "fresh": ("fresh arms", {"fresh": True}),
}
SHAPES = {"constant": "constant noise", "two_level": "two levels", "bursts": "bursts", "by_arm": "noise by arm"}

Options = Mapping[str, object]


@dataclasses.dataclass(frozen=True)
class Size:
    """The size of an atlas: rounds and seeds of a cell, and the problems."""

    rounds: int
    episodes: int
    seeds: int
    tuning_rounds: int
    problems: tuple[tuple[str, str, tuple[int, ...]], ...]  # kind of arms, shape of noise, dimensions
    mixtures: tuple[tuple[int, int], ...]  # dimension and horizon of the episodes


def _all(*dims: int) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    return tuple((kind, shape, dims) for shape in SHAPES for kind in KINDS)


_FEW = (("sphere", "constant", (2, 5)), ("sphere", "two_level", (5,)), ("fresh", "constant", (5,)))
_LONG = (("sphere", "constant", (2, 5, 10)),)
SIZES = {
    "quick": Size(3_000, 1_000, 200, 2_000, _FEW, ((2, 5), (2, 20))),
    "hour": Size(10_000, 3_000, 200, 10_000, _all(2, 5, 10), ((2, 5), (2, 20), (4, 5), (4, 20))),
    "night": Size(100_000, 30_000, 200, 30_000, _all(2, 5, 10), ((2, 5), (2, 20), (4, 5), (4, 20))),
    "gpu": Size(10_000_000, 100_000, 1_000, 100_000, _LONG, ((2, 5), (2, 20), (4, 5), (4, 20))),
}


@dataclasses.dataclass(frozen=True)
class Player:
    """An algorithm of the atlas."""

    factory: str
    code: str  # two letters in the cells of the map
    told: bool = False  # it sees the variances
    theorem: bool = True  # at multiplier 1 its radius is its source's, with a proof
    layered: bool = False  # its constants are a preset
    event: bool = True  # the recorder ``confidence`` can check it
    multiplier: str = "beta_scale"
    options: Options = dataclasses.field(default_factory=dict)


BANDITS = {
    "OFUL": Player("oful", "OF"),
    "LOSAN": Player("losan", "LS"),
    "AVE-UCB": Player("ave_ucb", "AV", layered=True),
    "Weighted OFUL+": Player("weighted_oful_plus", "W+", told=True),
    "SAVE": Player("save", "SA", layered=True),
    "LOFAV": Player("lofav", "LF", event=False),
    "Weighted LinTS": Player("weighted_lin_ts", "WT", told=True, theorem=False, event=False),
    "LinTS": Player("lin_ts", "TS", event=False),
    "Weighted OFUL": Player("weighted_oful", "WO", told=True),
    "ConfidenceBall_2": Player("confidence_ball", "CB"),
    "SupLinUCB": Player("sup_lin_ucb", "SL", event=False),
    "LinVDTS-R": Player("lin_vdts", "VD", theorem=False, layered=True, event=False),
}
EPISODES = {
    "UCRL-VTR": Player("ucrl_vtr", "VT", event=False),
    "UCRL-AVE": Player("ucrl_ave", "UA", layered=True, event=False),
    "UCRL-VTR+": Player("ucrl_vtr_plus", "V+", event=False),
    "UCRL-WVTR": Player("ucrl_wvtr", "WV", theorem=False, event=False, multiplier="fixed_radius"),
    "HF-UCRL-VTR+": Player("hf_ucrl_vtr_plus", "HF", event=False, options={"num_moments": 4}),
    "MVP": Player("mvp", "MV", event=False),
    "UCBVI": Player("ucbvi", "UB", event=False),
}
SHARP: dict[str, dict[str, object]] = {
    "save": {"explore": "optimistic"},
    "ave_ucb": {"intersect": True},
    "ucrl_ave": {"intersect": True},
}
OPTIMISTIC: dict[str, dict[str, object]] = {
    "save": {"explore": "optimistic"}
}  # SAVE's printed rule is to explore the widest arm


@dataclasses.dataclass(frozen=True)
class Entry:
    """An algorithm with constants, and the positions of the switch in which it is shown."""

    name: str
    player: Player
    constants: str
    modes: tuple[str, ...]
    options: Options

    @property
    def label(self) -> str:
        """The label of the studies."""
        return f"{self.name} ({self.constants})"

    @property
    def proved(self) -> str:
        """Tell whether the constants are proved; the single place to join a ledger of constants to the page."""
        words = {"theorem": "yes", "sharp": "the confidence event", "tight": "up to a log-log term"}
        found = {**words, "printed": "as printed"}.get(self.constants, "no")
        return found if self.player.theorem or found == "no" else "no theorem"


def calibrated_multipliers() -> dict[str, float]:
    """Return the calibrated multipliers below 1 that the experiment ``table1`` found."""
    rows = read_found(FOLDER / "table1" / "found.json").tables["calibrated"].rows
    return {str(row[0]): float(str(row[1])) for row in rows if row[1] and float(str(row[1])) < 1}


def entries(players: Mapping[str, Player], tuned: Mapping[str, float]) -> list[Entry]:
    """Return every algorithm with all the constants that it is played with."""
    found = []
    calibrated = calibrated_multipliers()
    for name, player in players.items():
        own = dict(player.options)
        greedy = {**own, **OPTIMISTIC.get(player.factory, {})}
        if player.layered:
            sharp = {**own, **SHARP.get(player.factory, {}), "constants": "sharp"}
            proved = [
                Entry(name, player, "tight", ("provable",), {**greedy, "constants": "tight"}),
                Entry(name, player, "sharp", ("provable",), sharp),
            ]
            found += [
                Entry(name, player, "printed", ("printed",), {**own, "constants": "paper"}),
                *(proved if player.theorem else []),
                Entry(name, player, "practical", ("calibrated",), {**greedy, "constants": "practical"}),
            ]
        elif player.multiplier == "beta_scale":
            modes = ("printed", *(["provable"] if player.theorem else []))
            if name in calibrated:
                word, options = f"calibrated x{calibrated[name]:g}", {**own, "beta_scale": calibrated[name]}
                found.append(Entry(name, player, word, ("calibrated",), options))
            else:
                modes = (*modes, "calibrated")
            found.append(Entry(name, player, "theorem", modes, own))
        if name in tuned:
            scale = {player.multiplier: tuned[name]}
            options = {**greedy, "constants": {"preset": "practical", **scale}} if player.layered else {**own, **scale}
            same = [e for e in found if e.name == name and {"beta_scale": 1.0, **e.options} == options]
            if same:  # the best multiplier is 1, or the calibrated one
                found[found.index(same[0])] = dataclasses.replace(same[0], modes=(*same[0].modes, "tuned"))
            else:
                found.append(Entry(name, player, f"tuned x{tuned[name]:g}", ("tuned",), options))
    return found


def _noise(shape: str, ratio: float, dim: int) -> object:
    """Return the standard deviation or the schedule of a shape whose mean square is 1 / ratio^2."""
    if shape == "constant":
        return 1.0 / ratio
    levels = {"name": shape, "low": 1.0 / (3 * ratio), "high": 3.0 / ratio}  # 0.1 * 3^2 + 0.9 / 3^2 = 1
    own: dict[str, dict[str, object]] = {
        "two_level": {"prob_high": 0.1},
        "bursts": {"period": 100, "length": 10},
        "by_arm": {"direction": [1.0, *[0.0] * (dim - 1)]},
    }
    return {**levels, **own[shape]}


def ratios(shape: str) -> tuple[int, ...]:
    """Return the values of R / sigma; a level three times sigma must not exceed R."""
    return tuple(ratio for ratio in RATIOS if shape == "constant" or ratio >= 3)


def _bandit(kind: str, shape: str, dim: int, values: Sequence[int]) -> dict[str, object]:
    levels = [_noise(shape, ratio, dim) for ratio in values]
    noise = {"name": "two_point", "std": levels[0]}
    own = {"name": "linear_bandit", "label": f"d = {dim}", "dim": dim, "num_arms": NUM_ARMS, **KINDS[kind][1]}
    return {**own, "noise": noise, "sweep": {"noise.std": levels}}


def _mixture(dim: int, horizon: int, mixes: Sequence[float]) -> dict[str, object]:
    own = {"name": "graded_mdp", "label": f"d = {dim}, H = {horizon}", "dim": dim, "horizon": horizon}
    return {**own, "num_states": 4, "num_actions": 3, "mix": mixes[0], "sweep": {"mix": list(mixes)}}


def record_times(last: int) -> list[int]:
    """Return 100, 300, 1000, ... up to the last round: the rows of a map."""
    found = [front * 10**power for power in range(2, 8) for front in (1, 3)]
    return [k for k in found if k < last] + [last]


def tuning_studies(size: Size) -> dict[str, Study]:
    """Return the studies that choose multipliers: every multiplier of the grid, on seeds that no map uses."""
    dims = sorted({dim for _, _, some in size.problems for dim in some})
    players = {
        "tune": (BANDITS, "rounds", size.tuning_rounds, [_bandit("sphere", "constant", max(dims), (1, 100))]),
        "tune_episodes": (EPISODES, "episodes", size.episodes, [_mixture(2, 20, (0.0, 0.3))]),
    }
    return {
        name: Study.from_config(
            {
                "name": f"atlas, {name.replace('_', ' ')}",
                "question": "Which multiplier of the radius leaves the least regret?",
                "seeds": size.seeds,
                "first_seed": HELD_OUT,
                unit: length,
                "records": [length],
                "record": ["regret"],
                "algorithm": [_swept(label, player) for label, player in some.items()],
                "environment": problems,
            }
        )
        for name, (some, unit, length, problems) in players.items()
    }


def _swept(name: str, player: Player) -> dict[str, object]:
    own: dict[str, object] = {"name": player.factory, "label": name, **player.options}
    path = "constants.beta_scale" if player.layered else player.multiplier
    if player.layered:
        own |= {**OPTIMISTIC.get(player.factory, {}), "constants": "practical"}
    grid = [x for x in GRID if x > 0 or player.multiplier == "beta_scale"]
    return {**own, "sweep": {path: grid}}


def map_studies(size: Size, tuned: Mapping[str, float]) -> dict[str, Study]:
    """Return the studies that the maps are read from, one for each kind of arms and shape of noise."""
    found = {}
    for kind, shape, dims in size.problems:
        found[f"{kind}_{shape}"] = _study(
            f"{KINDS[kind][0]}, {SHAPES[shape]}",
            ("rounds", size.rounds, size.seeds),
            entries(BANDITS, tuned),
            [_bandit(kind, shape, dim, ratios(shape)) for dim in dims],
        )
    problems = [_mixture(dim, horizon, MIXES) for dim, horizon in size.mixtures]
    name, length = "episodes of graded MDPs", ("episodes", size.episodes, size.seeds)
    return {**found, "episodes": _study(name, length, entries(EPISODES, tuned), problems)}


def _study(name: str, length: tuple[str, int, int], some: list[Entry], problems: list[dict[str, object]]) -> Study:
    unit, last, seeds = length
    record = ["regret"] if unit == "rounds" else ["regret", "variance"]
    algorithms = []
    for entry in some:
        one = {"name": entry.player.factory, "label": entry.label, **entry.options}
        algorithms.append({**one, "record": ["regret", "confidence"]} if entry.player.event else one)
    return Study.from_config(
        {
            "name": f"atlas, {name}",
            "question": "Who has the least regret, and from which size on?",
            "seeds": seeds,
            unit: last,
            "records": record_times(last),
            "record": record,
            "algorithm": algorithms,
            "environment": problems,
        }
    )


def as_toml(study: Study) -> str:
    """Return a study as the text of a TOML file."""
    lines, tables = list[str](), list[str]()
    for key, value in study.to_config().items():
        if key not in ("algorithm", "environment"):
            lines.append(f"{key} = {_toml(value)}")
            continue
        assert isinstance(value, list)
        for entry in value:
            tables += ["", f"[[{key}]]", *(f"{_toml_key(k)} = {_toml(v)}" for k, v in entry.items())]
    return "\n".join([*lines, *tables]) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _toml_key(key: str) -> str:
    return key if key.replace("_", "").isalnum() else json.dumps(key)
