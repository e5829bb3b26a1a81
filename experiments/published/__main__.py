"""``python -m experiments.published NAME [options]``: run the setting of this folder's module of that name."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

# Every module but this one and what modules share: adding a file with a ``main(arguments)`` adds a setting.
NAMES = tuple(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.name.startswith("_"))


def main(arguments: list[str]) -> int:
    """Exit code of the setting, or 2 where there is none of that name."""
    if not arguments or arguments[0] not in NAMES:
        print(f"usage: python -m experiments.published {{{','.join(NAMES)}}} [options]", file=sys.stderr)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    module = importlib.import_module(f"experiments.published.{arguments[0]}")
    return int(module.main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
