"""Random studies that can be run, for tests of everything that reads or writes one."""

from hypothesis import strategies as st

import jaxvar as jv

PRINTABLE = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp"))
LABELS = st.text(PRINTABLE, min_size=1, max_size=12).filter(str.strip)
FRACTIONS = st.floats(0.01, 0.99)
LEVELS = st.one_of(FRACTIONS, st.integers(0, 1))
UNIT_ARMS = st.sampled_from([((1.0, 0.0), (0.0, 1.0)), ((0.6, 0.8), (0.8, 0.6), (-1.0, 0.0))])


def lists(values, most=3):
    return st.lists(values, min_size=1, max_size=most, unique_by=float)


SCHEDULES = st.one_of(
    st.fixed_dictionaries(
        {
            "name": st.just("bursts"),
            "low": st.just(0.0),
            "high": LEVELS,
            "period": st.integers(3, 9),
            "length": st.integers(0, 3),
        }
    ),
    st.fixed_dictionaries({"name": st.just("decaying"), "std": LEVELS}, optional={"power": FRACTIONS}),
)
NOISES = st.one_of(
    st.fixed_dictionaries({"name": st.sampled_from(["two_point", "uniform"]), "std": st.one_of(LEVELS, SCHEDULES)}),
    st.fixed_dictionaries({"name": st.just("sparse"), "std": FRACTIONS, "bound": st.floats(1.0, 2.0)}),
    st.just({"name": "none"}),
)
CONSTANTS = st.one_of(
    st.sampled_from(["paper", "paper_fixed", "tight", "practical"]),
    st.fixed_dictionaries(
        {"preset": st.sampled_from(["paper", "practical"])},
        optional={"beta_scale": FRACTIONS, "switch": st.integers(0, 9)},
    ),
)


def entry(name, label, options, sweeps, record=False):
    """Of one factory, each option and each sweep there or not."""
    return st.builds(
        jv.Entry,
        name=st.just(name),
        label=st.just(label),
        options=st.fixed_dictionaries(options.get("required", {}), optional=options.get("optional", {})),
        sweep=st.fixed_dictionaries({}, optional=sweeps),
        record=st.sampled_from([None, ("regret",), ("variance", "regret")]) if record else st.none(),
    )


def algorithm(label):
    return st.one_of(
        entry(
            "save",
            label,
            {
                "optional": {
                    "constants": CONSTANTS,
                    "delta": FRACTIONS,
                    "explore": st.sampled_from(["widest", "random"]),
                    "noise_bound": st.integers(1, 3),
                }
            },
            {"constants.beta_scale": lists(FRACTIONS), "ties": st.just(["random", "lowest"])},
            record=True,
        ),
        entry(
            "oful",
            label,
            {"optional": {"lam": st.floats(0.1, 5), "radius": st.sampled_from(["determinant", "data_free"])}},
            {"beta_scale": lists(LEVELS), "delta": lists(FRACTIONS)},
            record=True,
        ),
    )


def environment(label):
    return st.one_of(
        entry(
            "linear_bandit",
            label,
            {
                "required": {"dim": st.integers(1, 4), "num_arms": st.integers(1, 5), "noise": NOISES},
                "optional": {"fresh": st.booleans()},
            },
            {"dim": lists(st.integers(1, 6)), "arms": st.just(["sphere", "hypercube"])},
        ),
        entry(
            "linear_bandit",
            label,
            {"required": {"arms": UNIT_ARMS, "noise": st.just({"name": "two_point", "std": 0.5})}},
            {"noise.std": lists(LEVELS)},
        ),
        entry(
            "hypercube_bandit",
            label,
            {"required": {"cube_dim": st.integers(1, 3)}, "optional": {"level": FRACTIONS}},
            {},
        ),
    )


@st.composite
def studies(draw):
    labels = draw(st.lists(LABELS, min_size=2, max_size=2, unique=True))
    rounds = draw(st.integers(5, 3000))
    # One algorithm and one environment twice with equal arguments would be refused, so there is one of each.
    algorithms, environments = (draw(algorithm(labels[0])),), (draw(environment(labels[1])),)
    records = st.one_of(
        st.none(),
        st.integers(1, 5),
        st.just((1, 2, 5)),
        st.fixed_dictionaries({"spacing": st.sampled_from(["log", "linear"]), "number": st.integers(2, 5)}),
    )
    return jv.Study(
        name=draw(LABELS.filter(lambda name: not name.startswith(".") and not set("/\\") & set(name))),
        question=draw(st.text(st.one_of(PRINTABLE, st.just("\n")), max_size=20).filter(lambda q: q == "" or q.strip())),
        seeds=draw(st.integers(1, 10_000)),
        rounds=rounds,
        algorithms=algorithms,
        environments=environments,
        records=draw(records),
        record=draw(st.sampled_from([("regret",), ("regret", "variance")])),
        key=draw(st.integers(0, 2**31 - 1)),
        precision=draw(st.sampled_from(["float64", "float32"])),
        chunk=draw(st.sampled_from([None, 8, 1024])),
        reference=draw(st.sampled_from([None, labels[0]])),
        first_seed=draw(st.integers(0, 1000)),
    )
