"""The game of one seed: an algorithm meets a bandit, round by round.

Keys: the root key and the seed's number give the seed's key; it has a branch for each stream (instance, contexts,
noise, algorithm), and each branch one key per round (or episode), all by ``fold_in``. So every algorithm meets the
same problem and the same noise in round k of seed s, whatever else runs, and a run can start at any round.

:mod:`jaxvar.episodes` has the same functions for Markov decision processes.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from chex import ArrayTree

from jaxvar import lowering, parameters, random, records, ridge, status
from jaxvar.algorithms.interface import Algorithm, EpisodicAlgorithm, Side
from jaxvar.environments.interface import Environment, EpisodicEnvironment
from jaxvar.lowering import take

DEFAULT_RECORDERS = (records.regret(), records.variance())
CHECK_EVERY = 1000  # rounds: whether inverses have their digits
STREAMS = ("instance", "contexts", "noise", "algorithm")
# The methods of algorithm and environment, with the arguments that a game gives them.
METHODS: dict[str, tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]] = {
    "bandit": (
        {"init": (), "select": ("state", "arms", "key", "side"), "update": ("state", "choice", "x", "reward", "side")},
        {
            "init": ("key",),
            "observe": ("instance", "round", "key"),
            "pull": ("instance", "observation", "action", "round", "key"),
        },
    ),
    "dueling": (
        {"init": (), "pair": ("state", "arms", "key", "side"), "update": ("state", "choice", "x", "reward", "side")},
        {
            "init": ("key",),
            "observe": ("instance", "round", "key"),
            "duel": ("instance", "observation", "action", "rival", "round", "key"),
        },
    ),
    "episodic": (
        {"init": ("model",), "plan": ("state", "model"), "update": ("state", "model", "plan", "step")},
        {"init": ("key",)},
    ),
}


class SeedConstants(NamedTuple):
    """Values that stay the same over the rounds of one seed."""

    instance: ArrayTree
    facts: ArrayTree  # exact quantities of the instance, where it is a Markov decision process
    streams: jax.Array  # [3, 2]   uint32, the keys of contexts, noise and algorithm


class Keys(NamedTuple):
    """A round's keys, each as :func:`jaxvar.lowering.words` holds its two words (uint32)."""

    contexts: Any
    noise: Any
    algorithm: Any


class Carry(NamedTuple):
    """Values that one seed carries from round to round."""

    state: ArrayTree  # the algorithm's
    keys: Keys  # of the coming round
    memories: tuple[ArrayTree, ...]  # the recorders'
    status: jax.Array  # []   int32
    status_round: jax.Array  # []   int32, the first round with a status; 0 while there is none


def begin(
    algorithm: Algorithm,
    environment: Environment,
    keys: jax.Array,
    recorders: tuple[records.Recorder, ...],
) -> tuple[SeedConstants, Carry]:
    """Draw a seed's problem and set everything up for round 1; its ``keys`` are those of :func:`seed_keys`."""
    instance = environment.init(random.of_words(keys[0]))

    def first(words: jax.Array) -> ArrayTree:
        return environment.observe(instance, jnp.int32(1), random.of_words(words))

    algorithm = with_fixed_arms(algorithm, environment, instance, jax.eval_shape(first, keys[0]))
    memories = tuple(r.init(algorithm, instance) for r in recorders)
    return SeedConstants(instance, None, keys[1:4]), start(algorithm.init(), keys, memories)


