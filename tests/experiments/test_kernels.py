"""Counting kernels: on programs written by hand, on small compiled ones, and on those of ``speed kernels``."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from experiments.speed import hlo
from experiments.speed.comparison import Comparison, bandit_game
from experiments.speed.graphs import Cost, Counts, compile_and_read
from experiments.speed.kernels import (
    Kernels,
    MissingCompiler,
    complaints,
    devices,
    equations,
    kernels,
    memory_bound,
    precision,
    target,
    traced,
)
from jaxvar import engine

pytestmark = pytest.mark.usefixtures("compiled_anew")

SMALL = Comparison(dim=3, arms=4, rounds=50)

# A scan of 7 turns. In each turn: a fusion, a copy, an update of one row of a store, a sort through a call, and 3 turns
# of a loop with one fusion. The first loop of the entry is not the scan.
WRITTEN = """HloModule by_hand, is_scheduled=true

%fused (p.0: f32[4,8], p.1: f32[8]) -> f32[4,8] {
  %p.0 = f32[4,8]{1,0} parameter(0)
  %p.1 = f32[8]{0} parameter(1)
  %b.0 = f32[4,8]{1,0} broadcast(%p.1), dimensions={1}
  ROOT %a.0 = f32[4,8]{1,0} add(%p.0, %b.0)
}

%fused.store (p.2: f32[100,8], p.3: f32[8], p.4: s32[]) -> f32[100,8] {
  %p.2 = f32[100,8]{1,0} parameter(0)
  %p.3 = f32[8]{0} parameter(1)
  %p.4 = s32[] parameter(2)
  %bit = f32[1,8]{1,0} bitcast(%p.3)
  %zero = s32[] constant(0)
  ROOT %dus = f32[100,8]{1,0} dynamic-update-slice(%p.2, %bit, %p.4, %zero)
}

%less (l: f32[], r: f32[]) -> pred[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %lt = pred[] compare(%l, %r), direction=LT
}

%sorted (p.5: f32[8]) -> f32[8] {
  %p.5 = f32[8]{0} parameter(0)
  ROOT %sort = f32[8]{0} sort(%p.5), dimensions={0}, to_apply=%less
}

%inner.body (t.0: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %t.0 = (s32[], f32[4,8]{1,0}) parameter(0)
  %i.0 = s32[] get-tuple-element(%t.0), index=0
  %m.0 = f32[4,8]{1,0} get-tuple-element(%t.0), index=1
  %one.0 = s32[] constant(1)
  %next.0 = s32[] add(%i.0, %one.0)
  ROOT %out.0 = (s32[], f32[4,8]{1,0}) tuple(%next.0, %m.0)
}

