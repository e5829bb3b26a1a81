"""``python -m experiments k_arms [OPTIONS]``: how often UCB-V pulls the better of two arms, which has no noise."""

from __future__ import annotations

import sys

from experiments.experiment import discovered, main

if __name__ == "__main__":
    sys.exit(main(discovered("k_arms")))
