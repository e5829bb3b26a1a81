"""Results of studies: as arrays for analysis, figures, tables and the report; loaded, compared and merged."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxvar import files, tidy
from jaxvar.files import Damaged
from jaxvar.parameters import Array
from jaxvar.records import join_chunks
from jaxvar.status import describe
from jaxvar.study import store
from jaxvar.study.cells import Cell
from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError, short
from jaxvar.study.shards import Shard, read_shard, record_names
from jaxvar.study.store import OLD_FORMAT, PARTS, Manifest, StoredCell, read_manifest, read_seconds, write_seconds

_MAX_NAMED = 10  # missing shards in a message
_ONLY_WORDS = {"name", "question", "reference"}  # fields of a study that change none of its numbers
_MAY_GROW = ("seeds", "rounds", "episodes")


@dataclasses.dataclass(frozen=True)
class CellResult:
    """One algorithm in one environment, each with one setting: all seeds."""

    algorithm: str  # label of the study's algorithm, unique together with its settings
    environment: str  # label of the study's environment, likewise
    algorithm_settings: Mapping[str, Any]  # swept values only, by name
    environment_settings: Mapping[str, Any]
    constants: str  # which constants: "paper", "practical", "theorem", "none", ...
    num_rounds: int  # rounds or episodes played
    rounds: Array = dataclasses.field(repr=False)  # [records]   int32, the recorded ones
    seeds: Array = dataclasses.field(repr=False)  # [seeds]   their numbers
    records: Mapping[str, Array] = dataclasses.field(repr=False)  # name -> [seeds, records, ...]
    status: Array = dataclasses.field(repr=False)  # [seeds]   int32, 0 where all went well
    status_round: Array = dataclasses.field(repr=False)  # [seeds]
    seconds: float  # spent playing, compilation left out

    @property
    def regret(self) -> Array:
        """Cumulative pseudo-regret, [seeds, records]."""
        return self.records["regret"]


@dataclasses.dataclass(frozen=True, repr=False)
class StudyResult:
    """The results of a whole study."""

    name: str
    question: str
    unit: str  # "round" or "episode"
    reference: str | None  # label of the algorithm that others are compared with
    config: Mapping[str, Any]  # ``run.json``: everything needed to repeat it
    cells: tuple[CellResult, ...]  # environments outermost, then algorithms in the study's order, then their settings

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Labels, in the study's order."""
        return tuple(dict.fromkeys(c.algorithm for c in self.cells))

    @property
    def environments(self) -> tuple[str, ...]:
        """Labels, in the study's order."""
        return tuple(dict.fromkeys(c.environment for c in self.cells))

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``: one row for each cell, seed and recorded round.

        Columns are the labels, swept values, ``seed``, ``round`` (or ``episode``), the records that are one number and
        the ``status``.
        """
        return tidy.to_pandas(blocks(self), self.unit)

    def to_xarray(self) -> Any:
        """Return an ``xarray.Dataset``: records with dimensions ``cell``, ``seed``, ``round`` (or ``episode``).

        Labels, constants and settings are coordinates of ``cell``, settings under the names ``algorithm.delta``,
        ``environment.noise.std``. What a cell does not have (another cell's record, a layer that it did not store, a
        seed that is missing) is NaN, and such a record is in float64.
        """
        about = {"name": self.name, "question": self.question, "config": json.dumps(self.config)}
        return tidy.to_xarray(blocks(self), self.unit, about, seconds=[cell.seconds for cell in self.cells])

    def __repr__(self) -> str:
        return tidy.as_text(f"Study {self.name!r}", blocks(self), self.unit)

    def _repr_html_(self) -> str:
        return tidy.as_html(f"Study {self.name!r}", blocks(self), self.unit)


def blocks(result: StudyResult) -> list[tidy.Block]:
    """Return the cells with their labels, constants and settings (``algorithm.delta``, ``environment.noise.std``)."""
    found = []
    for cell in result.cells:
        labels: dict[str, object] = {
            "algorithm": cell.algorithm,
            "environment": cell.environment,
            "constants": cell.constants,
            **{f"algorithm.{name}": value for name, value in cell.algorithm_settings.items()},
            **{f"environment.{name}": value for name, value in cell.environment_settings.items()},
        }
        found.append(tidy.Block(labels, cell.rounds, cell.seeds, cell.records, cell.status, cell.status_round))
    return found


def load(folder: str | Path, *, partial: bool = False) -> StudyResult:
    """Read the results of a study, and check every byte of them.

    Args:
      folder: what :func:`jaxvar.run_study` wrote to.
      partial: whether seeds may be missing: every cell then has those it has, and one without any is left out.

    Raises:
      RunError: names the shards that are missing or damaged, unless ``partial``, and any other damaged file.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    if manifest.format == OLD_FORMAT:
        sentence = "was written before run.json had a checksum, so not all damage to it is noticed"
        warnings.warn(f"{folder} {sentence}; run the same study into it once more to add one", stacklevel=2)
    missing: list[str] = []
    found = []
    for cell in manifest.cells:
        shards = []
        for first in manifest.chunks(cell):
            try:
                shards.append(read_shard(folder, manifest, cell, first))
            except FileNotFoundError:
                missing.append(f"{cell.path(folder, 'shards', first)}: is not there")
            except Damaged as error:
                missing.append(f"{cell.path(folder, 'shards', first)}: {error}")
        if shards:
            found.append(_cell_result(folder, manifest, cell, shards))
    if missing and not partial:
        more = [f"and {len(missing) - _MAX_NAMED} more"] if len(missing) > _MAX_NAMED else []
        lines = "\n  ".join([*missing[:_MAX_NAMED], *more])
        raise RunError(f"{folder} is not complete; run the study again to resume it. Missing:\n  {lines}")
    study = manifest.study
    return StudyResult(
        name=str(study.get("name", folder.name)),
        question=str(study.get("question", "")),
        unit=manifest.unit,
        reference=study.get("reference"),
        config=manifest.table(),
        cells=tuple(found),
    )


