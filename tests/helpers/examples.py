"""Examples in Markdown pages, as code that tests can run."""

import re
from collections.abc import Mapping
from pathlib import Path

NOTHING: Mapping[str, str] = {}


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def write_modules(page: Path, folder: Path) -> None:
    """Write the Python blocks that are files: those whose first line is ``# NAME.py``."""
    for code in blocks(page, "python"):
        if name := re.match(r"# (\w+\.py)\n", code):
            (folder / name[1]).write_text(code)


def run_python(page: Path, shorter: Mapping[str, str] = NOTHING) -> dict:
    """Run a page's Python blocks in order; each may use the names of those before it, which are returned."""
    namespace: dict = {}
    for code in blocks(page, "python"):
        for long, short in shorter.items():
            code = code.replace(long, short)
        exec(compile(code, page.name, "exec"), namespace)
    return namespace
