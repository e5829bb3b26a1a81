"""The parts of the documentation that are written from the code when it is built, so that they cannot fall behind it.

A page says ``<!-- written: algorithms -->`` where a text of :data:`TEXTS` belongs. Docstrings are written for ``help``
in a terminal; here formulas that they set off by indentation become literal blocks, and the comments that say what the
fields of a class are become a list of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import os
import re
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import jaxvar
from experiments.found import read_found
from experiments.ledger import collect
from experiments.ledger import table as ledger_table
from experiments.speed.growth import read, tables
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.claims import Claim
from jaxvar.cli import main
from jaxvar.environments.data_bandit import TASKS
from jaxvar.listing import LEGEND, SECTIONS, note_on, sections, typeset, used_columns
from jaxvar.study.factories import public_factories

HELP_COLUMNS = 84
ROOT = Path(__file__).parents[1]


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx what is here."""
    app.connect("source-read", write_parts)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=400)  # before napoleon reads its sections
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("missing-reference", find_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_parts(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace every marker of a page by its text."""
    source[0] = re.sub(r"<!-- written: (\w+)(?: (.*?))? -->", lambda m: TEXTS[m[1]](*(m[2] or "").split()), source[0])


def algorithms() -> str:
    """The tables of ``jaxvar list``."""
    uses = {
        "not used": ("not used",),
        "told": ("told before the pull", "told after the pull"),
        "estimated": ("estimated",),
    }
    lines = ["| setting | " + " | ".join(f"variance {use}" for use in uses) + " |", "|---" * (len(uses) + 1) + "|"]
    for section in dict.fromkeys(section for _, section, _ in SECTIONS):
        inside = [claim for claim in CLAIMS if claim.section == section]
        cells = [", ".join(_link(c) for c in inside if c.variance in words) for words in uses.values()]
        lines += [f"| {section} | " + " | ".join(cells) + " |"] if inside else []
    lines += ["", _plain(LEGEND), ""]
    for title, claims in sections(CLAIMS):
        columns = used_columns(claims)
        lines += [f"## {title}", ""]
        lines += ["| algorithm | " + " | ".join(column.title for column in columns) + " |"]
        lines += ["|---" * (len(columns) + 1) + "|"]
        notes = []
        for claim in claims:
            mark = ""
            if claim.printed:
                notes.append(note_on(claim))
                mark = f" [{len(notes)}]"
            name = f"{_link(claim)}{mark}<br>{claim.reference}"
            lines += ["| " + " | ".join([name, *(typeset(column.cell(claim), _plain) for column in columns)]) + " |"]
        lines += ["", *(f"[{i}] {_plain(note)}\n" for i, note in enumerate(notes, start=1)), ""]
    return "\n".join(lines)


def _link(claim: Claim) -> str:
    return f"[{claim.name}](#jaxvar.{claim.factory})"


def _plain(text: str) -> str:
    """Text in which Markdown sees nothing of its own."""
    return re.sub(r"([\\`*_{}\[\]<>$|])", r"\\\1", text)


def constants() -> str:
    """The values of all presets."""
    presets = {
        "paper": jaxvar.constants.paper(),
        "paper_fixed": jaxvar.constants.paper_fixed(),
        "tight": jaxvar.constants.tight(),
        "practical": jaxvar.constants.practical(),
        "paper, episodes": jaxvar.constants.paper(setting="episodes"),
        "paper_fixed, episodes": jaxvar.constants.paper_fixed(setting="episodes"),
        "practical, episodes": jaxvar.constants.practical(setting="episodes"),
    }
    lines = ["| | " + " | ".join(presets) + " |", "|---" + "|---:" * len(presets) + "|"]
    for name in jaxvar.constants.number_names():
        values = (f"{float(getattr(preset, name)):.4g}" for preset in presets.values())
        lines.append(f"| `{name}` | " + " | ".join(values) + " |")
    return "\n".join(lines)


def command_line() -> str:
    """The help of the command and of each of its verbs."""
    overview = _help()
    found = re.search(r"\{([a-z,]+)\}", overview)
    assert found, "the help of jaxvar lists its verbs in braces"
    parts = [_as_block(overview)]
    parts += [f"## jaxvar {verb}\n\n{_as_block(_help(verb))}" for verb in found[1].split(",")]
    return "\n\n".join(parts)


def _help(*verb: str) -> str:
    out = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(HELP_COLUMNS)
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main([*verb, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return out.getvalue()


def _as_block(text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```"


def data_bandits() -> str:
    """The stored tasks: sizes, how linear they are, and how much their variance leaves to gain."""
    columns = ("task", "contexts", "arms", "d", "R", "misspecification", "largest error", "regret of the linear fit")
    columns += ("of uniform play", "norm of the linear fit", "total variance / (K R²)")
    lines = ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    for task in TASKS:
        bandit = jaxvar.data_bandit(task)
        found = bandit.summary()
        errors = (found.misspecification, found.largest_error, found.linear_regret, found.uniform_regret)
        numbers = (float(bandit.noise_bound), *errors, np.linalg.norm(found.best_theta), found.variance_ratio)
        shown = (f"{x:.2g}" if x > 1e-6 else "0" for x in numbers)
        sizes = (f"{n:,}" for n in (bandit.num_contexts, bandit.num_arms, bandit.dim))
        lines.append("| " + " | ".join([f"`{task}`", *sizes, *shown]) + " |")
    return "\n".join(lines)


def makers(role: str, kind: str, *elsewhere: str) -> str:
    """Entries of the functions that make algorithms or environments of a kind."""
    found = [f.name for f in public_factories().values() if f.role == role and kind in f.kinds]
    return entries("jaxvar", *(name for name in found if name not in elsewhere))


def module(name: str) -> str:
    """What a public module says of itself, and entries of all its public names."""
    target = getattr(jaxvar, name)
    about = "\n".join(_with_literal_blocks(inspect.cleandoc(target.__doc__ or "").splitlines()))
    return f"```{{eval-rst}}\n.. module:: jaxvar.{name}\n\n{about}\n```\n\n" + entries(
        f"jaxvar.{name}", *public_names(target)
    )


def public_names(target: types.ModuleType) -> list[str]:
    """``__all__`` where there is one; else what a module defines itself, in its order."""
    if hasattr(target, "__all__"):
        return list(target.__all__)
    return [n for n, x in vars(target).items() if not n.startswith("_") and _is_own(n, x, target)]


def _is_own(name: str, value: Any, target: types.ModuleType) -> bool:
    home = getattr(value, "__module__", None)
    return home == target.__name__ if callable(value) else name.isupper()


def entries(home: str, *wanted: str) -> str:
    """Entries that autodoc fills in."""
    lines = []
    for name in wanted:
        value = getattr(_public(home), name)
        if inspect.isclass(value):
            lines += [f".. autoclass:: {home}.{name}", "   :members:", ""]
        elif inspect.isfunction(value):
            lines += [f".. autofunction:: {home}.{name}", ""]
        else:
            lines += [f".. autodata:: {home}.{name}", ""]
    return "```{eval-rst}\n" + "\n".join(lines) + "```\n"


def found(experiment: str, table: str) -> str:
    """A table that is stored beside an experiment."""
    return read_found(ROOT / "experiments" / experiment / "found.json").tables[table].markdown()


def growth() -> str:
    """Return the tables and the figure of growth beside Numba."""
    path = ROOT / "docs" / "images" / "growth" / "growth.json"
    if not path.exists():
        return "Not measured with this version yet."
    return f"{tables(read(path))}\n![ratios of speeds](images/growth/ratios.png)\n"


def gain(before: str, after: str) -> str:
    """The radius before and after a step of the proof of ``sharp``, by noise level and layer; steps count from 0."""
    table = read_found(ROOT / "experiments" / "sharp" / "found.json").tables["steps"]
    names = list(dict.fromkeys(row[1] for row in table.rows))
    wanted = (names[int(before)], names[int(after)])
    return dataclasses.replace(table, caption="", rows=tuple(row for row in table.rows if row[1] in wanted)).markdown()


def ledger() -> str:
    """Every radius of every algorithm."""
    return ledger_table(collect()).markdown()


TEXTS: dict[str, Callable[..., str]] = {
    "algorithms": algorithms,
    "command_line": command_line,
    "constants": constants,
    "data_bandits": data_bandits,
    "entries": entries,
    "found": found,
    "growth": growth,
    "gain": gain,
    "ledger": ledger,
    "makers": makers,
    "module": module,
}


def prepare_docstring(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Make reStructuredText of a docstring."""
    if what == "data" and not callable(value):
        lines.clear()  # it would be that of the data's type
    if inspect.isclass(value):
        fields = dict(_commented_fields(value))
        if fields:
            lines += ["", "Attributes:", *(f"  {field}: {comment}" for field, comment in fields.items())]
    not_a_list = (re.sub(r"^(\s*\w+: )(\w\.)$", r"\1\\\2", line) for line in lines)  # "dim: d." numbers nothing
    lines[:] = list(_with_literal_blocks(list(not_a_list)))


def _commented_fields(owner: type) -> Iterator[tuple[str, str]]:
    """Fields of a class with what the comment behind each of them says."""
    if not (hasattr(owner, "_fields") or dataclasses.is_dataclass(owner)):
        return
    source = textwrap.dedent(inspect.getsource(owner))
    for found in re.finditer(r"^    (\w+): .*?  # (?!type:)(\[.*?\](?= |$))? *(.*)$", source, flags=re.MULTILINE):
        shape = f"``{found[2]}`` " if found[2] else ""
        yield found[1], shape + (found[3] if "``" in found[3] else re.sub(r"([*|_])", r"\\\1", found[3]))


def _with_literal_blocks(lines: list[str]) -> Iterator[str]:
    """Lines in which what is set off by a blank line and an indent of four is a literal block."""
    depth, before_blank, inside = 0, "", False
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            yield line
            continue
        if inside and indent < depth + 4:
            inside = False
        after_blank = i > 0 and not lines[i - 1].strip()
        if not inside and after_blank and indent >= depth + 4 and not before_blank.endswith("::"):
            inside = True
            yield " " * depth + "::"
            yield ""
        if not inside:
            depth, before_blank = indent, line.rstrip()
        yield line


def skip_fields(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples are in the list of fields already."""
    return True if type(value).__name__ == "_tuplegetter" else None


def find_public_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> Any:
    """Link a name of a private module to the entry that it has under its public name."""
    if node.get("refdomain") != "py":
        return None
    public = _public_names().get(id(_find(node["reftarget"], node.get("py:module"))))
    if public is None:
        return None
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, content)


def _public_names() -> dict[int, str]:
    found = {}
    for name in jaxvar.__all__:
        value = getattr(jaxvar, name)
        if inspect.ismodule(value):
            found.update({id(getattr(value, n)): f"jaxvar.{name}.{n}" for n in public_names(value)})
        found[id(value)] = f"jaxvar.{name}"
    return found


def _find(target: str, home: str | None) -> Any:
    """The object that a dotted name stands for."""
    for name in (target, f"{home}.{target}"):
        parts = name.split(".")
        for i in range(len(parts), 0, -1):
            try:
                value: Any = importlib.import_module(".".join(parts[:i]))
                for part in parts[i:]:
                    value = getattr(value, part)
                return value
            except (ImportError, AttributeError):
                continue
    return None


def _public(name: str) -> Any:
    value: Any = jaxvar
    for part in name.split(".")[1:]:
        if not hasattr(value, part):  # a module that nothing has imported yet
            importlib.import_module(f"{value.__name__}.{part}")
        value = getattr(value, part)
    return value
