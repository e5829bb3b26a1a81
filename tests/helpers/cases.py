"""Every algorithm and environment under test, as (id, factory) pairs.

Algorithms are found in the catalogue, and their variants follow from what they declare: a new one needs no line here.
A new environment is added below.
"""

import inspect

import numpy as np

import jaxvar as jv
from jaxvar.algorithms.catalogue import CLAIMS, FACTORIES
from tests.helpers import arguments as examples

DIM, NUM_ARMS, NUM_ROUNDS = 2, 3, 50
MODEL_SIZE = {"num_states": 3, "num_actions": 2, "dim": 2, "horizon": 3}
PRESETS = {name: getattr(jv.constants, name) for name in ("paper", "paper_fixed", "tight", "sharp", "practical")}
FIXED_ARMS = np.array([[0.6, 0.0], [0.3, 0.5], [0.0, 0.9]])
THETA = np.array([0.6, 0.8])

# By the name of the parameter: what must be given, and what keeps layers and nets small.
SIZES = {
    "dim": DIM,
    "num_arms": NUM_ARMS,
    "num_rounds": NUM_ROUNDS,
    "horizon": MODEL_SIZE["horizon"],
    "num_episodes": NUM_ROUNDS,
}
SMALL = {
    "capacity": 2,
    "cells": 4,
    "every": 1,
    "memory": NUM_ROUNDS,
    "num_directions": 3,
    "num_groups": 2,
    "num_moments": 3,
    "num_scales": 2,
    "threshold": 0.2,
}
# What the variant "given" adds to all numbers that are None by default: radii small enough to act, and the other ties.
GIVEN = {"beta_scale": 0.01, "ties": "lowest", "tie_tolerance": 1e-9}


def variants(make, **sizes):
    """Arguments of a factory by the end of their id: an example, each option that is not a default, all numbers."""
    base = examples.arguments(make, {**SIZES, **SMALL, **sizes})
    found, declared, defaults = {"": base}, examples.declared(make), inspect.signature(make).parameters
    for name, parameter in declared.items():
        kind, default = examples.kind(parameter), defaults[name].default
        if kind == "choice" and name not in GIVEN:
            found |= {f"-{word}": {**base, name: word} for word in parameter.options if word != default}
        elif kind == "flag":
            found[f"-{name}"] = {**base, name: not default}
        elif name == "constants":
            found |= {f"-{word}": {**base, name: preset()} for word, preset in PRESETS.items() if word != "paper"}
    given = examples.optional(make) | {name: value for name, value in GIVEN.items() if name in declared}
    return found | {"-given": {**given, **base}}


def _algorithms(setting):
    for name in (claim.factory for claim in CLAIMS if claim.setting == setting):
        make = FACTORIES[name]
        for end, arguments in variants(make).items():
            yield f"{name}{end}", lambda make=make, arguments=arguments: make(**arguments)
        if hasattr(inspect.signature(make).return_annotation, "with_fixed_arms"):
            arguments = variants(make)[""]
            yield (
                f"{name}-fixed-arms",
                lambda make=make, arguments=arguments: make(**arguments).with_fixed_arms(FIXED_ARMS),
            )


ALGORITHMS = [*_algorithms("bandit"), ("greedy", lambda: jv.greedy(DIM)), ("uniform", jv.uniform)]
DUELING_ALGORITHMS = [*_algorithms("duels")]
EPISODIC_ALGORITHMS = [*_algorithms("episodes"), ("uniform", jv.uniform)]

