"""Rival in NumPy: one seed at a time, incremental algebra, widths of fixed arms cached; UCRL-AVE stands below.

A layer is kept in scaled form: `sigma_inv` is q times the inverse of Sigma, q = 4^-l, and starts at the identity. With
s = x' sigma_inv x the squared width is s / q. OFUL is one such layer with q = 1. Layers are 0-based: l = layer + 1.

UCRL-AVE plays one given linear mixture MDP, all (s, a) pairs at once. There sigma_inv starts at I / lam, and only
layers that have data are kept; all others share one bound.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from experiments.speed.numpy_vector import CAPACITY, TOLERANCE, Array, Setting

BLOCK = 64  # rounds whose arms are drawn together
SCALE = 0.1  # multiplier of the practical radius of UCRL-AVE


class Layer:
    """Ridge regression, with s and pred = <x, theta> of the arms in view; `learn` updates them where arms stay."""

    def __init__(self, dim: int, arms: Array, level: int = 0) -> None:
        self.arms, self.q = arms, 0.25**level
        self.sigma_inv, self.theta = np.eye(dim), np.zeros(dim)
        self.s, self.pred = np.ones(len(arms)), np.zeros(len(arms))
        self.loss, self.last = 0.0, 0
        self._outer, self._ones = np.empty((dim, dim)), np.ones(dim)

    def look(self, arms: Array) -> None:
        """Put new arms in view."""
        self.arms = arms
        forms = arms.dot(self.sigma_inv)
        forms *= arms
        self.s, self.pred = forms.dot(self._ones), arms.dot(self.theta)

    def index(self, radius: float) -> Array:
        """Upper confidence bounds; `radius` multiplies sqrt(s)."""
        index = np.sqrt(self.s)
        index *= radius
        index += self.pred
        return index

    def learn(self, arm: int, gain: float, reward: float, stay: bool) -> None:
        """Learn the reward of an arm, with error e.

        sigma_inv -= gain u u' and theta += gain e u; where arms stay, s -= gain g^2 and pred += gain e g, g = <x, u>.
        """
        u = self.sigma_inv.dot(self.arms[arm])
        error = reward - self.pred.item(arm)
        step = gain * u
        np.multiply(step[:, None], u, out=self._outer)
        self.sigma_inv -= self._outer
        self.loss += self.q * gain * error * error
        if stay:
            g = self.arms.dot(u)
            move = gain * g
            g *= move
            self.s -= g
            move *= error
            self.pred += move
        step *= error
        self.theta += step

    def learn_weighted(self, arm: int, reward: float, k: int, stay: bool) -> None:
        """Learn in round k with the weight that gives the arm width 2^-l."""
        self.learn(arm, self.q / (1.0 + self.q) / self.s.item(arm), reward, stay)
        self.last = k

    def radius(self, setting: Setting) -> float:
        """Practical radius."""
        if self.last == 0:
            return 2.0 * math.sqrt(self.q)
        bound, log_term = setting.noise_bound, math.log(4.0 * self.last**2 * setting.num_layers / setting.delta)
        variance = max(0.0, self.loss - self.q * self.theta.dot(self.theta).item())
        root = math.sqrt((2.0 * variance + bound * bound * log_term / 8.0) * log_term)
        return math.sqrt(self.q) * (1.0 + 0.1 * (3.15 * root + 1.73 * bound * log_term))


def _sphere(rng: np.random.Generator, *shape: int) -> Array:
    """Uniform draws from the unit sphere."""
    x = rng.standard_normal(shape)
    x /= np.sqrt(np.einsum("...i,...i->...", x, x))[..., None]
    return x


def _rounds(setting: Setting, rng: np.random.Generator) -> Iterator[tuple[Array, Array, float, float]]:
    """Arms [arms, dim], their mean rewards, the best of these and the noise, of one round after the other."""
    theta_star = _sphere(rng, setting.dim)
    noise = np.where(rng.random(setting.num_rounds) < 0.5, setting.noise_std, -setting.noise_std).tolist()
    block = BLOCK if setting.fresh else setting.num_rounds
    for first in range(0, setting.num_rounds, block):
        part = noise[first : first + block]
        arms = _sphere(rng, len(part) if setting.fresh else 1, setting.num_arms, setting.dim)
        mean = arms.dot(theta_star)
        views = list(zip(arms, mean, mean.max(axis=1).tolist(), strict=True))
        for i, eps in enumerate(part):
            yield *views[i if setting.fresh else 0], eps


def _best(values: Array) -> int:
    """Lowest index among the values that tie with the largest."""
    top = values.item(values.argmax())
    return int((values >= top - TOLERANCE * max(1.0, abs(top))).argmax())


def _oful(setting: Setting, rng: np.random.Generator) -> float:
    """Regret of OFUL with lambda = 1 in one seed."""
    layer: Layer | None = None
    confidence, log_det, regret = 2.0 * math.log(1.0 / setting.delta), 0.0, 0.0
    for arms, mean, best, noise in _rounds(setting, rng):
        layer = layer or Layer(setting.dim, arms)
        if setting.fresh:
            layer.look(arms)
        arm = _best(layer.index(setting.noise_bound * math.sqrt(confidence + log_det) + 1.0))
        regret += best - mean.item(arm)
        growth = 1.0 + layer.s.item(arm)
        log_det += math.log(growth)
        layer.learn(arm, 1.0 / growth, mean.item(arm) + noise, not setting.fresh)
    return regret


def _layer_at(layers: list[Layer], level: int, setting: Setting, arms: Array) -> Layer:
    """The stored layer, made when first asked for."""
    if level == CAPACITY:
        raise RuntimeError(f"a seed needs more than {CAPACITY} layers")
    if level == len(layers):
        layers.append(Layer(setting.dim, arms, level + 1))
    return layers[level]


def _save(setting: Setting, rng: np.random.Generator) -> float:
    """Regret of SAVE in one seed.

    Where arms stay, a layer once passed is never visited again: nothing changes it nor the arms it lets pass. A round
    then begins where the last one ended.
    """
    layers: list[Layer] = []
    level, regret, alpha = 0, 0.0, setting.alpha
    x = m = np.empty(0)
    for k, (arms, mean, best, noise) in enumerate(_rounds(setting, rng), 1):
        if setting.fresh or k == 1:
            x, m, level = arms, mean, 0
        while True:
            layer = _layer_at(layers, level, setting, x)
            if setting.fresh:
                layer.look(x)
            q, s = layer.q, layer.s
            top = s.item(s.argmax())
            certain = top <= q * alpha * alpha
            if top > q * q and not certain:
                width = math.sqrt(top / q)
                least = q * (width - TOLERANCE * max(1.0, width)) ** 2
                arm = int((s >= max(least, math.nextafter(q * q, 1.0))).argmax())
                break
            beta = layer.radius(setting)
            if certain:
                arm = _best(layer.index(beta / math.sqrt(q)))
                break
            keep = layer.pred >= layer.pred.max() - 2.0 * math.sqrt(q) * beta
            x, m, level = x[keep], m[keep], level + 1
        regret += best - m.item(arm)
        if not certain:
            layer.learn_weighted(arm, m.item(arm) + noise, k, not setting.fresh)
    return regret


def _ave_ucb(setting: Setting, rng: np.random.Generator) -> float:
    """Regret of AVE-UCB in one seed. A layer that has seen nothing bounds every unit arm by 2."""
    layers: list[Layer] = []
    beta, index, regret = [0.0] * CAPACITY, [np.empty(0)] * CAPACITY, 0.0
    changed: Layer | None = None
    for k, (arms, mean, best, noise) in enumerate(_rounds(setting, rng), 1):
        value = np.full(setting.num_arms, 2.0 if len(layers) < setting.num_layers else math.inf)
        for level, layer in enumerate(layers):
            if setting.fresh:
                layer.look(arms)
            if setting.fresh or layer is changed:
                index[level] = layer.index(beta[level] / math.sqrt(layer.q))
            np.minimum(value, index[level], out=value)
        arm = _best(value)
        regret += best - mean.item(arm)
        level = next((i for i, layer in enumerate(layers) if layer.s.item(arm) >= layer.q**2), len(layers))
        if level < setting.num_layers:
            changed = _layer_at(layers, level, setting, arms)
            changed.learn_weighted(arm, mean.item(arm) + noise, k, not setting.fresh)
            beta[level] = changed.radius(setting)
    return regret


def _rival(one_seed: Callable[[Setting, np.random.Generator], float]) -> Callable[..., Array]:
    """The public function that runs `one_seed` for all seeds."""

    def run(
        *,
        dim: int,
        num_arms: int,
        num_rounds: int,
        num_seeds: int,
        fresh: bool,
        seed: int,
        noise_std: float = 0.5,
        noise_bound: float = 1.0,
        delta: float = 0.01,
    ) -> Array:
        """Final cumulative pseudo-regret of every seed, [num_seeds]."""
        setting = Setting(dim, num_arms, num_rounds, fresh, noise_std, noise_bound, delta)
        children = np.random.SeedSequence(seed).spawn(num_seeds)
        return np.array([one_seed(setting, np.random.Generator(np.random.SFC64(child))) for child in children])

    return run


oful = _rival(_oful)
save = _rival(_save)
ave_ucb = _rival(_ave_ucb)


class MixtureLayer:
    """Weighted ridge regression with the constant gain q / (1 + q)."""

    def __init__(self, number: int, dim: int, lam: float) -> None:
        self.q, self.lam = 0.25**number, lam
        self.sigma_inv, self.theta, self.loss = np.eye(dim) / lam, np.zeros(dim), 0.0

    def slope(self, log: float) -> float:
        """The radius over 2^-l: what multiplies sqrt(s)."""
        emp = max(self.loss - self.q * self.lam * self.theta.dot(self.theta), 0.0)
        return SCALE * (3.15 * math.sqrt((2.0 * emp + log / 8.0) * log) + 1.73 * log) + 1.0

    def bound(self, x: Array, log: float) -> Array:
        """Upper confidence bounds of the rows of x."""
        forms = np.einsum("nd,nd->n", x.dot(self.sigma_inv), x)
        return np.asarray(x.dot(self.theta) + self.slope(log) * np.sqrt(forms))

    def learn(self, x: Array, y: float) -> None:
        """One observation with the layer's weight."""
        u = self.sigma_inv.dot(x)
        gain = self.q / ((1.0 + self.q) * x.dot(u))
        error = y - x.dot(self.theta)
        self.sigma_inv -= gain * np.outer(u, u)
        self.theta += gain * error * u
        self.loss += self.q * gain * error * error


