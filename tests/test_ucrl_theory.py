"""What the theory says about UCRL-AVE and UCRL-VTR, and what must not change their results."""

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv

KEY = jax.random.key(5)
S, A, D, H = 4, 2, 3, 6
K, NUM_LAYERS = 40, 12  # L = ceil(1.5 log2(K H))
PRESETS = ("paper", "paper_fixed", "tight", "practical")


def preset(name: str, **numbers: float) -> Any:
    """A preset for episodes with some numbers changed; without its name, so that all share one program."""
    made = jv.constants.for_episodes(getattr(jv.constants, name)())
    leaves = {n: np.asarray(x, float) for n, x in numbers.items()}
    return dataclasses.replace(made, label="custom", setting="any", **leaves)


def ave(capacity: int, constants: Any, num_episodes: float = K, **options: Any) -> Any:
    return jv.ucrl_ave(D, H, num_episodes, constants=constants, capacity=capacity, **{"norm_bound": 2.0, **options})


@functools.cache
def worlds() -> dict[str, Any]:
    """Problems of one size as tables, so that all share one program."""
    drawn = {
        "mixture": jv.mixture_mdp(S, A, D, H, concentration=1.0, model_seed=1),
        "sparse": jv.mixture_mdp(S, A, D, H, reward="sparse", model_seed=2),
        "graded": jv.graded_mdp(S, A, D, H, mix=0.1, model_seed=3),
    }
    made = {name: jax.jit(e.init)(KEY) for name, e in drawn.items()}
    tables = {n: jv.explicit_mdp(*map(np.asarray, (m.phi, m.reward, m.theta_star)), H) for n, m in made.items()}
    return {**tables, "riverswim": jv.riverswim(S, H)}


def stack(trees: Any) -> Any:
    return jax.tree.map(lambda *x: np.stack(x), *trees)


@functools.partial(jax.jit, static_argnames="num_episodes")
def traces(algorithm: Any, environment: Any, num_episodes: int = K) -> Any:
    """One trace for each entry of the leading axis of algorithm and environment."""
    return jax.vmap(lambda a, e: jv.trace(a, e, KEY, num_episodes=num_episodes))(algorithm, environment)


def traced(algorithms: Any, environments: Any, **options: Any) -> list[Any]:
    out = jax.tree.map(np.asarray, traces(stack(algorithms), stack(environments), **options))
    return [jax.tree.map(lambda x, i=i: x[i], out) for i in range(len(algorithms))]


def features(t: Any) -> tuple[np.ndarray, np.ndarray]:
    """``phi_{V_{h+1}}(s_h, a_h) [K, H, d]`` and its target ``V_{h+1}(s_{h+1}) [K, H]``, from what a trace shows."""
    following = t.value[:, 1:]
    feature = np.einsum("khtd,kht->khd", t.instance.phi[t.state, t.action], following)
    return feature, np.take_along_axis(following, t.next_state[:, :, None], 2)[:, :, 0]
