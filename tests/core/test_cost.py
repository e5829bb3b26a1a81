"""What a round costs: not the rounds before it, not the theorem's number of layers, not those stored."""

import math

import jax
import pytest

import jaxvar as jv
from jaxvar import ridge

KEY = jax.random.key(0)


def save(horizon=1000, capacity=4):
    return jv.save(2, horizon, capacity=capacity)


def compiled(algorithm, num_rounds=1000, fresh=True):
    environment = jv.linear_bandit(2, 4, noise=jv.noise.two_point(0.1), fresh=fresh)
    program = jax.jit(lambda a, e, k: jv.run(a, e, k, num_rounds=num_rounds, record_at=10))
    return program.lower(algorithm, environment, KEY).compile()


def flops(program):
    """Operations of the program, each loop's body counted once."""
    return program.cost_analysis()["flops"]


def instructions(program):
    """Lines of the compiled program that compute something."""
    return sum(" = " in line for line in program.as_text().splitlines())


@pytest.mark.parametrize("algorithm", [save(), jv.oful(2)], ids=["save", "oful"])
def test_a_round_does_not_cost_more_in_a_longer_run(algorithm):
    # Round 10^6 is as cheap as round 10^3: the program is the same but for the number of turns.
    short, long = compiled(algorithm, 10**3), compiled(algorithm, 10**6)
    assert instructions(short) == instructions(long)
    assert flops(short) == flops(long)


def test_the_horizon_of_the_theory_is_only_a_number():
    # L grows with log K; the layers that are stored do not.
    short, long = save(10**3), save(10**9)
    assert long.num_layers > 2 * short.num_layers
    one, two = compiled(short), compiled(long)
    assert instructions(one) == instructions(two)
    assert flops(one) == flops(two)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("name", ["save", "ave_ucb"])
def test_layers_that_are_only_stored_cost_next_to_nothing(name, fresh):
    # A CPU loops over the layers that are needed, so that the program is about the same however many are stored.
    few, many = (compiled(getattr(jv, name)(2, 10**6, capacity=n), fresh=fresh) for n in (2, 8))
    assert flops(many) < 1.1 * flops(few)
    assert instructions(many) < 1.1 * instructions(few)


def test_default_capacity_follows_what_the_rounds_can_fill():
    # A billion rounds ask for 45 layers in theory and can fill only a dozen.
    algorithm = jv.save(4, 10**9)
    assert algorithm.num_layers == 45
    assert algorithm.capacity <= 14


def test_default_capacity_is_what_one_arm_that_is_always_pulled_needs():
    # Its squared width 4^l in layer l is divided by 1 + 4^-l by each observation; below 4^-l the next layer is asked.
    rounds, layer = 0, 1
    while rounds < 10**5:
        assert ridge.choose_capacity(max(rounds, 1), 1e-9) == max(layer - 1, 1)
        assert ridge.choose_capacity(rounds + 1, 1e-9) == layer
        log_width2 = layer * math.log(4)
        while log_width2 >= -layer * math.log(4):
            log_width2 -= math.log1p(4.0**-layer)
            rounds += 1
        layer += 1


def ave(horizon_of_theory=1000, capacity=3):
    return jv.ucrl_ave(2, 3, horizon_of_theory, capacity=capacity)


def compiled_episodes(algorithm, num_episodes=100):
    environment = jv.mixture_mdp(3, 2, 2, 3, model_seed=0)
    program = jax.jit(lambda a, e, k: jv.run(a, e, k, num_episodes=num_episodes, record_at=10))
    return program.lower(algorithm, environment, KEY).compile()


@pytest.mark.slow
def test_an_episode_costs_what_its_stored_layers_cost():
    # Neither the episodes before it nor the theorem's L, only the capacity, which follows the layers in use.
    short, long = ave(10**3), ave(10**9)
    assert long.num_layers > 2 * short.num_layers
    one, two = compiled_episodes(short), compiled_episodes(long, 10**6)
    assert instructions(one) == instructions(two)
    assert flops(one) == flops(two)
    work = {n: flops(compiled_episodes(ave(10**6, n))) for n in (2, 4, 8)}
    per_layer = (work[8] - work[4]) / 4, (work[4] - work[2]) / 2
    assert per_layer[0] > 0
    assert per_layer[0] == pytest.approx(per_layer[1], rel=0.5)


def test_default_capacity_of_episodes_follows_what_the_steps_can_fill():
    # A million episodes of ten steps ask for 35 layers in theory and can fill a third of them.
    algorithm = jv.ucrl_ave(4, 10, 10**6)
    assert algorithm.num_layers == 35
    assert algorithm.capacity <= 12
