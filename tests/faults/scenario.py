"""One case from beginning to end: made, run, asked about, run again, tampered with."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.faults import doors, expected, oracle
from tests.faults.cases import Case
from tests.faults.doors import Outcome, split
from tests.faults.places import Place, PostgresqlPlace, Snapshot
from tests.faults.tables import quote
from tests.faults.yard import Yard, documented_errors

# Rows of these may change by a run that fails: it is recorded there.
RUNS = (("dbanon", "run"), ("", "dbanon_run"), ("dbanon", "publication"))


@dataclass
class Result:
    """What a case came to: released, or refused with a code."""

    findings: list[str] = field(default_factory=list)
    outcome: str = ""
    answers: int = 0
    """Of readers beside the run."""

    def add(self, stage: str, found: list[str]) -> None:
        self.findings += [f"{stage}: {text}" for text in found]


def call(case: Case, place: Place, target: Place | None, **more: Any) -> Outcome:
    """The case's call at its door."""
    arguments = {**case.arguments, **more}
    table = (case.table.schema, case.table.name)
    if case.door == "sql":
        assert isinstance(place, PostgresqlPlace)
        return doors.by_sql(place, table, arguments)
    shown = ".".join(quote(part) for part in table)
    if target is not None:
        arguments["target"] = target.url
    if case.door == "command":
        try:
            return doors.run_command(doors.command_line(place.url, shown, arguments))
        except doors.NotExpressibleError:
            pass
    return doors.by_python(place, shown, arguments)


def run_case(case: Case, yard: Yard) -> Result:
    """Run a case with everything that follows from it."""
    result = Result()
    rng = Random(f"scenario {case.seed} {case.number}")
    with ExitStack() as stack:
        functions = case.door == "sql" or rng.random() < 0.5
        place = stack.enter_context(yard.place(case.database, functions))
        there = place
        if case.target is not None:
            there = stack.enter_context(yard.place(case.target, functions))
        place.load(case.table)
        if case.door == "sql":
            there.make_schema(split(case.arguments["output"])[0])
        original = oracle.read_rows(place, (case.table.schema, case.table.name))
        run = _Run(case, place, there, original, rng, result)
        with yard.server.capture_log() as log:
            run.all()
        result.add("log", [f"{text} (server's log)" for text in oracle.told_values(log.text)])
    return result