FAMILIES = {
    "two_point": lambda std: jv.noise.two_point(std),
    "uniform": lambda std: jv.noise.uniform(std),
    "sparse": lambda std: jv.noise.sparse(std, bound=1.0),
    "clipped_gaussian": lambda std: jv.noise.clipped_gaussian(std, bound=0.5),
    "gaussian": lambda std: jv.noise.gaussian(std),
    "student_t": lambda std: jv.noise.student_t(std, df=20.0),
    "pareto": lambda std: jv.noise.pareto(std, shape=20.0),
}
SCHEDULES = {
    "two_level": lambda: jv.schedules.two_level(0.1, 0.4),
    "between": lambda: jv.schedules.between(0.1, 0.4),
    "decaying": lambda: jv.schedules.decaying(0.4, 0.5),
    "bursts": lambda: jv.schedules.bursts(0.1, 0.4, 3, 1),
    "front_loaded": lambda: jv.schedules.front_loaded(0.1, 0.4, 3),
    "by_round": lambda: jv.schedules.by_round(np.linspace(0.1, 0.4, NUM_ROUNDS)),
    "by_round_and_arm": lambda: jv.schedules.by_round(np.full((NUM_ROUNDS, NUM_ARMS), 0.3)),
    "by_arm": lambda: jv.schedules.by_arm(0.1, 0.4, [1.0, 0.0]),
    "each_arm": lambda: jv.schedules.each_arm([0.1, 0.0, 0.4]),
}


def _linear(noise=None, **options):
    return jv.linear_bandit(DIM, NUM_ARMS, noise=noise or jv.noise.two_point(0.3), **options)


TABLE = {
    "features": np.random.default_rng(1).uniform(-0.5, 0.5, (4, NUM_ARMS, DIM)),
    "means": np.linspace(0.05, 0.95, 4 * NUM_ARMS).reshape(4, NUM_ARMS),
    "variances": np.linspace(0.01, 0.25, 4 * NUM_ARMS).reshape(4, NUM_ARMS),
}


def _replay(fixed, **options):
    rng = np.random.default_rng(0)
    arms = FIXED_ARMS if fixed else rng.uniform(-0.5, 0.5, (NUM_ROUNDS, NUM_ARMS, DIM))
    noise = rng.choice([-0.1, 0.1], (NUM_ROUNDS, NUM_ARMS))
    return jv.replay_bandit(arms, arms @ THETA, noise, noise_var=np.full(NUM_ROUNDS, 0.01), theta_star=THETA, **options)


ENVIRONMENTS = [
    *(
        (
            f"linear-{kind}-{'fresh' if fresh else 'fixed'}",
            lambda kind=kind, fresh=fresh: _linear(arms=kind, fresh=fresh),
        )
        for kind in ("sphere", "uniform", "hypercube")
        for fresh in (False, True)
    ),
    ("linear-noiseless", lambda: jv.linear_bandit(DIM, NUM_ARMS)),
    ("linear-given-arms", lambda: _linear(arms=FIXED_ARMS)),
    ("linear-given-theta", lambda: _linear(theta_star=THETA, norm_bound=2.0, fresh=True)),
    ("linear-some-arms", lambda: _linear(available=2)),
    ("linear-chance-arms", lambda: _linear(available=0.4, fresh=True)),
    ("linear-bernoulli", lambda: _linear(jv.noise.bernoulli(), arms=FIXED_ARMS, theta_star=THETA)),
    *((f"linear-{name}", lambda make=make: _linear(make(0.3), fresh=True)) for name, make in FAMILIES.items()),
    *(
        (f"linear-{name}", lambda make=make: _linear(jv.noise.two_point(make()), fresh=True))
        for name, make in SCHEDULES.items()
    ),
    ("hypercube", lambda: jv.hypercube_bandit(2, NUM_ROUNDS)),
    ("hypercube-budget", lambda: jv.hypercube_bandit(2, NUM_ROUNDS, level=0.5, gap_multiplier=2.0, budget=0.5)),
    ("hypercube-blocks", lambda: jv.hypercube_blocks(2, NUM_ROUNDS, [0.2, 1.0], order=[0, 1, 1])),
    ("replay-fixed", lambda: _replay(True)),
    ("replay", lambda: _replay(False)),
    ("table-bernoulli", lambda: jv.table_bandit(TABLE["features"], TABLE["means"])),
    *(
        (f"table-{law}", lambda law=law: jv.table_bandit(**TABLE, noise=law))
        for law in ("two_point", "uniform", "gaussian")
    ),
    ("table-contexts", lambda: jv.table_bandit(**TABLE, contexts=np.arange(NUM_ROUNDS) % 4)),
    ("table-fixed", lambda: jv.table_bandit(**{name: rows[:1] for name, rows in TABLE.items()})),
    ("data", lambda: jv.data_bandit("wine")),
    ("k_armed", lambda: jv.k_armed([0.5, 3.0, -2.0], jv.noise.uniform(jv.schedules.each_arm([0.1, 0.0, 0.4])))),
    ("k_armed-bernoulli", lambda: jv.k_armed([0.5, 0.9], jv.noise.bernoulli(), available=0.5)),
    ("duels", lambda: jv.dueling_bandit(DIM, NUM_ARMS, scale=2.0)),
    ("duels-linear", lambda: jv.dueling_bandit(DIM, NUM_ARMS, link="linear", scale=0.2, fresh=True, available=2)),
    ("logistic", lambda: jv.logistic_bandit(DIM, NUM_ARMS, scale=2.0)),
    ("poisson", lambda: jv.logistic_bandit(DIM, NUM_ARMS, link="poisson", scale=1.5, fresh=True, available=2)),
    ("replay-some-arms", lambda: _replay(True, available=[True, False, True])),
]