def step(
    algorithm: Algorithm,
    environment: Environment,
    recorders: tuple[records.Recorder, ...],
    fixed: SeedConstants,
    carry: Carry,
    round: jax.Array,
) -> tuple[Carry, Callable[[], tuple[records.Event, ArrayTree]]]:
    """Play a round; returns what is carried on, and what returns the event and the observation."""
    instance = fixed.instance
    k_contexts, k_noise, k_algorithm = round_keys(carry)
    observation = environment.observe(instance, round, k_contexts)
    available = getattr(observation, "available", None)
    wanted = {"arms": ("num_arms", "dim"), "mean": ("num_arms",), "noise_var": ("num_arms",)}
    if available is not None:
        wanted["available"] = ("num_arms",)
    check_returned(environment, "observe", observation, wanted)
    side = Side(observation.noise_var, None if available is None else jnp.asarray(available, bool))
    algorithm = with_fixed_arms(algorithm, environment, instance, observation)
    choice = algorithm.select(carry.state, observation.arms, k_algorithm, side)
    check_returned(algorithm, "select", choice, {"action": ()})
    action = jnp.asarray(choice.action).astype(jnp.int32)
    x, mean, noise_var = (take(v, action) for v in (observation.arms, observation.mean, observation.noise_var))
    reward = environment.pull(instance, observation, action, round, k_noise)
    if jnp.shape(reward) != ():
        raise ValueError(f"{type(environment).__name__}.pull must return one number, got {_shown(reward)}")
    state = algorithm.update(carry.state, choice, x, reward, Side(noise_var))
    check_state(algorithm, carry.state, state)

    event = records.Event(
        round=round,
        action=action,
        layer=getattr(choice, "layer", jnp.int32(0)),
        weight=getattr(choice, "weight", jnp.zeros_like(reward)),
        reward=reward,
        mean=mean,
        regret=jnp.max(observation.mean if available is None else side.present(observation.mean), axis=0) - mean,
        noise_var=noise_var,
        state=state,
        observation=observation,
    )
    finite = jnp.isfinite(reward) & jnp.isfinite(event.regret)
    memories = tuple(r.update(m, event, algorithm, instance) for r, m in zip(recorders, carry.memories, strict=True))
    bits: jax.Array | int = 0
    if side.available is not None:
        there = take(side.available.astype(jnp.int32), action) > 0
        bits = jnp.where(there, 0, status.ABSENT).astype(jnp.int32)
    after = finish(carry, fixed, state, memories, finite, round, bits)
    return after, lambda: (event._replace(observation=None), observation)  # a trace keeps it once


def read(recorders: tuple[records.Recorder, ...], carry: Carry) -> dict[str, jax.Array]:
    """Return each recorder's reading by its name."""
    return {r.name: r.read(m) for r, m in zip(recorders, carry.memories, strict=True)}


def seed_keys(key_data: Any, seed: Any) -> Any:
    """Return the words of all keys that a seed begins with, uint32 [7, 2, ...]: of :data:`STREAMS`, and of round 1.

    Args:
      key_data: words of the root key, uint32 [2].
      seed: integers [...]; of NumPy's integers the result is an array of NumPy's: no program is compiled for it.
    """
    number = seed.astype(np.uint32)
    own = random.threefry(key_data[:1], key_data[1:], np.uint32(0), number[None])
    streams = random.threefry(*own, np.uint32(0), np.arange(4, dtype=np.uint32).reshape(4, *(1,) * number.ndim))
    first = random.threefry(streams[0][1:], streams[1][1:], np.uint32(0), np.uint32(1))
    together = jnp if isinstance(seed, jax.Array) else np
    return together.stack([together.concatenate(words) for words in zip(streams, first, strict=True)], axis=1)


def start(state: ArrayTree, keys: jax.Array, memories: tuple[ArrayTree, ...]) -> Carry:
    """Return what is carried into round 1."""
    first = Keys(*(lowering.words(words[0], words[1]) for words in keys[4:]))
    return Carry(state, first, memories, jnp.int32(0), jnp.int32(0))


def round_keys(carry: Carry) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the round's keys for contexts, noise and algorithm."""
    contexts, noise, algorithm = (random.of_words(jnp.stack(list(words))) for words in carry.keys)
    return contexts, noise, algorithm


def finish(
    carry: Carry,
    fixed: SeedConstants,
    state: ArrayTree,
    memories: tuple[ArrayTree, ...],
    finite: jax.Array,
    round: jax.Array,
    bits: jax.Array | int = 0,
) -> Carry:
    """Return what is carried out of ``round``, in which the status ``bits`` came up beside the algorithm's own."""
    found: jax.Array = jnp.where(finite, 0, status.NONFINITE).astype(jnp.int32)
    found = found | bits | getattr(state, "status", jnp.int32(0))
    number = (round + 1).astype(jnp.uint32)
    keys = Keys(*(lowering.words(*random.threefry(k[0], k[1], np.uint32(0), number)) for k in fixed.streams))
    if not lowering.on_accelerator():  # which would ask the host in every round
        found = found | jax.lax.cond(round % CHECK_EVERY == 0, ridge.lost_digits, lambda _: jnp.int32(0), state)
    return _failed(Carry(state, keys, memories, carry.status, carry.status_round), found, round)


def check_digits(carry: Carry, round: jax.Array, is_last: jax.Array | bool = True) -> Carry:
    """Return what is carried out of the last ``round``, with a status where rounding has taken digits of an inverse."""
    return _failed(carry, jnp.where(is_last, ridge.lost_digits(carry.state), 0), round)


