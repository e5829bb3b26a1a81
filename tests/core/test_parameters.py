"""Parameters: declared once, checked where they enter, followed by rules; algorithms and environments as pytrees."""

import dataclasses
import inspect
import pydoc
import re
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import parameters
from jaxvar.algorithms.catalogue import CLAIMS, FACTORIES
from jaxvar.parameters import choice, count, factory, flag, number, part, pytree, static


def _even(name, value):
    if value % 2:
        raise ValueError(f"{name} must be even, got {value!r}")
    return value


@pytree
class ToyWidget:
    """A widget with one parameter of each kind.

    References:
      Nobody (2000).
    """

    size: int = count(low=2, high=9, kw_only=False, doc="how many.")
    rate: Any = number(above=0, at_most=1, default=0.5, doc="how fast.")
    bound: Any = number(above=0, squared=True, default=1.0, doc="how large.")
    spare: Any = number(at_least=0, default=None, doc="if any.")
    reach: Any = number(
        above=0, default=None, rule=lambda self: 3 * self.rate, doc="three times the rate if not given."
    )
    depth: int = count(default=None, rule=lambda self: self.size + 1, doc="one more than the size if not given.")
    kind: str = choice("round", "square", default="round", doc="which.")
    loud: bool = flag(default=False, doc="whether.")
    pair: Any = part(_even, default=2, doc="an even number.")
    hidden: Any = None

    def check(self) -> None:
        """Refuse loud squares."""
        if self.loud and self.kind == "square":
            raise ValueError("loud must be False for kind='square', got True")


toy_widget = factory(ToyWidget)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("size", [1, 10, 2.5, True, "3", None]),
        ("rate", [0.0, -1.0, 1.0001, np.nan, np.inf, "half", True, [0.1, 0.2], None]),
        ("bound", [0.0, 1e-160, 1e160, np.inf]),
        ("spare", [-1e-9, np.nan]),
        ("reach", [0.0, np.inf]),
        ("depth", [0, 1.0]),
        ("kind", ["oval", None, 3]),
        ("loud", [1, None, "yes"]),
        ("pair", [3]),
    ],
)
def test_declared_ranges_are_kept(name, values):
    """Whatever lies outside is refused, with the argument's name first."""
    for value in values:
        with pytest.raises(ValueError, match=rf"^{name} must"):
            toy_widget(**{"size": 3, name: value})


def test_values_at_the_edges_are_taken():
    """Closed ends belong to their ranges; numbers become leaves of the session's float type, counts stay integers."""
    made = toy_widget(9, rate=1, bound=1e-150, spare=0, reach=7, depth=1, kind="square", pair=4)
    for name, value in {"rate": 1, "bound": 1e-150, "spare": 0, "reach": 7}.items():
        leaf = getattr(made, name)
        assert leaf.dtype == np.float64 and leaf.shape == () and leaf == value
    assert (made.size, made.depth, made.kind, made.loud, made.pair) == (9, 1, "square", False, 4)
    assert len(jax.tree.leaves(made)) == 5  # the four numbers and the part; the rest is static


def test_what_only_several_parameters_break_is_checked_last():
    """Each is right by itself."""
    with pytest.raises(ValueError, match=r"^loud must be False"):
        toy_widget(3, loud=True, kind="square")
    assert toy_widget(3, loud=True).loud and toy_widget(3, kind="square").kind == "square"


