"""``jaxvar list``: the paper's comparison tables, complete, in order, with its slips marked, in three formats."""

import csv
import dataclasses
import inspect
import io
import re
import subprocess
import sys

import pytest

import jaxvar as jv
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.claims import Claim
from jaxvar.listing import SECTIONS, WIDTH, escape, listing, sections, typeset

# The rows of the paper's tables in their order: name, general bound, efficiency, as printed there.
TABLE_1 = [
    ("ConfidenceBall_2", "d sqrt(K)", True),
    ("OFUL", "d sqrt(K)", True),
    ("Weighted OFUL", "d sqrt(sum sigma^2) + sqrt(d K)", True),
    ("Weighted OFUL+", "d sqrt(sum sigma^2) + d", True),
    ("VOFUL", "d^4.5 sqrt(sum sigma^2) + d^5", False),
    ("VOFUL2", "d^1.5 sqrt(sum sigma^2) + d^2", False),
    ("SAVE", "d sqrt(sum sigma^2) + d", True),
]
TABLE_2 = [
    ("UCRL-VTR", "d sqrt(H^3 K)", True),
    ("UCRL-VTR+", "sqrt(d^2 H^3 + d H^4) sqrt(K) + d^2 H^3 + d^3 H^2", True),
    ("VarLin", "d^4.5 sqrt(K) + d^9", False),
    ("VarLin2", "d sqrt(K) + d^2", False),
    ("HF-UCRL-VTR+", "d sqrt(K) + d^2", True),
    ("UCRL-AVE", "d sqrt(Var*) + d^2", True),
]
AWKWARD = Claim(
    name='A, "B" & C_1',
    factory="a_b",
    reference="X\nY 50% #1 ~ $2 {3} \\ ^",
    section="linear bandit",
    regret="at most 3",
    deterministic="",
    variance="estimated",
    efficient=False,
    constants="read",
    printed="d^2, of course",
)


def without_title(text: str, title: str) -> str:
    """The rows of a table, up to the empty line and title of the next."""
    after = text.split(f"{title}\n{'-' * len(title)}\n")[1]
    return re.split(r"\n\n[^\n]*\n-+\n", after)[0]


@pytest.mark.parametrize(("table", "rows"), [(1, TABLE_1), (2, TABLE_2)])
def test_the_papers_tables_are_there(table, rows):
    """A study that compares with these bounds must not compare with a typing error."""
    ours = [(c.name, c.regret, c.efficient) for c in CLAIMS if c.table == table]
    assert ours == rows
    title = {1: "Table 1: linear bandits", 2: "Table 2: linear mixture MDPs, in episodes"}[table]
    lines = without_title(listing("text"), title).splitlines()
    starts = [lines.index(next(x for x in lines if re.match(rf"{re.escape(name)}( \[|  )", x))) for name, _, _ in rows]
    assert starts == sorted(starts)


def test_no_variance_is_told_where_the_table_says_unknown():
    """The last column of Table 1."""
    known = {"not used": "N/A", "told after the pull": "Known", "told before the pull": "Known", "estimated": "Unknown"}
    printed = ["N/A", "N/A", "Known", "Known", "Unknown", "Unknown", "Unknown"]
    assert [known[c.variance] for c in CLAIMS if c.table == 1] == printed


def test_assumptions_of_table_2():
    """Its fourth column: all homogeneous but the second, rewards adding up to H in the first two."""
    printed = [("homogeneous", "H"), ("inhomogeneous", "H"), *[("homogeneous", "1")] * 4]
    ours = [c.assumption for c in CLAIMS if c.table == 2]
    assert ours == [f"{kind}, rewards add up to at most {total}" for kind, total in printed]


def test_slips_of_the_paper_are_corrected_and_marked():
    """Table 1 swaps two entries, Table 2 cites another theorem; nothing else differs from print."""
    marked = {c.factory: c for c in CLAIMS if c.printed}
    assert set(marked) == {"voful", "voful2", "ucrl_ave"}
    assert (marked["voful"].deterministic, marked["voful2"].deterministic) == ("d^5", "d^2")
    assert "d^2" in marked["voful"].printed and "d^5" in marked["voful2"].printed
    text = listing("text")
    for i, name in enumerate(("VOFUL", "VOFUL2", "UCRL-AVE"), start=1):
        assert re.search(rf"^{name} \[{i}\]  ", text, re.MULTILINE)
        assert re.search(rf"^\[{i}\] {name}: the paper prints", text, re.MULTILINE)
    # without noise, a bound that depends on the variance loses that term
    for claim in CLAIMS:
        if "sum sigma^2" in claim.regret or "Var*" in claim.regret:
            assert claim.deterministic == re.sub(r".*sqrt\((sum sigma\^2|Var\*)\) \+ ", "", claim.regret), claim.name


def test_every_algorithm_has_a_claim():
    """What is left out here is missing in the list."""

    def makes_an_algorithm(factory: object) -> bool:
        return inspect.isfunction(factory) and factory.__module__.startswith("jaxvar.algorithms.")

    factories = {name for name in jv.__all__ if makes_an_algorithm(getattr(jv, name))}
    claimed = [c.factory for c in CLAIMS]
    assert sorted(claimed) == sorted(factories - {"greedy", "uniform"})
    made = {name: inspect.signature(getattr(jv, name)).return_annotation for name in claimed}
    assert {c.factory for c in CLAIMS if c.setting == "episodes"} == {
        n for n, cls in made.items() if hasattr(cls, "plan")
    }


