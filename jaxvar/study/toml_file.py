"""Studies in TOML.

A study is a file such as this one::

    name = "noise"                             # if not given, the file's name without its ending
    question = "Who notices how little noise there is?"
    seeds = 256
    rounds = 20_000                            # or: episodes = 1000
    records = { spacing = "log", number = 60 } # or a number (evenly spaced), or a list of rounds; default: 100, evenly
    record = ["regret", "variance"]            # names from jaxvar.record; this is the default
    key = 0                                    # the root key is jax.random.key(0)
    precision = "float64"                      # or "float32"
    chunk = 1024                               # seeds per shard; chosen if not given
    reference = "OFUL (theorem)"               # label of the algorithm that others are compared with
    first_seed = 0

    [[algorithm]]
    name = "save"                              # a public factory: jaxvar.save
    label = "SAVE (practical)"                 # if not given, the name
    constants = "practical"                    # a preset of jaxvar.constants, or { preset = "paper", beta_scale = 0.3 }
    explore = "optimistic"                     # any argument of the factory
    record = ["regret", "layer_rounds"]        # for this algorithm, instead of the study's
    [algorithm.sweep]                          # lists; the product of all of them is run
    noise_bound = [0.5, 1.0]
    "constants.beta_scale" = [0.1, 0.3]        # a dotted path into a table

    [[algorithm]]
    name = "oful"
    label = "OFUL (theorem)"

    [[environment]]
    name = "linear_bandit"
    dim = 5
    num_arms = 20
    noise = { name = "two_point", std = 0.1 }  # jaxvar.noise; std may be { name = "bursts", ... } of jaxvar.schedules
    [environment.sweep]
    "noise.std" = [0.0, 0.1, 0.3, 1.0]
    dim = [2, 4, 8]                            # sizes too: the algorithms follow

Arguments that the study or the environment knows (``num_rounds``, ``num_episodes``, ``dim``, ``horizon``,
``norm_bound``) are filled in where a factory takes them and they are not given. Given ones are used as they are, but a
``dim`` or ``horizon`` other than the environment's is refused. ``noise_bound`` is never filled in: what an algorithm is
told of the noise is part of the question. Arrays (``arms``, ``phi``, ...) are lists of lists. Every ``record`` must
have the regret in it, and a recorder that an algorithm cannot serve is an error; give that algorithm a ``record`` of
its own.

Everything is checked when the file is read, and an error says the line of the key it is about.
"""

from __future__ import annotations

import difflib
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from jaxvar.study.definition import Study
from jaxvar.study.errors import StudyError
from jaxvar.study.toml_lines import MAX_KEY_PARTS, KeyLines

MAX_BYTES = 1_000_000
_NAMED = Path(__file__).with_name("named")


def named_studies() -> dict[str, Path]:
    """The studies that come with jaxvar, by name."""
    return {path.stem: path for path in sorted(_NAMED.glob("*.toml"))}


def read_study(path: str | Path) -> Study:
    """Read a study from a TOML file, or one of those that come with jaxvar by its name: ``read_study("headline")``.

    Raises:
      StudyError: a ``ValueError`` with file, line and what is wrong there.
    """
    path = named_studies().get(str(path), Path(path))
    text = _text(path)
    lines = KeyLines(text)
    if lines.long_key is not None:
        raise StudyError(f"{path}:{lines.long_key}: a key must have at most {MAX_KEY_PARTS} parts")
    config = {"name": path.stem, **_parsed(path, text)}
    try:
        return Study.from_config(config)
    except StudyError as error:
        line = lines.line(error.where)
        place = f"{path}" if line is None else f"{path}:{line}"
        raise StudyError(f"{place}: {error}", error.where) from None


def _text(path: Path) -> str:
    """The file's text, its lines ending in a line feed. What is too large is not read."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise StudyError(f"{path}: a study must be a file")
        if found.st_size > MAX_BYTES:
            raise StudyError(f"{path}: a study must have at most {MAX_BYTES:,} bytes, got {found.st_size:,}")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise StudyError(f"{path}: there is no such file, and no study of that name{_hint(path)}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, StudyError):
            raise
        raise StudyError(f"{str(path)!r}: the study cannot be read: {error}") from None
    if len(content) > MAX_BYTES:
        raise StudyError(f"{path}: a study must have at most {MAX_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StudyError(f"{path}:{line}: a study must be UTF-8, got the byte {content[error.start]:#04x}") from None


def _hint(path: Path) -> str:
    near = difflib.get_close_matches(str(path), named_studies(), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(named_studies())}"


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise StudyError(f"{path}: lists and tables are nested too deep") from None
    except ValueError as error:  # not only TOMLDecodeError: an integer may have too many digits for Python
        reason = re.sub(r" \(at .*\)$", "", str(error))
        at = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        ended = text.count("\n") + 1 if str(error).endswith("(at end of document)") else None
        line = at[1] if at else ended
        place = f"{path}" if line is None else f"{path}:{line}"
        raise StudyError(f"{place}: this is not TOML: {reason}") from None