def test_wrong_names_and_places_are_refused():
    """As for any Python function: what is keyword-only, hidden or missing is a TypeError."""
    for wrong in (
        lambda: toy_widget(),
        lambda: toy_widget(3, 0.5),
        lambda: toy_widget(3, hidden=1),
        lambda: toy_widget(3, wat=1),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_traced_values_pass():
    """They have no number to look at yet; what depends on them is computed from them."""
    made = jax.jit(lambda rate: toy_widget(3, rate=rate).reach)(0.25)
    assert made == 0.75


def test_rules_follow_the_others():
    """None stands for the rule: it moves with what it is made of, until it is given; static ones are settled once."""
    made = toy_widget(4)
    assert made.reach == 1.5 and made.depth == 5 and made.__dict__["reach"] is None
    assert parameters.replace(made, rate=np.float64(0.1)).reach == pytest.approx(0.3)
    assert parameters.replace(toy_widget(4, reach=8), rate=np.float64(0.1)).reach == 8
    mapped = jax.tree.map(lambda x: x * 2, toy_widget(4))
    assert mapped.reach == 3.0 and mapped.depth == 5
    assert jax.tree.structure(made) == jax.tree.structure(parameters.replace(made, rate=0.1))
    assert jax.tree.structure(made) != jax.tree.structure(toy_widget(4, reach=8))


def test_rules_follow_sweeps():
    """A swept K or R moves the theorem's alpha and lam with it, point by point."""
    swept = jv.sweep(jv.save(2, 100, capacity=3), num_rounds=[100.0, 400.0], noise_bound=[1.0, 0.5])
    np.testing.assert_allclose(swept.alpha, [1 / (r * k**1.5) for k in (100, 400) for r in (1, 0.5)])
    assert swept.capacity == 3
    np.testing.assert_allclose(jv.sweep(jv.weighted_oful(2), theta_bound=[1.0, 2.0]).lam, [1.0, 0.25])
    given = jv.sweep(jv.weighted_oful(2, lam=3.0), theta_bound=[1.0, 2.0])
    np.testing.assert_allclose(given.lam, [3.0, 3.0])
    with pytest.raises(ValueError, match="not a leaf"):  # it is not one while it follows its rule
        jv.sweep(jv.weighted_oful(2), lam=[1.0])


def test_swept_rules_play_like_single_settings():
    """Not only the numbers: the runs too."""
    environment = jv.linear_bandit(2, 4, noise=jv.noise.two_point(0.2))
    common = {"key": jax.random.key(1), "num_rounds": 30, "num_seeds": 3, "record_at": 3}
    out = jv.simulate(jv.sweep(jv.weighted_oful(2), theta_bound=[1.0, 3.0]), environment, **common)
    for i, bound in enumerate((1.0, 3.0)):
        alone = jv.simulate(jv.weighted_oful(2, theta_bound=bound), environment, **common)
        np.testing.assert_allclose(out.regret[i], alone.regret, rtol=1e-9)
    assert not np.array_equal(out.regret[0], out.regret[1])


@pytest.mark.parametrize(("name", "bad"), [("delta", 1.0), ("delta", 0.0), ("noise_bound", -1.0), ("lam", 0.0)])
def test_sweeps_keep_the_declared_ranges(name, bad):
    """A list must not bring in what the factory refuses."""
    with pytest.raises(ValueError, match=rf"^{name} must"):
        jv.sweep(jv.oful(2), **{name: [0.5, bad]})


def test_the_factory_is_an_ordinary_documented_function():
    """help() shows every argument with its meaning and default; what is not declared stays inside."""
    assert toy_widget.__name__ == toy_widget.__qualname__ == "toy_widget" and toy_widget.__module__ == __name__
    signature = inspect.signature(toy_widget)
    assert list(signature.parameters) == [*parameters.parameters(ToyWidget)]
    assert signature.parameters["size"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert signature.parameters["rate"].kind is inspect.Parameter.KEYWORD_ONLY
    assert signature.parameters["rate"].default == 0.5 and signature.parameters["reach"].default is None
    assert signature.return_annotation is ToyWidget
    text = pydoc.plain(pydoc.render_doc(toy_widget))
    assert "size: int, *, rate: Any = 0.5" in " ".join(text.split()) and "hidden" not in text  # lines are Python's
    assert "reach: three times the rate if not given." in text
    assert text.index("Args:") < text.index("Returns:") < text.index("References:")


FACTORY_NAMES = [c.factory for c in CLAIMS if hasattr(FACTORIES[c.factory], "__signature__")]


@pytest.mark.parametrize("name", FACTORY_NAMES)
def test_every_factory_explains_its_arguments(name):
    """Each argument of the signature has its line, and nothing else has one."""
    make = getattr(jv, name)
    assert make is FACTORIES[name] and make.__name__ == name
    arguments = inspect.getdoc(make).partition("Args:\n")[2].partition("\nReturns:")[0]
    named = [line.split(":")[0].strip() for line in arguments.splitlines() if line.startswith("  ") and line[2] != " "]
    assert named == list(inspect.signature(make).parameters)
    for parameter in parameters.parameters(inspect.signature(make).return_annotation).values():
        assert parameter.doc.endswith("."), parameter


def test_most_algorithms_are_declared():
    """The list above must not become empty."""
    assert len(FACTORY_NAMES) >= 20


# --- numbers that the float type cannot hold ---


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        ("noise_bound", 1e39, True),
        ("noise_bound", 1e18, True),  # its square times a logarithm or a sum overflows
        ("noise_bound", 1e13, False),
        ("noise_bound", 1e-18, False),
        ("noise_bound", 1e-20, True),
        ("theta_bound", 1e18, True),
        ("theta_bound", 1e-20, True),
        ("lam", 1e39, True),
        ("lam", 1e18, False),
        ("lam", 1e-39, True),
    ],
)
def test_limits_of_float32(name, value, refused):
    """In float32 a number, or its square where the mathematics has it, must fit; in float64 all of these do."""
    assert float(getattr(jv.oful(2, **{name: value}), name)) == value
    with jax.enable_x64(False):
        if refused:
            said = rf"^{name} must be between .* in float32, got {re.escape(repr(value))}"
            with pytest.raises(ValueError, match=said):
                jv.oful(2, **{name: value})
        else:
            made = jv.oful(2, **{name: value})
            assert getattr(made, name).dtype == np.float32 and getattr(made, name) == np.float32(value)


