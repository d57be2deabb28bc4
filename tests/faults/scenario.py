"""One case from beginning to end: release, verify, repeat, replace, tamper."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.faults import doors, expected, oracle
from tests.faults.backends import Backend, PostgresqlBackend, Snapshot
from tests.faults.cases import Case
from tests.faults.doors import Outcome, split
from tests.faults.tables import quote
from tests.faults.workspace import Workspace, documented_errors

# A failed run may change the rows of these tables: it is recorded there.
RUNS = (("dbanon", "run"), ("", "dbanon_run"), ("dbanon", "publication"))


@dataclass
class Result:
    """The result of a case: released, or refused with a code."""

    findings: list[str] = field(default_factory=list)
    outcome: str = ""
    answers: int = 0
    """Queries by readers that ran concurrently."""

    def add(self, stage: str, findings: list[str]) -> None:
        self.findings += [f"{stage}: {text}" for text in findings]


def call(case: Case, backend: Backend, target: Backend | None, **more: Any) -> Outcome:
    """Run the case through its interface."""
    arguments = {**case.arguments, **more}
    table = (case.table.schema, case.table.name)
    if case.door == "sql":
        assert isinstance(backend, PostgresqlBackend)
        return doors.by_sql(backend, table, arguments)
    source = ".".join(quote(part) for part in table)
    if target is not None:
        arguments["target"] = target.url
    if case.door == "command":
        try:
            return doors.run_command(doors.command_line(backend.url, source, arguments))
        except doors.NotExpressibleError:
            pass
    return doors.by_python(backend, source, arguments)


def run_case(case: Case, workspace: Workspace) -> Result:
    """Run a case and all follow-up stages."""
    result = Result()
    rng = Random(f"scenario {case.seed} {case.number}")
    with ExitStack() as stack:
        functions = case.door == "sql" or rng.random() < 0.5
        backend = stack.enter_context(workspace.backend(case.database, functions))
        sink = backend
        if case.target is not None:
            sink = stack.enter_context(workspace.backend(case.target, functions))
        backend.load(case.table)
        if case.door == "sql":
            sink.make_schema(split(case.arguments["output"])[0])
        original = oracle.read_rows(backend, (case.table.schema, case.table.name))
        run = _Run(case, backend, sink, original, rng, result)
        with workspace.server.capture_log() as log:
            run.all()
        result.add("log", [f"{text} (server's log)" for text in oracle.leaked_values(log.text)])
    return result


class _Run:
    def __init__(
        self,
        case: Case,
        backend: Backend,
        sink: Backend,
        original: list[expected.Row],
        rng: Random,
        result: Result,
    ) -> None:
        self.case, self.backend, self.sink = case, backend, sink
        self.original, self.rng, self.result = original, rng, result
        self.target = sink if sink is not backend else None

    def all(self) -> None:
        outcome = self.first()
        if not outcome.ok:
            return
        self.verified("verify")
        stages = [self.again, self.check_replacement, self.withheld, self.check_tampering]
        for stage in stages[:3]:
            if self.rng.random() < 0.4:
                stage()
        if self.rng.random() < 0.5:
            self.check_tampering()

    def first(self) -> Outcome:
        case, result = self.case, self.result
        before = self.snapshots()
        outcome = call(case, self.backend, self.target)
        after = self.snapshots()
        result.add("run", oracle.leaked_values(outcome.messages))
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
            oracle.left_over(case, case.door, self.sink, before[-1], after[-1], False),
        )
        if self.target is not None:
            result.add("source", changes(before[:1], after[:1]))
        return outcome

    def findings(self, outcome: Outcome, case: Case) -> list[str]:
        rows = oracle.read_rows(self.sink, split(case.arguments["output"]))
        published = oracle.PublishedRelease(
            case, self.backend, self.sink, rows, self.original, outcome
        )
        return oracle.check(published)

    def snapshots(self) -> list[Snapshot]:
        backends = [self.backend] if self.target is None else [self.backend, self.target]
        return [backend.snapshot() for backend in backends]

    def verified(self, stage: str) -> None:
        output = self.case.arguments["output"]
        for door in {"command", self.case.door} - {"python"}:
            if door == "sql" and not isinstance(self.sink, PostgresqlBackend):
                continue
            verdict = doors.verify(self.sink, door, output)
            if not verdict.ok:
                self.result.add(stage, [f"{verdict.code or verdict.sqlstate} at door {door}"])
            self.result.add(stage, oracle.leaked_values(verdict.messages))

    def again(self) -> None:
        """A second run without ``replace`` must be refused and change nothing."""
        before = self.snapshots()
        outcome = call(self.case, self.backend, self.target)
        findings = refusal_findings(outcome, self.case.door, {"output_exists"}, set())
        self.result.add(
            "again", findings if not outcome.ok else ["the output was replaced unasked"]
        )
        self.result.add("again", changes(before, self.snapshots()))

    def check_replacement(self) -> None:
        """Check a replacement like a first release; the old one must be dropped or collected."""
        before = self.snapshots()
        case = replace(self.case, arguments={**self.case.arguments, "k": 2})
        if case.arguments.get("block_size"):
            case.arguments["block_size"] = max(case.arguments["block_size"], 4)
        outcome = call(case, self.backend, self.target, if_exists="replace")
        if not outcome.ok:
            must, may = expected.due(case, self.original)
            findings = refusal_findings(outcome, case.door, must, may)
            self.result.add("replace", findings + changes(before, self.snapshots()))
            return
        self.result.add("replace", self.findings(outcome, case))
        self.result.add(
            "replace",
            oracle.left_over(
                case,
                case.door,
                self.sink,
                before[-1],
                self.sink.snapshot(),
                True,
            ),
        )
        self.case = case
        doors.collect_garbage(self.sink)
        self.verified("replace, gc")
        expected_count = 1 + (case.arguments["output_kind"] == "view") + (case.door == "sql")
        home = split(case.arguments["output"])[0]
        outputs = [name for schema, name in self.sink.snapshot().relations if schema == home]
        if self.sink.kind != "sqlite" and len(outputs) != expected_count:
            self.result.add("gc", [f"{len(outputs)} relations are left, not {expected_count}"])

    def withheld(self) -> None:
        """The values of a withheld record must not affect the release."""
        case = self.case
        names = case.arguments["quasi_identifiers"]
        if case.arguments["nulls"] != "suppress" or case.table.shape == "view":
            return
        if self.target is not None or not any(
            None in (row[name] for name in names) for row in self.original
        ):
            return
        relation = self.backend.relation(case.table.schema, case.table.name)
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
        before = Counter(self.backend.read(*output, columns))
        self.backend.execute(f"UPDATE {relation} SET {', '.join(changed)} WHERE {holes}")
        outcome = call(case, self.backend, None, if_exists="replace")
        self.original = oracle.read_rows(self.backend, (case.table.schema, case.table.name))
        if not outcome.ok:
            self.result.add("withheld", [f"refused: {outcome.code or outcome.sqlstate}"])
        elif Counter(self.backend.read(*output, columns)) != before:
            self.result.add("withheld", ["a withheld record's values changed what is released"])

    def check_tampering(self) -> None:
        """``verify`` must reject a release that was modified."""
        case = self.case
        output = split(case.arguments["output"])
        if case.arguments["output_kind"] == "view":
            return
        relation = self.sink.relation(*output)
        columns = self.sink.columns(*output)
        copied = [*case.arguments["sensitive"], *case.arguments["keep"]]
        texts = [name for name in copied if case.table.column(name).family in ("text", "integer")]
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
        change = self.rng.choice(sorted(ways))
        if change.startswith("a kept") and not any(
            row[texts[0]] is not None for row in oracle.read_rows(self.sink, output)
        ):
            return
        assert first in names
        self.sink.execute(ways[change])
        door = self.rng.choice(sorted({"command", self.case.door} - {"python"}))
        if self.target is not None and door == "sql":
            return
        verdict = doors.verify(self.sink, door, case.arguments["output"])
        if verdict.ok:
            self.result.add("tampered", [f"verify passed: {change}"])
        elif verdict.code == doors.UNEXPECTED or (verdict.sqlstate or "").startswith("XX"):
            self.result.add("tampered", [f"unexpected from verify: {change}"])


def refusal_findings(outcome: Outcome, door: str, must: set[str], may: set[str]) -> list[str]:
    """Check a refusal: its code, exit code and SQLSTATE, and whether it was expected."""
    documented = documented_errors()
    allowed = must or may
    if door == "sql":
        states = {documented[code][1] for code in allowed if code in documented}
        if outcome.sqlstate not in {sqlstate for _, sqlstate in documented.values()}:
            return [f"SQLSTATE {outcome.sqlstate} is not documented ({first_line(outcome)})"]
        return [] if outcome.sqlstate in states | _also(must, may) else [_undue(outcome, allowed)]
    if outcome.code not in documented:
        return [f"error {outcome.code} is not documented ({first_line(outcome)})"]
    exit_code, sqlstate = documented[outcome.code]
    findings = []
    if outcome.exit_code != exit_code or outcome.sqlstate not in (None, sqlstate):
        findings.append(f"{outcome.code}: exit code or SQLSTATE are not those documented")
    if outcome.code not in must | may:
        findings.append(_undue(outcome, allowed))
    return findings


def _also(must: set[str], may: set[str]) -> set[str]:
    documented = documented_errors()
    return {documented[code][1] for code in must | may if code in documented}


def _undue(outcome: Outcome, allowed: set[str]) -> str:
    expected_codes = " or ".join(sorted(allowed)) or "a release"
    return (
        f"{outcome.code or outcome.sqlstate} where {expected_codes} was due ({first_line(outcome)})"
    )


def first_line(outcome: Outcome) -> str:
    """The first line of the messages; if it contains a value, the leak is reported as well."""
    lines = [line for line in outcome.messages.splitlines() if line.strip(" {}[],")]
    messages = [line for line in lines if '"message"' in line] or lines
    return messages[0].strip()[:200] if messages else "nothing was said"


def changes(before: list[Snapshot], after: list[Snapshot]) -> list[str]:
    """Report what a failed run left or changed; its own record is allowed."""
    findings = []
    for old, new in zip(before, after, strict=True):
        findings += [f"left behind: {text}" for text in old.differences(new, ignore=RUNS)]
    return findings[:3]
