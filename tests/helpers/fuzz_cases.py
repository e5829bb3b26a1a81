"""The cases of :mod:`tests.fuzz`, each made of random numbers alone: the same generator gives the same case.

A case is a function of a random generator and a folder. It returns how it ended, ``refused`` or ``accepted``, and what
was wrong about that, if anything.
"""

import copy
import dataclasses
import inspect
import io
import json
import re
import shutil
import threading
import traceback
import types
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import jax
import numpy as np
import tqdm

import jaxvar as jv
from jaxvar import commands, engine, files, memory, show
from jaxvar.study import factories, programs, store
from jaxvar.study.cells import digest, jsonable
from jaxvar.study.own import try_round
from tests.core import test_bad_input as bad
from tests.helpers.fuzz_values import ABOUT, NASTY, SIZES, damage, inline, mutate, write

PACKAGE = str(Path(jv.__file__).parent)
ROOT = Path(__file__).parents[2]
SOME = ("*/printed.toml", "deterministic/episodes.toml", "switch/smaller.toml", "lower_bound/blocks.toml")
TOML = sorted(
    [*(ROOT / "jaxvar/study/named").glob("*.toml"), *(p for x in SOME for p in (ROOT / "experiments").glob(x))]
)
TRACED = []  # programs of this case
FREE = 10**9  # bytes that the machine is said to have: the same cases are then refused everywhere
MOST_CHARACTERS = 3000  # of a message
WRAPS = {"batched": {"every": 2}, "corrupted": {"budget": 1.0}, "delayed": {"delay": 2}, "drifting": {"schedule": 0.1}}
REFUSED, ACCEPTED = ("refused", ""), ("accepted", "")


class Reached(BaseException):
    """A program was to be played: everything before it went well."""


def prepare(base):
    """Make a finished study in ``base``, if there is none, and let nothing be compiled or played from then on."""
    warnings.simplefilter("ignore")
    tqdm.tqdm.set_lock(threading.RLock())  # its own outlives a process that is killed
    whole, study = base / "whole", base / "study"
    if not whole.exists():
        quick = jv.read_study("quick")
        players = (quick.algorithms[1], jv.Entry("uniform"))  # compiled in seconds; checkpoints of uniform stay
        small = dataclasses.replace(quick, algorithms=players, seeds=7, rounds=20, records=4, chunk=4)
        jv.run_study(small, whole, progress=False)
    shutil.rmtree(study, ignore_errors=True)  # an interrupted case may have left it damaged
    shutil.copytree(whole, study)
    jv.report.page(jv.load(study))

    def compiled(program, num_rounds):
        """Trace a round of the first cell, and only look at the sizes of the others."""
        if not TRACED:
            TRACED.append(program)
            try_round(program.algorithm, program.environment, program.recorders)
        program._abstract(program.shapes)
        held = memory.num_bytes(program.shapes)
        sizes = {"argument": held, "output": 0, "temp": 0, "alias": 0, "generated_code": 0}
        size = types.SimpleNamespace(**{f"{name}_size_in_bytes": num for name, num in sizes.items()})
        return types.SimpleNamespace(memory_analysis=lambda: size)

    def reached(*args, **kwargs):
        raise Reached

    memory.free_memory = programs.free_memory = lambda mesh=None: FREE
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
    part = rng.choice(("run.json", "shards", "timings", "checkpoints"))
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


