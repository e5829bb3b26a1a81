"""Some rounds of a chunk of seeds, from where they stand: the compiled program that a study is played with.

A program takes what the seeds hold after round ``first - 1`` and returns what they hold some rounds later. It draws
the seeds' problems anew each time, by the same code from the same keys, so that only what changes has to be kept. On
a CPU the number of rounds is an argument: one program plays any stretch, and a simulation in several stretches has
the bits of one. On accelerators a loop of unknown length would ask the host after every round, so there each length
is a program of its own.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxvar import blocks, runner
from jaxvar.batching import form_for, on_accelerator
from jaxvar.pytrees import float_dtype
from jaxvar.simulate import widest_block

_RUNS, _EVERYWHERE = PartitionSpec("runs"), PartitionSpec()
_COMPILED: dict[Any, Any] = {}  # programs of this process, by what they were compiled for
_SHAPES: dict[Any, Any] = {}  # of what they hold, likewise


class Held(NamedTuple):
    """What a chunk of seeds holds between two rounds; every leaf [chunk, ...], random keys as their words."""

    carry: Any
    store: dict[str, jax.Array]  # name -> [chunk, records + 1, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """One setting of algorithm and environment, for chunks of seeds."""

    algorithm: Any
    environment: Any
    words: np.ndarray[Any, Any]  # [2]   uint32, of the root key
    rounds: np.ndarray[Any, Any]  # [records]   the recorded ones
    record: tuple[Any, ...]
    block: tuple[int, ...]
    chunk: int
    mesh: Mesh

    def play(self, held: Held | None, seeds: np.ndarray[Any, Any], first: int, num_rounds: int) -> Held:
        """Play ``num_rounds`` rounds from ``first`` on.

        Args:
          held: after round ``first - 1``; not usable any more afterwards. Ignored where ``first`` is 1.
          seeds: [chunk] their numbers.
          first: the first round to play.
          num_rounds: how many.
        """
        if held is None:
            held = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), self.shapes)
        args = (*self._inputs(), seeds.astype(np.int32), np.int32(first), np.int32(num_rounds), held)
        return self._compiled(num_rounds)(*jax.tree.map(self._place, args, self._specs(args)))

    def compile(self, num_rounds: int) -> None:
        """Make sure that :meth:`play` will not have to compile."""
        self._compiled(num_rounds)

    def memory(self, num_rounds: int) -> int:
        """Bytes that one device needs while it plays its share of a chunk, by the compiled program."""
        size = self._compiled(num_rounds).memory_analysis()
        total = size.argument_size_in_bytes + size.output_size_in_bytes + size.temp_size_in_bytes
        return int(total - size.alias_size_in_bytes + size.generated_code_size_in_bytes)

    @property
    def shapes(self) -> Held:
        """Shapes and types of what is held."""
        key = self._key()
        if key not in _SHAPES:
            _SHAPES[key] = self._traced_shapes()
        return _SHAPES[key]

    def _traced_shapes(self) -> Held:
        def begin(words: Any, seed: Any) -> Held:
            _, carry = runner.begin(self.algorithm, self.environment, words, seed, self.record)
            read = functools.partial(runner.read, self.record)
            return _plain(Held(carry, runner.empty_store(read, carry, self.rounds)))

        one = jax.eval_shape(begin, self.words, np.int32(0))
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((self.chunk, *x.shape), x.dtype), one)

    def _key(self) -> Any:
        """What a program is compiled for: all but the values of numbers."""
        leaves, structure = jax.tree.flatten(self._inputs())
        kinds = (type(self.algorithm), type(self.environment))
        types = tuple((np.shape(x), np.dtype(x.dtype)) for x in leaves)
        return structure, types, kinds, self.block, self.chunk, self.mesh, float_dtype()

    def _inputs(self) -> tuple[Any, ...]:
        record = tuple(blocks.closed(r) for r in self.record)
        return blocks.closed(self.algorithm), blocks.closed(self.environment), self.words, self.rounds, record

    def _specs(self, args: tuple[Any, ...]) -> Any:
        """Seeds and what they hold are spread over the devices; all else is everywhere."""
        *inputs, seeds, first, num_rounds, held = args
        everywhere = jax.tree.map(lambda _: _EVERYWHERE, (*inputs, seeds, first, num_rounds))
        return (*everywhere[:-3], _RUNS, _EVERYWHERE, _EVERYWHERE, jax.tree.map(lambda _: _RUNS, held))

    def _place(self, x: Any, spec: PartitionSpec) -> Any:
        sharding = NamedSharding(self.mesh, spec)
        if isinstance(x, jax.Array) and x.sharding.is_equivalent_to(sharding, x.ndim):
            return x
        x = np.asarray(x)
        return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

    def _compiled(self, num_rounds: int) -> Any:
        length = None if _on_cpu(self.mesh) else num_rounds
        key = (*self._key(), length)
        if key not in _COMPILED:
            args = (*self._inputs(), np.zeros(self.chunk, np.int32), np.int32(1), np.int32(1), self.shapes)
            shapes = jax.tree.map(
                lambda x, spec: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(self.mesh, spec)),
                args,
                self._specs(args),
            )
            kinds = (type(self.algorithm), type(self.environment))
            lowered = _stretch.lower(*shapes, kinds=kinds, block=self.block, mesh=self.mesh, length=length)
            _COMPILED[key] = lowered.compile()
        return _COMPILED[key]


@functools.partial(jax.jit, static_argnames=("kinds", "block", "mesh", "length"), donate_argnames=("held",))
def _stretch(
    algorithm: Any,
    environment: Any,
    words: jax.Array,
    rounds: jax.Array,
    record: tuple[Any, ...],
    seeds: jax.Array,  # [chunk]
    first: jax.Array,
    num_rounds: jax.Array,
    held: Held,
    *,
    kinds: tuple[type, type],  # JAX may take two registered dataclasses for one where their fields agree
    block: tuple[int, ...],
    mesh: Mesh,
    length: int | None,  # ``num_rounds``, where it must be known
) -> Held:
    record = tuple(blocks.opened(r) for r in record)

    def play_share(
        algorithm: Any, environment: Any, words: Any, rounds: Any, seeds: Any, first: Any, num_rounds: Any, held: Held
    ) -> Held:
        def play_block(turn: tuple[jax.Array, Held]) -> Held:
            seeds, before = turn
            setting = jnp.zeros_like(seeds)
            runs = blocks.begin(algorithm, {}, environment, {}, words, jnp.stack([setting, setting, seeds]), record)
            fresh = Held(runs.carry, runner.empty_store(runs.read, runs.carry, rounds))
            now = _chosen(first == 1, fresh, before, len(block))
            slot = jnp.sum(rounds < first, dtype=jnp.int32)
            count = num_rounds if length is None else length
            carry, store = runner.play_on(runs.step, runs.read, *now, rounds, count, first, slot)
            return _plain(Held(runs.settle(carry), store), len(block))

        before = jax.tree.map(lambda x: blocks.runs_last(x, block), held)
        after = jax.lax.map(play_block, (seeds.reshape(-1, *block), before))
        return jax.tree.map(lambda x: blocks.runs_first(x, block), after)

    play_all = jax.shard_map(
        play_share,
        mesh=mesh,
        in_specs=(*(_EVERYWHERE,) * 4, _RUNS, _EVERYWHERE, _EVERYWHERE, _RUNS),
        out_specs=_RUNS,
        check_vma=False,
    )
    with form_for(length is not None):
        return play_all(algorithm, environment, words, rounds, seeds, first, num_rounds, held)


def _is_key(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jax.dtypes.prng_key))


def _plain(tree: Any, num_axes: int = 0) -> Any:
    """Random keys as their words, which come before the ``num_axes`` axes of a block."""

    def words(x: Any) -> Any:
        return jnp.moveaxis(jax.random.key_data(x), -1, x.ndim - num_axes) if _is_key(x) else x

    return jax.tree.map(words, tree)


def _chosen(is_first: jax.Array, fresh: Held, before: Held, num_axes: int) -> Held:
    """``fresh`` in the first round, ``before`` (in plain numbers) later."""

    def choose(new: Any, plain: Any, old: Any) -> Any:
        value = jax.lax.select(is_first, plain, old)
        if not _is_key(new):
            return value
        return jax.random.wrap_key_data(jnp.moveaxis(value, new.ndim - num_axes, -1), impl=jax.random.key_impl(new))

    return jax.tree.map(choose, fresh, _plain(fresh, num_axes), before)


def block_shape(chunk: int, mesh: Mesh) -> tuple[int, ...]:
    """Runs that are played side by side; see :mod:`jaxvar.simulate`."""
    share = chunk // mesh.size
    return (math.gcd(share, widest_block()), 1) if _on_cpu(mesh) else (share,)


def _on_cpu(mesh: Mesh) -> bool:
    return not on_accelerator(mesh.devices.flat[0].platform)
