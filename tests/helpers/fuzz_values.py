"""Nasty values, and random changes of tables and texts made of them: for :mod:`tests.fuzz`.

A change is told to the list ``ABOUT``, the case in words.
"""

import copy
import dataclasses
import decimal
import fractions
import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxvar as jv

ABOUT = []


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
TEXTS += [
    "<script>alert(1)</script>",
    "{{x}}",
    "os:system",
    "tests.helpers.fuzz_values:nested",
    *PATHS,
    *FORMULAS,
    "LONG",
]
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