def _failed(carry: Carry, bits: jax.Array, round: jax.Array) -> Carry:
    status_round = jnp.where((carry.status_round == 0) & (bits != 0), round, carry.status_round)
    return carry._replace(status=carry.status | bits, status_round=status_round)


def with_fixed_arms(
    algorithm: Algorithm, environment: Environment, instance: ArrayTree, observation: object
) -> Algorithm:
    """Return the algorithm's form for the arms of ``instance``, where they never change and it has one."""
    if not getattr(environment, "fixed_arms", False) or not hasattr(algorithm, "with_fixed_arms"):
        return algorithm
    if getattr(observation, "available", None) is None:
        return algorithm.with_fixed_arms(instance.arms)
    takes_mask = "masked" in inspect.signature(algorithm.with_fixed_arms).parameters
    return algorithm.with_fixed_arms(instance.arms, masked=True) if takes_mask else algorithm


def check_returned(target: object, method: str, value: object, wanted: Mapping[str, tuple[str | int, ...]]) -> None:
    """Refuse what a method returned, where a field is missing or has another shape than ``wanted``."""
    sizes: dict[str | int, int] = {}
    for name, shape in wanted.items():
        found = None if isinstance(value, jax.Array | np.ndarray) else getattr(value, name, None)  # arrays have a mean
        got = None if found is None else jnp.shape(found)
        sizes |= {n: n for n in shape if isinstance(n, int)}
        if got is None or len(got) != len(shape) or got != tuple(map(sizes.setdefault, shape, got)):
            fields = ", ".join(f"{field} [{', '.join(map(str, axes))}]" for field, axes in wanted.items())
            came = _shown(value) if found is None else f"{name} {list(jnp.shape(found))}"
            who = f"{type(target).__name__}.{method}"
            raise ValueError(f"{who} must return an object (such as a NamedTuple) with {fields}, got {came}")


def check_state(algorithm: object, before: ArrayTree, after: ArrayTree) -> None:
    """Refuse a state that ``update`` returned with another structure, shape or type than it was given."""
    who = f"{type(algorithm).__name__}.update must return a state of the structure, shapes and types that init gave it"
    structures: list[object] = [jax.tree.structure(before), jax.tree.structure(after)]
    if structures[0] != structures[1]:
        raise ValueError(f"{who}, got {_shown(after)} for {_shown(before)}")
    for (path, old), new in zip(jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after), strict=True):
        is_weak = getattr(getattr(old, "aval", None), "weak_type", False)  # such a number takes any type
        if jnp.shape(old) != jnp.shape(new) or not (is_weak or jnp.result_type(old) == jnp.result_type(new)):
            raise ValueError(f"{who}, got {_shown(new)} for {_shown(old)} at state{jax.tree_util.keystr(path)}")


def _shown(value: object) -> str:
    """Return an array's type and shape, or an object's class, for a message."""
    if isinstance(value, jax.Array | np.ndarray | float | int):
        return f"an array {jnp.result_type(value)}{list(jnp.shape(value))}"
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple) else type(value).__name__


def check_methods(algorithm: object, environment: object) -> None:
    """Refuse an algorithm or environment without a method of the game, or with one that takes other arguments."""
    kind = kind_of(environment)
    for role, target, methods in zip(
        ("algorithm", "environment"), (algorithm, environment), METHODS[kind], strict=True
    ):
        who = type(target).__name__
        for name in methods:
            if not callable(getattr(target, name, None)):
                theirs = f"to play the {kind} environment {type(environment).__name__}"
                purpose = theirs if role == "algorithm" else f"to be a {kind} environment"
                raise ValueError(f"{role} must have a method {name!r} {purpose}, got {who}")
        for name, arguments in methods.items():
            try:
                signature = inspect.signature(getattr(target, name))
            except (TypeError, ValueError):  # a callable that does not tell
                continue
            keyword = {"key": None} if name == "plan" and "key" in signature.parameters else {}
            try:
                signature.bind(*arguments, **keyword)
            except TypeError:
                raise ValueError(f"{who}.{name} must take ({', '.join(arguments)}), got {signature}") from None


def kind_of(environment: object) -> str:
    """Return the kind of game that the environment is part of: a key of ``METHODS``."""
    if is_episodic(environment):
        return "episodic"
    return "dueling" if hasattr(environment, "duel") else "bandit"


