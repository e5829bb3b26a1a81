"""Studies from files: the same studies as from Python, and errors with the line they are about."""

import json
import os
import textwrap
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaxvar as jv
from jaxvar.study import toml
from jaxvar.study.factories import StudyError
from jaxvar.study.toml import KeyLines
from tests.helpers.study_strategies import studies

GOOD = """\
# a study
question = '''
Who
= wins [[here]]?'''   # not a key
seeds = 4
rounds = 100
records = { spacing = "log", number = 5 }
record = [
    "regret",   # needed
    "variance",
]
[[algorithm]]
name = "save"
label = 'SAVE "#1"'
constants = { preset = "paper", beta_scale = 0.3 }
delta = 0.01
  [algorithm.sweep]
  noise_bound = [0.5,
    1.0]
[[ algorithm ]]
"name" = "oful"
lam = 1.0
[[environment]]
name = "linear_bandit"
dim = 2
num_arms = 3
noise.name = "two_point"
noise.std = 0.1
[environment.sweep]
"noise.std" = [0.0, 0.1]
dim = [2, 3]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_bytes(text.encode())
    return path


def test_a_file_is_the_study_it_says(tmp_path):
    """The same as from Python; the name is the file's where none is given."""
    read = jv.read_study(write(tmp_path, GOOD))
    noise = {"name": "two_point", "std": 0.1}
    assert read == jv.Study(
        name="mine",
        question="Who\n= wins [[here]]?",
        seeds=4,
        rounds=100,
        records={"spacing": "log", "number": 5},
        algorithms=(
            jv.Entry(
                "save",
                label='SAVE "#1"',
                options={"constants": {"preset": "paper", "beta_scale": 0.3}, "delta": 0.01},
                sweep={"noise_bound": [0.5, 1.0]},
            ),
            jv.Entry("oful", options={"lam": 1.0}),
        ),
        environments=(
            jv.Entry(
                "linear_bandit",
                options={"dim": 2, "num_arms": 3, "noise": noise},
                sweep={"noise.std": [0.0, 0.1], "dim": [2, 3]},
            ),
        ),
    )
    assert jv.read_study(str(write(tmp_path, GOOD.replace("\n", "\r\n")))) == read
    assert jv.read_study(write(tmp_path, "\ufeff" + GOOD)) == read
    unquoted = GOOD.replace('"noise.std" = [', "noise.std = [")
    assert jv.read_study(write(tmp_path, unquoted)) == read


def test_the_documented_example_is_a_study(tmp_path):
    """What the documentation shows must work."""
    example = toml.__doc__.split("::\n", 1)[1].split("\nArguments that", 1)[0]
    read = jv.read_study(write(tmp_path, textwrap.dedent(example)))
    assert (read.name, len(read.algorithms), read.reference) == ("noise", 2, "OFUL (theorem)")


