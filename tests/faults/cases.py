"""Random cases: a table, the arguments of a release, a database and an interface."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.faults.tables import (
    CATEGORIES,
    NUMBERS,
    TYPES,
    Column,
    Names,
    Table,
    entity_column,
    literal,
    quote,
    random_column,
    unique_column,
)

DOORS = {
    "duckdb": ("python", "python", "python", "command"),
    "sqlite": ("python", "python", "python", "command"),
    "postgresql": ("python", "python", "command", "sql", "sql", "sql"),
}
DATABASES = (
    "duckdb",
    "duckdb",
    "duckdb",
    "sqlite",
    "sqlite",
    "postgresql",
    "postgresql",
    "postgresql",
    "postgresql",
)
GENERALIZING = ("gaa_cp", "kaca", "ebkc", "kmember", "mondrian", "full_domain", "global_recoding")
SUPPRESSING = ("local_suppression",)
# Methods whose classes may hold rows that are NULL in different columns.
CROSSING_PATTERNS = (*SUPPRESSING, "global_recoding")
# Methods that choose levels, and have no other recoding.
LEVELS = ("full_domain", "global_recoding")
# Methods that take columns of any kind.
CATEGORICAL = (*GENERALIZING, *SUPPRESSING)
POINTS = (
    "mdav",
    "cbfs",
    "md",
    "tfrp1",
    "tfrp2",
    "ldf",
    "hdf",
    "vmdav",
    "dcm",
    "npn_mhm",
    "mdav_mhm",
    "cbfs_mhm",
    "md_mhm",
    "mst_forest",
    "mst_diameter",
    "kward",
    "secure_kward",
    "recursive_kward",
    "genetic",
    "two_step",
    "single_axis",
    "optimal_univariate",
    "individual_ranking",
)
# Methods whose time grows with the cube of the records, or that keep a population of them.
SLOW = {"md": 250, "md_mhm": 250, "genetic": 60, "two_step": 200, "kaca": 300, "ebkc": 300}
OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "vmdav": ({}, {"lambda_": 1.1}),
    "dcm": ({}, {"radius": 0.05}),
    "ebkc": ({}, {"threshold": 0.2}),
    "mondrian": ({}, {"cut": "relaxed"}, {"cut": "tree"}),
    "full_domain": ({}, {"suppression": 0.1}, {"contract": True}),
    "global_recoding": ({}, {"cells": 0.3}, {"cells": 1.0}),
    "secure_kward": ({}, {"epsilon": 0.5, "gamma0": 0.9}),
    "recursive_kward": ({}, {"parts": 3, "theta": 0.9}),
    "genetic": ({"generations": 20},),
    "two_step": ({"generations": 10, "macro": 15},),
    "single_axis": ({}, {"axis": "first_component"}),
}
MODELS: dict[str, tuple[float, float]] = {
    "distinct_l": (1, 3),
    "entropy_l": (1, 1.8),
    "recursive_cl": (2, 8),
    "t_closeness": (0.05, 0.6),
    "alpha_k": (0.6, 1),
    "beta_likeness": (0.3, 3),
    "delta_disclosure": (0.5, 3),
}


@dataclass(frozen=True)
class Case:
    """One run; ``arguments`` are those of ``dbanon.anonymize``.

    ``target`` is the kind of another database to write to, or None.
    """

    seed: int
    number: int
    database: str
    door: str
    target: str | None
    table: Table
    arguments: dict[str, Any]

    def describe(self) -> str:
        """Describe the case so that it can be repeated; its values are invented."""
        table = self.table
        lines = [
            f"{self.database}, door {self.door}, target {self.target}",
            f"table {table.schema!r}.{table.name!r} ({table.shape}), {table.n} rows",
        ]
        for column in table.columns:
            different = sorted({value for value in column.values if value is not None})
            lines.append(
                f"  {column.name!r} {column.sql_type}: {len(different)} values, such as"
                f" {different[:3]}, {column.values.count(None)} NULLs"
            )
        return "\n".join([*lines, f"arguments {self.arguments}"])


def random_case(seed: int, number: int) -> Case:
    """The case with this number; seed and number determine it."""
    return _Maker(seed, number).case()


class _Maker:
    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.rng = rng = Random(f"faults {seed} {number}")
        self.database = rng.choice(DATABASES)
        self.door = rng.choice(DOORS[self.database])
        self.names = Names(rng, self.database)
        self.arguments: dict[str, Any] = {}
        self.columns: list[Column] = []
        self.more: list[str] = []

    def case(self) -> Case:
        rng, arguments = self.rng, self.arguments
        method = rng.choice(POINTS + CATEGORICAL * 3)
        self.k = rng.choice((2, 2, 3, 3, 4, 5, 5, 7, 10, 20))
        self.n = self._size(method)
        arguments |= {"k": self.k, "method": method, "seed": rng.randrange(1000)}
        if options := rng.choice(OPTIONS.get(method, ({},))):
            arguments["options"] = dict(options)
        self._quasi_identifiers(method)
        self._recoding(method)
        self._strata()
        self._choose_copied()
        self._persons(method)
        self._models(method)
        self._search(method)
        table = self._table()
        self._output()
        target = None
        if self.door != "sql" and rng.random() < 0.1:
            target = rng.choice([name for name in DOORS if name != self.database])
            arguments["chunk_rows"] = rng.choice((7, 100, 65536))
        return Case(
            self.seed, self.number, self.database, self.door, target, table, dict(arguments)
        )

    def _size(self, method: str) -> int:
        rng, k = self.rng, self.k
        n = rng.choice((rng.randint(20, 120), rng.randint(60, 300), rng.randint(2 * k, 9 * k)))
        if rng.random() < 0.07:
            n = rng.choice((0, 1, k - 1, k, 2 * k - 1))
        elif rng.random() < 0.03:
            n = rng.randint(1000, 5000)
        return min(n, SLOW.get(method, n))

    def _column(self, family: str, plain: str, few: bool = False) -> Column:
        name = self.names.take(plain)
        column = random_column(self.rng, self.database, name, family, self.n, few)
        self.columns.append(column)
        return column

    def _replace(self, column: Column) -> None:
        self.columns = [column if c.name == column.name else c for c in self.columns]

    def _quasi_identifiers(self, method: str) -> None:
        rng, arguments = self.rng, self.arguments
        count = 1 if method == "optimal_univariate" else rng.choice((1, 2, 2, 2, 3, 3, 4))
        families = [f for f in NUMBERS if f in TYPES[self.database]]
        orders: dict[str, list[str]] = {}
        chosen: list[Column] = []
        for position in range(count):
            mixed = method in CATEGORICAL or rng.random() < 0.03
            family = rng.choice(
                [*families, *(f for f in CATEGORIES if f in TYPES[self.database])]
                if mixed
                else families
            )
            ordinal = method not in (*CATEGORICAL, "secure_kward") and rng.random() < 0.15
            if ordinal:
                family = "enum" if rng.random() < 0.5 and self.database != "sqlite" else "text"
            column = self._column(family, f"q{position}")
            stated = column.family == "text" and (ordinal or rng.random() < 0.2)
            if stated and "" not in column.levels:
                orders[column.name] = rng.sample(column.levels, len(column.levels))
            if rng.random() < 0.2:
                column = column.holes(rng, rng.choice((0.02, 0.2)))
                self._replace(column)
            chosen.append(column)
        arguments["quasi_identifiers"] = [column.name for column in chosen]
        if orders:
            arguments["orders"] = orders
        holes = any(None in column.values for column in chosen)
        arguments["nulls"] = rng.choice(
            ("error", "suppress", "suppress", "category", "category")
            if holes
            else ("error", "error", "suppress", "category")
        )
        if arguments["nulls"] == "suppress" or method == "full_domain":
            arguments["max_suppression"] = rng.choice((1.0, 1.0, 0.5, 0.1))
        elif rng.random() < 0.3:
            arguments["max_suppression"] = rng.choice((0.0, 0.2))
        self.chosen = chosen

    def _recoding(self, method: str) -> None:
        if method in SUPPRESSING:
            return
        rng, arguments = self.rng, self.arguments
        numeric = all(column.family in NUMBERS for column in self.chosen)
        generalizing = method in GENERALIZING
        if not generalizing and method != "secure_kward" and rng.random() < 0.3:
            arguments["recoding"] = rng.choice(("median", "medoid", "generalization"))
            generalizing = arguments["recoding"] == "generalization"
            if generalizing and method == "individual_ranking":
                del arguments["recoding"]
                generalizing = False
        elif generalizing and numeric and method not in LEVELS and rng.random() < 0.15:
            arguments["recoding"] = "mean"
            generalizing = False
        if method == "individual_ranking":
            arguments["guarantee"] = "per_attribute"
        if not generalizing:
            return
        arguments["intervals"] = rng.choice(
            ("text", "text", "bounds", "midpoint")
            + (("range",) if self.database == "postgresql" else ())
        )
        arguments["local_range"] = rng.random() < 0.3
        hierarchies: dict[str, Any] = {}
        for column in self.chosen:
            has_order = column.name in arguments.get("orders", {})
            if rng.random() < 0.5 and not has_order and method in GENERALIZING:
                if (tree := self._hierarchy(column)) is not None:
                    hierarchies[column.name] = tree
            elif column.family in ("integer", "decimal", "date") and rng.random() < 0.2:
                arguments.setdefault("steps", {})[column.name] = rng.choice((1, 5, 30))
        if hierarchies:
            arguments["hierarchies"] = hierarchies

    def _hierarchy(self, column: Column) -> dict[str, Any] | None:
        rng = self.rng
        if column.extreme or column.sql_type.startswith("char("):
            return None
        if column.family == "integer":
            # Labels of neighbouring values name values of the column.
            if self.arguments["local_range"] and rng.random() < 0.5:
                return {"ordered": True, "fanout": 3}
            return {"intervals": [5, 10, 50]}
        if column.family == "date":
            return {"dates": rng.choice((["month", "year"], ["year", "decade"], ["quarter", "5y"]))}
        if column.family not in ("text", "enum") or not column.levels or "*" in column.levels:
            return None
        if rng.random() < 0.1:
            return {"mask": True} if len({len(level) for level in column.levels}) == 1 else None
        if rng.random() < 0.2 and "" not in column.levels:
            return {"ordered": list(column.levels), "fanout": 2}
        paths = [[level, f"group {i // 2}", "*"] for i, level in enumerate(column.levels)]
        if rng.random() < 0.5:
            return {"levels": paths}
        name = f"tree {len(self.more)}"
        body = "leaf text, level1 text, level2 text"
        relation = f"app.{quote(name)}" if self.database != "sqlite" else quote(f"app_{name}")
        self.more.append(f"CREATE TABLE {relation} ({body})")
        for path in paths:
            listed = ", ".join(literal(label) for label in path)
            self.more.append(f"INSERT INTO {relation} VALUES ({listed})")
        return {"table": f"app.{name}"}

    def _strata(self) -> None:
        if self.rng.random() < 0.2:
            self.arguments["by"] = [
                self._few(f"b{i}").name for i in range(self.rng.choice((1, 1, 2)))
            ]

    def _few(self, plain: str) -> Column:
        families = [*NUMBERS, *CATEGORIES, "other"]
        family = self.rng.choice([f for f in families if f in TYPES[self.database]])
        column = self._column(family, plain, few=True)
        if self.rng.random() < 0.15:
            column = column.holes(self.rng, 0.2)
            self._replace(column)
        return column

    def _choose_copied(self) -> None:
        rng = self.rng
        self.unique = None
        if rng.random() < 0.7:
            column = unique_column(rng, self.database, self.names.take("uid"), self.n)
            self.columns.append(column)
            self.unique = column.name
        families = [*NUMBERS, *CATEGORIES, "other"]
        every = [f for f in families if f in TYPES[self.database]]
        self.sensitive = []
        if rng.random() < 0.6:
            family = rng.choice([f for f in ("text", "integer", "enum", "date") if f in every])
            self.sensitive = [self._column(family, "s0", few=rng.random() < 0.3)]
        copied = []
        if rng.random() < 0.5:
            copied = [self._column(rng.choice(every), f"c{i}") for i in range(rng.choice((1, 2)))]
        for column in [*self.sensitive, *copied]:
            if rng.random() < 0.3:
                self._replace(column.holes(rng, 0.2))
        if self.unique is not None and rng.random() < 0.8:
            copied.append(self.columns[[c.name for c in self.columns].index(self.unique)])
        self.arguments["sensitive"] = [column.name for column in self.sensitive]
        self.arguments["keep"] = [column.name for column in copied]
        # Not named in any argument, so it must not be copied.
        self._column("text", "secret")

    def _persons(self, method: str) -> None:
        if method in ("individual_ranking", "global_recoding") or self.rng.random() > 0.15:
            return
        column = entity_column(self.rng, self.database, self.names.take("person"), self.n)
        if self.rng.random() < 0.1:
            column = column.holes(self.rng, 0.02)
        self.columns.append(column)
        self.arguments["entity"] = column.name
        # Each case is released more than once.
        self.arguments["releases"] = "independent"

    def _models(self, method: str) -> None:
        rng = self.rng
        if not self.sensitive or method == "individual_ranking" or rng.random() > 0.35:
            return
        if method == "global_recoding":
            return
        column = self.sensitive[0]
        if column.extreme:
            return
        kind = rng.choice(list(MODELS))
        low, high = MODELS[kind]
        level = rng.randint(1, 3) if kind == "distinct_l" else round(rng.uniform(low, high), 3)
        model: dict[str, Any] = {"kind": kind, "attribute": column.name, "level": level}
        if kind == "recursive_cl":
            model["l"] = rng.choice((1, 2))
        if kind == "t_closeness":
            model["distance"] = rng.choice(("equal", "ordered"))
        self.arguments["models"] = [model]
        if rng.random() < 0.25:
            self.arguments |= {"withhold_failing": True, "max_suppression": rng.choice((0.2, 1.0))}

    def _search(self, method: str) -> None:
        rng, arguments = self.rng, self.arguments
        if method not in CATEGORICAL:
            arguments["standardize"] = rng.choice(("zscore", "zscore", "range", "none"))
            if method != "individual_ranking" and rng.random() < 0.1:
                arguments["standardize"] = "mahalanobis"
        if rng.random() < 0.15 and arguments.get("standardize") != "mahalanobis":
            arguments["weights"] = {self.chosen[0].name: rng.choice((0.5, 3.0))}
        if method in ("individual_ranking", "full_domain", "global_recoding"):
            return
        if rng.random() < 0.2:
            arguments |= {"refine": rng.choice(("fast", "fast", "thorough"))}
            arguments["refine_iterations"] = rng.choice((5, 50))
        if rng.random() < 0.15:
            arguments["block_size"] = max(2 * self.k, self.n // rng.choice((2, 3, 5)), 4)

    def _table(self) -> Table:
        rng = self.rng
        columns = list(self.columns)
        rng.shuffle(columns)
        shapes = ["plain", "plain", "dropped"] if self.database != "sqlite" else ["plain"]
        if self.unique is not None:
            shapes += ["key", "key", "view"]
            shapes += ["partitioned"] if self.database == "postgresql" else []
        shape = rng.choice(shapes)
        if shape == "view":
            self.arguments["key"] = [self.unique]
        schema = "app" if rng.random() < 0.8 else 'Ap"p s'
        name = rng.choice(("people", "People", "select", 'peo"ple', "p.eople", "ü" * 30))
        return Table(schema, name, tuple(columns), shape, self.unique, tuple(self.more))

    def _output(self) -> None:
        rng = self.rng
        schema = rng.choice(("release", "release", "neu er", "dist"))
        name = rng.choice(("people", "people", "Out put", "o" * 50, 'out"put', "out.put", "select"))
        self.arguments["output"] = f"{_format(schema)}.{_format(name)}"
        self.arguments["output_kind"] = rng.choice(("table", "table", "view"))


def _format(name: str) -> str:
    return quote(name) if "." in name or '"' in name else name
