"""The README's Python examples run as they stand, with fewer rounds and seeds."""

from pathlib import Path

from tests.helpers.examples import blocks, run_python

README = Path(__file__).parents[2] / "README.md"
SHORTER = {
    "10_000": "200",
    "num_episodes=1000": "num_episodes=20",
    "num_seeds=256": "num_seeds=8",
}


def test_examples_run():
    """A newcomer pastes them in order; each may use the names of those before it."""
    assert len(blocks(README, "python")) == 2
    namespace = run_python(README, SHORTER)
    assert namespace["out"].regret.shape == (4, 8, 100)  # levels, seeds, records
    assert len(README.read_text().splitlines()) <= 130  # one screen
