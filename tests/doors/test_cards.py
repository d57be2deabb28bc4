"""Cards of results in a notebook: their contents, and that hostile names stay plain text."""

from __future__ import annotations

import copy
import pickle
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

# Control characters and direction marks, as in the hostile names or for a terminal.
RAW = ("\u202e", "\u2066", "\x1b", "\x00")
PLANTED = "zyxomma"


def people(names: tuple[str, ...], n: int = 120) -> pd.DataFrame:
    """Invented persons; one has a unique illness."""
    rng = np.random.default_rng(5)
    ill = rng.choice(["flu", "<b>none</b>", "asthma\x1b[2J"], n)
    ill[0] = PLANTED
    columns = (rng.integers(18, 90, n), rng.gamma(4, 900, n), rng.choice(list("xy"), n), ill)
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


@cache
def results(names: tuple[str, ...] = ("age", "income", "town", "illness")) -> dict[str, Any]:
    """A result of each kind that has a card."""
    frame = people(names)
    age, income, town, illness = names
    arguments: Any = {"quasi_identifiers": [age, income], "sensitive": [illness], "k": 5}
    released, report = dbanon.anonymize_frame(frame, evaluate=True, **arguments)
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
        "risk": dbanon.disclosure_risk(frame, quasi_identifiers=[age, town]),
        "risks": dbanon.disclosure_risk(
            frame, quasi_identifiers=[age, income], released=released, sampling_fraction=0.1
        ),
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
    "risk",
    "risks",
)


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_names_stay_text(kind: str) -> None:
    """Attack: column names contain markup and instructions to a terminal or a page."""
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
    # The card's style does not depend on the names.
    assert hostile.texts_of("style") == usual.texts_of("style")
    assert "url(" not in text
    assert "@import" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_card_reveals_no_single_row(kind: str) -> None:
    text = results()[kind]._repr_html_()
    assert PLANTED not in text
    frame = people(("age", "income", "town", "illness"))
    assert not [value for value in frame["income"] if f"{value:.3f}" in text]


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_pickled_and_copied(kind: str) -> None:
    result = results()[kind]
    for copied in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert type(copied) is type(result)
        assert str(copied) == str(result)


def test_contents_of_cards() -> None:
    outlines = {kind: Outline(result._repr_html_()) for kind, result in results().items()}
    for kind, outline in outlines.items():
        pictures = outline.of("svg")
        assert pictures, kind
        for picture in pictures:
            named = str(picture.get("aria-labelledby") or "").split()
            ids = [attributes.get("id") for _, attributes in outline.elements]
            assert picture.get("aria-hidden") == "true" or set(named) <= set(ids), kind
    report = results()["report"]
    figures = outlines["report"].texts_of("strong")
    assert figures[:3] == [f"{report.k_achieved:,}", f"{report.rows_out:,}", f"{report.classes:,}"]
    assert report.guarantee in outlines["report"].texts_of("bdi")
    assert set(report.warning_texts) <= set(outlines["report"].texts_of("bdi"))
    advice = results()["advice"]
    assert str(advice.recommendation.point) in outlines["advice"].texts_of("td")
    assert len(outlines["sweep"].of("polyline")) >= 2
    losses = results()["evaluation"].losses
    assert f"{losses['sse_loss']:.4f}" in outlines["evaluation"].texts_of("td")
    assert f"{results()['partition'].n_classes}" in outlines["partition"].texts_of("strong")
    share = results()["certificate"].share
    assert f"{100 * share:.2f} %" in outlines["certificate"].texts_of("strong")


def test_attacks_print_as_lines() -> None:
    """Not as thousands of characters of ``repr``."""
    attacks = results()["attacks"]
    lines = str(attacks).splitlines()
    assert [line.split()[0] for line in lines] == list(attacks.risks)
    assert len(str(attacks)) < 1_000


def test_different_pictures_have_different_titles() -> None:
    """Equal pictures may share a name: they have the same title, too."""
    results_by_kind = results()
    ids = [
        attributes["id"]
        for kind in ("report", "advice", "sweep")
        for _, attributes in Outline(results_by_kind[kind]._repr_html_()).elements
        if "id" in attributes
    ]
    assert len(set(ids)) == len(ids) >= 6


def test_without_a_card_the_table_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "_load_drawing", None)
    results_by_kind = results()
    assert results_by_kind["report"]._repr_html_().startswith("<table>")
    assert results_by_kind["partition"]._repr_html_() is None


def test_a_report_of_a_frame_evaluates_it() -> None:
    frame = people(("age", "income", "town", "illness"))
    arguments: Any = {"quasi_identifiers": ["age", "town"], "k": 5, "method": "gaa_cp"}
    released, report = dbanon.anonymize_frame(
        frame, hierarchies={"age": {"intervals": [5, 20]}}, evaluate=True, **arguments
    )
    evaluation = report.evaluate(frame, seed=1)
    assert report.evaluation is not None
    for name, value in report.internal.evaluation["losses"].items():
        assert evaluation.losses[name] == (None if value is None else pytest.approx(value)), name
    with pytest.raises(RowsNotAligned, match="original has changed since"):
        report.evaluate(frame[::-1])
    with pytest.raises(RowsNotAligned, match="copies do not"):
        report.with_provenance().evaluate(frame)  # type: ignore[attr-defined]
    released.iloc[0, 0] = "[0, 5)"
    with pytest.raises(RowsNotAligned, match="release has changed since"):
        report.evaluate(frame)


def test_a_report_of_a_frame_is_a_page(tmp_path: Any) -> None:
    report = results()["report"]
    text = report.page(tmp_path / "people.html")
    assert (tmp_path / "people.html").read_text(encoding="utf-8") == text
    assert (tmp_path / "people.html").stat().st_mode & 0o777 == 0o600
    outline = Outline(text)
    assert {"Rows by age", "Rows by income", "Rows by illness"} <= set(outline.texts_of("caption"))
    assert PLANTED not in text
    # A copy has no frame and plots nothing.
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
    legend = axes.get_legend_handles_labels()[1]
    assert f"recommended: {point.curve}, k = {point.k}" in legend
    assert {point_.curve for point_ in advice.sweep.points} <= set(legend)
    n_drawn = sum(len(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "-")
    assert n_drawn == len(advice.sweep.points)
    assert "recommended" not in " ".join(advice.sweep.plot().get_legend_handles_labels()[1])
    plt.close("all")


def test_a_plot_without_matplotlib_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingDependency, match="matplotlib") as missing:
        results()["advice"].plot()
    assert "pip install 'matplotlib>=3.7'" in str(missing.value.hint)


def test_progress_is_a_function_or_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    frame = people(("age", "income", "town", "illness"))
    arguments: Any = {"quasi_identifiers": ["age", "income"], "k": 5}
    calls: list[tuple[str, float]] = []
    dbanon.anonymize_frame(frame, progress=lambda *call: calls.append(call), **arguments)
    assert {"read", "cluster", "write", "verify"} <= {phase for phase, _ in calls}
    # Without a terminal or notebook it prints nothing.
    dbanon.anonymize_frame(frame, progress=True, **arguments)
    assert capsys.readouterr() == ("", "")
    wrong: Any = "yes"
    with pytest.raises(InvalidParameter, match="progress must be"):
        dbanon.anonymize_frame(frame, progress=wrong, **arguments)

    def stop(phase: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dbanon.anonymize_frame(frame, progress=stop, **arguments)
