"""Compiled programs: a trace for all tests, and those of the engine, seen from outside: which, with what, how many."""

import contextlib
import functools
import os

import jax

import jaxvar as jv
from jaxvar import engine

trace = functools.partial(jax.jit, static_argnames=("num_rounds", "num_episodes"))(jv.trace)


def quick_compilation():
    """Return the part of XLA_FLAGS that only makes compilation quick, for a process that is told nothing else."""
    quick = ("--xla_backend_optimization_level", "--xla_cpu_use_fusion_emitters")
    return " ".join(flag for flag in os.environ.get("XLA_FLAGS", "").split() if flag.startswith(quick))


class Watch:
    """What happened to the engine's programs while it was watched."""

    def __init__(self):
        self.calls = []  # (program, the shapes and places of its arguments), in order
        self._programs = {}

    def seen(self, program):
        """A stand-in for ``program`` that notes its calls."""
        self._programs[id(program)] = program
        return _Noted(program, self.calls)

    def num_compiled(self):
        """How many programs have been compiled so far, of those that were used."""
        return sum(program._cache_size() for program in self._programs.values())

    def compiled(self, number):
        """The compiled program of a call."""
        program, args = self.calls[number]
        return program.lower(*args).compile()


class _Noted:
    def __init__(self, program, calls):
        self._program, self._calls = program, calls

    def __call__(self, *args):
        # Shapes only: the arrays themselves must not be kept alive.
        shapes = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=getattr(x, "sharding", None)), args
        )
        self._calls.append((self._program, shapes))
        return self._program(*args)

    def __getattr__(self, name):
        return getattr(self._program, name)


@contextlib.contextmanager
def watched():
    """Watch the engine's programs."""
    watch, original = Watch(), engine._compiled
    engine._compiled = lambda *args: watch.seen(original(*args))
    try:
        yield watch
    finally:
        engine._compiled = original
