"""Statements and calls from which the cases of PostgreSQL are made."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import dbanon
from tests.doors.server_site import Site, Step

_NUMBERS = itertools.count()


def mdav(more: str = "", output: str = "release.$t", table: str = "app.$t") -> str:
    """A call of dbanon.mdav with more arguments."""
    return f"SELECT dbanon.mdav('{table}', '{output}', '{{age}}', 5{more and ', ' + more})"


def options(text: str) -> str:
    """A call with such options."""
    return mdav(f"options => '{text}'")


def declare(rules: str, role: str = "") -> str:
    return f"{role}SELECT dbanon.declare('app.$t', '{rules}')"


def in_python(act: Callable[[str, str], object]) -> Step:
    """A call of Python with the URL and the table."""
    return lambda site: act(site.url, f"app.{site.table}")


def anonymize(more: str = "", role: str = "", table: str = "app.$t", q: str = "age") -> str:
    line = f"{role}dbanon anonymize $url --table {table} -q {q} --k 5 {more}"
    return line if "--output " in more else f"{line} --output release.$t"


def spend(budget: str, **more: Any) -> Callable[[Site], object]:
    """A release of synthetic rows."""

    def act(site: Site) -> object:
        arguments: dict[str, Any] = {
            "database": site.url,
            "table": f"app.{site.table}",
            "quasi_identifiers": ["size"],
            "method": "dp_ranks",
            "epsilon": 1.0,
            "bounds": {"size": (0, 6)},
            "budget": site.text(budget),
            "output": f"release.{site.table}",
        }
        return dbanon.anonymize(**(arguments | more))

    return act


def begin_in_sqlite(site: Site) -> None:
    """Make a table of persons in the trial's database of SQLite, with a budget."""
    url = site.sqlite(
        "CREATE TABLE people (id INTEGER NOT NULL, size INTEGER NOT NULL)",
        *(f"INSERT INTO people VALUES ({i}, {i % 7})" for i in range(40)),
    )
    dbanon.create_budget(url, site.table, source="people", epsilon=9)


def spend_in_sqlite(site: Site) -> None:
    output = f"noisy{next(_NUMBERS)}"
    spend("$t", database=site.sqlite(), table="people", output=output, epsilon=3.0)(site)


def for_role(role: str) -> Step:
    """The statement that the hint prints, with the role that reads the hint in it."""
    return lambda site: site.take(site.text("$statement").replace("…", role))


BUDGET = "dbanon budget create $url $t --source app.$t --epsilon 3"


NOT_NULL = "ALTER TABLE app.$t ALTER size SET NOT NULL"


REPLACE = "--if-exists replace"


AGE = '{"age": "quasi_identifier"}'


OWNER = "ALTER TABLE app.$t OWNER TO "
