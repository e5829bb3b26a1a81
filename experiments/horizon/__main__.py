"""``python -m experiments.horizon``."""

import sys

from experiments.experiment import Experiment, main
from experiments.horizon.conclude import conclude

EXPERIMENT = Experiment("horizon", conclude)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
