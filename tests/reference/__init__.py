"""Slow NumPy twins of the algorithms: float64, explicit inverses, explicit sums, no random numbers."""
