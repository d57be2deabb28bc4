"""What must hold of a release: asked in SQL, or worked out on the rows that SQL gives.

Nothing here comes from dbanon. Each check gives findings: sentences without values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import isclose
from operator import itemgetter
from typing import Any

from tests.faults.cases import GENERALIZING, Case
from tests.faults.doors import Outcome, split
from tests.faults.expected import Row, counted
from tests.faults.expected import groups as strata_of
from tests.faults.levels import keeps, levels_of
from tests.faults.members import member_findings
from tests.faults.places import Place, Snapshot
from tests.faults.tables import MARKS, NUMBERS, literal, quote

LEDGER_COUNTS = ("rows_in", "rows_out", "suppressed", "classes", "smallest_class", "largest_class")


@dataclass(frozen=True)
class Published:
    """A release as it stands: its rows as texts, and where it came from."""

    case: Case
    source: Place
    place: Place
    rows: list[Row]
    original: list[Row]
    outcome: Outcome

    @property
    def quasi_identifiers(self) -> list[str]:
        """The columns that they were released as."""
        return released_names(self.case)

    @property
    def output(self) -> tuple[str, str]:
        return split(self.case.arguments["output"])


def released_names(case: Case) -> list[str]:
    """Quasi-identifiers as a release names them: ranges may take two columns."""
    arguments = case.arguments
    names = []
    for name in arguments["quasi_identifiers"]:
        two = _generalized(case) and arguments.get("intervals") == "bounds" and _ranged(case, name)
        names += [f"{name}_low", f"{name}_high"] if two else [name]
    return names


def _generalized(case: Case) -> bool:
    recoding = case.arguments.get("recoding")
    if recoding is not None:
        return bool(recoding == "generalization")
    return case.arguments["method"] in GENERALIZING


def _ranged(case: Case, name: str) -> bool:
    """Whether ranges are released of a column, not labels."""
    if name in case.arguments.get("hierarchies", {}):
        return False
    if name in case.arguments.get("orders", {}):
        return True
    return case.table.column(name).family in (*NUMBERS, "enum")


def read_rows(place: Place, relation: tuple[str, str]) -> list[Row]:
    """All rows of a relation as texts, in the order in which the database gives them."""
    names = [name for name, _ in place.columns(*relation)]
    return [dict(zip(names, row, strict=True)) for row in place.read(*relation, names)]


def check(published: Published) -> list[str]:
    """Everything that is wrong with a release."""
    found: list[str] = []
    for look in CHECKS:
        found += look(published)
    return found


def columns_findings(p: Published) -> Iterator[str]:
    arguments = p.case.arguments
    named = [*arguments.get("by", ()), *arguments["sensitive"], *arguments["keep"]]
    wanted = Counter([*p.quasi_identifiers, *named])
    there = dict(p.place.columns(*p.output))
    if Counter(list(there)) != wanted:
        yield "columns: the release has others than were named"
    if p.case.target is not None:
        return
    before = dict(p.source.columns(p.case.table.schema, p.case.table.name))
    kept = [name for name in named if there.get(name, before[name]) != before[name]]
    if kept:
        yield f"types: {len(kept)} kept columns changed their type"
    if _generalized(p.case):
        return
    for name in arguments["quasi_identifiers"]:
        # A domain may become the type that it stands for.
        same = there.get(name) == before[name] or "domain of" in before[name]
        if not same and p.place.kind != "sqlite":
            yield f"types: a quasi-identifier of type {before[name]} became {there.get(name)}"


def k_findings(p: Published) -> Iterator[str]:
    """k by GROUP BY, in which NULLs are equal, and again on what readers see."""
    arguments = p.case.arguments
    by = list(arguments.get("by", ()))
    k = 1 if arguments.get("entity") else arguments["k"]
    if arguments.get("guarantee") == "per_attribute":
        sets = [[name, *by] for name in p.quasi_identifiers]
    else:
        sets = [[*p.quasi_identifiers, *by]]
    for names in sets:
        sql = (
            f"SELECT min(n), count(*) FROM (SELECT count(*) AS n FROM {p.place.relation(*p.output)}"
            f" GROUP BY {', '.join(map(quote, names))}) AS classes"
        )
        [(smallest, _)] = p.place.rows(sql)
        if smallest is None or smallest < k:
            yield f"k: a class of {smallest} rows by GROUP BY where k is {k}"
        seen = Counter(tuple(row.get(name) for name in names) for row in p.rows)
        if min(seen.values(), default=0) < k:
            yield f"k: {min(seen.values(), default=0)} rows share their texts where k is {k}"


def count_findings(p: Published) -> Iterator[str]:
    report, rows, every = p.outcome.report, len(p.rows), len(p.original)
    suppressed = report.get("suppressed")
    if report.get("rows_in") != every or report.get("rows_out") != rows:
        yield "counts: rows in or out are not those reported"
    if suppressed != every - rows:
        yield "counts: suppressed rows do not add up"
    open_to_choice = p.case.arguments.get("withhold_failing") or (
        p.case.arguments["method"] == "full_domain"
    )
    known = sum(map(len, strata_of(p.original, p.case)))
    if rows > known or (rows != known and not open_to_choice):
        yield f"counts: {rows} rows released, {known} have what is needed"
    budget = p.case.arguments.get("max_suppression")
    if budget is not None and every and (every - rows) / every > budget + 1e-9:
        yield "counts: more withheld than allowed"


def kept_findings(p: Published) -> Iterator[str]:
    """Kept columns together have the source's values, as often, for the rows released."""
    arguments = p.case.arguments
    names = [*arguments.get("by", ()), *arguments["sensitive"], *arguments["keep"]]
    if p.case.target is not None:
        # Texts of other types differ between databases.
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


