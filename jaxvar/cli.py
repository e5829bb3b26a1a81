"""The ``jaxvar`` command."""

from __future__ import annotations

import sys
from collections.abc import Callable

import jax
import tyro

from jaxvar.bench.catalogue import bench_all
from jaxvar.bench.draws import Draws, draws
from jaxvar.bench.growth import Growth, growth
from jaxvar.bench.kernels import Kernels, kernels
from jaxvar.bench.report import Bench, bench
from jaxvar.cpu import tune_cpu
from jaxvar.listing import Format, listing

_DEFAULT_BENCH = Bench()
_DEFAULT_DRAWS = Draws()
_DEFAULT_KERNELS = Kernels()


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit code (2 for bad usage)."""
    tune_cpu()
    jax.config.update("jax_enable_x64", True)
    commands: dict[str, Callable[..., int]] = {
        "bench": _bench,
        "draws": _draws,
        "growth": _growth,
        "kernels": _kernels,
        "list": _list,
        "version": _version,
    }
    return tyro.extras.subcommand_cli_from_dict(commands, args=argv, prog="jaxvar")


def _bench(options: tyro.conf.OmitArgPrefixes[Bench] = _DEFAULT_BENCH) -> int:
    """Print time and memory per seed-round beside NumPy and Numba programs of the same algorithms."""
    return bench_all(options) if options.all else bench(options)


def _draws(options: tyro.conf.OmitArgPrefixes[Draws] = _DEFAULT_DRAWS) -> int:
    """Print what drawing fresh arms costs, beside what the algorithms do with them."""
    return draws(options)


def _growth(options: tyro.conf.OmitArgPrefixes[Growth]) -> int:
    """Measure how time grows with rounds, layers, dimension, arms and seeds; numbers and figures go to a folder."""
    print(growth(options))
    return 0


def _kernels(options: tyro.conf.OmitArgPrefixes[Kernels] = _DEFAULT_KERNELS) -> int:
    """Print kernels per round and memory of the programs compiled for an accelerator, which need not be there."""
    jax.config.update("jax_platforms", "cpu")  # a compiler's plugin would else look for its hardware, and complain
    return kernels(options)


def _list(to: Format = "text") -> int:
    """Print the algorithms with what is claimed of them, in the order of the paper's comparison tables.

    Args:
      to: plain text, CSV with every field, or LaTeX.
    """
    print(listing(to), end="")
    return 0


def _version() -> int:
    """Print the version."""
    from jaxvar import __version__

    print(__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
