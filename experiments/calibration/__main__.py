"""``python -m experiments calibration``: tables and figures of the presets that come with jaxvar.

The presets hold every count. To measure them again is the work of ``jaxvar calibrate``, with the command each of them
names.
"""

from __future__ import annotations

import sys

from experiments.experiment import Conclusions, publish
from jaxvar.constants import PRESETS, SETTINGS
from jaxvar.tables.render import Column, Table
from jaxvar.theory.calibrate import figure, points, summary
from jaxvar.theory.calibration import alone, read_calibration


def own_radii() -> Table:
    """Return a line per case of the algorithms that are calibrated one by one."""
    rows = []
    for name in alone():
        found = read_calibration(PRESETS / f"{name}.json")
        rows += [(name, found.multiplier(0.0), row[0], *row[2:]) for row in summary(found).rows]
    columns = (
        Column("algorithm"),
        Column("multiplier", "number"),
        Column("instance"),
        Column("K", "number"),
        Column("seeds", "number"),
        Column("alone"),
        Column("held", "ends"),
    )
    caption = (
        "Algorithms with a radius or bonus of their own: the smallest multiplier that passes in all their cases, and "
        "in which share of the seeds the event held with it, with the 95 % Clopper-Pearson interval; a multiplier "
        "passes where the lower end is at least 0.99. Alone: the smallest that passes in this case, of those tried."
    )
    return Table(caption, columns, tuple(rows))


def conclude() -> Conclusions:
    """Show all presets: what was found, and of the shared ones every point and the figure of the switch they have."""
    found = {setting: read_calibration(PRESETS / f"{setting}.json") for setting in SETTINGS}
    tables = {setting: summary(one) for setting, one in found.items()} | {"own_radii": own_radii()}
    tables |= {f"{setting}_points": points(one) for setting, one in found.items()}
    return Conclusions(tables, {setting: figure(one, one.switches[0]) for setting, one in found.items()})


def main() -> int:
    """Draw, and put everything beside the page."""
    for path in publish("calibration", conclude()):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
