"""Hints are tried literally: each way out that one names is taken on the case that raised it."""

from __future__ import annotations

import json
import re
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import DbanonError
from tests.doors.hint_list import followed, listed, untried
from tests.doors.test_hints import MARKED, hints

_N = 120
_RNG = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {
        "age": _RNG.integers(20, 60, _N),
        "size": _RNG.normal(170, 9, _N).round(1),
        "town": _RNG.choice(list("abcde"), _N),
        "ill": _RNG.choice(["x", "y", "z"], _N),
    }
)
HOLES = FRAME.assign(age=FRAME.age.astype("Int64").mask(FRAME.index % 10 == 0))
_OUTPUTS = count()
Run = Callable[..., object]


@dataclass(frozen=True)
class Case:
    """A hint, and what raises it.

    Parameters
    ----------
    hint : its text in the sources, with {} for values.
    run : raises it with ``options``.
    needs : what a way out needs beside it, by option; a hint names it, too.
    values : what a user writes in the place of … in a hint, or of words in it.
    """

    hint: str
    run: Callable[[Path], Run]
    options: dict[str, Any]
    needs: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


def on_frame(frame: pd.DataFrame = FRAME) -> Callable[[Path], Run]:
    def prepared(path: Path) -> Run:
        asked = {"quasi_identifiers": ["age", "size"], "k": 4}
        return lambda **given: dbanon.anonymize_frame(frame, **(asked | given))

    return prepared


def on_sqlite(path: Path) -> Run:
    """A database with a table, a view of it, and a release of the name `taken`."""
    place = path / "people.sqlite"
    url = f"sqlite:///{place}"
    with closing(sqlite3.connect(place)) as connection:
        FRAME.assign(id=range(_N)).to_sql("people", connection, index=False)
        connection.execute("CREATE VIEW seen AS SELECT * FROM people")
        connection.commit()

    def run(**given: Any) -> object:
        asked = {
            "table": "people",
            "output": f"o{next(_OUTPUTS)}",
            "quasi_identifiers": ["age"],
            "k": 4,
        }
        if given.get("spill"):
            given["spill"] = str(path / "spill")
        return dbanon.anonymize(url, **(asked | given))

    run(output="taken")
    return run


def on_csv(text: bytes) -> Callable[[Path], Run]:
    def prepared(path: Path) -> Run:
        (path / "rows.csv").write_bytes(text)

        def run(**given: Any) -> object:
            asked = {
                "table": "rows",
                "output": f"o{next(_OUTPUTS)}",
                "quasi_identifiers": ["age"],
                "k": 2,
                "target": f"duckdb:///{path}/target.duckdb",
            }
            return dbanon.anonymize(f"file:{path}/rows.csv", **(asked | given))

        return run

    return prepared


def lines(*rows: str) -> bytes:
    return "\n".join(rows).encode()