def _follows(places: list[int]) -> bool:
    """Whether these places ascend or descend nearly all the way."""
    n = len(places)
    ranks = {value: i for i, value in enumerate(sorted(places))}
    apart = sum((ranks[value] - i) ** 2 for i, value in enumerate(places))
    return abs(1 - 6 * apart / (n * (n * n - 1))) > 0.9


def order_findings(p: Published) -> Iterator[str]:
    """Rows must not stand in the source's order; small tables may by chance."""
    unique = p.case.table.unique
    if unique not in p.case.arguments["keep"] or len(p.rows) < 30:
        return
    place = {row[unique]: i for i, row in enumerate(p.original)}
    order = [place[row[unique]] for row in p.rows if row[unique] in place]
    # Rows of one class stand together, and may be neighbours for what they are.
    names = [*p.quasi_identifiers, *p.case.arguments.get("by", ())]
    classes = [tuple(row.get(name) for name in names) for row in p.rows if row[unique] in place]
    pairs = [
        abs(a - b) == 1
        for (a, one), (b, other) in pairwise(zip(order, classes, strict=True))
        if one != other
    ]
    near = sum(pairs)
    if len(pairs) >= 12 and near > len(pairs) / 2:
        yield f"order: {near} of {len(pairs)} rows stand beside their neighbours of the source"
    # A few classes stand in the source's order by chance, also those that are released alike; the
    # rows of a large one do not.
    parts = [order] if len(pairs) >= 12 else []
    parts += [
        [place for place, _ in block]
        for _, block in groupby(zip(order, classes, strict=True), key=itemgetter(1))
    ]
    if any(len(part) >= 20 and _follows(part) for part in parts):
        yield "order: the released order follows the source's"


def model_findings(p: Published) -> Iterator[str]:
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


def _persons(p: Published) -> dict[str | None, str | None] | None:
    """Whose row a released one is, where a kept column tells it."""
    unique, entity = p.case.table.unique, p.case.arguments["entity"]
    if unique is None or unique not in p.case.arguments["keep"]:
        return None
    return {row[unique]: row[entity] for row in p.original}


def entity_findings(p: Published) -> Iterator[str]:
    """Persons of each class, where a kept column tells whose row a released one is."""
    arguments = p.case.arguments
    unique, entity = p.case.table.unique, arguments.get("entity")
    if entity is None:
        return
    if entity in dict(p.place.columns(*p.output)):
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


