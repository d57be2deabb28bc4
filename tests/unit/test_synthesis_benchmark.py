"""How the benchmark of synthetic rows compares them, on small tables; and its picture."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from benchmarks.synthesis_figures import compare, mean_total_variation, table_errors
from benchmarks.synthesis_seven import DELTA, PEERS, PLAIN, plain_rows, summarize
from benchmarks.synthesis_summary import HEADING, PAGE, PICTURE, RESULTS, draw, replace_section
from benchmarks.synthesis_summary import summarize as summarize_results
from benchmarks.synthesis_tables import Table, ledger, stays
from tests.prerequisites import import_or_skip

RNG = np.random.default_rng(0)


def _small(n=2000):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "kind": np.repeat(["a", "b", "rare"], [n // 2 - 10, n // 2, 10]),
            "sold": rng.choice(["no", "yes"], n),
            "day": rng.integers(0, 50, n),
            "amount": 10 ** rng.uniform(0, 4, n),
        }
    )
    bounds = {"day": (0.0, 49.0), "amount": (1.0, 1e4)}
    return Table("small", rows, rows, bounds, "sold", (), ("day",), ("amount",))


def test_real_rows_are_without_error():
    import_or_skip("sklearn")
    figures = compare(_small(), _small().rows)
    errors = ("1", "2", "3", "quantiles", "correlations", "rare error")
    assert {name: figures[name] for name in errors} == dict.fromkeys(errors, 0.0)
    assert figures["rare kept"] == 1


def test_errors_of_rows_that_differ_as_counted_by_hand():
    import_or_skip("sklearn")
    data = _small()
    n = len(data.rows)
    rows = data.rows.assign(
        kind=data.rows["kind"].replace("rare", "b"), amount=data.rows["amount"].to_numpy() * 10
    )
    figures = compare(data, rows)
    assert figures["rare kept"] == 0
    assert figures["rare error"] == 1
    assert figures["correlations"] == pytest.approx(0)
    # All quantiles of the amounts are one decade higher, those of the days are the same.
    logarithms = np.log10(data.rows["amount"])
    assert figures["quantiles"] == pytest.approx(1 / (logarithms.max() - logarithms.min()) / 2)
    edges = [-np.inf, *np.quantile(data.rows["amount"], np.arange(1, 10) / 10), np.inf]
    counts = [np.histogram(frame["amount"], edges)[0] for frame in (data.rows, rows)]
    amount_error = np.abs(counts[0] - counts[1]).sum() / 2 / n
    assert figures["1"] == pytest.approx((amount_error + 10 / n) / 4)
    assert figures["1"] < figures["2"] < figures["3"]


def test_total_variation_by_hand():
    """Two real rows, (0, 0) and (1, 1), and two others, (0, 1) and (1, 0)."""
    codes = [np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0])]
    assert mean_total_variation(codes, 2, 1) == 0
    assert mean_total_variation(codes, 2, 2) == 1


@pytest.mark.parametrize("delta", [None, DELTA])
def test_plain_histograms_are_near_where_epsilon_is_large(delta):
    data = _small()
    rows = plain_rows(data, 1e4, delta, RNG)
    assert table_errors(data, rows)["1"] < 0.02
    assert rows["day"].between(*data.bounds["day"]).all()
    assert (rows["day"] % 1 == 0).all()
    assert table_errors(data, plain_rows(data, 0.05, delta, RNG))["1"] > 0.02


@pytest.mark.parametrize("make", [ledger, stays])
def test_generated_tables_are_the_same_every_time_and_within_their_bounds(make):
    data = make()
    pd.testing.assert_frame_equal(data.rows, make().rows)
    for column, (low, high) in data.bounds.items():
        assert data.rows[column].between(low, high).all()
    assert data.listed[data.target] == ["no", "yes"]
    for column in data.logarithms:
        assert data.domain()[column] == {"lower": 0.0, "upper": 5.0}


def test_the_goal_is_judged_by_the_better_peer():
    ours, other = {"1": 1.0, "2": 2.0, "3": 3.0}, {"1": 2.0, "2": 1.9, "3": 3.0}
    measured = {
        ("dp_marginals, zcdp", 1.0): ours | {"seconds": 1.0},
        ("dp_marginals", 1.0): "refused: noise_too_large",
        (PEERS[0], 1.0): other | {"seconds": 5.0},
        (PEERS[1], 1.0): {"1": 1.0, "2": 2.0, "3": 2.9, "seconds": 100.0},
        **{(plain, 1.0): {"1": 0.5} for plain in PLAIN},
    }
    [row] = summarize("small", measured)
    assert row == ["small", 1.0, "1.00", "1.05", "1.03", "0.2000", "missed", "- / 2.00"]
    measured[PEERS[0], 1.0] = "stopped after 900 s"
    [row] = summarize("small", measured)
    assert row[2:] == ["1.00", "1.00", "1.03", "0.0100", f"met: {PEERS[1]}", "- / 2.00"]
    measured[PEERS[1], 1.0] = "not measured"
    [row] = summarize("small", measured)
    assert row[-2:] == ["no peer", "- / 2.00"]


def test_the_docs_show_the_results():
    results, page = (path.read_text(encoding="utf-8") for path in (RESULTS, PAGE))
    assert replace_section(page, summarize_results(results)) == page
    without = page.partition(HEADING)[0] + "\n## Seconds\n" + page.partition("\n## Seconds\n")[2]
    assert replace_section(without, summarize_results(results)) == page


def test_the_picture_shows_the_results(tmp_path):
    """Other versions of matplotlib may round otherwise, or order what they write."""
    import_or_skip("matplotlib")
    draw(RESULTS.read_text(encoding="utf-8"), tmp_path / "redrawn.svg")
    committed, redrawn = (_read_picture(path) for path in (PICTURE, tmp_path / "redrawn.svg"))
    assert redrawn[0] == committed[0]
    np.testing.assert_allclose(redrawn[1], committed[1], atol=0.1)


def _read_picture(path):
    """The texts of a picture, and the positions of its marks."""
    elements = list(ElementTree.parse(path).iter())
    texts = [element.text for element in elements if element.tag.endswith("}text")]
    marks = [element for element in elements if element.tag.endswith("}use")]
    return texts, [(float(mark.get("x")), float(mark.get("y"))) for mark in marks]
