"""What a study has become since its folder was made: the same, more of the same, or something else."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxvar.study.cells import cells
from jaxvar.study.definition import Study
from jaxvar.study.manifest import Manifest, StoredCell, cell_hash, stored_cell
from jaxvar.study.plain import short

_SAID_ONLY = {"name", "question", "reference"}  # about the numbers: none of them changes one
_MAY_GROW = ("seeds", "rounds", "episodes")
_ENTRIES = ("algorithm", "environment")


def changes(study: Study, before: Manifest) -> list[str]:
    """What keeps the results in a folder from being those of ``study``, as lines for a user; none if nothing does.

    More seeds, rounds or cells do not: what is there stays right, or is known to need playing again.
    """
    old, new = before.study, study.to_config()
    found = []
    for name in sorted((set(old) | set(new)) - _SAID_ONLY - {"records", *_ENTRIES}):
        was, is_now = old.get(name), new.get(name)
        grown = name in _MAY_GROW and was is not None and is_now is not None and is_now > was
        chosen = name == "chunk" and is_now is None  # it stays what it was
        if was != is_now and not grown and not chosen and not _same_chunk(name, is_now, before):
            found.append(f"{name} was {short(was)} and is {short(is_now)}")
    if study.length == before.num_rounds and study.recorded.tolist() != list(before.rounds):
        found.append(f"records were {short(old.get('records'))} and are {short(new.get('records'))}")
    return found or _changed_cells(study, before)


def what_is_played(config: Mapping[str, Any]) -> dict[str, Any]:
    """A study's configuration without what is only said about its numbers."""
    return {name: value for name, value in config.items() if name not in _SAID_ONLY}


def _same_chunk(name: str, chunk: Any, before: Manifest) -> bool:
    return name == "chunk" and all(cell.chunk == chunk for cell in before.cells)


def _changed_cells(study: Study, before: Manifest) -> list[str]:
    """Cells of the folder that the study no longer has, though it played no more rounds than they did."""
    then = at_length(study, before.num_rounds)
    there = {cell_hash(then, cell): stored_cell(then, cell, 1) for cell in cells(then)}
    found = []
    for cell in before.cells:
        if cell.hash not in there:
            twins = [c for c in there.values() if c.title == cell.title]
            found.append(f"cell {cell.title}: " + (_difference(cell, twins[0]) if twins else "is not there any more"))
    return found


def _difference(old: StoredCell, new: StoredCell) -> str:
    if old.record != new.record:
        return f"record was {short(list(old.record))} and is {short(list(new.record))}"
    was, is_now = _flat(old.config), _flat(new.config)
    return "; ".join(
        f"{name} was {short(was.get(name))} and is {short(is_now.get(name))}"
        for name in sorted(set(was) | set(is_now))
        if was.get(name) != is_now.get(name)
    )


def _flat(config: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(config, Mapping):
        return {path: config}
    parts = [_flat(value, f"{path}.{name}" if path else str(name)) for name, value in config.items()]
    return {name: value for part in parts for name, value in part.items()}


def at_length(study: Study, length: int) -> Study:
    """The study with another number of rounds or episodes, read at its end."""
    lengths: dict[str, Any] = {f"{study.unit}s": length}
    return dataclasses.replace(study, **lengths, records=1)


def can_go_on(study: Study) -> set[str]:
    """Hashes of the cells that do not depend on how many rounds are played: those that more rounds would continue."""
    try:
        longer = at_length(study, 2 * study.length)
    except ValueError:  # no environment lasts that long
        return set()
    return {cell_hash(study, c) for c in cells(study)} & {cell_hash(longer, c) for c in cells(longer)}
