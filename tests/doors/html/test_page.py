"""The report as a page: what it holds, and what it never does."""

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
from dbanon.doors.html.page import page
from dbanon.errors import RowsNotAnonymous
from dbanon.release.distribution import Bar
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.report import Evaluated, Report
from tests.doors.html.pages import HOSTILE, PLANTED, Made, made

VOID = {"meta", "link", "img", "br", "input", "hr"}
# What is drawn, in SVG, and closes itself.
DRAWN = {"rect", "line", "circle", "polyline", "polygon"}


class Outline(HTMLParser):
    """Elements, attributes and texts; every element that is opened is closed."""

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

    def said(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]


@pytest.fixture(scope="module")
def whole() -> Made:
    return made(
        models=[dbanon.Model("entropy_l", "illness", 1.2)],
        max_suppression=0.2,
        withhold_failing=True,
    )


@pytest.fixture(scope="module")
def text(whole: Made) -> str:
    return page(whole.report, look=whole.look, tradeoff=whole.tradeoff)


@pytest.mark.slow
def test_its_parts_in_their_order(text: str) -> None:
    outline = Outline(text)
    assert outline.said("h1") == []
    assert outline.said("h2") == [
        "What is guaranteed",
        "Classes",
        "What was lost",
        "What an attacker still gains",
        "Loss against risk",
        "Released values",
        "How each column is released",
        "How it was made",
    ]
    assert outline.said("caption") == [
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


def test_what_it_says(whole: Made, text: str) -> None:
    report = whole.report
    for told in (
        str(report.release_id),
        str(report.digest),
        report.seed_policy,
        report.earlier_releases,
        "It is not differential privacy.",
        'GROUP BY "born", "height"',
        "1/5 = 0.2000",
        "linkage_risk",
        "entropy_l 1.2",
        f"{report.evaluation['risks']['linkage_risk']:.4f}",  # type: ignore[index]
    ):
        assert told in unescape(text)
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
    pictures = [one for one in outline.of("svg") if one.get("role") == "img"]
    ids = [attributes.get("id") for _, attributes in outline.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert len(pictures) == 5  # class sizes, the map, three histograms
    for picture in pictures:
        assert all(name in ids for name in str(picture["aria-labelledby"]).split())
    assert all(one.get("aria-hidden") == "true" for one in outline.of("svg") if "role" not in one)
    assert text.count("<details>") == len(pictures) + 1  # and figures by column
    scrolled = [a for _, a in outline.elements if "scroll" in str(a.get("class")).split()]
    assert all(a.get("tabindex") == "0" and a.get("aria-label") for a in scrolled)


def test_planted_values_are_absent(whole: Made, text: str) -> None:
    """The first row has values that no other has, in each kind of column."""
    said = " ".join(told for where, told in Outline(text).texts if where != "style")
    said = said.replace(str(whole.report.digest), "").replace(whole.report.release_id, "")
    assert [value for value in PLANTED if re.search(rf"(?<![\d.]){value}(?![\d])", said)] == []


def test_every_bin_holds_many_rows(whole: Made) -> None:
    drawn = whole.look.distributions
    assert [one.unit for one in drawn] == ["date", "number", "number", "label"]
    for one in drawn:
        assert one.bound == 5
        assert all(bar.rows == 0 or (bar.rows >= 5 and bar.rows % 5 == 0) for bar in one.bars)
        assert sum(bar.rows for bar in one.bars) > 300


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_a_picture_that_would_tell_more_is_not_drawn(whole: Made, rows: int) -> None:
    for one in whole.look.distributions:
        fake = replace(one, bars=(*one.bars[:-1], replace(one.bars[-1], rows=rows)))
        with pytest.raises(AssertionError, match="fewer rows"):
            page(whole.report, distributions=[fake])
        if one.unit != "label":
            with pytest.raises(AssertionError, match="fewer rows"):
                svg.histogram(fake, 1)
    fake = replace(whole.look.distributions[0], bound=2, bars=(Bar("all", 2),))
    with pytest.raises(AssertionError, match="fewer rows"):
        svg.histogram(fake, 1)


@pytest.mark.slow
def test_hostile_names() -> None:
    found = made(HOSTILE)
    text = page(found.report, look=found.look, tradeoff=found.tradeoff)
    outline = Outline(text)
    tags = {tag for tag, _ in outline.elements}
    assert tags.isdisjoint({"script", "img"})
    isolated = outline.said("bdi")
    for name in HOSTILE:
        assert name in isolated
    assert "49" not in isolated
    # Where nothing can be isolated, marks of direction are written out.
    for tag in ("title", "desc", "text"):
        assert not any("\u202e" in told for told in outline.said(tag))
    assert "Released values of \\u202egnp.exe\\u2066" in outline.said("title")


def test_a_release_without_evaluation(whole: Made) -> None:
    text = page(replace(whole.report, evaluated=Evaluated()), look=whole.look)
    said = Outline(text).said("h2")
    assert "Loss against risk" not in said
    assert "It was not evaluated further" in text
    assert "All measures of" not in text
    why = Evaluated(failed="there was too little memory for it")
    failed = page(replace(whole.report, evaluated=why), look=whole.look)
    assert "It was not evaluated further: there was too little memory for it." in failed


def test_what_the_ledger_does_not_hold_is_named(whole: Made) -> None:
    later = page(whole.look.recorded.report, look=whole.look)
    assert "which does not have: the seconds of the commit; which columns" in later
    assert "; an evaluation." in later
    assert "which does not have" not in page(whole.report, look=whole.look)


def test_an_evaluation_that_the_ledger_holds_is_told(whole: Made) -> None:
    found = made(evaluated=False, evaluate=True)
    assert found.report.evaluation is not None
    told = found.look.recorded.report.evaluation
    assert told == json.loads(json.dumps(found.report.evaluation))
    text = page(found.look.recorded.report, look=found.look)
    assert "All measures of risk" in text
    assert "; an evaluation." not in text


def test_a_data_frame_has_no_ledger() -> None:
    frame = pd.DataFrame({"age": np.arange(40), "note": "x"})
    _, report = dbanon.anonymize_frame(frame, quasi_identifiers=["age"], k=5)
    text = page(report)
    assert "Released values" not in Outline(text).said("h2")
    assert "Count it yourself" not in text
    assert "row-wise k-anonymity" in text


def test_a_release_whose_rows_are_not_k_anonymous() -> None:
    with pytest.warns(RowsNotAnonymous):
        found = made(evaluated=False, method="individual_ranking", guarantee="per_attribute")
    text = page(found.report, look=found.look)
    cards = re.findall(r'<div class="card">(.*?)</div>', text, re.S)
    assert cards[0].startswith("<dt>Rows</dt><dd><strong>k = 1</strong><span><bdi>not k-anonymous")
    assert cards[1].startswith("<dt>k of each column</dt>")
    assert found.report.pairs()[0] == ("ROWS", "k = 1, not k-anonymous")
    assert next(iter(found.report.to_dict())) == "k_rows"
    assert "ROWS ARE NOT k-ANONYMOUS" in text
    assert "Rows are not k-anonymous: nothing holds of several columns together." in text
    assert "never above" not in text


def test_classes_that_reveal_a_sensitive_value_are_on_the_first_screen() -> None:
    report = replace_homogeneity(made(evaluated=False).report, 7)
    text = page(report)
    cards = re.findall(r'<div class="card">(.*?)</div>', text, re.S)
    [card] = [card for card in cards if "homogeneous classes" in card]
    assert "<strong>7</strong><span><bdi>of 40, by &#34;illness&#34;</bdi>" in card
    assert "Classes reveal a sensitive value." in text
    # With a model the figure stays, and nobody is warned.
    models = [dbanon.Model("distinct_l", "illness", 2)]
    calm = page(replace_homogeneity(made(evaluated=False, models=models).report, 7))
    assert "7 of 40 classes, 35 of 400 rows" in calm
    assert "Classes reveal a sensitive value." not in calm


def replace_homogeneity(report: Report, classes: int) -> Report:
    found = ClassHomogeneity("illness", classes, 5 * classes, 40, 400)
    return replace(report, counts=replace(report.counts, homogeneity=(found,)))


def test_persons_cannot_be_counted_in_bins_of_a_release() -> None:
    """A value that few persons share is told by none, k of persons or not."""
    found = made(evaluated=False, entity="site", keep=[], k=2)
    text = page(found.report, look=found.look)
    assert [one.unit for one in found.look.distributions] == ["", "", "", ""]
    assert text.count("Persons in a bin or value cannot be counted here.") == 4
    assert "k counts persons" in text


def test_few_rows_are_told_as_a_range() -> None:
    found = made(evaluated=False)
    few = replace(found.report, counts=replace(found.report.counts, rows_in=403, suppressed=3))
    text = page(few, look=found.look)
    assert "1 to 4 withheld" in text
    assert "400 and the withheld" in text


def correlations(evaluation: Any, rows: int) -> str:
    few = Evaluated({**evaluation, "rows": rows})
    return page(replace(made(evaluated=False).report, evaluated=few))


@pytest.mark.slow
def test_correlations_of_few_rows_are_not_told(whole: Made) -> None:
    evaluation = whole.report.evaluation
    row = re.compile(r"<code>correlation_loss</code>.*?>0\.\d\d<.*?</tr>", re.S)
    assert row.search(correlations(evaluation, 90))
    few = correlations(evaluation, 89)
    assert not row.search(few)
    assert "Left out, as not shown for fewer than 30 rows per column: correlation_loss." in few


# --- figures that cannot mislead -----------------------------------------------------------------


def rows_of(text: str) -> dict[str, str]:
    """The row of each measure, as it is written."""
    found = re.findall(r"<code>(\w+)</code>.*?</tr>", text, re.S)
    parts = re.findall(r"<code>\w+</code>(.*?)</tr>", text, re.S)
    return dict(zip(found, parts, strict=True))


@pytest.fixture(scope="module")
def labels() -> Made:
    return made(evaluated=False, evaluate=True, method="gaa_cp", quasi_identifiers=["height"])


def test_what_labels_make_0_or_1_is_no_figure(labels: Made) -> None:
    """They were bars: risks of 1 in full, and a loss of 0 beside a third that is lost."""
    assert labels.report.evaluation is not None
    found = labels.report.evaluation
    assert found["losses"]["direct_loss"] == 0
    assert found["risks"]["nearest_linkage_risk"] == found["risks"]["disclosure_risk"] == 1
    old = {**found, "notes": {}}  # As releases were recorded until now.
    for evaluation in (found, json.loads(json.dumps(found)), old):
        rows = rows_of(page(replace(labels.report, evaluated=Evaluated(evaluation))))
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


def test_numbers_are_no_labels(whole: Made) -> None:
    rows = rows_of(page(whole.report, look=whole.look))
    for name in ("direct_loss", "nearest_linkage_risk", "disclosure_risk"):
        assert "not meant" not in rows[name]
        assert "<svg" in rows[name]


def test_measures_that_say_nothing_are_left_out(labels: Made) -> None:
    text = page(labels.report, look=labels.look)
    assert labels.report.evaluation is not None
    assert labels.report.evaluation["losses"]["sse_loss"] is None
    assert "sse_loss" not in rows_of(text)
    assert ">–<" not in text
    assert "Left out, as no column of numbers is released as numbers: sse_loss, " in text


def test_it_says_when_it_was_counted(whole: Made) -> None:
    then = whole.report.created_at
    text = page(whole.report, look=whole.look)
    assert f"Counted on {then[:10]} {then[11:16]} UTC on what was written" in text
    assert "It was not recounted for this page." in text


@pytest.mark.slow
def test_what_can_be_counted_again_is_what_was_counted() -> None:
    told = unescape(page((one := made(evaluated=False)).report, look=one.look))
    assert "Rows that share all quasi-identifiers: k counts these." in told
    assert f"it gave: smallest class {one.report.smallest_class}," in told
    strata = made(evaluated=False, by=["site"], keep=[])
    told = unescape(page(strata.report, look=strata.look))
    assert "within each stratum of site: k counts these." in told
    [(_, query)] = strata.look.counting
    assert '"site"' in query
    persons = made(evaluated=False, entity="site", keep=[], k=2)
    told = unescape(page(persons.report, look=persons.look))
    assert 'k counts persons, by "site"' in told
    assert "only the run could count them" in told
    with pytest.warns(RowsNotAnonymous):
        alone = made(evaluated=False, method="individual_ranking", guarantee="per_attribute")
    told = unescape(page(alone.report, look=alone.look))
    assert [query.count("GROUP BY") for _, query in alone.look.counting] == [1] * 4
    assert "height by itself: k counts these." in told
    assert f"of whole rows the smallest class {alone.report.k_rows}." in told


def test_nulls_that_were_withheld_are_not_none(whole: Made) -> None:
    def told(**changes: Any) -> str:
        report = whole.report.with_arguments(nulls=changes.pop("nulls"))
        counts = replace(report.counts, **changes)
        text = page(replace(report, counts=counts), look=whole.look)
        [found] = re.findall(r"NULL in a quasi-identifier</dt><dd>(.*?)</dd>", text)
        return found

    assert told(nulls="suppress", suppressed=40) == "withheld, among the rows withheld above"
    assert told(nulls="error", suppressed=0) == "none: they would have been refused"
    rows = replace(whole.report.counts.rows, null_rows=30)
    assert told(nulls="category", rows=rows) == "30, each NULL released as a value"


def test_paths_of_the_server_are_not_told(whole: Made) -> None:
    exports = [{"path": "/srv/secret/out/people.csv", "format": "csv", "bytes": 12, "sha256": "ab"}]
    text = page(whole.report.with_arguments(exports=exports), look=whole.look)
    assert "/srv" not in text
    assert "secret" not in text
    assert "people.csv, 12 bytes, SHA-256 ab" in text


def test_who_gets_it_and_what_for(whole: Made) -> None:
    assert "signature" not in page(whole.report, look=whole.look)
    handed = {"recipient": HOSTILE[0], "purpose": "\u202ea study"}
    outline = Outline(page(whole.report, look=whole.look, handed=handed))
    assert {tag for tag, _ in outline.elements}.isdisjoint({"script", "img"})
    assert {HOSTILE[0], "\u202ea study"} <= set(outline.said("bdi"))
    assert outline.said("dt")[-3:] == ["place and date", "name", "signature"]


def test_each_figure_on_top_says_what_it_is(whole: Made, text: str) -> None:
    cards = re.findall(r'<div class="card">(.*?)</div>', text, re.S)
    assert len(cards) == 6
    assert all(re.search(r'class="means">[^<]{20,}\.</span>', card) for card in cards)
    assert whole.report.k_achieved >= 5
