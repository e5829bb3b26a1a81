"""One compiled program for many seeds and settings: the only place that maps, compiles, places and grows.

Every (algorithm setting, environment setting, seed) is one run. A :class:`Program` plays a chunk of runs for some
rounds, from where they stand; each device plays its share in blocks of runs at a time. A block is what is vectorised
over: small on a CPU, so that its state stays in the cache while all rounds are played, and the whole share on an
accelerator. The runs are independent, so nothing is communicated while they are played. ``simulate`` plays each chunk
in one stretch, a study in many, with checkpoints between them; the bits are the same.

A program draws the runs' problems anew at each call, by the same code from the same keys, so that only what changes
has to be kept. On a CPU the number of rounds is an argument, and one program plays any stretch. On accelerators a loop
of unknown length would ask the host after every round, so there each length is a program of its own.

On a CPU a block has a second axis, of length one. LLVM unrolls the innermost loop of a kernel before it looks for
vectors; with that axis innermost, the loop over the block's runs stays whole and becomes vector instructions.

A CPU plays large problems, of 64 dimensions or 256 fixed arms or more, one run after the other: a block is then (), and
what is a vector of one run fills the vector units. So it does where a device has one run only, whose block is that axis
of length one alone: its loops are short (0.09 instead of 0.117 us per round of OFUL, fixed arms, against ()).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from chex import ArrayTree
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxvar import duels, episodes, game, parameters, status
from jaxvar.algorithms.interface import Algorithm, EpisodicAlgorithm
from jaxvar.blocks import OverSeeds, spread
from jaxvar.environments.interface import Environment, EpisodicEnvironment
from jaxvar.lowering import form_for, on_accelerator
from jaxvar.parameters import Array, pytree, static
from jaxvar.records import Recorder

T = TypeVar("T")
C = TypeVar("C")  # what a loop carries
Loop = tuple[C, dict[str, jax.Array], jax.Array, jax.Array]  # carry, store, slot, round
Values = dict[int, jax.Array]  # number of a leaf -> its values

_RUNS, _EVERYWHERE = PartitionSpec("runs"), PartitionSpec()
_SPECS = (_EVERYWHERE, _RUNS, _EVERYWHERE, _EVERYWHERE, _RUNS)  # of a program's arguments
_CPU_VECTOR = 64  # bytes; a block has as many runs as numbers fit into a vector of the widest registers
_CPU_SEED_ROUNDS = 2**22  # per call: seconds, so that a progress bar moves and Ctrl-C is answered
_CPU_CHUNKS = (128, 8192)  # but at least and at most
_ACCELERATOR_CHUNK = 16384
_ALONE = (64, 256)  # dimensions, or arms that never change, of which a CPU plays one run at a time: what is a vector of
# one run then fills its lanes (measured in docs/speed.md)


class RunState(NamedTuple):
    """The state of a chunk of runs between two rounds; every leaf [chunk, ...], random keys as their words."""

    carry: game.Carry
    store: dict[str, jax.Array]  # name -> [chunk, records + 1, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """An algorithm and an environment, each in one setting or in several, for chunks of runs."""

    algorithm: Algorithm | EpisodicAlgorithm
    environment: Environment | EpisodicEnvironment
    key_data: Array  # [2]   uint32, of the root key
    rounds: Array  # [records]   the recorded ones
    recorders: tuple[Recorder, ...]
    chunk: int
    mesh: Mesh
    block: tuple[int, ...] = ()  # chosen if not given
    algorithm_values: dict[int, Array] = dataclasses.field(default_factory=dict)  # leaf's number -> [settings, ...]
    environment_values: dict[int, Array] = dataclasses.field(default_factory=dict)

    def play(self, ids: Array, num_rounds: int) -> dict[str, Array]:
        """Play from the first round to the last; returns the readings, ``status`` and ``status_round``, [chunk, ...].

        Args:
          ids: [3, chunk] algorithm setting, environment setting and seed of each run.
          num_rounds: how many rounds.
        """
        with _without_collector():
            out = self._program(num_rounds)(*self._args(ids, 1, num_rounds, None))
        many = self.mesh.is_multi_process
        found = multihost_utils.process_allgather(out, tiled=True) if many else jax.device_get(out)
        ending = ("status", "status_round")
        return {name: x if name in ending else x[:, : len(self.rounds)] for name, x in found.items()}

    def advance(self, state: RunState | None, ids: Array, first: int, num_rounds: int) -> RunState:
        """Play ``num_rounds`` rounds from ``first`` on; returns what the runs hold then.

        Args:
          state: after round ``first - 1``; not usable any more afterwards. None where ``first`` is 1.
          ids: [3, chunk] algorithm setting, environment setting and seed of each run.
          first: the first round to play.
          num_rounds: how many.
        """
        if state is None:
            state = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), self.shapes)
        with _without_collector():
            return self._program(num_rounds)(*self._args(ids, first, num_rounds, state))

    def traced(self, num_rounds: int) -> Any:
        """Return what :meth:`play` would compile for this many rounds, traced: a loop of known length."""
        return self._program(num_rounds, known=True).trace(*self._abstract(None))

    def compile(self, num_rounds: int) -> Any:
        """Compile what :meth:`advance` will run; it then does not have to."""
        with _without_collector():
            return self._program(num_rounds).lower(*self._abstract(self.shapes)).compile()

    def memory(self, num_rounds: int, is_whole: bool = False) -> int:
        """Return the bytes that one device needs while it plays its share of a chunk, by the compiled program.

        That is the program of :meth:`advance`; with ``is_whole`` that of :meth:`play`.
        """
        if is_whole:
            return compiled_bytes(self._program(num_rounds).lower(*self._abstract(None)).compile())
        return compiled_bytes(self.compile(num_rounds))

    @functools.cached_property
    def shapes(self) -> RunState:
        """Shapes and types of what is held."""

        def begin(keys: jax.Array) -> RunState:
            rules = game_of(self.environment)
            _, carry = rules.begin(self.algorithm, self.environment, keys, self.recorders)
            store = empty_store(functools.partial(game.read, self.recorders), carry, self.rounds)
            return _plain(RunState(carry, store))

        one = jax.eval_shape(begin, game.seed_keys(self.key_data, np.int32(0)))
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((self.chunk, *x.shape), x.dtype), one)

    def grown(self, capacity: int | None = None) -> Program | None:
        """Return the program with more capacity (at least ``capacity``); None where there is none."""
        algorithm = self.algorithm
        while can_grow(algorithm):
            algorithm = grown(algorithm)
            if capacity is None or getattr(algorithm, "capacity", 0) >= capacity:
                break
        return None if algorithm is self.algorithm else dataclasses.replace(self, algorithm=algorithm)

    def _program(self, num_rounds: int, known: bool = False) -> Any:
        kinds = (type(self.algorithm), type(self.environment))
        block = self.block or block_shape(self.chunk, self.mesh, self.algorithm, self.environment)
        accelerator = is_accelerator(self.mesh)
        return _compiled(kinds, block, self.mesh, num_rounds if known or accelerator else None, accelerator)

    def _args(self, ids: Array, first: int, num_rounds: int, state: RunState | None) -> tuple[ArrayTree, ...]:
        """Return the program's arguments: arrays of NumPy, which the call places, but for the state.

        NumPy's arrays of several processes are placed here: each process has its part.
        """
        recorders = tuple(as_pytree(r) for r in self.recorders)
        both = (as_pytree(self.algorithm), self.algorithm_values, as_pytree(self.environment), self.environment_values)
        runs = (ids[:2].T, np.moveaxis(game.seed_keys(self.key_data, ids[2]), -1, 0))
        args = ((*both, self.rounds, recorders), runs, np.int32(first), np.int32(num_rounds), state)
        num_given = 0 if jax.process_count() > 1 else 4
        given = jax.tree.map(lambda x: np.asarray(x) if isinstance(x, jax.Array) else x, args[:num_given])
        placed = (jax.tree.map(self._placed(s), x) for s, x in zip(_SPECS[num_given:], args[num_given:], strict=True))
        return *given, *placed

    def _abstract(self, state: RunState | None) -> tuple[ArrayTree, ...]:
        """Return the shapes and types of the arguments, of which ``state`` is those of the state."""
        *given, _ = self._args(np.zeros((3, self.chunk), np.int32), 1, 1, None)

        def shape(x: Any, spec: PartitionSpec | None = None) -> jax.ShapeDtypeStruct:
            sharding = getattr(x, "sharding", None) if spec is None else NamedSharding(self.mesh, spec)
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

        return *jax.tree.map(shape, given), jax.tree.map(lambda x: shape(x, _RUNS), state)

    def _placed(self, spec: PartitionSpec) -> Callable[[jax.Array | Array], jax.Array]:
        """Return what places an array on all devices."""
        sharding = NamedSharding(self.mesh, spec)

        def place(x: jax.Array | Array) -> jax.Array:
            if isinstance(x, jax.Array) and x.sharding.is_equivalent_to(sharding, x.ndim):
                return x
            x = np.asarray(x)
            return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

        return place


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Hold Python's garbage collector while a program may be traced.

    It would look at all that JAX has made again and again: a tenth of the first call of UCRL-AVE.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compiled_bytes(compiled: Any) -> int:
    """Return the bytes that one device needs while it runs a compiled program."""
    size = compiled.memory_analysis()
    total = size.argument_size_in_bytes + size.output_size_in_bytes + size.temp_size_in_bytes
    return int(total - size.alias_size_in_bytes + size.generated_code_size_in_bytes)


@functools.cache
def _compiled(
    kinds: tuple[type, type], block: tuple[int, ...], mesh: Mesh, length: int | None, accelerator: bool
) -> Any:
    """Return the jitted function that plays all runs of a chunk, each device its share.

    ``kinds`` are the classes of algorithm and environment: JAX may take two registered dataclasses for one where their
    fields agree. ``length`` is the number of rounds, where it must be known.
    """
    share = functools.partial(_play_share, block=block, length=length, accelerator=accelerator)
    everywhere = jax.shard_map(share, mesh=mesh, in_specs=_SPECS, out_specs=_RUNS, check_vma=False)
    return jax.jit(everywhere, in_shardings=tuple(NamedSharding(mesh, s) for s in _SPECS), donate_argnums=4)


def _play_share(
    inputs: tuple[ArrayTree, ...],
    runs: tuple[jax.Array, jax.Array],  # [runs, 2] settings of algorithm and environment, [runs, 7, 2] keys
    first: jax.Array,
    num_rounds: jax.Array,
    state: RunState | None,
    *,
    block: tuple[int, ...],
    length: int | None,
    accelerator: bool,
) -> RunState | dict[str, jax.Array]:
    """Play some rounds; without a ``state`` from the first to the last, and what is not read is not computed."""
    algorithm, algorithm_values, environment, environment_values, rounds, recorders = inputs
    recorders = tuple(unwrap(r) for r in recorders)
    rules = game_of(unwrap(environment))

    def play_block(turn: tuple[tuple[jax.Array, jax.Array], RunState | None]) -> ArrayTree:
        (ids, keys), before = turn  # [2, *block], [7, 2, *block]; leaves [..., *block]
        mine, theirs = (
            {i: jnp.moveaxis(v[ids[j]], range(len(block)), range(-len(block), 0)) for i, v in values.items()}
            for j, values in enumerate((algorithm_values, environment_values))
        )
        own = (mine, theirs, keys)

        def begin(mine: Values, theirs: Values, keys: jax.Array) -> ArrayTree:
            return rules.begin(_with(algorithm, mine), _with(environment, theirs), keys, recorders)

        # What is the same for all runs of the block, such as a given model, is held once.
        (fixed, carry), (fixed_differs, carry_differs) = OverSeeds(begin, block, own, _all(own, True))(*own)
        if accelerator:  # it would have kernels of their own for a few numbers that are the same for all runs
            carry, carry_differs = spread(carry, carry_differs, block), _all(carry, True)

        def one_step(mine: Values, theirs: Values, fixed: ArrayTree, carry: ArrayTree, round: jax.Array) -> ArrayTree:
            return rules.step(_with(algorithm, mine), _with(environment, theirs), recorders, fixed, carry, round)[0]

        differs = (*_all((mine, theirs), True), fixed_differs, carry_differs, False)
        play_one = OverSeeds(one_step, block, (mine, theirs, fixed, carry, jnp.int32(1)), differs)
        # Numbers of rounds and their logarithms, the same for all, are computed once (SAVE: 0.9 of the time).
        varies = play_one.carried(3)
        carry = spread(carry, carry_differs, block, varies)
        read_one = OverSeeds(functools.partial(game.read, recorders), block, (carry,), (varies,))

        def step(carry: ArrayTree, round: jax.Array) -> ArrayTree:
            return spread(*play_one(mine, theirs, fixed, carry, round), block, varies)

        def read(carry: ArrayTree) -> dict[str, jax.Array]:
            return spread(*read_one(carry), block)

        store = empty_store(read, carry, rounds)
        if before is not None:
            fresh = RunState(spread(carry, varies, block), store)
            carry, store = _chosen(first == 1, fresh, before, len(block))
            carry = jax.tree.map(lambda x, differs: x if differs else x[(..., *[0] * len(block))], carry, varies)
        count = num_rounds if length is None else length
        carry, store = play_rounds(step, read, carry, store, rounds, count, first)
        carry = spread(carry, varies, block)
        ending = (carry, first + count - 1, first + count > rounds[-1])
        carry = spread(*OverSeeds(game.check_digits, block, ending, (_all(carry, True), False, False))(*ending), block)
        if before is not None:
            return _plain(RunState(carry, store), len(block))
        return {**store, "status": carry.status, "status_round": carry.status_round}

    with form_for(accelerator, alone=not accelerator and len(block) < 2):
        after = jax.lax.map(play_block, jax.tree.map(lambda x: _runs_last(x, block), (runs, state)))
    return jax.tree.map(lambda x: _runs_first(x, block), after)


def play_rounds(
    step: Callable[[C, jax.Array], C],
    reading: Callable[[C], dict[str, jax.Array]],
    carry: C,
    store: dict[str, jax.Array],
    rounds: jax.Array | Array,
    num_rounds: jax.Array | int,
    first: jax.Array | int = 1,
) -> tuple[C, dict[str, jax.Array]]:
    """Play ``num_rounds`` rounds from ``first`` on; returns what is carried on, and the store.

    The store is part of the loop: each round writes the slot of the next recorded round, so that a single loop serves
    any spacing. Where ``num_rounds`` is an ``int`` the loop has a known number of turns, and an accelerator never asks
    the host whether to go on; else the same program plays any number.

    Args:
      step: ``step(carry, round) -> carry``.
      reading: ``reading(carry)`` is what is stored.
      carry: what is carried into round ``first``.
      store: from :func:`empty_store`, filled as far as played.
      rounds: [records] those to store.
      num_rounds: how many rounds to play.
      first: the first of them.
    """
    due = jnp.append(jnp.asarray(rounds, jnp.int32), 0)
    slot = jnp.sum(jnp.asarray(rounds, jnp.int32) < first, dtype=jnp.int32)

    def body(loop: Loop[C]) -> Loop[C]:
        carry, store, slot, round = loop
        carry = step(carry, round)
        store = jax.tree.map(lambda s, x: jax.lax.dynamic_update_index_in_dim(s, x, slot, 0), store, reading(carry))
        return carry, store, slot + (round == due[slot]).astype(jnp.int32), round + 1

    start = (carry, store, slot, jnp.int32(first))
    if isinstance(num_rounds, int):
        (carry, store, _, _), _ = jax.lax.scan(lambda loop, _: (body(loop), None), start, None, length=num_rounds)
    else:
        end = jnp.int32(first) + num_rounds
        carry, store, _, _ = jax.lax.while_loop(lambda loop: loop[3] < end, body, start)
    return carry, store


def empty_store(
    reading: Callable[[C], dict[str, jax.Array]], carry: C, rounds: jax.Array | Array
) -> dict[str, jax.Array]:
    """Return room for the readings at ``rounds``, and one slot more: rounds after the last recorded one write there."""
    num = rounds.shape[0] + 1
    return jax.tree.map(lambda x: jnp.zeros((num, *x.shape), x.dtype), jax.eval_shape(reading, carry))


def game_of(environment: object) -> ModuleType:
    """Return the module whose game the environment is part of."""
    return {"bandit": game, "dueling": duels, "episodic": episodes}[game.kind_of(environment)]


def is_accelerator(mesh: Mesh) -> bool:
    """Return whether the mesh's devices are accelerators (else they are CPUs)."""
    return on_accelerator(mesh.devices.flat[0].platform)


