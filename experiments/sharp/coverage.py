"""How often the radius ``sharp`` holds: the bank of ``jaxvar calibrate``, played with it by SAVE, AVE-UCB and UCRL-AVE.

A case is an algorithm on an instance, or one layer that learns from a stream of the audit. Of every seed and layer the
largest ratio of error to radius over all rounds is kept, in one file per case: a run that was interrupted plays what is
missing.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random
from jaxvar.constants import SETTINGS
from jaxvar.files import write_whole
from jaxvar.game import is_episodic
from jaxvar.parameters import Array, pytree
from jaxvar.simulate import simulate
from jaxvar.study.factories import in_precision
from jaxvar.theory.calibration import Case, bank, bank_file
from jaxvar.theory.running_max import play_blocks
from jaxvar.theory.sharp_layer import Filled, play_layer
from jaxvar.theory.sharp_layer import cases as streams

DELTA = 0.01
KEY = 11  # not the calibration's, so that its seeds are others
PLAYERS = ("SAVE, optimistic", "AVE-UCB", "UCRL-AVE")  # with the widest arm SAVE's choices hardly depend on rewards
LENGTHS = {"bandit": 100, "episodes": 5}  # rounds or episodes: what 100,000 seeds of all cases can afford
STREAM_LENGTHS = {1: 60, 2: 200, 3: 1200}  # by layer: until it is full, or nearly
OTHER_LENGTHS = {"d = 2, noise at R": 400, "d = 20, noise at R": 50, "lower bound, d = 4": 20}


class Slack(NamedTuple):
    """Memory of the recorder for one seed."""

    noise_loss: jax.Array  # [layers]   sum w^2 (y - <theta*, x>)^2
    learned: jax.Array  # [layers]   bool
    ratio2: jax.Array  # [layers]   the largest error^2 / radius^2 so far; 0 while a layer has learned nothing


@pytree
class SlackRecorder:
    """A recorder of the largest ``|theta_hat - theta*|_Sigma / beta`` of each layer, after it has learned."""

    name = "slack"

    def init(self, algorithm: Any, instance: object) -> Slack:
        """Return no loss and no ratio yet."""
        zero = jnp.zeros(algorithm.capacity)
        return Slack(zero, zero > 0, zero)

    def update(self, memory: Slack, event: Any, algorithm: Any, instance: Any) -> Slack:
        """Compare error and radius of every layer; the identity is that of ``jaxvar.records.ConfidenceEvent``."""
        layers, noise = event.layer.reshape(-1), (event.weight * (event.reward - event.mean)).reshape(-1)
        here = np.arange(1, memory.ratio2.shape[0] + 1, dtype=np.int32)[:, None] == layers[None]
        noise_loss = memory.noise_loss + jnp.sum(jnp.where(here, (noise * noise)[None], 0), axis=1)
        learned = memory.learned | jnp.any(here, axis=1)
        shape, theta_star = algorithm.confidence(event.state), instance.theta_star
        error2 = noise_loss + shape.ridge * jnp.sum(theta_star * theta_star, axis=0) - shape.loss
        ratio2 = jnp.where(learned, jnp.maximum(error2, 0) / shape.beta_hat**2, 0)
        return Slack(noise_loss, learned, jnp.maximum(memory.ratio2, ratio2))

    def read(self, memory: Slack) -> jax.Array:
        """Return the largest ratio of each layer, [layers]."""
        return jnp.sqrt(memory.ratio2)


@dataclasses.dataclass(frozen=True)
class Covered:
    """The slack of one case."""

    about: Mapping[str, Any]  # player, instance, length, seeds, delta, key, config
    ratio: Array  # [seeds, layers]   the largest error / radius; 0 where a layer has learned nothing

    @property
    def held(self) -> int:
        """Seeds in which every radius of every layer held in every round."""
        return int(np.sum(np.all(self.ratio <= 1, axis=1)))


def length_of(setting: str, instance: str, longer: float) -> int:
    """Return rounds or episodes of an instance."""
    return max(2, round(longer * OTHER_LENGTHS.get(instance, LENGTHS[setting])))


def bank_cases(setting: str, longer: float) -> list[Case]:
    """Return the cases of a setting, each with its own length."""
    cases = []
    for length in sorted({length_of(setting, i["label"], longer) for i in bank_file()[setting]["instances"]}):
        found = bank(setting, delta=DELTA, length=length, shape={"preset": "sharp"})
        cases += [c for c in found if c.player in PLAYERS and c.length == length_of(setting, c.instance, longer)]
    return cases


def play_case(case: Case, seeds: int) -> Array:
    """Return the largest ratio of every seed and layer, [seeds, layers]."""
    length = {"num_episodes" if is_episodic(case.environment) else "num_rounds": case.length}
    out = simulate(
        case.algorithm,
        case.environment,
        key=jax.random.key(KEY),
        num_seeds=seeds,
        record_at=[case.length],
        recorders=(SlackRecorder(),),
        **length,
    )
    out.raise_if_failed()
    return np.asarray(out.records["slack"][:, -1])


def play_stream(number: int, filled: Filled, length: int, seeds: int) -> Array:
    """Return the largest ratio of every seed in the layer that is filled, [seeds, layers]."""
    play = functools.partial(play_layer, filled=filled, num_rounds=length, delta=DELTA, keys=("radius",))
    rows = play_blocks(play, random.fold_in(jax.random.key(KEY), number), seeds)
    ratio = np.zeros((seeds, filled.stream.layer))
    ratio[:, -1] = np.maximum(rows[:, 0, 0], 0)
    return ratio


def jobs(seeds: int, longer: float) -> Iterator[tuple[dict[str, Any], Callable[[], Array]]]:
    """Yield what describes each case, and a function that plays it."""
    for setting in SETTINGS:
        for case in bank_cases(setting, longer):
            size = {"length": case.length, "seeds": seeds, "delta": DELTA, "key": KEY}
            about = {"player": case.player, "instance": case.instance, **size, "config": case.config}
            yield about, functools.partial(play_case, case, seeds)
    for number, filled in enumerate(streams()):
        length = max(2, round(longer * STREAM_LENGTHS[filled.stream.layer]))
        size = {"length": length, "seeds": seeds, "delta": DELTA, "key": KEY}
        about = {"player": "one layer", "instance": filled.name, **size, "config": {"norm": filled.norm}}
        yield about, functools.partial(play_stream, number, filled, length, seeds)


def cover(out: Path, seeds: int, longer: float = 1.0) -> list[Covered]:
    """Play the cases that ``out`` does not hold yet, in float64, and return all of them."""
    out.mkdir(parents=True, exist_ok=True)
    found = []
    with in_precision("float64"):
        for number, (about, play) in enumerate(jobs(seeds, longer)):
            path = out / f"case_{number:02}.npz"
            if not path.exists() or json.loads(str(np.load(path)["about"])) != about:
                ratio = play().astype(np.float32)
                text = json.dumps(about)
                write_whole(path, lambda file, r=ratio, t=text: np.savez_compressed(file, about=t, ratio=r))
                print(f"{about['player']}, {about['instance']}: largest ratio {ratio.max():.3f}", flush=True)
            found.append(Covered(about, np.load(path)["ratio"]))
    return found
