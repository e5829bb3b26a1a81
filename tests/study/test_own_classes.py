"""Users' own classes in studies: by name, kept with the hash of their source, never imported to read results."""

import hashlib
import importlib
import json
import signal
import sys
import textwrap
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import cli
from jaxvar.study.result import merge
from tests.helpers.processes import finish, start
from tests.helpers.small_study import arrays, stored

MODULE = '''
import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxvar as jv


class Pull(NamedTuple):
    action: jax.Array


class Round(NamedTuple):
    arms: jax.Array
    mean: jax.Array
    noise_var: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Greedy:
    """Greedy, but for a random arm with probability epsilon."""

    epsilon: Any = 0.1
    ridge: Any = 1.0
    dim: int = dataclasses.field(default=2, metadata={"static": True})

    def init(self):
        return jnp.ones(self.dim) * self.ridge, jnp.zeros(self.dim)

    def select(self, state, arms, key, side):
        gram, moment = state
        coin, which = jax.random.split(key)
        best = jnp.argmax(arms @ (moment / gram))
        other = jax.random.randint(which, (), 0, 3, best.dtype)
        return Pull(jnp.where(jax.random.uniform(coin) < self.epsilon, other, best))

    def update(self, state, choice, x, reward, side):
        gram, moment = state
        return gram + x * x, moment + reward * x


def make(epsilon, shrink=0.5):
    return Greedy(epsilon=epsilon * shrink)


@dataclasses.dataclass  # neither registered nor hashable
class Plain:
    arm: int = 0

    def init(self):
        return jnp.zeros(())

    def select(self, state, arms, key, side):
        return Pull(jnp.int32(self.arm))

    def update(self, state, choice, x, reward, side):
        return state + reward


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Line:
    """Arms that never change, with noise on all."""

    std: Any = 0.1

    def init(self, key):
        return jnp.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])

    def observe(self, instance, round, key):
        return Round(instance, instance[:, 0], jnp.full(3, self.std**2))

    def pull(self, instance, observation, action, round, key):
        return observation.mean[action] + self.std * jax.random.normal(key)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Model:
    """An episodic environment of one's own: a table with another name."""

    @property
    def horizon(self):
        return 3

    def init(self, key):
        return jv.mixture_mdp(num_states=3, num_actions=2, dim=2, horizon=3).init(key)


class Plan(NamedTuple):
    policy: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lazy:
    action: Any = 0

    def init(self, model):
        return jnp.zeros(())

    def plan(self, state, model):
        return Plan(jnp.full((model.horizon, model.num_states), self.action))

    def update(self, state, model, plan, step):
        return state + step.reward


class Bare(Plain):
    def select(self, state, arms, key, side):
        return jnp.int32(0)


class Forgetful(Plain):
    def update(self, state, choice, x, reward, side):
        return x


class Untold(Plain):
    def select(self, state, arms, key):
        return Pull(jnp.int32(0))


class Blind(Line):
    def observe(self, instance, round, key):
        return Round(instance, instance[:2, 0], jnp.zeros(3))


class Planless(Lazy):
    def plan(self, state, model):
        return jnp.zeros((model.horizon, model.num_states), int)


class Angry:
    def __init__(self, how=1):
        raise KeyError("no")

    init = select = update = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Worded(Greedy):
    word: Any = "soft"


class Named(Plain):
    def __init__(self, name="n", limit=float("inf")):
        self.arm = 0


SETTING = 3
'''
BANDIT = jv.Entry("linear_bandit", options={"dim": 2, "num_arms": 3, "noise": {"name": "two_point", "std": 0.1}})


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A working folder with the module above, imported by nobody yet."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bandits.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    forget(monkeypatch)
    yield tmp_path
    forget(monkeypatch)


