"""The cases of :mod:`tests.fuzz`, each made of random numbers alone: the same generator gives the same case.

A case is a function of a random generator and a folder. It returns how it ended, ``refused`` or ``accepted``, and what
was wrong about that, if anything.
"""

import copy
import dataclasses
import decimal
import fractions
import inspect
import io
import json
import math
import re
import shutil
import sys
import traceback
import types
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxvar as jv
from jaxvar import engine, show
from jaxvar.study import commands, factories
from jaxvar.study.cells import jsonable
from jaxvar.study.own import try_round
from tests.core import test_bad_input as bad

PACKAGE = str(Path(jv.__file__).parent)
ROOT = Path(__file__).parents[2]
SOME = ("*/printed.toml", "deterministic/episodes.toml", "switch/smaller.toml", "lower_bound/blocks.toml")
TOML = sorted(
    [*(ROOT / "jaxvar/study/named").glob("*.toml"), *(p for x in SOME for p in (ROOT / "experiments").glob(x))]
)
TRACED = []  # programs of this case
MOST_HELD = 10**11  # bytes of a chunk of seeds
MOST_CHARACTERS = 3000  # of a message
ABOUT = []  # the case in words
REFUSED, ACCEPTED = ("refused", ""), ("accepted", "")


class Reached(BaseException):
    """A program was to be played: everything before it went well."""


class TooLarge(BaseException):
    """A program was to be compiled that no machine can hold."""


def prepare(base):
    """Make a finished study in ``base``, if there is none, and let nothing be compiled or played from then on."""
    warnings.simplefilter("ignore")
    whole, study = base / "whole", base / "study"
    if not whole.exists():
        small = dataclasses.replace(jv.read_study("quick"), seeds=7, rounds=20, records=4, chunk=4)
        jv.run_study(small, whole, progress=False)
    shutil.rmtree(study, ignore_errors=True)  # an interrupted case may have left it damaged
    shutil.copytree(whole, study)
    jv.report.page(jv.load(study))

    def compiled(program, num_rounds):
        """Trace a round of the first cell, and only look at the sizes of the others."""
        if not TRACED:
            TRACED.append(program)
            try_round(program.algorithm, program.environment, program.recorders)
        held = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(program.shapes))
        if held > MOST_HELD:
            raise TooLarge(f"a program is compiled that holds {held:.1e} bytes")
        sizes = ("argument", "output", "temp", "alias", "generated_code")
        size = types.SimpleNamespace(**{f"{name}_size_in_bytes": 0 for name in sizes})
        return types.SimpleNamespace(memory_analysis=lambda: size)

    def reached(*args, **kwargs):
        raise Reached

    engine.Program.compile = compiled
    engine.Program.advance = engine.Program.play = reached


def is_own(error):
    """Whether an error is one that jaxvar raises by itself for a user to read."""
    if isinstance(error, jv.StudyError | jv.RunError):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    return type(error) is ValueError and last.filename.startswith(PACKAGE) and last.line.startswith("raise")


def described(error):
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {str(error)[:200]!r}"


# --- one flipped bit ---


def flip(rng, base):
    """Flip one bit of a finished study's files: loading it and making its report must name the file."""
    study = base / "study"
    part = rng.choice(("run.json", "shards", "timings"))
    path = rng.choice(sorted(p for p in (study / part, *(study / part).rglob("*")) if p.is_file()))
    name, data = str(path.relative_to(study)), path.read_bytes()
    byte, bit = rng.randrange(len(data)), rng.randrange(8)
    ABOUT.append(f"bit {bit} of byte {byte} of {name} ({data[max(byte - 20, 0) : byte + 20]!r})")
    path.write_bytes(data[:byte] + bytes([data[byte] ^ (1 << bit)]) + data[byte + 1 :])
    try:
        jv.report.page(jv.load(study))
    except Exception as error:
        if not is_own(error):
            return "found", described(error)
        if name not in str(error):
            return "found", f"the message does not name the file: {str(error)[:200]!r}"
        return REFUSED
    finally:
        path.write_bytes(data)
    return "found", "nothing is noticed"


