"""Decision sets of different sizes: what a twin is given where arms come and go. It never sees an absent arm."""

import numpy as np


class Ragged:
    """An array [K, N, ...] of which round k keeps only some of the N arms; indexed as the whole array would be."""

    def __init__(self, whole: np.ndarray, available: np.ndarray) -> None:
        self.rounds = [rows[there] for rows, there in zip(whole, available, strict=True)]
        self.shape, self.ndim = whole.shape, whole.ndim

    def __getitem__(self, where: int | tuple[int, int]) -> np.ndarray:
        """The round `where`, or the arm `where[1]` of round `where[0]`, counted among those that are there."""
        return self.rounds[where[0]][where[1]] if isinstance(where, tuple) else self.rounds[where]


def among_all(action: np.ndarray, available: np.ndarray) -> np.ndarray:
    """The actions [K], counted among the arms that are there in `available` [K, N], as indices of all N arms."""
    return np.array([np.flatnonzero(there)[a] for a, there in zip(action, available, strict=True)])
