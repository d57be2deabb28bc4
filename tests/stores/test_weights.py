"""The design weight on every database: the mean of each class, with the sum of the originals."""

from __future__ import annotations

import json
import re
from collections import Counter
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    InvalidParameter,
    KeptColumnTells,
    NonFiniteValue,
    RecountFailed,
    UnsupportedType,
)
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.run.weights import find_weight_problem
from dbanon.stores.sql_target import SqlTarget
from tests.prerequisites import skip_case
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.job_lines import call, job, write
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES

QI = ["age", "height"]
N = 120


def rows(kind: str = "double") -> list[tuple[Any, ...]]:
    """Persons with their design weights: nearly every row has one of its own."""
    draw = np.random.default_rng(7)
    ages = draw.integers(18, 90, N).tolist()
    heights = draw.integers(150, 200, N).tolist()
    weights = np.round(draw.lognormal(5, 0.6, N), 2)
    if kind == "integer":
        weights = np.ceil(weights).astype(np.int64)
    regions = ["north" if i % 3 else "south" for i in range(N)]
    return list(zip(range(N), ages, heights, regions, weights.tolist(), strict=True))


def load(database: Database, kind: str = "double") -> pd.DataFrame:
    types = database.types
    columns = {
        "id": "integer PRIMARY KEY",
        "age": types["integer"],
        "height": types["integer"],
        "region": types["text"],
        "w": types[kind],
    }
    database.load("people", columns, rows(kind))
    return pd.DataFrame(rows(kind), columns=list(columns))


def released(database: Database, output: str = "release.people") -> list[tuple[Any, ...]]:
    values = database.rows(f"SELECT age, height, w FROM {database.relation(output)}")
    return sorted((str(age), str(height), float(weight)) for age, height, weight in values)


def of_frame(frame: pd.DataFrame, **options: Any) -> list[tuple[Any, ...]]:
    arguments: dict[str, Any] = {"quasi_identifiers": QI, "k": 3, "design_weight": "w", **options}
    released_frame, _ = dbanon.anonymize_frame(frame, **arguments)
    values = released_frame[["age", "height", "w"]].itertuples(index=False, name=None)
    return sorted((str(age), str(height), float(weight)) for age, height, weight in values)


def assert_safe(released_rows: list[tuple[Any, ...]], total: float, k: int = 3) -> None:
    """Rows that are released alike have one weight, k rows share each, and the sum is kept."""
    weights: dict[tuple[Any, ...], set[float]] = {}
    for *labels, weight in released_rows:
        weights.setdefault(tuple(labels), set()).add(weight)
    assert all(len(of_class) == 1 for of_class in weights.values())
    assert min(Counter(weight for *_, weight in released_rows).values()) >= k
    assert fsum(weight for *_, weight in released_rows) == pytest.approx(total, rel=1e-12)


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("kind", ["double", "decimal", "integer"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "gaa_cp"},
        {"method": "local_suppression", "recode": {"age": [40, 65], "height": [170, 180]}},
        {"by": ["region"], "recoding": "median"},
        {"entity": "id", "recoding": "representative", "evaluate": True},
    ],
    ids=["mean", "ranges", "cells", "strata", "persons"],
)
def test_the_same_as_of_a_data_frame(
    database: Database, options: dict[str, Any], kind: str
) -> None:
    frame = load(database, kind)
    report = database.anonymize(quasi_identifiers=QI, design_weight="w", **options)
    assert released(database) == of_frame(frame, **options)
    if "by" not in options:
        assert_safe(released(database), fsum(frame["w"]))
    record = report.arguments["design_weight"]
    assert (record["column"], record["as"]) == ("w", "mean")
    assert record["sum"] == pytest.approx(fsum(frame["w"]), rel=1e-12)
    assert "w: mean of each class" in str(report)
    verification = dbanon.verify(database.url, "release.people")
    assert verification.unchanged


