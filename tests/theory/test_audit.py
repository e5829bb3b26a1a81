"""The audit: what it measures agrees with plain NumPy, what holds passes, and what was spoilt is found.

False alarms: every run has a fixed key. Each claimed statement is called broken wrongly with a probability of at most
1e-4, so that no number here is left to chance once it has passed.
"""

import dataclasses
import functools
import re
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import jaxvar as jv
from jaxvar.algorithms.save import FixedSave, Save
from jaxvar.parameters import leaf, pytree
from jaxvar.theory import audit as cases
from jaxvar.theory import bandit, mixture, recursion
from jaxvar.theory import reference_ridge as layers
from jaxvar.theory.audit import STREAMS, audit_layer, audit_save, audit_stream, audit_ucrl_ave
from jaxvar.theory.martingales import TIGHT
from jaxvar.theory.running_max import init_running_max, single_check, update_running_max
from jaxvar.theory.statement import Finding, Statement, finding, load_statements

ALARM = 1e-4
KEY = jax.random.key(3)
SEEDS, ROUNDS, EPISODES, HORIZON, DELTA = 200, 300, 40, 10, 0.01


trace_of = functools.partial(jax.jit, static_argnames=("num_rounds", "num_episodes"))(jv.trace)


def by_key(found: list[Finding]) -> dict[str, Finding]:
    return {f.statement.key: f for f in found}


def broken(found: list[Finding]) -> set[str]:
    """Statements that we claim to hold and that do not."""
    return {f.statement.key for f in found if f.verdict(ALARM) == "BROKEN"}


def peaks(ratios: Any) -> np.ndarray:
    ratios = np.asarray(ratios, float)
    when = np.where(ratios > 1, 5 + np.arange(len(ratios)), 0)
    return np.stack([ratios, when, np.full_like(ratios, 2), ratios, np.ones_like(ratios)], axis=1)


@pytest.mark.parametrize("failure", [0.05, 0.3])
def test_broken_means_more_often_than_promised_by_the_exact_test(failure: float) -> None:
    """Fails if the verdict is not the one-sided exact binomial test of the promised probability."""
    statement = Statement("s", "s", "s", failure, "holds")
    for count in range(0, 300, 7):
        found = finding("g", "c", statement, peaks(np.r_[np.full(count, 2.0), np.full(300 - count, 0.5)]))
        assert found.broken == count
        assert found.beyond(ALARM) == (stats.binom.sf(count - 1, 300, failure) < ALARM)


def test_a_certain_statement_is_broken_by_one_seed_and_others_need_enough_of_them() -> None:
    certain = Statement("s", "s", "s", 0.0, "holds")
    one = finding("g", "c", certain, peaks([0.5, 0.5, 1.5, 0.5]))
    assert one.verdict(ALARM) == "BROKEN"
    assert one.example is not None
    assert one.example.text() == "layer 2, round 7 of seed 2: 1.5 > 1"
    assert finding("g", "c", certain, peaks([0.5] * 199)).verdict(ALARM) == "too few seeds"
    assert finding("g", "c", certain, peaks([0.5] * 200)).verdict(ALARM) == "holds"
    never = finding("g", "c", certain, peaks([-1.0] * 200))
    assert (never.seeds, never.verdict(ALARM)) == (0, "nothing to judge")
    known = dataclasses.replace(certain, claim="fails")
    assert finding("g", "c", known, peaks([1.5] * 3)).verdict(ALARM) == "fails as known"


def test_a_ratio_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="not a number"):
        finding("g", "c", Statement("s", "s", "s", 0.0, "holds"), peaks([0.5, np.nan]))