def test_every_claim_has_its_section():
    """A claim of a section that is not printed would be lost."""
    assert sorted(c.name for _, rows in sections(CLAIMS) for c in rows) == sorted(c.name for c in CLAIMS)
    inside = {section: {c.factory for c in CLAIMS if c.section == section} for _, section, _ in SECTIONS}
    assert inside["logistic bandit"] == {"glb_omd", "ada_ecolog"} and inside["K-armed bandit"] == {"ucb1", "ucb_v"}
    assert inside["duels"] == {"vacdb", "max_in_p"} and inside["tabular MDP"] == {"mvp", "ucbvi"}
    assert {c.section for c in CLAIMS if c.table} == {"linear bandit", "linear mixture MDP"}


def test_what_is_told_is_what_a_factory_asks_for():
    """Nobody writes it by hand, but where a parameter is inherited and not used."""
    told = {c.factory: c.told for c in CLAIMS}
    assert told["oful"] == "R, B, delta" and told["save"] == "K, R, delta" and told["ucb1"] == "R"
    assert told["ucrl_ave"] == "K, H, B, delta" and told["mvp"] == "K, v, delta" and told["fgts_va"] == "K"
    assert told["vacdb"] == "K, B, delta, least slope"  # R is a parameter of every bandit's base
    cells = next(rows for title, rows in sections(CLAIMS) if title.startswith("Table 1"))
    shown = "".join(listing("text", cells[:1]).split())
    assert "R,B,delta;" in shown and "variancenot" in shown


def test_text_fits_and_loses_nothing():
    """Wrapping must not cut what is wrapped."""
    text = listing("text", [*CLAIMS, dataclasses.replace(AWKWARD, regret="x" * 30)])
    assert max(map(len, text.splitlines())) <= WIDTH and text.isascii()
    alone = "".join(listing("text", [next(c for c in CLAIMS if c.name == "UCRL-VTR+")]).split())
    for part in ("UCRL-VTR+", "jv.ucrl_vtr_plus", "derived", "inhomogeneous,", "sqrt(d^2H^3+dH^4)"):
        assert part in alone


def test_csv_comes_back():
    """Every field of every claim, commas, quotes and line ends included."""
    claims = [*(c for c in CLAIMS if c.setting == "bandit" and c.table), AWKWARD, CLAIMS[-1], CLAIMS[-2]]
    rows = list(csv.DictReader(io.StringIO(listing("csv", claims))))
    back = [
        Claim(
            **row
            | {"efficient": row["efficient"] == "yes", "row": int(row["row"] or 0)}
            | {"table": int(row["table"]) if row["table"] else None}
        )
        for row in rows
    ]
    assert back == claims


def unescaped(latex: str) -> str:
    """What LaTeX prints for escaped text."""
    names = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^"}
    names |= {"textless": "<", "textgreater": ">", "textbar": "|"}
    return re.sub(r"\\(?:([a-z]+)\{\}|(.))", lambda m: names[m[1]] if m[1] else m[2], latex)


def test_latex_is_escaped():
    """A bare special character breaks the document, or hides the rest of the line."""
    for text in (AWKWARD.name, AWKWARD.reference, r"\{}_^~$&%#<>|", "plain"):
        escaped = escape(text)
        assert unescaped(escaped) == text
        assert not re.search(r"(?<!\\)[&%$#_^~<>|]", escaped)
    latex = listing("latex", [*CLAIMS, AWKWARD])
    for table in latex.split("\\begin{tabular}")[1:]:
        body = table.split("\\hline\n")
        cells = {len(re.split(r"(?<!\\)&", row)) for row in (body[1] + body[2]).split("\\\\\n")[:-1]}
        assert len(cells) == 1
    for line in latex.splitlines():
        bare = re.sub(r"\$[^$]*\$", "", line.replace("\\$", ""))  # without formulas
        assert line.startswith("% ") or not re.search(r"(?<!\\)[%#_^~$]", bare), line
    assert latex.count("{") - latex.count("\\{") == latex.count("}") - latex.count("\\}")


@pytest.mark.parametrize(
    ("cell", "latex"),
    [
        ("d^1.5 sqrt(sum sigma^2) + d", r"$d^{1.5} \sqrt{\textstyle\sum\sigma^2} + d$"),
        ("sqrt(d K (d sigma^2 + R^2))", r"$\sqrt{d K (d \sigma^{2} + R^{2})}$"),
        ("d sqrt(Var*) + d^2", r"$d \sqrt{\mathrm{Var}^*} + d^{2}$"),
        ("sqrt(S A K) + S^2 A", r"$\sqrt{S A K} + S^{2} A$"),
        ("d sqrt(K / kappa*) + kappa d^2", r"$d \sqrt{K / \kappa_*} + \kappa d^{2}$"),
        ("sum_a sigma_a^2 / Delta_a + N", r"$\textstyle\sum_a \sigma_a^{2} / \Delta_a + N$"),
        ("d K^(1 / (1 + eps))", r"$d K^{1 / (1 + \varepsilon)}$"),
        ("mean: d / sqrt(K), in words; K, delta", r"mean: $d / \sqrt{K}$, in words; $K$, $\delta$"),
        ("And", "And"),
        ("K^(2", r"K\textasciicircum{}(2"),
        ("none claimed", "none claimed"),
        ("d_1 (so)", r"d\_1 (so)"),
        ("sqrt(d", "sqrt(d"),
        ("d)", "d)"),
        ("", ""),
    ],
)
def test_bounds_become_formulas(cell, latex):
    """A bound is typeset, words are not."""
    assert typeset(cell) == latex


def test_command_prints_the_list():
    """In a process of its own, since the command sets up JAX."""
    done = subprocess.run([sys.executable, "-m", "jaxvar.cli", "list", "--to", "csv"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, listing("csv")), done.stderr
