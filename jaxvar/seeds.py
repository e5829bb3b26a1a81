"""What one seed holds and carries, and its random streams.

Keys: the root key and the seed's number give the seed's key; it has a branch for each stream (instance, contexts,
noise, algorithm), and each branch one key per round (or episode), all by ``fold_in``. So every algorithm meets the
same problem and the same noise in round k of seed s, whatever else runs, and a run can start at any round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import random
from jaxvar.batching import kept, seeds_last

STREAMS = ("instance", "contexts", "noise", "algorithm")

# ``each(function, *carried, shared=(...))`` is ``function(algorithm, environment, fixed, *carried, *shared)``, for one
# seed or for a block of them: what is carried then has the block's axis at its end, what is shared has not.
Each = Callable[..., Any]


class Seed(NamedTuple):
    """What stays the same over the rounds of one seed."""

    instance: Any
    facts: Any  # exact quantities of the instance, where it is a Markov decision process
    streams: jax.Array  # [3, 2]   uint32, the keys of contexts, noise and algorithm


class Keys(NamedTuple):
    """A round's keys, each as two words [] (uint32). Apart, so that XLA drops those that nothing draws from."""

    contexts: tuple[jax.Array, jax.Array]
    noise: tuple[jax.Array, jax.Array]
    algorithm: tuple[jax.Array, jax.Array]


class Carry(NamedTuple):
    """What one seed carries from round to round."""

    state: Any  # the algorithm's
    keys: Keys  # of the next round, made one round ahead
    memories: tuple[Any, ...]  # the recorders'
    status: jax.Array  # []   int32
    status_round: jax.Array  # []   int32, the first round with a status; 0 while there is none


def instance_and_streams(environment: Any, words: jax.Array, seed: jax.Array) -> tuple[Any, jax.Array]:
    """Draw the problem of ``seed`` under the root key ``words [2]``; the keys of its other streams, ``[3, 2]``."""
    root = jax.random.wrap_key_data(words, impl="threefry2x32")
    own = random.fold_in(root, seed)
    instance_key, *rest = (random.fold_in(own, i) for i in range(len(STREAMS)))
    return environment.init(instance_key), jnp.stack([jax.random.key_data(k) for k in rest])


def start(state: Any, streams: jax.Array, memories: tuple[Any, ...]) -> Carry:
    """What is carried into round 1."""
    return Carry(state, _round_keys(streams, jnp.int32(1)), memories, jnp.int32(0), jnp.int32(0))


def round_keys(carry: Carry) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The round's keys for contexts, noise and algorithm."""
    # XLA would compute a round's keys anew for each number drawn from them, did they not come out of the carry.
    contexts, noise, algorithm = (
        jax.random.wrap_key_data(jnp.stack(words), impl="threefry2x32") for words in carry.keys
    )
    return contexts, noise, algorithm


def finish_round(
    carry: Carry, fixed: Seed, state: Any, memories: tuple[Any, ...], bits: jax.Array, round: jax.Array
) -> Carry:
    """What is carried out of ``round``, in which the status ``bits`` came up."""
    status = carry.status | bits
    status_round = jnp.where((carry.status_round == 0) & (bits != 0), round, carry.status_round)
    # Keys of the next round come after all that draws from this round's: an accelerator then writes over them.
    streams, status = kept((fixed.streams, status))
    return Carry(state, _round_keys(streams, round + 1), memories, status, status_round)


@seeds_last
def _round_keys(streams: jax.Array, round: jax.Array) -> Keys:
    """``fold_in(stream, round)`` of each stream ``[3, 2]``."""
    number = round.astype(jnp.uint32)
    zero = jnp.zeros_like(number)
    return Keys(*(random.threefry(streams[i, 0], streams[i, 1], zero, number) for i in range(len(Keys._fields))))
