"""The report as a page: its contents, and what it must never contain."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.doors.html import svg
from dbanon.doors.html.page import render_page
from dbanon.errors import RowsNotAnonymous
from dbanon.release.distribution import Bar
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.report import EvaluationOutcome, Report
from tests.doors.html.pages import HOSTILE, PLANTED, Release, make_release

VOID = {"meta", "link", "img", "br", "input", "hr"}
# SVG shapes, which are empty elements.
SHAPES = {"rect", "line", "circle", "polyline", "polygon"}


class Outline(HTMLParser):
    """Elements, attributes and texts of a page; requires that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def texts_of(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]


@pytest.fixture(scope="module")
def full_release() -> Release:
    return make_release(
        models=[dbanon.Model("entropy_l", "illness", 1.2)],
        max_suppression=0.2,
        withhold_failing=True,
    )


@pytest.fixture(scope="module")
def plain_release() -> Release:
    """A release without an evaluation and models."""
    return make_release(evaluated=False)


@pytest.fixture(scope="module")
def text(full_release: Release) -> str:
    return render_page(
        full_release.report, inspection=full_release.look, tradeoff=full_release.tradeoff
    )


@pytest.mark.slow
def test_its_parts_in_their_order(text: str) -> None:
    outline = Outline(text)
    assert outline.texts_of("h1") == []
    assert outline.texts_of("h2") == [
        "What is guaranteed",
        "Classes",
        "What was lost",
        "What an attacker still gains",
        "Loss against risk",
        "Released values",
        "How each column is released",
        "How it was made",
    ]
    assert outline.texts_of("caption") == [
        "Classes in which all rows share one sensitive value",
        "Privacy models, as counted on every written class",
        "Number of classes by size",
        "Loss by column, SSE/SST",
        "All measures of loss",
        "Loss and risk by column",
        "All measures of risk",
        "Loss against risk",
        "Rows by born",
        "Rows by height",
        "Rows by income",
        "Rows by illness",
        "Columns of the source and of the release",
    ]
    named = {attributes.get("id") for _, attributes in outline.elements}
    assert {link["href"] for link in outline.of("a")} <= {f"#{name}" for name in named if name}


def test_contents_of_the_page(full_release: Release, text: str) -> None:
    report = full_release.report
    for expected in (
        str(report.release_id),
        str(report.digest),
        report.seed_policy,
        report.earlier_releases,
        "It is not differential privacy.",
        'GROUP BY s."born", s."height"',
        "1/5 = 0.2000",
        "linkage_risk",
        "entropy_l 1.2",
        f"{report.evaluation['risks']['linkage_risk']:.4f}",  # type: ignore[index]
    ):
        assert expected in unescape(text)
    assert "site 1" not in text


def test_nothing_is_loaded_or_run(text: str) -> None:
    outline = Outline(text)
    tags = {tag for tag, _ in outline.elements}
    assert tags.isdisjoint({"script", "link", "img", "iframe", "object", "form", "base"})
    for _, attributes in outline.elements:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert all((attributes.get(name) or "#").startswith("#") for name in ("href", "src"))
    assert "url(" not in text
    assert "@import" not in text
    [style] = re.findall(r"<style>(.*?)</style>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    [policy] = [m["content"] for m in outline.of("meta") if m.get("http-equiv")]
    assert policy is not None
    assert f"style-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")