_KERNELS = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 3, 2))
EXPLICIT = {
    "phi": np.moveaxis(_KERNELS, 0, 3) / np.sqrt(2),
    "reward": np.full((3, 2), 0.2),
    "theta_star": np.sqrt(2) * np.array([0.3, 0.7]),
    "horizon": 3,
    "initial": [0.5, 0.5, 0.0],
}
KERNEL_MIXTURE = {
    "kernels": _KERNELS,
    "weights": [0.3, 0.7],
    "reward": EXPLICIT["reward"],
    "horizon": 3,
    "initial": [0.5, 0.5, 0.0],
}
TABULAR = {"transition": _KERNELS[0], "reward": EXPLICIT["reward"], "horizon": 3}
LINEAR = {
    "features": np.random.default_rng(1).dirichlet(np.ones(2), size=(3, 2)),
    "measures": _KERNELS[0, :2, 0],
    "rank": 2,
}
MDPS = [
    ("mixture", lambda: jv.mixture_mdp(**MODEL_SIZE)),
    ("mixture-sparse", lambda: jv.mixture_mdp(**MODEL_SIZE, reward="sparse", concentration=1.0)),
    ("mixture-shared", lambda: jv.mixture_mdp(**MODEL_SIZE, model_seed=1, initial=[0.2, 0.3, 0.5])),
    ("graded", lambda: jv.graded_mdp(**MODEL_SIZE, mix=0.2)),
    ("explicit", lambda: jv.explicit_mdp(**EXPLICIT)),
    ("kernel_mixture", lambda: jv.kernel_mixture_mdp(**KERNEL_MIXTURE)),
    ("tabular", lambda: jv.tabular_mdp(**TABULAR)),
    ("linear_mdp", lambda: jv.linear_mdp(3, 2, 2, 3)),
    ("linear_mdp-dense", lambda: jv.linear_mdp(3, 2, 2, 3, reward="dense", model_seed=1, initial=[0.2, 0.3, 0.5])),
    ("linear_mdp-given", lambda: jv.linear_mdp(3, 2, horizon=3, reward=EXPLICIT["reward"], **LINEAR)),
    ("riverswim", lambda: jv.riverswim(4, 5)),
    ("riverswim-tabular", lambda: jv.riverswim(3, 4, features="tabular")),
    ("deep_tree", lambda: jv.deep_tree(features="reduced")),
    ("horizon_free", lambda: jv.horizon_free_mdp(3, 4, gap=0.05)),
    ("horizon_dependent", lambda: jv.horizon_dependent_mdp(3, 4, num_episodes=100)),
]