def _cell_result(folder: Path, manifest: Manifest, cell: StoredCell, shards: list[Shard]) -> CellResult:
    arrays = [s.arrays for s in shards]
    seeds = np.concatenate([a["seeds"] for a in arrays])
    asked = seeds < manifest.first_seed + manifest.seeds  # a chunk is always whole; its last seeds may not be asked for
    joined = {name: join_chunks([a[name] for a in arrays])[asked] for name in arrays[0] if name != "rounds"}
    firsts = [int(a["seeds"][0]) for a in arrays]
    for path in (cell.path(folder, "checkpoints", first) for first in firsts):
        try:
            files.check_sum(path)
        except FileNotFoundError:
            pass  # only studies that may get more rounds keep it
        except Damaged as error:
            raise RunError(
                f"{path} is damaged: {error}. Delete it; only a study with more rounds would need it"
            ) from None
    is_old = manifest.format == OLD_FORMAT
    return CellResult(
        algorithm=cell.algorithm,
        environment=cell.environment,
        algorithm_settings=cell.algorithm_settings,
        environment_settings=cell.environment_settings,
        constants=cell.constants,
        num_rounds=manifest.num_rounds,
        rounds=np.asarray(manifest.rounds, np.int32),
        seeds=joined["seeds"],
        records={name: joined[name] for name in record_names(joined)},
        status=joined["status"],
        status_round=joined["status_round"],
        seconds=sum(read_seconds(cell.path(folder, "timings", first), is_old=is_old) for first in firsts),
    )


def failures(result: StudyResult) -> list[str]:
    """Return a line for each cell with failed seeds: how many, the first of them, and its cause."""
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


def differences(study: Study, stored: Manifest) -> list[str]:
    """Return what keeps stored results from being those of ``study``, as lines for a user; none if nothing does.

    More seeds, rounds or cells do not: what is there stays right, or is known to need playing again.
    """
    old, new = stored.study, study.to_config()
    found = []
    for name in sorted((set(old) | set(new)) - _ONLY_WORDS - {"records", "algorithm", "environment"}):
        was, is_now = old.get(name), new.get(name)
        grown = name in _MAY_GROW and was is not None and isinstance(is_now, int) and is_now > was
        # A chunk that is not given stays what it was; one that is given may be what was chosen.
        same_chunk = name == "chunk" and (is_now is None or all(cell.chunk == is_now for cell in stored.cells))
        if was != is_now and not grown and not same_chunk:
            found.append(f"{name} was {short(was)} and is {short(is_now)}")
    if study.length == stored.num_rounds and study.recorded.tolist() != list(stored.rounds):
        found.append(f"records were {short(old.get('records'))} and are {short(new.get('records'))}")
    if found:
        return found
    there = {cell.hash: cell for cell in at_length(study, stored.num_rounds).cells}  # for the rounds it was played for
    for cell in stored.cells:
        if cell.hash not in there:
            twins = [c for c in there.values() if c.title == cell.title]
            found.append(f"cell {cell.title}: " + (_difference(cell, twins[0]) if twins else "is not there any more"))
    return found