%inner.condition (t.1: (s32[], f32[4,8])) -> pred[] {
  %t.1 = (s32[], f32[4,8]{1,0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%t.1), index=0
  %three = s32[] constant(3)
  ROOT %go.1 = pred[] compare(%i.1, %three), direction=LT
}

%body (t.2: (s32[], f32[4,8], f32[8], f32[100,8])) -> (s32[], f32[4,8], f32[8], f32[100,8]) {
  %t.2 = (s32[], f32[4,8]{1,0:T(4,128)S(1)}, f32[8]{0}, /*index=3*/f32[100,8]{1,0}) parameter(0)
  %i.2 = s32[] get-tuple-element(%t.2), index=0
  %m.2 = f32[4,8]{1,0} get-tuple-element(%t.2), index=1
  %v.2 = f32[8]{0} get-tuple-element(%t.2), index=2
  %s.2 = f32[100,8]{1,0} get-tuple-element(%t.2), index=3
  %one.2 = s32[] constant(1)
  %f.2 = f32[4,8]{1,0} fusion(%m.2, %v.2), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/while/body/add"}
  %c.2 = f32[4,8]{1,0} copy(%f.2)
  %call.2 = f32[8]{0} call(%v.2), to_apply=%sorted
  %st.2 = f32[100,8]{1,0} fusion(%s.2, %call.2, %i.2), kind=kLoop, calls=%fused.store
  %zero.2 = s32[] constant(0)
  %in.2 = (s32[], f32[4,8]{1,0}) tuple(%zero.2, %c.2)
  %w.2 = (s32[], f32[4,8]{1,0}) while(%in.2), condition=%inner.condition, body=%inner.body
  %n.2 = f32[4,8]{1,0} get-tuple-element(%w.2), index=1
  %next.2 = s32[] add(%i.2, %one.2)
  ROOT %out.2 = (s32[], f32[4,8]{1,0}, f32[8]{0}, f32[100,8]{1,0}) tuple(%next.2, %n.2, %v.2, %st.2)
}

%condition (t.3: (s32[], f32[4,8], f32[8], f32[100,8])) -> pred[] {
  %t.3 = (s32[], f32[4,8]{1,0}, f32[8]{0}, f32[100,8]{1,0}) parameter(0)
  %i.3 = s32[] get-tuple-element(%t.3), index=0
  %seven = s32[] constant(7)
  ROOT %go.3 = pred[] compare(%i.3, %seven), direction=LT
}

ENTRY %main (m: f32[4,8], v: f32[8], s: f32[100,8]) -> f32[4,8] {
  %m = f32[4,8]{1,0} parameter(0)
  %v = f32[8]{0} parameter(1)
  %s = f32[100,8]{1,0} parameter(2)
  %zero.4 = s32[] constant(0)
  %in.4 = (s32[], f32[4,8]{1,0}) tuple(%zero.4, %m)
  %w.4 = (s32[], f32[4,8]{1,0}) while(%in.4), condition=%inner.condition, body=%inner.body
  %m.4 = f32[4,8]{1,0} get-tuple-element(%w.4), index=1
  %in.5 = (s32[], f32[4,8]{1,0}, f32[8]{0}, f32[100,8]{1,0}) tuple(%zero.4, %m.4, %v, %s)
  %w.5 = (s32[], f32[4,8]{1,0}, f32[8]{0}, f32[100,8]{1,0}) while(%in.5), condition=%condition, body=%body
  ROOT %r = f32[4,8]{1,0} get-tuple-element(%w.5), index=1
}
"""


def test_kernels_of_a_written_program():
    # Fusion, copy, sort, update of the store and the counter: 5; the inner loop's counter three times.
    loop = hlo.Program(WRITTEN).scan(7)
    assert sorted(k.opcode for k in loop.turn.kernels) == ["add", "copy", "fusion", "fusion", "sort"]
    assert [(inner.trips, len(inner.turn.kernels)) for inner in loop.turn.loops] == [(3, 1)]
    assert loop.turn.launches == 5 + 3
    assert loop.turn.host_trips == 0
    assert loop.turn.kernels[0].source == "jit(f)/while/body/add"


def test_bytes_of_a_written_program():
    # Changed: counter and matrix; only written: one row of the store; only read: the vector.
    program = hlo.Program(WRITTEN)
    loop = program.scan(7)
    assert program.carried(loop) == hlo.Carried(state=4 + 4 * 32, outputs=4 * 8, read=4 * 8)
    assert program.carried(loop).once == 2 * (4 + 4 * 32) + 4 * 8 + 4 * 8
    fusion, copy, sort, store, counter = (program.traffic(k) for k in loop.turn.kernels)
    assert (fusion, copy, sort) == (128 + 32 + 128, 128 + 128, 32 + 32)
    assert store == 32 + 4 + 32  # the row and its number are read, one row is written, the other 99 stay
    assert counter == 12
    assert program.moved(loop.turn) == fusion + copy + sort + store + counter + 3 * 12


@pytest.mark.parametrize(
    "old, new",
    [
        ("ROOT %go.1 = pred[] compare(%i.1, %three), direction=LT", "ROOT %go.1 = pred[] compare(%i.1, %i.1)"),
        ("%next.0 = s32[] add(%i.0, %one.0)", "%next.0 = s32[] add(%i.0, %i.0)"),
        ("%zero.2 = s32[] constant(0)", "%zero.2 = s32[] negate(%i.2)"),
    ],
    ids=["test", "step", "start"],
)
def test_a_loop_of_unknown_length_asks_the_host(old, new):
    # Whatever of a counter is not constant, the number of turns is unknown before they are made.
    assert WRITTEN.count(old) == 1
    loop = hlo.Program(WRITTEN.replace(old, new)).scan(7)
    assert loop.turn.loops[0].trips is None
    assert loop.turn.host_trips == 1


def test_the_compilers_own_count_of_turns_comes_first():
    text = WRITTEN.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"9"}}')
    assert hlo.Program(text).scan(9).turn.launches == 8
    with pytest.raises(ValueError, match="a loop of 7 turns"):
        hlo.Program(text).scan(7)


def test_text_that_is_no_program_is_refused():
    with pytest.raises(ValueError, match="ENTRY"):
        hlo.Program("nothing\n")


@pytest.mark.parametrize(
    "shape, size",
    [("f32[]", 4), ("pred[3,5]{1,0}", 15), ("(bf16[2]{0}, /*index=1*/u64[2,2]{1,0:T(8,128)})", 36), ("c128[2]", 32)],
)
def test_bytes_of_a_shape(shape, size):
    assert hlo.nbytes(shape) == size


def scanned(step, length=11, size=8):
    """The compiled scan of ``step`` over a vector."""
    program = jax.jit(lambda x: jax.lax.scan(lambda c, _: (step(c), None), x, None, length=length)[0])
    return program.lower(jax.ShapeDtypeStruct((size,), jnp.result_type(float))).compile()


def sorts(num):
    def step(x):
        for _ in range(num):
            x = jnp.sort(x) * jnp.arange(x.size, 0, -1, dtype=x.dtype)
        return x

    return step


def test_each_sort_of_a_compiled_scan_is_a_kernel():
    # No compiler fuses one into another.
    loops = [hlo.Program(scanned(sorts(n)).as_text()).scan(11) for n in (1, 4)]
    counts = [sum(k.opcode == "sort" for k in loop.turn.kernels) for loop in loops]
    assert counts == [1, 4]
    assert loops[1].turn.launches >= loops[0].turn.launches + 3
    assert all(loop.turn.host_trips == 0 for loop in loops)


def until_small(x):
    return jax.lax.while_loop(lambda y: jnp.max(y) > 1, lambda y: y / 2, x * 3)


def test_an_inner_loop_on_data_is_found():
    # A loop of known length is none of those.
    def known(x):
        return jax.lax.fori_loop(0, 5, lambda _, y: jnp.sort(y) * 2, x)

    on_data, on_number = (hlo.Program(scanned(f).as_text()).scan(11).turn for f in (until_small, known))
    assert on_data.host_trips == 1 and on_data.loops[0].trips is None
    assert on_number.host_trips == 0 and on_number.loops[0].trips == 5
    assert on_number.launches >= 5


def test_float64_is_found():
    # In a float32 program a single number is enough.
    def step(x):
        return (x.astype("float64") / 3).astype("float32")

    for inside in (step, lambda x: x / 3):
        program = jax.jit(lambda x, f=inside: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=11)[0])
        text = program.lower(jax.ShapeDtypeStruct((8,), jnp.float32)).compile().as_text()
        assert bool(hlo.wide_floats(hlo.Program(text))) == (inside is step)


def test_collectives_and_custom_calls_are_found():
    text = WRITTEN.replace(
        "%c.2 = f32[4,8]{1,0} copy(%f.2)",
        '%c.1 = f32[4,8]{1,0} custom-call(%f.2), custom_call_target="cusolver"\n'
        "  %c.2 = f32[4,8]{1,0} all-reduce(%c.1), to_apply=%less",
    )
    program = hlo.Program(text)
    assert [i.opcode for i in hlo.collectives(program)] == ["all-reduce"]
    assert hlo.custom_calls(program) == {"cusolver": 1}
    assert program.scan(7).turn.launches == 9


def test_of_what_a_turn_looks_up_only_that_counts():
    # One row of the store is read, and nothing of it is written.
    look_up = WRITTEN.replace("%st.2 = f32[100,8]{1,0} fusion(%s.2, %call.2, %i.2), kind=kLoop, calls=%fused.store", "")
    look_up = look_up.replace(
        "%zero.2 = s32[] constant(0)",
        "%zero.2 = s32[] constant(0)\n  %row.2 = f32[1,8]{1,0} dynamic-slice(%s.2, %i.2, %zero.2)",
    ).replace("tuple(%next.2, %n.2, %v.2, %st.2)", "tuple(%next.2, %n.2, %v.2, %s.2)")
    program = hlo.Program(look_up)
    assert program.carried(program.scan(7)) == hlo.Carried(state=4 + 4 * 32, outputs=0, read=4 * 8 + 4 * 8)


def test_a_store_that_is_read_is_state():
    # Its row is written, and all that is in it decides what comes next.
    text = WRITTEN.replace(
        "%c.2 = f32[4,8]{1,0} copy(%f.2)", "%x.2 = f32[100,8]{1,0} negate(%s.2)\n  %c.2 = f32[4,8]{1,0} copy(%f.2)"
    )
    program = hlo.Program(text)
    assert program.carried(program.scan(7)) == hlo.Carried(state=4 + 4 * 32 + 4 * 8, outputs=0, read=4 * 8 + 4 * 99 * 8)


def test_of_rows_that_are_added_to_only_those_count():
    # Each seed's own row is read and written in place.
    text = WRITTEN.replace("dynamic-update-slice(%p.2, %bit, %p.4, %zero)", "scatter(%p.2, %p.4, %bit), to_apply=%less")
    program = hlo.Program(text)
    loop = program.scan(7)
    assert program.carried(loop) == hlo.Carried(state=4 + 4 * 32 + 4 * 8, outputs=0, read=4 * 8)
    assert [program.traffic(i) for i in loop.turn.kernels if i.name == "st.2"] == [3 * 4 * 8 + 4]


FOUND = Cost(
    num_seeds=65536,
    blocks=1,
    counts=Counts(graphs=1, nodes=20, outside=0, chain=10),
    kernels=20,
    on_data=0,
    scratch=0,
    carried=hlo.Carried(state=60 * 10**6, outputs=10**6, read=10**7),
    moved=65536 * 4000,
    wide=0,
    collectives=0,
    custom_calls={},
    compile_seconds=1.0,
)


def test_bytes_per_seed():
    assert FOUND.moved_per_seed == 4000
    assert FOUND.must_move_per_seed == pytest.approx((2 * 60e6 + 1e6 + 1e7) / 65536)
    assert FOUND._replace(blocks=4).moved_per_seed == 4 * 4000  # a turn is then one of a quarter of the seeds


def test_the_memory_bounds_what_does_not_fit_on_the_chip():
    h100 = devices()["h100"]
    assert h100.bandwidth == pytest.approx(3.35e12, rel=1e-3)
    # 60 MB are read and written, 10 MB read; of what is read, and of what is written, the cache may hold its size.
    missing = (60e6 + 10e6 - h100.cache) + (60e6 - h100.cache)
    assert memory_bound(FOUND, h100) == pytest.approx(65536 * h100.bandwidth / missing)
    # What fits on the chip need not be moved; of a CPU nothing is said.
    small = FOUND._replace(carried=hlo.Carried(state=10**6, outputs=0, read=0))
    assert memory_bound(small, h100) is None
    assert memory_bound(FOUND, devices()["tpu_v5e"]) is None
    assert memory_bound(FOUND, devices()["cpu"]) is None


def test_complaints_name_what_must_not_be():
    h100, cpu = devices()["h100"], devices()["cpu"]
    assert complaints(FOUND, h100, "float32") == []
    bad = FOUND._replace(wide=3, on_data=2, collectives=1)
    assert [line.split()[0] for line in complaints(bad, h100, "float32")] == ["3", "2", "1"]
    assert [line.split()[0] for line in complaints(bad, h100, "float64")] == ["2", "1"]
    assert [line.split()[0] for line in complaints(bad, cpu, "float64")] == ["1"]


def test_it_is_the_program_that_simulate_runs(monkeypatch):
    # simulate and the command build the same program; only the length of its loop is known to the command.
    algorithm, environment = bandit_game(SMALL, "oful", True)
    ours = traced(algorithm, environment, 16, 50, jax.devices()[0])
    play, calls = engine.Program.play, []

    def spy(program, ids, num_rounds):
        calls.append(program.traced(num_rounds))
        return play(program, ids, num_rounds)

    monkeypatch.setattr(engine.Program, "play", spy)
    setting = {"num_rounds": 50, "num_seeds": 16, "chunk": 16, "record_at": 1, "devices": jax.devices()[:1]}
    jv.simulate(algorithm, environment, key=jax.random.key(3), **setting)
    assert len(calls) == 1
    assert str(ours.jaxpr) == str(calls[0].jaxpr)
    assert equations(ours.jaxpr, 50) > 100
    with pytest.raises(ValueError, match="length 51"):
        equations(ours.jaxpr, 51)


def test_precision_is_put_back():
    with precision("float32"):
        assert jnp.zeros(1).dtype == np.float32
    assert jnp.zeros(1).dtype == np.float64


@pytest.mark.slow
def test_the_command_prints_a_line_per_program(capsys):
    options = Kernels(device="cpu", algorithms=("oful",), seeds=(8, 16), dim=2, arms=3, rounds=40, show=True)
    assert kernels(options) == 0
    printed = capsys.readouterr().out
    assert printed.count("oful fixed") == 2 and printed.count("oful fresh") == 2
    assert "nothing here is a measured speed" in printed and "no float64 operation" in printed
    assert "launch" not in printed
    assert ".py:" in printed  # where kernels come from
    assert kernels(Kernels(algorithms=("sarsa",))) == 2


class Pull(NamedTuple):
    action: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Searching:
    """An algorithm with a loop on data in each round."""

    start: Any

    def init(self):
        return jnp.zeros(3)

    def select(self, state, arms, key, side):
        return Pull(jnp.argmax(arms @ until_small(state + self.start)))

    def update(self, state, choice, x, reward, side):
        return state + reward * x


def accelerator(name):
    """The device, or a skipped test where its compiler is not installed."""
    try:
        return target(devices()[name])
    except MissingCompiler as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", ["h100", "tpu_v5e"])
@pytest.mark.parametrize("fresh", [False, True])
def test_accelerators_compile_save(name, fresh):
    # One loop over the rounds, without a question to the host, in float32 throughout, and no block of the CPU's size.
    device = accelerator(name)
    with precision("float32"):
        algorithm, environment = bandit_game(SMALL, "save", fresh)
        program = traced(algorithm, environment, 256, SMALL.rounds, device)
        found, text, loop, _ = compile_and_read(program.lower(), 256, SMALL.rounds, graphs=name == "h100")
    assert complaints(found, devices()[name], "float32") == []
    assert found.custom_calls == {} and loop.turn.loops == ()
    assert 5 <= found.kernels <= 120 and found.blocks == 1
    assert any(",256]" in k.shape or "[256]" in k.shape for k in loop.turn.kernels)
    assert any(".py:" in text.where(k) for k in loop.turn.kernels)


@pytest.mark.parametrize("name", ["h100", "tpu_v5e"])
def test_accelerators_show_a_loop_on_data(name):
    device = accelerator(name)
    with precision("float32"):
        environment = jv.linear_bandit(3, 4, noise=jv.noise.two_point(0.1))
        program = traced(Searching(start=jnp.ones(3)), environment, 64, 40, device)
        found = compile_and_read(program.lower(), 64, 40, graphs=name == "h100").cost
    assert found.on_data >= 1
    assert "data-dependent" in complaints(found, devices()[name], "float32")[0]
