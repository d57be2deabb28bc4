"""What must hold for a release, computed in SQL or from the rows that SQL returns.

Nothing here is imported from dbanon. Each check yields findings: sentences without values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import isclose
from operator import itemgetter
from typing import Any

from tests.faults.backends import Backend, Snapshot
from tests.faults.cases import GENERALIZING, SUPPRESSING, Case
from tests.faults.doors import Outcome, split
from tests.faults.expected import Row, counted
from tests.faults.expected import groups as strata_of
from tests.faults.levels import keeps, levels_of
from tests.faults.members import member_findings
from tests.faults.tables import MARKS, NUMBERS, literal, quote

LEDGER_COUNTS = ("rows_in", "rows_out", "suppressed", "classes", "smallest_class", "largest_class")


@dataclass(frozen=True)
class PublishedRelease:
    """A release: its rows as texts, and its source."""

    case: Case
    source: Backend
    backend: Backend
    rows: list[Row]
    original: list[Row]
    outcome: Outcome

    @property
    def quasi_identifiers(self) -> list[str]:
        """The names of the released columns."""
        return released_names(self.case)

    @property
    def output(self) -> tuple[str, str]:
        return split(self.case.arguments["output"])


def released_names(case: Case) -> list[str]:
    """The released quasi-identifiers; a range may take two columns."""
    arguments = case.arguments
    names = []
    for name in arguments["quasi_identifiers"]:
        two = (
            _is_generalized(case)
            and arguments.get("intervals") == "bounds"
            and _has_ranges(case, name)
        )
        names += [f"{name}_low", f"{name}_high"] if two else [name]
    return names


def _is_generalized(case: Case) -> bool:
    recoding = case.arguments.get("recoding")
    if recoding is not None:
        return bool(recoding == "generalization")
    return case.arguments["method"] in GENERALIZING


def _has_ranges(case: Case, name: str) -> bool:
    """Whether a column is released as ranges, not labels."""
    if name in case.arguments.get("hierarchies", {}):
        return False
    if name in case.arguments.get("orders", {}):
        return True
    return case.table.column(name).family in (*NUMBERS, "enum")


def read_rows(backend: Backend, relation: tuple[str, str]) -> list[Row]:
    """All rows of a relation as texts, in the order in which the database returns them."""
    names = [name for name, _ in backend.columns(*relation)]
    return [dict(zip(names, row, strict=True)) for row in backend.read(*relation, names)]


def check(published: PublishedRelease) -> list[str]:
    """All findings about a release."""
    findings: list[str] = []
    for look in CHECKS:
        findings += look(published)
    return findings


def columns_findings(p: PublishedRelease) -> Iterator[str]:
    arguments = p.case.arguments
    named = [*arguments.get("by", ()), *arguments["sensitive"], *arguments["keep"]]
    expected_names = Counter([*p.quasi_identifiers, *named])
    column_types = dict(p.backend.columns(*p.output))
    if Counter(list(column_types)) != expected_names:
        yield "columns: the release has others than were named"
    if p.case.target is not None:
        return
    before = dict(p.source.columns(p.case.table.schema, p.case.table.name))
    changed = [name for name in named if column_types.get(name, before[name]) != before[name]]
    if changed:
        yield f"types: {len(changed)} kept columns changed their type"
    if _is_generalized(p.case):
        return
    for name in arguments["quasi_identifiers"]:
        # A domain may become its base type.
        same = column_types.get(name) == before[name] or "domain of" in before[name]
        if not same and p.backend.kind != "sqlite":
            after = column_types.get(name)
            yield f"types: a quasi-identifier of type {before[name]} became {after}"


def k_findings(p: PublishedRelease) -> Iterator[str]:
    """Check k by GROUP BY, in which NULLs are equal, and again on the rows as read."""
    arguments = p.case.arguments
    by = list(arguments.get("by", ()))
    k = 1 if arguments.get("entity") else arguments["k"]
    if arguments.get("guarantee") == "per_attribute":
        sets = [[name, *by] for name in p.quasi_identifiers]
    else:
        sets = [[*p.quasi_identifiers, *by]]
    for names in sets:
        sql = (
            "SELECT min(n), count(*) FROM (SELECT count(*) AS n"
            f" FROM {p.backend.relation(*p.output)}"
            f" GROUP BY {', '.join(map(quote, names))}) AS classes"
        )
        [(smallest, _)] = p.backend.rows(sql)
        if smallest is None or smallest < k:
            yield f"k: a class of {smallest} rows by GROUP BY where k is {k}"
        seen = Counter(tuple(row.get(name) for name in names) for row in p.rows)
        if min(seen.values(), default=0) < k:
            yield f"k: {min(seen.values(), default=0)} rows share their texts where k is {k}"


def count_findings(p: PublishedRelease) -> Iterator[str]:
    report, rows, every = p.outcome.report, len(p.rows), len(p.original)
    suppressed = report.get("suppressed")
    if report.get("rows_in") != every or report.get("rows_out") != rows:
        yield "counts: rows in or out are not those reported"
    if suppressed != every - rows:
        yield "counts: suppressed rows do not add up"
    open_to_choice = p.case.arguments.get("withhold_failing") or (
        p.case.arguments["method"] == "full_domain"
    )
    complete_rows = sum(map(len, strata_of(p.original, p.case)))
    if rows > complete_rows or (rows != complete_rows and not open_to_choice):
        yield f"counts: {rows} rows released, {complete_rows} have what is needed"
    budget = p.case.arguments.get("max_suppression")
    if budget is not None and every and (every - rows) / every > budget + 1e-9:
        yield "counts: more withheld than allowed"


def kept_findings(p: PublishedRelease) -> Iterator[str]:
    """Kept columns must have the same combinations as the source, equally often."""
    arguments = p.case.arguments
    names = [*arguments.get("by", ()), *arguments["sensitive"], *arguments["keep"]]
    if p.case.target is not None:
        # Other types are printed differently by each database.
        names = [n for n in names if p.case.table.column(n).family in ("integer", "text", "enum")]
        if any(p.case.table.column(n).sql_type.startswith("char(") for n in names):
            return
    if not names:
        return
    released = Counter(tuple(row.get(name) for name in names) for row in p.rows)
    eligible = [row for stratum in strata_of(p.original, p.case) for row in stratum]
    source = Counter(tuple(row[name] for name in names) for row in eligible)
    if released - source:
        yield "kept: rows are released that the source has not"
    if len(p.rows) == len(eligible) and source - released:
        yield "kept: rows of the source are missing"


def _follows(backends: list[int]) -> bool:
    """Whether nearly all these positions ascend or descend."""
    n = len(backends)
    ranks = {value: i for i, value in enumerate(sorted(backends))}
    apart = sum((ranks[value] - i) ** 2 for i, value in enumerate(backends))
    return abs(1 - 6 * apart / (n * (n * n - 1))) > 0.9


def order_findings(p: PublishedRelease) -> Iterator[str]:
    """Rows must not be in the source's order; small tables may be by chance."""
    unique = p.case.table.unique
    if unique not in p.case.arguments["keep"] or len(p.rows) < 30:
        return
    position_of = {row[unique]: i for i, row in enumerate(p.original)}
    order = [position_of[row[unique]] for row in p.rows if row[unique] in position_of]
    # Rows of one class share values, so their neighbours say nothing about order.
    names = [*p.quasi_identifiers, *p.case.arguments.get("by", ())]
    classes = [
        tuple(row.get(name) for name in names) for row in p.rows if row[unique] in position_of
    ]
    pairs = [
        abs(a - b) == 1
        for (a, label), (b, other) in pairwise(zip(order, classes, strict=True))
        if label != other
    ]
    near = sum(pairs)
    if len(pairs) >= 12 and near > len(pairs) / 2:
        yield f"order: {near} of {len(pairs)} rows stand beside their neighbours of the source"
    # A few classes may be in the source's order by chance, as may classes with equal labels; the
    # rows of a large class may not.
    parts = [order] if len(pairs) >= 12 else []
    parts += [
        [position for position, _ in block]
        for _, block in groupby(zip(order, classes, strict=True), key=itemgetter(1))
    ]
    if any(len(part) >= 20 and _follows(part) for part in parts):
        yield "order: the released order follows the source's"


