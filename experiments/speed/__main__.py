"""``python -m experiments speed [VERB] [OPTIONS]``: measure speed, and read what the compiler made.

Without a verb, jaxvar is compared with NumPy and Numba programs of the same algorithms.
"""

from __future__ import annotations

import sys

import jax
import tyro

import jaxvar as jv
from experiments.speed.comparison import Comparison, Draws, compare, draws
from experiments.speed.devices import Devices, devices
from experiments.speed.devices import show as show_devices
from experiments.speed.growth import Growth, growth
from experiments.speed.kernels import Kernels, kernels
from experiments.speed.precision import Precision, precision
from experiments.speed.precision import show as show_precision
from experiments.speed.public_library import Libraries, compare_libraries
from experiments.speed.twins import compare_all

VERBS = {  # by name: options
    "devices": Devices,
    "draws": Draws,
    "growth": Growth,
    "kernels": Kernels,
    "libraries": Libraries,
    "precision": Precision,
}
COMMAND = "python -m experiments speed"


def main(arguments: list[str]) -> int:
    """Run a verb, or the comparison, and return the exit code."""
    jv.tune_cpu()
    jax.config.update("jax_enable_x64", True)
    if arguments and arguments[0] in VERBS:
        verb, *arguments = arguments
        options = tyro.cli(VERBS[verb], prog=f"{COMMAND} {verb}", args=arguments)
    else:
        about = f"{Comparison.__doc__} Other measurements: {COMMAND} {{{','.join(VERBS)}}}."
        options = tyro.cli(Comparison, prog=COMMAND, description=about, args=arguments)
    try:
        return run(options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2


def run(options: Comparison | Devices | Draws | Growth | Kernels | Libraries | Precision) -> int:
    """Measure what the options ask for, print it, and return the exit code."""
    match options:
        case Comparison():
            return compare_all(options) if options.all else compare(options)
        case Draws():
            return draws(options)
        case Kernels():
            jax.config.update("jax_platforms", "cpu")  # a compiler's plugin would else look for its hardware
            return kernels(options)
        case Devices():
            show_devices(options, devices(options))
        case Growth():
            print(growth(options))
        case Libraries():
            compare_libraries(options)
        case Precision():
            show_precision(precision(options))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
