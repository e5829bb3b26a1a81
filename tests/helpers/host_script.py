"""Plays the same simulations in one of several processes; run by test_hosts in interpreters of their own.

Arguments: file for the results, number of this process, number of processes, port of process 0.
"""

import sys

import jax
import numpy as np

import jaxvar as jv
from tests.helpers.device_script import COLLECTIVES
from tests.helpers.programs import watched

DEVICES = 2  # per process, where there are several


def main(path, process, num_processes, port):
    jax.config.update("jax_enable_x64", True)
    if num_processes > 1:
        jax.config.update("jax_num_cpu_devices", DEVICES)
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes, process)
    fixed, fresh = (jv.linear_bandit(2, 4, noise=jv.noise.two_point(0.3), fresh=f) for f in (False, True))
    games = {
        # One layer is too few for some seeds: all processes must agree to play again with more.
        "save": (jv.save(2, 80, constants=jv.constants.practical(), capacity=1), fixed),
        "oful": (jv.sweep(jv.oful(2), beta_scale=[0.1, 1.0]), fresh),
    }
    options = {"num_rounds": 80, "num_seeds": 40, "record_at": 8, "chunk": 32}
    out = {"devices": jax.device_count(), "local_devices": jax.local_device_count()}
    for name, (algorithm, environment) in games.items():
        with watched() as watch:
            result = jv.simulate(algorithm, environment, key=jax.random.key(5), **options)
        result.raise_if_failed()
        out |= {f"{name}.{record}": values for record, values in result.records.items()}
        out[f"{name}.capacity"] = result.capacity or 0
    if num_processes > 1:
        text = watch.compiled(-1).as_text()
        out["partitioned"] = f"num_partitions={jax.device_count()}" in text
        out["collectives"] = sum(text.count(name) for name in COLLECTIVES)
        own = {"key": jax.random.key(process), **options}
        algorithm, environment = games["oful"]
        out["own"] = jv.simulate(algorithm, environment, devices=jax.local_devices(), **own).regret
        try:
            jv.simulate(algorithm, environment, **own)
        except ValueError as error:
            out["refused"] = str(error)
    np.savez(path, **out)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