def model_findings(p: PublishedRelease) -> Iterator[str]:
    arguments = p.case.arguments
    names = [*p.quasi_identifiers, *arguments.get("by", ())]
    who = _persons(p) if arguments.get("entity") else None
    if arguments.get("entity") and who is None:
        return
    for model in arguments.get("models", ()):
        name = model["attribute"]
        numbers = p.case.table.column(name).family in ("integer", "decimal", "float")
        classes: dict[Any, list[Any]] = defaultdict(list)
        for row in p.rows:
            value = row.get(name)
            classes[tuple(row.get(n) for n in names)].append(
                value if who is None else (who.get(row[p.case.table.unique]), value)
            )
        for reached in levels_of(model, [*classes.values()], numbers, persons=who is not None):
            if not keeps(model, reached, 1e-6):
                yield f"model: {model['kind']} {model['level']} wanted, {reached:.6g} found"
                break


def _persons(p: PublishedRelease) -> dict[str | None, str | None] | None:
    """The person in a released row, if a kept column identifies the row."""
    unique, entity = p.case.table.unique, p.case.arguments["entity"]
    if unique is None or unique not in p.case.arguments["keep"]:
        return None
    return {row[unique]: row[entity] for row in p.original}


def entity_findings(p: PublishedRelease) -> Iterator[str]:
    """Count the persons in each class, if a kept column identifies the rows."""
    arguments = p.case.arguments
    unique, entity = p.case.table.unique, arguments.get("entity")
    if entity is None:
        return
    if entity in dict(p.backend.columns(*p.output)):
        yield "entity: the column is released"
    if unique not in arguments["keep"]:
        return
    original = {row[unique]: row for row in p.original}
    names = [*p.quasi_identifiers, *arguments.get("by", ())]
    classes: dict[Any, list[Row]] = defaultdict(list)
    for row in p.rows:
        if row[unique] in original:
            classes[tuple(row.get(n) for n in names)].append(original[row[unique]])
    fewest = min((counted(rows, p.case) for rows in classes.values()), default=0)
    if fewest < arguments["k"]:
        yield f"entity: a class holds {fewest} persons where k is {arguments['k']}"