def test_every_picture_has_words_and_a_table(text: str) -> None:
    outline = Outline(text)
    pictures = [picture for picture in outline.of("svg") if picture.get("role") == "img"]
    ids = [attributes.get("id") for _, attributes in outline.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert len(pictures) == 5  # class sizes, the map, three histograms
    for picture in pictures:
        assert all(name in ids for name in str(picture["aria-labelledby"]).split())
    assert all(
        picture.get("aria-hidden") == "true"
        for picture in outline.of("svg")
        if "role" not in picture
    )
    assert text.count("<details>") == len(pictures) + 1  # and figures by column
    scrolled = [a for _, a in outline.elements if "scroll" in str(a.get("class")).split()]
    assert all(a.get("tabindex") == "0" and a.get("aria-label") for a in scrolled)


def test_planted_values_are_absent(full_release: Release, text: str) -> None:
    """The first row has unique values in each kind of column."""
    visible = " ".join(part for where, part in Outline(text).texts if where != "style")
    visible = visible.replace(str(full_release.report.digest), "").replace(
        full_release.report.release_id, ""
    )
    assert [value for value in PLANTED if re.search(rf"(?<![\d.]){value}(?![\d])", visible)] == []


def test_every_bin_holds_many_rows(full_release: Release) -> None:
    distributions = full_release.look.distributions
    assert [distribution.axis_kind for distribution in distributions] == [
        "date",
        "number",
        "number",
        "label",
    ]
    for distribution in distributions:
        assert distribution.bound == 5
        assert all(
            bar.rows == 0 or (bar.rows >= 5 and bar.rows % 5 == 0) for bar in distribution.bars
        )
        assert sum(bar.rows for bar in distribution.bars) > 300


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_a_picture_that_would_reveal_more_is_refused(full_release: Release, rows: int) -> None:
    for distribution in full_release.look.distributions:
        fake = replace(
            distribution, bars=(*distribution.bars[:-1], replace(distribution.bars[-1], rows=rows))
        )
        with pytest.raises(AssertionError, match="fewer rows"):
            render_page(full_release.report, distributions=[fake])
        if distribution.axis_kind != "label":
            with pytest.raises(AssertionError, match="fewer rows"):
                svg.draw_histogram(fake, 1)
    fake = replace(full_release.look.distributions[0], bound=2, bars=(Bar("all", 2),))
    with pytest.raises(AssertionError, match="fewer rows"):
        svg.draw_histogram(fake, 1)


@pytest.mark.slow
def test_hostile_names() -> None:
    hostile = make_release(HOSTILE)
    text = render_page(hostile.report, inspection=hostile.look, tradeoff=hostile.tradeoff)
    outline = Outline(text)
    tags = {tag for tag, _ in outline.elements}
    assert tags.isdisjoint({"script", "img"})
    isolated = outline.texts_of("bdi")
    for name in HOSTILE:
        assert name in isolated
    assert "49" not in isolated
    # Where text cannot be isolated, direction marks are spelled out.
    for tag in ("title", "desc", "text"):
        assert not any("\u202e" in part for part in outline.texts_of(tag))
    assert "Released values of \\u202egnp.exe\\u2066" in outline.texts_of("title")


def test_a_release_without_evaluation(full_release: Release) -> None:
    text = render_page(
        replace(full_release.report, evaluation_outcome=EvaluationOutcome()),
        inspection=full_release.look,
    )
    headings = Outline(text).texts_of("h2")
    assert "Loss against risk" not in headings
    assert "No further evaluation" in text
    assert "All measures of" not in text
    why = EvaluationOutcome(failed="there was too little memory for it")
    failed = render_page(
        replace(full_release.report, evaluation_outcome=why), inspection=full_release.look
    )
    assert "No further evaluation: there was too little memory for it." in failed


def test_missing_ledger_fields_are_listed(full_release: Release) -> None:
    later = render_page(full_release.look.record.report, inspection=full_release.look)
    assert "Not recorded in the ledger: the seconds of the commit; which columns" in later
    assert "; an evaluation." in later
    assert "Not recorded in the ledger" not in render_page(
        full_release.report, inspection=full_release.look
    )


def test_an_evaluation_in_the_ledger_is_shown(full_release: Release) -> None:
    evaluated = make_release(evaluated=False, evaluate=True)
    assert evaluated.report.evaluation is not None
    recorded = evaluated.look.record.report.evaluation
    assert recorded == json.loads(json.dumps(evaluated.report.evaluation))
    text = render_page(evaluated.look.record.report, inspection=evaluated.look)
    assert "All measures of risk" in text
    assert "; an evaluation." not in text


def test_a_data_frame_has_no_ledger() -> None:
    frame = pd.DataFrame({"age": np.arange(40), "note": "x"})
    _, report = dbanon.anonymize_frame(frame, quasi_identifiers=["age"], k=5)
    text = render_page(report)
    assert "Released values" not in Outline(text).texts_of("h2")
    assert "Count it yourself" not in text
    assert "row-wise k-anonymity" in text


def test_few_suppressed_cells_are_counted_exactly() -> None:
    """The page also has the loss, from which their number follows."""
    frame = pd.DataFrame({"a": [None] * 4 + [7.0] + [1.0] * 10, "b": [0] * 15})
    _, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["a", "b"],
        k=5,
        method="local_suppression",
        nulls="category",
    )
    assert report.suppressed_cells == {"a": 1}
    assert report.information_loss == pytest.approx(1 / frame.size)
    assert "values released as NULL: 1" in render_page(report)