# What stands for a key of GOOD's study -> what makes it wrong, by replacement; the line is that of the new text.
WRONG = {
    "top value": ("seeds = 4", "seeds = 0", "seeds must be"),
    "top key": ("seeds = 4", "seds = 4", "there is no key of a study named 'seds'; did you mean 'seeds'?"),
    "flag": ("rounds = 100", "rounds = true", "rounds"),
    "date": ("rounds = 100", "rounds = 1979-05-27", "rounds"),
    "inline": ('{ spacing = "log", number = 5 }', '{ spacing = "lag", number = 5 }', "did you mean 'log'"),
    "second in an inline table": ("number = 5 }", "number = 500 }", "number"),
    "list": ('"variance",', '"varance",', "did you mean 'variance'"),
    "constants": ("beta_scale = 0.3", "beta_scael = 0.3", "did you mean 'beta_scale'"),
    "constant": ("beta_scale = 0.3", "beta_scale = -0.3", "beta_scale"),
    "first algorithm's value": ("delta = 0.01", "delta = 2.0", "algorithm 'SAVE \"#1\"' with noise_bound = 0.5: delta"),
    "nan": ("delta = 0.01", "delta = nan", "finite"),
    "swept": ("  noise_bound = [0.5,", "  noise_bond = [0.5,", "did you mean 'noise_bound'"),
    "swept value": ("  noise_bound = [0.5,", "  noise_bound = [-0.5,", "noise_bound"),
    "quoted key": ('"name" = "oful"', '"name" = "ofull"', "did you mean 'oful'"),
    "second algorithm": ("lam = 1.0", "lam = 0.0", "algorithm 'oful': lam"),
    "second algorithm's key": ("lam = 1.0", "lamb = 1.0", "did you mean 'lam'"),
    "label twice": ("lam = 1.0", 'label = "SAVE \\"#1\\""', "labels"),
    "contradiction": ("lam = 1.0", "dim = 5", "contradicts"),
    "environment": ('name = "linear_bandit"', 'name = "linear_bandits"', "did you mean 'linear_bandit'"),
    "algorithm as environment": ('name = "linear_bandit"', 'name = "oful"', "'oful' is an algorithm"),
    "size": ("num_arms = 3", "num_arms = 3.0", "num_arms"),
    "dotted key": ("noise.std = 0.1\n", "noise.sdt = 0.1\n", "did you mean 'std'"),
    "dotted value": ('noise.name = "two_point"', 'noise.name = "one_point"', "did you mean 'two_point'"),
    "swept path": ('"noise.std" = [', '"noise.sdt" = [', "did you mean 'std'"),
    "swept path's value": ('"noise.std" = [0.0', '"noise.std" = [-1.0', "noise: std"),
    "swept path without quotes": ('"noise.std" = [0.0', "noise.std = [-1.0", "noise: std"),
    "swept size": ("dim = [2, 3]", "dim = [2, 0]", "'linear_bandit' with noise.std = 0.0, dim = 0: dim"),
    "missing argument": ('"name" = "oful"', '"name" = "cw_oful"', "threshold", "[[ algorithm ]]"),
    "missing name": ('"name" = "oful"\n', "", "name must be given", "[[ algorithm ]]"),
    "unsupported recorder": ('"variance",', '"layer_rounds",', "no layers", "[[ algorithm ]]"),
    "not TOML": ("lam = 1.0", "lam = = 1.0", "this is not TOML: Invalid value"),
    "key twice": ("lam = 1.0", "name = 'greedy'\nlam = 1.0", "this is not TOML", "name = 'greedy'"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_errors_name_file_and_line(tmp_path, case):
    """Where the wrong key stands, or the table that lacks one."""
    old, new, message, *elsewhere = case
    assert GOOD.count(old) == 1
    path = write(tmp_path, GOOD.replace(old, new))
    mark = elsewhere[0] if elsewhere else new
    text = path.read_text()
    assert text.count(mark) == 1
    line = text[: text.index(mark)].count("\n") + 1
    with pytest.raises(StudyError) as refused:
        jv.read_study(path)
    place, told = str(refused.value)[: len(f"{path}:{line}: ")], str(refused.value)
    assert place == f"{path}:{line}: ", told
    assert message in told


def test_errors_without_a_line_name_the_file(tmp_path):
    """There is no line for what is missing altogether, or for what two tables do together."""
    path = write(tmp_path, GOOD.replace("seeds = 4\n", ""))
    with pytest.raises(StudyError) as refused:
        jv.read_study(path)
    assert str(refused.value) == f"{path}: seeds must be given"
    path = write(tmp_path, GOOD + '[[algorithm]]\nname = "oful"\nlabel = "again"')
    with pytest.raises(StudyError, match=r"mine\.toml: cells must differ"):
        jv.read_study(path)


def test_one_table_where_many_belong(tmp_path):
    """``[algorithm]`` for ``[[algorithm]]`` is an easy slip."""
    path = write(tmp_path, 'seeds = 1\nrounds = 1\n[algorithm]\nname = "oful"\n')
    with pytest.raises(StudyError, match=r":3: a study must have one \[\[algorithm\]\] or more"):
        jv.read_study(path)


LINES = {
    "arrays of tables": (
        "[[a]]\nx=1\n[[a]]\nx=2\n[[a.b]]\ny=1\n[[a.b]]\ny=2\n",
        {("a", 0, "x"): 2, ("a", 1): 3, ("a", 1, "x"): 4, ("a", 1, "b", 1): 7, ("a", 1, "b", 1, "y"): 8},
    ),
    "table in an array": (
        "[[a]]\n[a.s]\nx=1\n[[a]]\n[a.s]\nx=2\n",
        {("a", 0, "s"): 2, ("a", 0, "s", "x"): 3, ("a", 1, "s"): 5, ("a", 1, "s", "x"): 6},
    ),
    "dotted and quoted": (
        'a . "b.c" . \'d\' = 1\n["x y".\'z\']\n"\\u00e9\\"" = 2\n',
        {("a",): 1, ("a", "b.c", "d"): 1, ("x y", "z"): 2, ("x y", "z", 'é"'): 3},
    ),
    "multi-line text": (
        'a = """\nb = 1 \\"\n[c] ""\n"""  # x\nd = \'\'\'\n\ne = 2\\\'\'\'\nf = 3\n',
        {("a",): 1, ("d",): 5, ("f",): 8},
    ),
    "text ending in quotes": (
        "a = \"\"\"x\"\"\"\"\"\nb = '''y'''''\nc = \"\"\nd = ''\n",
        {("a",): 1, ("b",): 2, ("c",): 3, ("d",): 4},
    ),
    "lists": (
        'a = [ # [\n  1, # ]\n  [2,\n  3], "]", { b = 1 },\n]\nc = 1',
        {("a",): 1, ("a", 0): 2, ("a", 1): 3, ("a", 2): 4, ("a", 3, "b"): 4, ("c",): 6},
    ),
    "inline tables": (
        "a = { b = { c.d = '}', e = [{f=1}] }, g = 2 } # {\nh=1",
        {("a", "b", "c", "d"): 1, ("a", "b", "e", 0, "f"): 1, ("a", "g"): 1, ("h",): 2},
    ),
    "comments": ("# a = 1\n\n   # [b]\nc = 1 # d = 2\n[e] # [f]\ng = '#' # x\n", {("c",): 4, ("e",): 5, ("e", "g"): 6}),
    "values": ("a = 1979-05-27 07:32:00Z\nb = -inf\nc = true\nd = 1e5\n", {("a",): 1, ("b",): 2, ("c",): 3, ("d",): 4}),
    "broken off": ("a = 1\nb = [1, \nc", {("a",): 1, ("b",): 2}),
    "nonsense": ("a = 1\n= 3\nb = 2", {("a",): 1}),
}


@pytest.mark.parametrize(("text", "expected"), LINES.values(), ids=LINES.keys())
def test_lines_of_keys(text, expected):
    """Everything TOML allows around a key; what is broken ends the search and nothing else."""
    found = KeyLines(text)
    assert {path: found.found.get(path) for path in expected} == expected
    named = {path[-1] for path in found.found if isinstance(path[-1], str)}
    assert named <= {part for path in expected for part in path}  # nothing in texts or comments was taken for a key


def test_nearest_line_around_a_missing_key():
    """The key, else its table, else nothing."""
    lines = KeyLines("[[a]]\n[a.b]\nx.y = 1\n")
    assert lines.line(("a", 0, "b", "x.y")) == 3
    assert lines.line(("a", 0, "b", "x", "y")) == 3
    assert lines.line(("a", 0, "b", "z")) == 2
    assert lines.line(("a", 1, "b")) == 1
    assert lines.line(("c",)) is None
    assert lines.line(()) is None


KEYS = st.one_of(
    st.sampled_from(["a", "b", "c-d", "e_1", "3"]),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=4),
)
SCALARS = st.one_of(
    st.integers(-9, 9),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("ab#=[]{}\"'\\ \n,.", max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(
    KEYS,
    st.one_of(VALUES, st.lists(st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), min_size=1, max_size=3)),
    max_size=4,
)


class Writer:
    """TOML text of a table, each thing in one of the ways TOML allows, and the line on which each key stands."""

    def __init__(self, draw):
        self.draw, self.text, self.lines = draw, "", {}

    def flip(self):
        return self.draw(st.booleans())

    def key(self, key):
        bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
        literal = key.isprintable() and "'" not in key
        ways = [json.dumps(key, ensure_ascii=False), *([key] if bare else []), *([f"'{key}'"] if literal else [])]
        return self.draw(st.sampled_from(ways))

    def put(self, text):
        self.text += text

    def note(self, path):
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def gap(self):
        self.put(self.draw(st.sampled_from(["", " ", "\n", ' # ] } " x = 1\n\t'])))

    def value(self, path, value):
        if isinstance(value, dict):
            self.put("{")
            for i, (key, inner) in enumerate(value.items()):
                self.put(", " if i else " ")
                self.note((*path, key))
                self.put(f"{self.key(key)} = ")
                self.value((*path, key), inner)
            self.put("}")
        elif isinstance(value, list | tuple):
            self.put("[")
            for i, inner in enumerate(value):
                self.gap()
                self.value((*path, i), inner)
                self.gap()
                self.put("," if i < len(value) - 1 or self.flip() else "")
            self.gap()
            self.put("]")
        elif isinstance(value, str) and self.flip() and "\\" not in value and '"""' not in value and value[-1:] != '"':
            self.put(f'"""\n{value}"""')
        else:
            self.put(json.dumps(value, ensure_ascii=False))

    def pairs(self, path, table):
        """Values of ``table``; returns the tables in it that are to get a header."""
        later = []
        for key, value in table.items():
            inner = value if isinstance(value, dict) else None
            many = isinstance(value, list | tuple) and value and all(isinstance(v, dict) for v in value)
            if (inner or many) and self.flip():
                later.append((key, value))
                continue
            if inner and self.flip():  # dotted keys
                for last, leaf in inner.items():
                    self.note((*path, key))
                    self.note((*path, key, last))
                    self.put(f"{self.key(key)} . {self.key(last)} = ")
                    self.value((*path, key, last), leaf)
                    self.put("\n")
                continue
            self.note((*path, key))
            self.put(f"{self.key(key)} = ")
            self.value((*path, key), value)
            self.put(self.draw(st.sampled_from(["\n", " # [x]\n", "\n\n# y = 1\n"])))
        return later

    def table(self, path, shown, table):
        for key, value in self.pairs(path, table):
            header = [*shown, self.key(key)]
            several = value if isinstance(value, list | tuple) else [value]
            for i, inner in enumerate(several):
                here = (*path, key) if isinstance(value, dict) else (*path, key, i)
                self.note((*path, key))
                self.note(here)
                brackets = ("[", "]") if isinstance(value, dict) else ("[[", "]]")
                self.put(f"{brackets[0]}{'.'.join(header)}{brackets[1]}\n")
                self.table(here, header, inner)


def paths(value, path=()):
    """Every key of a parsed document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from paths(inner, (*path, i))


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), DOCUMENTS)
def test_every_key_of_any_document_has_its_line(data, document):
    """Against the reader of the standard library for which keys there are, and against the writer for their lines."""
    writer = Writer(data.draw)
    writer.table((), [], document)
    parsed = tomllib.loads(writer.text)
    assert parsed == document
    found = KeyLines(writer.text).found
    keys = {path for path in found if isinstance(path[-1], str)}
    assert keys == set(paths(parsed))
    assert {path: found[path] for path in keys} == {path: writer.lines[path] for path in keys}


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), one=studies())
def test_any_study_can_be_written_in_toml(tmp_path, data, one):
    """However it is written, the file's study is the one from Python."""
    writer = Writer(data.draw)
    writer.table((), [], one.to_config())
    read = jv.read_study(write(tmp_path, writer.text))
    assert read == one
    assert json.dumps(read.to_config(), sort_keys=True) == json.dumps(one.to_config(), sort_keys=True)  # types as well


def test_a_file_of_a_gigabyte_is_not_read(tmp_path, monkeypatch):
    """Its size is looked at first."""
    path = tmp_path / "large.toml"
    with path.open("wb") as file:
        file.truncate(10**9)
    monkeypatch.setattr(Path, "open", lambda *args: pytest.fail("the file was opened"))
    with pytest.raises(StudyError, match=r"large\.toml: a study must have at most 1,000,000 bytes, got 1,000,000,000"):
        jv.read_study(path)


def test_a_file_that_grows_is_not_read_to_its_end(tmp_path, monkeypatch):
    """What its size was does not help then."""
    path = tmp_path / "growing.toml"
    path.write_bytes(b"a")
    small = path.stat()
    path.write_bytes(b"# " + b"a" * 2_000_000)
    monkeypatch.setattr(Path, "stat", lambda self: small)
    with pytest.raises(StudyError, match="at most 1,000,000 bytes"):
        jv.read_study(path)


def test_what_is_no_file_is_refused(tmp_path):
    """Folders, endless devices, and pipes that would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(StudyError, match="must be a file"):
            jv.read_study(path)
    for path in (tmp_path / "none.toml", "a\x00b", "x" * 5000):
        with pytest.raises(StudyError):
            jv.read_study(path)


HOSTILE = {
    "not UTF-8": (b"seeds = 1\nname = '\xff'", r":2: a study must be UTF-8, got the byte 0xff"),
    "a pickle": (b"\x80\x04\x95\x0c\x00", r":1: a study must be UTF-8"),
    "zeros": (b"\0" * 1000, r":1: this is not TOML"),
    "deep lists": (b"a = " + b"[" * 200_000, "nested too deep"),
    "deep tables": (b"a = " + b"{a=" * 200_000, "nested too deep"),
    "a long key": (b"seeds = 1\n" + b".".join([b"a"] * 300_000) + b" = 1", ":2: a key must have at most 20 parts"),
    "a long header": (b"[" + b".".join([b"a"] * 300_000) + b"]", ":1: a key must have at most 20 parts"),
    "a long key inside": (b"x = {" + b".".join([b"a"] * 300_000) + b" = 1}", ":1: a key must have at most 20 parts"),
    "many digits": (b"seeds = " + b"9" * 10_000, "this is not TOML"),
    "a huge number": (GOOD.replace("seeds = 4", f"seeds = {'9' * 4000}").encode(), ":5: seeds"),
    "a huge name": (GOOD.replace("seeds = 4", f"seeds = '{'9' * 400_000}'").encode(), ":5: seeds"),
    "many lists": (b"a = [" + b"[1,2],[3],'x'," * 60_000 + b"]", ":1: there is no key of a study named 'a'"),
    "broken off": (b"seeds = 1\nname = 'x", ":2: this is not TOML"),
    "nothing": (b"", "seeds must be given"),
    "not deep enough": (GOOD.replace("rounds = 100", f"chunk = {'[' * 40}{']' * 40}").encode(), ":6: chunk"),
    "nested records": (
        GOOD.replace("{ spacing", "{ number = [[[[[[[[[[[1]]]]]]]]]]], spacing").encode(),
        "not TOML|nested",
    ),
}


@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_are_refused_soon(tmp_path, content, message):
    """Within seconds, in one sentence of bounded length."""
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    start = time.process_time()
    with pytest.raises(StudyError, match=message) as refused:
        jv.read_study(path)
    assert time.process_time() - start < 10
    assert len(str(refused.value)) < 1100 + len(str(path))


def test_studies_by_name(tmp_path, monkeypatch):
    """Those that come with jaxvar; a file is still reached by a path."""
    assert set(toml.named_studies()) == {"headline", "episodes", "quick"}
    for name in toml.named_studies():
        assert jv.read_study(name).name == name
    with pytest.raises(StudyError, match=r"headlin: there is no such file.*did you mean 'headline'"):
        jv.read_study("headlin")
    monkeypatch.chdir(tmp_path)
    Path("quick").write_text(GOOD)
    assert jv.read_study("./quick").seeds == 4
    assert jv.read_study("quick").seeds == 16
