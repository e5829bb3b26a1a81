"""Figures as files: PDF and PNG, whole or not at all, and the same bytes for the same figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jaxvar.figures.style import Drawing, style
from jaxvar.files import write_whole

# Neither the time nor the version of a library is part of a figure.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"Creator": "jaxvar", "Producer": None, "CreationDate": None},
    "png": {"Software": None},
}


def save(drawing: Drawing | Any, stem: str | Path) -> tuple[Path, Path]:
    """Write ``stem.pdf`` and ``stem.png`` (its folder is made where it is missing); returns the paths."""
    figure = drawing.figure if isinstance(drawing, Drawing) else drawing
    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    with style():
        return _write(figure, stem, "pdf"), _write(figure, stem, "png")


def _write(figure: Any, stem: Path, kind: str) -> Path:
    path = stem.with_name(f"{stem.name}.{kind}")
    return write_whole(path, lambda buffer: figure.savefig(buffer, format=kind, metadata=_METADATA[kind]))
