"""``python -m experiments.switch``."""

import sys

from experiments.experiment import main
from experiments.switch.conclude import EXPERIMENT

sys.exit(main(EXPERIMENT))
