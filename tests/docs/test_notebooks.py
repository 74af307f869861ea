"""The notebooks run in a new kernel with the package installed, and are stored without output."""

import json

import pytest
from commands import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
by_name = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@by_name
def test_notebook_runs(notebook, installed_package, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="nbclient runs notebooks: pip install it")
    pytest.importorskip("ipykernel", reason="ipykernel runs notebooks: pip install it")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(installed_package))
    read = nbformat.read(notebook, as_version=4)
    is_installed = f"workings.__file__.startswith({str(installed_package)!r})"
    read.cells.append(nbformat.v4.new_code_cell(f"import workings\nassert {is_installed}"))
    nbclient.NotebookClient(
        read, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    for cell in read.cells:
        for output in cell.get("outputs", ()):
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr", output["text"]


@by_name
def test_notebook_is_stored_without_output(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert cells[0]["source"][0].startswith("# ")
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
