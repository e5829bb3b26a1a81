"""Formulas as MathML, which browsers show by themselves: nothing is fetched when a page is read."""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

# What docutils does not know, or only where it is not needed: parentheses grow, and sums shrink, without being told.
REPLACED = {
    r"\\mathrel\{(.)\}": r"\1",
    r"\\(big|Big|bigg|Bigg)[lr]?(?![A-Za-z])": "",
    r"\\textstyle\b": "",
    r"\\dots\b": r"\\ldots",
}
logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx what is here."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mathml(node: nodes.Element, *, as_block: bool) -> str:
    """The formula of a node; one that is not understood stays as it is, with a warning."""
    tex = node.astext()
    for old, new in REPLACED.items():
        tex = re.sub(old, new, tex)
    try:
        return tex2mathml(tex, as_block=as_block)
    except MathError as error:
        logger.warning("%s in the formula %s", error, tex, location=node)
        return html.escape(tex)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode
