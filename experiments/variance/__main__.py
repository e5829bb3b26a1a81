"""``python -m experiments.variance``."""

import sys

from experiments.experiment import Experiment, main
from experiments.variance.conclude import conclude

if __name__ == "__main__":
    sys.exit(main(Experiment("variance", conclude)))
