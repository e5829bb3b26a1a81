"""Plays LinUCB of a public library; run as a script in an environment that has the library and not jaxvar.

``python public_player.py '{"library": "coba", "dim": 10, ...}'`` plays seed after seed until the time is over, and
prints one line of JSON. All libraries play the same linear bandit with one parameter vector for all arms. The draws of
arms and noise are part of the time, as they are for jaxvar; they are NumPy's, and cheap beside the libraries.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time
from typing import Any

import numpy as np

RADIUS = 1.0  # the libraries have a constant one
NOISE_STD = 0.5


class Coba:
    """``LinUCBLearner`` on the features of the actions alone."""

    def __init__(self, dim: int, num_arms: int) -> None:
        self.learner = importlib.import_module("coba.learners").LinUCBLearner(alpha=RADIUS, features=["a"])

    def choose(self, arms: Any) -> int:
        """The arm with the largest index."""
        self.actions = [tuple(a) for a in arms.tolist()]
        self.action, self.probability = self.learner.predict(None, self.actions)[:2]
        return self.actions.index(self.action)

    def learn(self, x: Any, reward: float) -> None:
        """One observation."""
        self.learner.learn(None, self.action, reward, self.probability)


class ContextualBandits:
    """Its LinUCB has a regression for each choice; with one that is used, what we call arms are the contexts."""

    def __init__(self, dim: int, num_arms: int) -> None:
        online = importlib.import_module("contextualbandits.online")
        self.model = online.LinUCB(nchoices=2, alpha=RADIUS, fit_intercept=False, beta_prior=None, njobs=1)
        self.first = np.array([0])

    def choose(self, arms: Any) -> int:
        """The arm with the largest index; before anything was learned there is no model to ask."""
        if not self.model.is_fitted:
            return 0
        return int(np.argmax(self.model.decision_function(arms)[:, 0]))

    def learn(self, x: Any, reward: float) -> None:
        """One observation."""
        self.model.partial_fit(x[None], self.first, np.array([reward]))


class Mabwiser:
    """Its LinUCB has a regression for each arm; with a single one, what we call arms are the contexts."""

    def __init__(self, dim: int, num_arms: int) -> None:
        module = importlib.import_module("mabwiser.mab")
        self.mab = module.MAB(["all"], module.LearningPolicy.LinUCB(alpha=RADIUS))
        self.mab.fit(["all"], [0.0], np.zeros((1, dim)))

    def choose(self, arms: Any) -> int:
        """The arm with the largest index."""
        return int(np.argmax([found["all"] for found in self.mab.predict_expectations(arms)]))

    def learn(self, x: Any, reward: float) -> None:
        """One observation."""
        self.mab.partial_fit(["all"], [reward], x[None])


class BayesianBandits:
    """A shared Gaussian regression with an upper quantile of posterior samples."""

    def __init__(self, dim: int, num_arms: int) -> None:
        module = importlib.import_module("bayesianbandits")

        class Rows(module.ArmFeaturizer):  # type: ignore[name-defined, misc]
            """The round's arms, whatever the context."""

            def transform(self, X: Any, *, action_tokens: Any) -> Any:
                """The rows of ``X[0]`` that were asked for."""
                return X[0][list(action_tokens)]

        self.agent = module.LipschitzContextualAgent(
            arms=[module.Arm(i, learner=None) for i in range(num_arms)],
            policy=module.UpperConfidenceBound(alpha=0.84, samples=100),
            arm_featurizer=Rows(),
            learner=module.NormalRegressor(alpha=1.0, beta=1.0),
        )

    def choose(self, arms: Any) -> int:
        """The arm with the largest quantile."""
        self.arms = arms[None]
        return int(self.agent.pull(self.arms)[0])

    def learn(self, x: Any, reward: float) -> None:
        """One observation."""
        self.agent.update(self.arms, np.array([reward]))


class River:
    """One ``BayesianLinearRegression``, asked for mean and deviation of each arm."""

    def __init__(self, dim: int, num_arms: int) -> None:
        self.model = importlib.import_module("river.linear_model").BayesianLinearRegression(alpha=1.0, beta=1.0)
        self.names = list(range(dim))

    def choose(self, arms: Any) -> int:
        """The arm with the largest index."""
        found = [self.model.predict_one(dict(zip(self.names, a, strict=True)), with_dist=True) for a in arms.tolist()]
        return int(np.argmax([f.mu + RADIUS * f.sigma for f in found]))

    def learn(self, x: Any, reward: float) -> None:
        """One observation."""
        self.model.learn_one(dict(zip(self.names, x.tolist(), strict=True)), reward)


PLAYERS: dict[str, Any] = {
    "bayesianbandits": BayesianBandits,
    "coba": Coba,
    "contextualbandits": ContextualBandits,
    "mabwiser": Mabwiser,
    "river": River,
}


def play(
    library: str, dim: int, num_arms: int, num_rounds: int, fresh: bool, seconds: float, seed: int
) -> dict[str, Any]:
    """Play seeds of ``num_rounds`` rounds until the time is over; the last one may be cut short."""
    draw = np.random.default_rng(seed)

    def unit(shape: tuple[int, ...]) -> Any:
        z = draw.standard_normal(shape)
        return z / np.sqrt((z * z).sum(-1, keepdims=True))

    first_player, first_arms = PLAYERS[library](dim, num_arms), unit((num_arms, dim))
    first_player.learn(first_arms[first_player.choose(first_arms)], 0.0)  # what is imported late is imported now

    rounds, regret, first = 0, 0.0, None  # first: the regret of the first seed
    start, busy = time.perf_counter(), time.process_time()
    while True:
        player, theta, arms = PLAYERS[library](dim, num_arms), unit((dim,)), unit((num_arms, dim))
        for _ in range(num_rounds):
            if fresh:
                arms = unit((num_arms, dim))
            mean = arms @ theta
            action = player.choose(arms)
            reward = mean[action] + NOISE_STD * (1 if draw.random() < 0.5 else -1)
            player.learn(arms[action], float(reward))
            rounds += 1
            regret += mean.max() - mean[action]
            passed = time.perf_counter() - start
            if passed > seconds:
                return {
                    "library": library,
                    "version": importlib.metadata.version(library),
                    "rate": rounds / passed,
                    "cpu_rate": rounds / (time.process_time() - busy),
                    "regret": regret if first is None else first,
                }
        first = regret if first is None else first


if __name__ == "__main__":
    print(json.dumps(play(**json.loads(sys.argv[1]))))
