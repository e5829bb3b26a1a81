"""Results for other programs and for notebooks: rows of pandas and CSV, datasets of xarray, short texts.

A result is a list of :class:`Block`: the seeds of one setting, with the labels that tell it from the others.
"""

from __future__ import annotations

import html
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxvar.parameters import Array

_MAX_LINES = 12  # blocks in a short text


class Block(NamedTuple):
    """All seeds of one setting."""

    labels: Mapping[str, object]  # ``{"algorithm": "SAVE", "algorithm.delta": 0.1}``
    rounds: Array  # [records]
    seeds: Array  # [seeds]
    records: Mapping[str, Array]  # name -> [seeds, records, ...]
    status: Array  # [seeds]
    status_round: Array  # [seeds]


def _optional(name: str, blocks: Sequence[Block]) -> Any:
    """Import a package that jaxvar works without, to convert some blocks by it; refuse to convert none."""
    try:
        found = importlib.import_module(name)
    except ImportError:
        more = " h5netcdf h5py" if name == "xarray" else ""
        raise ImportError(f"{name} is needed for this: pip install {name}{more}") from None
    if not blocks:
        raise ValueError("there are no results yet")
    return found


def columns(blocks: Sequence[Block], unit: str, missing: object) -> Iterator[dict[str, Array | list[object]]]:
    """Yield the columns of each block's rows, one row for each seed and recorded round.

    Records that are more than one number are left out. ``missing`` stands where a block has no such label or record.
    """
    labels = list(dict.fromkeys(name for block in blocks for name in block.labels))
    names = sorted({name for block in blocks for name, x in block.records.items() if x.ndim == 2})
    for block in blocks:
        num_seeds, num = len(block.seeds), len(block.rounds)
        nothing = [missing] * (num_seeds * num)
        found: dict[str, Array | list[object]] = {n: [block.labels.get(n, missing)] * len(nothing) for n in labels}
        found |= {"seed": np.repeat(block.seeds, num), unit: np.tile(block.rounds, num_seeds)}
        found |= {n: block.records[n].ravel() if n in block.records else nothing for n in names}
        yield found | {"status": np.repeat(block.status, num)}


def to_pandas(blocks: Sequence[Block], unit: str) -> Any:
    """Return one ``pandas.DataFrame`` with the rows of all blocks; NaN where a block has no such label or record."""
    pandas = _optional("pandas", blocks)
    frames = [pandas.DataFrame(found) for found in columns(blocks, unit, np.nan)]
    return pandas.concat(frames, ignore_index=True)


def to_xarray(blocks: Sequence[Block], unit: str, attributes: Mapping[str, object], **cells: Sequence[float]) -> Any:
    """Return one ``xarray.Dataset``: records with dimensions ``cell``, ``seed``, ``unit``, and one more for arrays.

    Labels are coordinates of ``cell``. A block that has no such record, layer or seed has NaN there, and such a record
    is in float64. ``cells`` are further variables, one number for each block.
    """
    xarray = _optional("xarray", blocks)
    seeds = np.unique(np.concatenate([block.seeds for block in blocks]))
    axes = ("cell", "seed", unit)
    variables: dict[str, object] = {}
    for name in sorted({name for block in blocks for name in block.records}):
        values = _stacked(blocks, [block.records.get(name) for block in blocks], seeds)
        variables[name] = ((*axes, *(f"{name}_{i}" for i in range(values.ndim - 3))), values)
    for name in ("status", "status_round"):
        variables[name] = (axes[:2], _stacked(blocks, [getattr(block, name) for block in blocks], seeds))
    variables |= {name: ("cell", np.asarray(values)) for name, values in cells.items()}
    coordinates: dict[str, object] = {
        name: ("cell", _column([block.labels.get(name) for block in blocks]))
        for name in dict.fromkeys(name for block in blocks for name in block.labels)
    }
    coordinates |= {"seed": seeds, unit: blocks[0].rounds}
    return xarray.Dataset(variables, coordinates, attributes)


def summary(title: str, blocks: Sequence[Block], unit: str) -> tuple[str, list[str], list[list[str]]]:
    """Return a line about a result, and a small table: labels, seeds and final regret of the first blocks."""
    labels = list(dict.fromkeys(name for block in blocks for name in block.labels))
    rows = []
    for block in blocks[:_MAX_LINES]:
        final, num = block.records["regret"][:, -1] if "regret" in block.records else np.array([]), len(block.seeds)
        error = f" ± {final.std(ddof=1) / num**0.5:.2g}" if len(final) > 1 else ""
        failed = f" ({np.count_nonzero(block.status)} failed)" if np.any(block.status) else ""
        regret = f"{final.mean():.4g}{error}" if len(final) else ""
        rows.append([*(str(block.labels.get(name, "")) for name in labels), f"{num}{failed}", regret])
    if len(blocks) > _MAX_LINES:
        rows.append([f"and {len(blocks) - _MAX_LINES} more", *[""] * (len(labels) + 1)])
    names = ", ".join(sorted({name for block in blocks for name in block.records}))
    num_rounds = int(blocks[0].rounds[-1]) if blocks else 0
    about = f"{title}: {len(blocks)} cell{'s' * (len(blocks) != 1)}, recorded up to {unit} {num_rounds}: {names}"
    return about, [*labels, "seeds", "final regret (mean ± standard error)"], rows


def as_text(title: str, blocks: Sequence[Block], unit: str) -> str:
    """Return a result in a few lines."""
    about, head, rows = summary(title, blocks, unit)
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ("  ".join(f"{x:{w}}" for x, w in zip(row, widths, strict=True)).rstrip() for row in (head, *rows))
    return "\n  ".join([about, *lines])


def as_html(title: str, blocks: Sequence[Block], unit: str) -> str:
    """Return a result as a small table, for notebooks."""
    about, head, rows = summary(title, blocks, unit)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in row) + "</tr>" for row in rows)
    heads = "".join(f"<th>{html.escape(x)}</th>" for x in head)
    return f"<p>{html.escape(about)}</p><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _column(values: list[object]) -> Array:
    """Return numbers, with NaN where a block has none; else text."""
    if all(v is None or (isinstance(v, int | float | np.number) and not isinstance(v, bool)) for v in values):
        return np.array([np.nan if v is None else v for v in values])
    return np.array(
        ["" if v is None else v if isinstance(v, str) else json.dumps(np.asarray(v).tolist()) for v in values]
    )


def _stacked(blocks: Sequence[Block], parts: list[Array | None], seeds: Array) -> Array:
    """Return a part of each block as ``[blocks, seeds, ...]``.

    Parts may be missing, have other seeds, or fewer entries on their last axes: NaN stands for what is not there.
    """
    there = [part for part in parts if part is not None]
    shape = (len(seeds), *np.max([part.shape[1:] for part in there], axis=0))
    is_whole = len(there) == len(blocks) and all(np.array_equal(block.seeds, seeds) for block in blocks)
    if is_whole and all(part.shape == shape for part in there):
        return np.stack(there)
    out = np.full((len(parts), *shape), np.nan)
    for i, (part, block) in enumerate(zip(parts, blocks, strict=True)):
        if part is not None:
            out[i][np.searchsorted(seeds, block.seeds), *(slice(n) for n in part.shape[1:])] = part
    return out
