"""``python -m experiments [NAME ...]``: run experiments one after the other and put what they found into their folders.

Without names it is all of them: every figure and table of this folder's pages, of the README and of the documentation's
page of findings is made again. ``python -m experiments speed [VERB] [OPTIONS]`` measures speed; it makes none of these
and is run only by its name.
"""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "headline",
    "table1",
    "table2",
    "variance",
    "dimension",
    "horizon",
    "deterministic",
    "lower_bound",
    "switch",
    "published",
    "protocols",
    "audit",
    "calibration",
)


def main(names: list[str]) -> int:
    """Exit code 0 when all are done, else that of the first that failed."""
    if names[:1] == ["speed"]:
        return subprocess.run([sys.executable, "-m", "experiments.speed", *names[1:]]).returncode
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(
            f"usage: python -m experiments [{' | '.join(NAMES)}] ... or speed [VERB] [OPTIONS], got {unknown[0]!r}",
            file=sys.stderr,
        )
        return 2
    for name in names or NAMES:
        print(f"== {name}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", f"experiments.{name}", *([] if name == "calibration" else ["--publish"])]
        )
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
