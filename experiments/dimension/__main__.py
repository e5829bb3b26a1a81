"""``python -m experiments.dimension``."""

import sys

from experiments.dimension.conclude import conclude
from experiments.experiment import Experiment, main

if __name__ == "__main__":
    sys.exit(main(Experiment("dimension", conclude)))
