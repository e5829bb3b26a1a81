"""Reading CUDA graphs: of a stored dump, of dumps written by hand, and where its compiler is installed of programs.

``graph_dump.txt`` is what the compiler wrote about :func:`lowered`, without what is not read. Where the compiler is
installed, this writes it anew:

    JAX_PLATFORMS=cpu python tests/experiments/test_graphs.py
"""

import dataclasses
import re
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments.speed import hlo
from experiments.speed.comparison import Comparison, bandit_game, episodic_game
from experiments.speed.graphs import (
    CONCURRENT,
    Counts,
    Dump,
    Step,
    compile_and_read,
    measure_lowered,
    parse_steps,
)
from experiments.speed.kernels import MissingCompiler, devices, measure_graph, precision, target

pytestmark = pytest.mark.usefixtures("compiled_anew")

STORED = Path(__file__).with_name("graph_dump.txt")
SMALL = Comparison(dim=3, arms=4, rounds=50, states=3, actions=2, features=2, horizon=3, episodes=20)


def lowered(device):
    """Seven turns with two reductions that do not need each other, an output, and three turns of an inner loop."""

    def step(carry, _):
        a, b = carry
        kept = jax.lax.optimization_barrier
        s, t = kept(jnp.sum(a, 0)), kept(jnp.sum(b, 0))
        u, v = kept(jnp.max(s)), kept(jnp.min(t))
        b = jax.lax.fori_loop(0, 3, lambda _, y: y * v + jnp.sum(y, 0)[None], b)
        return (a + (u * s)[None] + t[None], b), s

    sharding = NamedSharding(Mesh(np.array([device]), ("x",)), PartitionSpec())
    x = jax.ShapeDtypeStruct((8, 64), jnp.float32, sharding=sharding)
    return jax.jit(lambda a, b: jax.lax.scan(step, (a, b), None, length=7)).trace(x, x).lower()


def stored_parts():
    return dict(re.findall(r"^=== (\w+)\n(.*?)(?=^=== |\Z)", STORED.read_text(), flags=re.DOTALL | re.MULTILINE))


def stored():
    parts = stored_parts()
    return Dump(parts["steps"], parts["metadata"], parts["assignment"], hlo.Program(parts["program"]))


# What is read off the stored steps. The graph: a copy, two sums, two reductions of them, the new state, the output and
# the counter. Of these sum, maximum, state are a chain. Then three turns of an inner loop of three kernels.
EXPECTED = Counts(graphs=1, nodes=8, outside=3 * 3, chain=3 + 3 * 3)


def lists(steps):
    """Every list of steps, those inside of others included."""
    yield steps
    for step in steps:
        for part in step.parts.values():
            yield from lists(part)


def misread(dump):
    """Steps whose nearest dependency is not the printed one."""
    pairs = [pair for steps in lists(dump.steps) for pair in zip(steps, dump.nearest(steps), strict=True)]
    assert len(pairs) > 10
    return [(step, found) for step, found in pairs if step.before != found and step.kind != "kDynamicSliceFusion"]


def test_a_stored_dump():
    dump = stored()
    assert dump.turn(dump.program.scan(7)) == EXPECTED
    assert misread(dump) == []


def test_the_inner_loop_of_a_stored_dump():
    # One turn: the counter, the new matrix and a copy of it; the condition is not run, as three turns are known.
    dump = stored()
    assert dump.turn(dump.program.scan(3)) == Counts(graphs=0, nodes=0, outside=3, chain=3)


def test_bytes_of_a_stored_dump():
    # Counter and two matrices change, one row is an output. Once: read and written, the row only written.
    dump = stored()
    carried = dump.program.carried(dump.program.scan(7))
    assert carried == hlo.Carried(state=4 + 2 * 4 * 8 * 64, outputs=4 * 64, read=0)
    assert carried.once == 2 * (4 + 2 * 4 * 8 * 64) + 4 * 64
    assert dump.program.times(dump.program.scan(7)) == 1
    assert dump.program.times(dump.program.scan(3)) == 7


def test_steps_are_nested_as_printed():
    dump = stored()
    (loop,) = (step for step in dump.steps if step.kind == "kWhile")
    assert [step.number for step in loop.parts["condition"]] == [6]
    graph, inner = loop.parts["body"]
    assert (graph.kind, inner.kind) == ("kCommandBuffer", "kWhile")
    assert [step.number for step in graph.inside()] == [7, 8, 9, 10, 11, 12, 13, 15]
    assert [step.before for step in graph.inside()] == [None, None, 8, None, 10, 11, 12, None]
    assert sorted(inner.parts) == ["body", "condition"]
    assert [step.number for step in inner.parts["body"]] == [18, 19, 20]


def test_a_program_without_steps_is_refused():
    with pytest.raises(ValueError, match="sequence of thunks"):
        parse_steps("nothing\n")
    dump = stored()
    loop = dump.program.scan(7)
    with pytest.raises(ValueError, match="the loop other"):
        dump.turn(loop._replace(instruction=loop.instruction._replace(name="other")))


