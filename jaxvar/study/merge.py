"""``merge``: the parts of a study that were run into several folders, in one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from jaxvar.study import store
from jaxvar.study.changes import what_is_played
from jaxvar.study.errors import RunError
from jaxvar.study.lock import locked
from jaxvar.study.manifest import Manifest, StoredCell, checkpoint_path, read_manifest, shard_path, timing_path
from jaxvar.study.shards import read_shard


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
    store.make_folder(out)
    with locked(out):
        holders = [*([out] if (out / "run.json").exists() else []), *(f for f in sources if f != out)]
        manifests = [read_manifest(folder) for folder in holders]
        for folder, manifest in zip(holders, manifests, strict=True):
            _check_same(holders[0], manifests[0], folder, manifest)
        checksums: dict[str, str] = {}
        for folder, manifest in zip(holders, manifests, strict=True):
            for cell in manifest.cells:
                for first in manifest.chunks(cell):
                    _take(folder, out, manifest, cell, first, checksums)
        runs = tuple({str(run): run for manifest in manifests for run in manifest.runs}.values())
        merged = manifests[0].updated_now(shards=checksums, runs=runs)
        merged.write(out)
    return merged


def _check_same(first: Path, one: Manifest, second: Path, other: Manifest) -> None:
    if what_is_played(one.study) != what_is_played(other.study):
        raise RunError(f"{first} and {second} hold different studies: their run.json differ in more than words")
    sizes = [{cell.hash: cell.chunk for cell in manifest.cells} for manifest in (one, other)]
    if sizes[0] != sizes[1]:
        raise RunError(f"{first} and {second} were run with different chunks; give the study a chunk")


def _take(folder: Path, out: Path, manifest: Manifest, cell: StoredCell, first: int, checksums: dict[str, str]) -> None:
    """Copy one shard, if it is there and right and new."""
    path = shard_path(folder, cell, first)
    target = shard_path(out, cell, first)
    name = str(target.relative_to(out))
    try:
        found = read_shard(folder, manifest, cell, first)
    except FileNotFoundError:
        return
    except store.Damaged as error:
        print(f"{path} is left out: {error}", file=sys.stderr)
        return
    if name in checksums:
        if checksums[name] != found.sha256:
            print(f"{path} is left out: another folder has this shard with other digits", file=sys.stderr)
        return
    checksums[name] = found.sha256
    if folder == out:
        return
    for part in (checkpoint_path, timing_path, shard_path):  # the shard last: it says that all else is there
        source, copy = part(folder, cell, first), part(out, cell, first)
        if source.exists():
            store.make_folder(copy.parent)
            store.write(copy, store.read(source))
