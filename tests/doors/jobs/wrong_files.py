"""Invalid job files, derived from a valid one by single changes. SECRET is in every value."""

from __future__ import annotations

from dataclasses import dataclass

SECRET = "hush-hush-7311"

RIGHT = """\
version: 1
source:
  url: "duckdb:///people.duckdb"
target:
  schema: release
defaults:
  k: 3
  method: mdav
jobs:
  - name: people-monthly
    table: people
    where: "age > 1"
    entity: name
    columns:
      id: {role: drop}
      name: {role: identifier}
      age: {role: quasi_identifier, weight: 2}
      height:
        role: quasi_identifier
      income: {role: drop}
      born: {role: drop}
      seen: {role: drop}
      site: {role: keep, reason: a public list}
    output:
      view: people
      keep_last: 2
"""


@dataclass(frozen=True)
class Wrong:
    """A change of the right file, and what has to be said of it.

    Parameters
    ----------
    old, new : the text that is replaced, and by what.
    path : of the problem.
    said : words of it.
    line : of the problem; 0 for the first line that changed.
    """

    name: str
    old: str
    new: str
    path: str
    message: str
    line: int = 0

    @property
    def text(self) -> str:
        """The contents of the invalid file."""
        assert self.old in RIGHT, self.name
        return RIGHT.replace(self.old, self.new, 1)

    @property
    def expected_line(self) -> int:
        """The line of the problem."""
        if self.line:
            return self.line
        pairs = zip(self.text.splitlines(), [*RIGHT.splitlines(), *[""] * 99], strict=False)
        return next(number for number, (new, old) in enumerate(pairs, 1) if new != old)


_JOB = "jobs.0"
_HEIGHT = "      height:\n        role: quasi_identifier\n"
_AGE = "age: {role: quasi_identifier, weight: 2}"
_SITE = "site: {role: keep, reason: a public list}"


def _age(inner: str) -> str:
    return f"age: {{role: quasi_identifier, {inner}}}"


def _sensitive(inner: str) -> str:
    return f"site: {{role: sensitive, models: [{inner}]}}"