def test_files_are_those_of_one_program(tmp_path):
    # Where the compiler made no graph there are only the steps before; then every kernel is started by itself.
    parts = stored_parts()
    program = hlo.Program(parts["program"])
    with pytest.raises(ValueError, match="one program, got 0"):
        Dump.read(tmp_path, program)
    flat = [line for line in parts["steps"].splitlines(keepends=True) if "kCommandBuffer" not in line]
    (tmp_path / "m.thunk_sequence.txt").write_text(re.sub(r"(?m)^    (?=    0(?:0[7-9]|1[0-5]):)", "", "".join(flat)))
    (tmp_path / "m.thunk_metadata.txt").write_text(parts["metadata"])
    (tmp_path / "m.gpu-buffer-assignment.txt").write_text(parts["assignment"])
    loop = program.scan(7)
    assert Dump.read(tmp_path, program).turn(loop) == Counts(graphs=0, nodes=0, outside=8 + 9, chain=8 + 9)
    (tmp_path / "m.thunk_sequence_after_thunk_passes.txt").write_text(parts["steps"])
    assert Dump.read(tmp_path, program).turn(loop) == EXPECTED


# A loop on data: its condition runs in every turn. Of two branches the longer one counts.
BY_HAND = """001: kWhile        [source | sink]
condition:
    002: kCustomKernel [source | sink] compare grid: [1, 1, 1]
  body:
    006: kConditional   [source       | next=007 (1)]
      false_branch:
        003: kCopy         [source | sink] kCopy
      true_branch:
        004: kCustomKernel [source       | next=005 (1)] sort grid: [1, 1, 1]
        005: kCustomKernel [prev=004 (1) | sink        ] add grid: [1, 1, 1]
    007: kCustomCall    [prev=006 (1) | sink        ] kCustomCall
"""

PROGRAM = """HloModule by_hand

%body (t.0: (f32[4])) -> (f32[4]) {
  %t.0 = (f32[4]{0}) parameter(0)
  %x.0 = f32[4]{0} get-tuple-element(%t.0), index=0
  %y.0 = f32[4]{0} negate(%x.0)
  ROOT %out.0 = (f32[4]{0}) tuple(%y.0)
}

%condition (t.1: (f32[4])) -> pred[] {
  %t.1 = (f32[4]{0}) parameter(0)
  ROOT %go.1 = pred[] constant(true)
}

ENTRY %main (m: f32[4]) -> (f32[4]) {
  %m = f32[4]{0} parameter(0)
  %in.2 = (f32[4]{0}) tuple(%m)
  ROOT %w.2 = (f32[4]{0}) while(%in.2), condition=%condition, body=%body
}
"""

METADATA = 'thunk_metadata {\n  thunk_info {\n    profile_annotation: "w.2"\n    thunk_id: 1\n  }\n}\n'


def test_branches_and_loops_on_data():
    program = hlo.Program(PROGRAM)
    (loop,) = program.turn(program.entry).loops
    dump = Dump(BY_HAND, METADATA, "", program)
    assert dump.turn(loop) == Counts(graphs=0, nodes=0, outside=2 + 1 + 1, chain=4)


def test_a_loop_inside_of_a_graph_is_part_of_it():
    # Then the host starts nothing in a turn.
    program = hlo.Program(PROGRAM)
    (loop,) = program.turn(program.entry).loops
    labels = ("condition:", "  body:")
    inside = "".join(line if line.strip() in labels else f"    {line}" for line in BY_HAND.splitlines(keepends=True))
    dump = Dump(f"000: kCommandBuffer [source | sink]\n{inside}", METADATA, "", program)
    found = dump.turn(loop)
    assert (found.graphs, found.nodes, found.outside) == (0, 4, 0)


def test_memory_that_overlaps_makes_a_chain():
    # Three kernels that name different values: 2 writes over half of what 1 reads, 3 is alone.
    program = hlo.Program(
        PROGRAM.replace(
            "  %y.0 = f32[4]{0} negate(%x.0)\n",
            "  %y.0 = f32[4]{0} negate(%x.0)\n  %z.0 = f32[2]{0} iota(), iota_dimension=0\n"
            "  %o.0 = f32[2]{0} iota(), iota_dimension=0\n",
        )
    )
    named = {1: "w.2", 2: "y.0", 3: "z.0", 4: "o.0"}
    metadata = "".join(METADATA.replace("w.2", name).replace("1\n", f"{n}\n") for n, name in named.items())
    steps = (
        "001: kWhile [source | sink]\n  body:\n    000: kCommandBuffer [source | sink]\n"
        "        002: kCustomKernel [source | next=003 (1)] y\n"
        "        003: kCustomKernel [prev=002 (1) | sink] z\n"
        "        004: kCustomKernel [source | sink] o\n"
    )

    def dump(offset):
        return Dump(
            steps,
            metadata,
            "allocation 0: size 16, preallocated-temp:\n"
            " value: <1 t.0{0} (phi) @0> (size=16,offset=0): f32[4]{0}\n"
            f" value: <2 z.0 @0> (size=8,offset={offset}): f32[2]{{0}}\n"
            "allocation 1: size 24, preallocated-temp:\n"
            " value: <3 y.0 @0> (size=16,offset=0): f32[4]{0}\n"
            " value: <4 o.0 @0> (size=8,offset=16): f32[2]{0}\n",
            program,
        )

    (loop,) = program.turn(program.entry).loops
    assert dump(8).turn(loop) == Counts(graphs=1, nodes=3, outside=0, chain=2)
    assert dump(16).turn(loop) == Counts(graphs=1, nodes=3, outside=0, chain=1)
    ((_, (graph,)),) = dump(8).steps[0].parts.items()
    assert dump(8).nearest(list(graph.inside())) == [None, 2, None] == [s.before for s in graph.inside()]
    assert isinstance(graph, Step)


def gpu():
    """The device, or a skipped test where its compiler is not installed."""
    try:
        return target(devices()["h100"])
    except MissingCompiler as error:
        pytest.skip(str(error))


def test_the_compiler_still_writes_what_is_read():
    # The same program as the stored one; its numbers may change with the compiler, what is printed must agree.
    found = compile_and_read(lowered(gpu()), 64, 7)
    assert found.dump is not None and found.cost.counts is not None
    assert misread(found.dump) == []
    counts = found.cost.counts
    assert counts.graphs >= 1 and counts.nodes + counts.outside == found.cost.kernels
    assert counts.chain < counts.nodes + counts.outside
    assert found.cost.must_move_per_seed <= found.cost.moved_per_seed
    assert measure_lowered(lowered(gpu()), 64, 7, options=CONCURRENT).counts is not None


@pytest.mark.parametrize(
    ("name", "fresh", "nodes", "chain", "moved"),
    [
        ("save", False, None, None, None),
        ("save", True, 19, 10, 3865),
        ("ave_ucb", True, 20, 12, 4656),
        ("oful", True, 14, 8, 2705),
        ("ucrl_ave", False, 25, 16, 1845),
    ],
    ids=["save-fixed", "save-fresh", "ave_ucb-fresh", "oful-fresh", "ucrl_ave"],
)
def test_rounds_are_graphs(name, fresh, nodes, chain, moved):
    # One graph holds the whole round, or the whole episode.
    gpu()
    with precision("float32"):
        usual = dataclasses.replace(SMALL, dim=10, arms=20)  # arms and inverses are long enough to be looked up
        game = episodic_game(SMALL) if name == "ucrl_ave" else bandit_game(usual, name, fresh)
        turns = SMALL.episodes if name == "ucrl_ave" else SMALL.rounds
        found = measure_graph(*game, 256, turns)
    assert found.counts is not None and found.blocks == 1
    assert found.counts.nodes + found.counts.outside == found.kernels
    assert (found.counts.graphs, found.counts.outside) == (1, 0)
    if nodes is not None:
        assert found.counts.nodes <= nodes and found.counts.chain <= chain and found.moved_per_seed <= moved
    assert 1 < found.counts.chain < found.kernels
    assert 0 < found.must_move_per_seed <= found.moved_per_seed


def write():
    """Write the stored dump anew."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = lowered(target(devices()["h100"])).compile(compiler_options={"xla_dump_to": folder})

        def text(ending):
            (path,) = Path(folder).glob(f"*{ending}")
            return path.read_text()

        parts = {
            "steps": text(".thunk_sequence_after_thunk_passes.txt"),
            "metadata": text(".thunk_metadata.txt"),
            "assignment": text("buffer-assignment.txt").split("\nTotal bytes")[0],
            "program": compiled.as_text(),
        }
    not_read = {  # and the module's line is long
        "assignment": [r"^allocation \d+: size \d+, thread-local:\n value.*\n"],
        "program": [
            r"(?<=^HloModule jit__lambda), .*",
            r"^\n\w+\n(?:\d+ .*\n)+",
            r", (?:metadata|sharding)=\{[^}]*\}",
            r", frontend_attributes=\{xla.*?>\"\}",
            r", backend_config=\{\"operation.*",
            r"(?<=\}),\"known_init.*(?=\})",
        ],
    }
    for name, patterns in not_read.items():
        for pattern in patterns:
            parts[name] = re.sub(pattern, "", parts[name], flags=re.MULTILINE)
    lines = (line.rstrip() for name, part in parts.items() for line in (f"=== {name}", *part.strip().splitlines()))
    STORED.write_text("\n".join(line for line in lines if line) + "\n")


if __name__ == "__main__":
    write()
