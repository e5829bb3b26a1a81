"""Plays the same simulations on a given number of CPU devices; run by test_devices in an interpreter of its own.

Arguments: file for the results, number of devices (or "tuned" for tune_cpu), chunk (0 to have it chosen).
"""

import os
import sys

import jax
import numpy as np
from jax.sharding import Mesh

import jaxvar as jv
from jaxvar import engine
from tests.helpers.programs import watched

COLLECTIVES = ("all-reduce", "all-gather", "collective-permute", "all-to-all", "reduce-scatter", "collective-broadcast")


def in_stretches(algorithm, environment, num_rounds, chunk):
    """Regret of the first chunk, played by the engine itself in two stretches over all devices."""
    made = engine.Program(
        algorithm=algorithm,
        environment=environment,
        key_data=np.asarray(jv.random.key_words(jax.random.key(5))),
        rounds=jv.linear_spaced(num_rounds, 8),
        recorders=(jv.record.regret(),),
        chunk=chunk,
        mesh=Mesh(np.array(jax.devices()), ("runs",)),
    )
    ids = np.stack([np.zeros(chunk), np.zeros(chunk), np.arange(chunk)]).astype(np.int32)
    held = made.advance(made.advance(None, ids, 1, 33), ids, 34, num_rounds - 33)
    assert len(held.store["regret"].sharding.device_set) == jax.device_count()
    return np.asarray(held.store["regret"])[:, :-1]


def main(path, devices, chunk):
    if devices == "tuned":
        jv.tune_cpu()
    else:
        jax.config.update("jax_num_cpu_devices", int(devices))
    jax.config.update("jax_enable_x64", True)
    num_rounds, constants = 80, jv.constants.practical()
    fixed, fresh = (jv.linear_bandit(2, 4, noise=jv.noise.two_point(0.3), fresh=f) for f in (False, True))
    out = {"devices": jax.local_device_count(), "flags": os.environ.get("XLA_FLAGS", "")}
    games = {
        "save": (jv.save(2, num_rounds, constants=constants, capacity=3), fixed),
        "ave_ucb": (jv.ave_ucb(2, num_rounds, constants=constants, capacity=3), fresh),
        "oful": (jv.oful(2), fixed),
    }
    episodic = jv.mixture_mdp(4, 3, 2, 3, concentration=1.0)
    games["ucrl_ave"] = (
        jv.ucrl_ave(2, 3, 20, norm_bound=episodic.norm_bound, constants=constants, capacity=2),
        episodic,
    )
    watches = []
    for name, (algorithm, environment) in games.items():
        length = {"num_episodes": 20} if name == "ucrl_ave" else {"num_rounds": num_rounds}
        with watched() as watch:
            result = jv.simulate(
                algorithm,
                environment,
                key=jax.random.key(5),
                num_seeds=40,
                record_at=8,
                chunk=int(chunk) or None,
                **length,
            )
        watches.append(watch)
        result.raise_if_failed()
        out[name] = result.regret
    if devices == "4":
        texts = [watch.compiled(0).as_text() for watch in (watches[0], watches[-1])]
        out["partitioned"] = all("num_partitions=4" in text for text in texts)
        out["collectives"] = sum(text.count(name) for text in texts for name in COLLECTIVES)
    out["stretches"] = in_stretches(*games["oful"], num_rounds, int(chunk) or 32)
    np.savez(path, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
