"""The README's Python examples run as they stand, with fewer rounds and seeds."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
SHORTER = {
    "20_000": "200",
    "num_seeds=1024": "num_seeds=16",
    "num_rounds=1000": "num_rounds=100",
    "num_episodes=1000": "num_episodes=20",
    "num_seeds=256": "num_seeds=8",
}


def test_examples_run():
    """A newcomer pastes them in order; each may use the names of those before it."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 4
    namespace: dict = {}
    for code in blocks:
        for long, short in SHORTER.items():
            code = code.replace(long, short)
        exec(code, namespace)
    assert namespace["out"].regret.shape == (6, 64, 100)  # as a comment of the second one promises
