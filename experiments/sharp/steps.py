"""What each step of the proof in docs/sharp.md takes off the radius, on layers as they are after a run of AVE-UCB.

Every step is computed of the same recorded layers: number, least loss, weights and count. No regret is compared. A step
adds one idea to the one before it; the last is the preset ``sharp`` itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxvar as jv
from jaxvar import ridge, sharp
from jaxvar.constants import RadiusConstants
from jaxvar.parameters import pytree
from jaxvar.study.factories import in_precision
from jaxvar.tables import Column, Table
from jaxvar.theory.sharp_layer import lemma_4

DIM, ROUNDS, SEEDS, DELTA, KEY = 2, 20_000, 200, 0.01, 12
LEVELS = (0.0, 0.1, 1.0)  # sigma of the noise, of two values; R = 1
LAYERS = 5  # that this many rounds reach
MOST = 12  # m of Lemma 4 that are looked through
Array = np.ndarray[Any, Any]


class Sums(NamedTuple):
    """One layer after the last round, of the seeds in which it has learned."""

    number: int
    loss: Array  # [seeds]
    variance: Array  # [seeds]   the empirical variance sum
    weight: Array  # [seeds]
    count: Array  # [seeds]

    @property
    def q(self) -> float:
        """``4^-l``."""
        return 4.0**-self.number

    @property
    def log(self) -> float:
        """``log(1 / delta)`` with the layer's share of delta."""
        return math.log(self.number * (self.number + 1) / DELTA)


def by_printed(sums: Sums, constants: RadiusConstants) -> Array:
    """Return the radius of the printed form after the last round."""
    num_layers = math.ceil(1.5 * math.log2(ROUNDS))
    logs = (math.log(4 * (ROUNDS + shift) ** 2 * num_layers / DELTA) for shift in (0.0, float(constants.log_shift)))
    return np.asarray(ridge.radius(np.full_like(sums.loss, sums.q), *sums[2:], constants, 1.0, *logs))


def by_noise(sums: Sums, log: float) -> Array:
    """Return the larger root D of ``(D - rho)^2 = (q (L + D^2) + 2 R^2 log) / (1 + q)``."""
    q, rho = sums.q, math.sqrt(sums.q)
    a, b, c = 1 / (1 + q), -2 * rho, q - (q * sums.loss + 2 * log) / (1 + q)
    return np.asarray((-b + np.sqrt(b * b - 4 * a * c)) / (2 * a))


def lemma_2(sums: Sums, share: float = 1.0) -> Array:
    """Return the bound of Lemma 2 with a share of the layer's delta."""
    return np.asarray(np.sqrt(sums.q * (1 + sums.loss) + 2 * (sums.log - math.log(share))))


def with_lemma_4(sums: Sums, num: int) -> Array:
    """Return the lesser of Lemma 2 and Lemma 4 with the first ``num`` values of b, each with its share of delta."""
    if sums.number < 3:
        return lemma_2(sums)
    best = lemma_2(sums, 0.5) ** 2
    level = np.maximum(np.ceil(0.5 * np.log2(1 + sums.loss)), 1)
    for j, bend in enumerate(sharp.BENDS[:num]):
        share = 0.5 / ((j + 1) * (j + 2)) if num > 1 else 0.5
        for m in range(1, MOST + 1):
            delta = math.exp(-sums.log) * share / (m * (m + 1))
            bound, exists = map(np.asarray, lemma_4(sums.q, jnp.asarray(sums.loss), bend, m, delta))
            best = np.where((level == m) & exists, np.minimum(best, bound), best)
    return np.asarray(np.sqrt(best))


STEPS: dict[str, tuple[str, Callable[[Sums], Array]]] = {
    "as printed (paper)": ("up to a slip", lambda s: by_printed(s, jv.constants.paper())),
    "the smallest constants of that proof (tight)": ("up to a peeling", lambda s: by_printed(s, jv.constants.tight())),
    "the drift kept, a union over rounds": ("yes", lambda s: by_noise(s, s.log + math.log(ROUNDS * (ROUNDS + 1)))),
    "all rounds at once": ("yes", lambda s: by_noise(s, s.log)),
    "Lemma 2: the error itself": ("yes", lemma_2),
    "and Lemma 4 with b = 0.7": ("yes", functools.partial(with_lemma_4, num=1)),
    "and four values of b (sharp)": ("yes", functools.partial(with_lemma_4, num=len(sharp.BENDS))),
}


@pytree
class LayerSums:
    """A recorder of the sums that radii are made of, [layers, 4]."""

    name = "sums"

    def init(self, algorithm: Any, instance: object) -> jax.Array:
        """Return zeros."""
        return jnp.zeros((algorithm.capacity, 4))

    def update(self, memory: jax.Array, event: Any, algorithm: object, instance: object) -> jax.Array:
        """Return the layers' sums after the round."""
        layers = event.state.layers
        variance = ridge.empirical_variance(layers)
        return jnp.stack([layers.loss, variance, layers.weight_sum, layers.count.astype(memory.dtype)], axis=1)

    def read(self, memory: jax.Array) -> jax.Array:
        """Return the sums, [layers, 4]."""
        return memory


def recorded(level: float, rounds: int = ROUNDS, seeds: int = SEEDS) -> list[Sums]:
    """Play AVE-UCB with the preset ``sharp`` and return its layers after the last round."""
    algorithm = jv.ave_ucb(DIM, rounds, delta=DELTA, constants="sharp")
    environment = jv.linear_bandit(DIM, 20, noise=jv.noise.two_point(level))
    size = {"num_rounds": rounds, "num_seeds": seeds, "record_at": 1}
    out = jv.simulate(algorithm, environment, key=jax.random.key(KEY), recorders=(LayerSums(),), **size)
    out.raise_if_failed()
    found = []
    for i, layer in enumerate(np.moveaxis(out.records["sums"][:, -1], 1, 0)):  # [seeds, 4]
        learned = layer[layer[:, 3] > 0]
        found.append(Sums(i + 1, *learned.T))
    return [sums for sums in found if len(sums.loss)]


def steps_table() -> Table:
    """Return the mean radius of every layer by step, for each noise level."""
    rows = []
    with in_precision("float64"):
        for level in LEVELS:
            layers = {sums.number: sums for sums in recorded(level)}
            for name, (proved, radius) in STEPS.items():
                means = [float(radius(layers[n]).mean()) if n in layers else None for n in range(1, LAYERS + 1)]
                rows.append((f"{level:g}", name, proved, *means))
    columns = (Column("sigma"), Column("radius"), Column("proved"))
    caption = (
        f"Radius of each layer after {ROUNDS:,} rounds of AVE-UCB with the preset sharp, d = {DIM}, 20 arms on the "
        f"sphere, R = 1, delta = {DELTA:g}: the mean over those of {SEEDS} seeds in which the layer has learned. All "
        "lines are computed of the same recorded losses, weights and counts; each adds one idea to the line before it."
    )
    return Table(caption, (*columns, *(Column(f"layer {n}", "number") for n in range(1, LAYERS + 1))), tuple(rows))
