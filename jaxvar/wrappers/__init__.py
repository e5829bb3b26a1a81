"""Protocol wrappers: any bandit algorithm or environment with one more assumption broken.

:func:`delayed` and :func:`batched` change when an algorithm learns, :func:`drifting` and :func:`corrupted` change what
an environment pays. Each takes an object with the methods of :mod:`jaxvar.algorithms.interface` or
:mod:`jaxvar.environments.interface`, ours or a user's, and returns one with the same methods. Wrappers may be nested,
and the numbers of what is wrapped can be swept. Regret stays exact pseudo-regret, from the true means of each round.
"""