def forget(monkeypatch):
    """Be as a process that has not imported the module."""
    for name in ("mine", "mine.bandits"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()


def study(*algorithms, **changes):
    given = {"name": "own", "seeds": 4, "rounds": 10, "records": 2, "environments": [BANDIT], "algorithms": algorithms}
    return jv.Study(**{**given, **changes})


def own(name, **kwargs):
    return jv.Entry(f"mine.bandits:{name}", **kwargs)


def play(of, out, **options):
    return jv.run_study(of, out, progress=False, **options)


TOML = """
seeds = 4
rounds = 10
records = 2
[[algorithm]]
name = "mine.bandits:Greedy"
label = "mine"
ridge = 2.0
[algorithm.sweep]
epsilon = [0.0, 0.5]
[[algorithm]]
name = "oful"
dim = 2
[[environment]]
name = "mine.bandits:Line"
std = 0.3
"""


def test_a_study_from_a_file(home, capsys):
    """The numbers are those of jv.simulate; run.json has name, options and the hash of the source."""
    (home / "study.toml").write_text(TOML)
    read = jv.read_study("study.toml")
    result = play(read, "out")
    module = sys.modules["mine.bandits"]
    cell = result.cells[1]
    assert (cell.algorithm, cell.algorithm_settings, cell.constants) == ("mine", {"epsilon": 0.5}, "none")
    with jax.enable_x64(True):
        expected = jv.simulate(
            module.Greedy(epsilon=np.float64(0.5), ridge=np.float64(2.0)),
            module.Line(std=np.float64(0.3)),
            key=jax.random.key(0),
            num_rounds=10,
            num_seeds=4,
            record_at=2,
        )
    assert np.array_equal(cell.regret, expected.regret)
    config = json.loads(Path("out/run.json").read_text())["cells"][1]["config"]["algorithm"]
    assert config.pop("source_sha256") == hashlib.sha256(MODULE.encode()).hexdigest()
    assert config == {"name": "mine.bandits:Greedy", "epsilon": 0.5, "ridge": 2.0, "dim": 2}
    assert jv.Study.from_config(json.loads(Path("out/run.json").read_text())["study"]) == read


def test_results_need_no_class(home, monkeypatch, capsys):
    """Loading, showing, exporting and merging import nothing of the user's, even where that would fail."""
    (home / "study.toml").write_text(TOML)
    of = jv.read_study("study.toml")
    for part in (1, 2):
        play(of, f"part-{part}", shard=(part, 2))
    whole = play(of, "out")
    Path("mine/bandits.py").write_text("raise RuntimeError('imported')")
    forget(monkeypatch)
    merge(["part-1", "part-2"], "merged")
    for a, b in zip(arrays(jv.load("merged")), arrays(whole), strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    monkeypatch.setattr(cli, "tune_cpu", lambda: None)
    for words in (["table", "out"], ["export", "out", "--out", "out.csv"], ["report", "out"]):
        assert cli.main(words) == 0
    assert "mine.bandits" not in sys.modules
    with pytest.raises(jv.StudyError, match=r"'mine.bandits' cannot be imported: RuntimeError: imported"):
        jv.read_study("study.toml")


def test_a_changed_source_is_refused_or_played_anew(home, monkeypatch):
    """Its cells only: the others stay as they are."""
    first = play(study(own("Greedy"), jv.Entry("uniform")), "out")
    kept = stored(Path("out"))
    play(study(own("Greedy"), jv.Entry("uniform")), "out")
    assert stored(Path("out")) == kept
    Path("mine/bandits.py").write_text(MODULE.replace("gram + x * x", "gram + 9 * x * x"))
    with pytest.raises(jv.StudyError, match="has changed since this process imported it; start Python again"):
        study(own("Greedy"))
    forget(monkeypatch)
    changed = study(own("Greedy"), jv.Entry("uniform"))
    said = r"the source of Greedy in module mine.bandits changed \(SHA-256 \w{8}, now \w{8}\)(.|\n)*--force"
    with pytest.raises(jv.RunError, match=said):
        play(changed, "out")
    second = play(changed, "out", force=True)
    assert not np.array_equal(first.cells[0].regret, second.cells[0].regret)
    assert np.array_equal(first.cells[1].regret, second.cells[1].regret)
    assert len(jv.load("out").cells) == 2


def test_functions_plain_objects_and_episodes(home):
    """A function that makes the object; a class that is no pytree, which costs; both sides in episodes."""
    made = study(own("make", options={"epsilon": 0.4}), own("Greedy", options={"epsilon": 0.2})).cells
    assert made[0].algorithm == made[1].algorithm and made[0].hash != made[1].hash
    with pytest.warns(
        UserWarning, match="'mine.bandits:Plain' with .*: Plain is no pytree, .* every setting is compiled"
    ):
        result = play(study(own("Plain", sweep={"arm": [0, 1]}), environments=[own("Line")]), "plain")
    assert result.cells[0].regret[0, -1] == 0 and result.cells[1].regret[0, -1] == 10
    episodic = study(own("Lazy"), environments=[own("Model")], rounds=None, episodes=3)
    assert play(episodic, "episodes").cells[0].regret.shape == (4, 2)


REFUSED = {
    "no module": ("elsewhere.bandits:Greedy", {}, "there is no module 'elsewhere' in .* or where Python looks"),
    "no attribute": ("mine.bandits:Gredy", {}, "module 'mine.bandits' .* has no 'Gredy'; did you mean 'Greedy'"),
    "no class": ("mine.bandits:SETTING", {}, "must be a class or a function that returns an object, got 3"),
    "no name": ("mine.bandits:", {}, "name must be that of a factory or 'package.module:Name', got 'mine.bandits:'"),
    "option": (
        "mine.bandits:Greedy",
        {"epsilonn": 0.1},
        "no argument of mine.bandits:Greedy named 'epsilonn'; did you",
    ),
    "no file": ("sys:exit", {}, "module 'sys' must be a file, so that its version can be kept with the results"),
    "missing": ("mine.bandits:make", {}, "epsilon must be given to mine.bandits:make"),
    "type": ("mine.bandits:Greedy", {"dim": 2.5}, "dim must be an integer, got 2.5"),
    "raises": ("mine.bandits:Angry", {}, "mine.bandits:Angry raised KeyError: 'no'"),
    "leaf": ("mine.bandits:Worded", {}, r"Worded.word must be a number or an array, or a static field, got 'soft'"),
    "signature": (
        "mine.bandits:Untold",
        {},
        r"Untold.select must take \(state, arms, key, side\), got \(state, arms, key",
    ),
    "role": ("mine.bandits:Line", {}, "'mine.bandits:Line' is an environment, not an algorithm"),
    "kind": ("mine.bandits:Lazy", {}, "is for Markov decision processes, in episodes, but the study for bandits"),
    "key": ("mine.bandits:Named", {"name": "x"}, "name is a key of every entry, and cannot be an argument of mine"),
    "other dim": ("mine.bandits:Greedy", {"dim": 3}, "dim 3 contradicts the dim 2 of the environment"),
}


@pytest.mark.parametrize(("name", "options", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_built_is_refused_in_a_sentence(home, name, options, said):
    with pytest.raises(jv.StudyError, match=said) as caught:
        study(jv.Entry(name, options=options))
    assert "\n" not in str(caught.value)


RETURNED = {
    "Bare": r"Bare.select must return an object \(such as a NamedTuple\) with action \[\], got an array int32\[\]",
    "Forgetful": r"Forgetful.update must return a state of .*, got an array float64\[2\] for an array float64\[\]",
    "Blind": r"Blind.observe must return .* with arms \[num_arms, dim\], mean \[num_arms\], .*, got mean \[2\]",
    "Planless": r"Planless.plan must return .* with policy \[3, 3\], got an array",
}


@pytest.mark.parametrize("name", RETURNED)
def test_what_a_method_returns_is_checked_before_anything_is_compiled(home, name):
    """In a study and in jv.simulate, with class and method."""
    players, worlds, length = [own(name)], [BANDIT], {}
    if name == "Blind":
        players, worlds = [jv.Entry("uniform")], [own(name)]
    if name == "Planless":
        worlds, length = [own("Model")], {"rounds": None, "episodes": 3}
    of = study(*players, environments=worlds, **length)
    with pytest.raises(jv.StudyError, match=f"on .*: {RETURNED[name]}"):
        play(of, "out")
    assert not Path("out").exists()
    cell = of.cells[0]
    sizes = {"num_episodes": 3} if length else {"num_rounds": 3}
    with jax.enable_x64(True), pytest.raises(ValueError, match=f"^{RETURNED[name]}"):
        jv.simulate(cell.algorithm, cell.environment, key=jax.random.key(0), num_seeds=2, **sizes)


@pytest.mark.slow
def test_killed_and_resumed_to_the_same_bytes(home):
    """A real process, killed while it plays."""
    (home / "study.toml").write_text(
        textwrap.dedent(TOML).replace("seeds = 4", "seeds = 32\nchunk = 8").replace("rounds = 10", "rounds = 3000")
    )

    def begin(folder):
        options = ["--out", folder, "--cache", "cache", "--no-progress", "--checkpoint-seconds", "0.01"]
        return start("-m", "jaxvar.cli", "run", "study.toml", *options)

    finish(begin("whole"))
    process = begin("out")
    while process.poll() is None and not list(Path("out").glob("checkpoints/*/*")):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    finish(begin("out"))
    assert stored(Path("out"), ("shards", "checkpoints")) == stored(Path("whole"), ("shards", "checkpoints"))
