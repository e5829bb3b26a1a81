"""``python -m experiments.deterministic``."""

import sys

from experiments.deterministic.conclude import conclude
from experiments.experiment import Experiment, main

if __name__ == "__main__":
    sys.exit(main(Experiment("deterministic", conclude)))