@pytest.mark.parametrize("stream", STREAMS[::2], ids=lambda s: s.name)
def test_concentration_holds_on_streams_and_fails_where_divided_by_30(stream: Any) -> None:
    """Fails if the left sides are wrong, or so small that a radius thirty times too small would pass."""
    shared: dict[str, Any] = {"key": KEY, "num_seeds": 512, "num_rounds": 1000}
    found = audit_stream(stream, **shared)
    assert broken(found) == set()
    spoilt = audit_stream(stream, **shared, constants=(TIGHT[0] / 30, TIGHT[1] / 30))
    assert "printed" in broken(spoilt)
    printed, tight = by_key(found)["printed"], by_key(found)["tight"]
    assert 0 < printed.slack[-1] < tight.slack[-1] < 1
    ours = by_key(spoilt)["printed"].slack[-1]
    assert ours == pytest.approx(30 * tight.slack[-1], rel=1e-9)  # 30 times the bound, 30 times the ratio


def test_freedman_is_nearly_attained() -> None:
    """Fails if the scalar sum is not that of the noise: skewed noise comes near Freedman's bound, but not beyond."""
    found = by_key(audit_stream(STREAMS[0], key=KEY, num_seeds=2048, num_rounds=1000))["freedman"]
    assert 5 <= found.broken <= 0.1 * 2048
    assert found.example is not None
    assert found.example.round == 1000


def test_one_layer_holds_and_its_absolute_values_inside_the_sum_do_not() -> None:
    """Fails if the layer is not filled to where variances matter."""
    shared: dict[str, Any] = {"key": KEY, "num_seeds": SEEDS, "num_rounds": 14_000, "number": 5}
    found = audit_layer(**shared)
    assert broken(found) == set()
    inside = by_key(found)["absolute-inside"]
    assert (inside.broken, inside.verdict(ALARM)) == (SEEDS, "fails as known")
    assert 0.3 < by_key(found)["variance-first"].slack[-1] < 1
    radii = {
        **layers.judged("bandit"),
        "tight": jv.constants.tight(1 / 300),
    }  # R is three times the noise here: 30 is too little
    assert broken(audit_layer(**shared, radii=radii)) == {"radius-tight"}


@pytree
class Spoilt(Save):
    """SAVE that says something else of its weights, or learns in another layer."""

    power: Any  # of the weight
    shift: Any  # of the layer

    def with_fixed_arms(self, arms: jax.Array) -> Any:
        return SpoiltFixed(save=self, arms=arms)


@pytree
class SpoiltFixed(FixedSave):
    """The same for arms that never change."""

    def select(self, state: Any, arms: jax.Array, key: jax.Array, side: Any) -> Any:
        choice = super().select(state, arms, key, side)
        layer = choice.layer + self.save.shift.astype(choice.layer.dtype)
        return choice._replace(weight=choice.weight**self.save.power, layer=layer)


def spoilt(power: float = 1.0, shift: float = 0.0, bound: float = 0.1, **constants: float) -> Any:
    numbers = {name: leaf(value) for name, value in constants.items()}
    radius = dataclasses.replace(jv.constants.tight(), label="audited", **numbers)
    plain = jv.save(2, ROUNDS, noise_bound=bound, delta=DELTA, constants=radius, capacity=5)
    fields = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)}
    return Spoilt(**fields, power=leaf(power), shift=leaf(shift))


def bandit_with(bound: float) -> Any:
    return jv.linear_bandit(2, 6, noise=jv.noise.sparse(bound / 2, bound))


def play(algorithm: Any, **more: Any) -> list[Finding]:
    environment = bandit_with(float(algorithm.noise_bound))
    return audit_save(algorithm, environment, case="c", key=KEY, num_seeds=SEEDS, num_rounds=ROUNDS, **more)


def test_everything_claimed_of_save_holds_and_the_printed_count_fails() -> None:
    found = play(spoilt())
    assert broken(found) == set()
    assert all(f.seeds == SEEDS for f in found)
    named = by_key(found)
    assert named["confidence-printed"].slack > named["confidence-corrected"].slack  # whose radius is larger
    count = named["count-printed"]
    assert (count.broken, count.verdict(ALARM)) == (SEEDS, "fails as known")
    smallest = next(k for k in range(1, ROUNDS) if k > 4 * np.log(1 + 4 * k / 2))  # all rounds in layer 1
    assert count.example is not None
    assert (count.example.round, count.example.where) == (smallest, "layer 1")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"power": 2.0}, {"weight"}),
        ({"shift": 1.0}, {"weight"}),
        ({"bound": 1.0, "beta_scale": 1e-6, "bias_coef": 1e-6, "initial_coef": 1e-6}, {"best-arm"}),
    ],
    ids=["weight squared", "wrong layer", "no radius"],
)
def test_a_spoilt_save_is_found(change: dict[str, float], expected: set[str]) -> None:
    """Fails if the audit believes what the algorithm says of itself."""
    assert expected <= broken(play(spoilt(**change)))


