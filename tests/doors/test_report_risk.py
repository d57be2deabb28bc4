"""The disclosure risk on the page of a release: for its owner, and never on a page for readers."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dbanon
from tests.doors.html.pages import HOSTILE
from tests.doors.html.test_page import Outline
from tests.stores.job_lines import call

PLANTED = " ".join(map(str, HOSTILE))
MARK = "For the controller of the data, not for publication."


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The URL of a database with a release, and a folder with the figures of its risk."""
    folder = tmp_path_factory.mktemp("pages")
    url = f"duckdb:///{folder}/d.duckdb"
    with duckdb.connect(f"{folder}/d.duckdb") as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT range AS id, 20 + range * 37 % 50 AS age,"
            " range * 7 % 4 AS region, 20 + range % 3 AS w FROM range(200)"
        )
    dbanon.anonymize(
        url, table="people", quasi_identifiers=["age", "region"], k=4, output="released"
    )
    keys = ["-q", "age,region", "--weight", "w", "--suda", "--released", "released"]
    done = call("risk", url, "--table", "people", *keys, "--format", "json")
    assert done.exit_code == 0, done.stderr
    (folder / "risk.json").write_text(done.stdout)
    return url, folder


def write_page(release: tuple[str, Path], path: Path, *words: Any) -> str:
    done = call("report", release[0], "released", "-o", path, *words)
    assert done.exit_code == 0, done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path.read_text(encoding="utf-8")


def test_a_page_shows_the_risk_only_if_asked(release: tuple[str, Path], tmp_path: Path) -> None:
    readers = write_page(release, tmp_path / "page.html")
    own = write_page(release, tmp_path / "own.html", "--risk", release[1] / "risk.json")
    outlines = [Outline(text) for text in (readers, own)]
    ids = [{attributes.get("id") for _, attributes in each.elements} for each in outlines]
    assert ("disclosure" in ids[0], "disclosure" in ids[1]) == (False, True)
    assert own.count(MARK) == 2
    assert own.count("<svg") == readers.count("<svg") + 6
    assert "<title>Private: Report" in own
    risk = json.loads((release[1] / "risk.json").read_text())
    for side in ("before", "after"):
        assert f"{risk[side]['individual']['expected_reidentifications']:.6g}" in own
    for text in (MARK, "re-identification", "individual risk", "Private:"):
        assert text not in readers
    every_id = [a["id"] for _, a in outlines[1].elements if "id" in a]
    assert len(set(every_id)) == len(every_id)


def test_pages_of_runs_and_handed_over_pages_never_show_it(
    release: tuple[str, Path], tmp_path: Path
) -> None:
    figures = release[1] / "risk.json"
    for words in (["--for", "Ann"], ["--purpose", "study"]):
        page = tmp_path / "handed.html"
        refused = call("report", release[0], "released", "-o", page, "--risk", figures, *words)
        assert (refused.exit_code, page.exists()) == (2, False)
    page = tmp_path / "readers.html"
    before = write_page(release, page)
    refused = call("report", release[0], "released", "-o", page, "--risk", figures)
    assert refused.exit_code == 2
    assert "[output_exists]" in refused.stderr
    assert page.read_text(encoding="utf-8") == before


def test_figures_are_those_of_the_release(release: tuple[str, Path], tmp_path: Path) -> None:
    figures = json.loads((release[1] / "risk.json").read_text())
    file, page = tmp_path / "other.json", tmp_path / "page.html"

    def refused(document: object) -> str:
        file.write_text(json.dumps(document))
        done = call("report", release[0], "released", "-o", page, "--risk", file)
        assert (done.exit_code, page.exists()) == (2, False)
        return done.stderr

    assert "another release" in refused(figures | {"release_id": "a"})
    fewer = figures["after"] | {"records": 199}
    assert "another release" in refused(figures | {"after": fewer})
    no_records = figures | {"before": figures["before"] | {"records": 0}}
    no_note = figures | {"notes": [""]}
    for broken in (
        [],
        {},
        figures | {"notes": 7},
        figures | {"before": {}},
        figures["before"],
        no_records,
        no_note,
    ):
        assert "has no figures" in refused(broken)
    nested = tmp_path / "nested.json"
    nested.write_text("[" * 100_000)
    done = call("report", release[0], "released", "-o", page, "--risk", nested)
    assert (done.exit_code, "has no figures" in done.stderr) == (2, True)
    wrong = figures["before"] | {"highest": None, "classes": PLANTED}
    assert "has no figures" in refused(figures | {"before": wrong | {"individual": PLANTED}})
    assert (
        "has no figures"
        in call(
            "report", release[0], "released", "-o", page, "--risk", tmp_path / "none.json"
        ).stderr
    )


def test_texts_of_the_file_stay_texts(release: tuple[str, Path], tmp_path: Path) -> None:
    figures = json.loads((release[1] / "risk.json").read_text())
    figures["notes"] = [PLANTED]
    figures["before"]["source"] = figures["after"]["source"] = PLANTED
    figures["before"]["suda"]["contributions"] = {PLANTED: 0.5}
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(figures))
    outline = Outline(write_page(release, tmp_path / "page.html", "--risk", file))
    tags = {tag for tag, _ in outline.elements}
    assert tags.isdisjoint({"script", "img", "link", "iframe", "object", "form", "base"})
