"""Every algorithm and environment under test, as (id, factory) pairs: what is added to the package is added here."""

import numpy as np

import jaxvar as jv

DIM, NUM_ARMS, NUM_ROUNDS = 2, 3, 50
EXPLORE = ("widest", "first", "random", "optimistic")
PRESETS = {name: getattr(jv.constants, name) for name in ("paper", "paper_fixed", "tight", "practical")}
FIXED_ARMS = np.array([[0.6, 0.0], [0.3, 0.5], [0.0, 0.9]])
THETA = np.array([0.6, 0.8])


def _save(**options):
    return jv.save(DIM, NUM_ROUNDS, capacity=2, **options)


_NET = {"cells": 4, "num_directions": 3, "num_scales": 2, "every": 1}


ALGORITHMS = [
    *((f"save-{rule}", lambda rule=rule: _save(explore=rule)) for rule in EXPLORE),
    *((f"save-{name}", lambda make=make: _save(constants=make())) for name, make in PRESETS.items()),
    ("save-lowest", lambda: _save(ties="lowest")),
    ("save-fixed-arms", lambda: _save().with_fixed_arms(FIXED_ARMS)),
    ("ave_ucb", lambda: jv.ave_ucb(DIM, NUM_ROUNDS, capacity=2)),
    *(
        (f"ave_ucb-{name}", lambda make=make: jv.ave_ucb(DIM, NUM_ROUNDS, capacity=2, constants=make()))
        for name, make in PRESETS.items()
    ),
    ("ave_ucb-cap", lambda: jv.ave_ucb(DIM, NUM_ROUNDS, capacity=2, cap=1.0, ties="lowest")),
    ("ave_ucb-fixed-arms", lambda: jv.ave_ucb(DIM, NUM_ROUNDS, capacity=2).with_fixed_arms(FIXED_ARMS)),
    ("confidence_ball", lambda: jv.confidence_ball(DIM)),
    ("confidence_ball-fixed-arms", lambda: jv.confidence_ball(DIM, fixed_radius=1.0).with_fixed_arms(FIXED_ARMS)),
    ("cw_oful", lambda: jv.cw_oful(DIM, 0.2)),
    ("cw_oful-fixed-arms", lambda: jv.cw_oful(DIM, 0.2, radius="determinant").with_fixed_arms(FIXED_ARMS)),
    ("oful-determinant", lambda: jv.oful(DIM)),
    ("oful-data_free", lambda: jv.oful(DIM, radius="data_free")),
    ("oful-fixed-arms", lambda: jv.oful(DIM).with_fixed_arms(FIXED_ARMS)),
    ("fgts_va", lambda: jv.fgts_va(DIM, NUM_ROUNDS)),
    ("fgts_va-options", lambda: jv.fgts_va(DIM, NUM_ROUNDS, feel_good=0.0, num_proposals=4, ties="lowest")),
    ("greedy", lambda: jv.greedy(DIM)),
    *(
        (f"sup_lin_ucb-{rule}", lambda rule=rule: jv.sup_lin_ucb(DIM, NUM_ROUNDS, capacity=2, explore=rule))
        for rule in EXPLORE
    ),
    ("sup_lin_ucb-fixed-arms", lambda: jv.sup_lin_ucb(DIM, NUM_ROUNDS, capacity=2).with_fixed_arms(FIXED_ARMS)),
    ("uniform", lambda: jv.uniform()),
    ("weighted_oful", lambda: jv.weighted_oful(DIM)),
    ("weighted_oful-fixed-arms", lambda: jv.weighted_oful(DIM, lam=0.5).with_fixed_arms(FIXED_ARMS)),
    ("weighted_oful-variance_bound", lambda: jv.weighted_oful(DIM, variance_bound=1.0, ties="lowest")),
    ("weighted_oful_plus", lambda: jv.weighted_oful_plus(DIM, NUM_ROUNDS)),
    ("weighted_oful_plus-fixed-arms", lambda: jv.weighted_oful_plus(DIM, NUM_ROUNDS).with_fixed_arms(FIXED_ARMS)),
    ("weighted_oful_plus-given", lambda: jv.weighted_oful_plus(DIM, NUM_ROUNDS, alpha=0.1, gamma=0.0, lam=1.0)),
    ("voful", lambda: jv.voful(DIM, NUM_ROUNDS, **_NET)),
    ("voful-paper", lambda: jv.voful(DIM, NUM_ROUNDS, test="paper", beta_scale=0.01, ties="lowest", **_NET)),
    ("voful2", lambda: jv.voful2(DIM, NUM_ROUNDS, **_NET)),
    ("voful2-paper", lambda: jv.voful2(DIM, NUM_ROUNDS, test="paper", beta_scale=1e-3, ties="lowest", **_NET)),
    *(
        (f"lin_ts-{scale}", lambda scale=scale: jv.lin_ts(DIM, NUM_ROUNDS, scale=scale))
        for scale in ("abeille_lazaric", "agrawal_goyal", "bayes")
    ),
    ("lin_vdts", lambda: jv.lin_vdts(DIM, NUM_ROUNDS, capacity=2)),
    ("lin_vdts-fixed-arms", lambda: jv.lin_vdts(DIM, NUM_ROUNDS, capacity=2).with_fixed_arms(FIXED_ARMS)),
    ("lofav", lambda: jv.lofav(DIM, NUM_ROUNDS)),
    ("lofav-fixed-arms", lambda: jv.lofav(DIM, NUM_ROUNDS).with_fixed_arms(FIXED_ARMS)),
    ("losan", lambda: jv.losan(DIM)),
    ("losan-fixed-arms", lambda: jv.losan(DIM).with_fixed_arms(FIXED_ARMS)),
    ("weighted_lin_ts", lambda: jv.weighted_lin_ts(DIM, NUM_ROUNDS)),
]