def model_numbers(
    phi: Array, reward: Array, theta_star: Array, horizon: int, num_episodes: int, delta: float
) -> tuple[Array, float, int, Array]:
    """Return transition probabilities, the optimal value of state 0, the number of layers, and the logs [episodes]."""
    transition = phi @ theta_star
    best = np.zeros(len(reward))
    for _ in range(horizon):
        best = (reward + transition @ best).max(axis=1)
    num_layers = max(1, math.ceil(1.5 * math.log2(num_episodes * horizon)))
    logs = np.log(4.0 * np.arange(1, num_episodes + 1) ** 2 * horizon**2 * num_layers / delta)
    return transition, float(best[0]), num_layers, logs


def ucrl_ave(
    phi: Array,
    reward: Array,
    theta_star: Array,
    *,
    horizon: int,
    num_episodes: int,
    num_seeds: int,
    norm_bound: float,
    delta: float,
    seed: int,
) -> Array:
    """Cumulative regret of every seed after all episodes, [num_seeds]."""
    transition, best, num_layers, logs = model_numbers(phi, reward, theta_star, horizon, num_episodes, delta)
    rngs = np.random.default_rng(seed).spawn(num_seeds)
    worths = (_play_episodes(phi, reward, transition, horizon, logs, num_layers, norm_bound, rng) for rng in rngs)
    return np.array([num_episodes * best - worth for worth in worths])


