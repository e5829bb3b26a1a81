"""``run.json``: everything needed to repeat a study, and what is in its folder."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jaxlib.version
import numpy as np

from jaxvar.study import store
from jaxvar.study.cells import Cell, titled
from jaxvar.study.errors import RunError
from jaxvar.study.plain import digest

FORMAT = 1
_MOST = 2**28  # bytes of a manifest
_HASH = re.compile(r"[0-9a-f]{20}")


@dataclasses.dataclass(frozen=True)
class StoredCell:
    """A cell as ``run.json`` has it."""

    hash: str  # names its folders
    chunk: int  # seeds per shard
    algorithm: str
    environment: str
    algorithm_settings: Mapping[str, Any]
    environment_settings: Mapping[str, Any]
    constants: str
    record: tuple[str, ...]
    config: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Labels and settings, for messages."""
        parts = ((self.algorithm, self.algorithm_settings), (self.environment, self.environment_settings))
        return " on ".join(titled(label, setting) for label, setting in parts)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A study's ``run.json``."""

    study: Mapping[str, Any]  # its configuration, as TOML has it
    study_hash: str
    unit: str  # "round" or "episode"
    num_rounds: int  # or episodes
    rounds: tuple[int, ...]  # the recorded ones
    seeds: int
    first_seed: int
    cells: tuple[StoredCell, ...]
    created: str
    updated: str
    runs: tuple[Mapping[str, Any], ...]  # versions and devices, one entry for each change of them
    shards: Mapping[str, str]  # file -> SHA-256
    format: int = FORMAT

    def chunks(self, cell: StoredCell) -> list[int]:
        """The first seed of each of a cell's shards."""
        return list(range(self.first_seed, self.first_seed + self.seeds, cell.chunk))

    def write(self, folder: Path) -> None:
        """Write ``run.json``."""
        text = json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=True)
        store.write(folder / "run.json", text.encode() + b"\n")

    def updated_now(self, **changes: Any) -> Manifest:
        """The same with another date, and whatever else changed."""
        return dataclasses.replace(self, updated=now(), **changes)


def shard_path(folder: Path, cell: StoredCell, first: int) -> Path:
    """Where the readings of a chunk of seeds are."""
    return _path(folder, "shards", cell, first, "npz")


def checkpoint_path(folder: Path, cell: StoredCell, first: int) -> Path:
    """Where what a chunk of seeds holds is kept."""
    return _path(folder, "checkpoints", cell, first, "npz")


def timing_path(folder: Path, cell: StoredCell, first: int) -> Path:
    """Where it says how long a chunk of seeds took."""
    return _path(folder, "timings", cell, first, "json")


def _path(folder: Path, part: str, cell: StoredCell, first: int, ending: str) -> Path:
    return folder / part / cell.hash / f"{first}-{first + cell.chunk - 1}.{ending}"


def cell_hash(study: Any, cell: Cell) -> str:
    """Identifies the numbers of a cell, whatever the labels and the number of rounds played."""
    return digest({"config": cell.config, "key": study.key, "precision": study.precision, "record": cell.record})


def stored_cell(study: Any, cell: Cell, chunk: int) -> StoredCell:
    """What ``run.json`` says of a cell."""
    return StoredCell(
        hash=cell_hash(study, cell),
        chunk=chunk,
        algorithm=cell.algorithm_label,
        environment=cell.environment_label,
        algorithm_settings=cell.algorithm_settings,
        environment_settings=cell.environment_settings,
        constants=cell.constants,
        record=cell.record,
        config=cell.config,
    )


def new_manifest(study: Any, cells: tuple[StoredCell, ...]) -> Manifest:
    """Of a study that was not run yet."""
    return Manifest(
        study=study.to_config(),
        study_hash=digest(study.to_config()),
        unit=study.unit,
        num_rounds=study.length,
        rounds=tuple(study.recorded.tolist()),
        seeds=study.seeds,
        first_seed=study.first_seed,
        cells=cells,
        created=now(),
        updated=now(),
        runs=(),
        shards={},
    )


def read_manifest(folder: Path) -> Manifest:
    """The ``run.json`` of a folder; raises :class:`RunError` where it is none."""
    path = folder / "run.json"
    try:
        found = json.loads(store.read(path, _MOST))
        manifest = Manifest(**{**found, "cells": tuple(_read_cell(c) for c in found["cells"])})
        _check(manifest)
    except FileNotFoundError:
        raise RunError(f"{folder} holds no study: there is no run.json in it") from None
    except (store.Damaged, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    return manifest


def _read_cell(found: Any) -> StoredCell:
    return StoredCell(**{**found, "record": tuple(found["record"])})


def _check(manifest: Manifest) -> None:
    """Whatever becomes a path or a size is what a study would have written."""
    if manifest.format != FORMAT:
        raise ValueError(f"its format is {manifest.format!r}, and this version of jaxvar reads {FORMAT}")
    for name in ("num_rounds", "seeds", "first_seed"):
        value = getattr(manifest, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
            raise ValueError(f"{name} is {value!r}")
    rounds = np.asarray(manifest.rounds)
    if rounds.ndim != 1 or rounds.dtype.kind != "i" or rounds.size == 0 or np.any(np.diff(rounds, prepend=0) <= 0):
        raise ValueError("rounds do not increase")
    for cell in manifest.cells:
        if not isinstance(cell.hash, str) or not _HASH.fullmatch(cell.hash):
            raise ValueError(f"a cell's hash is {cell.hash!r}")
        if not isinstance(cell.chunk, int) or not 0 < cell.chunk < 2**31:
            raise ValueError(f"a cell's chunk is {cell.chunk!r}")
        for mapping in (cell.algorithm_settings, cell.environment_settings, cell.config):
            if not isinstance(mapping, dict):
                raise ValueError(f"a cell's settings are {mapping!r}")
        for text in (cell.algorithm, cell.environment, cell.constants, *cell.record):
            if not isinstance(text, str):
                raise ValueError(f"a cell's label is {text!r}")
    if not isinstance(manifest.study, dict) or not isinstance(manifest.shards, dict):
        raise ValueError("its study is no table")


def this_run(devices: Any, precision: str) -> dict[str, Any]:
    """Versions and devices."""
    from jaxvar import __version__

    return {
        "jaxvar": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": jaxlib.version.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": devices[0].device_kind,
        "devices": len(devices),
        "processes": jax.process_count(),
        "precision": precision,
    }


def now() -> str:
    """Date and time."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
