"""Cards of results in a notebook: what they show, and that names of others stay text."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.data import notebook
from dbanon.errors import InvalidParameter, MissingDependency, RowsNotAligned
from tests.doors.html.pages import HOSTILE
from tests.doors.html.test_page import Outline
from tests.prerequisites import import_or_skip

# Control characters and marks of direction of the hostile names, and of a terminal.
RAW = ("\u202e", "\u2066", "\x1b", "\x00")
PLANTED = "zyxomma"


def people(names: tuple[str, ...], n: int = 120) -> pd.DataFrame:
    """Invented persons; one has an illness that nobody shares."""
    rng = np.random.default_rng(5)
    ill = rng.choice(["flu", "<b>none</b>", "asthma\x1b[2J"], n)
    ill[0] = PLANTED
    columns = (rng.integers(18, 90, n), rng.gamma(4, 900, n), rng.choice(list("xy"), n), ill)
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


@cache
def results(names: tuple[str, ...] = ("age", "income", "town", "illness")) -> dict[str, Any]:
    """One of each kind that has a card."""
    frame = people(names)
    age, income, town, illness = names
    asked: Any = {"quasi_identifiers": [age, income], "sensitive": [illness], "k": 5}
    released, report = dbanon.anonymize_frame(frame, evaluate=True, **asked)
    _, labels = dbanon.anonymize_frame(
        frame, quasi_identifiers=[age, town], keep=[illness], k=5, method="gaa_cp"
    )
    numbers = frame[[age, income]]
    advice = dbanon.advise(frame, quasi_identifiers=[age, income], sensitive=[illness], k=[3, 5])
    with pytest.warns(dbanon.errors.RowsNotAnonymous):
        ranked = dbanon.partition(numbers, 5, method="individual_ranking")
    return {
        "report": report,
        "labels": labels,
        "advice": advice,
        "sweep": advice.sweep,
        "evaluation": report.evaluate(frame),
        "partition": dbanon.partition(numbers, 5),
        "ranked": ranked,
        "certificate": dbanon.certificate(numbers, 5, seconds=5),
        "attacks": dbanon.attack(frame, released, control=people(names, 60)),
    }


KINDS = (
    "attacks",
    "report",
    "labels",
    "advice",
    "sweep",
    "evaluation",
    "partition",
    "ranked",
    "certificate",
)


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_names_stay_text(kind: str) -> None:
    """The attack: names of columns are markup, and tell a terminal or a page what to do."""
    names = (HOSTILE[0], HOSTILE[1], HOSTILE[2] + "\x1b[2J\x00", HOSTILE[3] + HOSTILE[4])
    text = results(names)[kind]._repr_html_()
    plain = results()[kind]._repr_html_()
    hostile, usual = Outline(text), Outline(plain)
    tags = {tag for tag, _ in hostile.elements}
    assert tags == {tag for tag, _ in usual.elements}
    assert tags.isdisjoint({"script", "img", "link", "iframe", "object", "form", "a", "base", "b"})
    for tag, attributes in hostile.elements:
        assert not any(name.startswith("on") or name in ("href", "src") for name in attributes), tag
    assert not [mark for mark in RAW if mark in text]
    # The style is a card's own, whatever the names are.
    assert hostile.said("style") == usual.said("style")
    assert "url(" not in text
    assert "@import" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_card_tells_of_no_single_row(kind: str) -> None:
    text = results()[kind]._repr_html_()
    assert PLANTED not in text
    frame = people(("age", "income", "town", "illness"))
    assert not [value for value in frame["income"] if f"{value:.3f}" in text]


def test_what_cards_show() -> None:
    found = {kind: Outline(made._repr_html_()) for kind, made in results().items()}
    for kind, outline in found.items():
        pictures = outline.of("svg")
        assert pictures, kind
        for picture in pictures:
            named = str(picture.get("aria-labelledby") or "").split()
            ids = [attributes.get("id") for _, attributes in outline.elements]
            assert picture.get("aria-hidden") == "true" or set(named) <= set(ids), kind
    report = results()["report"]
    shown = found["report"].said("strong")
    assert shown[:3] == [f"{report.k_achieved:,}", f"{report.rows_out:,}", f"{report.classes:,}"]
    assert report.guarantee in found["report"].said("bdi")
    assert set(report.warned) <= set(found["report"].said("bdi"))
    advice = results()["advice"]
    assert str(advice.recommendation.point) in found["advice"].said("td")
    assert len(found["sweep"].of("polyline")) >= 2
    losses = results()["evaluation"].losses
    assert f"{losses['sse_loss']:.4f}" in found["evaluation"].said("td")
    assert f"{results()['partition'].n_classes}" in found["partition"].said("strong")
    share = results()["certificate"].share
    assert f"{100 * share:.2f} %" in found["certificate"].said("strong")


def test_attacks_print_as_lines() -> None:
    """Not as thousands of characters of ``repr``."""
    attacks = results()["attacks"]
    lines = str(attacks).splitlines()
    assert [line.split()[0] for line in lines] == list(attacks.risks)
    assert len(str(attacks)) < 1_000


def test_pictures_that_differ_are_told_apart() -> None:
    """Those that are alike may have one name: they have one title, too."""
    made = results()
    ids = [
        attributes["id"]
        for kind in ("report", "advice", "sweep")
        for _, attributes in Outline(made[kind]._repr_html_()).elements
        if "id" in attributes
    ]
    assert len(set(ids)) == len(ids) >= 6


def test_without_a_door_there_is_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "_drawing", None)
    made = results()
    assert made["report"]._repr_html_().startswith("<table>")
    assert made["partition"]._repr_html_() is None


def test_a_report_of_a_frame_evaluates_it() -> None:
    frame = people(("age", "income", "town", "illness"))
    asked: Any = {"quasi_identifiers": ["age", "town"], "k": 5, "method": "gaa_cp"}
    released, report = dbanon.anonymize_frame(
        frame, hierarchies={"age": {"intervals": [5, 20]}}, evaluate=True, **asked
    )
    found = report.evaluate(frame, seed=1)
    assert report.evaluation is not None
    for name, value in report.internal.evaluation["losses"].items():
        assert found.losses[name] == (None if value is None else pytest.approx(value)), name
    with pytest.raises(RowsNotAligned, match="original is not as it was"):
        report.evaluate(frame[::-1])
    with pytest.raises(RowsNotAligned, match="not a copy"):
        report.with_provenance().evaluate(frame)  # type: ignore[attr-defined]
    released.iloc[0, 0] = "[0, 5)"
    with pytest.raises(RowsNotAligned, match="release is not as it was"):
        report.evaluate(frame)


def test_a_report_of_a_frame_is_a_page(tmp_path: Any) -> None:
    report = results()["report"]
    text = report.page(tmp_path / "people.html")
    assert (tmp_path / "people.html").read_text(encoding="utf-8") == text
    assert (tmp_path / "people.html").stat().st_mode & 0o777 == 0o600
    outline = Outline(text)
    assert {"Rows by age", "Rows by income", "Rows by illness"} <= set(outline.said("caption"))
    assert PLANTED not in text
    # A copy knows no frame, and draws none.
    assert "Rows by age" not in report.with_provenance().page()
    frame = people(("age", "income", "town", "illness"))
    frame["person"] = np.arange(len(frame)) // 2
    _, of_persons = dbanon.anonymize_frame(
        frame, quasi_identifiers=["age", "income"], sensitive=["illness"], entity="person", k=3
    )
    assert "Persons in a bin or value cannot be counted here." in of_persons.page()


def test_advice_is_plotted() -> None:
    matplotlib = import_or_skip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    advice = results()["advice"]
    _, axes = plt.subplots()
    assert advice.plot(axes) is axes
    point = advice.recommendation.point
    told = axes.get_legend_handles_labels()[1]
    assert f"recommended: {point.curve}, k = {point.k}" in told
    assert {one.curve for one in advice.sweep.points} <= set(told)
    drawn = sum(len(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "-")
    assert drawn == len(advice.sweep.points)
    assert "recommended" not in " ".join(advice.sweep.plot().get_legend_handles_labels()[1])
    plt.close("all")


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingDependency, match="matplotlib") as missing:
        results()["advice"].plot()
    assert "pip install 'matplotlib>=3.7'" in str(missing.value.hint)


def test_progress_is_a_function_or_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    frame = people(("age", "income", "town", "illness"))
    asked: Any = {"quasi_identifiers": ["age", "income"], "k": 5}
    told: list[tuple[str, float]] = []
    dbanon.anonymize_frame(frame, progress=lambda *one: told.append(one), **asked)
    assert {"read", "cluster", "write", "verify"} <= {phase for phase, _ in told}
    # No terminal and no notebook: silence.
    dbanon.anonymize_frame(frame, progress=True, **asked)
    assert capsys.readouterr() == ("", "")
    wrong: Any = "yes"
    with pytest.raises(InvalidParameter, match="progress must be"):
        dbanon.anonymize_frame(frame, progress=wrong, **asked)

    def stop(phase: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dbanon.anonymize_frame(frame, progress=stop, **asked)
