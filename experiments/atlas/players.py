"""Who plays in the atlas: every algorithm with its constants, and what the ledger knows of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from experiments.experiment import FOLDER
from experiments.found import read_found
from experiments.ledger import LAYERED, Coverage, read_ledger
from experiments.ledger import Entry as Line

MODES = {
    "printed": "every radius has the constants of its source",
    "provable": "the smallest constants that have a proof, of tight ones up to a log-log term",
    "calibrated": "multipliers at which the confidence event was seen to hold; not proved",
    "tuned": "the multiplier of least regret on held-out seeds; neither proved nor seen to hold",
}
Options = Mapping[str, object]


@dataclasses.dataclass(frozen=True)
class Player:
    """An algorithm of the atlas."""

    factory: str
    code: str  # two letters in the cells of the map
    told: bool = False  # it sees the variances
    theorem: bool = True  # its constants at multiplier 1 are those of a theorem: shown as provable
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
    "UCBVI": Player("ucbvi", "UB", theorem=False, event=False),
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
    def radius(self) -> tuple[str, float]:
        """Name and multiplier of the radius in the ledger of constants."""
        word, _, multiplier = self.constants.partition(" x")
        if word == "printed":
            word = "paper" if self.player.factory in LAYERED else "theorem"
        return word, float(multiplier or 1)

    @property
    def known(self) -> tuple[str, str]:
        """Kind and proof of the radius, in the words of the ledger."""
        lines = [line for line in ledger() if (line.factory, line.radius) == (self.player.factory, self.radius[0])]
        return (lines[0].kind, lines[0].proof) if lines else ("", "not in the ledger")

    @property
    def coverage(self) -> list[Coverage]:
        """How often the radius was seen to hold in other experiments, from the ledger."""
        name, multiplier = self.radius
        return [
            seen
            for line in ledger()
            if (line.factory, line.radius) == (self.player.factory, name)
            if name not in ("calibrated", "tuned") or line.multiplier == multiplier
            for seen in line.coverage
        ]


@functools.cache
def ledger() -> tuple[Line, ...]:
    """Read the ledger of constants."""
    return tuple(read_ledger())


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