def _play_episodes(
    phi: Array,
    reward: Array,
    transition: Array,
    horizon: int,
    logs: Array,
    num_layers: int,
    norm_bound: float,
    rng: np.random.Generator,
) -> float:
    """The sum of the values of all policies that one seed plays."""
    num_states, num_actions, _, dim = phi.shape
    by_next = np.ascontiguousarray(np.moveaxis(phi, 2, 3).reshape(-1, num_states))  # [S A d, S]
    cdf, states = np.cumsum(transition, axis=2), np.arange(num_states)
    layers: dict[int, MixtureLayer] = {}
    total = 0.0
    for log in logs:
        empty = norm_bound * (SCALE * (3.15 * math.sqrt(log / 8.0 * log) + 1.73 * log) + 1.0)
        value, worth = np.zeros((horizon + 1, num_states)), np.zeros(num_states)
        policy = np.zeros((horizon, num_states), int)
        features = np.zeros((horizon, num_states * num_actions, dim))
        for h in range(horizon - 1, -1, -1):
            x = features[h] = by_next.dot(value[h + 1]).reshape(-1, dim)
            upper = empty * np.sqrt(np.einsum("nd,nd->n", x, x))
            for layer in layers.values():
                np.minimum(upper, layer.bound(x, log), out=upper)
            q = np.clip(reward + upper.reshape(num_states, num_actions), 0.0, 1.0)
            value[h] = q.max(axis=1)
            bar = value[h] - TOLERANCE * np.maximum(1.0, np.abs(value[h]))
            policy[h] = np.argmax(q >= bar[:, None], axis=1)
            worth = reward[states, policy[h]] + np.einsum("st,t->s", transition[states, policy[h]], worth)
        total += worth[0]
        state = 0
        for h, u in enumerate(rng.random(horizon)):
            action = policy[h, state]
            x = features[h, state * num_actions + action]
            following = min(int(np.searchsorted(cdf[state, action], u, side="right")), num_states - 1)
            _learn_step(layers, x, value[h + 1, following], num_layers, norm_bound)
            state = following
    return total


def _learn_step(layers: dict[int, MixtureLayer], x: Array, y: float, num_layers: int, norm_bound: float) -> None:
    """Learn in the lowest layer where x is wide enough, if there is one."""
    square = float(x.dot(x)) * norm_bound**2
    if square == 0.0:
        return
    for number in range(1, num_layers + 1):
        q, layer = 0.25**number, layers.get(number)
        s = square if layer is None else float(x.dot(layer.sigma_inv).dot(x))
        if s >= q * q:
            if layer is None:
                layer = layers[number] = MixtureLayer(number, len(x), 1.0 / norm_bound**2)
            layer.learn(x, y)
            return
