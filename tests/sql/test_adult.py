"""Adult in PostgreSQL with hierarchies in tables: same classes as the client, expected loss."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psycopg
import pytest

import dbanon
from tests.iloss_evaluator import iloss, read_paths
from tests.prerequisites import require_reference
from tests.reference.data import ADULT_FILES
from tests.synthetic_data import adult_like

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
K, MOST = 5, 11_110


# The test below checks the same on 400 rows.
@pytest.mark.campaign
def test_adult_by_hierarchies_of_the_database(run_sql: Run, connect: Connect) -> None:
    folder = require_reference(*ADULT_FILES) / "adult"
    counted, _ = require_client_s_classes(run_sql, connect(), folder)
    assert counted <= MOST


def test_a_table_like_adult_by_hierarchies_of_the_database(
    run_sql: Run, connect: Connect, tmp_path: Path
) -> None:
    """The equivalent on synthetic data: much less loss than random classes of k records."""
    table = adult_like(400, tmp_path / "adult")
    counted, paths = require_client_s_classes(run_sql, connect(), table.folder)
    at_random = np.random.default_rng(0).permutation(np.arange(400) // K)
    assert counted < 0.5 * iloss(table.rows, at_random, paths)


def require_client_s_classes(
    run_sql: Run, connection: psycopg.Connection[Any], folder: Path
) -> tuple[float, list[dict[str, list[str]] | None]]:
    """Require the client's classes from the database functions, with hierarchies from tables.

    Returns the loss computed from its definition, and the hierarchy paths by column.
    """
    with (folder / "adult.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter=";")
    names, rows = header[:8], [row[:8] for row in rows]
    files = {name: folder / "hierarchies" / f"{name}.csv" for name in names if name != "age"}
    kinds = ", ".join(f'"{name}" {"integer" if name == "age" else "text"}' for name in names)
    connection.execute(f"CREATE TABLE app.adult (id integer PRIMARY KEY, {kinds})".encode())
    with connection.cursor().copy("COPY app.adult FROM STDIN") as stream:
        for number, row in enumerate(rows):
            stream.write_row((number, *row))
    hierarchies: dict[str, Any] = {}
    for index, (name, file) in enumerate(files.items()):
        with file.open(newline="", encoding="utf-8") as lines:
            levels = list(csv.reader(lines, delimiter=";"))
        columns = ["leaf", *(f"level{i}" for i in range(1, len(levels[0])))]
        body = ", ".join(f"{column} text" for column in columns)
        connection.execute(f'CREATE TABLE app."tree {name}" (position integer, {body})'.encode())
        with connection.cursor().copy(f'COPY app."tree {name}" FROM STDIN'.encode()) as stream:
            for at, level in enumerate(levels):
                stream.write_row((at, *level))
        hierarchies[name] = {"table": f'app."tree {name}"'}
        if index % 2:
            run_sql("SELECT dbanon.store_hierarchy(%s, %s)", name, json.dumps(hierarchies[name]))
            hierarchies[name] = {"name": name}

    labels = [
        label
        for (label,) in run_sql(
            "SELECT class FROM dbanon.classes('app.adult', 'gaa_cp', %s, %s, %s)"
            " ORDER BY (row_key->>'id')::integer",
            names,
            K,
            json.dumps({"hierarchies": hierarchies}),
        )
    ]
    paths = [read_paths(files[n]) if n in files else None for n in names]
    counted = iloss(rows, labels, paths)
    frame = pd.DataFrame(rows, columns=names).astype({"age": int})
    partition = dbanon.partition(frame, K, method="gaa_cp", hierarchies=files)
    assert partition.labels.tolist() == labels

    [(loss, classes)] = run_sql(
        "SELECT (made).information_loss, (made).classes FROM (SELECT dbanon.gaa_cp('app.adult',"
        " 'release.adult', %s, %s, hierarchies => %s, options => '{\"local_range\": true}')"
        " AS made OFFSET 0) AS call",
        names,
        K,
        json.dumps(hierarchies),
    )
    assert loss * len(rows) * len(names) == pytest.approx(counted, rel=1e-9)
    listed = ", ".join(f'"{name}"' for name in names)
    [(smallest, groups)] = run_sql(
        "SELECT min(n), count(*) FROM (SELECT count(*) AS n FROM release.adult"
        f" GROUP BY {listed}) AS classes"
    )
    assert smallest >= K
    assert groups == classes
    return counted, paths
