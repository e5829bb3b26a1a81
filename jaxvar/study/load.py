"""``load``: a study's folder as labelled arrays, after every byte of it was checked."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from jaxvar.simulate import join_chunks
from jaxvar.status import describe
from jaxvar.study import store
from jaxvar.study.errors import RunError
from jaxvar.study.manifest import Manifest, StoredCell, read_manifest, shard_path, timing_path
from jaxvar.study.playing import read_seconds
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.study.shards import Shard, read_shard, records_of

_NAMED = 10  # missing shards in a message


def load(folder: str | Path, *, partial: bool = False) -> StudyResult:
    """Read the results of a study.

    Args:
      folder: what :func:`jaxvar.run_study` wrote to.
      partial: whether seeds may be missing: every cell then has those it has, and one without any is left out.

    Raises:
      RunError: names the shards that are missing or damaged, unless ``partial``.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    missing: list[str] = []
    found = []
    for cell in manifest.cells:
        shards = [s for first in manifest.chunks(cell) if (s := _read(folder, manifest, cell, first, missing))]
        if shards:
            found.append(_cell_result(folder, manifest, cell, shards))
    if missing and not partial:
        more = f"\n  and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise RunError(
            f"{folder} is not complete; run the study again to go on with it. Missing:\n  "
            + "\n  ".join(missing[:_NAMED])
            + more
        )
    study = manifest.study
    return StudyResult(
        name=str(study.get("name", folder.name)),
        question=str(study.get("question", "")),
        unit=manifest.unit,
        reference=study.get("reference"),
        config=dataclasses.asdict(manifest),
        cells=tuple(found),
    )


def _read(folder: Path, manifest: Manifest, cell: StoredCell, first: int, missing: list[str]) -> Shard | None:
    path = shard_path(folder, cell, first)
    try:
        return read_shard(folder, manifest, cell, first)
    except FileNotFoundError:
        missing.append(f"{path}: is not there")
    except store.Damaged as error:
        missing.append(f"{path}: {error}")
    return None


def _cell_result(folder: Path, manifest: Manifest, cell: StoredCell, shards: list[Shard]) -> CellResult:
    arrays = [s.arrays for s in shards]
    seeds = np.concatenate([a["seeds"] for a in arrays])
    asked = seeds < manifest.first_seed + manifest.seeds  # a chunk is always whole; its last seeds may not be asked for
    joined = {name: join_chunks([a[name] for a in arrays])[asked] for name in arrays[0] if name != "rounds"}
    firsts = [int(a["seeds"][0]) for a in arrays]
    return CellResult(
        algorithm=cell.algorithm,
        environment=cell.environment,
        algorithm_settings=cell.algorithm_settings,
        environment_settings=cell.environment_settings,
        constants=cell.constants,
        num_rounds=manifest.num_rounds,
        rounds=np.asarray(manifest.rounds, np.int32),
        seeds=joined["seeds"],
        records={name: joined[name] for name in records_of(joined)},
        status=joined["status"],
        status_round=joined["status_round"],
        seconds=sum(read_seconds(timing_path(folder, cell, first)) for first in firsts),
    )


def failures(result: StudyResult) -> list[str]:
    """Which seeds of which cells went wrong, and why, as lines for a user."""
    lines = []
    for cell in result.cells:
        failed = np.flatnonzero(cell.status)
        if len(failed) == 0:
            continue
        first = failed[0]
        setting = {**cell.algorithm_settings, **cell.environment_settings}
        at = f" at {setting}" if setting else ""
        lines.append(
            f"{cell.algorithm} on {cell.environment}{at}: {len(failed)} of {len(cell.seeds)} seeds failed, the first "
            f"of them seed {cell.seeds[first]} in {result.unit} {cell.status_round[first]}: "
            f"{describe(int(cell.status[first]))}"
        )
    return lines
