"""The page of ``dbanon.disclosure_risk``: one private file, not for publication."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.html.page import report_content_security_policy
from dbanon.errors import InsufficientRights, InvalidParameter, OutputExists
from tests.doors.html.pages import HOSTILE
from tests.doors.html.test_page import Outline

RNG = np.random.default_rng(58)
N = 120
SURVEY = pd.DataFrame(
    {
        "town": [*RNG.choice(["a", "b"], N - 1), "qzrare"],
        "age": RNG.integers(18, 90, N),
        "pid": np.arange(N),
    }
)
KEYS = ["town", "age"]
RELEASED, _ = dbanon.anonymize_frame(SURVEY, quasi_identifiers=KEYS, k=4, method="gaa_cp")


def page_of(path: Path, **options: Any) -> str:
    dbanon.disclosure_risk(SURVEY, quasi_identifiers=KEYS, report=path, **options)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("released", [None, RELEASED])
def test_the_page_is_private_and_contains_itself(
    tmp_path: Path, released: pd.DataFrame | None
) -> None:
    path = tmp_path / "risk.html"
    text = page_of(path, released=released, sampling_fraction=0.1, suda=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    outline = Outline(text)
    [policy] = [
        attributes["content"]
        for tag, attributes in outline.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == report_content_security_policy()
    tags = {tag for tag, _ in outline.elements}
    assert tags.isdisjoint({"script", "img", "link", "iframe", "object", "form", "base"})
    for _, attributes in outline.elements:
        assert "src" not in attributes
        assert str(attributes.get("href", "#")).startswith("#")
        assert "style" not in attributes
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for _, attributes in outline.elements:
        assert {*str(attributes.get("aria-labelledby") or "").split()} <= {*ids}
    assert "For the controller of the data, not for publication." in outline.texts_of("strong")
    assert "qzrare" not in text
    assert len(re.findall('<svg class="picture', text)) == 2


def test_the_page_has_the_figures_before_and_after(tmp_path: Path) -> None:
    result = dbanon.disclosure_risk(
        SURVEY, quasi_identifiers=KEYS, released=RELEASED, report=tmp_path / "risk.html"
    )
    outline = Outline((tmp_path / "risk.html").read_text(encoding="utf-8"))
    cells = outline.texts_of("td")
    for _, before, after in result.table_rows():
        assert before in cells
        assert after in cells
    texts = outline.texts_of("bdi")
    for note in result.notes:
        assert f"{note[0].upper()}{note[1:]}." in texts
    for _, text in result.pairs():
        assert text in texts


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    names = dict(zip(("town", "age"), (HOSTILE[0], HOSTILE[1] + "\x1b[2J"), strict=True))
    path = tmp_path / "hostile.html"
    dbanon.disclosure_risk(
        SURVEY.rename(columns=names),
        quasi_identifiers=list(names.values()),
        released=RELEASED.rename(columns=names),
        suda=True,
        report=path,
    )
    text = path.read_text(encoding="utf-8")
    usual = Outline(page_of(tmp_path / "usual.html", released=RELEASED, suda=True))
    assert {tag for tag, _ in Outline(text).elements} == {tag for tag, _ in usual.elements}
    assert "\x1b" not in text


def test_an_existing_file_is_never_written_over(tmp_path: Path) -> None:
    path, link = tmp_path / "risk.html", tmp_path / "link.html"
    path.write_text("mine")
    link.symlink_to(tmp_path / "nothing.html")
    for taken in (path, link):
        with pytest.raises(OutputExists):
            page_of(taken)
    assert path.read_text() == "mine"
    assert not (tmp_path / "nothing.html").exists()


def test_other_files_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    refused: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"report": tmp_path / "risk.pdf"}, InvalidParameter),
        ({"report": tmp_path / "nowhere" / "risk.html"}, InsufficientRights),
        ({"report": tmp_path / "r.html", "records": tmp_path / "r.html"}, InvalidParameter),
    ]
    for options, error in refused:
        with pytest.raises(error):
            dbanon.disclosure_risk(SURVEY, quasi_identifiers=KEYS, **options)
    assert [*tmp_path.iterdir()] == []


def test_a_call_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("dbanon.extensions.survey.interface.write_record_list", fail)
    with pytest.raises(OSError, match=r"^$"):
        page_of(tmp_path / "risk.html", records=tmp_path / "records.csv")
    assert [*tmp_path.iterdir()] == []


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    data, path = tmp_path / "survey.csv", tmp_path / "risk.html"
    SURVEY.to_csv(data, index=False)
    words = ["risk", f"file:{data}", "--table", "survey", "-q", "town,age", "--report", str(path)]
    completed = CliRunner().invoke(main, words)
    assert completed.exit_code == 0, completed.output
    assert f"Report, private and not for publication: {path}" in completed.stderr.replace("\n", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = CliRunner().invoke(main, words)
    assert again.exit_code == OutputExists.exit_code
    assert "--report" in again.stderr