WRONG = [
    # -- YAML -------------------------------------------------------------------------------------
    Wrong("open bracket", "{role: drop}", "{role: [drop}", "", "is not YAML"),
    Wrong("open quote", '"age > 1"', f'"{SECRET}', "", "is not YAML", 27),
    Wrong("tab", "  url:", "\turl:", "", "is not YAML"),
    Wrong("colon", "table: people", f"table: a: {SECRET}", "", "is not YAML"),
    Wrong("at sign", "table: people", f"table: @{SECRET}", "", "is not YAML"),
    Wrong("control character", "table: people", "table: a\x07b", "", "is not YAML"),
    Wrong("directive", "version: 1", f"%YAML 9.{SECRET}\n---\nversion: 1", "", "is not YAML"),
    Wrong(
        "second document",
        "keep_last: 2\n",
        f"keep_last: 2\n---\n{SECRET}: 1\n",
        "",
        "second document",
    ),
    Wrong("anchor", "table: people", "table: &a people", f"{_JOB}.table", "anchor"),
    Wrong("anchor of a mapping", "{role: drop}", "&a {role: drop}", f"{_JOB}.columns.id", "anchor"),
    Wrong("alias", "id: {role: drop}", f"id: *{SECRET[:4]}", f"{_JOB}.columns.id", "alias"),
    Wrong("merge", "  schema: release", "  <<: {schema: release}", 'target."<<"', "merge"),
    Wrong("tag", "table: people", "table: !!str people", f"{_JOB}.table", "tag"),
    Wrong("own tag", "table: people", "table: !python/name:os.system x", f"{_JOB}.table", "tag"),
    Wrong("tag of a list", "jobs:\n", "jobs: !!seq\n", "jobs", "tag"),
    Wrong(
        "equal keys", "method: mdav", "method: mdav\n  k: 9", "defaults.k", "already in line 7", 9
    ),
    Wrong(
        "equal columns",
        "id: {role: drop}",
        "age: {role: drop}",
        f"{_JOB}.columns.age",
        "already in line 15",
        17,
    ),
    Wrong(
        "equal keys in braces",
        "{role: drop}",
        "{role: drop, role: by}",
        f"{_JOB}.columns.id.role",
        "already",
    ),
    Wrong(
        "key that is a list", "version: 1", f"[{SECRET}]: 1\nversion: 1", "", "a key must be text"
    ),
    Wrong(
        "key that is a number",
        "id: {role: drop}",
        "2020: {role: drop}",
        f"{_JOB}.columns.2020",
        "put it in quotes",
    ),
    Wrong(
        "key that is null",
        "id: {role: drop}",
        "null: {role: drop}",
        f"{_JOB}.columns.null",
        "put it in quotes",
    ),
    Wrong(
        "key that is true",
        "id: {role: drop}",
        "true: {role: drop}",
        f"{_JOB}.columns.true",
        "put it in quotes",
    ),
    Wrong("octal", "k: 3", "k: 010", "defaults.k", "base 8"),
    Wrong("octal of 1.2", "k: 3", "k: 0o10", "defaults.k", "some programs"),
    Wrong("hexadecimal", "k: 3", "k: 0x10", "defaults.k", "some programs"),
    Wrong("base 60", "k: 3", "k: 1:30", "defaults.k", "base 60"),
    Wrong("underscore", "k: 3", "k: 1_000", "defaults.k", "text to others"),
    Wrong(
        "no", "reason: a public list", "reason: no", f"{_JOB}.columns.site.reason", "true or false"
    ),
    Wrong("On", "table: people", "table: On", f"{_JOB}.table", "true or false"),
    Wrong("y", "schema: release", "schema: y", "target.schema", "true or false"),
    Wrong(
        "date",
        "reason: a public list",
        "reason: 2020-01-01",
        f"{_JOB}.columns.site.reason",
        "a date",
    ),
    Wrong(
        "infinity", "weight: 2", "weight: .inf", f"{_JOB}.columns.age.weight", "not a usable number"
    ),
    # -- the file ---------------------------------------------------------------------------------
    Wrong("another version", "version: 1", "version: 2", "version", "must be 1"),
    Wrong("version as text", "version: 1", 'version: "1"', "version", "whole number"),
    Wrong("no version", "version: 1\n", "", "version", "is missing", 1),
    Wrong(
        "no source", 'source:\n  url: "duckdb:///people.duckdb"\n', "", "source", "is missing", 1
    ),
    Wrong(
        "source as text",
        '\n  url: "duckdb:///people.duckdb"',
        f' "{SECRET}"',
        "source",
        "keys with values",
    ),
    Wrong("unknown key", "target:", f"taget: {SECRET}\ntarget:", "taget", 'did you mean "target"'),
    Wrong(
        "unknown key of a job",
        "table: people",
        f"table: people\n    colums: {SECRET}",
        f"{_JOB}.colums",
        'did you mean "columns"',
    ),
    Wrong(
        "unknown key of defaults",
        "method: mdav",
        f"methode: {SECRET}",
        "defaults.methode",
        'did you mean "method"',
    ),
    Wrong(
        "a chain without a key",
        "table: people",
        f"table: people\n    chain: {{name: {SECRET}}}",
        f"{_JOB}.chain.key",
        "is missing",
    ),
    Wrong(
        "the key of a chain itself",
        "table: people",
        f'table: people\n    chain: {{name: c, key: "{SECRET}"}}',
        f"{_JOB}.chain.key",
        "file:PATH",
    ),
    Wrong(
        "unknown key of a chain",
        "table: people",
        f'table: people\n    chain: {{name: c, key: "env:K", departure: {SECRET}}}',
        f"{_JOB}.chain.departure",
        'did you mean "departures"',
    ),
    Wrong(
        "a chain of nobody",
        "    entity: name\n",
        '    chain: {name: c, key: "env:K"}\n',
        _JOB,
        "chain needs entity",
        10,
    ),
    Wrong(
        "a key of a later version",
        "table: people",
        f"table: people\n    cluster: {SECRET}",
        f"{_JOB}.cluster",
        "unknown key",
    ),
    Wrong(
        "unknown key of an output",
        "view: people",
        "view: people\n      veiw: x",
        f"{_JOB}.output.veiw",
        'did you mean "view"',
    ),
    Wrong(
        "unknown key of a column",
        "weight: 2",
        "wieght: 2",
        f"{_JOB}.columns.age.wieght",
        'did you mean "weight"',
    ),
    Wrong(
        "a key of another role",
        "id: {role: drop}",
        "id: {role: drop, weight: 2}",
        f"{_JOB}.columns.id.weight",
        "unknown key",
    ),
    Wrong("no jobs", RIGHT[RIGHT.index("jobs:") :], "jobs: []\n", "jobs", "must not be empty"),
    Wrong(
        "jobs as a mapping",
        "  - name: people-monthly",
        f"    x: {SECRET}\n    name: people-monthly",
        "jobs",
        "must be a list",
        9,
    ),
    Wrong("no value", "schema: release", "schema:", "target.schema", "has no value"),
    Wrong("null", 'where: "age > 1"', "where: null", f"{_JOB}.where", "has no value"),
    # -- names ------------------------------------------------------------------------------------
    Wrong("no name", "name: people-monthly\n    ", "", f"{_JOB}.name", "is missing"),
    Wrong("space in a name", "people-monthly", f"a {SECRET}", f"{_JOB}.name", "letters, digits"),
    Wrong("path as a name", "people-monthly", f"../{SECRET}", f"{_JOB}.name", "letters, digits"),
    Wrong("number as a name", "people-monthly", "7", f"{_JOB}.name", "must be text"),
    Wrong(
        "table of three parts",
        "table: people",
        f"table: a.b.{SECRET}",
        f"{_JOB}.table",
        "must be a name",
    ),
    Wrong(
        "variable in a table",
        "table: people",
        f'table: "${{{SECRET[:4]}}}"',
        f"{_JOB}.table",
        "takes no ${",
    ),
    # -- options ----------------------------------------------------------------------------------
    Wrong("k of 1", "k: 3", "k: 1", "defaults.k", "2 or more"),
    Wrong("k as text", "k: 3", f'k: "{SECRET}"', "defaults.k", "a whole number"),
    Wrong("k as a truth", "k: 3", "k: true", "defaults.k", "a whole number"),
    Wrong("no k", "  k: 3\n", "", f"{_JOB}.k", "is missing", 9),
    Wrong("method", "method: mdav", f"method: {SECRET}", "defaults.method", "must be one of mdav"),
    Wrong(
        "option of a method",
        "method: mdav",
        f"method: mdav\n  options: {{speed: {SECRET}}}",
        _JOB,
        "option",
        11,
    ),
    Wrong("options as text", "method: mdav", f"options: {SECRET}", "defaults.options", "by name"),
    Wrong("choice", "method: mdav", f"nulls: {SECRET}", "defaults.nulls", "one of error"),
    Wrong("share", "method: mdav", "max_suppression: 7", "defaults.max_suppression", "from 0 to 1"),
    Wrong("memory", "method: mdav", f"memory_limit: {SECRET}", "defaults.memory_limit", "4GiB"),
    Wrong("time", "method: mdav", "time_limit: 0", "defaults.time_limit", "above 0"),
    Wrong(
        "truth as text", "method: mdav", f'strict: "{SECRET}"', "defaults.strict", "true or false"
    ),
    Wrong(
        "engine",
        "method: mdav",
        f"engine: {{name: {SECRET}, master: yarn}}",
        "defaults.engine.name",
        "spark",
    ),
    Wrong(
        "no master", "method: mdav", "engine: {name: spark}", "defaults.engine.master", "is missing"
    ),
    Wrong(
        "no task",
        "method: mdav",
        "engine: {name: spark, master: yarn, tasks: 0}",
        "defaults.engine.tasks",
        "1 or more",
    ),
    Wrong(
        "key of an engine",
        "method: mdav",
        f"engine: {{name: spark, master: yarn, task: {SECRET}}}",
        "defaults.engine.task",
        "unknown key",
    ),
    Wrong(
        "setting",
        "method: mdav",
        "engine: {name: spark, master: yarn, conf: {spark.x: 2}}",
        'defaults.engine.conf."spark.x"',
        "text",
    ),
    Wrong("retries", "method: mdav", "retries: 99", "defaults.retries", "10 or less"),
    Wrong(
        "new column",
        "method: mdav",
        f"on_new_column: {SECRET}",
        "defaults.on_new_column",
        "must be 'halt' or 'drop'",
    ),
    Wrong("recoding of another method", "method: mdav", "recoding: secure", _JOB, "belongs to", 10),
    # -- columns ----------------------------------------------------------------------------------
    Wrong(
        "role",
        "{role: drop}",
        f"{{role: {SECRET}}}",
        f"{_JOB}.columns.id",
        "role must be one of identifier, quasi_identifier",
    ),
    Wrong("no role", "{role: drop}", "{}", f"{_JOB}.columns.id", "role is missing"),
    Wrong(
        "role as text",
        "id: {role: drop}",
        f"id: {SECRET}",
        f"{_JOB}.columns.id",
        "keys with values",
    ),
    Wrong(
        "keep without a reason",
        ", reason: a public list",
        "",
        f"{_JOB}.columns.site.reason",
        "is missing",
    ),
    Wrong(
        "keep with an empty reason",
        "reason: a public list",
        "reason: ' '",
        f"{_JOB}.columns.site.reason",
        "must not be empty",
    ),
    Wrong(
        "no quasi-identifier",
        f"{_AGE}\n{_HEIGHT}",
        "age: {role: drop}\n",
        _JOB,
        "columns must have a quasi_identifier",
        10,
    ),
    Wrong(
        "columns as a list",
        RIGHT[RIGHT.index("      id:") : RIGHT.index("    output:")],
        f"      - {SECRET}\n",
        f"{_JOB}.columns",
        "keys with values",
        14,
    ),
    Wrong(
        "weight as text", "weight: 2", f"weight: {SECRET}", f"{_JOB}.columns.age.weight", "a number"
    ),
    Wrong("weight below 0", "weight: 2", "weight: -2", f"{_JOB}.columns.age.weight", "0 or more"),
    Wrong("step of 0", "weight: 2", "step: 0", f"{_JOB}.columns.age.step", "above 0"),
    Wrong("order as text", _AGE, _age(f"order: {SECRET}"), f"{_JOB}.columns.age.order", "a list"),
    Wrong(
        "two hierarchies",
        _AGE,
        _age(f"hierarchy: {{mask: [1], table: {SECRET}}}"),
        f"{_JOB}.columns.age.hierarchy",
        "exactly one",
    ),
    Wrong(
        "no hierarchy",
        _AGE,
        _age(f"hierarchy: {{maks: {SECRET}}}"),
        f"{_JOB}.columns.age.hierarchy",
        "exactly one",
    ),
    Wrong(
        "intervals as text",
        _AGE,
        _age(f"hierarchy: {{intervals: {SECRET}}}"),
        f"{_JOB}.columns.age.hierarchy",
        "list of widths",
    ),
    Wrong(
        "a key of another hierarchy",
        _AGE,
        _age("hierarchy: {mask: [1], origin: 3}"),
        f"{_JOB}.columns.age.hierarchy",
        "no other keys than",
    ),
    Wrong(
        "hierarchy of no file",
        _AGE,
        _age("hierarchy: {file: nowhere.csv}"),
        f"{_JOB}.columns.age.hierarchy",
        "",
    ),
    Wrong(
        "model",
        _SITE,
        _sensitive(f"{{kind: {SECRET}, level: 2}}"),
        f"{_JOB}.columns.site.models.0.kind",
        "must be 'distinct_l'",
    ),
    Wrong(
        "level",
        _SITE,
        _sensitive(f"{{kind: distinct_l, level: {SECRET}}}"),
        f"{_JOB}.columns.site.models.0.level",
        "a number",
    ),
    Wrong(
        "level that is missing",
        _SITE,
        _sensitive("{kind: distinct_l}"),
        f"{_JOB}.columns.site.models.0.level",
        "is missing",
    ),
    Wrong(
        "key of a model",
        _SITE,
        _sensitive("{kind: distinct_l, level: 2, levl: 3}"),
        f"{_JOB}.columns.site.models.0.levl",
        'did you mean "level"',
    ),
    Wrong(
        "distance",
        _SITE,
        _sensitive(f"{{kind: t_closeness, level: 0.2, distance: {SECRET}}}"),
        f"{_JOB}.columns.site.models.0.distance",
        "equal, ordered",
    ),
    Wrong(
        "entity that is no identifier", "entity: name", "entity: site", _JOB, "entity must be", 10
    ),
    Wrong("entity without a role", "entity: name", f"entity: {SECRET}", _JOB, "entity must be", 10),
    Wrong("key without a role", "entity: name", f"key: [{SECRET}]", _JOB, "key must name", 10),
    # -- where, output, URLs ----------------------------------------------------------------------
    Wrong(
        "second statement",
        '"age > 1"',
        f'"1 = 1; DROP TABLE {SECRET}"',
        f"{_JOB}.where",
        "semicolon",
    ),
    Wrong("comment", '"age > 1"', f'"age > 1 -- {SECRET}"', f"{_JOB}.where", "comment"),
    Wrong(
        "variable in where", '"age > 1"', f'"age > ${{{SECRET[:4]}}}"', f"{_JOB}.where", "dollar"
    ),
    Wrong(
        "table and view",
        "view: people",
        f"view: people\n      table: {SECRET}",
        f"{_JOB}.output",
        "exactly one of table and view",
        24,
    ),
    Wrong(
        "neither table nor view", "view: people\n      ", "", f"{_JOB}.output", "exactly one", 24
    ),
    Wrong(
        "keep_last of a table",
        "view: people",
        "table: people",
        f"{_JOB}.output",
        "needs a view",
        24,
    ),
    Wrong(
        "keep_last below 1", "keep_last: 2", "keep_last: 0", f"{_JOB}.output.keep_last", "1 or more"
    ),
    Wrong(
        "password",
        "duckdb:///people.duckdb",
        f"postgresql://me:{SECRET}@host/db",
        "source.url",
        "contains a password",
    ),
    Wrong(
        "password in a query",
        "duckdb:///people.duckdb",
        f"postgresql://host/db?password={SECRET}",
        "source.url",
        "contains a password",
    ),
    Wrong(
        "method as a list",
        "method: mdav",
        f"method: [{SECRET}]",
        "defaults.method",
        "must be one of",
    ),
    Wrong(
        "method as keys",
        "method: mdav",
        f"method: {{{SECRET}: 1}}",
        "defaults.method",
        "must be one of",
    ),
    Wrong(
        "report with a NUL",
        "table: people",
        f'table: people\n    report: "{SECRET}\\0.html"',
        f"{_JOB}.report",
        "NUL",
    ),
    Wrong(
        "password of a key",
        "duckdb:///people.duckdb",
        f"postgresql://host/db?sslpassword={SECRET}",
        "source.url",
        "contains a password",
    ),
    Wrong(
        "password in another spelling",
        "duckdb:///people.duckdb",
        f"postgresql://host/db?user=me&pass%77ord={SECRET}",
        "source.url",
        "contains a password",
    ),
    Wrong(
        "password behind a variable",
        "duckdb:///people.duckdb",
        f"postgresql://host/db?password=${{A}}{SECRET}",
        "source.url",
        "contains a password",
    ),
    Wrong(
        "password as a default",
        "duckdb:///people.duckdb",
        f"postgresql://me:${{PW:-{SECRET}}}@host/db",
        "source.url",
        "contains a password",
    ),
    Wrong(
        "variable without end",
        "duckdb:///people.duckdb",
        f"duckdb:///${{{SECRET}",
        "source.url",
        "write ${VAR}",
    ),
    Wrong(
        "format of an export",
        "table: people",
        f"table: people\n    export: [{{format: {SECRET}, path: a}}]",
        f"{_JOB}.export.0.format",
        "must be 'parquet' or 'csv'",
    ),
    Wrong(
        "export without a path",
        "table: people",
        "table: people\n    export: [{format: csv}]",
        f"{_JOB}.export.0.path",
        "is missing",
    ),
    Wrong(
        "key of an export",
        "table: people",
        "table: people\n    export: [{format: csv, path: a, formula: keep}]",
        f"{_JOB}.export.0.formula",
        'did you mean "formulas"',
    ),
    Wrong(
        "keep_last without a release",
        "table: people",
        "table: people\n    export: [{format: csv, path: a, keep_last: 2}]",
        f"{_JOB}.export.0",
        "needs {release}",
    ),
    Wrong(
        "report of another kind",
        "table: people",
        f"table: people\n    report: {SECRET}.pdf",
        f"{_JOB}.report",
        "must end in",
    ),
    # -- expectations -----------------------------------------------------------------------------
    *(
        Wrong(
            f"expect {text}",
            "table: people",
            f"table: people\n    expect: {text}",
            f"{_JOB}.expect{key}",
            message,
        )
        for text, key, message in (
            ("{rows: 0.3}", ".rows", "must be a share of the last release, as in 30 %"),
            (f"{{rows: {SECRET}}}", ".rows", "must be a share"),
            ("{rows: -30 %}", ".rows", "must be a share"),
            ("{rows: {}}", ".rows", "or numbers, as in {least: 4000"),
            ("{rows: {lest: 4}}", ".rows", "or numbers, as in {least: 4000"),
            ("{rows: {least: 1.5}}", ".rows", "must be whole numbers"),
            ("{rows: {least: 5, most: 4}}", ".rows", "least must not be above most"),
            ("{share_null: 5 %}", ".share_null", "keys with values"),
            ("{share_null: {name: 101 %}}", ".share_null.name", "100 % or less"),
            ("{rowes: 30 %}", ".rowes", 'did you mean "rows"'),
            ("{}", "", "must have one of rows"),
        )
    ),
    Wrong(
        "persons without entity",
        "entity: name",
        "expect: {persons: 30 %}",
        _JOB,
        "expect.persons needs entity",
        10,
    ),
    Wrong(
        "NULLs of no column",
        "entity: name",
        f"expect: {{share_null: {{{SECRET}: 5 %}}}}",
        _JOB,
        "must name columns of the job",
        10,
    ),
    Wrong(
        "counts on a cluster",
        "table: people",
        "table: people\n    expect: {rows: 30 %}\n    engine: {name: spark, master: a}",
        _JOB,
        "is not available on a cluster",
        10,
    ),
    # -- notices, schedule, metrics ---------------------------------------------------------------
    Wrong(
        "event that there is not",
        "table: people",
        f"table: people\n    notify: [{{on: [{SECRET}], command: [a]}}]",
        f"{_JOB}.notify.0.on.0",
        "must be failure, success, skipped, or the code of an error",
    ),
    Wrong(
        "notice of nothing",
        "table: people",
        "table: people\n    notify: [{on: [], command: [a]}]",
        f"{_JOB}.notify.0.on",
        "must not be empty",
    ),
    Wrong(
        "command as one text",
        "table: people",
        f"table: people\n    notify: [{{on: [failure], command: {SECRET}}}]",
        f"{_JOB}.notify.0.command",
        "must be a list",
    ),
    Wrong(
        "unknown place",
        "table: people",
        f'table: people\n    notify: [{{on: [failure], command: [a, "{{{SECRET[:4]}}}"]}}]',
        f"{_JOB}.notify.0.command",
        "allows no placeholders except {job}",
    ),
    Wrong(
        "variable in a command",
        "table: people",
        f'table: people\n    notify: [{{on: [failure], command: ["${{{SECRET[:4]}}}"]}}]',
        f"{_JOB}.notify.0.command",
        "takes no ${",
    ),
    Wrong(
        "webhook in the file",
        "table: people",
        f'table: people\n    notify: [{{on: [failure], webhook: "https://hook/{SECRET}"}}]',
        f"{_JOB}.notify.0.webhook",
        "must be one variable of the environment",
    ),
    Wrong(
        "command and webhook",
        "table: people",
        'table: people\n    notify: [{on: [failure], command: [a], webhook: "${A}"}]',
        f"{_JOB}.notify.0",
        "exactly one of command and webhook",
    ),
    Wrong(
        "key of a notice",
        "table: people",
        "table: people\n    notify: [{on: [failure], comand: [a]}]",
        f"{_JOB}.notify.0.comand",
        'did you mean "command"',
    ),
    Wrong(
        "schedule",
        "table: people",
        f"table: people\n    schedule: monthly {SECRET}",
        f"{_JOB}.schedule",
        "five fields",
    ),
    *(
        Wrong(
            f"schedule {when}",
            "table: people",
            f'table: people\n    schedule: "{when}"',
            f"{_JOB}.schedule",
            message,
        )
        for when, message in (
            ("0 25 1 * *", "the hour must be 0 to 23"),
            ("60 3 1 * *", "the minute must be 0 to 59"),
            ("0 3 0 * *", "the day of the month must be 1 to 31"),
            ("0 3 1 13 *", "the month must be 1 to 12, or jan to dec"),
            ("0 3 * * 8", "the day of the week must be 0 to 7, or sun to sat"),
            ("0 3 * * mo", "the day of the week must be"),
            ("0 20-4 * * *", "the hour must be a range whose end is not below its start"),
            ("*/0 3 * * *", "the step of the minute must be 1 or more"),
            ("0 3 31 feb,apr *", "names a day that its months do not have"),
            ("0 3 1 *", "five fields"),
        )
    ),
    Wrong(
        "metrics of a store",
        "version: 1",
        f'version: 1\nmetrics: "s3://{SECRET}/a.prom"',
        "metrics",
        "must be a file of this machine",
        2,
    ),
    Wrong(
        "report of a store",
        "table: people",
        f'table: people\n    report: "s3://{SECRET}/a.html"',
        f"{_JOB}.report",
        "must be a file of this machine",
    ),
    # -- what each run would refuse ---------------------------------------------------------------
    Wrong(
        "chain with a page",
        "table: people",
        f'table: people\n    chain: {{name: a, key: "file:{SECRET}"}}\n    report: a.html',
        _JOB,
        "HTML reports are not available for chains",
        10,
    ),
    Wrong(
        "attacks without an evaluation",
        "table: people",
        "table: people\n    attacks: true",
        _JOB,
        "Attacks are part of an evaluation",
        10,
    ),
    Wrong(
        "metrics of another name",
        "version: 1",
        f"version: 1\nmetrics: {SECRET}.txt",
        "metrics",
        "must end in .prom",
        2,
    ),
]
