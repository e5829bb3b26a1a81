"""The paper's statements, confronted with data: how often each fails, and by how much it holds."""

from jaxvar.audit.bandit import audit_save
from jaxvar.audit.martingales import STREAMS, Draw, Past, Stream, audit_stream
from jaxvar.audit.mixture import audit_ucrl_ave
from jaxvar.audit.one_layer import audit_layer
from jaxvar.audit.outcome import Outcome, counterexamples, table
from jaxvar.audit.statement import Example, Finding, Statement

__all__ = [
    "STREAMS",
    "Draw",
    "Example",
    "Finding",
    "Outcome",
    "Past",
    "Statement",
    "Stream",
    "audit_layer",
    "audit_save",
    "audit_stream",
    "audit_ucrl_ave",
    "counterexamples",
    "table",
]