# --- files ---


def words(text):
    return text.split()


def nested(depth):
    return 1 if depth == 0 else [nested(depth - 1)]


def tables(depth):
    return {} if depth == 0 else {"a": tables(depth - 1)}


NAN, INF = float("nan"), float("inf")
SIZES = [0, -1, 1, 2, 2**31 - 1, 2**31, 2**32, 2 * 10**9, 10**9, 10**8, 10**6, 2**53, 2**63 - 1, 2**63, 2**64, 10**30]
NUMBERS = [*SIZES, 1.5, -0.0, 5e-324, 1e-200, 1e308, -1e308, NAN, INF, -INF]
PATHS = ["..", "a/b", "a\\b", "../evil", "../../evil", "../../../evil", "BASE/evil", "BASE/box/evil", "evil\0", ".evil"]
FORMULAS = ["=1+2", '=HYPERLINK("http://example.org";"x")', "@SUM(A1)", "+1", "-2+3", "\t=1"]
TEXTS = ["", " ", "\x1b[2J", "a\nb", "\u202etxt", "\u2028", "\x7f", "\ufeff", "é" * 120, "x" * 300, "x" * 10_000]
TEXTS += ["<script>alert(1)</script>", "{{x}}", "os:system", "tests.fuzz.cases:nested", *PATHS, *FORMULAS, "LONG"]
TEXTS += words("1 0.5 nan 1e999 true null con $HOME %s {} . ~ 1979-05-27")
OTHERS = [True, False, None, [], {}, [1], [1, "a"], [[1], [1, 2]], [NAN], [None], {"name": "two_point"}, {"": 1}]
OTHERS += [nested(10), nested(60), tables(10), tables(60), "DEEP_LIST", "DEEP_TABLE", "DIGITS", {"preset": "paper"}]
OTHERS += [[0.5] * 30_000, [[0.5] * 300] * 300, {f"k{i}": i for i in range(300)}, list(range(3000))]
OTHERS += [{"name": "bursts", "low": 0.1, "high": 1e308, "period": 2**62, "length": 1}]
VALUES = [*NUMBERS, *TEXTS, *OTHERS]
COUNTS = words("seeds rounds episodes chunk records first_seed key dim num_arms horizon num_states num_actions number")
COUNTS += words("num_rounds num_episodes capacity levels delay every num_directions cells num_groups model_seed")
WORDS = words("name label question reference algorithm environment constants unit hash created record task")
NAMES = ["name", "label", "hash"]  # what may become a part of a path
KEYS = ["", " ", "a.b", "../evil", "x" * 300, "\0", "é", "noise.std", *COUNTS]
KEYS += words("__class__ self object target options name label sweep record wrap noise constants seeds")
TOKENS = ["[", "[[", "]", "=", '"', "'''", "#", "nan", "9" * 5000, "\0", "é", "{" * 200, "-", "e", ".", "\r", "0x"]
# What Python could not write as it stands: in files, these words stand for it.
MARKS = {"LONG": lambda equals: '"' + "x" * 10**7 + '"', "DIGITS": lambda equals: "9" * 4400}
MARKS["DEEP_LIST"] = lambda equals: "[" * 3000 + "]" * 3000
MARKS["DEEP_TABLE"] = lambda equals: f'{{"a" {equals} ' * 3000 + "1" + "}" * 3000