def ledger_findings(p: Published) -> Iterator[str]:
    """The newest row of the ledger says what is there."""
    schema, name = p.output
    shown = f"AND output_schema = {literal(schema)}"
    if p.place.kind == "sqlite":
        schema, name, shown = "", f"{schema}_{name}", ""
    columns = ", ".join((*LEDGER_COUNTS, "k_requested", "k_achieved"))
    found = p.place.rows(
        f"SELECT {columns} FROM {p.place.relation('dbanon', 'release')} WHERE output_name ="
        f" {literal(name)} {shown} AND superseded_at IS NULL"
    )
    if len(found) != 1:
        yield f"ledger: {len(found)} rows are current for the output"
        return
    told = dict(zip((*LEDGER_COUNTS, "k_requested", "k_achieved"), found[0], strict=True))
    if (told["rows_in"], told["rows_out"]) != (len(p.original), len(p.rows)):
        yield "ledger: rows in or out are not what is there"
    if told["k_requested"] != p.case.arguments["k"] or told["k_achieved"] < told["k_requested"]:
        yield "ledger: k is not what was asked for"
    if p.case.arguments.get("guarantee") == "per_attribute":
        return
    names = [*p.quasi_identifiers, *p.case.arguments.get("by", ())]
    [(smallest, largest, classes)] = p.place.rows(
        "SELECT min(n), max(n), count(*) FROM (SELECT count(*) AS n FROM"
        f" {p.place.relation(*p.output)} GROUP BY {', '.join(map(quote, names))}) AS x"
    )
    if (told["smallest_class"], told["largest_class"], told["classes"]) != (
        smallest,
        largest,
        classes,
    ):
        yield "ledger: class sizes are not what is there"


def total_findings(p: Published) -> Iterator[str]:
    """Means keep the sum of a column, but for the rounding of each row."""
    case = p.case
    if _generalized(case) or case.arguments.get("recoding") or case.target is not None:
        return
    if case.arguments["method"] == "secure_kward" or len(p.rows) != len(p.original):
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


def truth_findings(p: Published) -> Iterator[str]:
    """Each released value against the rows that it stands for, where a kept column tells them."""
    unique = p.case.table.unique
    if unique not in p.case.arguments["keep"] or p.case.target is not None:
        return
    original = {row[unique]: row for row in p.original}
    pairs = [(row, original[row[unique]]) for row in p.rows if row[unique] in original]
    yield from member_findings(p.case, pairs, _generalized(p.case))


CHECKS: tuple[Callable[[Published], Iterator[str]], ...] = (
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
    case: Case, door: str, place: Place, before: Snapshot, after: Snapshot, replaced: bool
) -> list[str]:
    """What a release left beside itself."""
    schema, name = split(case.arguments["output"])
    prefix = f"{schema}_" if place.kind == "sqlite" else ""
    home = "" if place.kind == "sqlite" else schema
    allowed = {(home, prefix + name)}
    if door == "sql":
        allowed.add((home, f"{name}_summary"))
    ledger = ("", "dbanon_") if place.kind == "sqlite" else ("dbanon", "")
    shown = place.rows(f"SELECT relation_name FROM {place.relation('dbanon', 'release')}")
    allowed |= {(home, relation) for (relation,) in shown}
    new = {
        key
        for key in after.relations.keys() - before.relations
        if key not in allowed
        and not (key[0] == ledger[0] and key[1].startswith(ledger[1]))
        and not key[1].startswith("sqlite_autoindex_dbanon")
    }
    found = [f"left over: {len(new)} relations, such as {sorted(new)[0]}"] if new else []
    gone = before.relations.keys() - after.relations
    if gone and not replaced:
        found.append(f"left over: {len(gone)} relations are gone")
    schemas = {thing[1] for thing in after.things - before.things if thing[0] == "schema"}
    if schemas - {schema, "dbanon"}:
        found.append("left over: a schema")
    others = {thing[0] for thing in after.things - before.things} - {"schema", "column", "type"}
    if others:
        found.append(f"left over: {sorted(others)}")
    found += [f"left over: {held}" for held in after.held]
    changed = [
        key
        for key in before.contents.keys() & after.contents
        if before.contents[key] != after.contents[key]
        and key not in allowed
        and not (key[0] == ledger[0] and key[1].startswith(ledger[1]))
    ]
    if changed:
        found.append(f"left over: rows of {changed} changed")
    return found


def told_values(said: str) -> list[str]:
    """Values of the data in what was said: what kind of them, and how often."""
    found = MARKS.findall(said)
    return [f"leak: {len(found)} values, such as {found[0]}"] if found else []
