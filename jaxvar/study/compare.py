"""``compare``: a study of objects that are there already, ours or a user's own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax

from jaxvar import parameters, random
from jaxvar.algorithms.interface import Algorithm, EpisodicAlgorithm
from jaxvar.environments.interface import Environment, EpisodicEnvironment
from jaxvar.game import DEFAULT_RECORDERS, grid_of
from jaxvar.records import Recorder, record_rounds
from jaxvar.study.cells import unsupported
from jaxvar.study.definition import Entry, Study
from jaxvar.study.factories import RECORDERS, StudyError, short
from jaxvar.study.result import StudyResult
from jaxvar.study.run import run_study


def compare(
    algorithms: Mapping[str, Algorithm | EpisodicAlgorithm],
    environments: Mapping[str, Environment | EpisodicEnvironment],
    *,
    key: jax.Array,
    num_seeds: int,
    num_rounds: int | None = None,
    num_episodes: int | None = None,
    record_at: int | Sequence[int] | None = None,
    recorders: Sequence[Recorder] = DEFAULT_RECORDERS,
    reference: str | None = None,
    out: str | Path | None = None,
    force: bool = False,
    progress: bool = False,
) -> StudyResult:
    """Play every algorithm in every environment, with the same problems and noise, seed by seed.

    The result is that of a study: figures, tables, paired differences and the report take it. With ``out`` it is on
    disk, and the same call resumes it or adds seeds, rounds, algorithms and environments; where an object's numbers or
    the source of its class changed, the call is refused.

    Args:
      algorithms: label -> algorithm; any object with the methods of :mod:`jaxvar.algorithms.interface`.
      environments: label -> environment; any object with those of :mod:`jaxvar.environments.interface`.
      key: the root key, as in :func:`jaxvar.simulate`.
      num_seeds: seeds for each pair.
      num_rounds: rounds per seed, where the environments are bandits.
      num_episodes: episodes per seed, where they are episodic.
      record_at: how many evenly spaced rounds (or episodes) to record, or which; 100 if not given.
      recorders: what to record, from :mod:`jaxvar.record`, of every algorithm that has it.
      reference: label of the algorithm that others are compared with; the first one if not given.
      out: folder of the results; none is kept if not given.
      force: whether ``out`` may hold another study: cells that are the same are kept, all others played anew.
      progress: show a progress bar.
    """
    parameters.check_key("key", key)
    parameters.check_count("num_seeds", num_seeds)
    if (num_rounds is None) == (num_episodes is None):
        got = f"num_rounds={short(num_rounds)}, num_episodes={short(num_episodes)}"
        raise StudyError(f"give num_rounds or num_episodes, got {got}")
    unit, given = ("rounds", num_rounds) if num_episodes is None else ("episodes", num_episodes)
    length = parameters.check_count(f"num_{unit}", given)
    for name, targets in (("algorithms", algorithms), ("environments", environments)):
        if not isinstance(targets, Mapping) or not targets:
            raise StudyError(f"{name} must be a dictionary, label -> object, got {short(targets)}")
        for label, target in targets.items():
            if target is None or isinstance(target, type) or grid_of(target) is not None:
                raise StudyError(f"{name}[{label!r}] must be one object in one setting, got {short(target)}")
    known = {(factory.made, factory.call().name): name for name, factory in RECORDERS.items()}  # a study keeps names
    if not isinstance(recorders, list | tuple):
        raise StudyError(f"recorders must be a list of recorders from jaxvar.record, got {short(recorders)}")
    for recorder in recorders:
        if (type(recorder), getattr(recorder, "name", None)) not in known:
            raise StudyError(f"recorders must be from jaxvar.record ({', '.join(RECORDERS)}), got {short(recorder)}")
    names = tuple(known[type(recorder), recorder.name] for recorder in recorders)
    recorded = {  # of each algorithm what it has in all environments
        label: tuple(n for n in names if all(unsupported(n, target, e) is None for e in environments.values()))
        for label, target in algorithms.items()
    }
    for name in names:
        if not any(name in own for own in recorded.values()):
            raise StudyError(f"recorders: {name!r} can be recorded of none of the algorithms in these environments")
    first, second = random.key_words(key).tolist()
    study = Study(
        name="comparison" if out is None else Path(out).resolve().name,
        seeds=num_seeds,
        rounds=length if num_episodes is None else None,
        episodes=num_episodes,
        records=record_rounds(record_at, length).tolist(),
        record=names,
        key=first * 2**32 + second,
        precision=parameters.float_dtype().name,
        reference=next(iter(algorithms)) if reference is None else reference,
        algorithms=[Entry("", label, record=recorded[label], target=target) for label, target in algorithms.items()],
        environments=[Entry("", label, target=target) for label, target in environments.items()],
    )
    with tempfile.TemporaryDirectory() if out is None else contextlib.nullcontext(out) as folder:
        result = run_study(study, folder, force=force, progress=progress)
    assert result is not None
    return result