def corpus():
    """Return studies as tables: those that come with jaxvar, some experiments, and one for each factory there is."""
    found = [jv.read_study(path).to_config() for path in TOML]
    length = {"bandit": {"rounds": 5}, "episodes": {"episodes": 5}}
    partner = {
        "bandit": {"name": "linear_bandit", "dim": 2, "num_arms": 3, "noise": {"name": "two_point", "std": 0.5}},
        "episodes": {"name": "mixture_mdp", "num_states": 3, "num_actions": 2, "dim": 2, "horizon": 3},
    }
    for name, factory in factories.public_factories().items():
        kind = sorted(factory.kinds)[0]
        arguments = {n: x.tolist() if hasattr(x, "tolist") else x for n, x in bad.good(name).items() if x is not None}
        own = {"name": name, **jsonable(arguments)}
        both = {"algorithm": {"name": "uniform"}, "environment": partner[kind], factory.role: own}
        config = {"name": name, "seeds": 4, **length[kind], **{role: [table] for role, table in both.items()}}
        found.append(jv.Study.from_config(config).to_config())
    return found


def places(tree):
    """Return every place in a tree of tables and lists, as the holder and its key."""
    found, holders = [], [tree]
    while holders:
        holder = holders.pop(0)  # the outermost first
        keys = list(holder) if isinstance(holder, dict) else range(min(len(holder), 50))
        found += [(holder, key) for key in keys]
        holders += [holder[key] for key in keys if isinstance(holder[key], dict | list)]
    return found


def mutate(tree, rng):
    """Change a tree of tables and lists in one way."""
    holder, key = rng.choice(places(tree))
    value = holder[key]
    action = rng.choice(words("value value value text path size size remove add rename twice inside swap"))
    if action in ("text", "path", "size"):
        names, values = {"text": (WORDS, TEXTS), "path": (NAMES, PATHS), "size": (COUNTS, SIZES)}[action]
        name = rng.choice(sorted({key for _, key in places(tree) if key in names}) or [key])
        named = [place for place in places(tree) if place[1] == name] or [(holder, key)]
        holder, key = rng.choice(named[: rng.choice((1, 3))])
        holder[key] = rng.choice(values)
    elif action == "remove":
        del holder[key]
    elif action == "add" and isinstance(holder, dict):
        holder[rng.choice(KEYS)] = copy.deepcopy(rng.choice(VALUES))
    elif action == "rename" and isinstance(holder, dict):
        holder[rng.choice(KEYS)] = holder.pop(key)
    elif action == "twice" and isinstance(value, list):
        holder[key] = value + copy.deepcopy(value)
    elif action == "inside":
        holder[key] = rng.choice(([value], {"name": value}, {str(key): value}, str(value)))
    elif action == "swap":
        other, at = rng.choice(places(tree))
        holder[key], other[at] = copy.deepcopy(other[at]), copy.deepcopy(value)
    else:
        holder[key] = copy.deepcopy(rng.choice(VALUES))
    is_set = action in ("value", "text", "path", "size")
    ABOUT.append(f"{action} {key} {holder[key]!r:.60}" if is_set else f"{action} {key}")


def inline(value):
    """Return a value as TOML has it on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower()


def write(path, text, equals, base):
    """Write a file, with marks as what they stand for."""
    for mark, meant in MARKS.items():
        if f'"{mark}"' in text:
            text = text.replace(f'"{mark}"', meant(equals))
    path.write_text(text.replace("BASE", str(base)), encoding="utf-8", newline="", errors="surrogatepass")


def damage(text, rng):
    """Change a file's text in one way."""
    lines = text.splitlines()
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    action = rng.choice(("delete", "twice", "swap", "cut", "character", "token", "join", "repeat"))
    if action == "delete":
        del lines[at]
    elif action == "twice":
        lines.insert(other, lines[at])
    elif action == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif action == "join":
        lines[at] += lines[other]
    elif action == "repeat":
        lines[at] *= rng.choice((2, 1000))
    elif action == "token":
        tokens = re.findall(r"\w+|\W", lines[at]) or [""]
        tokens[rng.randrange(len(tokens))] = rng.choice(TOKENS)
        lines[at] = "".join(tokens)
    ABOUT.append(f"{action} in line {at + 1}")
    text = "\n".join(lines) + "\n"
    where = rng.randrange(len(text) + 1)
    if action == "cut":
        return text[:where]
    return text[:where] + chr(rng.randrange(1, 0x250)) + text[where + 1 :] if action == "character" else text


