"""The ``jaxvar`` command."""

from __future__ import annotations

import sys

import jax
import tyro

from jaxvar.bench.report import Bench, bench
from jaxvar.cpu import tune_cpu

_DEFAULT_BENCH = Bench()


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit code (2 for bad usage)."""
    tune_cpu()
    jax.config.update("jax_enable_x64", True)
    options = tyro.extras.subcommand_cli_from_dict({"bench": _bench, "version": _version}, args=argv, prog="jaxvar")
    return int(options)


def _bench(options: tyro.conf.OmitArgPrefixes[Bench] = _DEFAULT_BENCH) -> int:
    """Print time and memory per seed-round beside NumPy and Numba programs of the same algorithms."""
    return bench(options)


def _version() -> int:
    """Print the version."""
    from jaxvar import __version__

    print(__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