def test_a_radius_divided_by_30_is_found() -> None:
    """Fails if confidence is judged with another radius than the one given."""
    small = {
        name: dataclasses.replace(c, beta_scale=leaf(1 / 30), bias_coef=leaf(1 / 30))
        for name, c in layers.judged("bandit").items()
    }
    found = broken(play(spoilt(), radii={**layers.judged("bandit"), "tight": small["tight"]}))
    assert found == {"confidence-tight"}


def test_ratios_of_save_agree_with_numpy() -> None:
    """Fails if a sum, a logarithm or a maximum over rounds is wrong: everything again from a trace, in plain loops."""
    rounds, delta, bound = ROUNDS, DELTA, 0.1
    algorithm, environment = spoilt(bound=bound), bandit_with(bound)
    made = load_statements(bandit.GROUP, delta, radii=layers.judged("bandit"))[:-1]  # the last is the theorem
    recorder = bandit.BanditAudit(radii=layers.judged("bandit"), keys=tuple(s.key for s in made))
    record = (recorder, jv.record.regret(), jv.record.variance())  # as in the audit, whose program this then is
    played = jv.simulate(
        algorithm, environment, key=KEY, num_seeds=SEEDS, num_rounds=rounds, record_at=1, recorders=record
    )
    ratio = dict(zip((s.key for s in made), played.records["audit"][4, -1, :, 0], strict=True))
    trace = trace_of(algorithm, environment, KEY, num_rounds=rounds, seed=4)
    theta = np.asarray(trace.instance.theta_star)
    num_layers = int(algorithm.num_layers)
    expected = dict.fromkeys(ratio, -1.0)
    data: dict[int, list[Any]] = {}
    regrets: dict[int, float] = {}
    for k in range(1, rounds + 1):
        layer, action, w = int(trace.layer[k - 1]), int(trace.action[k - 1]), float(trace.weight[k - 1])
        x, y = np.asarray(trace.arms[k - 1, action]), float(trace.reward[k - 1])
        q = 4.0**-layer
        before = q * np.eye(2) + sum((v * v * np.outer(a, a) for v, a, _, _ in data.get(layer, [])), np.zeros((2, 2)))
        off = abs(w * w * x @ np.linalg.solve(before, x) / q - 1) / 1e-8
        regrets[layer] = regrets.get(layer, 0.0) + float(trace.mean[k - 1].max() - trace.mean[k - 1, action])
        data.setdefault(layer, []).append((w, x, y, float(trace.noise_var[k - 1])))
        here = data[layer]
        sigma = before + w * w * np.outer(x, x)
        theta_hat = np.linalg.solve(sigma, sum(v * v * z * a for v, a, z, _ in here))
        error = np.sqrt((theta_hat - theta) @ sigma @ (theta_hat - theta))
        variance = sum(v * v * s for v, _, _, s in here)
        noise = sum(v * v * (z - a @ theta) ** 2 for v, a, z, _ in here)
        emp = sum(v * v * (z - a @ theta_hat) ** 2 for v, a, z, _ in here)
        log0, log1 = (np.log(4 * n * n * num_layers / delta) for n in (k, k + 1))
        known = np.sqrt(q) * (16 * np.sqrt(variance * log1) + 6 * bound * log1 + 2)
        beta = np.asarray(trace.state.beta_hat[k - 1])
        now = {
            "confidence-known": error / known,
            "confidence-tight": error / beta[layer - 1],
            "variance-first": variance / (2 * noise + 14 / 3 * bound**2 * log0),
            "variance-second": noise / (1.5 * variance + 7 / 3 * bound**2 * log0),
            "estimate-printed": variance / (8 * emp + 6 * bound**2 * log1 + 16 * q),
            "estimate-corrected": variance / (8 * emp + 9.62 * bound**2 * log1 + 128 * q),
            "estimate-second": emp / (1.5 * variance + 7 / 3 * bound**2 * log0 + q),
            "weight-one": w,
            "potential": len(here) * q / (4 * np.log1p(len(here) / (2 * q))),
            "count-printed": len(here) / (4 * np.log1p(k / (2 * q))),
        }
        if layer > 1:
            gap = float(trace.mean[k - 1].max() - trace.mean[k - 1, action])
            now["round-regret"] = gap / (8 * np.sqrt(q) * beta[layer - 2])
            now["layer-regret"] = regrets[layer] / (8 / np.sqrt(q) * beta[layer - 2] * 4 * np.log1p(k / (2 * q)))
        assert off < 1e-3
        expected |= {name: max(expected[name], value) for name, value in now.items()}
    assert max(data) >= 2
    judged = [name for name, value in expected.items() if value >= 0]
    assert len(judged) == 12
    np.testing.assert_allclose([ratio[n] for n in judged], [expected[n] for n in judged], rtol=1e-7)


