"""``python -m experiments [NAME ...] [OPTIONS]``: run experiments and put what they found into their folders.

An experiment is a folder with ``conclude.py``, or with a ``__main__.py`` of its own. Without names all that have a page
are run: every figure and table of their pages, of the README and of the documentation's page of findings is made
again. With options nothing is put into the folders unless ``--publish`` is among them; ``NAME --help`` lists them.
``python -m experiments speed [VERB] [OPTIONS]`` measures speed; it has no page here and is run only by its name.
"""

from __future__ import annotations

import subprocess
import sys

from experiments.experiment import FOLDER, discovered, main

COMMANDS = {path.parent.name for path in FOLDER.glob("*/__main__.py")}  # experiments with a command line of their own
PAGES = {path.parent.name for path in FOLDER.glob("*/README.md")}
CHOOSING = {path.parent.name for path in FOLDER.glob("*/tune.toml")}  # first: others use the multipliers they choose
NAMES = sorted(PAGES, key=lambda name: (name not in CHOOSING, name))


def run(arguments: list[str]) -> int:
    """Return the exit code: 0 when all are done, else that of the first that failed; 2 for bad usage."""
    known = {*NAMES, *COMMANDS}
    number = next((i for i, word in enumerate(arguments) if word not in known), len(arguments))
    names, options = arguments[:number], arguments[number:]
    if options and not names:
        asked = options[0] in ("-h", "--help")
        got = "" if asked else f", got {options[0]!r}"
        print(f"usage: python -m experiments [{' | '.join(sorted(known))}] ... [OPTIONS]{got}", file=sys.stderr)
        return 0 if asked else 2
    if len(names) == 1:
        options = options or (["--publish"] if names[0] in PAGES else [])
        if names[0] in COMMANDS:
            return subprocess.run([sys.executable, "-m", f"experiments.{names[0]}", *options]).returncode
        return main(discovered(names[0]), options)
    for name in names or NAMES:
        print(f"== {name}", flush=True)
        code = subprocess.run([sys.executable, "-m", "experiments", name, *options]).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
