"""The fields of a study, one by one: what each may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxvar import parameters
from jaxvar.records import linear_spaced, log_spaced, record_rounds
from jaxvar.study import names
from jaxvar.study.errors import StudyError, inside
from jaxvar.study.plain import plain, question, short, text
from jaxvar.study.precision import PRECISIONS

MAX_INT32 = 2**31 - 1  # rounds and seeds are int32
_SPACINGS = {"linear": linear_spaced, "log": log_spaced}


def _name(value: Any) -> str:
    name = text("name", value)
    if name.startswith(".") or any(c in name for c in "/\\"):  # it may become a folder's name
        raise StudyError(f"name must not start with a dot nor hold slashes, got {short(name)}")
    return name


def _count(name: str, value: Any, *, low: int = 1, high: int = MAX_INT32) -> int:
    return parameters.check_count(name, value, low=low, high=high)


def _optional_count(name: str, value: Any) -> int | None:
    return None if value is None else _count(name, value)


def record(value: Any) -> tuple[str, ...]:
    """Names of recorders, regret among them."""
    if not isinstance(value, list | tuple) or not value:
        raise StudyError(f"record must be a list of recorders' names, got {short(value)}")
    for i, name in enumerate(value):
        with inside(i):
            names.known("recorder", name, names.RECORDERS)
    found = tuple(value)
    if len(set(found)) < len(found):
        raise StudyError(f"record must not name a recorder twice, got {short(list(value))}")
    if "regret" not in found:
        raise StudyError(f"record must have 'regret' among its names, got {short(list(value))}")
    return found


def _records(value: Any) -> Any:
    """Only the form; :func:`recorded` looks at the numbers, once the number of rounds is known."""
    if value is None or isinstance(value, bool):
        return value if value is None else parameters.check_count("records", value)
    value = plain("records", value)
    if isinstance(value, Mapping):
        for key in value:
            with inside(key):
                names.known("key of records named", key, ("spacing", "number"))
        if set(value) != {"spacing", "number"}:
            raise StudyError(f"records must have a spacing and a number, got {short(value)}")
        with inside("spacing"):
            names.known("spacing of records", value["spacing"], _SPACINGS)
        with inside("number"):
            parameters.check_count("records.number", value["number"])
    return value


def recorded(records: Any, length: int) -> np.ndarray[Any, Any]:
    """The rounds that ``records`` stands for."""
    if not isinstance(records, Mapping):
        return record_rounds(records, length, "records")
    low = 2 if records["spacing"] == "log" and length > 1 else 1  # from the first round to the last
    number = parameters.check_count("records.number", records["number"], low=low, high=length)
    return _SPACINGS[records["spacing"]](length, number)


CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": _name,
    "question": question,
    "seeds": lambda v: _count("seeds", v),
    "rounds": lambda v: _optional_count("rounds", v),
    "episodes": lambda v: _optional_count("episodes", v),
    "records": _records,
    "record": record,
    "key": lambda v: _count("key", v, low=0),
    "precision": lambda v: names.known("precision", v, PRECISIONS),
    "chunk": lambda v: _optional_count("chunk", v),
    "first_seed": lambda v: _count("first_seed", v, low=0),
}
