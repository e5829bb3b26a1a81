"""The audit of the preset ``sharp``: its lemmas hold on layers that follow the error, and spoilt ones are found."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from jaxvar import sharp
from jaxvar.study.factories import in_precision
from jaxvar.theory import martingales, sharp_layer

KEY = jax.random.key(5)
CASES = {case.name: case for case in sharp_layer.cases()}
ALARM = 1e-4


@pytest.fixture(autouse=True)
def fresh_programs():
    """Let no test use a program that another one compiled with a spoilt function; identities need float64."""
    jax.clear_caches()
    with in_precision("float64"):
        yield
    jax.clear_caches()


def judged(case: sharp_layer.Filled, delta: float = 0.9) -> dict[str, str]:
    found = sharp_layer.audit_sharp(case, key=KEY, num_seeds=256, num_rounds=120, delta=delta)
    return {f.statement.key: f.verdict(ALARM) for f in found}


def test_lemmas_hold() -> None:
    """Fails if a lemma is written wrongly, here or in the code; the layer's share of delta is what the radius has."""
    found = sharp_layer.audit_sharp(CASES["louder, layer 3"], key=KEY, num_seeds=256, num_rounds=300, delta=0.1)
    assert {f.verdict(ALARM) for f in found} == {"holds"}
    slack = {f.statement.key: f.slack[-1] for f in found}
    assert slack["radius"] > 0.1 and slack["lemma-2"] > 0.01 and slack["lemma-4-0.7"] > 0.02  # not empty
    assert [f.statement.failure for f in found if f.statement.key == "radius"] == [pytest.approx(0.1 / 12)]


def test_half_the_radius_is_found(monkeypatch) -> None:
    """Fails if the radius that is judged is not the one of the package."""
    whole = sharp.radius
    monkeypatch.setattr(sharp, "radius", lambda *a, **k: whole(*a, **k) / 2)
    assert judged(CASES["full, layer 1"])["radius"] == "BROKEN"


@pytest.mark.parametrize("spoil", ["weight squared", "wrong layer"])
def test_a_spoilt_layer_is_found(monkeypatch, spoil: str) -> None:
    """Fails if Lemma 1 is not judged by what was learned: it needs widths of exactly 2^-l."""
    case = CASES["bursts, layer 3"]
    if spoil == "wrong layer":  # it learns with the weights of another one
        deeper = dataclasses.replace(case.stream, layer=4)
        monkeypatch.setattr(sharp_layer, "advance", lambda stream, *a: martingales.advance(deeper, *a))
    else:

        def squared(stream, past, draw, u):
            """Learn with the squared weight: the same direction and noise, both shorter."""
            _, x, eta = martingales.advance(stream, past, draw, u)
            weight = jnp.sqrt(jnp.sum(x * x))
            x, eta = weight * x, weight * eta
            tilted = past.inverse @ x
            inverse = past.inverse - jnp.outer(tilted, tilted) / (1 + x @ tilted)
            total = past.total + eta * x
            norm = jnp.sqrt(total @ inverse @ total)
            return past._replace(inverse=inverse, total=total, norm=norm), x, eta

        monkeypatch.setattr(sharp_layer, "advance", squared)
    found = judged(case)
    assert found["loss"] == found["identity"] == "BROKEN"