@pytest.mark.parametrize("value", [1e160, 1e149, 1e-155])
def test_limits_of_float64(value):
    """The same, further out."""
    with pytest.raises(ValueError, match=r"^noise_bound must be between .* in float64"):
        jv.oful(2, noise_bound=value)
    assert jv.oful(2, noise_bound=1e148 if value > 1 else 1e-153) is not None


def test_a_sweep_has_the_same_limits():
    """Values of a list are not taken on trust."""
    with pytest.raises(ValueError, match=r"^noise_bound must be between"):
        jv.sweep(jv.oful(2), noise_bound=[1.0, 1e160])


# --- pytrees ---


def pair(decorate):
    """Two classes with the same fields that compute different things."""

    class First:
        number: Any
        size: int = static()

        def value(self):
            return self.number

    class Second:
        number: Any
        size: int = static()

        def value(self):
            return -self.number

    return decorate(First), decorate(Second)


def test_classes_with_the_same_fields_are_told_apart():
    """JAX looks structures up by hash first, and only in some processes do two hashes meet: so ask for equality."""
    one, other = (cls(number=1.0, size=2) for cls in pair(pytree))
    assert jax.tree.structure(one) != jax.tree.structure(other)
    assert jax.tree.structure(one) == jax.tree.structure(dataclasses.replace(one, number=3.0))
    assert jax.tree.structure(one) != jax.tree.structure(dataclasses.replace(one, size=3))


def test_our_algorithms_are_told_apart():
    """These two have all their fields in common."""
    one, other = (make(2, 64, num_scales=4) for make in (jv.voful, jv.voful2))
    assert jax.tree.structure(one) != jax.tree.structure(other)


def test_leaves_keep_their_names_and_classes_come_back():
    """Names are what error messages and sweeps go by; any object may stand for a leaf on the way."""
    one = pair(pytree)[0](number=jnp.ones(3), size=2)
    (path, leaf), *rest = jax.tree_util.tree_flatten_with_path(one)[0]
    assert jax.tree_util.keystr(path) == ".number" and leaf is one.number and not rest
    back = jax.tree.map(lambda _: object, one)
    assert type(back) is type(one) and back.number is object and back.size == 2


class Pull(NamedTuple):
    action: Any


def always(index):
    """A user's class that always pulls one arm; the index is not among its fields."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Always:
        unused: Any

        def init(self):
            return ()

        def select(self, state, arms, key, side):
            return Pull(jnp.int32(index))

        def update(self, state, choice, x, reward, side):
            return ()

    return Always(jnp.zeros(()))


def test_users_classes_get_programs_of_their_own():
    """Registered by JAX itself they may have equal structures; simulate must not run one for the other."""
    arms, theta = np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([1.0, 0.0])
    environment = jv.linear_bandit(arms=arms, theta_star=theta)
    algorithms = [always(i % 2) for i in range(8)]
    assert jax.tree.structure(algorithms[0]) == jax.tree.structure(algorithms[1]), "JAX tells them apart by itself now"
    for i, algorithm in enumerate(algorithms):
        out = jv.simulate(algorithm, environment, key=jax.random.key(0), num_rounds=3, num_seeds=1, record_at=1)
        assert out.regret[0, -1] == pytest.approx(3.0 * (i % 2))


def test_run_and_trace_keep_programs_of_different_classes_apart():
    """Fails if the program of one class may be found for another whose fields agree."""
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1))
    for play, programs in ((jv.run, sys.modules["jaxvar.run"]._player), (jv.trace, sys.modules["jaxvar.run"]._tracer)):
        programs.cache_clear()
        for algorithm in (jv.uniform(), jv.greedy(2), jv.uniform()):
            play(algorithm, environment, jax.random.key(0), num_rounds=3)
        assert programs.cache_info().currsize == 2
