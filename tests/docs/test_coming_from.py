"""The page for users of other tools: our calls next to theirs work, and its claims are true."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import dbanon
from tests.prerequisites import require_reference
from tests.reference import methods as reference
from tests.synthetic_data import census_like, class_means, standardized

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "coming_from.md").read_text(encoding="utf-8")
# The language of the blocks that run a column's calls, by the column's heading.
LANGUAGES = {"in Python": "python", "on the command line": "bash", "in SQL": "sql"}
BLOCK = re.compile(r"<!-- runnable -->\n```(\w+)\n(.*?)```", re.DOTALL)
TABLES = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def calls() -> Iterator[tuple[str, str]]:
    """Language and code of the calls in dbanon's columns."""
    for table in TABLES.findall(PAGE):
        header, _, *rows = table.strip().splitlines()
        names = cells(header)
        for row in rows:
            assert len(cells(row)) == len(names), row
            for name, cell in zip(names, cells(row), strict=True):
                if name in LANGUAGES:
                    for code in re.findall(r"`([^`]+)`", cell):
                        yield LANGUAGES[name], code


def plain(code: str) -> str:
    """Normalized code: line breaks count as spaces."""
    return " ".join(code.replace("\\\n", " ").split())


def run(language: str) -> str:
    """The code that the page's blocks of this language run, here and in
    tests/sql/test_coming_from.py.
    """
    return plain(
        " ".join(code for block_language, code in BLOCK.findall(PAGE) if block_language == language)
    )


def test_every_call_beside_a_call_of_another_tool_is_run() -> None:
    printed_calls = list(calls())
    assert {language for language, _ in printed_calls} == set(LANGUAGES.values())
    texts = {language: run(language) for language in LANGUAGES.values()}
    assert [
        (language, code) for language, code in printed_calls if code not in texts[language]
    ] == []


def test_every_call_in_the_text_is_run() -> None:
    text = re.sub(r"^```.*?^```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)
    printed_calls = re.findall(r"`((?:\w+=|dbanon[ .]|--)[^`]*)`", TABLES.sub("", text))
    assert printed_calls
    everywhere = " ".join(run(language) for language in LANGUAGES.values())
    assert [code for code in map(plain, printed_calls) if code not in everywhere] == []


def read(path: Path) -> NDArray[np.float64]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return np.loadtxt(file, delimiter=",", skiprows=1)


@pytest.mark.parametrize(
    ("name", "k", "classes"),
    [("testdata", 3, 1526), ("testdata", 5, 916), ("testdata", 10, 458), ("free1", 3, 1333)],
)
def test_mdav_releases_the_values_that_sdcmicro_releases(name: str, k: int, classes: int) -> None:
    files = (f"sdcmicro/{name}.csv", f"sdcmicro/{name}_mdav_k{k}.csv.gz")
    folder = require_reference(*files)
    original, theirs = (read(folder / file) for file in files)
    partition = dbanon.partition(original, k)
    assert isinstance(partition, dbanon.Partition)
    means = (
        np.add.reduceat(original[partition.members], partition.starts) / partition.sizes[:, None]
    )
    ours = means[partition.labels]
    far = np.abs(ours - theirs) / original.std(axis=0, ddof=1)
    assert far.max() < 1e-6
    # As the page says.
    assert partition.n_classes == classes
    assert f"{classes:,}" in PAGE
    assert f"{len(original):,} records, {original.shape[1]} columns" in PAGE


def test_sdcmicros_il1s_equals_ours_over_all_cells() -> None:
    files = ("sdcmicro/testdata.csv", "sdcmicro/testdata_mdav_k3.csv.gz")
    folder = require_reference(*files)
    original, released = (read(folder / file) for file in files)
    evaluation = dbanon.evaluate(original, released)
    assert evaluation.losses["deviation_loss"] is not None
    theirs = il1s(original, released)
    assert evaluation.losses["deviation_loss"] * original.size == pytest.approx(theirs, rel=1e-9)


def il1s(original: NDArray[np.float64], released: NDArray[np.float64]) -> float:
    """As in R/dUtility.R."""
    deviations = original.std(axis=0, ddof=1) * np.sqrt(2)
    return float((np.abs(original - released) / deviations).sum())


@pytest.mark.parametrize("k", [3, 5, 10])
def test_mdav_releases_the_values_of_a_plain_mdav(k: int) -> None:
    """An equivalent of sdcMicro's releases: z-scores of the sample, means of classes of k
    records.
    """
    original = census_like(301, 3)
    labels = reference.mdav(standardized(original), k)
    partition = dbanon.partition(original, k)
    assert isinstance(partition, dbanon.Partition)
    assert partition.n_classes == labels.max() + 1 == len(original) // k
    ours, theirs = class_means(original, partition.labels), class_means(original, labels)
    far = np.abs(ours - theirs) / original.std(axis=0, ddof=1)
    assert far.max() < 1e-9


def test_il1s_of_sdcmicro_equals_ours_over_all_cells_of_any_release() -> None:
    original = census_like(120, 3)
    released = class_means(original, reference.mdav(standardized(original), 4))
    loss = dbanon.evaluate(original, released).losses["deviation_loss"]
    assert loss is not None
    assert loss * original.size == pytest.approx(il1s(original, released), rel=1e-9)
