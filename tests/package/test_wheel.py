"""What is built and installed from the project works without the project."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import jaxvar as jv

ROOT = Path(__file__).parents[2]
SIMULATION = """
import sys
from pathlib import Path

import jax

import jaxvar as jv

assert not Path(jv.__file__).is_relative_to(PROJECT), jv.__file__
bandit = jv.linear_bandit(2, 4, noise=jv.noise.two_point(0.5))
algorithm = jv.save(2, 50, constants=jv.constants.practical())
result = jv.simulate(algorithm, bandit, key=jax.random.key(0), num_seeds=8, num_rounds=50)
result.raise_if_failed()
assert result.regret.shape[0] == 8
assert not {"numba", "scipy", "matplotlib"} & set(sys.modules)
jv.read_study("quick")
"""


def run(*command, cwd):
    """Run a command without the paths of this process; return what it printed."""
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env={**known, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, ROOT, cwd=out)
    (path,) = out.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        metadata = next(file.read(n).decode() for n in names if n.endswith(".dist-info/METADATA"))
    assert {name.split("/")[0] for name in names} == {"jaxvar", f"jaxvar-{jv.__version__}.dist-info"}
    here = {str(p.relative_to(ROOT)) for p in (ROOT / "jaxvar").rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert {name for name in names if name.startswith("jaxvar/")} == here
    assert {"jaxvar/py.typed", "jaxvar/presets/bandit.json", "jaxvar/report/assets/page.html"} <= here
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert needed and not any("numba" in line for line in needed)


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path):
    """Installed with what it says it needs, and nothing of this project in sight."""
    home = tmp_path / "environment"
    run(sys.executable, "-m", "venv", home, cwd=tmp_path)
    programs = home / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    assert run(programs / "jaxvar", "--version", cwd=tmp_path) == f"{jv.__version__}\n"
    assert "usage: jaxvar" in run(programs / "jaxvar", cwd=tmp_path)
    assert "AVE-UCB" in run(programs / "jaxvar", "list", cwd=tmp_path)
    run(programs / "python", "-c", SIMULATION.replace("PROJECT", repr(str(ROOT))), cwd=tmp_path)
    missing = "import importlib.util as u; assert not [n for n in ('numba', 'tests', 'experiments') if u.find_spec(n)]"
    run(programs / "python", "-c", missing, cwd=tmp_path)
