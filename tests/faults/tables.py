"""Random tables from one ``Random``: all column types, nasty names, NULLs, duplicates."""

from __future__ import annotations

import re
import string
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random

# A match in a message or log reveals a value of a column. Random identifiers and fractions contain
# such digits by chance, after other digits, a point, a dash or a letter.
MARKS = re.compile(r"qzmark|(?<![\w.-])-?73173\d*|1737-07", re.IGNORECASE)

NUMBERS = ("integer", "decimal", "float", "date", "timestamp")
CATEGORIES = ("enum", "text", "boolean", "uuid")

# Other integers hold values of 32 bits.
LIMITS: dict[str, tuple[int, int]] = {
    "TINYINT": (-128, 127),
    "SMALLINT": (-32768, 32767),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "HUGEINT": (-(2**100), 2**100),
}

NASTY = (
    "age",
    "Age 2",
    "select",
    "order",
    "a b",
    'a"b',
    "o'brien",
    "größe",
    "é" * 31,
    "x" * 63,
    "rowid",
    "_rowid_",
    "oid",
    "k",
    "n",
    "s",
    "c",
    "m",
    "class",
    "label",
    "labels",
    "position",
    "key",
    "release_id",
    "%s",
    "%(a)s",
    ":x",
    "{0}",
    "a.b",
    "tab\tname",
    "new\nline",
    "🙂",
    " lead",
    "$1",
    "?",
    "--",
    "a;b",
    "back\\slash",
    "a,b",
    "null",
    "NULL",
    "count(*)",
    "user",
    "a=b",
    "*",
    "v0",
    "q0",
    "code",
    "xmin_",
    "value",
    "table",
    "группа",
    "名前",
    "e\u0301",
    "size",
    "d0",
    "t",
)
# PostgreSQL has system columns with these names in every table; elsewhere they are ordinary.
SYSTEM_NAMES = ("ctid", "xmin", "tableoid", "cmax")

TYPES: dict[str, dict[str, tuple[str, ...]]] = {
    "postgresql": {
        "integer": ("smallint", "integer", "bigint", "DOMAIN integer"),
        "decimal": ("numeric(10,2)", "numeric(6,0)", "numeric(24,6)", "numeric", "DOMAIN numeric"),
        "float": ("real", "double precision"),
        "date": ("date",),
        "timestamp": ("timestamp", "timestamptz", "timestamp(0)", "timestamptz(3)"),
        "enum": ("ENUM",),
        "text": ("text", "varchar(60)", "char(20)", 'text COLLATE "C"', "DOMAIN text", "FOLDED"),
        "boolean": ("boolean",),
        "uuid": ("uuid",),
        "other": ("json", "jsonb", "bytea", "integer[]", "interval", "time", "point"),
    },
    "duckdb": {
        "integer": ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UINTEGER", "UBIGINT", "HUGEINT"),
        "decimal": ("DECIMAL(10,2)", "DECIMAL(6,0)", "DECIMAL(24,6)"),
        "float": ("FLOAT", "DOUBLE"),
        "date": ("DATE",),
        "timestamp": ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_MS"),
        "enum": ("ENUM",),
        "text": ("VARCHAR", "VARCHAR COLLATE NOCASE"),
        "boolean": ("BOOLEAN",),
        "uuid": ("UUID",),
        "other": ("JSON", "BLOB", "INTEGER[]", "INTERVAL", "TIME"),
    },
    "sqlite": {
        "integer": ("INTEGER", "INT", "BIGINT", "SMALLINT"),
        "decimal": ("DECIMAL(10,2)", "NUMERIC(12,2)"),
        "float": ("REAL", "DOUBLE PRECISION"),
        "date": ("DATE",),
        "timestamp": ("TIMESTAMP", "DATETIME"),
        "text": ("TEXT", "VARCHAR(60)", "TEXT COLLATE NOCASE"),
        "boolean": ("BOOLEAN",),
        "other": ("BLOB", "JSON"),
    },
}
OTHER_VALUES = {
    "json": ('{"a": 1}', '{"a": "qzmark"}'),
    "bytea": ("\\x7122", "\\x00"),
    "blob": ("qzmark", "ab"),
    "array": {"postgresql": ("{1,2}", "{73173}"), "duckdb": ("[1, 2]", "[73173]")},
    "interval": ("1 day", "2 hours"),
    "time": ("12:00:00", "01:02:03"),
    "point": ("(1,2)", "(3,4)"),
}


@dataclass(frozen=True)
class Column:
    """A column and its values as text that every database can parse; None is NULL.

    ``levels`` are the possible values of a category, in the order of an enum. ``extreme`` marks
    values at the limits of a type, which may be refused.
    """

    name: str
    family: str
    sql_type: str
    values: tuple[str | None, ...]
    levels: tuple[str, ...] = ()
    extreme: bool = False
    setup: tuple[str, ...] = ()

    def holes(self, rng: Random, share: float) -> Column:
        """Replace about this share of the values by NULL, at least one."""
        if not self.values:
            return self
        hole = rng.randrange(len(self.values))
        return replace(
            self,
            values=tuple(
                None if i == hole or rng.random() < share else value
                for i, value in enumerate(self.values)
            ),
        )