def corpus():
    """Return studies as tables: those that come with jaxvar, some experiments, and one for each factory there is."""
    length = {"bandit": {"rounds": 5}, "duels": {"rounds": 5}, "episodes": {"episodes": 5}}
    partner = {
        "bandit": {"name": "linear_bandit", "dim": 2, "num_arms": 3, "noise": {"name": "two_point", "std": 0.5}},
        "duels": {"name": "dueling_bandit", "dim": 2, "num_arms": 3},
        "episodes": {"name": "mixture_mdp", "num_states": 3, "num_actions": 2, "dim": 2, "horizon": 3},
    }
    tables = []
    for name, factory in factories.public_factories().items():
        arguments = {n: x.tolist() if hasattr(x, "tolist") else x for n, x in bad.good(name).items() if x is not None}
        tables.append((sorted(factory.kinds)[0], factory.role, {"name": name, **jsonable(arguments)}))
    for name, options in WRAPS.items():
        role = factories.wrapper_factories()[name].made.HOLDS
        inner = {"algorithm": {"name": "oful"}, "environment": partner["bandit"]}[role]
        tables.append(("bandit", role, {**inner, "wrap": {"name": name, **options}}))
    found = [jv.read_study(path).to_config() for path in TOML]
    for kind, role, table in tables:
        both = {"algorithm": {"name": "uniform"}, "environment": partner[kind], role: table}
        config = {"name": "x", "seeds": 4, **length[kind], **{role: [table] for role, table in both.items()}}
        found.append(jv.Study.from_config(config).to_config())
    return found


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
    tree, before = (json.loads(path.read_text()) for _ in range(2))
    for _ in range(rng.choice((1, 1, 1, 2))):
        mutate(tree, rng)
    kind = rng.choice(("changed", "old", "forged", "forged"))
    ABOUT.append(kind)
    if kind != "changed":
        _forge(tree, rng)
    if kind == "old" and tree.get("format") == store.FORMAT:
        tree["format"] = store.OLD_FORMAT
    elif kind == "forged":
        tree["sha256"] = "0" * 64
    text = json.dumps(tree, indent=1) + "\n"
    write(path, damage(text, rng) if rng.random() < 0.2 else text, ":", base)
    if kind == "forged":
        path.write_bytes(files._with_sum(path.read_bytes()))
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
    if kind == "changed" and tree != before and "accepted" in ends:
        return "found", "nothing is noticed"
    return ACCEPTED if "accepted" in ends else REFUSED


def _forge(tree, rng):
    """Let the checksums and sizes of a changed ``run.json`` agree with each other, as one would who made it by hand."""
    tree.pop("sha256", None)
    study = tree.get("study")
    if isinstance(study, dict):
        if rng.random() < 0.5:
            study |= {name: tree[name] for name in ("seeds", "first_seed") if name in tree}
            study["rounds"] = tree.get("num_rounds")
        with suppress(ValueError, TypeError):
            tree["study_hash"] = digest(study)


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
        except Exception as error:
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


PLAYERS = {"algorithm": jv.oful(2), "environment": jv.linear_bandit(2, 3)}
ENTRIES = {
    "algorithms": [jv.Entry("oful")],
    "environments": [jv.Entry("linear_bandit", options={"dim": 2, "num_arms": 3})],
}
MAKERS = {
    **{name: (make, lambda name=name: bad.good(name)) for name, make in bad.FACTORIES.items()},
    **{f"constants.{name}": (preset.call, dict) for name, preset in factories.PRESETS.items()},
    **{
        name: (wrapper.call, lambda name=name, role=wrapper.made.HOLDS: {role: PLAYERS[role], **WRAPS[name]})
        for name, wrapper in factories.wrapper_factories().items()
    },
    "simulate": (jv.simulate, lambda: {**PLAYERS, "key": jax.random.key(0), "num_rounds": 5, "num_seeds": 2}),
    "linear_spaced": (jv.linear_spaced, lambda: {"num_rounds": 9, "num": 3}),
    "log_spaced": (jv.log_spaced, lambda: {"num_rounds": 9, "num": 3}),
    "Entry": (jv.Entry, lambda: {"name": "oful"}),
    "Study": (jv.Study, lambda: {"name": "x", "seeds": 2, "rounds": 5, **ENTRIES}),
}
CORPUS = corpus()


def shown(value):
    return f"{type(value).__name__} {value!r:.60}".replace("\n", " ")


def factory(rng, base):
    """Call a factory with nasty arguments."""
    name = rng.choice(sorted(MAKERS))
    make, example = MAKERS[name]
    arguments = example()
    taken = [n for n in inspect.signature(make).parameters if n != "target"]
    nasty = {n: rng.choice(NASTY) for n in rng.sample(taken, min(rng.choice((1, 1, 1, 2, 3)), len(taken)))}
    ABOUT.append(f"{name}({', '.join(f'{n}={shown(x)}' for n, x in nasty.items())})")
    try:
        made = make(**{**arguments, **nasty})
    except Reached:
        return ACCEPTED
    except Exception as error:
        if not is_own(error):
            return "found", described(error)
        where = getattr(error, "where", ())  # of a study: its reader says the line of this key
        if not where and not any(re.search(rf"\b{n}\b", str(error)) for n in taken):
            return "found", f"the message names no argument: {str(error)[:200]!r}"
        if len(str(error)) > MOST_CHARACTERS:
            return "found", f"the message has {len(str(error))} characters"
        return REFUSED
    if not dataclasses.is_dataclass(made):
        return ACCEPTED
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
        elif isinstance(value, float | np.ndarray | np.generic | jax.Array) and np.asarray(value).dtype.kind in "fc":
            yield where, np.asarray(value)


KINDS = {"flip": flip, "file": file, "factory": factory}