FAMILIES = {
    "two_point": lambda std: jv.noise.two_point(std),
    "uniform": lambda std: jv.noise.uniform(std),
    "sparse": lambda std: jv.noise.sparse(std, bound=1.0),
    "clipped_gaussian": lambda std: jv.noise.clipped_gaussian(std, bound=0.5),
}
SCHEDULES = {
    "two_level": lambda: jv.schedules.two_level(0.1, 0.4),
    "between": lambda: jv.schedules.between(0.1, 0.4),
    "decaying": lambda: jv.schedules.decaying(0.4, 0.5),
    "bursts": lambda: jv.schedules.bursts(0.1, 0.4, 3, 1),
    "by_round": lambda: jv.schedules.by_round(np.linspace(0.1, 0.4, NUM_ROUNDS)),
    "by_round_and_arm": lambda: jv.schedules.by_round(np.full((NUM_ROUNDS, NUM_ARMS), 0.3)),
    "by_arm": lambda: jv.schedules.by_arm(0.1, 0.4, [1.0, 0.0]),
}


def _linear(noise=None, **options):
    return jv.linear_bandit(DIM, NUM_ARMS, noise=noise or jv.noise.two_point(0.3), **options)


def _replay(fixed):
    rng = np.random.default_rng(0)
    arms = FIXED_ARMS if fixed else rng.uniform(-0.5, 0.5, (NUM_ROUNDS, NUM_ARMS, DIM))
    noise = rng.choice([-0.1, 0.1], (NUM_ROUNDS, NUM_ARMS))
    return jv.replay_bandit(arms, arms @ THETA, noise, noise_var=np.full(NUM_ROUNDS, 0.01), theta_star=THETA)


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
]

MODEL_SIZE = {"num_states": 3, "num_actions": 2, "dim": 2, "horizon": 3}


def _ucrl_ave(**options):
    return jv.ucrl_ave(2, 3, NUM_ROUNDS, norm_bound=1.5, capacity=2, **options)


def _var_lin(factory, **options):
    return factory(2, 3, NUM_ROUNDS, norm_bound=1.5, num_groups=2, **_NET, **options)


EPISODIC_ALGORITHMS = [
    ("hf_ucrl_vtr_plus", lambda: jv.hf_ucrl_vtr_plus(2, 3, NUM_ROUNDS, norm_bound=1.5, num_moments=3)),
    (
        "hf_ucrl_vtr_plus-options",
        lambda: jv.hf_ucrl_vtr_plus(2, 3, 1, lam=0.5, beta_scale=0.01, value_bound=0.9, ties="lowest"),
    ),
    *((f"ucrl_ave-{name}", lambda make=make: _ucrl_ave(constants=make())) for name, make in PRESETS.items()),
    ("ucrl_ave-lowest", lambda: _ucrl_ave(ties="lowest")),
    ("ucrl_vtr", lambda: jv.ucrl_vtr(2, norm_bound=1.5)),
    ("ucrl_vtr_plus", lambda: jv.ucrl_vtr_plus(2, 3, norm_bound=1.5)),
    ("ucrl_vtr_plus-per_step", lambda: jv.ucrl_vtr_plus(2, 3, norm_bound=1.5, per_step=True, beta_scale=0.01)),
    ("ucrl_vtr_plus-options", lambda: jv.ucrl_vtr_plus(2, 3, lam=0.5, value_bound=0.9, ties="lowest")),
    ("ucrl_wvtr", lambda: jv.ucrl_wvtr(2, 3)),
    (
        "ucrl_wvtr-options",
        lambda: jv.ucrl_wvtr(2, 3, fixed_radius=0.1, lam=0.5, num_moments=1, gamma=0.0, ties="lowest"),
    ),
    ("ucrl_vtr-options", lambda: jv.ucrl_vtr(2, norm_bound=1.5, lam=0.5, beta_scale=0.1, ties="lowest")),
    ("uniform", lambda: jv.uniform()),
    ("var_lin", lambda: _var_lin(jv.var_lin)),
    ("var_lin-paper", lambda: _var_lin(jv.var_lin, test="paper", beta_scale=0.01, ties="lowest")),
    ("var_lin2", lambda: _var_lin(jv.var_lin2)),
    ("var_lin2-paper", lambda: _var_lin(jv.var_lin2, test="paper", beta_scale=1e-3, num_moments=1)),
]


def _explicit():
    kernels = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 3, 2))
    phi = np.moveaxis(kernels, 0, 3) / np.sqrt(2)
    return jv.explicit_mdp(phi, np.full((3, 2), 0.2), np.sqrt(2) * np.array([0.3, 0.7]), 3, initial=[0.5, 0.5, 0.0])


MDPS = [
    ("mixture", lambda: jv.mixture_mdp(**MODEL_SIZE)),
    ("mixture-sparse", lambda: jv.mixture_mdp(**MODEL_SIZE, reward="sparse", concentration=1.0)),
    ("mixture-shared", lambda: jv.mixture_mdp(**MODEL_SIZE, model_seed=1, initial=[0.2, 0.3, 0.5])),
    ("graded", lambda: jv.graded_mdp(**MODEL_SIZE, mix=0.2)),
    ("explicit", _explicit),
    ("riverswim", lambda: jv.riverswim(4, 5)),
    ("riverswim-tabular", lambda: jv.riverswim(3, 4, features="tabular")),
    ("deep_tree", lambda: jv.deep_tree(features="reduced")),
    ("horizon_free", lambda: jv.horizon_free_mdp(3, 4, gap=0.05)),
    ("horizon_dependent", lambda: jv.horizon_dependent_mdp(3, 4, num_episodes=100)),
]