@dataclass(frozen=True)
class Table:
    """A table, and the relation that is read: the table itself, or a view of it."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    shape: str = "plain"
    """``plain``, ``key``, ``view``, ``partitioned`` or ``dropped`` (a column was dropped)."""
    unique: str | None = None
    """The name of a column with unique values."""
    more: tuple[str, ...] = field(default=())
    """Statements that create related objects, such as a hierarchy's table."""

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @property
    def n(self) -> int:
        return len(self.columns[0].values)


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


class Names:
    """Names that stay distinct in every database, however it folds case."""

    def __init__(self, rng: Random, database: str) -> None:
        self._rng = rng
        names = NASTY if database == "postgresql" else NASTY + SYSTEM_NAMES
        self._nasty = list(names)
        rng.shuffle(self._nasty)
        self._taken: set[str] = set()

    def take(self, plain: str, nasty: float = 0.45) -> str:
        name = plain
        if self._rng.random() < nasty and self._nasty:
            name = self._nasty.pop()
        while name.casefold() in self._taken:
            name = f"{plain}{self._rng.randrange(10**6)}"
        self._taken.add(name.casefold())
        return name


def random_column(
    rng: Random, database: str, name: str, family: str, n: int, few: bool = False
) -> Column:
    """A column of n values without NULL; ``few`` distinct ones if it is to define strata."""
    sql_type = rng.choice(TYPES[database][family])
    setup: tuple[str, ...] = ()
    if family in ("enum", "text"):
        return _category(rng, database, name, family, sql_type, n, few)
    if family == "other":
        candidates = _other(rng, database, sql_type)
        return Column(name, family, sql_type, tuple(rng.choice(candidates) for _ in range(n)))
    if sql_type.startswith("DOMAIN "):
        base, sql_type = sql_type[7:], f"app.{quote('domain of ' + name[:10])}"
        setup = (f"CREATE DOMAIN {sql_type} AS {base} CHECK (VALUE > -1000000000)",)
    extreme = rng.random() < 0.02 and not few
    if extreme and (ends := _extremes(database, family, sql_type)):
        values: Sequence[str] = [rng.choice(ends) for _ in range(n)]
        return Column(name, family, sql_type, tuple(values), extreme=True, setup=setup)
    draw = _FAMILIES[family](rng, database, sql_type)
    pool = [draw() for _ in range(rng.randint(1, 3))] if few else None
    if not few and rng.random() < 0.25:
        pool = [draw() for _ in range(rng.choice((1, 2, 5, max(1, n // 4))))]
    values = [rng.choice(pool) if pool else draw() for _ in range(n)]
    if rng.random() < 0.2:
        # Tables are often filled in some order.
        values = sorted(values, key=lambda text: (len(text), text))
    return Column(name, family, sql_type, tuple(values), tuple(sorted(set(values))), setup=setup)


def unique_column(rng: Random, database: str, name: str, n: int) -> Column:
    start = rng.choice((0, 7317300, 10**7))
    values = [str(start + i) for i in range(n)]
    if rng.random() < 0.3:
        rng.shuffle(values)
    kind = {"postgresql": "integer", "duckdb": "INTEGER", "sqlite": "INTEGER"}[database]
    return Column(name, "integer", kind, tuple(values))


def entity_column(rng: Random, database: str, name: str, n: int) -> Column:
    family = rng.choice([f for f in ("integer", "uuid", "text") if f in TYPES[database]])
    persons = max(1, n // rng.choice((1, 2, 3)))
    if family == "integer":
        kind = {"postgresql": "bigint", "duckdb": "BIGINT", "sqlite": "INTEGER"}[database]
        persons_values = [str(7317300 + i) for i in range(persons)]
    elif family == "uuid":
        kind, persons_values = TYPES[database]["uuid"][0], [_uuid(rng) for _ in range(persons)]
    else:
        kind, persons_values = (
            TYPES[database]["text"][0],
            [f"qzmark person {i}" for i in range(persons)],
        )
    return Column(name, family, kind, tuple(rng.choice(persons_values) for _ in range(n)))


def _category(
    rng: Random, database: str, name: str, family: str, sql_type: str, n: int, few: bool
) -> Column:
    levels = [f"qzmark {part}" for part in rng.sample(string.ascii_lowercase, rng.randint(1, 7))]
    if rng.random() < 0.3:
        levels += rng.sample(["o'neil qzmark", 'say "qzmark"', "qzmark, or", "[qzmark, b)"], 2)
    if family == "text" and rng.random() < 0.15:
        levels += ["QZMARK A", "Qzmark a", "qzmark a"]
    if family == "text" and rng.random() < 0.1:
        levels += ["", "*", " "]
    if few:
        levels = levels[: rng.randint(1, 3)]
    levels = list(dict.fromkeys(levels))
    setup: tuple[str, ...] = ()
    if sql_type == "ENUM":
        listed = ", ".join(literal(level) for level in levels)
        schema = "app." if database == "postgresql" else ""
        sql_type = schema + quote(f"mood of {name[:10]}")
        setup = (f"CREATE TYPE {sql_type} AS ENUM ({listed})",)
    elif sql_type == "DOMAIN text":
        sql_type = f"app.{quote('text of ' + name[:10])}"
        setup = (f"CREATE DOMAIN {sql_type} AS text CHECK (length(VALUE) < 100)",)
    elif sql_type == "FOLDED":
        setup = (
            "CREATE COLLATION IF NOT EXISTS app.folded"
            " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        )
        sql_type = "text COLLATE app.folded"
    values = tuple(rng.choice(levels) for _ in range(n))
    return Column(name, family, sql_type, values, tuple(levels), setup=setup)


def _integer(rng: Random, database: str, sql_type: str) -> Callable[[], str]:
    low, high = LIMITS.get(sql_type.upper(), (-(2**31), 2**31 - 1))
    wide = rng.random() < 0.06
    first, last = rng.choice(((0, 4), (18, 90), (7317300, 7317399), (-50, 50), (0, 10**6)))
    if wide and "BIGINT" in sql_type.upper():
        first, last = 2**53 - 5, 2**62
    elif wide and sql_type == "HUGEINT":
        first, last = 2**65, 2**66
    elif wide:
        first, last = high - 5, high
    first, last = max(first, low), min(last, high)
    if first > last:
        first, last = max(low, 0), min(high, 100)
    return lambda: str(rng.randint(first, last))


def _decimal(rng: Random, database: str, sql_type: str) -> Callable[[], str]:
    is_whole = sql_type.endswith(",0)")
    digits = 0 if is_whole else rng.choice((0, 1, 2))
    top = rng.choice((9, 9999, 731739) if not is_whole else (9, 9999))
    if not sql_type.endswith(")") and rng.random() < 0.5:
        # Without a declared scale each value has its own.
        return lambda: str(Decimal(rng.randint(-top, top)).scaleb(-rng.choice((0, 1, 2, 3))))
    return lambda: str(Decimal(rng.randint(-top, top)).scaleb(-digits))


def _float(rng: Random, database: str, sql_type: str) -> Callable[[], str]:
    shape = rng.randrange(4)
    if shape == 0:
        return lambda: repr(round(rng.gauss(170, 10), 1))
    if shape == 1:
        return lambda: repr(float(rng.randint(0, 3)))
    if shape == 2:
        return lambda: repr(rng.gauss(0, 1) * 10.0 ** rng.randint(-6, 6))
    return lambda: repr(73173.0 + rng.random())


def _date(rng: Random, database: str, sql_type: str) -> Callable[[], str]:
    start, days = rng.choice(
        ((date(1737, 7, 1), 28), (date(1930, 1, 1), 30000), (date(2024, 2, 1), 60))
    )
    return lambda: (start + timedelta(days=rng.randint(0, days))).isoformat()


def _timestamp(rng: Random, database: str, sql_type: str) -> Callable[[], str]:
    start = rng.choice((datetime(1737, 7, 1), datetime(1999, 3, 1), datetime(2024, 3, 30)))
    is_whole = rng.random() < 0.5 or sql_type.endswith(("(0)", "_S"))
    span = rng.choice((3600, 86400 * 40, 86400 * 9000))

    def draw() -> str:
        moment = start + timedelta(seconds=rng.randint(0, span))
        if not is_whole:
            moment += timedelta(milliseconds=rng.randint(0, 999))
        return moment.isoformat(sep=" ")

    return draw


def _boolean(rng: Random, database: str, sql_type: str) -> Callable[[], str]:
    return lambda: rng.choice(("1", "0") if database == "sqlite" else ("true", "false"))


def _uuid(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


_FAMILIES: dict[str, Callable[[Random, str, str], Callable[[], str]]] = {
    "integer": _integer,
    "decimal": _decimal,
    "float": _float,
    "date": _date,
    "timestamp": _timestamp,
    "boolean": _boolean,
    "uuid": lambda rng, database, sql_type: lambda: _uuid(rng),
}


def _other(rng: Random, database: str, sql_type: str) -> Sequence[str]:
    key = sql_type.lower().replace("jsonb", "json")
    values = OTHER_VALUES["array" if key.endswith("[]") else key]
    return values[database] if isinstance(values, dict) else values


def _extremes(database: str, family: str, sql_type: str) -> tuple[str, ...]:
    if "domain" in sql_type:
        return ()
    if family == "timestamp" and database == "postgresql":
        return ("294276-12-31 00:00:00", "0044-03-15 00:00:00 BC", "2000-01-01 00:00:00")
    if family == "date" and database != "sqlite":
        return (
            ("infinity", "2000-01-01") if database == "postgresql" else ("2000-01-01", "9999-12-31")
        )
    if family == "float" and database != "sqlite":
        return ("NaN", "1.0", "-0.0", "Infinity")
    if family == "integer" and database == "sqlite":
        return ("99999999999999999999", "9223372036854775807", "-5")
    if family == "decimal" and sql_type == "numeric":
        return ("1e30", "123456789012345678901234567890.5", "NaN", "0")
    return ()
