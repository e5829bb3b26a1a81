"""Small problems that several tests of theory play: bandits from arrays, and MDPs as tables."""

import jax
import numpy as np

import jaxvar as jv


def unit_arms(seed, *shape):
    """Vectors on the unit sphere; the last axis of the shape is theirs."""
    arms = np.random.default_rng(seed).normal(size=shape)
    return arms / np.linalg.norm(arms, axis=-1, keepdims=True)


def two_point(seed, num_rounds, size):
    """Noise of plus or minus ``size`` in each round."""
    return size * np.random.default_rng([seed, 1]).choice([-1.0, 1.0], size=num_rounds)


def replay(arms, theta, noise):
    """A bandit with these arms ``[N, d]`` or ``[K, N, d]`` and this noise ``[K]``."""
    return jv.replay_bandit(arms, arms @ theta, noise, noise_var=noise**2, theta_star=theta)


def as_tables(environment):
    """The problem as tables, so that all of one size share one program."""
    instance = jax.jit(environment.init)(jax.random.key(0))
    tables = map(np.asarray, (instance.phi, instance.reward, instance.theta_star))
    return jv.explicit_mdp(*tables, environment.horizon, initial=np.asarray(instance.initial))


def small_mdps(*sizes):
    """A noisy problem, one with a sparse reward and one with little noise, of sizes S, A, d and H, as tables."""
    drawn = {
        "mixture": jv.mixture_mdp(*sizes, concentration=1.0, model_seed=1),
        "sparse": jv.mixture_mdp(*sizes, reward="sparse", model_seed=2),
        "graded": jv.graded_mdp(*sizes, mix=0.1, model_seed=3),
    }
    return {name: as_tables(environment) for name, environment in drawn.items()}
