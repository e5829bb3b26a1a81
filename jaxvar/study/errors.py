"""What is wrong with a study, and where it says so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_MAX_MESSAGE = 1000  # characters; a wrong value may be a whole array


class StudyError(ValueError):
    """A study that cannot be run as it stands.

    ``where`` is the path of the offending key in the study's configuration, ``("algorithm", 1, "delta")`` for the key
    ``delta`` of the second algorithm; a reader of files turns it into a line.
    """

    def __init__(self, message: str, where: tuple[Any, ...] = ()) -> None:
        super().__init__(message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}...")
        self.where = where


class RunError(RuntimeError):
    """A study that could not be run, stored or read; the message is a sentence or a few, for the user."""


@contextlib.contextmanager
def inside(*where: Any, what: str = "") -> Iterator[None]:
    """Errors raised within belong to the part ``where`` of the study; ``what``, its name, is put before them."""
    try:
        yield
    except StudyError as error:
        text = f"{what}: {error}" if what else str(error)
        raise StudyError(text, (*where, *error.where)) from None
    except ValueError as error:
        raise StudyError(f"{what}: {error}" if what else str(error), where) from None
