"""Random damage and nonsense against what a user can hand to jaxvar: files of results, study files, arguments.

``python -m tests.fuzz`` plays random cases, each known by a seed, its kind and its number:

- ``flip``: one bit of a finished study's files is flipped; loading it and making its report must fail, and the
  error must name the file.
- ``file``: a study file or ``run.json`` is mutated and given to the verbs of the command line, up to where a
  program would be compiled; they must answer with a sentence, and write nothing outside their folder.
- ``factory``: a public factory gets nasty arguments; it must refuse them by name, or make finite numbers of them.

Whatever takes more than five seconds or a gigabyte is a finding too. Worker processes run the cases, so that one that
hangs or dies ends only its own case.
"""

import argparse
import collections
import contextlib
import dataclasses
import faulthandler
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

KINDS = ("flip", "file", "factory")
MOST_SECONDS = 5.0  # of processor time: the machine may be busy with something else
MOST_BYTES = 10**9
ADDRESS_SPACE = 4 * 2**30  # bytes that a case may ask for on top of what its process has
PATIENCE = 30.0  # seconds until a worker is ended that does not answer


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The end of one case."""

    word: str  # "refused", "accepted" or "found"
    finding: str = ""
    seconds: float = 0.0
    num_bytes: int = 0  # at the most, on top of what the worker had before


def serve(connection, base):
    """Run cases as they are asked for, in a process of its own."""
    os.environ |= {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    from tests.helpers import fuzz_cases as cases  # imports JAX: the parent need not

    cases.prepare(base)
    connection.send(None)
    while (asked := connection.recv()) is not None:
        kind, seed, number = asked
        faulthandler.dump_traceback_later(PATIENCE - 5)  # where it hangs, on the standard error
        connection.send(_measured(cases, kind, random.Random(f"{seed}/{kind}/{number}"), base))
        faulthandler.cancel_dump_traceback_later()


def _measured(cases, kind, rng, base):
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + ADDRESS_SPACE, resource.RLIM_INFINITY))
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, started, used = _status("VmRSS"), time.monotonic(), time.process_time()
    cases.ABOUT.clear()
    try:
        word, finding = cases.KINDS[kind](rng, base)
    except BaseException as error:
        word, finding = "found", cases.described(error)
    seconds = min(time.monotonic() - started, time.process_time() - used)
    num_bytes = max(_status("VmHWM") - before, 0)
    if seconds > MOST_SECONDS:
        finding += f" takes {seconds:.1f} s"
    if num_bytes > MOST_BYTES:
        finding += f" takes {num_bytes / 1e9:.1f} GB"
    if finding:
        return Outcome("found", f"{', '.join(cases.ABOUT)}: {finding}", seconds, num_bytes)
    return Outcome(word, "", seconds, num_bytes)


def _status(name):
    """Return a number of bytes from what Linux says about this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


class Worker:
    """A process that runs one case after the other, and is started again after it was ended."""

    def __init__(self, base, target=serve):
        self.base, self.target, self.process = base, target, None

    def run(self, kind, seed, number):
        """Return the outcome of a case; one that the process does not survive is a finding."""
        if self.process is None:
            self._start()
        self.connection.send((kind, seed, number))
        try:
            if self.connection.poll(PATIENCE):
                return self.connection.recv()
            finding = f"no answer within {PATIENCE:.0f} s"
        except (EOFError, ConnectionError):
            self.process.join()
            finding = f"the process died (exit code {self.process.exitcode})"
        self.process.kill()
        self.end()
        return Outcome("found", finding)

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=self.target, args=(theirs, self.base), daemon=True)
        self.process.start()
        theirs.close()
        self.connection.recv()  # it is warm

    def end(self):
        """End the process."""
        if self.process is not None:
            with contextlib.suppress(OSError):
                self.connection.send(None)
            self.process.join()
            self.connection.close()
            self.process = None


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