class _Run:
    def __init__(
        self,
        case: Case,
        place: Place,
        there: Place,
        original: list[expected.Row],
        rng: Random,
        result: Result,
    ) -> None:
        self.case, self.place, self.there = case, place, there
        self.original, self.rng, self.result = original, rng, result
        self.target = there if there is not place else None

    def all(self) -> None:
        outcome = self.first()
        if not outcome.ok:
            return
        self.verified("verify")
        stages = [self.again, self.replaced, self.withheld, self.tampered]
        for stage in stages[:3]:
            if self.rng.random() < 0.4:
                stage()
        if self.rng.random() < 0.5:
            self.tampered()

    def first(self) -> Outcome:
        case, result = self.case, self.result
        before = self.snapshots()
        outcome = call(case, self.place, self.target)
        after = self.snapshots()
        result.add("run", oracle.told_values(outcome.said))
        must, may = expected.due(case, self.original)
        if not outcome.ok:
            code = outcome.code or outcome.sqlstate
            result.outcome = str(code)
            result.add("refusal", refusal_findings(outcome, case.door, must, may))
            result.add("refusal", changes(before, after))
            return outcome
        result.outcome = "released"
        if must:
            result.add("run", [f"released where {sorted(must)[0]} was due"])
        result.add("release", self.findings(outcome, case))
        result.add(
            "release",
            oracle.left_over(case, case.door, self.there, before[-1], after[-1], False),
        )
        if self.target is not None:
            result.add("source", changes(before[:1], after[:1]))
        return outcome

    def findings(self, outcome: Outcome, case: Case) -> list[str]:
        rows = oracle.read_rows(self.there, split(case.arguments["output"]))
        published = oracle.Published(case, self.place, self.there, rows, self.original, outcome)
        return oracle.check(published)

    def snapshots(self) -> list[Snapshot]:
        places = [self.place] if self.target is None else [self.place, self.target]
        return [place.snapshot() for place in places]

    def verified(self, stage: str) -> None:
        output = self.case.arguments["output"]
        for door in {"command", self.case.door} - {"python"}:
            if door == "sql" and not isinstance(self.there, PostgresqlPlace):
                continue
            found = doors.verify(self.there, door, output)
            if not found.ok:
                self.result.add(stage, [f"{found.code or found.sqlstate} at door {door}"])
            self.result.add(stage, oracle.told_values(found.said))

    def again(self) -> None:
        """A second run without ``replace`` is refused and changes nothing."""
        before = self.snapshots()
        outcome = call(self.case, self.place, self.target)
        found = refusal_findings(outcome, self.case.door, {"output_exists"}, set())
        self.result.add("again", found if not outcome.ok else ["the output was replaced unasked"])
        self.result.add("again", changes(before, self.snapshots()))

    def replaced(self) -> None:
        """A replacement is a release like the first; what it replaced is gone or collected."""
        before = self.snapshots()
        case = replace(self.case, arguments={**self.case.arguments, "k": 2})
        if case.arguments.get("block_size"):
            case.arguments["block_size"] = max(case.arguments["block_size"], 4)
        outcome = call(case, self.place, self.target, if_exists="replace")
        if not outcome.ok:
            must, may = expected.due(case, self.original)
            found = refusal_findings(outcome, case.door, must, may)
            self.result.add("replace", found + changes(before, self.snapshots()))
            return
        self.result.add("replace", self.findings(outcome, case))
        self.result.add(
            "replace",
            oracle.left_over(case, case.door, self.there, before[-1], self.there.snapshot(), True),
        )
        self.case = case
        doors.collect_garbage(self.there)
        self.verified("replace, gc")
        wanted = 1 + (case.arguments["output_kind"] == "view") + (case.door == "sql")
        home = split(case.arguments["output"])[0]
        there = [name for schema, name in self.there.snapshot().relations if schema == home]
        if self.there.kind != "sqlite" and len(there) != wanted:
            self.result.add("gc", [f"{len(there)} relations are left, not {wanted}"])

    def withheld(self) -> None:
        """What a withheld record holds changes nothing that is released."""
        case = self.case
        names = case.arguments["quasi_identifiers"]
        if case.arguments["nulls"] != "suppress" or case.table.shape == "view":
            return
        if self.target is not None or not any(
            None in (row[name] for name in names) for row in self.original
        ):
            return
        relation = self.place.relation(case.table.schema, case.table.name)
        holes = " OR ".join(f"{quote(name)} IS NULL" for name in names)
        changed = [
            f"{quote(name)} = CASE WHEN {quote(name)} IS NULL THEN NULL ELSE 100 END"
            for name in names
            if case.table.column(name).family in ("integer", "float", "decimal")
        ]
        if not changed:
            return
        output = split(case.arguments["output"])
        columns = [*oracle.released_names(case), *case.arguments.get("by", ())]
        before = Counter(self.place.read(*output, columns))
        self.place.execute(f"UPDATE {relation} SET {', '.join(changed)} WHERE {holes}")
        outcome = call(case, self.place, None, if_exists="replace")
        self.original = oracle.read_rows(self.place, (case.table.schema, case.table.name))
        if not outcome.ok:
            self.result.add("withheld", [f"refused: {outcome.code or outcome.sqlstate}"])
        elif Counter(self.place.read(*output, columns)) != before:
            self.result.add("withheld", ["a withheld record's values changed what is released"])

    def tampered(self) -> None:
        """``verify`` does not pass a release that somebody changed."""
        case = self.case
        output = split(case.arguments["output"])
        if case.arguments["output_kind"] == "view":
            return
        relation = self.there.relation(*output)
        columns = self.there.columns(*output)
        kept = [*case.arguments["sensitive"], *case.arguments["keep"]]
        texts = [name for name in kept if case.table.column(name).family in ("text", "integer")]
        ways = {
            "a column was added": f"ALTER TABLE {relation} ADD COLUMN told_more VARCHAR(9)",
            "rows were deleted": f"DELETE FROM {relation}",
        }
        if texts:
            column = quote(texts[0])
            ways["a kept column was emptied"] = f"UPDATE {relation} SET {column} = NULL"
        names = dict(columns)
        first = oracle.released_names(case)[0]
        ways["a quasi-identifier was renamed"] = (
            f"ALTER TABLE {relation} RENAME COLUMN {quote(first)} TO renamed_away"
        )
        what = self.rng.choice(sorted(ways))
        if what.startswith("a kept") and not any(
            row[texts[0]] is not None for row in oracle.read_rows(self.there, output)
        ):
            return
        assert first in names
        self.there.execute(ways[what])
        door = self.rng.choice(sorted({"command", self.case.door} - {"python"}))
        if self.target is not None and door == "sql":
            return
        found = doors.verify(self.there, door, case.arguments["output"])
        if found.ok:
            self.result.add("tampered", [f"verify passed: {what}"])
        elif found.code == doors.UNEXPECTED or (found.sqlstate or "").startswith("XX"):
            self.result.add("tampered", [f"unexpected from verify: {what}"])


def refusal_findings(outcome: Outcome, door: str, must: set[str], may: set[str]) -> list[str]:
    """What is wrong with a refusal: its code, exit code and SQLSTATE, and whether it was due."""
    known = documented_errors()
    allowed = must or may
    if door == "sql":
        states = {known[code][1] for code in allowed if code in known}
        if outcome.sqlstate not in {sqlstate for _, sqlstate in known.values()}:
            return [f"SQLSTATE {outcome.sqlstate} is not documented ({_place(outcome)})"]
        return [] if outcome.sqlstate in states | _also(must, may) else [_undue(outcome, allowed)]
    if outcome.code not in known:
        return [f"error {outcome.code} is not documented ({_place(outcome)})"]
    exit_code, sqlstate = known[outcome.code]
    found = []
    if outcome.exit_code != exit_code or outcome.sqlstate not in (None, sqlstate):
        found.append(f"{outcome.code}: exit code or SQLSTATE are not those documented")
    if outcome.code not in must | may:
        found.append(_undue(outcome, allowed))
    return found


def _also(must: set[str], may: set[str]) -> set[str]:
    known = documented_errors()
    return {known[code][1] for code in must | may if code in known}


def _undue(outcome: Outcome, allowed: set[str]) -> str:
    wanted = " or ".join(sorted(allowed)) or "a release"
    return f"{outcome.code or outcome.sqlstate} where {wanted} was due ({_place(outcome)})"


def _place(outcome: Outcome) -> str:
    """The first line of what was said, which holds no value, or a leak is found as well."""
    lines = [line for line in outcome.said.splitlines() if line.strip(" {}[],")]
    told = [line for line in lines if '"message"' in line] or lines
    return told[0].strip()[:200] if told else "nothing was said"


def changes(before: list[Snapshot], after: list[Snapshot]) -> list[str]:
    """What a run that failed left or changed; that it failed may be recorded."""
    found = []
    for old, new in zip(before, after, strict=True):
        found += [f"left behind: {text}" for text in old.differences(new, ignore=RUNS)]
    return found[:3]
