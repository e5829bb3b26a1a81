"""Compiled programs that are kept for the next process, with real processes."""

import os
import subprocess
import sys

import pytest

from jaxvar import cli

SCRIPT = """
import jax, jaxvar.cli
jaxvar.cli.keep_programs()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
print(float(jax.jit(lambda x: jax.numpy.sin(x) + 2)(0.0)), len(hits))
"""


def start(folder, **more):
    own = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "JAXVAR_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment |= {"XDG_CACHE_HOME": str(folder), **more}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=pipe, stderr=pipe, text=True, env=environment)


def output_of(process):
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out.strip(), errors


def test_the_next_process_finds_what_two_at_once_have_compiled(tmp_path):
    both = [start(tmp_path), start(tmp_path)]
    for process in both:
        out, errors = output_of(process)
        assert out.startswith("2.0 ") and not errors
    (folder,) = (tmp_path / "jaxvar").glob("programs-*")
    programs = sorted(folder.glob("*-cache"))
    assert programs
    assert folder.stat().st_mode % 0o1000 == 0o700
    # The writer of the first one was killed before it had written all.
    programs[0].write_bytes(programs[0].read_bytes()[:10])
    programs[0].with_name(programs[0].name.replace("-cache", "-atime")).unlink()
    assert output_of(start(tmp_path)) == (f"2.0 {len(programs) - 1}", "")
    assert output_of(start(tmp_path)) == (f"2.0 {len(programs)}", "")
    before = sorted(tmp_path.rglob("*"))
    assert output_of(start(tmp_path, JAXVAR_CACHE="off")) == ("2.0 0", "")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_cannot_be_used_is_said_and_nothing_is_kept(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setattr("jax.config.update", lambda *_: pytest.fail("nothing is to be kept"))
    cli.keep_programs(tmp_path / "file")
    said = capsys.readouterr().err
    assert "not kept" in said and str(tmp_path / "file") in said


def test_each_kind_of_processor_has_its_own_part(monkeypatch):
    monkeypatch.setattr(cli.Path, "read_text", lambda self: "model name: A\nflags: avx512\ncpu MHz: 1\n")
    one = cli._processor()
    monkeypatch.setattr(cli.Path, "read_text", lambda self: "model name: A\nflags: avx512\ncpu MHz: 2\n")
    assert cli._processor() == one
    monkeypatch.setattr(cli.Path, "read_text", lambda self: "model name: A\nflags: avx2\ncpu MHz: 2\n")
    assert cli._processor() != one
