"""``jaxvar list``: the claims of all algorithms, in the order of the paper's two comparison tables.

Rows come from :data:`jaxvar.algorithms.catalogue.CLAIMS`. Where the paper's own table has a slip, the row shows what is
right and a note below says what is printed.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.claims import Claim, Section
from jaxvar.files import csv_entry

Format = Literal["text", "csv", "latex"]
WIDTH = 120
_GAP = "  "
LEGEND = (
    "Bounds on the regret, without logarithms, in the dimension d, rounds or episodes K, steps per episode H, N arms, "
    "S states and A actions; sum sigma^2 is the total variance of the noise, Var* that of the optimal policy, Delta_a "
    "the gap of an arm, kappa the largest 1 / slope of a link and kappa* that at the best arm. 'deterministic' is the "
    "case without noise; 'told' is what the algorithm must be given beside sizes: K, H, bounds R on the noise, B on "
    "the norm of theta* and v on the rewards of an episode, the failure probability delta, the variance; 'efficient' "
    "means polynomial time; 'constants' says whether those in the code were read in the source, derived again from "
    "results that were read, or reconstructed."
)
SECTIONS: tuple[tuple[str, Section, int | None], ...] = (  # title, section, the paper's table
    ("Table 1: linear bandits", "linear bandit", 1),
    ("Further algorithms for linear bandits", "linear bandit", None),
    ("Logistic and other generalised linear bandits", "logistic bandit", None),
    ("K-armed bandits", "K-armed bandit", None),
    ("Duels of arms", "duels", None),
    ("Table 2: linear mixture MDPs, in episodes", "linear mixture MDP", 2),
    ("Further algorithms for linear mixture MDPs", "linear mixture MDP", None),
    ("Tabular MDPs", "tabular MDP", None),
    ("Linear MDPs", "linear MDP", None),
)


class Column(NamedTuple):
    """A column of the printed tables."""

    title: str
    width: int  # in text
    kind: str  # in LaTeX
    cell: Callable[[Claim], str]


def _efficient(claim: Claim) -> str:
    return "yes" if claim.efficient else "no"


# The first column, with name, factory and reference below each other, takes what these leave of the width.
COLUMNS = (
    Column("regret", 25, "p{3.8cm}", lambda claim: claim.regret),
    Column("deterministic", 13, "l", lambda claim: claim.deterministic),
    Column("told", 14, "p{2.5cm}", lambda claim: "; ".join(filter(None, [claim.told, f"variance {claim.variance}"]))),
    Column("efficient", 9, "l", _efficient),
    Column("constants", 13, "l", lambda claim: claim.constants),
    Column("assumption", 14, "p{3cm}", lambda claim: claim.assumption),
)


def listing(to: Format, claims: Sequence[Claim] = CLAIMS) -> str:
    """Return the tables as plain text of at most 120 columns, as CSV or as LaTeX."""
    return {"text": as_text, "csv": as_csv, "latex": as_latex}[to](claims)


def sections(claims: Sequence[Claim]) -> list[tuple[str, list[Claim]]]:
    """Return titles and rows of the tables that are not empty."""
    found = [(title, [c for c in claims if (c.section, c.table) == (section, t)]) for title, section, t in SECTIONS]
    return [(title, rows) for title, rows in found if rows]


def used_columns(rows: Sequence[Claim]) -> list[Column]:
    """Return the columns in which some row has an entry."""
    return [column for column in COLUMNS if any(column.cell(claim) for claim in rows)]


def note_on(claim: Claim) -> str:
    """Return a footnote with what the paper prints instead."""
    return f"{claim.name}: the paper prints {claim.printed}."


def as_text(claims: Sequence[Claim]) -> str:
    """Return plain text; cells that are too long are wrapped."""
    lines, notes = textwrap.wrap(LEGEND, WIDTH), []
    for title, rows in sections(claims):
        columns = used_columns(rows)
        first_width = WIDTH - sum(len(_GAP) + column.width for column in columns)
        widths = [first_width, *(column.width for column in columns)]
        lines += ["", title, "-" * len(title), _beside([["algorithm"], *([c.title] for c in columns)], widths)]
        for claim in rows:
            name = claim.name
            if claim.printed:
                notes.append(note_on(claim))
                name = f"{name} [{len(notes)}]"
            first = [name, f"jv.{claim.factory}", *_wrap(claim.reference, first_width)]
            cells = (_wrap(column.cell(claim), column.width) for column in columns)
            lines += ["", _beside([first, *cells], widths)]
    for i, note in enumerate(notes, start=1):
        mark = f"[{i}] "
        wrapped = textwrap.wrap(note, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))
        lines += ([""] if i == 1 else []) + wrapped
    return "\n".join(lines) + "\n"


def _wrap(cell: str, width: int) -> list[str]:
    """Split a cell into lines, but never inside the argument of a root, a product or an interval."""
    kept = re.sub(r"sqrt\([^+]*?\)|\[.*?\]", lambda whole: whole[0].replace(" ", "\xa0"), cell)
    kept = re.sub(r"(?<=[\w)]) (?=[dKHSA]\b)", "\xa0", kept)
    return [line.replace("\xa0", " ") for line in textwrap.wrap(kept, width, break_on_hyphens=False)]


def _beside(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """Join cells of several lines side by side."""
    rows = itertools.zip_longest(*cells, fillvalue="")
    return "\n".join(_GAP.join(f"{x:{w}}" for x, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def as_csv(claims: Sequence[Claim]) -> str:
    """Return one row per algorithm with every field of its claim; what is not there is empty."""
    names = [field.name for field in dataclasses.fields(Claim)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for _, rows in sections(claims):
        for claim in rows:
            entries = dataclasses.asdict(claim) | {"efficient": _efficient(claim), "row": claim.row or None}
            writer.writerow(["" if entries[name] is None else csv_entry(entries[name]) for name in names])
    return out.getvalue()


def as_latex(claims: Sequence[Claim]) -> str:
    """Return one ``tabular`` per table, which needs no package; notes follow the table they belong to."""
    parts = []
    for title, rows in sections(claims):
        columns, notes = used_columns(rows), list[str]()
        heads = ["algorithm", "factory", *(column.title for column in columns), "reference"]
        kinds = "".join(["ll", *(column.kind for column in columns), "p{4cm}"])
        lines = [rf"% {title}", rf"\begin{{tabular}}{{{kinds}}}", r"\hline", " & ".join(heads) + r" \\", r"\hline"]
        for claim in rows:
            name = escape(claim.name)
            if claim.printed:
                notes.append(note_on(claim))
                name += rf"\textsuperscript{{{len(notes)}}}"
            cells = [name, rf"\texttt{{{escape(claim.factory)}}}", *(typeset(c.cell(claim)) for c in columns)]
            lines.append(" & ".join([*cells, escape(claim.reference)]) + r" \\")
        lines += [r"\hline", r"\end{tabular}"]
        lines += [rf"\par\noindent\textsuperscript{{{i}}}{escape(note)}" for i, note in enumerate(notes, start=1)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


_SPECIAL = {c: rf"\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def escape(text: str) -> str:
    """Escape the characters that LaTeX reads as commands."""
    return "".join(_SPECIAL.get(c, c) for c in text)


# What a bound may consist of, and how it is typeset: longer names first, so that these are found first.
_MATHS = {
    "sum sigma^2": r"\textstyle\sum\sigma^2",
    "sum_a": r"\textstyle\sum_a",
    "sum": r"\textstyle\sum",
    "sigma_a": r"\sigma_a",
    "sigma": r"\sigma",
    "Var*": r"\mathrm{Var}^*",
    "Delta_a": r"\Delta_a",
    "delta": r"\delta",
    "kappa*": r"\kappa_*",
    "kappa": r"\kappa",
    "eps": r"\varepsilon",
    "nu": r"\nu",
}
_OPEN = {"sqrt(": (r"\sqrt{", "}"), "^(": ("^{", "}"), "(": ("(", ")")}
_NAMES = "|".join(map(re.escape, _MATHS))
_TOKEN = re.compile(
    rf"(?P<open>sqrt\(|\^\(|\()|(?P<close>\))|\^(?P<power>\d+(?:\.\d+)?)"
    rf"|(?:{_NAMES}|[dKHRSANBv])(?![A-Za-z])|\d+(?:\.\d+)?|[-+/]| +"
)


def typeset(cell: str, escape: Callable[[str], str] = escape) -> str:
    """Return ``bound: d sqrt(sum sigma^2) + d^1.5, in words`` with formulas for bounds, and the words escaped."""
    return "".join(_formula(part) or escape(part) for part in re.split("(, |: |; )", cell))


def _formula(part: str) -> str:
    """Return a formula in dollars, or nothing where some of ``part`` is none."""
    formula, closers, at = "", list[str](), 0
    while at < len(part):
        token = _TOKEN.match(part, at)
        if token is None or (token["close"] and not closers):
            return ""
        at = token.end()
        if token["open"]:
            start, closer = _OPEN[token["open"]]
            formula += start
            closers.append(closer)
        elif token["close"]:
            formula += closers.pop()
        elif token["power"]:
            formula += f"^{{{token['power']}}}"
        else:
            formula += _MATHS.get(token[0], token[0])
    return f"${formula}$" if formula.strip() and not closers else ""
