"""How many rounds to play in one call: long enough to cost nothing, short enough to be interrupted.

It changes nothing but the time at which things happen: the numbers are the same for all stretches.
"""

from __future__ import annotations

_FIRST = 2**18  # seed-rounds of the first call, whose speed is not known yet
_FASTER = 8  # at most this many times the last stretch
_ACCELERATOR = 4096  # rounds per call


class Pace:
    """Stretches of a wanted duration, by the speed seen so far."""

    def __init__(self, chunk: int, seconds: float) -> None:
        self._seconds = seconds
        self._rounds = max(_FIRST // chunk, 1)

    def next(self, left: int) -> int:
        """Rounds of the next stretch, where ``left`` are left."""
        return min(self._rounds, left)

    def took(self, num_rounds: int, seconds: float) -> None:
        """Learn from a stretch."""
        wanted = num_rounds * self._seconds / max(seconds, 1e-6)
        self._rounds = int(min(max(wanted, 1), num_rounds * _FASTER, 2**31 - 1))


class EvenPace(Pace):
    """Stretches of one length, and one shorter one: on an accelerator every length is compiled by itself."""

    def __init__(self, num_rounds: int) -> None:
        self._rounds = -(-num_rounds // -(-num_rounds // _ACCELERATOR))

    def took(self, num_rounds: int, seconds: float) -> None:
        """Nothing is learned."""
