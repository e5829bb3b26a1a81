"""``python -m experiments.table2``."""

import sys

from experiments.experiment import Experiment, main
from experiments.table2.conclude import conclude

EXPERIMENT = Experiment("table2", conclude)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
