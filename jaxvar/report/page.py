"""A study's result as one HTML page."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from pathlib import Path
from string import Template

from jaxvar.files import write_whole
from jaxvar.report.curves import curve
from jaxvar.report.grid import grid
from jaxvar.report.markup import Html, embed, tag, text
from jaxvar.report.sections import configuration, coverage, exponents, facts, failures, final, layers, regret, speed
from jaxvar.study.result import StudyResult

_ASSETS = importlib.resources.files("jaxvar.report") / "assets"
_SCRIPTS = ("numbers.js", "chart.js", "tables.js", "theme.js")


def page(result: StudyResult) -> str:
    """The whole page, as text: styles, script and numbers inside, nothing fetched from anywhere."""
    from jaxvar import __version__

    shape = grid(result)
    curves = [curve(place) for place in shape.recorded("regret")]
    parts = {
        "regret": ("Regret", regret.section(shape, curves)),
        "final": ("Final regret", final.section(shape)),
        "exponents": ("Exponents", exponents.section(shape)),
        "coverage": ("Coverage", coverage.section(shape)),
        "layers": ("Layers", layers.section(shape)),
        "speed": ("Wall time", speed.section(shape)),
        "failures": ("Failed seeds", failures.section(shape)),
        "configuration": ("Configuration", configuration.section(shape, __version__)),
    }
    shown = {key: part for key, part in parts.items() if part[1]}
    links = [tag("li", tag("a", title, href=f"#{key}")) for key, (title, _) in shown.items()]
    contents = tag("nav", tag("ul", *links), aria_label="Contents")
    body = tag("main", facts.header(shape), contents, *(section for _, section in shown.values()))
    return document(f"jaxvar study: {result.name}", body, embed(regret.data(shape, curves)), _SCRIPTS)


def document(title: str, body: Html, data: Html, scripts: tuple[str, ...]) -> str:
    """A whole page of ``body``, with the styles and those ``scripts`` of ours that it needs; ``data`` is for them."""
    from jaxvar import __version__

    style = _asset("report.css")
    script = "".join(map(_asset, scripts))
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        version=text(__version__),
        title=text(title),
        style=style,
        body=body,
        data=data,
        script=script,
    )


def write_page(result: StudyResult, path: str | Path) -> Path:
    """Write the page, whole or not at all."""
    written = page(result).encode("utf-8")
    return write_whole(Path(path), lambda file: file.write(written))


def _asset(name: str) -> Html:
    return Html((_ASSETS / name).read_text("utf-8"))


def _hash(source: str) -> str:
    """What the browser compares a style or script with before it uses it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode('utf-8')).digest()).decode()}'"
