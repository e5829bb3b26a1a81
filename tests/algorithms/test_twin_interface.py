"""Every twin with the common interface against its algorithm, round by round, in all variants of its options.

A module ``tests/reference/<factory>_numpy.py`` that has a class ``Twin`` is compared here without another line::

    class Twin:
        draws = {"z": ("normal", 1, ("dim",))}     # optional: more random numbers, see `tests.helpers.twins.drawn`
        def __init__(self, *, dim, lam, ties, tie_tolerance, **others): ...   # the algorithm's parameters, as numbers
        def select(self, arms, u, noise_var): ...  # -> action; u breaks ties; what `draws` names comes by its name
        def update(self, x, reward, noise_var): ...
        def estimates(self): ...                   # optional: {"regression.theta_hat": array}, compared every round

``select`` may also ask for ``numbers``, the numbers of the arms it is given, where it knows arms by these.

A twin for episodes has ``plan(self, phi, reward, horizon, u)``, which returns ``policy [H, S]``, and
``update(self, stage, state, action, next_state, reward)`` instead. Its ``u`` is ``[H, S]``. Where ``plan``
also asks for ``features``, it is played in a linear MDP.

A twin for duels has ``pair(self, arms, u)``, which returns the two arms, and ``update(self, z, won)``.

The twin follows the algorithm's own path, so that every round is a test of its own. Where arms come and go, it is given
only those that are there.
"""

import functools
import importlib
import inspect
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.algorithms.catalogue import CLAIMS, FACTORIES
from tests import reference
from tests.helpers import arguments as examples
from tests.helpers import cases as table
from tests.helpers.programs import trace
from tests.helpers.twins import draw_arms, drawn

DIM, NUM_ARMS, NUM_ROUNDS, NUM_EPISODES, NUM_DUELS = 3, 6, 150, 40, 60
SEEDS = (0, 5)
FOLDER = Path(reference.__file__).parent
FOUND = {p.stem.removesuffix("_numpy"): f"tests.reference.{p.stem}" for p in sorted(FOLDER.glob("*_numpy.py"))}
TWINS = {
    name: importlib.import_module(module).Twin
    for name, module in FOUND.items()
    if "class Twin" in (FOLDER / f"{name}_numpy.py").read_text()
}
SETTINGS = {claim.factory: claim.setting for claim in CLAIMS}
SIZES = {
    "dim": DIM,
    "num_arms": NUM_ARMS,
    "num_rounds": NUM_ROUNDS,
    "num_episodes": NUM_EPISODES,
    "capacity": 8,
    "memory": NUM_ROUNDS,
}
SLOW = (
    "heavy_oful",
    "max_in_p",
    "vacdb",
    "lsvi_ucb",
    "lsvi_ucb_plus",
)  # others are quick as they are by default
CASES = [(name, end) for name in TWINS for end in table.variants(FACTORIES[name])]


def twin_of(name, algorithm):
    """The twin with the parameters of the algorithm that it asks for."""
    return TWINS[name](**examples.taken(TWINS[name], examples.numbers(FACTORIES[name], algorithm)))


def assert_estimates(twin, state, where, what):
    for path, value in getattr(twin, "estimates", dict)().items():
        ours = functools.reduce(getattr, path.split("."), state)[where]
        np.testing.assert_allclose(ours, value, rtol=1e-8, atol=1e-10, err_msg=f"{path} after {what} {where + 1}")


def check_bandit(name, algorithm, fixed, seed, masked=False):
    rng = np.random.default_rng(seed)
    theta, arms = draw_arms(rng, DIM, NUM_ARMS, (0.2, 1.0), None if fixed else NUM_ROUNDS)
    arms[..., -1, :] = arms[..., 0, :]  # a tie
    std = rng.uniform(0.05, 0.5, size=(NUM_ROUNDS, NUM_ARMS))
    noise = std * rng.choice([-1.0, 1.0], size=std.shape)
    available = rng.random(std.shape) < 0.5
    available[np.arange(NUM_ROUNDS), rng.integers(NUM_ARMS, size=NUM_ROUNDS)] = True
    mask = {"available": available} if masked else {}
    environment = jv.replay_bandit(arms, arms @ theta, noise, noise_var=std**2, theta_star=theta, **mask)
    key = jax.random.key(seed)
    ours = jax.tree.map(np.asarray, trace(algorithm, environment, key, num_rounds=NUM_ROUNDS, seed=seed))
    assert ours.status == 0
    twin, sizes = twin_of(name, algorithm), {"dim": DIM, "num_arms": NUM_ARMS}
    draws = {"u": ("uniform", 0, ()), **getattr(twin, "draws", {})}
    for what, (law, stream, shape) in draws.items():
        draws[what] = drawn(key, seed, NUM_ROUNDS, law, stream, tuple(sizes.get(n, n) for n in shape))
    for k in range(NUM_ROUNDS):
        numbers = {what: values[k] for what, values in draws.items()}
        there = np.flatnonzero(available[k]) if masked else np.arange(NUM_ARMS)
        if "numbers" in inspect.signature(twin.select).parameters:
            numbers["numbers"] = there
        action = there[twin.select(ours.arms[k, there], noise_var=std[k, there] ** 2, **numbers)]
        assert action == ours.action[k], f"round {k + 1}: the twin plays {action}, the algorithm {ours.action[k]}"
        twin.update(ours.arms[k, action], ours.mean[k, action] + noise[k, action], std[k, action] ** 2)
        assert_estimates(twin, ours.state, k, "round")


