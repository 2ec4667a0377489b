"""The notebooks of examples/notebooks: committed without outputs, and, with --all, run from top to bottom by nbconvert."""

import ast
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from test_documentation import anchors

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
NEEDS = {"cog_in_a_llama": ["transformers"]}


def cells(name, kind):
    return ["".join(cell["source"]) for cell in json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"] if cell["cell_type"] == kind]


def test_documents_name_them_all(repository):
    assert len(NAMES) >= 4
    for document in ("docs/python.md", "examples/README.md"):
        assert all(f"{name}.ipynb" in (repository / document).read_text() for name in NAMES), document


@pytest.mark.parametrize("name", NAMES)
def test_committed_as_written(name):
    text = (FOLDER / f"{name}.ipynb").read_text()
    notebook = json.loads(text)
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert notebook["cells"][0]["cell_type"] == "markdown" and notebook["cells"][0]["source"][0].startswith("# ")
    for cell in notebook["cells"]:
        assert cell["metadata"] == {} and "".join(cell["source"]).strip()
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            ast.parse("".join(cell["source"]))


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", "\n".join(cells(name, "markdown")))
    assert links
    for target, anchor in links:
        assert (FOLDER / target).is_file(), target
        assert not anchor or anchor in anchors(FOLDER / target), f"{target}#{anchor}"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_runs_from_top_to_bottom(name, cogwheel_executable, tmp_path):
    for module in ["nbconvert", "ipykernel", *NEEDS.get(name, [])]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    words = ["--to", "notebook", "--execute", "--output-dir", str(tmp_path), "--ExecutePreprocessor.timeout=300"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "IPYTHONDIR": str(tmp_path / "ipython")}
    # Of the folder in which a kernel runs, nbconvert takes that of the notebook.
    (tmp_path / "work").mkdir()
    notebook = tmp_path / "work" / f"{name}.ipynb"
    notebook.write_text((FOLDER / notebook.name).read_text())
    done = subprocess.run([sys.executable, "-m", "nbconvert", *words, str(notebook)], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    run = json.loads((tmp_path / notebook.name).read_text())
    outputs = [output for cell in run["cells"] for output in cell.get("outputs", [])]
    assert all(output["output_type"] != "error" for output in outputs)
    shown = [output["data"] for output in outputs if output["output_type"] == "execute_result"]
    assert any('class="cogwheel"' in "".join(data.get("text/html", "")) for data in shown)
    assert all(data.get("text/plain") for data in shown)
    # Each code cell says or shows something, or prepares a later one.
    assert sum(bool(cell.get("outputs")) for cell in run["cells"]) >= len(cells(name, "code")) / 2
