"""The compiled programs of a study: which chunk of seeds fits into the memory, and all programs side by side."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

import jax
import numpy as np
from jax.sharding import Mesh
from tqdm import tqdm

from jaxvar import engine
from jaxvar.engine import Program, is_accelerator
from jaxvar.memory import SHARE, free_memory, human_bytes, num_bytes
from jaxvar.study.cells import Cell
from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError, in_precision
from jaxvar.study.shards import Processes, mesh_for, stretch_for

_COPIES = 3  # of what a chunk holds, on the host while it is written
_COMPILERS = 8  # programs compiled at a time, at most: each takes some hundred megabytes meanwhile


@dataclasses.dataclass
class Programs:
    """The programs of a study's cells on some devices, each compiled when its memory is first asked for."""

    study: Study
    devices: list[jax.Device]
    processes: Processes
    checkpoint_seconds: float
    shows_progress: bool
    stop_asked: Callable[[], bool]  # whether to end as soon as nothing is being compiled
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self._key_data = np.array([self.study.key >> 32, self.study.key % 2**32], np.uint32)
        self._programs: dict[tuple[str, int], Program] = {}  # by cell and chunk
        self._fitting_chunks: dict[tuple[str, int], int] = {}  # likewise

    def compile(self, wanted: list[tuple[Cell, int]]) -> None:
        """Compile the programs of cells with their chunks side by side, each program once."""
        first_of = dict[object, tuple[Cell, int]]()
        for cell, chunk in wanted:
            parts = (cell.algorithm, cell.environment, *cell.recorders)
            leaves, structure = jax.tree.flatten([engine.as_pytree(part) for part in parts])
            kind = (structure, tuple((np.shape(x), jax.dtypes.result_type(x)) for x in leaves), chunk)
            if (cell.hash, chunk) not in self._fitting_chunks:
                first_of.setdefault(kind, (cell, chunk))

        if self.processes.are_many or len(first_of) < 2:  # many processes agree on every number, one after the other
            return

        def one(cell: Cell, chunk: int) -> None:
            with in_precision(self.study.precision):  # it is of the thread
                self.fitting_chunk(cell, chunk)

        with ThreadPoolExecutor(min(os.cpu_count() or 1, _COMPILERS)) as threads:
            started = [threads.submit(one, cell, chunk) for cell, chunk in first_of.values()]
            bar = {"unit": "program", "total": len(started), "leave": False, "disable": not self.shows_progress}
            try:
                for done in tqdm(as_completed(started), desc="compiling", **bar):
                    done.result()
            finally:
                threads.shutdown(cancel_futures=True)

    def first_chunk(self, cell: Cell) -> int:
        """Return the seeds per shard to begin with: those given, or as many as play for some seconds."""
        mesh = Mesh(np.array(self.devices), ("runs",))
        return self.study.chunk or engine.chosen_chunk(cell.environment, self.study.seeds, self.study.length, mesh)

    def chosen_chunk(self, cell: Cell) -> int:
        """Return the seeds per shard of a cell that has none yet: fewer, where memory is scarce."""
        given, chunk = self.study.chunk, self.first_chunk(cell)
        while (smaller := self.fitting_chunk(cell, chunk)) < chunk:
            if given is not None or smaller == 0:
                hint = f"a chunk of {smaller} would fit" if smaller else "not even a few seeds would fit"
                raise RunError(f"cell {cell.title}: {self.needs(cell, chunk)}; {hint}")
            self.say(f"cell {cell.title}: {self.needs(cell, chunk)}; {smaller} seeds at a time are played instead")
            chunk = smaller
        return chunk

    def fitting_chunk(self, cell: Cell, chunk: int) -> int:
        """Return the chunk if it fits into the memory, else a smaller one that may; 0 if none does."""
        if self.processes.agree_on_number(self.stop_asked()):  # a program was compiled since the last time
            raise KeyboardInterrupt
        key = (cell.hash, chunk)
        if key not in self._fitting_chunks:
            needed, free = self._memory(cell, chunk)
            fitting = chunk
            if free is not None and needed > SHARE * free:
                widest = engine.block_shape(1 << 20, mesh_for(1 << 20, self.devices[:1]))[0]
                unit = len(self.devices) * min(widest, chunk) if chunk > len(self.devices) else 1
                fitting = min(int(chunk * SHARE * free / needed), chunk - 1) // unit * unit
            self._fitting_chunks[key] = self.processes.agree_on_number(fitting)
        return self._fitting_chunks[key]

    def _memory(self, cell: Cell, chunk: int) -> tuple[int, int | None]:
        """Return the bytes that a chunk needs, and the bytes that are free."""
        program = self.program(cell, chunk)
        stretch = stretch_for(program, self.study.length, self.checkpoint_seconds)
        needed = program.memory(stretch.next(self.study.length))  # on one device
        if not is_accelerator(program.mesh):  # all devices share one memory
            needed = needed * program.mesh.size + _COPIES * num_bytes(program.shapes)
        return needed, free_memory(program.mesh)

    def needs(self, cell: Cell, chunk: int) -> str:
        """Return a sentence with the memory that a chunk needs and that is free."""
        needed, free = self._memory(cell, chunk)
        sizes = human_bytes(needed), human_bytes(free or 0)
        return f"{chunk} seeds at a time need {sizes[0]} of memory, and {sizes[1]} are free"

    def program(self, cell: Cell, chunk: int) -> Program:
        """Return the program of a cell, for chunks of this many seeds."""
        key = (cell.hash, chunk)
        if key not in self._programs:
            self._programs[key] = Program(
                algorithm=cell.algorithm,
                environment=cell.environment,
                key_data=self._key_data,
                rounds=self.study.recorded,
                recorders=cell.recorders,
                chunk=chunk,
                mesh=mesh_for(chunk, self.devices),
            )
        return self._programs[key]
