"""Which multiplier of the radius keeps the confidence event as often as promised, over a stated bank of instances."""

from jaxvar.calibration.bank import Case, bank
from jaxvar.calibration.evidence import Calibration, Played, Swept
from jaxvar.calibration.search import calibrate

__all__ = ["Calibration", "Case", "Played", "Swept", "bank", "calibrate"]
