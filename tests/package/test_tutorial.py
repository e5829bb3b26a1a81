"""The notebook of the documentation runs from its first cell to its last."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Jupyter's own
def test_notebook_runs(tmp_path, monkeypatch):
    """In a kernel of its own; an exception in a cell fails it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    texts = "".join(output.get("text", "") for output in shown)
    assert "\\begin{table}" in texts and "OFUL" in texts
    assert sum("image/png" in output.get("data", {}) for output in shown) == 1