_ROWS = [f"{20 + i},{'ab'[i % 2]}" for i in range(10)]
_INTERVALS = 'Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.'
CASES = {
    "NULLs": Case(
        'Choose `nulls="category"` (classes within each pattern of NULLs) or `nulls="merge"` (the'
        ' same, and rare patterns join larger ones). `nulls="suppress"` withholds these records,'
        " and needs a `max_suppression` that allows it.",
        on_frame(HOLES),
        {},
        needs={"nulls='suppress'": {"max_suppression": 0.1}},
    ),
    "suppression": Case(
        "It would be feasible with `max_suppression={}` or more.",
        on_frame(HOLES),
        {"nulls": "suppress"},
    ),
    "guarantee": Case(
        "Choose a method that groups rows. A release whose rows are not k-anonymous needs"
        ' `guarantee="per_attribute"`.',
        on_frame(),
        {"method": "individual_ranking"},
    ),
    "weights": Case(
        'Leave them out, or choose `standardize="zscore"` or `standardize="range"`.',
        on_frame(),
        {"standardize": "mahalanobis", "weights": {"age": 2}},
    ),
    "refinement": Case(
        'Choose `refine="fast"`, or leave the limit out.', on_frame(), {"refine_iterations": 5}
    ),
    "ranges of a frame": Case(
        _INTERVALS, on_frame(), {"recoding": "generalization", "intervals": "range"}
    ),
    "ranges of a database": Case(
        _INTERVALS, on_sqlite, {"recoding": "generalization", "intervals": "range"}
    ),
    "output": Case(
        'Choose another name, or replace it: `if_exists="replace"`.',
        on_sqlite,
        {"output": "taken"},
    ),
    "key": Case(
        'Name columns that are unique for each row: `key=["…"]`.',
        on_sqlite,
        {"table": "seen"},
        values={"key": ["id"]},
    ),
    "blocks": Case("Say how large they are: `block_size=50000`.", on_sqlite, {"spill": "spill"}),
    "preamble": Case(
        "The header seems to be in line {}: `skip_lines={}`. {}",
        on_csv(lines("Report of 2020", "", "age,x", *_ROWS)),
        {},
    ),
    "header": Case(
        "If it is one: `header=false`; the columns are column0, column1 and so on. If it names the"
        " columns: `header=true`.",
        on_csv(lines(*_ROWS)),
        {},
        needs={
            "header=False": {"quasi_identifiers": ["column0"]},
            # Its first line is then their names.
            "header=True": {"quasi_identifiers": ["20"]},
        },
    ),
    "names alike": Case(
        "Rename one of them; capitals make no difference. To number the later ones:"
        ' `duplicate_columns="rename"`. If the first line is a row: `header=false`.',
        on_csv(lines("age,x,x", *(f"{i},1,2" for i in range(9)))),
        {},
        needs={"header=False": {"quasi_identifiers": ["column1"], "recoding": "representative"}},
    ),
    "UTF-8 in the place of Latin-1": Case(
        'Say `encoding="{}"`.',
        on_csv(lines("age,x", *_ROWS, "20,ü")),
        {"encoding": "latin-1"},
    ),
    "words for nothing": Case(
        'Correct it. If it stands for a missing value, list it: `null_words=["…"]`. To read the'
        " column as {}: {}.",
        on_csv(lines("age,x", *(f"{20 + i % 50},a" for i in range(3000)), "n/a,b")),
        {},
        needs={
            "null_words=['n/a']": {"nulls": "suppress", "max_suppression": 0.1},
            # A text has no mean.
            "types={'age': 'text'}": {"recoding": "generalization"},
        },
        values={"null_words": ["n/a"]},
    ),
}
TRIED = frozenset(case.hint for case in CASES.values())


def refusal(run: Run, **given: Any) -> DbanonError:
    with pytest.raises(DbanonError) as caught:
        run(**given)
    return caught.value


def ways_out(error: DbanonError, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every option with a value that a hint names."""
    for name, text in MARKED.findall(error._hint or ""):
        if text:
            yield name, values.get(name, json.loads(text))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_each_way_out_of_a_hint_works(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = case.run(tmp_path)
        error = refusal(run, **case.options)
        pattern = re.escape(case.hint).replace(re.escape("{}"), ".*")
        assert re.fullmatch(pattern, error._hint or "")
        ways = list(ways_out(error, case.values))
        assert ways
        for option, value in ways:
            more = case.needs.get(f"{option}={value!r}", {})
            assert run(**(case.options | {option: value} | more))


def test_cases_try_hints_of_the_sources() -> None:
    assert {" ".join(text.split()) for _, text in hints()} >= TRIED


def test_a_new_hint_is_tried_or_its_reason_is_said() -> None:
    """The list of those that are not tried becomes shorter, never longer."""
    assert untried(TRIED | followed()) == listed(), (
        "python -m tests.doors.hint_list shows what has changed"
    )
