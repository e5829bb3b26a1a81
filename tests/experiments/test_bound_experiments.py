"""What the experiments on the lower bound and on the switch conclude, from results that were never run."""

import math

import jax
import numpy as np
import pytest

import jaxvar as jv
from experiments.experiment import discovered
from experiments.lower_bound import conclude as bounds
from experiments.switch import conclude as switch
from experiments.switch.predict import first_adaptive, layer
from tests.helpers import synthetic_study as made_up_study

SEEDS = 40
FACTS = {"noise_bound": 1.0, "delta": 0.01}


def made_up(study, regret):
    """Results of ``study`` with the regret ``regret(label, settings) [seeds, 2]`` in every cell."""
    cells = []
    for entry in study.environments:
        settings = [dict(zip(entry.sweep, values, strict=True)) for values in zip(*entry.sweep.values(), strict=True)]
        for setting in settings:
            for player in study.algorithms:
                fields = {"environment_settings": setting, "num_rounds": study.length}
                fields |= {"rounds": np.array([1, study.length]), "constants": "made up"}
                cells.append(
                    made_up_study.cell(
                        regret(player.label, entry, setting),
                        algorithm=player.label,
                        environment=entry.label,
                        records={"layer_rounds": filled(study.length)},
                        **fields,
                    )
                )
    return made_up_study.study(cells, config={"study": study.to_config()})


def filled(num_rounds):
    """Rounds per layer that follow the law, [seeds, 2, 1 + layers]."""
    law = [2 * n * math.log(16) / math.log1p(4.0**-n) for n in range(1, 11)]
    last = np.diff(np.minimum(np.cumsum([0.0, *law]), num_rounds))
    counts = np.zeros((SEEDS, 2, 11))
    counts[:, -1, 1:] = last
    return counts


def test_regret_is_divided_by_the_bound_of_its_own_instance():
    """Regret of 3 times the bound, computed by hand here, must be 3 in every table."""
    rng = np.random.default_rng(0)

    def regret(label, entry, setting):
        if entry.name == "hypercube_blocks":
            least = 2 * (0.1 + 0.3 + 1.0) * math.sqrt(6000) / (8 * math.sqrt(6))
        else:
            least = 3 * (math.sqrt(800) if "budget" in entry.options else math.sqrt(20_000)) / (8 * math.sqrt(6))
        noise = rng.normal(size=(SEEDS, 1))
        return 3 * least * (1 + 0.01 * (noise - noise.mean())) * np.array([0.5, 1.0])

    results = {name: made_up(study, regret) for name, study in discovered("lower_bound").studies().items()}
    found = bounds.conclude(results)
    for name in ("literal", "gaps", "budget"):
        table = found.tables[name]
        exponents = [c.title for c in table.columns].index("exponent") if name != "literal" else None
        for row in table.rows:
            for i, value in enumerate(row[1:], start=1):
                if value is not None:
                    assert float(value.estimate) == pytest.approx(0.0 if i == exponents else 3.0, abs=0.01)
    for _, least, exactly, measured in found.tables["bounds"].rows:
        assert exactly == 2 * least and float(measured.estimate) == pytest.approx(3 * least)
    assert found.figures["ratios"].caption
    _, gaps, practical, printed = zip(*found.tables["drops"].rows, strict=True)
    assert gaps[0] == pytest.approx(6 / math.sqrt(96 * 20_000))
    assert all(np.diff(practical) <= 0) and all(p > 1000 * q for p, q in zip(printed, practical, strict=True))


def test_parting_is_the_first_round_after_which_the_regrets_stay_apart():
    """An early lead that is lost again does not count; nor does one within the interval."""
    rng = np.random.default_rng(1)
    quiet = rng.normal(size=(SEEDS, 7))
    lead = np.array([5.0, 5.0, 0.0, 0.0, 4.0, 5.0, 6.0])
    constants = jv.constants.paper()

    def pair(lead):
        cells = [made_up_study.cell(quiet), made_up_study.cell(quiet + lead + 0.1 * rng.normal(size=quiet.shape))]
        return switch.Pair("SAVE", constants, *cells, first_adaptive(constants, 2, **FACTS), {})

    assert pair(lead).parted == made_up_study.ROUNDS[4]
    assert pair(lead * 0 - 1).parted is None and pair(lead).identical is None
    same = switch.Pair("SAVE", constants, *[made_up_study.cell(quiet)] * 2, first_adaptive(constants, 2, **FACTS), {})
    assert same.identical == made_up_study.ROUNDS[-1] and same.parted is None
    assert pair(lead * 0 + 1).parted == made_up_study.ROUNDS[0]


def test_the_first_layer_to_adapt_is_where_the_printed_switch_is():
    """By hand: 2^9 is the first power of two above 64 sqrt(log(4 k^2 L / delta)); no multiplier changes that."""
    printed = first_adaptive(jv.constants.paper(), 2, num_rounds=2e7, **FACTS)
    log = math.log(4 * (printed.end + 1) ** 2 * math.ceil(math.log2(2e7**1.5)) / 0.01)
    assert 2**8 < 64 * math.sqrt(log) <= 2**9 and printed.number == 9
    for scale in (0.1, 0.01):
        assert first_adaptive(jv.constants.paper(scale), 2, num_rounds=2e7, **FACTS).number == 9
    before = layer(8, jv.constants.paper(), 2, 2e7, **FACTS)
    assert not before.uses_variance and before.drops_without_noise == before.drops_with_noise > 2


def test_layers_fill_as_predicted_where_arms_are_orthogonal():
    """With the arms e1 and e2 the law is exact, up to one round for each arm and layer."""
    algo = jv.save(2, 20_000)
    environment = jv.linear_bandit(arms=np.eye(2), noise=jv.noise.two_point(1.0))
    key, record = jax.random.key(0), (jv.record.layer_rounds(),)
    out = jv.simulate(algo, environment, key=key, num_rounds=20_000, num_seeds=2, record_at=1, recorders=record)
    rounds = np.asarray(out.layer_rounds)[0, -1]
    for number in range(1, 5):
        assert abs(rounds[number] - layer(number, jv.constants.paper(), 2, 20_000, **FACTS).rounds) <= 2


def test_switch_tables_from_made_up_results():
    """Every row and figure is there; the law's own layers are at ratio 1."""
    rng = np.random.default_rng(2)

    def regret(label, entry, setting):
        return np.array([1.0, 10.0 + setting["noise.std"]]) + 0.1 * rng.normal(size=(SEEDS, 2))

    found = switch.conclude({name: made_up(study, regret) for name, study in discovered("switch").studies().items()})
    ratios = [float(row[3].estimate) for row in found.tables["layers"].rows if row[3] is not None]
    assert len(ratios) == 9  # layer 10 is not full after 20 million rounds
    assert np.allclose(ratios, 1, atol=1e-6)
    assert all(row[5] in (1, row[6]) for row in found.tables["parting"].rows)
    assert set(found.figures) == {"regret", "layers"}
