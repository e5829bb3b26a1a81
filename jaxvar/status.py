"""Status codes: failures inside a compiled run, as bits of one int32 per seed."""

from __future__ import annotations

CAPACITY = 1  # a layer deeper than those stored was asked for, or more rounds than are remembered
NONFINITE = 2  # a reward, a mean or an estimate was NaN or infinite
PRECISION = 4  # the root of an inverse design matrix lost its digits
MODEL = 8  # a Markov decision process is none: rows that are no distributions, or a path with too much reward
EMPTY = 16  # no parameter of a net fits all observations
ABSENT = 32  # an arm was chosen that was not available in the round
UNSOLVED = 64  # an estimate's equation was not solved up to rounding

_MEANING = {
    CAPACITY: "a layer deeper than the stored capacity was needed, or more rounds than are remembered",
    NONFINITE: "a NaN or an infinite number appeared",
    PRECISION: "rounding has taken the digits of an inverse design matrix: play in float64, or with a larger ridge",
    MODEL: "the model's transition rows or first states are not distributions, or a path collects more reward than 1",
    EMPTY: "no parameter of the net fits all observations: the confidence set became empty, and the last one was kept",
    ABSENT: "an arm was chosen that was not available: let `select` choose where `side.available` is true",
    UNSOLVED: "the equation of an estimate was not solved up to rounding by the steps there are",
}


def describe(status: int) -> str:
    """Return the causes that ``status`` names, in words."""
    unknown = status & ~sum(_MEANING)
    causes = [text for bit, text in _MEANING.items() if status & bit]
    return "; ".join(causes + ([f"unknown status bits {unknown}"] if unknown else [])) or "no failure"
