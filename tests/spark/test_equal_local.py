"""Spark and one machine give bit-identical releases, compared by the key of each row."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dbanon
import dbanon.spark
from dbanon.errors import EntitySpellings, KeptColumnIdentifies
from dbanon.release.attribute_disclosure import RetainedIdentifier
from tests.conftest import CAMPAIGN

N = 12_000


def table(n: int = N, seed: int = 1) -> pd.DataFrame:
    """Several number types, texts, strata, persons, and NULLs in two columns of each kind."""
    rng = np.random.default_rng(seed)
    places = np.array(["Bonn", "Kiel", "Ulm", "Köln", "Jena", "Trier", "Hof"], object)
    holed = rng.normal(50, 9, n)
    holed[rng.random(n) < 0.2] = np.nan
    town = places[rng.integers(0, 7, n)]
    town[rng.random(n) < 0.1] = None
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "x": rng.normal(size=n),
            "y": rng.gamma(2, size=n) * 1e5,
            "z": rng.integers(0, 90, n),
            "few": rng.zipf(2.2, n).clip(max=9),
            "same": np.full(n, 7.25),
            "place": places[rng.integers(0, 7, n)],
            "grade": np.array(["low", "mid", "high"], object)[rng.integers(0, 3, n)],
            "holed": holed,
            "town": town,
            "region": np.array(["n", "s", "w"], object)[rng.choice(3, n, p=[0.7, 0.295, 0.005])],
            "person": rng.integers(0, n // 3, n),
            "day": [
                datetime.date(2020, 1, 1) + datetime.timedelta(int(d))
                for d in rng.integers(0, 900, n)
            ],
            "money": [decimal.Decimal(int(x)).scaleb(-2) for x in rng.integers(0, 10**6, n)],
            "illness": _illness(rng, n),
        }
    )


def _illness(rng, n) -> np.ndarray:
    """Texts, the rarest of which have few rows."""
    names = np.array(["flu", "cold", "gout", "lupus"], object)
    return names[rng.choice(4, n, p=[0.5, 0.3, 0.17, 0.03])]


def hex_floats(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """The rows by key, with floats as their bits."""
    rows = frame.sort_values("id").itertuples(index=False, name=None)
    return [tuple(_text(value) for value in row) for row in rows]


def _text(value) -> str:
    if value is None or value is pd.NaT or (isinstance(value, float) and np.isnan(value)):
        return "NULL"
    return value.hex() if isinstance(value, float) else str(value)


def in_files(spark, frame: pd.DataFrame, folder, files: int = 3):
    """The rows as Spark reads them from Parquet files, in another order."""
    rows = pa.Table.from_pandas(frame.sample(frac=1, random_state=3), preserve_index=False)
    # Spark supports neither Arrow categories nor large strings.
    for number, start in enumerate(range(0, len(rows), -(-len(rows) // files))):
        pq.write_table(rows.slice(start, -(-len(rows) // files)), folder / f"{number}.parquet")
    return spark.read.parquet(str(folder))


def on_spark(spark, rows, **options):
    released, report = dbanon.spark.anonymize(rows, **{"key": ["id"], "keep": ["id"], **options})
    released_rows = released.toArrow().to_pandas(date_as_object=True)
    spark.catalog.clearCache()
    return released_rows, report


def both(spark, frame: pd.DataFrame, folder, **options):
    """The release, after checking that both agree."""
    local, of_local = dbanon.anonymize_frame(frame, keep=["id"], **options)
    spark_rows, report = on_spark(spark, in_files(spark, frame, folder), **options)
    assert list(spark_rows.columns) == list(local.columns)
    assert hex_floats(spark_rows) == hex_floats(local)
    assert report.k_achieved == of_local.k_achieved >= options["k"]
    for name in ("rows_in", "rows_out", "suppressed", "classes", "largest_class", "null_rows"):
        assert getattr(report, name) == getattr(of_local, name)
    assert report.persons == of_local.persons
    assert report.internal.information_loss == pytest.approx(
        of_local.internal.information_loss, rel=1e-9
    )
    assert report.internal.information_loss_before_rounding == pytest.approx(
        of_local.internal.information_loss_before_rounding, rel=1e-9
    )
    for name, column_loss in of_local.internal.column_losses.items():
        assert report.internal.column_losses[name].released == pytest.approx(
            column_loss.released, rel=1e-9
        )
    return spark_rows, report


NUMBERS = {"quasi_identifiers": ["x", "y", "z"], "k": 5, "block_size": 1500}

CASES = {
    "mdav": NUMBERS,
    "pass": NUMBERS | {"refine": "pass"},
    "fast": NUMBERS | {"refine": "fast", "refine_iterations": 300, "block_size": 4000},
    "vmdav": NUMBERS | {"method": "vmdav"},
    "median of dates, decimals": NUMBERS
    | {"quasi_identifiers": ["day", "money", "z"], "recoding": "median"},
    "means of dates, decimals": NUMBERS | {"quasi_identifiers": ["day", "money", "z"]},
    "medoid, range": NUMBERS
    | {"recoding": "medoid", "standardize": "range", "weights": {"x": 2.0}},
    "gaa_cp": {
        "quasi_identifiers": ["x", "z", "place", "day"],
        "k": 5,
        "method": "gaa_cp",
        "block_size": 1500,
        "hierarchies": {
            "place": {
                "tree": {"*": {"N": ["Kiel", "Hof"], "S": ["Bonn", "Ulm", "Köln", "Jena", "Trier"]}}
            }
        },
    },
    "gaa_cp, bounds, pass, built": {
        "quasi_identifiers": ["y", "z", "few"],
        "k": 4,
        "method": "gaa_cp",
        "block_size": 2000,
        "intervals": "bounds",
        "refine": "pass",
        "hierarchies": {"few": {"intervals": [2, 4]}},
    },
    "mixed": {
        "quasi_identifiers": ["x", "place", "z", "grade"],
        "k": 5,
        "recoding": "representative",
        "block_size": 1500,
        "orders": {"grade": ["low", "mid", "high"]},
        "refine": "pass",
    },
    "strata": NUMBERS | {"by": ["region"], "refine": "pass"},
    "patterns of NULL": NUMBERS | {"quasi_identifiers": ["x", "holed", "z"], "nulls": "category"},
    "NULLs of texts": {
        "quasi_identifiers": ["x", "holed", "town"],
        "k": 5,
        "recoding": "representative",
        "nulls": "category",
        "block_size": 1500,
        "refine": "pass",
    },
    "mixed, NULLs": {
        "quasi_identifiers": ["x", "town", "holed", "grade"],
        "k": 5,
        "recoding": "representative",
        "nulls": "category",
        "block_size": 1500,
        "orders": {"grade": ["low", "mid", "high"]},
        "refine": "pass",
    },
    "NULLs withheld": NUMBERS
    | {"quasi_identifiers": ["x", "holed", "z"], "nulls": "suppress", "max_suppression": 0.5},
    "persons": NUMBERS | {"entity": "person", "refine": "pass", "block_size": 500},
    "persons in strata": NUMBERS | {"entity": "person", "by": ["region"], "block_size": 500},
    "ties": NUMBERS | {"quasi_identifiers": ["few", "same", "z"], "refine": "pass"},
}


# Blocks on a worker are computed as on one machine; these differ in nothing else. The last four are
# parts of others: of "ties", of "mixed, NULLs", of persons in test_equal_models.
ONE_MACHINES = {
    "mdav",
    "fast",
    "vmdav",
    "median of dates, decimals",
    "medoid, range",
    "gaa_cp",
    "patterns of NULL",
    "persons in strata",
    "pass",
    "mixed",
    "NULLs of texts",
    "persons",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.campaign] * (n in ONE_MACHINES)) for n in CASES],
)
def test_spark_equals_one_machine_with_the_same_blocks(spark, name, tmp_path):
    # Four blocks, or twelve with persons: in campaigns twice as many.
    both(spark, table(N if CAMPAIGN else N // 2), tmp_path, **CASES[name])


def test_kept_columns_that_look_like_identifiers_by_their_names(spark, tmp_path):
    frame = table(3_000)[["id", "x", "place"]].rename(columns={"place": "full_name"})
    frame["hospital_name"] = frame["full_name"]
    frame["full_name"] += frame["id"].astype(str)
    rows = in_files(spark, frame, tmp_path)
    options = {"quasi_identifiers": ["x"], "k": 5, "keep": ["hospital_name", "full_name"]}
    with pytest.warns(KeptColumnIdentifies, match="full_name"):
        _, report = on_spark(spark, rows, **options)
    assert report.kept_identifiers == (RetainedIdentifier("full_name", "name"),)
    assert report.arguments["kept_identifiers"] == [{"name": "full_name", "reason": "name"}]


def test_spellings_of_one_person(spark, tmp_path):
    spelled = ["P{}", "P{} ", "p{}", "P{}\t", " p{}"]
    frame = pd.DataFrame(
        [
            (5 * p + at, text.format(p), float(p))
            for p in range(600)
            for at, text in enumerate(spelled)
        ],
        columns=["id", "patient", "x"],
    )
    rows = in_files(spark, frame, tmp_path)
    options = {"quasi_identifiers": ["x"], "k": 5, "entity": "patient"}
    with pytest.warns(EntitySpellings, match="about 80% of its values"):
        _, report = on_spark(spark, rows, **options)
    assert report.persons == 3_000
    _, report = on_spark(spark, rows, **options, entity_normalize="casefold")
    assert (report.persons, report.few_persons) == (600, ())
    with pytest.warns(EntitySpellings, match="about 50% of its values"):
        _, report = on_spark(spark, rows, **options, entity_normalize="trim")
    assert report.persons == 1_200
