"""The notebook in examples/ runs from top to bottom, and its outputs match its text."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import dbanon
from tests.prerequisites import skip_or_fail

for package in ("nbformat", "nbclient", "ipykernel"):
    if find_spec(package) is None:
        skip_or_fail(f"no package {package}; `make setup` installs it")
FILE = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"


def notebook() -> Any:
    import nbformat

    return nbformat.read(FILE, as_version=4)


def outputs(executed_notebook: Any, code: str) -> list[Any]:
    """The outputs of the cell that contains this line."""
    [cell] = [cell for cell in executed_notebook.cells if code in cell.source.splitlines()]
    return list(cell.outputs)


def data(executed_notebook: Any, code: str, kind: str) -> str:
    values = [
        output.data[kind]
        for output in outputs(executed_notebook, code)
        if kind in output.get("data", {})
    ]
    return str(values[-1])


@pytest.fixture(scope="module")
def executed_notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    import nbformat
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("notebook")
    before = os.environ.get("IPYTHONDIR")
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    try:
        document = notebook()
        NotebookClient(
            document,
            timeout=300,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
        ).execute()
    finally:
        os.environ.pop("IPYTHONDIR")
        if before is not None:
            os.environ["IPYTHONDIR"] = before
    assert (folder / "people.html").stat().st_mode & 0o777 == 0o600
    if output_path := os.environ.get("NOTEBOOK_OUT"):
        nbformat.write(document, output_path)
    return document


def test_it_is_kept_without_outputs() -> None:
    """Rows come in random order, so outputs would differ with each run."""
    for cell in notebook().cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.slow
def test_no_cell_fails_or_warns(executed_notebook: Any) -> None:
    for cell in executed_notebook.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error"
            # A warning about the example release, which has no privacy model.
            assert output.get("name") != "stderr" or "HomogeneousClasses" in output.text, (
                output.text
            )


@pytest.mark.slow
def test_cards_and_plots_exist(executed_notebook: Any) -> None:
    kinds = ("advice", "report", "evaluation", "partition", "certificate")
    html_outputs = [
        output.data["text/html"]
        for cell in executed_notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    cards = [text for text in html_outputs if 'class="dbanon-card"' in text]
    matches = [re.search(r'class="kicker">dbanon · (\w+)<', text) for text in cards]
    assert [match and match[1] for match in matches] == list(kinds)
    assert all("<svg" in text for text in cards)
    assert len(data(executed_notebook, "advice.plot();", "image/png")) > 10_000


@pytest.mark.slow
def test_the_bar_ends_full(executed_notebook: Any) -> None:
    line = "released, report = dbanon.anonymize_frame(people, **advice.start, progress=True)"
    [bar] = [
        output.data
        for output in outputs(executed_notebook, line)
        if output.output_type == "display_data"
    ]
    for phase in ("read", "cluster", "write", "verify"):
        assert f"{phase} 100 %" in bar["text/plain"]
    assert bar["text/html"].count("<progress") >= 4


@pytest.mark.slow
def test_figures_are_those_of_the_release(executed_notebook: Any) -> None:
    assert "(np.int64(5), (" in data(
        executed_notebook, "labels = line.fit_predict(numbers)", "text/plain"
    )
    assert dbanon.__version__ in data(executed_notebook, "report", "text/html")