def mdp() -> Any:
    return jv.mixture_mdp(3, 2, 2, HORIZON, concentration=0.5)


def ucrl(constants: Any, **changes: Any) -> Any:
    constants = dataclasses.replace(constants, label="audited", setting="any", **changes)
    shared: dict[str, Any] = {"norm_bound": mdp().norm_bound, "delta": 0.01, "capacity": 4}
    return jv.ucrl_ave(2, HORIZON, EPISODES, constants=constants, **shared)


def test_everything_claimed_of_ucrl_ave_holds_and_a_radius_of_nothing_is_found() -> None:
    shared: dict[str, Any] = {"case": "c", "key": KEY, "num_seeds": SEEDS, "num_episodes": EPISODES}
    found = audit_ucrl_ave(ucrl(jv.constants.paper(setting="episodes")), mdp(), **shared)
    assert broken(found) == set()
    named = by_key(found)
    assert named["confidence-printed"].slack > named["confidence-corrected"].slack  # whose radius is larger
    assert named["count-printed"].broken == SEEDS
    assert named["sum-grown"].slack[-1] > 0  # some episodes have I_H = 0: the corrected forms differ from the printed
    assert named["rec-1-printed"].slack != named["rec-1-corrected"].slack
    nothing = ucrl(jv.constants.practical(setting="episodes"), beta_scale=leaf(1e-6), bias_coef=leaf(1e-6))
    spoilt = audit_ucrl_ave(nothing, mdp(), **shared)
    assert "optimism" in broken(spoilt)
    assert by_key(spoilt)["optimism-given"].verdict(ALARM) != "BROKEN"  # its hypothesis is what failed