def file(rng, base):
    """Give a mutated file to the verbs of the command line."""
    box = base / "box"
    shutil.rmtree(box, ignore_errors=True)
    TRACED.clear()
    (box / "here").mkdir(parents=True)
    return (_study_file if rng.random() < 0.6 else _manifest)(rng, base, box)


def _study_file(rng, base, box):
    """Give a mutated study to ``jaxvar run``."""
    if rng.random() < 0.3:
        text = damage(rng.choice(TOML).read_text(), rng)
    else:
        config = copy.deepcopy(rng.choice(CORPUS))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            mutate(config, rng)
        text = "".join(f"{json.dumps(str(key))} = {inline(value)}\n" for key, value in config.items())
    write(box / "study.toml", text, "=", base)
    given = {name: rng.choice(SIZES) for name in ("seeds", "rounds", "episodes", "chunk") if rng.random() < 0.05}
    given |= {"seeds": 10**8, "chunk": 1} if rng.random() < 0.02 else {}
    ABOUT.extend(f"--{name} {value}" for name, value in given.items())
    options = commands.Run(study=str(box / "study.toml"), progress=False, **given)
    return _checked(base, box / "here/results", lambda: commands.run_command(options))


def _manifest(rng, base, box):
    """Give a study with a mutated ``run.json`` to the verbs that read one."""
    study = box / "study"
    shutil.copytree(base / "whole", study)
    path = study / "run.json"
    tree = json.loads(path.read_text())
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        mutate(tree, rng)
    text = json.dumps(tree, indent=1)
    write(path, damage(text, rng) if rng.random() < 0.2 else text, ":", base)
    to = rng.choice(("csv", "npz"))
    calls = {
        "report": (study, lambda: show.report(study)),
        "table": (None, lambda: show.table(study)),
        "export": (box / "here", lambda: commands.export_command(study, to)),
        "merge": (box / "merged", lambda: commands.merge_command((study,), box / "merged")),
        "run": (box / "here/results", lambda: commands.run_command(commands.Run(str(path), progress=False))),
    }
    ends = []
    for verb, (allowed, call) in calls.items():
        word, finding = _checked(base, allowed, call)
        if finding:
            return word, f"{verb}: {finding}"
        ends.append(word)
    return ACCEPTED if "accepted" in ends else REFUSED


def _listing(base):
    return {str(path.relative_to(base)) for path in base.rglob("*")}


def _checked(base, allowed, call):
    """Call a verb; find a traceback, a silent failure, and a file that it wrote outside the folder ``allowed``."""
    before, said = _listing(base), io.StringIO()
    is_done = False
    with chdir(base / "box/here"), redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            is_done = call() == 0
        except Reached:
            is_done = True
        except (Exception, TooLarge) as error:
            return "found", described(error)
    inside = None if allowed is None else str(allowed.relative_to(base))
    for name in sorted(_listing(base) - before):
        if inside is None or not f"{name}/".startswith(f"{inside}/"):
            return "found", f"wrote {name!r} outside of {inside!r}"
    if not is_done and len(said.getvalue().split()) < 4:
        return "found", f"fails without a sentence: {said.getvalue()!r}"
    if len(said.getvalue()) > MOST_CHARACTERS:
        return "found", f"says {len(said.getvalue())} characters: {said.getvalue()[:200]!r}"
    return ACCEPTED if is_done else REFUSED


# --- factories ---


@dataclasses.dataclass
class Thing:
    """An object that is nothing in particular."""

    value: object = 3


