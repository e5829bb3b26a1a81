"""What a growth law is fitted to: means over seeds and resamples, checked to have logarithms and to vary."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.growth_law import Law
from jaxvar.analysis.resampling import resampled_cells
from jaxvar.analysis.sample import cell_name, sample, swept_value
from jaxvar.study.result import CellResult

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Observations:
    """Points of all cells side by side; first row: all seeds, further rows: resamples."""

    names: tuple[str, ...]  # [points]
    values: Array  # [1 + resamples, points]
    factors: Mapping[str, Array]  # name -> [1 + resamples, points]
    resampled: str
    seeds: tuple[int, ...]
    left_out: int


def observe(
    law: Law, cells: Sequence[CellResult], record: str, burn_in: int | None, resamples: int, seed: int
) -> Observations:
    """Means over seeds and resamples of the record and of the factors, for all cells and rounds that are used."""
    random = [name for name in law.factors if name != "round" and any(name in c.records for c in cells)]
    stacks, given, seeds, names, left_out = list[Array](), list[dict[str, Array]](), list[Array](), list[str](), 0
    for cell in cells:
        samples = [sample(cell, name) for name in (record, *random)]
        used = cell.rounds >= (cell.rounds[-1] if burn_in is None else parameters.check_count("burn_in", burn_in))
        if not np.any(used):
            raise ValueError(f"{cell_name(cell)}: burn_in must be at most {cell.rounds[-1]}, got {burn_in}")
        if any(s.values.ndim != 2 for s in samples):
            raise ValueError(f"{cell_name(cell)}: {record!r} and all factors need one number per seed and round")
        stacks.append(np.stack([s.values[:, used] for s in samples], axis=1))  # [seeds, 1 + random, points]
        rounds = cell.rounds[used].astype(np.float64)
        given.append({name: _given(cell, name, rounds) for name in law.factors if name not in random})
        seeds.append(samples[0].seeds)
        names += [f"{cell_name(cell)}, round {k:,.0f}" for k in rounds]
        left_out += samples[0].left_out
    drawn, how = resampled_cells(stacks, seeds, resamples, seed)
    rows = [np.concatenate([stack.mean(0)[None], means]) for stack, means in zip(stacks, drawn, strict=True)]
    every = np.concatenate(rows, axis=2)  # [1 + resamples, 1 + random, points]
    factors = {name: every[:, 1 + i] for i, name in enumerate(random)}
    for name in law.factors:
        if name not in random:
            fixed = np.concatenate([one[name] for one in given])
            factors[name] = np.broadcast_to(fixed, (len(every), len(fixed)))
    return Observations(tuple(names), every[:, 0], factors, how, tuple(map(len, seeds)), left_out)


def _given(cell: CellResult, name: str, rounds: Array) -> Array:
    """A factor that is no record, at each of the ``rounds``."""
    if name == "round":
        return rounds
    value = swept_value(cell, name)
    if value is None:
        raise ValueError(
            f"law: the factor {name!r} must be 'round', a record ({', '.join(cell.records)}) or a swept parameter of "
            f"every cell, and {cell_name(cell)} has none of that name"
        )
    return np.full(len(rounds), parameters.check_number(f"{cell_name(cell)}: {name}", value), np.float64)


def check_points(law: Law, seen: Observations, record: str) -> None:
    """Refuse points without logarithms, factors that do not vary, and too few points."""
    for name, numbers in {record: seen.values, **seen.factors}.items():
        if name == record:
            wrong = np.any(numbers <= 0, axis=0)
        else:  # a factor may be zero, always: its terms then vanish
            wrong = np.any(numbers < 0, axis=0) | (np.any(numbers == 0, axis=0) & np.any(numbers > 0, axis=0))
        if np.any(wrong):
            at = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"{seen.names[at]}: the mean of {name!r} must be positive in all resamples to have a logarithm, got "
                f"{numbers[0, at]:g} over all seeds, and {numbers[:, at].min():g} in one resample; "
                f"{int(np.sum(wrong)) - 1} more such points"
            )
    for i, term in enumerate(law.terms):
        for name, exponent in term.exponents.items():
            if exponent is None and _does_not_vary(seen.factors[name][0]):
                raise ValueError(
                    f"law: {name!r} is {seen.factors[name][0, 0]:g} in all points, so that its exponent in term "
                    f"{i + 1} cannot be fitted; give the exponent, leave the factor out, or add cells where it differs"
                )
            if exponent is not None and exponent <= 0 and np.any(seen.factors[name][0] == 0):
                raise ValueError(f"law: {name!r} is 0 in some points, so that its exponent must be positive")
    some = np.any(alive(law, seen), axis=0)
    if not np.all(some):
        at = int(np.flatnonzero(~some)[0])
        raise ValueError(f"{seen.names[at]}: every term of the law is 0, but the mean of {record!r} is not")
    if len(seen.names) < len(law.free):
        raise ValueError(f"law: {len(law.free)} parameters need at least as many points, got {len(seen.names)}")


def _does_not_vary(values: Array) -> bool:
    positive = np.log(values[values > 0])
    return len(positive) == 0 or bool(np.ptp(positive) < 1e-9)


def alive(law: Law, seen: Observations) -> Array:
    """Whether a term is above zero at a point, ``[terms, points]``."""
    points = len(seen.names)
    return np.stack(
        [
            np.all([seen.factors[name][0] > 0 for name in term.exponents] or [np.ones(points, bool)], axis=0)
            for term in law.terms
        ]
    )
