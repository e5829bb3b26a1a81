"""What the comparisons with twins share: drawn problems, the simulator's random numbers, and where two runs part."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxvar as jv

# A round or episode may differ only if the twin decided it by less than this. Both sides round at about 1e-13, so a
# wider gap is an error. Exact ties do not count as narrow: equal values are a whole tie tolerance, 1e-9, from its edge.
NARROW = 1e-11
EPISODE = ("policy", "state", "action", "next_state")  # what an episode is, for `in_common`


def draw_arms(rng, dim, num_arms, norms, num_rounds=None):
    """A theta* of norm 1, and arms ``[N, d]``, or ``[K, N, d]`` if rounds are given, of norms between two numbers."""
    theta = rng.normal(size=dim)
    theta /= np.linalg.norm(theta)
    arms = rng.normal(size=(*(() if num_rounds is None else (num_rounds,)), num_arms, dim))
    arms *= rng.uniform(*norms, size=(*arms.shape[:-1], 1)) / np.linalg.norm(arms, axis=-1, keepdims=True)
    return theta, arms


def drawn(key, seed, num, law="uniform", stream=0, shape=(), of="algorithm"):
    """The numbers that a stream of a seed's keys holds for each round or episode, ``[num, *shape]``."""
    own = jax.random.fold_in(jax.random.fold_in(key, seed), jv.game.STREAMS.index(of))
    breaks_ties = of == "algorithm" and stream == 0
    dtype = jnp.float32 if breaks_ties else jnp.float64  # ties are broken in single precision

    def draw(round):
        words = jv.random.key_words(jax.random.fold_in(own, round))
        return getattr(jv.random, law)(jv.random.bits(words, shape, stream=stream), dtype)

    return np.asarray(jax.vmap(draw)(jnp.arange(1, num + 1)))


def episode_arrays(ours, key, seed):
    """What an episodic twin is given: the model, first states, and the numbers that draw next states and break ties."""
    model, (num, horizon, num_states) = ours.instance, ours.policy.shape
    transitions = drawn(key, seed, num, shape=(horizon,), of="noise")
    ties = drawn(key, seed, num, shape=(horizon, num_states))
    return model.phi, model.reward, model.theta_star, ours.state[:, 0], transitions, ties


def in_common(ours, twin, names):
    """How many rounds or episodes agree before the first that does not, which must have been decided narrowly."""
    pairs = {name: (getattr(ours, name), getattr(twin, name)) for name in names}
    num = len(twin.margin)
    same = np.all([(mine == theirs).reshape(num, -1).all(axis=1) for mine, theirs in pairs.values()], axis=0)
    if same.all():
        return num
    first = int(np.argmin(same))
    shown = {name: (mine[first].tolist(), theirs[first].tolist()) for name, (mine, theirs) in pairs.items()}
    margin = twin.margin[first]
    assert margin < NARROW, f"turn {first + 1}: ours and the twin's are {shown}, decided by a margin of {margin:.1e}"
    return first