def assert_rounded(released_rows: list[tuple[Any, ...]], total: float) -> None:
    """Each combination has one whole number, k rows share each, and the sum is near the total."""
    sizes = Counter((age, height) for age, height, _ in released_rows)
    assert len({*released_rows}) == len(sizes)
    assert all(weight >= 1 and weight == int(weight) for *_, weight in released_rows)
    assert min(Counter(weight for *_, weight in released_rows).values()) >= 3
    difference = sum(weight for *_, weight in released_rows) - round(total)
    assert abs(difference) <= max(sizes.values()) / 2


@pytest.mark.parametrize("kind", ["double", "decimal", "integer"])
@pytest.mark.parametrize("method", ["mdav", "gaa_cp"])
def test_rounded_weights(database: Database, make_database: Any, kind: str, method: str) -> None:
    frame = load(database, kind)
    more: dict[str, Any] = {"weight_as": "rounded", "method": method}
    report = database.anonymize(quasi_identifiers=QI, design_weight="w", **more)
    assert released(database) == of_frame(frame, **more)
    assert_rounded(released(database), fsum(frame["w"]))
    means = of_frame(frame, method=method)
    pairs = zip(released(database), means, strict=True)
    assert all(abs(rounded - mean) < 1 for (*_, rounded), (*_, mean) in pairs)
    record = report.arguments["design_weight"]
    assert (record["column"], record["as"]) == ("w", "rounded")
    assert record["sum"] == sum(weight for *_, weight in released(database))
    assert "w: mean of each class as a whole number" in str(report)
    assert dbanon.verify(database.url, "release.people").unchanged
    table = database.relation("release.people")
    [(largest,)] = database.rows(f"SELECT max(w) FROM {table}")
    assert isinstance(largest, int)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    database.anonymize(
        quasi_identifiers=QI, design_weight="w", target=other.url, releases="independent", **more
    )
    assert released(other) == released(database)


def test_rounded_weights_of_strata(database: Database) -> None:
    frame = load(database)
    more: dict[str, Any] = {"weight_as": "rounded", "by": ["region"]}
    database.anonymize(quasi_identifiers=QI, design_weight="w", **more)
    assert released(database) == of_frame(frame, **more)
    for region, weights in frame.groupby("region")["w"]:
        assert_rounded(
            [
                (str(age), str(height), float(weight))
                for age, height, weight in database.rows(
                    f"SELECT age, height, w FROM {database.relation('release.people')}"
                    f" WHERE region = '{region}'"
                )
            ],
            fsum(weights),
        )