def test_a_release_whose_rows_are_not_k_anonymous() -> None:
    with pytest.warns(RowsNotAnonymous):
        release = make_release(
            evaluated=False, method="individual_ranking", guarantee="per_attribute"
        )
    text = render_page(release.report, inspection=release.look)
    cards = re.findall(r'<div class="card">(.*?)</div>', text, re.S)
    assert cards[0].startswith("<dt>Rows</dt><dd><strong>k = 1</strong><span><bdi>not k-anonymous")
    assert cards[1].startswith("<dt>k of each column</dt>")
    assert release.report.pairs()[0] == ("ROWS", "k = 1, not k-anonymous")
    assert next(iter(release.report.to_dict())) == "k_rows"
    assert "ROWS ARE NOT k-ANONYMOUS" in text
    assert "Rows are not k-anonymous: nothing is guaranteed for combinations of columns." in text
    assert "k limits it to" not in text


def test_classes_that_reveal_a_sensitive_value_are_on_the_first_screen(
    plain_release: Release,
) -> None:
    report = replace_homogeneity(plain_release.report, 7)
    text = render_page(report)
    cards = re.findall(r'<div class="card">(.*?)</div>', text, re.S)
    [card] = [card for card in cards if "homogeneous classes" in card]
    assert "<strong>7</strong><span><bdi>of 40, by &#34;illness&#34;</bdi>" in card
    assert "Classes reveal a sensitive value." in text
    # With a model the figure stays, without a warning.
    models = [dbanon.Model("distinct_l", "illness", 2)]
    calm = render_page(replace_homogeneity(make_release(evaluated=False, models=models).report, 7))
    assert "7 of 40 classes, 35 of 400 rows" in calm
    assert "Classes reveal a sensitive value." not in calm


def replace_homogeneity(report: Report, classes: int) -> Report:
    homogeneity = ClassHomogeneity("illness", classes, 5 * classes, 40, 400)
    return replace(report, counts=replace(report.counts, homogeneity=(homogeneity,)))


def test_persons_cannot_be_counted_in_bins_of_a_release() -> None:
    """No bin shows a value that few persons share, whether or not k counts persons."""
    release = make_release(evaluated=False, entity="site", keep=[], k=2)
    text = render_page(release.report, inspection=release.look)
    assert [distribution.axis_kind for distribution in release.look.distributions] == [
        "",
        "",
        "",
        "",
    ]
    assert text.count("Persons in a bin or value cannot be counted here.") == 4
    assert "k counts persons" in text


def test_small_counts_are_shown_as_a_range(plain_release: Release) -> None:
    release = plain_release
    few = replace(release.report, counts=replace(release.report.counts, rows_in=403, suppressed=3))
    text = render_page(few, inspection=release.look)
    assert "1 to 4 withheld" in text
    assert "400 and the withheld rows" in text


def correlations(release: Release, evaluation: Any, rows: int) -> str:
    few = EvaluationOutcome({**evaluation, "rows": rows})
    return render_page(replace(release.report, evaluation_outcome=few))


@pytest.mark.slow
def test_correlations_of_few_rows_are_withheld(
    full_release: Release, plain_release: Release
) -> None:
    evaluation = full_release.report.evaluation
    row = re.compile(r"<code>correlation_loss</code>.*?>0\.\d\d<.*?</tr>", re.S)
    assert row.search(correlations(plain_release, evaluation, 90))
    few = correlations(plain_release, evaluation, 89)
    assert not row.search(few)
    assert "Left out, as not shown for fewer than 30 rows per column: correlation_loss." in few


# --- figures that must not mislead ----------------------------------------------------------------


def rows_of(text: str) -> dict[str, str]:
    """The row of each measure, as displayed."""
    names = re.findall(r"<code>(\w+)</code>.*?</tr>", text, re.S)
    parts = re.findall(r"<code>\w+</code>(.*?)</tr>", text, re.S)
    return dict(zip(names, parts, strict=True))


@pytest.fixture(scope="module")
def labels() -> Release:
    return make_release(
        evaluated=False, evaluate=True, method="gaa_cp", quasi_identifiers=["height"]
    )


def test_measures_fixed_by_labels_are_omitted(labels: Release) -> None:
    """These used to be bars: full for a risk of 1, empty for a loss of 0 although a third
    was lost.
    """
    assert labels.report.evaluation is not None
    measured = labels.report.evaluation
    assert measured["losses"]["direct_loss"] == 0
    assert measured["risks"]["nearest_linkage_risk"] == measured["risks"]["disclosure_risk"] == 1
    old = {**measured, "notes": {}}  # The format of earlier ledger entries.
    for evaluation in (measured, json.loads(json.dumps(measured)), old):
        rows = rows_of(
            render_page(replace(labels.report, evaluation_outcome=EvaluationOutcome(evaluation)))
        )
        for name, fixed in (
            ("direct_loss", 0),
            ("nearest_linkage_risk", 1),
            ("disclosure_risk", 1),
        ):
            assert "not meant for labels" in rows[name]
            assert f"It is {fixed} by definition" in rows[name]
            assert "<svg" not in rows[name]
        assert "<svg" in rows["linkage_risk"]
        assert "not meant" not in rows["linkage_risk"] + rows["label_loss"]
    assert "not meant for labels" in str(labels.report)


