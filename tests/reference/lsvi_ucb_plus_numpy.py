"""LSVI-UCB++ (He, Zhao, Zhou, Gu 2023) as published, in values that reach H, from the list of all steps.

    lam = 1 / H^2,  l = ln(d H K / (delta lam))
    beta      = H sqrt(d lam) + sqrt(d l^2)
    betabar   = H sqrt(d lam) + sqrt(d^3 H^2 l^2)
    betatilde = H^2 sqrt(d lam) + sqrt(d^3 H^4 l^2)

    for h = H .. 1:
        what, wcheck, w2 = Sigma_h^-1 sum_i sigmabar_i^-2 phi_i (V_{h+1}, Vcheck_{h+1}, V_{h+1}^2)(s'_i)
        if det Sigma_h' >= 2 det Sigma_h' at the last switch, for some h':
            Q_h      = min(r + phi'what + beta n, Q_h, H),           n = |phi|_{Sigma^-1}
            Qcheck_h = max(r + phi'wcheck - betabar n, Qcheck_h, 0)
    sigma^2  = [phi'w2]_{[0,H^2]} - [phi'what]_{[0,H]}^2 + E + D + H
    E        = min(betatilde n, H^2) + min(2 H betabar n, H^2)
    D        = min(4 d^3 H^2 (phi'(what - wcheck) + 2 betabar n), d^3 H^3)
    sigmabar = max(sigma, sqrt H, 2 d^3 H^2 sqrt n)

Rewards are multiplied by H / Vmax, and what is compared is divided by it. The multipliers of the radii's logarithms and
of what has the factor d^3 in sigmabar are added. All stages share Sigma and the sums, or each has its own; n and the
estimates are those of the episode's start. Stages are counted from 0.
"""

import math

import numpy as np

from .lsvi_ucb_numpy import features_or_pairs
from .ties_numpy import argmax_with_ties


class Twin:
    """LSVI-UCB++ one episode at a time, for `tests/algorithms/test_twin_interface.py`."""

    def __init__(
        self,
        *,
        num_episodes: float,
        delta: float,
        value_bound: float,
        beta_scale: float,
        floor_scale: float,
        lam: float,
        per_stage: bool,
        ties: str,
        tie_tolerance: float,
    ):
        self.num_episodes, self.delta, self.largest, self.given_lam = num_episodes, delta, value_bound, lam
        self.scale, self.floor, self.per_stage = beta_scale, floor_scale, per_stage
        self.ties, self.tie_tolerance = ties, tie_tolerance
        self.steps: list[tuple[int, int, int, int, float]] = []  # stage, state, action, next state, sigmabar
        self.q: np.ndarray | None = None

    def of_stage(self, h: int) -> list[tuple[int, int, int, int, float]]:
        return [step for step in self.steps if step[0] == h or not self.per_stage]

    def gram(self, h: int) -> np.ndarray:
        total = self.lam * np.eye(self.features.shape[2])
        for _, s, a, _, sigma in self.of_stage(h):
            total += np.outer(self.features[s, a], self.features[s, a]) / sigma**2
        return total

    def plan(
        self, phi: np.ndarray, reward: np.ndarray, horizon: int, u: np.ndarray, features: np.ndarray | None = None
    ) -> np.ndarray:
        self.features = features_or_pairs(features, reward)
        (S, A), H, d = reward.shape, horizon, self.features.shape[2]
        self.unit, self.num_states = self.largest / H, S
        reward = reward / self.unit
        self.lam = self.given_lam * self.unit**2
        log = math.log(d * H * self.num_episodes / (self.delta * self.lam))
        beta = H * math.sqrt(d * self.lam) + self.scale * math.sqrt(d * log**2)
        betabar = H * math.sqrt(d * self.lam) + self.scale * math.sqrt(d**3 * H**2 * log**2)
        betatilde = H**2 * math.sqrt(d * self.lam) + self.scale * math.sqrt(d**3 * H**4 * log**2)
        if self.q is None:
            self.q, self.low = np.full((H, S, A), float(H)), np.zeros((H, S, A))
            self.last = [d * math.log(self.lam)] * H
        grams = [self.gram(h) for h in range(H)]
        log_dets = [float(np.linalg.slogdet(gram)[1]) for gram in grams]
        self.switched = any(log_dets[h] - self.last[h] >= math.log(2) - self.tie_tolerance for h in range(H))
        if self.switched:
            self.last = log_dets
        value, low_value, policy = np.zeros(S), np.zeros(S), np.zeros((H, S), dtype=int)
        self.sigma = np.zeros((H, S, A))
        for h in reversed(range(H)):
            inverse, what, wcheck, w2 = np.linalg.inv(grams[h]), np.zeros(d), np.zeros(d), np.zeros(d)
            for _, s, a, after, sigma in self.of_stage(h):
                what += self.features[s, a] * value[after] / sigma**2
                wcheck += self.features[s, a] * low_value[after] / sigma**2
                w2 += self.features[s, a] * value[after] ** 2 / sigma**2
            what, wcheck, w2 = inverse @ what, inverse @ wcheck, inverse @ w2
            for s in range(S):
                for a in range(A):
                    x = self.features[s, a]
                    n = math.sqrt(x @ inverse @ x)
                    if self.switched:
                        self.q[h, s, a] = min(reward[s, a] + x @ what + beta * n, self.q[h, s, a], H)
                        self.low[h, s, a] = max(reward[s, a] + x @ wcheck - betabar * n, self.low[h, s, a], 0)
                    variance = min(max(x @ w2, 0), H**2) - min(max(x @ what, 0), H) ** 2
                    E = min(betatilde * n, H**2) + min(2 * H * betabar * n, H**2)
                    D = min(4 * d**3 * H**2 * (x @ (what - wcheck) + 2 * betabar * n), d**3 * H**3) * self.floor
                    sigma = math.sqrt(max(variance + E + D + H, 0))
                    self.sigma[h, s, a] = max(sigma, math.sqrt(H), self.floor * 2 * d**3 * H**2 * math.sqrt(n))
                ours = self.q[h, s] * self.unit
                policy[h, s], _ = argmax_with_ties(ours, np.ones(A, bool), u[h, s], self.ties, self.tie_tolerance)
            value, low_value = self.q[h].max(axis=1), self.low[h].max(axis=1)
        return policy

    def update(self, stage: int, state: int, action: int, next_state: int, reward: float) -> None:
        sigma = float(self.sigma[stage, state, action])
        self.steps.append((int(stage), int(state), int(action), int(next_state), sigma))

    def estimates(self) -> dict[str, np.ndarray]:
        """The inverses, the sums over next states, both kinds of values and the last weight, in our unit."""
        groups, inverses, moments = len(self.q) if self.per_stage else 1, [], []
        for h in range(groups):
            inverses.append(np.linalg.inv(self.gram(h)) * self.unit**2)
            sums = np.zeros((self.features.shape[2], self.num_states))
            for _, s, a, after, sigma in self.of_stage(h):
                sums[:, after] += self.features[s, a] / sigma**2
            moments.append(sums / self.unit**2)
        return {
            "regression.ridge.sigma_inv": np.array(inverses),
            "regression.moments": np.array(moments),
            "q": self.q * self.unit,
            "low": self.low * self.unit,
            "weight": np.array(1 / (self.steps[-1][4] * self.unit)),
        }
