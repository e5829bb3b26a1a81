"""``python -m experiments.table1``: run the studies, then make tables and figures."""

import sys

from experiments.experiment import main
from experiments.table1.conclude import EXPERIMENT

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
