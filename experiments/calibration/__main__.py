"""``python -m experiments calibration``: tables and figures of the presets that come with jaxvar.

The presets hold every count. To measure them again is the work of ``jaxvar calibrate``, with the command each of them
names.
"""

from __future__ import annotations

import sys

from experiments.experiment import Conclusions, publish
from jaxvar.constants import PRESETS, SETTINGS
from jaxvar.theory.calibrate import figure, points, summary
from jaxvar.theory.calibration import read_calibration


def conclude() -> Conclusions:
    """Show both presets: what was found, every point, and the figure of the switch that they have."""
    found = {setting: read_calibration(PRESETS / f"{setting}.json") for setting in SETTINGS}
    tables = {setting: summary(one) for setting, one in found.items()}
    tables |= {f"{setting}_points": points(one) for setting, one in found.items()}
    return Conclusions(tables, {setting: figure(one, one.switches[0]) for setting, one in found.items()})


def main() -> int:
    """Draw, and put everything beside the page."""
    for path in publish("calibration", conclude()):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
