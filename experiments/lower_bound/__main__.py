"""``python -m experiments.lower_bound``."""

import sys

from experiments.experiment import main
from experiments.lower_bound.conclude import EXPERIMENT

sys.exit(main(EXPERIMENT))
