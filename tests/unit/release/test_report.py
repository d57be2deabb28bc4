"""A report: four groups, and every name of theirs that is public."""

from __future__ import annotations

import json
import re

import pandas as pd

import dbanon
from dbanon.release.report import Report

# In the order of the JSON, which does not change.
NAMES = [
    *("release_id", "created_at", "dbanon_version", "source", "output", "output_kind"),
    *("relation", "method", "arguments", "quasi_identifiers", "sensitive", "kept"),
    *("not_copied", "rows_in", "rows_out", "suppressed", "null_rows", "classes"),
    *("smallest_class", "median_class", "largest_class", "k_requested", "k_achieved"),
    *(
        "homogeneity",
        "information_loss",
        "information_loss_before_rounding",
        "column_losses",
        "guarantee",
    ),
    *("seconds", "seed_policy", "earlier_releases", "verified", "loss_measure", "models"),
    *("entity", "persons", "k_rows", "levels", "telling", "digest", "lost"),
    *("evaluation", "evaluation_failed", "disclosive_columns", "lost_columns"),
]


def example_report() -> Report:
    frame = pd.DataFrame({"age": range(20), "ill": ["a", "b"] * 10})
    _, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age"],
        sensitive=["ill"],
        k=4,
        models=[dbanon.Model("distinct_l", "ill", 2)],
    )
    return report


def test_all_names_are_told_in_their_order() -> None:
    report = example_report()
    plain = report.to_dict()
    assert list(plain) == list(Report.names()) == NAMES
    assert json.loads(json.dumps(plain))["k_achieved"] == report.k_achieved
    assert plain["models"] == ({"model": 'distinct_l 2 of "ill"', "achieved": 2.0},)
    loss = report.column_losses["age"]
    assert plain["column_losses"] == {
        "age": {"before_rounding": loss.before_rounding, "released": loss.released}
    }


def test_names_are_those_of_the_groups() -> None:
    report = example_report()
    assert report.k_achieved == report.counts.verdict.k == 4
    assert report.rows_out == report.counts.rows.rows == 20
    assert report.information_loss == report.loss.released
    assert report.guarantee == report.request.guarantee
    later = report.with_provenance(created_at="later", seconds={"total": 1.0})
    assert (later.created_at, later.seconds) == ("later", {"total": 1.0})
    assert (later.release_id, later.counts) == (report.release_id, report.counts)


def test_a_report_is_readable_where_it_is_printed() -> None:
    report = example_report()
    lines = str(report).splitlines()
    assert lines[0].split() == ["release", report.release_id]
    assert ["k requested / counted", "4 / 4"] in [re.split(" {2,}", line) for line in lines]
    assert not any(line.endswith(" ") for line in lines)
    assert len(lines) == len(report.rows())


def test_a_notebook_shows_a_card_in_which_names_are_text() -> None:
    frame = pd.DataFrame({"<b>age": range(20)})
    _, report = dbanon.anonymize_frame(frame, quasi_identifiers=["<b>age"], k=4)
    card = report._repr_html_()
    assert card.startswith('<div class="dbanon-card">')
    assert "&lt;b&gt;age" in card
    assert "<b>" not in card
    # All that the report says, and no more rows.
    assert card.count("<tr>") == len(report.rows())


def test_what_is_told_is_a_copy() -> None:
    report = example_report()
    report.to_dict()["arguments"]["models"].clear()
    assert len(report.arguments["models"]) == 1
