"""A hospital gives the stays of its patients to research: from the tables to the checked release.

    python -m examples.hospital [FILE]

makes the hospital's tables in a DuckDB file (a temporary one unless named), anonymizes with
hierarchies and privacy models, and prints each step. Nothing else is needed, no server either.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb

import dbanon
from examples import hospital_data

QUASI_IDENTIFIERS = ["age", "sex", "zip", "admitted"]


def main(path: Path) -> None:
    """Print the whole session on a new DuckDB file."""
    with duckdb.connect(str(path)) as connection:
        hospital_data.fill(connection)

        say("What the hospital has")
        show(connection, "SELECT * FROM app.research ORDER BY stay_id LIMIT 5")
        show(
            connection,
            """SELECT count(*) AS stays, count(DISTINCT patient_id) AS patients,
       count(DISTINCT (age, sex, zip, admitted)) AS combinations FROM app.research""",
        )

        say("The tree of diagnoses stands in a table; dbanon reads columns child and parent")
        connection.execute("CREATE VIEW app.icd_tree AS SELECT code AS child, parent FROM app.icd")
        show(
            connection,
            """WITH RECURSIVE way AS (
  SELECT * FROM app.icd_tree WHERE child = 'I21'
  UNION ALL SELECT t.* FROM app.icd_tree AS t JOIN way ON t.child = way.parent)
SELECT * FROM way""",
        )

        say("Anonymize")
        connection.execute("CREATE SCHEMA release")
        report = dbanon.anonymize(
            connection,
            table="app.research",
            key=["stay_id"],
            quasi_identifiers=QUASI_IDENTIFIERS,
            sensitive=["diagnosis", "cost"],
            keep=["ward"],
            k=5,
            entity="patient_id",
            method="gaa_cp",
            refine="fast",
            hierarchies={
                "zip": {"mask": [4, 3, 2]},
                "admitted": {"dates": ["month", "quarter", "year"]},
            },
            steps={"age": 10},
            models=[
                dbanon.Model("distinct_l", "diagnosis", 3),
                dbanon.Model("t_closeness", "diagnosis", 0.6, distance="table:app.icd_tree"),
            ],
            output="release.stays",
        )
        for label, text in report.pairs():
            if label not in ("release", "method", "seconds"):  # other ones in every run
                print(f"  {label}: {text}")

        say("What research gets, some of the infarctions")
        show(
            connection,
            """SELECT age, sex, zip, admitted, diagnosis, ward, cost
FROM release.stays WHERE diagnosis = 'I21' ORDER BY ALL LIMIT 12""",
        )

        say("Count it again")
        show(
            connection,
            """SELECT count(*) AS classes, min(stays) AS stays, min(diagnoses) AS diagnoses
FROM (SELECT count(*) AS stays, count(DISTINCT diagnosis) AS diagnoses
      FROM release.stays GROUP BY age, sex, zip, admitted)""",
        )

        say("What it is good for: mean cost of circulatory diseases by sex, before and after")
        for table in ("app.research", "release.stays"):
            show(
                connection,
                f"""SELECT sex, count(*) AS stays, round(avg(cost), 2) AS cost
FROM {table} WHERE diagnosis LIKE 'I%' GROUP BY sex ORDER BY sex""",
            )


def say(heading: str) -> None:
    """Print a heading."""
    print(f"\n== {heading} ==\n")


def show(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Print a query and its result."""
    print(f"{query};\n")
    result = connection.execute(query)
    names = [column[0] for column in result.description or ()]
    lines = [names, *([_text(value) for value in row] for row in result.fetchall())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print("  " + "  ".join(cells).rstrip())
    print()


def _text(value: object) -> str:
    return "NULL" if value is None else str(value)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory) / "hospital.duckdb")