@pytest.mark.slow
def test_sums_of_episodes_agree_with_numpy() -> None:
    """Fails if one of the appendix's sums is wrong: again from a trace, in plain loops."""
    algorithm, orders = ucrl(jv.constants.practical(setting="episodes")), recursion.orders(EPISODES, HORIZON)
    made = load_statements(mixture.GROUP, 0.01, radii=layers.judged("episodes"), orders=orders)[:-1]
    keys = tuple(s.key for s in made)
    recorder = mixture.EpisodeAudit(radii=layers.judged("episodes"), keys=keys, orders=orders)
    record = (recorder, jv.record.regret(), jv.record.variance(), jv.record.value_variance())
    shared: dict[str, Any] = {"key": KEY, "num_episodes": EPISODES}
    played = jv.simulate(algorithm, mdp(), num_seeds=SEEDS, record_at=1, recorders=record, **shared)
    ratio = dict(zip((s.key for s in made), played.records["audit"][1, -1, :, 0], strict=True))
    trace = trace_of(algorithm, mdp(), seed=1, **shared)
    instance = jax.tree.map(np.asarray, trace.instance)
    p, reward = instance.transition, instance.reward
    best = np.asarray(jv.planning.optimal_values(p, reward, HORIZON).value)
    noise, spread = np.zeros((3, orders + 2)), np.zeros((3, orders + 2))
    q0 = r0 = g = grown = kept = luck = own = 0.0
    log = np.log(100)
    expected: dict[str, float] = {}
    for k in range(EPISODES):
        value = np.asarray(trace.value[k])
        policy = np.asarray(jv.planning.policy_values(p, reward, trace.policy[k]))
        counts, here, indicator = np.zeros(5), 0.0, True
        for h in range(HORIZON):
            s, a, t = (int(v[k, h]) for v in (trace.state, trace.action, trace.next_state))
            row = p[s, a]
            indicator = bool(np.all(counts[1:] * np.log1p(4.0 ** -np.arange(1, 5)) <= np.log(4)))
            for i, f in enumerate((value, value - best, best - policy)):
                for m in range(orders + 2):
                    power = f[h + 1] ** (2**m)
                    noise[i, m] += row @ power - power[t]
                    spread[i, m] += row @ (power - row @ power) ** 2
            mean = row @ value[h + 1]
            q0 += row @ (best[h + 1] - row @ best[h + 1]) ** 2
            own += row @ (policy[h + 1] - row @ policy[h + 1]) ** 2
            r0 += indicator * max(value[h, s] - reward[s, a] - mean, 0)
            kept += indicator * (mean - value[h + 1, t])
            here += value[h + 1, t] - mean
            luck += reward[s, a]
            counts[int(trace.layer[k, h])] += 1
        g += 1 - indicator
        grown += (1 - indicator) * here
        luck -= policy[0, int(trace.state[k, 0])]
        a_sum = np.abs(noise)
        power = 2.0 ** np.arange(1, orders + 2)
        now = {
            "split": spread[0, 0] / (2 * q0 + 2 * spread[1, 0] + 1e-12),
            "rec-1-printed": np.max(spread[1, :-1] / (a_sum[1, 1:] + g + power * (r0 + g + a_sum[0, 0]))),
            "rec-1-corrected": np.max(spread[1, :-1] / (a_sum[1, 1:] + g + power * (r0 + g + abs(grown)))),
            "rec-2": a_sum[0, 0] / (2 * np.sqrt((q0 + spread[1, 0]) * log) + 2 / 3 * log),
            "rec-3": np.max(a_sum[1] / (np.sqrt(2 * spread[1] * log) + 4 / 3 * log)),
            "rec-8-corrected": np.max(
                spread[2, :-1] / (a_sum[2, 1:] + g + power * (r0 + g + abs(grown) + a_sum[1, 0]))
            ),
            "rec-9": np.max(a_sum[2] / (np.sqrt(2 * spread[2] * log) + 4 / 3 * log)),
            "q-split": q0 / (2 * spread[2, 0] + 2 * own + 1e-12),
            "luck": abs(luck) / (a_sum[:, 0].sum() + 1e-12),
            "regret-corrected": float(trace.regret[k]) / (max(r0 + abs(kept) + g + luck, 0) + 1e-12),
        }
        expected = {name: max(expected.get(name, -1), float(value)) for name, value in now.items()}
    assert g > 0
    np.testing.assert_allclose([ratio[n] for n in expected], list(expected.values()), rtol=1e-6)


def test_a_check_without_a_statement_is_refused() -> None:
    """Fails if a check can be left out, or be taken for that of another statement."""
    running, check = init_running_max(2, np.float64), single_check(np.zeros(()), np.ones(()))
    with pytest.raises(ValueError, match=r"checks must be of the statements \['a', 'b'\], got \['a', 'c'\]"):
        update_running_max(running, ("a", "b"), {"a": check, "c": check}, np.int32(1))


def test_statements_have_names_of_their_own_and_labels() -> None:
    for group, names in cases.keys().items():
        assert group in cases.GROUPS
        assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in names)
    wanted = cases.cases(cases.Audit(statements=("count-printed",)))
    assert {group for group, _ in wanted} == {"save", "episodes"}