def _difference(old: StoredCell, new: Cell) -> str:
    if old.record != new.record:
        return f"record was {short(list(old.record))} and is {short(list(new.record))}"
    was, is_now = _flat(old.config), _flat(new.config)
    for role in ("algorithm", "environment"):
        name, (before, now) = was[f"{role}.name"], (table.get(f"{role}.source_sha256") for table in (was, is_now))
        if name == is_now[f"{role}.name"] and before != now:
            module, _, cls = str(name).partition(":")
            return f"the source of {cls} in module {module} changed (SHA-256 {str(before)[:8]}, now {str(now)[:8]})"
    return "; ".join(
        f"{name} was {short(was.get(name))} and is {short(is_now.get(name))}"
        for name in sorted(set(was) | set(is_now))
        if was.get(name) != is_now.get(name)
    )


def _flat(config: object, path: str = "") -> dict[str, object]:
    if not isinstance(config, Mapping):
        return {path: config}
    parts = [_flat(value, f"{path}.{name}" if path else str(name)) for name, value in config.items()]
    return {name: value for part in parts for name, value in part.items()}


def at_length(study: Study, length: int) -> Study:
    """Return the study with another number of rounds or episodes, read at its end; itself where it has that number."""
    if length == study.length:
        return study
    changes: dict[str, Any] = {f"{study.unit}s": length, "records": 1}
    return dataclasses.replace(study, **changes)


def merge(folders: Sequence[str | Path], out: str | Path) -> Manifest:
    """Copy every shard of some folders into another one; all must hold parts of the same study.

    Args:
      folders: what :func:`jaxvar.run_study` wrote to; ``out`` may be one of them.
      out: where all shards are afterwards, with their checkpoints and timings.

    Returns:
      The ``run.json`` of ``out``.
    """
    sources, out = [Path(folder) for folder in folders], Path(out)
    if not sources:
        raise RunError("merge needs at least one folder")
    files.make_folder(out)
    with store.locked(out):
        holders = [*([out] if (out / "run.json").exists() else []), *(f for f in sources if f != out)] or [out]
        manifests = {folder: read_manifest(folder) for folder in holders}
        for folder in holders[1:]:
            _check_same(holders[0], manifests[holders[0]], folder, manifests[folder])
        if holders[0] == out and manifests[out].format == OLD_FORMAT:
            store.sign_seconds(out, manifests[out])
        checksums: dict[str, str] = {}
        for folder, manifest in manifests.items():
            for cell in manifest.cells:
                for first in manifest.chunks(cell):
                    _take(folder, out, manifest, cell, first, checksums)
        runs = tuple({str(run): run for manifest in manifests.values() for run in manifest.runs}.values())
        merged = dataclasses.replace(manifests[holders[0]], updated=store.now(), shards=checksums, runs=runs)
        merged.write(out)
    return merged


def _check_same(first: Path, one: Manifest, second: Path, other: Manifest) -> None:
    played = [{name: x for name, x in each.study.items() if name not in _ONLY_WORDS} for each in (one, other)]
    if played[0] != played[1]:
        raise RunError(f"{first} and {second} hold different studies: their run.json differ in more than words")
    if {cell.hash: cell.chunk for cell in one.cells} != {cell.hash: cell.chunk for cell in other.cells}:
        raise RunError(f"{first} and {second} were run with different chunks; give the study a chunk")


def _take(folder: Path, out: Path, manifest: Manifest, cell: StoredCell, first: int, checksums: dict[str, str]) -> None:
    """Copy one shard, if it is there and right and new."""
    path = cell.path(folder, "shards", first)
    name = str(path.relative_to(folder))
    try:
        found = read_shard(folder, manifest, cell, first)
    except FileNotFoundError:
        return
    except Damaged as error:
        print(f"{path} is left out: {error}", file=sys.stderr)
        return
    if name in checksums:
        if checksums[name] != found.sha256:
            print(f"{path} is left out: another folder has this shard with other digits", file=sys.stderr)
        return
    checksums[name] = found.sha256
    if folder == out:
        return
    for part in PARTS:
        source, target = cell.path(folder, part, first), cell.path(out, part, first)
        if source.exists() and part == "timings":
            write_seconds(target, read_seconds(source, is_old=manifest.format == OLD_FORMAT))
        elif source.exists():
            files.write(target, files.read(source))
