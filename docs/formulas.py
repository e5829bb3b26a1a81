"""Formulas as MathML, which browsers show by themselves: nothing is fetched when a page is read."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx what is here."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mathml(node: nodes.Element, display: str) -> str:
    """The formula of a node; a command that is not understood is named in a warning."""
    tex = re.sub(r"\\arg\b", r"\\operatorname{arg}", node.astext())
    made = convert(tex, display=display)
    for unknown in re.findall(r"\\[A-Za-z]+", made):
        logger.warning("%s is not understood in the formula %s", unknown, tex, location=node)
    return made


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{mathml(node, "block")}</div>')
    raise nodes.SkipNode