def test_numbers_are_no_labels(full_release: Release) -> None:
    rows = rows_of(render_page(full_release.report, inspection=full_release.look))
    for name in ("direct_loss", "nearest_linkage_risk", "disclosure_risk"):
        assert "not meant" not in rows[name]
        assert "<svg" in rows[name]


def test_measures_that_say_nothing_are_left_out(labels: Release) -> None:
    text = render_page(labels.report, inspection=labels.look)
    assert labels.report.evaluation is not None
    assert labels.report.evaluation["losses"]["sse_loss"] is None
    assert "sse_loss" not in rows_of(text)
    assert ">–<" not in text
    assert "Left out, as no column of numbers is released as numbers: sse_loss, " in text


def test_the_page_dates_its_counts(full_release: Release) -> None:
    then = full_release.report.created_at
    text = render_page(full_release.report, inspection=full_release.look)
    assert f"Counted on {then[:10]} {then[11:16]} UTC on the written rows" in text
    assert "It was not recounted for this page." in text


@pytest.mark.slow
def test_queries_recount_the_reported_figures(plain_release: Release) -> None:
    visible = unescape(render_page(plain_release.report, inspection=plain_release.look))
    assert "Rows that share all quasi-identifiers: k counts these." in visible
    assert f"it returned: smallest class {plain_release.report.smallest_class}," in visible
    strata = make_release(evaluated=False, by=["site"], keep=[])
    visible = unescape(render_page(strata.report, inspection=strata.look))
    assert "within each stratum of site: k counts these." in visible
    [(_, query)] = strata.look.recount_queries
    assert '"site"' in query
    persons = make_release(evaluated=False, entity="site", keep=[], k=2)
    visible = unescape(render_page(persons.report, inspection=persons.look))
    assert 'k counts persons, by "site"' in visible
    assert "only the run could count them" in visible
    with pytest.warns(RowsNotAnonymous):
        per_attribute = make_release(
            evaluated=False, method="individual_ranking", guarantee="per_attribute"
        )
    visible = unescape(render_page(per_attribute.report, inspection=per_attribute.look))
    assert [query.count("GROUP BY") for _, query in per_attribute.look.recount_queries] == [1] * 4
    assert "height by itself: k counts these." in visible
    assert f"for whole rows, smallest class {per_attribute.report.k_rows}." in visible


def test_withheld_nulls_are_reported(full_release: Release) -> None:
    def nulls_text(**changes: Any) -> str:
        report = full_release.report.with_arguments(nulls=changes.pop("nulls"))
        counts = replace(report.counts, **changes)
        text = render_page(replace(report, counts=counts), inspection=full_release.look)
        [description] = re.findall(r"NULL in a quasi-identifier</dt><dd>(.*?)</dd>", text)
        return description

    assert nulls_text(nulls="suppress", suppressed=40) == "withheld, among the rows withheld above"
    assert nulls_text(nulls="error", suppressed=0) == "none: such rows would have been refused"
    rows = replace(full_release.report.counts.rows, null_rows=30)
    assert nulls_text(nulls="category", rows=rows) == "30, each NULL released as a value"


def test_server_paths_are_not_revealed(full_release: Release) -> None:
    exports = [{"path": "/srv/secret/out/people.csv", "format": "csv", "bytes": 12, "sha256": "ab"}]
    text = render_page(
        full_release.report.with_arguments(exports=exports), inspection=full_release.look
    )
    assert "/srv" not in text
    assert "secret" not in text
    assert "people.csv, 12 bytes, SHA-256 ab" in text


def test_recipient_and_purpose(full_release: Release) -> None:
    assert "signature" not in render_page(full_release.report, inspection=full_release.look)
    handed = {"recipient": HOSTILE[0], "purpose": "\u202ea study"}
    outline = Outline(
        render_page(full_release.report, inspection=full_release.look, handover=handed)
    )
    assert {tag for tag, _ in outline.elements}.isdisjoint({"script", "img"})
    assert {HOSTILE[0], "\u202ea study"} <= set(outline.texts_of("bdi"))
    assert outline.texts_of("dt")[-3:] == ["place and date", "name", "signature"]


def test_each_headline_figure_has_a_label(full_release: Release, text: str) -> None:
    cards = re.findall(r'<div class="card">(.*?)</div>', text, re.S)
    assert len(cards) == 6
    assert all(re.search(r'class="means">[^<]{20,}\.</span>', card) for card in cards)
    assert full_release.report.k_achieved >= 5
