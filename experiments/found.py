"""What an experiment found, as the file ``found.json`` that lies beside it.

It holds the studies behind the numbers, whole, and every table with all digits. README files and the documentation show
these tables and no others.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxvar.analysis import Interval
from jaxvar.files import write_whole
from jaxvar.study.cells import jsonable
from jaxvar.tables import Column, Table

BLOCK = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- end -->", flags=re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Found:
    """Tables by name, and how to get them again."""

    command: str
    studies: Mapping[str, Mapping[str, Any]]  # name -> {"study": its configuration, "runs": versions and devices}
    tables: Mapping[str, Table]


def write_found(path: Path, found: Found) -> Path:
    """Write it, whole or not at all."""
    tables = {name: _as_json(table) for name, table in found.tables.items()}
    content = {"command": found.command, "studies": found.studies, "tables": tables}
    text = json.dumps(jsonable(content), indent=1, ensure_ascii=False, allow_nan=False)
    return write_whole(path, lambda buffer: buffer.write(text.encode() + b"\n"))


def read_found(path: Path) -> Found:
    """Read what :func:`write_found` wrote."""
    content = json.loads(path.read_text())
    tables = {name: _from_json(table) for name, table in content["tables"].items()}
    return Found(content["command"], content["studies"], tables)


def filled(text: str, tables: Mapping[str, Table]) -> str:
    """Fill each block ``<!-- table: NAME --> ... <!-- end -->`` of ``text`` with the table of that name."""

    def block(match: re.Match[str]) -> str:
        if match[1] not in tables:
            raise ValueError(f"there is no table named {match[1]!r}, only {', '.join(tables)}")
        return f"<!-- table: {match[1]} -->\n{tables[match[1]].markdown()}<!-- end -->"

    return BLOCK.sub(block, text)


def _as_json(table: Table) -> dict[str, Any]:
    rows = [[_cell_as_json(value) for value in row] for row in table.rows]
    return {"caption": table.caption, "columns": [[c.title, c.kind] for c in table.columns], "rows": rows}


def _cell_as_json(value: Any) -> Any:
    if isinstance(value, Interval):
        numbers = {name: _number(getattr(value, name)) for name in ("estimate", "low", "high")}
        return {**dataclasses.asdict(value), **numbers}
    return value if value is None or isinstance(value, str) else _number(value)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _from_json(table: Any) -> Table:
    rows = [tuple(Interval(**v) if isinstance(v, dict) else v for v in row) for row in table["rows"]]
    return Table(table["caption"], tuple(Column(*column) for column in table["columns"]), tuple(rows))