def is_episodic(environment: object) -> bool:
    """Return whether the environment is a Markov decision process (else it is a bandit)."""
    return hasattr(environment, "horizon") and not hasattr(environment, "observe")


def grid_of(target: object) -> Any:
    """Return how ``target`` was swept, or None."""
    return getattr(target, "_grid", None)


def renamed_arguments(
    record_at: int | Sequence[int] | None,
    recorders: tuple[records.Recorder, ...],
    old_records: int | Sequence[int] | None,
    old_record: tuple[records.Recorder, ...] | None,
) -> tuple[int | Sequence[int] | None, tuple[records.Recorder, ...]]:
    """Return ``record_at`` and ``recorders`` from either of their names; the old ones warn."""
    for old, new, given in (("records", "record_at", old_records), ("record", "recorders", old_record)):
        if given is not None:
            warnings.warn(f"{old}= is now called {new}=, and will be removed", FutureWarning, stacklevel=3)
    return record_at if old_records is None else old_records, recorders if old_record is None else old_record


def check_call(
    algorithm: Algorithm | EpisodicAlgorithm,
    environment: Environment | EpisodicEnvironment,
    key: jax.Array,
    num_rounds: int | None,
    num_episodes: int | None,
    recorders: tuple[records.Recorder, ...],
    sweeps: bool = False,
) -> int:
    """Refuse what cannot be played; returns how many rounds or episodes to play.

    Warns where the pair at hand violates an assumption of the algorithm's theorem and both sides know it.
    """
    parameters.check_key("key", key)
    for name, target in (("algorithm", algorithm), ("environment", environment)):
        if not sweeps and grid_of(target) is not None:
            raise ValueError(f"{name} must be one setting, got a sweep; jaxvar.simulate takes sweeps")
    for name in ("dim", "horizon"):
        ours, theirs = getattr(algorithm, name, None), getattr(environment, name, None)
        if ours is not None and theirs is not None and ours != theirs:
            raise ValueError(f"algorithm must have the environment's {name} {theirs}, got {name} {ours}")
    if not isinstance(recorders, tuple | list) or not all(
        hasattr(r, name) for r in recorders for name in ("name", "init", "update", "read")
    ):
        raise ValueError(
            f"recorders must be a tuple of recorders from jaxvar.record, got {parameters.shown(recorders)}"
        )
    check_methods(algorithm, environment)
    episodic, kind = is_episodic(environment), kind_of(environment)
    wanted, other = ("num_episodes", "num_rounds") if episodic else ("num_rounds", "num_episodes")
    given, wrong = (num_episodes, num_rounds) if episodic else (num_rounds, num_episodes)
    if given is None or wrong is not None:
        raise ValueError(f"{wanted} must be given for the {kind} environment, and {other} must not")
    num = parameters.check_count(wanted, given, high=getattr(environment, "max_rounds", None))
    for sentence in violated_assumptions(algorithm, environment, num):
        warnings.warn(sentence, UserWarning, stacklevel=3)
    return num


def violated_assumptions(algorithm: object, environment: object, num: int) -> list[str]:
    """Return a sentence for each assumption of the algorithm that the environment or the run is known to violate."""
    who, found = type(algorithm).__name__, []
    kind = "num_episodes" if is_episodic(environment) else "num_rounds"
    told = _extreme(algorithm, kind, np.min)
    if told is not None and told < num:
        found.append(f"{who} was built for {kind}={told:g} and plays {num}: its theorem says nothing about the rest")
    for name, symbol in (("noise_bound", "R"), ("norm_bound", "a bound on norms")):
        ours, theirs = _extreme(algorithm, name, np.min), _extreme(environment, name, np.max)
        if ours is not None and theirs is not None and ours < theirs * (1 - 1e-6):
            found.append(
                f"{who} was told {name}={ours:g} ({symbol}), and {type(environment).__name__} has {name}={theirs:g}: "
                "its theorem does not hold"
            )
    return found


def _extreme(target: object, name: str, of: Callable[[np.ndarray[Any, Any]], float]) -> float | None:
    """Return the least or largest value of a number that ``target`` has, over its settings; None where nobody knows."""
    fields = getattr(target, "__dict__", {})  # a parameter that follows a rule is None there
    value = fields[name] if name in fields else getattr(target, name, None)
    unused = getattr(target, "unused", ())
    value = None if isinstance(unused, tuple) and name in unused else value
    if value is None or isinstance(value, str) or parameters.is_traced(value):
        return None
    return float(of(np.asarray(value)))