NASTY = [
    *NUMBERS,
    *TEXTS,
    None,
    True,
    False,
    1j,
    complex(NAN),
    b"1",
    bytearray(3),
    memoryview(b"ab"),
    10**400,
    1 - 1e-16,
]
NASTY += [[], {}, (), [0.5], [0.5, 0.5], [[0.5, 0.5]] * 3, [NAN] * 2, [1e308] * 2, [1j, 0.0], ["a"], [[1], [1, 2]]]
NASTY += [[None], nested(40), [2**70], [[1e308, 1e308]] * 3, [[]], [Thing()], range(3), {1, 2}, "x" * 10**7]
NASTY += [np.full(s, x) for s in ((), (1,), (2,), (3, 2), (2, 2, 2), (0,), (4, 3, 2)) for x in (0.5, NAN)]
NASTY += [np.ones(2, t) for t in ("f2", "c16", "O", "U3", "i8", "?", "M8[s]", "f4,i4")] + [np.zeros((10**5, 2))]
NASTY += [jnp.full(s, 0.5) for s in ((), (2,), (3, 2))] + [jnp.int32(3), jnp.float32(0.1), jax.random.key(0)]
NASTY += [
    np.float16(0.1),
    np.int8(3),
    np.str_("a"),
    np.datetime64("NaT"),
    np.ma.masked,
    np.ma.array([1.0], mask=[True]),
]
NASTY += [decimal.Decimal("0.1"), decimal.Decimal("sNaN"), fractions.Fraction(1, 3), Thing(), Thing, nested, ..., sys]
NASTY += [jv.noise.two_point(0.5), jv.greedy(2), jv.linear_bandit(2, 3), jv.constants.paper(), jv.riverswim(3, 4)]
NASTY += [jv.schedules.between(0.1, 0.5)]
MAKERS = {
    **{name: (make, lambda name=name: bad.good(name)) for name, make in bad.FACTORIES.items()},
    **{f"constants.{name}": (preset.call, dict) for name, preset in factories.PRESETS.items()},
    "batched": (jv.batched, lambda: {"algorithm": jv.oful(2), "every": 2}),
    "delayed": (jv.delayed, lambda: {"algorithm": jv.oful(2), "delay": 2}),
    "corrupted": (jv.corrupted, lambda: {"environment": jv.linear_bandit(2, 3), "budget": 1.0}),
    "drifting": (jv.drifting, lambda: {"environment": jv.linear_bandit(2, 3), "schedule": 0.1}),
}
CORPUS = corpus()


def shown(value):
    return f"{type(value).__name__} {value!r:.60}".replace("\n", " ")


def factory(rng, base):
    """Call a factory with nasty arguments."""
    name = rng.choice(sorted(MAKERS))
    make, example = MAKERS[name]
    arguments = example()
    taken = [n for n, p in inspect.signature(make).parameters.items() if p.kind != p.VAR_KEYWORD]
    nasty = {n: rng.choice(NASTY) for n in rng.sample(taken, min(rng.choice((1, 1, 1, 2, 3)), len(taken)))}
    ABOUT.append(f"{name}({', '.join(f'{n}={shown(x)}' for n, x in nasty.items())})")
    try:
        made = make(**{**arguments, **nasty})
    except Exception as error:
        if not is_own(error):
            return "found", described(error)
        if not any(re.search(rf"\b{n}\b", str(error)) for n in taken):
            return "found", f"the message names no argument: {str(error)[:200]!r}"
        if len(str(error)) > MOST_CHARACTERS:
            return "found", f"the message has {len(str(error))} characters"
        return REFUSED
    infinite = {path for path, leaf in numbers(make(**arguments)) if np.any(np.isinf(leaf))}  # as it should be
    for path, leaf in numbers(made):
        if np.any(np.isnan(leaf)) or (np.any(np.isinf(leaf)) and path not in infinite):
            return "found", f"made with {path} = {shown(leaf)}"
    return ACCEPTED


def numbers(made, path=""):
    """Yield every float and array of an object, also those that follow from others by a rule."""
    for field in dataclasses.fields(made):
        value, where = getattr(made, field.name), f"{path}.{field.name}".lstrip(".")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from numbers(value, where)
        elif isinstance(value, float | np.ndarray | np.generic | jax.Array):
            yield where, np.asarray(value)


KINDS = {"flip": flip, "file": file, "factory": factory}
