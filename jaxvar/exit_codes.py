"""Exit codes of the verbs of the command line, and sentences where a verb would end with a traceback."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

from jaxvar.cli import DONE, FAILED, INTERRUPTED, USAGE
from jaxvar.simulate import SimulationError
from jaxvar.study.factories import RunError, StudyError

__all__ = ["DONE", "FAILED", "INTERRUPTED", "USAGE", "exit_code"]
P = ParamSpec("P")


def exit_code(verb: Callable[P, int]) -> Callable[P, int]:
    """Make ``verb`` return an exit code and print a sentence where it would raise an error that a user can mend.

    Errors of other kinds are mistakes of jaxvar: they keep their traceback.
    """

    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return verb(*args, **kwargs)
        except StudyError as error:
            print(f"jaxvar: {error}", file=sys.stderr)
            return USAGE
        except (RunError, SimulationError, ImportError) as error:
            print(f"jaxvar: {error}", file=sys.stderr)
        except BrokenPipeError:  # who reads the output has seen enough
            raise
        except OSError as error:
            print(f"jaxvar: {error.strerror or error}: {error.filename or ''}", file=sys.stderr)
        except KeyboardInterrupt as stop:
            print(f"\njaxvar: {str(stop) or 'stopped'}", file=sys.stderr)
            return INTERRUPTED
        return FAILED

    return call