def ledger_findings(p: PublishedRelease) -> Iterator[str]:
    """The newest ledger entry must describe the release."""
    schema, name = p.output
    schema_filter = f"AND output_schema = {literal(schema)}"
    if p.backend.kind == "sqlite":
        schema, name, schema_filter = "", f"{schema}_{name}", ""
    columns = ", ".join((*LEDGER_COUNTS, "k_requested", "k_achieved"))
    entries = p.backend.rows(
        f"SELECT {columns} FROM {p.backend.relation('dbanon', 'release')} WHERE output_name ="
        f" {literal(name)} {schema_filter} AND superseded_at IS NULL"
    )
    if len(entries) != 1:
        yield f"ledger: {len(entries)} rows are current for the output"
        return
    entry = dict(zip((*LEDGER_COUNTS, "k_requested", "k_achieved"), entries[0], strict=True))
    if (entry["rows_in"], entry["rows_out"]) != (len(p.original), len(p.rows)):
        yield "ledger: rows in or out are not what is there"
    if entry["k_requested"] != p.case.arguments["k"] or entry["k_achieved"] < entry["k_requested"]:
        yield "ledger: k is not what was asked for"
    if p.case.arguments.get("guarantee") == "per_attribute":
        return
    names = [*p.quasi_identifiers, *p.case.arguments.get("by", ())]
    [(smallest, largest, classes)] = p.backend.rows(
        "SELECT min(n), max(n), count(*) FROM (SELECT count(*) AS n FROM"
        f" {p.backend.relation(*p.output)} GROUP BY {', '.join(map(quote, names))}) AS x"
    )
    if (entry["smallest_class"], entry["largest_class"], entry["classes"]) != (
        smallest,
        largest,
        classes,
    ):
        yield "ledger: class sizes are not what is there"


