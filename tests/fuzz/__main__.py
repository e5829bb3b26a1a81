"""The program of :mod:`tests.fuzz`: deals cases to a worker process, and prints what was found."""

import argparse
import collections
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import Worker

KINDS = ("flip", "file", "factory")


def play(cases, seed, seconds=float("inf")):
    """Run ``cases``, pairs of a kind and a number, for as long as there is time; yield each with its outcome."""
    end = time.monotonic() + seconds
    base = Path(tempfile.mkdtemp(prefix="jaxvar-fuzz-"))
    worker = Worker(base)
    try:
        for kind, number in cases:
            if time.monotonic() > end:
                return
            yield kind, number, worker.run(kind, seed, number)
    finally:
        worker.end()
        shutil.rmtree(base, ignore_errors=True)


def shuffled(numbers):
    """Return all cases in an order in which no kind waits for the others."""
    cases = [((i + 0.5) / most, kind, i) for kind, most in numbers.items() for i in range(most)]
    return [(kind, i) for _, kind, i in sorted(cases)]


def main(words=None):
    """Run the program; return 1 where anything was found, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Play random cases against jaxvar.")
    for kind in KINDS:
        name = "factories" if kind == "factory" else f"{kind}s"
        parser.add_argument(f"--{name}", dest=kind, type=int, default=1000, help=f"cases of this kind ({kind})")
    parser.add_argument("--seconds", type=float, default=600.0, help="end after this time, whatever is left")
    parser.add_argument("--seed", type=int, default=0, help="another seed is other cases")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="repeat one case, such as flip:17")
    options = parser.parse_args(words)
    numbers = {kind: getattr(options, kind) for kind in KINDS}
    cases = shuffled(numbers)
    if options.only is not None:
        kind, _, number = options.only.partition(":")
        if kind not in KINDS or not number.isdecimal():
            parser.error(f"--only must be one of {', '.join(KINDS)} with a number, such as flip:17")
        cases = [(kind, int(number))]
    found = collections.defaultdict(list)
    for kind, number, outcome in play(cases, options.seed, options.seconds):
        found[kind].append(outcome)
        if outcome.finding:
            print(f"--seed {options.seed} --only {kind}:{number}: {outcome.finding}", flush=True)
    print(f"\n{'kind':8} {'cases':>6} {'refused':>8} {'accepted':>9} {'found':>6} {'longest':>9} {'largest':>9}")
    for kind, outcomes in found.items():
        words = collections.Counter(outcome.word for outcome in outcomes)
        longest = max(outcome.seconds for outcome in outcomes)
        largest = max(outcome.num_bytes for outcome in outcomes) / 1e6
        counts = f"{words['refused']:8} {words['accepted']:9} {words['found']:6}"
        print(f"{kind:8} {len(outcomes):6} {counts} {longest:7.2f} s {largest:6.0f} MB")
    played = sum(map(len, found.values()))
    if played < len(cases):
        print(f"{len(cases) - played} of {len(cases)} cases were left out: the {options.seconds:g} seconds were over")
    return int(any(outcome.finding for outcomes in found.values() for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