def check_duels(name, algorithm, fresh, seed, available=None):
    bound = float(algorithm.theta_bound)
    environment = jv.dueling_bandit(DIM, NUM_ARMS, scale=bound, fresh=fresh, available=available)
    key = jax.random.key(seed)
    ours = jax.tree.map(np.asarray, trace(algorithm, environment, key, num_rounds=NUM_DUELS, seed=seed))
    assert ours.status == 0
    twin, u = twin_of(name, algorithm), drawn(key, seed, NUM_DUELS)
    for k in range(NUM_DUELS):
        there = np.arange(NUM_ARMS) if available is None else np.flatnonzero(ours.available[k])
        pair = tuple(there[list(twin.pair(ours.arms[k, there], u[k]))])
        assert pair == (ours.action[k], ours.rival[k]), f"round {k + 1}: {pair}, {(ours.action[k], ours.rival[k])}"
        twin.update(ours.arms[k, pair[0]] - ours.arms[k, pair[1]], ours.reward[k])
        assert_estimates(twin, ours.state, k, "round")


def check_episodes(name, algorithm, seed, make=None):
    takes_features = "features" in inspect.signature(TWINS[name].plan).parameters
    make = make or (jv.linear_mdp if takes_features else jv.mixture_mdp)  # sizes: S, A, d, H
    environment = make(4, 3, DIM, table.MODEL_SIZE["horizon"], model_seed=1, concentration=0.5)
    key = jax.random.key(seed)
    ours = jax.tree.map(np.asarray, trace(algorithm, environment, key, num_episodes=NUM_EPISODES, seed=seed))
    assert ours.status == 0
    twin, (phi, reward) = twin_of(name, algorithm), (ours.instance.phi, ours.instance.reward)
    u = drawn(key, seed, NUM_EPISODES, shape=(environment.horizon, environment.num_states))
    features = {"features": getattr(ours.instance, "features", None)} if takes_features else {}
    for k in range(NUM_EPISODES):
        policy = twin.plan(phi, reward, environment.horizon, u[k], **features)
        np.testing.assert_array_equal(policy, ours.policy[k], err_msg=f"policy of episode {k + 1}")
        for h in range(environment.horizon):
            state, action, after = ours.state[k, h], ours.action[k, h], ours.next_state[k, h]
            twin.update(h, state, action, after, reward[state, action])
        assert_estimates(twin, ours.learner, k, "episode")


@pytest.mark.parametrize(
    ("name", "end"),
    [pytest.param(*c, id="".join(c), marks=pytest.mark.slow if c[1] or c[0] in SLOW else ()) for c in CASES],
)
def test_follows_its_twin(name, end):
    """A wrong sign, factor, index or tie rule anywhere changes an action or an estimate in some round."""
    algorithm = FACTORIES[name](**table.variants(FACTORIES[name], **SIZES)[end])
    for seed in SEEDS:
        if SETTINGS[name] == "episodes":
            check_episodes(name, algorithm, seed)
        elif SETTINGS[name] == "duels":
            check_duels(name, algorithm, False, seed)
            check_duels(name, algorithm, True, seed)
        else:
            check_bandit(name, algorithm, True, seed)
            check_bandit(name, algorithm, False, seed)
    if SETTINGS[name] == "bandit":
        check_bandit(name, algorithm, True, SEEDS[0], masked=True)
    elif SETTINGS[name] == "duels":
        check_duels(name, algorithm, False, SEEDS[0], available=3)


def test_every_algorithm_has_a_twin():
    """Compared here, or by a test of its own."""
    assert FACTORIES.keys() <= FOUND.keys()


class Wrong(TWINS["oful"]):
    """A twin with a slip: it forgets what it saw first."""

    def update(self, x, reward, noise_var):
        super().update(x, reward, noise_var)
        self.x, self.reward = self.x[-60:], self.reward[-60:]


def test_a_difference_is_found(monkeypatch):
    """A comparison that cannot fail says nothing."""
    monkeypatch.setitem(TWINS, "oful", Wrong)
    with pytest.raises(AssertionError, match="after round 61"):
        check_bandit("oful", jv.oful(DIM), True, 0)
