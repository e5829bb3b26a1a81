"""Plays the same simulations on a given number of CPU devices; run by test_devices in an interpreter of its own.

Arguments: file for the results, number of devices (or "tuned" for tune_cpu), chunk (0 to have it chosen).
"""

import importlib
import os
import sys

import jax
import numpy as np

import jaxvar as jv

COLLECTIVES = ("all-reduce", "all-gather", "collective-permute", "all-to-all", "reduce-scatter", "collective-broadcast")


def main(path, devices, chunk):
    if devices == "tuned":
        jv.tune_cpu()
    else:
        jax.config.update("jax_num_cpu_devices", int(devices))
    jax.config.update("jax_enable_x64", True)
    module = importlib.import_module("jaxvar.simulate")
    program, calls = module._program, []

    def spy(*args, **kwargs):
        calls.append((args, kwargs))
        return program(*args, **kwargs)

    module._program = spy
    num_rounds, constants = 80, jv.constants.practical()
    fixed, fresh = (jv.linear_bandit(2, 4, noise=jv.noise.two_point(0.3), fresh=f) for f in (False, True))
    out = {"devices": jax.local_device_count(), "flags": os.environ.get("XLA_FLAGS", "")}
    games = {
        "save": (jv.save(2, num_rounds, constants=constants, capacity=3), fixed),
        "ave_ucb": (jv.ave_ucb(2, num_rounds, constants=constants, capacity=3), fresh),
        "oful": (jv.oful(2), fixed),
    }
    games["ucrl_ave"] = (
        jv.ucrl_ave(2, 3, 20, constants=constants, capacity=2),
        jv.mixture_mdp(4, 3, 2, 3, concentration=1.0),
    )
    for name, (algorithm, environment) in games.items():
        length = {"num_episodes": 20} if name == "ucrl_ave" else {"num_rounds": num_rounds}
        result = jv.simulate(
            algorithm,
            environment,
            key=jax.random.key(5),
            num_seeds=40,
            records=8,
            chunk=int(chunk) or None,
            **length,
        )
        result.raise_if_failed()
        out[name] = result.regret
    if devices == "4":
        texts = [program.lower(*args, **kwargs).compile().as_text() for args, kwargs in (calls[0], calls[-1])]
        out["partitioned"] = all("num_partitions=4" in text for text in texts)
        out["collectives"] = sum(text.count(name) for text in texts for name in COLLECTIVES)
    np.savez(path, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