def can_grow(algorithm: Any) -> bool:
    """Return whether there is one with more capacity, or with more memory where there are no layers."""
    size = "capacity" if hasattr(algorithm, "capacity") else "memory"
    return hasattr(algorithm, "grow") and getattr(algorithm.grow(), size) > getattr(algorithm, size)


def grown(algorithm: T) -> T:
    """Return the same algorithm with more capacity."""
    larger: T = algorithm.grow()  # type: ignore[attr-defined]
    return larger


def needs_capacity(bits: jax.Array | Array, algorithm: object) -> bool:
    """Return whether a run asked for more capacity, and there is an algorithm that has it."""
    return bool(np.any(np.asarray(bits) & status.CAPACITY)) and can_grow(algorithm)


def chosen_chunk(environment: Environment | EpisodicEnvironment, total: int, num_rounds: int, mesh: Mesh) -> int:
    """Return how many of ``total`` runs to play per call: whole blocks on every device, for some seconds."""
    if is_accelerator(mesh):
        most, unit = _ACCELERATOR_CHUNK, mesh.size
    else:
        work = num_rounds * (getattr(environment, "horizon", 1) if game.is_episodic(environment) else 1)
        most = min(max(_CPU_SEED_ROUNDS // work, _CPU_CHUNKS[0]), _CPU_CHUNKS[1])
        largest = widest_block()
        while largest > 1 and mesh.size * largest >= 2 * total:
            largest //= 2  # few runs: do not fill their blocks up with runs that nobody asked for
        unit = mesh.size * largest
    units = -(-total // unit)
    calls = -(-units // max(most // unit, 1))
    return -(-units // calls) * unit  # calls of one size: the last is filled up with runs that are dropped


def block_shape(chunk: int, mesh: Mesh, algorithm: object = None, environment: object = None) -> tuple[int, ...]:
    """Return the shape of the runs that are played side by side; () or (1,) where a CPU plays one after the other."""
    if chunk % mesh.size:
        raise ValueError(f"chunk must be a multiple of the {mesh.size} devices, got {chunk}")
    share = chunk // mesh.size
    if is_accelerator(mesh):
        return (share,)
    sizes = (
        getattr(algorithm, "dim", 0),
        getattr(environment, "fixed_arms", False) and getattr(environment, "num_arms", 0),
    )
    if any(isinstance(size, int) and size >= least for size, least in zip(sizes, _ALONE, strict=True)):
        return ()
    return (1,) if share == 1 else (math.gcd(share, widest_block()), 1)


def widest_block() -> int:
    """Return how many runs side by side fill a CPU's vector."""
    return _CPU_VECTOR // parameters.float_dtype().itemsize


@dataclasses.dataclass(frozen=True, eq=False)
class _Unhashable:
    """An object that cannot be hashed, and is the same as itself alone."""

    value: object


@pytree
class _Wrapped:
    """An object that is not a pytree, as part of the program."""

    value: object = static()


def as_pytree(target: Any) -> Any:
    """Return ``target`` as a pytree: one that is none already is compiled into the program, numbers and all."""
    if is_pytree(target):
        return target
    try:
        hash(target)
    except TypeError:  # as of a plain dataclass, or of one that holds arrays
        return _Wrapped(value=_Unhashable(target))
    return _Wrapped(value=target)


def is_pytree(target: object) -> bool:
    """Return whether JAX sees into ``target``."""
    leaves = jax.tree.leaves(target)
    return not (len(leaves) == 1 and leaves[0] is target)


def unwrap(target: Any) -> Any:
    """Return what was given to :func:`as_pytree`."""
    value = target.value if isinstance(target, _Wrapped) else target
    return value.value if isinstance(value, _Unhashable) else value


def _with(base: ArrayTree, values: Values) -> Any:
    """Return ``base`` with some of its leaves replaced."""
    leaves, structure = jax.tree.flatten(base)
    return unwrap(jax.tree.unflatten(structure, [values.get(i, x) for i, x in enumerate(leaves)]))


def _all(tree: ArrayTree, flag: bool) -> Any:
    return jax.tree.map(lambda _: flag, tree)


def _runs_first(x: jax.Array, block: tuple[int, ...]) -> jax.Array:
    """Return ``x [blocks, ..., *block]`` as ``[runs, ...]``."""
    x = jnp.moveaxis(x, range(-len(block), 0), range(1, 1 + len(block)))
    return x.reshape(x.shape[0] * math.prod(block), *x.shape[1 + len(block) :])


def _runs_last(x: jax.Array, block: tuple[int, ...]) -> jax.Array:
    """Return ``x [runs, ...]`` as ``[blocks, ..., *block]``."""
    x = x.reshape(-1, *block, *x.shape[1:])
    return jnp.moveaxis(x, range(1, 1 + len(block)), range(-len(block), 0))


def _is_key(x: jax.Array) -> bool:
    return bool(jnp.issubdtype(x.dtype, jax.dtypes.prng_key))


def _plain(tree: T, num_axes: int = 0) -> T:
    """Return random keys as their words, which come before the ``num_axes`` axes of a block."""

    def words(x: jax.Array) -> jax.Array:
        return jnp.moveaxis(jax.random.key_data(x), -1, x.ndim - num_axes) if _is_key(x) else x

    plain: T = jax.tree.map(words, tree)
    return plain


def _chosen(is_first: jax.Array, fresh: RunState, before: RunState, num_axes: int) -> RunState:
    """Return ``fresh`` in the first round, ``before`` (in plain numbers) later."""

    def choose(new: jax.Array, plain: jax.Array, old: jax.Array) -> jax.Array:
        value = jax.lax.select(is_first, plain, old)
        if not _is_key(new):
            return value
        return jax.random.wrap_key_data(jnp.moveaxis(value, new.ndim - num_axes, -1), impl=jax.random.key_impl(new))

    return jax.tree.map(choose, fresh, _plain(fresh, num_axes), before)
