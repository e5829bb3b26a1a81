"""The one rule by which every argmax of the twins picks among (nearly) equal values."""

import numpy as np


def argmax_with_ties(
    values: np.ndarray,
    allowed: np.ndarray,
    uniform: float,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> tuple[int, float]:
    """Pick an allowed index whose value is the best up to a relative tolerance.

        best       = max_{i allowed} values_i
        bar        = best - tie_tolerance * max(1, |best|)
        candidates = {i allowed : values_i >= bar}

    Args:
        values: [N] what is maximised.
        allowed: [N] bool, at least one true.
        uniform: u in (0, 1), the random draw.
        ties: "lowest" takes the lowest candidate index, "random" the one of rank floor(u n) among n.
        tie_tolerance: relative to max(1, |best|).

    Returns:
        The index, and the margin min |values_i - bar| over the allowed indices other than the maximiser
        (infinite if there is no other).
    """
    indices = [int(i) for i in np.flatnonzero(allowed)]
    if not indices:
        raise ValueError("no index is allowed")
    maximiser = indices[0]
    for i in indices:
        if values[i] > values[maximiser]:
            maximiser = i
    best = values[maximiser]
    bar = best - tie_tolerance * max(1.0, abs(best))
    candidates = [i for i in indices if values[i] >= bar]
    margin = min((abs(values[i] - bar) for i in indices if i != maximiser), default=np.inf)
    if ties == "lowest":
        return candidates[0], float(margin)
    if ties == "random":
        return by_rank(candidates, uniform), float(margin)
    raise ValueError(f"ties must be 'lowest' or 'random', got {ties!r}")


def by_rank(candidates: list[int], uniform: float) -> int:
    """A random choice among n candidates in ascending order: the one of rank floor(u n), in single precision."""
    rank = int(np.float32(uniform) * np.float32(len(candidates)))
    return candidates[min(rank, len(candidates) - 1)]
