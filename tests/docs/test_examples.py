"""The examples print the expected output, and their losses match those in the tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

import dbanon
from tests.iloss_evaluator import iloss, read_paths
from tests.prerequisites import require_reference
from tests.reference import methods as reference
from tests.reference.data import ADULT_FILES
from tests.synthetic_data import adult_like, census_like, sse_share, standardized

ROOT = Path(__file__).resolve().parents[2]


def run(name: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-m", f"examples.{name}", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_hospital_prints_the_documented_output(tmp_path: Path) -> None:
    expected = (ROOT / "examples" / "hospital.out").read_text(encoding="utf-8")
    assert run("hospital", tmp_path / "hospital.duckdb") == expected


# The methods' own test checks the losses: test_adult_generalization.py.
@pytest.mark.campaign
def test_adult_reaches_its_losses() -> None:
    folder = require_reference(*ADULT_FILES) / "adult"
    printed = run("adult", folder)
    losses = [int(loss) for loss in re.findall(r"iloss (\d+),", printed)]
    assert all(
        loss <= most for loss, most in zip(losses, [11_110, 9_260, 19_760, 15_800], strict=True)
    )
    sex = read_paths(folder / "hierarchies" / "sex.csv")
    released = printed.splitlines()[-5:]
    assert all(line.split(";")[1] in {*sex, "*"} for line in released)


@pytest.mark.campaign
def test_census_prints_the_documented_output(tmp_path: Path) -> None:
    folder = require_reference("casc/census.csv") / "casc"
    expected = (ROOT / "examples" / "census.out").read_text(encoding="utf-8")
    picture = tmp_path / "census.svg"
    assert run("census", folder, "--picture", picture) == expected
    assert picture.read_bytes() == (ROOT / "examples" / "census.svg").read_bytes()


@pytest.mark.slow
def test_adult_on_a_synthetic_table(tmp_path: Path) -> None:
    """The printed values equal a plain count for the same classes."""
    table = adult_like(300, tmp_path / "adult")
    frame = table.quasi_identifiers
    lines = []
    for k in (5, 10):
        for name, refine in (("gaa_cp", None), ("refined", "fast")):
            classes = dbanon.partition(
                frame, k, method="gaa_cp", hierarchies=table.files, refine=refine
            )
            loss = iloss(table.rows, classes.labels, table.paths)
            lines.append(
                f"k = {k}, {name}: iloss {loss:.0f}, {classes.n_classes} classes of"
                f" {classes.sizes.min()} rows or more"
            )
    printed = run("adult", table.folder).splitlines()
    assert printed[0] == f"300 rows, {len(frame.drop_duplicates())} distinct ones"
    assert printed[2:6] == lines
    assert all(line.split(";")[1] in {"Male", "Female", "*"} for line in printed[-5:])


# The synthetic table below has the same checks, and one of its losses.
@pytest.mark.campaign
def test_census_on_a_small_share(tmp_path: Path) -> None:
    require_map(require_reference("casc/census.csv") / "casc", tmp_path)


@pytest.mark.slow
def test_census_on_a_synthetic_table(tmp_path: Path) -> None:
    """With the losses of a plain MDAV."""
    values = census_like(150, 13)
    frame = pd.DataFrame(values, columns=[f"a{j}" for j in range(13)])
    frame.to_csv(tmp_path / "census.csv", index=False)
    losses = require_map(tmp_path, tmp_path)
    points = standardized(values[:120])
    for k, loss in losses.items():
        expected = sse_share(points, reference.mdav(points, k))
        assert loss == pytest.approx(expected, abs=6e-5)


def require_map(folder: Path, tmp_path: Path) -> dict[int, float]:
    """Check output and figure for 120 records; the losses of MDAV by k."""
    picture = tmp_path / "map.svg"
    printed = run("census", folder, "--rows", 120, "--picture", picture).splitlines()
    assert printed[0] == "120 records, 13 columns"
    rows = [re.split(r"\s{2,}", line.replace("+ fast  ", "+ fast   ")) for line in printed[2:18]]
    for name in ("mdav", "mdav + fast"):
        method_rows = [[float(x) for x in row[1:]] for row in rows if row[0] == name]
        assert [k for k, *_ in method_rows] == list(range(3, 11))
        assert method_rows[0][1] < method_rows[-1][1]  # Loss grows with k,
        assert method_rows[0][2] > method_rows[-1][2]  # risk falls,
        assert all(linkage <= highest for _, _, linkage, highest in method_rows)  # and is bounded.
    tree = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert len(tree.findall("{http://www.w3.org/2000/svg}polyline")) == 2
    return {int(row[1]): float(row[2]) for row in rows if row[0] == "mdav"}


@pytest.mark.campaign
def test_the_year_prints_the_documented_output(tmp_path: Path) -> None:
    expected = (ROOT / "examples" / "chain_year.out").read_text(encoding="utf-8")
    picture = tmp_path / "year.svg"
    assert run("chain_year", "--picture", picture) == expected
    assert picture.read_bytes() == (ROOT / "examples" / "chain_year.svg").read_bytes()


@pytest.mark.slow
def test_a_year_of_few_persons_and_months(tmp_path: Path) -> None:
    picture = tmp_path / "year.svg"
    printed = run("chain_year", "--persons", 150, "--months", 3, "--picture", picture)
    rows = [line.split() for line in printed.splitlines()[2:]]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    independent, chained = ([float(row[i].rstrip("%")) for row in rows] for i in (1, 2))
    assert independent[0] == 0 < independent[1] < independent[2]
    assert chained == [0, 0, 0]
    tree = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert len(tree.findall("{http://www.w3.org/2000/svg}polyline")) == 4