def total_findings(p: PublishedRelease) -> Iterator[str]:
    """Means preserve the sum of a column up to the rounding of each row."""
    case = p.case
    if _is_generalized(case) or case.arguments.get("recoding") or case.target is not None:
        return
    if case.arguments["method"] in ("secure_kward", *SUPPRESSING) or len(p.rows) != len(p.original):
        return
    for name in case.arguments["quasi_identifiers"]:
        column = case.table.column(name)
        if column.family not in ("integer", "decimal", "float") or column.extreme:
            continue
        before = [float(row[name] or 0) for row in p.original]
        after = [float(row[name] or 0) for row in p.rows]
        size = max(map(abs, before), default=1.0)
        unit = {"integer": 1.0, "decimal": _unit(column.sql_type, p.rows, name)}.get(
            column.family, 1e-5 * size
        )
        if not isclose(sum(before), sum(after), rel_tol=1e-6, abs_tol=0.51 * unit * len(before)):
            yield f"truth: the sum of a column of type {column.sql_type} changed"


def _unit(sql_type: str, rows: list[Row], name: str) -> float:
    digits = max((len((row[name] or "").partition(".")[2]) for row in rows), default=0)
    return float(10.0**-digits)


def truth_findings(p: PublishedRelease) -> Iterator[str]:
    """Compare released values with their source rows, if a kept column identifies them."""
    unique = p.case.table.unique
    if unique not in p.case.arguments["keep"] or p.case.target is not None:
        return
    original = {row[unique]: row for row in p.original}
    pairs = [(row, original[row[unique]]) for row in p.rows if row[unique] in original]
    yield from member_findings(p.case, pairs, _is_generalized(p.case))


CHECKS: tuple[Callable[[PublishedRelease], Iterator[str]], ...] = (
    columns_findings,
    k_findings,
    count_findings,
    kept_findings,
    order_findings,
    model_findings,
    entity_findings,
    ledger_findings,
    total_findings,
    truth_findings,
)


def left_over(
    case: Case, door: str, backend: Backend, before: Snapshot, after: Snapshot, replaced: bool
) -> list[str]:
    """Report anything that a run left besides the release."""
    schema, name = split(case.arguments["output"])
    prefix = f"{schema}_" if backend.kind == "sqlite" else ""
    home = "" if backend.kind == "sqlite" else schema
    allowed = {(home, prefix + name)}
    if door == "sql":
        allowed.add((home, f"{name}_summary"))
    ledger = ("", "dbanon_") if backend.kind == "sqlite" else ("dbanon", "")
    ledger_rows = backend.rows(f"SELECT relation_name FROM {backend.relation('dbanon', 'release')}")
    allowed |= {(home, relation) for (relation,) in ledger_rows}
    new = {
        key
        for key in after.relations.keys() - before.relations
        if key not in allowed
        and not (key[0] == ledger[0] and key[1].startswith(ledger[1]))
        and not key[1].startswith("sqlite_autoindex_dbanon")
    }
    findings = [f"left over: {len(new)} relations, such as {sorted(new)[0]}"] if new else []
    removed = before.relations.keys() - after.relations
    if removed and not replaced:
        findings.append(f"left over: {len(removed)} relations are gone")
    schemas = {
        thing[1] for thing in after.catalog_objects - before.catalog_objects if thing[0] == "schema"
    }
    if schemas - {schema, "dbanon"}:
        findings.append("left over: a schema")
    others = {thing[0] for thing in after.catalog_objects - before.catalog_objects} - {
        "schema",
        "column",
        "type",
    }
    if others:
        findings.append(f"left over: {sorted(others)}")
    findings += [f"left over: {lock}" for lock in after.locks]
    changed = [
        key
        for key in before.contents.keys() & after.contents
        if before.contents[key] != after.contents[key]
        and key not in allowed
        and not (key[0] == ledger[0] and key[1].startswith(ledger[1]))
    ]
    if changed:
        findings.append(f"left over: rows of {changed} changed")
    return findings


def leaked_values(messages: str) -> list[str]:
    """Report values of the data in messages: how many, and of which kind."""
    marks = MARKS.findall(messages)
    return [f"leak: {len(marks)} values, such as {marks[0]}"] if marks else []