def test_the_recount_refuses_fractions(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    load(database)
    monkeypatch.setattr(
        "dbanon.release.weights.round_weights", lambda microdata, release, weight: weight
    )
    options: dict[str, Any] = {"quasi_identifiers": QI, "design_weight": "w"}
    refuse(database, RecountFailed, "not all are whole", weight_as="rounded", **options)


@pytest.mark.parametrize(
    ("weights", "is_whole"), [((2, 3), True), ((0, 5), False), ((2, 2.5), False)]
)
def test_whole_numbers_are_counted(weights: tuple[float, ...], is_whole: bool) -> None:
    problem = find_weight_problem(
        {str(weight): 3 for weight in weights},
        ClassHomogeneity("w", 2, 6, 2, 6),
        k=3,
        rows=6,
        expected_sum=3.0 * sum(weights),
        are_whole=True,
    )
    assert problem == (None if is_whole else "not all are whole numbers above 0")


def test_whole_means_are_not_rounded_up() -> None:
    """The class of ten rows cannot take the five that are missing, and no other one may."""
    table = [(20, 1.5)] * 10 + [(40, 2.0)] * 3 + [(60, 2.0)] * 3
    released_frame, _ = dbanon.anonymize_frame(
        pd.DataFrame(table, columns=["age", "w"]),
        quasi_identifiers=["age"],
        k=3,
        design_weight="w",
        weight_as="rounded",
    )
    counts = Counter(released_frame.itertuples(index=False, name=None))
    assert counts == {(20, 1): 10, (40, 2): 3, (60, 2): 3}


def test_small_weights_are_not_rounded(database: Database) -> None:
    """A row of weight 0 would not count."""
    load(database)
    database.execute(f"UPDATE {database.relation('people')} SET w = 0.5")
    refuse(database, InvalidParameter, "cannot be rounded", design_weight="w", weight_as="rounded")


def test_weighted_means_keep_the_weighted_total(database: Database) -> None:
    frame = load(database).astype({"age": float})
    database.execute(
        f"CREATE TABLE {database.relation('exact')} AS SELECT id, CAST(age AS"
        f" {database.types['double']}) AS age, w FROM {database.relation('people')}"
    )
    key: dict[str, Any] = {"key": ["id"]}
    database.anonymize(table="exact", quasi_identifiers=["age"], k=6, design_weight="w", **key)
    total = database.rows(f"SELECT sum(age * w) FROM {database.relation('release.people')}")[0][0]
    assert float(total) == pytest.approx(float(frame["age"] @ frame["w"]), rel=1e-12)


def test_strata_keep_their_sums(database: Database) -> None:
    frame = load(database)
    database.anonymize(quasi_identifiers=QI, design_weight="w", by=["region"])
    sums = database.rows(
        f"SELECT region, sum(w) FROM {database.relation('release.people')} GROUP BY region"
    )
    expected = frame.groupby("region")["w"].sum()
    assert {region: float(total) for region, total in sums} == pytest.approx(dict(expected))


def test_withheld_rows_leave_their_weight_to_others(database: Database) -> None:
    frame = load(database)
    # Two rows have a value that no third one shares, so that both are withheld.
    database.execute(f"UPDATE {database.relation('people')} SET height = 100 WHERE id < 2")
    report = database.anonymize(
        quasi_identifiers=QI,
        design_weight="w",
        method="full_domain",
        options={"suppression": 0.05},
        recoding="generalization",
        max_suppression=0.05,
        hierarchies={"age": {"intervals": [100]}, "height": {"intervals": [20]}},
    )
    assert report.suppressed > 0
    assert_safe(released(database), fsum(frame["w"]))


def test_copied_weights_are_asked_for_by_name(database: Database) -> None:
    frame = load(database)
    with pytest.warns(KeptColumnTells, match='"w"'):
        report = database.anonymize(quasi_identifiers=QI, design_weight="w", weight_as="copied")
    assert report.arguments["design_weight"] == {"column": "w", "as": "copied"}
    assert report.kept == ("w",)
    assert "COPIED as it is" in str(report)
    weights = sorted(weight for *_, weight in released(database))
    assert weights == pytest.approx(sorted(frame["w"]))
    dbanon.verify(database.url, "release.people")
    # A nearly unique weight identifies rows.
    with pytest.raises(dbanon.errors.TellingColumnRefused):
        database.anonymize(
            quasi_identifiers=QI,
            design_weight="w",
            weight_as="copied",
            output="release.strict",
            releases="independent",
            strict=True,
        )


def test_the_recount_refuses_other_weights(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database)
    count_values = SqlTarget.count_values

    def count_another(self: SqlTarget, staged_release: Any, name: str) -> Any:
        counts: dict[Any, int] = dict(count_values(self, staged_release, name))
        first, *_ = counts
        rows = counts.pop(first)
        return {**counts, float(first) * 2: rows}

    monkeypatch.setattr(SqlTarget, "count_values", count_another)
    options: dict[str, Any] = {"quasi_identifiers": QI, "design_weight": "w"}
    refuse(database, RecountFailed, "their sum is not the one that was computed", **options)


def test_verify_recounts_weights(database: Database) -> None:
    load(database)
    database.anonymize(quasi_identifiers=QI, design_weight="w")
    table = database.relation("release.people")
    [(weight,)] = database.rows(f"SELECT max(w) FROM {table}")
    # Lower the weight of a class, whose rows stay alike.
    database.execute(f"UPDATE {table} SET w = w - 1 WHERE w > {float(weight) - 1e-6!r}")
    with pytest.raises(RecountFailed, match="their sum is not the one that was computed"):
        dbanon.verify(database.url, "release.people")


@pytest.mark.parametrize("weights", [("a", "2"), ("inf", "-inf"), ("5e307", "5.1e307")])
def test_weights_that_cannot_be_added_up(weights: tuple[str, str]) -> None:
    counts = dict.fromkeys(weights, 3)
    homogeneity = ClassHomogeneity("w", 2, 6, 2, 6)
    problem = find_weight_problem(counts, homogeneity, k=3, rows=6, expected_sum=9.0)
    assert problem == "they cannot be added up"


@pytest.mark.parametrize(
    ("value", "message"), [("NULL", "in 1 of 120 rows"), ("0", "in 1 of"), ("-2.5", "in 1 of")]
)
def test_weights_that_are_none(database: Database, value: str, message: str) -> None:
    load(database)
    database.execute(f"UPDATE {database.relation('people')} SET w = {value} WHERE id = 5")
    error = refuse(database, InvalidParameter, message, design_weight="w")
    assert "2.5" not in str(error)


def test_weights_that_are_not_finite(database: Database) -> None:
    if database.name == "mariadb":
        skip_case("MariaDB has no infinite numbers")
    load(database)
    infinity = "9e999" if database.name == "sqlite" else "'infinity'"
    database.execute(f"UPDATE {database.relation('people')} SET w = {infinity} WHERE id = 5")
    refuse(database, NonFiniteValue, '"w"', design_weight="w")


def test_other_refusals(database: Database, tmp_path: Path) -> None:
    load(database)
    refuse(database, UnsupportedType, "cannot be the number of persons", design_weight="region")
    for role in ("quasi_identifiers", "sensitive", "keep", "by"):
        columns = [*QI, "w"] if role == "quasi_identifiers" else ["w"]
        refuse(database, InvalidParameter, "more than once", **{role: columns}, design_weight="w")
    refuse(database, InvalidParameter, "cannot be released", entity="w", design_weight="w")
    refuse(database, InvalidParameter, "no column is the design weight", weight_as="copied")
    refuse(database, InvalidParameter, "weight_as", weight_as="calibrated", design_weight="w")
    refuse(
        database,
        InvalidParameter,
        "would belong to few rows",
        method="individual_ranking",
        guarantee="per_attribute",
        design_weight="w",
    )
    refuse(
        database,
        InvalidParameter,
        "cannot use a design weight",
        spill=str(tmp_path),
        block_size=50,
        design_weight="w",
    )
    refuse(
        database,
        InvalidParameter,
        "design weights would change",
        chain=dbanon.Chain("survey", key=f"file:{tmp_path / 'key'}"),
        entity="id",
        design_weight="w",
    )


def test_to_another_database(database: Database, make_database: Any) -> None:
    frame = load(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    database.anonymize(quasi_identifiers=QI, target=other.url, design_weight="w")
    assert released(other) == of_frame(frame)
    assert dbanon.verify(other.url, "release.people").unchanged


def test_a_job_file_its_plan_and_its_refresh(database: Database, tmp_path: Path) -> None:
    frame = load(database)
    columns: dict[str, Any] = {name: {"role": "quasi_identifier"} for name in QI}
    columns |= {"w": {"role": "weight"}, "id": {"role": "identifier"}}
    columns |= {"region": {"role": "drop"}}
    job = {
        "name": "survey",
        "table": "people",
        "columns": columns,
        "k": 3,
        "output": {"table": "release.people"},
    }
    path = tmp_path / "job.yaml"
    path.write_text(
        json.dumps({"version": 1, "source": {"url": database.url}, "jobs": [job]}), encoding="utf-8"
    )
    for command in ("check", "plan", "run"):
        result = CliRunner().invoke(main, [command, str(path), "--allow-inline-password"])
        assert result.exit_code == 0, result.output
        if command == "plan":
            assert "mean of each class" in result.output.replace("\n", " ")
    assert released(database) == of_frame(frame)
    # A release is made again from the ledger's entry.
    dbanon.refresh(database.url, "release.people")
    assert released(database) == of_frame(frame)


def test_rules_and_the_command_line(database: Database) -> None:
    frame = load(database)
    rules: dict[str, Any] = {"age": "quasi_identifier", "height": "quasi_identifier"}
    rules |= {"w": "weight", "id": "identifier", "region": "drop"}
    dbanon.declare(database.url, "people", rules)
    database.anonymize(declared=True)
    assert released(database) == of_frame(frame)
    command = ["anonymize", database.url, "--table", "people", "--output", "release.second"]
    command += ["-q", "age", "-q", "height", "--k", "3", "--design-weight", "w"]
    result = CliRunner().invoke(main, [*command, "--releases", "independent"])
    assert result.exit_code == 0, result.output
    assert released(database, "release.second") == of_frame(frame)
    with pytest.raises(InvalidParameter, match="More than one column has the role weight"):
        dbanon.declare(database.url, "people", {"region": "weight"})


def test_advice_and_init_propose_the_role(database: Database) -> None:
    frame = load(database)
    people = database.relation("people")
    database.execute(f"ALTER TABLE {people} RENAME COLUMN w TO sampling_weight")
    options: dict[str, Any] = {"quasi_identifiers": QI, "k": [3, 4], "methods": ["mdav"]}
    advice = dbanon.advise(database.url, table="people", key=["id"], **options)
    assert advice.design_weight == advice.start["design_weight"] == "sampling_weight"
    assert advice.rules["sampling_weight"] == "weight"
    [text] = [text for label, text in advice.recommended() if label == "design weight"]
    assert "a copy would identify them" in text
    dbanon.anonymize(database.url, **{**advice.start, "output": "release.people"})
    [(total,)] = database.rows(
        f"SELECT sum(sampling_weight) FROM {database.relation('release.people')}"
    )
    assert float(total) == pytest.approx(fsum(frame["w"]))
    of_frame_advice = dbanon.advise(frame.rename(columns={"w": "sampling_weight"}), **options)
    assert of_frame_advice.start["design_weight"] == "sampling_weight"
    result = CliRunner().invoke(main, ["init", database.url, "--table", "people"])
    assert result.exit_code == 0, result.output
    [line] = [line for line in result.stdout.splitlines() if "sampling_weight:" in line]
    # Releases of a chain, which a database with chains is proposed, have no design weight.
    expected = "role: drop" if re.search("^    chain:", result.stdout, re.M) else "role: weight"
    assert expected in line, result.stdout
    assert ("    risk: {file:" in result.stdout) == ("weight" in expected)


def losses_of(advice: Any) -> list[tuple[str, int, float, float]]:
    return [(point.curve, point.k, point.loss, point.risk) for point in advice.sweep.points]


def test_advice_says_what_would_be_reidentified_by_the_weight(database: Database) -> None:
    frame = load(database)
    people = database.relation("people")
    database.execute(
        f"ALTER TABLE {people} RENAME COLUMN w TO wgt",
        # 100 of 120 rows are unique in these columns.
        f"UPDATE {people} SET age = CASE WHEN id < 20 THEN id / 5 ELSE id END, height = 1",
    )
    options: dict[str, Any] = {"quasi_identifiers": QI, "k": [3, 4], "methods": ["mdav"]}
    for weights in ("2 + id % 2", "5 + 20 * (id % 3)", "id % 2", "1 - id % 3"):
        database.execute(f"UPDATE {people} SET wgt = {weights}")
        advice = dbanon.advise(database.url, table="people", key=["id"], **options)
        rows_read = database.rows(f"SELECT id, age, height, region, wgt FROM {people} ORDER BY id")
        frame = pd.DataFrame(rows_read, columns=["id", *QI, "region", "wgt"])
        frame["wgt"] = frame["wgt"].astype(float)
        is_weight = weights.startswith(("2", "5"))
        expected = dbanon.disclosure_risk(
            frame, quasi_identifiers=QI, weight="wgt" if is_weight else None
        ).total.expected_reidentifications
        assert advice.risk is not None
        assert advice.risk.expected == pytest.approx(expected)
        assert advice.risk.design_weight == ("wgt" if is_weight else None)
        assert advice.design_weight == advice.start.get("design_weight")
        assert advice.design_weight == advice.risk.design_weight
        frame_advice = dbanon.advise(frame.drop(columns="id"), **options)
        assert frame_advice.risk == advice.risk
        assert frame_advice.design_weight == advice.design_weight
        # Trial releases are those without weights.
        unweighted_advice = dbanon.advise(frame.drop(columns=["id", "wgt"]), **options)
        assert losses_of(frame_advice) == losses_of(unweighted_advice)
        document = advice.to_dict()["risk"]
        assert document["text"] == dict(advice.recommended())["risk of the table"]
        assert "not for publication" in document["text"]


def test_the_role_in_a_file_of_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(rows(), columns=["id", "age", "height", "region", "wgt"])
    frame.drop(columns="id").to_csv("survey.csv", index=False)
    proposed = CliRunner().invoke(main, ["init", "file:survey.csv", "--table", "survey"])
    assert "role: weight}" in proposed.stdout
    assert "a copy would identify them" in proposed.stdout
    Path("job.yaml").write_text(proposed.stdout, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "job.yaml"])
    assert done.exit_code == 0, done.output
    # The figures are in a file of the owner, and nowhere else.
    [file] = Path("private").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "expected re-identifications" in file.read_text(encoding="utf-8")
    assert "re-identifications" not in done.output


@pytest.mark.parametrize("form", ["mean", "rounded"])
def test_an_exported_file_is_counted_again(database: Database, tmp_path: Path, form: str) -> None:
    frame = load(database)
    path = tmp_path / "people.parquet"
    database.anonymize(quasi_identifiers=QI, design_weight="w", weight_as=form, exports=[path])
    assert dbanon.verify_file(path).rows == N
    table = parquet.read_table(path)
    tolerance = 1e-12 if form == "mean" else 1e-3
    assert fsum(table["w"].to_pylist()) == pytest.approx(fsum(frame["w"]), rel=tolerance)
    half = pa.array([type(weight)(weight / 2) for weight in table["w"].to_pylist()])
    changed = table.set_column(table.schema.get_field_index("w"), table.schema.field("w"), half)
    parquet.write_table(changed, path)
    with pytest.raises(RecountFailed, match="their sum is not the one that was computed"):
        dbanon.verify_file(path)


# Values of a number column that are no weights, and that only these databases can store.
OWN_VALUES = {
    "duckdb": ["'NaN'", "'Infinity'"],
    "sqlite": ["9e999", "'qz'"],
    "postgresql": ["'NaN'", "'Infinity'"],
    "mariadb": [],
}


def test_a_column_with_other_values_than_weights_is_not_proposed(database: Database) -> None:
    load(database)
    people = database.relation("people")
    database.execute(f"ALTER TABLE {people} RENAME COLUMN w TO sampling_weight")
    options: dict[str, Any] = {"quasi_identifiers": QI, "k": [3, 4], "methods": ["mdav"]}
    for value in ("NULL", "0", "-1", *OWN_VALUES[database.name]):
        database.execute(f"UPDATE {people} SET sampling_weight = {value} WHERE id < 10")
        advice = dbanon.advise(database.url, table="people", key=["id"], **options)
        assert advice.design_weight is None, value
        assert "design_weight" not in advice.start
        assert advice.rules["sampling_weight"]["role"] == "drop"
        assert advice.risk is not None
        assert advice.risk.design_weight is None
        proposed = call("init", database.url, "--table", "people")
        assert proposed.exit_code == 0, proposed.output
        assert "role: weight" not in proposed.stdout


def test_the_risk_of_a_job_takes_the_weight_of_its_columns(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database)
    monkeypatch.setenv("PEOPLE", database.url)
    roles = dict.fromkeys(QI, "{role: quasi_identifier}")
    roles |= {"id": "{role: identifier}", "region": "{role: drop}", "w": "{role: weight}"}
    text = job(roles=roles, output="{table: people}", risk='{file: "own/{release}.json"}')
    done = call("run", write(tmp_path, text))
    assert done.exit_code == 0, done.stderr
    [file] = (tmp_path / "own").iterdir()
    figures = json.loads(file.read_text(encoding="utf-8"))
    expected = dbanon.disclosure_risk(
        database.url, "people", quasi_identifiers=QI, weight="w", released="release.people"
    ).to_dict()
    for side in ("before", "after"):
        assert figures[side]["basis"] == "weights"
        size = expected[side]["population_size"]
        assert figures[side]["population_size"] == pytest.approx(size)
        highest = expected[side]["individual"]["highest"]
        assert figures[side]["individual"]["highest"] == pytest.approx(highest)
