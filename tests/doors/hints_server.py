"""Hints of PostgreSQL, its SQL functions, rules, budgets and refreshes, with their ways out."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import create_engine, make_url

import dbanon
from dbanon.doors.extension import write_extension
from dbanon.run.open import open_store
from dbanon.stores.postgresql.settings import CLIENT_STATEMENTS, WORK_MEM
from tests.doors.hint_doors import Call, job_file
from tests.doors.server_site import Site, Step, Trial
from tests.postgres.pooler import pgbouncer, through
from tests.postgres_server import conninfo
from tests.stores.tcp_proxy import SESSION, Cut, TcpProxy

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
            "database": site.url, "table": f"app.{site.table}", "quasi_identifiers": ["size"],
            "method": "dp_ranks", "epsilon": 1.0, "bounds": {"size": (0, 6)},
            "budget": site.text(budget), "output": f"release.{site.table}",
        }  # fmt: skip
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


_BUDGET = "dbanon budget create $url $t --source app.$t --epsilon 3"
_NOT_NULL = "ALTER TABLE app.$t ALTER size SET NOT NULL"
_REPLACE = "--if-exists replace"
_AGE = '{"age": "quasi_identifier"}'
_OWNER = "ALTER TABLE app.$t OWNER TO "

RIGHTS = (
    Trial("Its owner runs: GRANT SELECT ON {} TO {};", anonymize(role="anna: "),
          ["$statement", anonymize(role="anna: ")], ["REVOKE SELECT ON app.$t FROM PUBLIC"]),
    Trial("Its owner runs: GRANT USAGE ON SCHEMA {} TO {};", anonymize(role="anna: ",
          table="s$t.p"), ["$statement", anonymize(role="anna: ", table="s$t.p")],
          ["CREATE SCHEMA s$t", "CREATE TABLE s$t.p AS TABLE app.$t",
           "GRANT SELECT ON s$t.p TO anna"]),
    Trial("The owner of the database runs: GRANT TEMPORARY", "anna: " + mdav(),
          ["$statement", "anna: " + mdav()],
          ["REVOKE TEMPORARY ON DATABASE $db FROM PUBLIC"],
          ["GRANT TEMPORARY ON DATABASE $db TO PUBLIC"]),
    Trial("Strata, entities and keys need a type with", anonymize("--by doc"),
          ["CREATE VIEW app.v$t AS SELECT id, age, doc::jsonb AS doc FROM app.$t",
           anonymize("--by doc --key id", table="app.v$t")],
          ["ALTER TABLE app.$t ADD doc json DEFAULT '{}'"]),
    Trial("The owner of the database runs: CREATE SCHEMA", "anna: " + mdav(output="no$t.p"),
          ["$statement", "anna: " + mdav(output="no$t.p")]),
    Trial("The owner of the schema runs: GRANT USAGE, CREATE", "anna: " + mdav(output="c$t.p"),
          ["$statement", "anna: " + mdav(output="c$t.p")],
          ["CREATE SCHEMA c$t"]),
    Trial("If the name is right, create it first:", anonymize("--output m$t.p --strict -q size"),
          ["$statement", anonymize("--output m$t.p --strict -q size")]),
    Trial("An administrator runs dbanon install, or dbanon", anonymize(role="nell: "),
          ["dbanon install $url --python-path $package", "$statement", anonymize(role="nell: ")],
          (), ["REVOKE dbanon_runner FROM nell"]),
    Trial("An administrator runs: GRANT dbanon_runner TO …; Or",
          "nell: dbanon verify $url release.$t",
          ["nell: dbanon verify $url release.$t -q age --k 5", for_role("nell"),
           "nell: dbanon verify $url release.$t"],
          [mdav(), "GRANT SELECT ON release.$t TO PUBLIC"],
          ["REVOKE dbanon_runner FROM nell"]),
    Trial("Its owner runs: GRANT SELECT ON {} TO …;", "anna: dbanon verify $url release.$t",
          [for_role("anna"), "anna: dbanon verify $url release.$t"], [mdav()]),
    Trial("Drop it as role {}, and first drop the views", "anna: dbanon drop $url release.$t",
          ["dbanon drop $url release.$t"], [mdav()]),
    Trial("Drop it as role {}, and first drop the views", "dbanon drop $url release.$t",
          ["DROP VIEW release.v$t", "dbanon drop $url release.$t"],
          [mdav(), "CREATE VIEW release.v$t AS SELECT * FROM release.$t"]),
    Trial("Publish as role {}, or choose another name.", anonymize(
          f"--output-kind view {_REPLACE}", "anna: "), [
          anonymize(f"--output-kind view {_REPLACE}"),
          anonymize(f"--output-kind view {_REPLACE} --output release.a$t", "anna: ")],
          [anonymize("--output-kind view")]),
    Trial("Use a role that sees all rows: the table's owner", "anna: " + mdav(),
          [mdav(), "ALTER ROLE anna BYPASSRLS", "anna: " + mdav(output="release.a$t")],
          ["ALTER TABLE app.$t ENABLE ROW LEVEL SECURITY", "CREATE POLICY y ON app.$t USING"
           " (age < 30)"], ["ALTER ROLE anna NOBYPASSRLS"]),
    Trial("Release a copy of your own in which the column", anonymize("--keep word"),
          ["CREATE TABLE app.v$t AS SELECT id, age, word::text[] FROM app.$t",
           anonymize("--keep word", table="app.v$t"),
           anonymize("--keep word --output release.o$t", "bob: ")],
          [_OWNER + "bob", "GRANT CREATE ON SCHEMA app TO bob", "bob: CREATE DOMAIN app.w$t AS"
           " text CHECK (VALUE <> '')",
           "bob: ALTER TABLE app.$t ADD word app.w$t[] DEFAULT '{a}'"]),
    Trial('Run it as role "{}", or as a member of it.', declare(_AGE, "anna: "),
          [declare(_AGE), "GRANT bob TO anna", declare(_AGE, "anna: ")],
          [_OWNER + "bob"], ["REVOKE bob FROM anna"]),
    Trial("Its owner runs: GRANT USAGE ON SCHEMA {} TO {}; GRANT", "SELECT dbanon.mdav('app.$t',"
          " 'release.$t', k => 5, options => '{\"recoding\": \"generalization\"}')", [
          lambda s: [s.take(text) for text in re.findall("GRANT [^;]*", s.hint)],
          "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5, options =>"
          " '{\"recoding\": \"generalization\"}')"],
          ["CREATE TABLE app.h$t AS SELECT 'n' || g AS leaf, '*' AS level1"
           " FROM generate_series(1, 120) AS g", declare(
           '{"age": "quasi_identifier", "size": "drop", "id": "drop", "ill": "drop", "name":'
           ' {"role": "quasi_identifier", "hierarchy": {"table": "app.h$t"}}}'), _OWNER + "bob",
           "REVOKE USAGE ON SCHEMA app FROM bob"], ["GRANT USAGE ON SCHEMA app TO bob"]),
)  # fmt: skip

SQL = (
    Trial("Use `memory_limit={}` or less.", options('{"memory_limit": 2000000000}'),
          [mdav("$argument"), "ALTER DATABASE $db RESET dbanon.memory_limit",
           mdav("options => '{\"memory_limit\": 2000000000}'", "release.m$t")],
          ["ALTER DATABASE $db SET dbanon.memory_limit = '1GB'"],
          ["ALTER DATABASE $db RESET dbanon.memory_limit"]),
    Trial("If it is a label, write it as text", "SELECT dbanon.gaa_cp('app.$t', 'release.$t',"
          " '{code}', 5, hierarchies => '{\"code\": {\"tree\": {\"*\": [12345678901234567890]}}}')",
          ["SELECT dbanon.gaa_cp('app.$t', 'release.$t', '{code}', 5, hierarchies =>"
           " '{\"code\": {\"tree\": {\"*\": [\"12345678901234567890\"]}}}')"],
          ["ALTER TABLE app.$t ADD code text DEFAULT '12345678901234567890'"]),
    Trial("Write an object, as in options", options("[1]"), [mdav("$argument")]),
    Trial("Create a view of the rows", options('{"where": "age < 40"}'),
          ["CREATE VIEW app.v$t AS SELECT * FROM app.$t WHERE age < 40",
           lambda s: s.take(mdav(s.text("$argument").replace("…", "id"), table="app.v$t"))]),
    Trial("Run it from a client: dbanon anonymize", options('{"chain": {"name": "c"}}'),
          [anonymize("--chain $t --entity id --chain-key file:$path/$t")],
          ["dbanon chain create $url $t --table app.$t --entity id --changes show --key-out"
           " $path/$t"]),
    Trial("Run it from a client: dbanon anonymize", options('{"pseudonyms": ["id"]}'),
          [anonymize("--pseudonym id --pseudonym-key file:$path/key")]),
    Trial("Refresh it from a client: dbanon refresh URL {}", "SELECT dbanon.refresh('release.$t')",
          ["$command"], [anonymize("--where 'age < 40'")]),
    Trial("A superuser runs: dbanon upgrade URL", mdav(), ["$command --python-path $package"
          " --python-path $opendp", mdav()],
          [lambda s: [s.connection().execute(text) for (text,) in s.connection().execute(
              "SELECT replace(pg_get_functiondef(p.oid), '''' || dbanon.version() || '''',"
              " '''0.0.1''') FROM pg_proc AS p WHERE proname = '_anonymize' AND"
              " pronamespace = 'dbanon'::regnamespace")]]),
    Trial("Drop or rename pg_temp.{}: dbanon stages rows", mdav(), [
          lambda s: s.take("DROP TABLE " + re.findall(r'pg_temp\."\w+"', s.hint)[0]), mdav()],
          ["CREATE TEMPORARY TABLE dbanon_source (x integer)"],
          ["DROP TABLE IF EXISTS pg_temp.dbanon_source"]),
    Trial("Name its schema, as in release.people.", mdav(output="$t"), [mdav()]),
    Trial("Name its schema, as in release.people.", anonymize("--output x", "nell: "),
          [anonymize("--output release.n$t", "nell: ")],
          ["ALTER ROLE nell SET search_path = nowhere", "GRANT dbanon_runner TO nell"],
          ["ALTER ROLE nell RESET search_path", "REVOKE dbanon_runner FROM nell"]),
    Trial("Name another schema, as in release.people.", anonymize("--output pg_temp.x"),
          [anonymize()]),
    Trial("Name its schema, as in app.people.", anonymize(table="$t"), [anonymize()]),
    Trial("Choose another output, or replace it:", mdav(),
          [mdav(output="release.o$t"), mdav("$argument")],
          [mdav(), "DROP TABLE release.$t"]),
    Trial("Choose another output, or drop or rename {} yourself.",
          mdav("if_exists => 'replace'"), [mdav(output="release.o$t"),
          "ALTER TABLE release.${t}_summary RENAME TO spare$t", mdav()],
          ["CREATE TABLE release.${t}_summary (x integer)"]),
    Trial("Try again.", lambda s: (s.take("BEGIN ISOLATION LEVEL REPEATABLE READ"),
          s.take("SELECT 1"), s.take("bob: CREATE SCHEMA late$t"), s.take("bob: GRANT ALL ON SCHEMA"
          " late$t TO PUBLIC"), s.take(mdav(output="late$t.p"))), [mdav(output="late$t.p")],
          ["GRANT CREATE ON DATABASE $db TO bob"], []),
    Trial("CALL dbanon.{} without BEGIN", "BEGIN; CALL dbanon.dp_ranks('app.$t', 'release.$t',"
          " '{size}', epsilon => 1, bounds => '{\"size\": [0, 6]}', budget => '$t')", [
          "CALL dbanon.dp_ranks('app.$t', 'release.$t', '{size}', epsilon => 1,"
          " bounds => '{\"size\": [0, 6]}', budget => '$t')"], [_NOT_NULL, _BUDGET]),
)  # fmt: skip

RULES = (
    Trial('As in {"age": "quasi_identifier"', in_python(lambda url, t: dbanon.declare(url, t, [])),
          [in_python(lambda url, t: dbanon.declare(
              url, t, {"age": "quasi_identifier", "name": "identifier"}))]),
    Trial("Give the role entity to one column", declare('{"id": "entity", "name": "entity"}'),
          [declare('{"id": "entity", "name": "identifier"}')]),
    Trial("Leave out `{}`, or name `quasi_identifiers`", "SELECT dbanon.mdav('app.$t',"
          " 'release.$t', k => 5, keep => '{name}')", [
          "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)",
          mdav("keep => '{name}'", "release.k$t")],
          [declare('{"age": "quasi_identifier", "id": "drop", "size": "drop", "name": "drop",'
                   ' "ill": "drop"}')]),
    Trial("Write one line, as in dbanon: quasi_identifier", "dbanon declare $url --table app.$t"
          " --from-comments", [
          "COMMENT ON COLUMN app.$t.age IS 'dbanon: quasi_identifier'",
          "dbanon declare $url --table app.$t --from-comments",
          "COMMENT ON COLUMN app.$t.age IS 'dbanon: {\"role\": \"quasi_identifier\"}'",
          "dbanon declare $url --table app.$t --from-comments"],
          ["COMMENT ON COLUMN app.$t.age IS 'dbanon: {\"role\"'"]),
    Trial("The role {} takes these keys: {}.",
          declare('{"age": {"role": "keep", "reason": "x", "weight": 2}}'),
          [declare('{"age": {"role": "keep", "reason": "x"}}')]),
    Trial("Give the reason:", declare('{"name": "keep"}'),
          [declare('{"name": {"role": "keep", "reason": "…"}}')]),
    Trial("Store the hierarchy (dbanon hierarchy store)", declare(json.dumps({"name": {
          "role": "quasi_identifier", "hierarchy": {"tree": {"*": ["n" * 70_000]}}}})), [
          "dbanon hierarchy store $url $t --from '{\"tree\": {\"*\": [\"n1\", \"n2\"]}}'",
          declare('{"name": {"role": "quasi_identifier", "hierarchy": "$t"}}')]),
    Trial("Known privacy models: {}.",
          declare('{"ill": {"role": "sensitive", "model": {"zzz": 2}}}'),
          [declare('{"ill": {"role": "sensitive", "model": {"distinct_l": 2}}}')]),
    Trial("Declare the rules of one table at a time.", lambda s: (s.write("rules.json",
          json.dumps([asdict(rule) for rule in dbanon.rules(s.url)])),
          s.take("dbanon declare $url $path/rules.json --table app.$t")), [
          lambda s: s.write("rules.json", json.dumps(
              [asdict(rule) for rule in dbanon.rules(s.url, f"app.o{s.table}")])),
          "dbanon declare $url $path/rules.json --table app.$t"],
          ["CREATE TABLE app.o$t AS TABLE app.$t", declare(_AGE),
           "SELECT dbanon.declare('app.o$t', '{\"size\": \"quasi_identifier\"}')"]),
    Trial("The rules went with the table", "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)", [
          mdav(), declare(_AGE), "ALTER TABLE app.$t DROP id, DROP size, DROP name, DROP ill",
          "SELECT dbanon.mdav('app.$t', 'release.r$t', k => 5)"],
          [declare(_AGE), "ALTER TABLE app.$t RENAME TO old$t",
           "CREATE TABLE app.$t AS TABLE app.old$t"]),
    Trial("Declare rules for its columns, or name", "SELECT dbanon.mdav('app.$t', 'release.$t',"
          " k => 5)", [mdav(), "ALTER TABLE app.$t DROP id, DROP size, DROP name, DROP ill",
          declare(_AGE), "SELECT dbanon.mdav('app.$t', 'release.r$t', k => 5)"]),
    Trial("Check these rules. If they are right", "anna: SELECT dbanon.mdav('app.$t', 'release.$t',"
          " k => 5)", ["anna: $statement",
          "anna: SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)"],
          ["ALTER TABLE app.$t DROP id, DROP size, DROP name, DROP ill", _OWNER + "bob",
           declare(_AGE, "bob: "), _OWNER + "anna"]),
    Trial("Declare the columns that together could", "SELECT dbanon.mdav('app.$t', 'release.$t',"
          " k => 5)", [declare(_AGE), "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)"],
          [declare('{"age": "drop", "id": "drop", "size": "drop", "name": "drop",'
                   ' "ill": "drop"}')]),
    Trial("Write a line in the comment on a column", "dbanon declare $url --table app.$t"
          " --from-comments", ["COMMENT ON COLUMN app.$t.age IS 'dbanon: quasi_identifier'",
          "dbanon declare $url --table app.$t --from-comments"]),
)  # fmt: skip

BUDGETS = (
    Trial("Spend from it, or create a larger one under", _BUDGET, [spend("$t"),
          "dbanon budget create $url more$t --source app.$t --epsilon 5 --raises $t"],
          [_NOT_NULL, _BUDGET]),
    Trial("Choose a total {} {}.",
          "dbanon budget create $url more$t --source app.$t --epsilon 3 --raises $t",
          ["dbanon budget create $url more$t --source app.$t --epsilon 4 --raises $t"], [_BUDGET]),
    Trial("Spend from {}, or create a larger one", "dbanon budget create $url more$t --source"
          " app.$t --epsilon 5", [spend("$t"),
          "dbanon budget create $url more$t --source app.$t --epsilon 5 --raises $t"],
          [_NOT_NULL, _BUDGET]),
    Trial("Create one that raises {}, with a total of {}", "dbanon budget create $url new$t"
          " --source app.new$t --epsilon 5", [
          "dbanon budget create $url new$t --source app.new$t --epsilon 3 --raises $t"],
          [_NOT_NULL, _BUDGET, spend("$t"), "ALTER TABLE app.$t RENAME TO new$t"]),
    Trial("The owner of the ledger, schema dbanon, runs", "anna: " + _BUDGET, [_BUDGET]),
    Trial("Create one for all releases of the source", spend("zzzzzzzz"), [_BUDGET, spend("$t")],
          [_NOT_NULL]),
    Trial("dbanon budget list shows the open ones.", spend("$t"), ["dbanon budget list $url",
          spend("more$t")], [_NOT_NULL, _BUDGET,
          "dbanon budget create $url more$t --source app.$t --epsilon 5 --raises $t"]),
    Trial("Another program removed it. Find out which one", spend_in_sqlite, [
          lambda s: s.sqlite("DROP TRIGGER remover"), spend_in_sqlite],
          [begin_in_sqlite, lambda s: s.sqlite(
              "CREATE TRIGGER remover AFTER INSERT ON dbanon_spending BEGIN"
              " DELETE FROM dbanon_spending; END")]),
    Trial("Name a table, or create one from the rows", "dbanon budget create $url $t --source"
          " app.v$t --epsilon 3", [_BUDGET, "CREATE TABLE app.w$t AS TABLE app.v$t",
          "dbanon budget create $url w$t --source app.w$t --epsilon 3"],
          ["CREATE VIEW app.v$t AS SELECT * FROM app.$t"]),
    Trial("Check them with dbanon verify", "dbanon evaluate $url release.$t",
          ["dbanon verify $url release.$t"], [_NOT_NULL, _BUDGET, spend("$t")]),
    Trial("To spend epsilon again, release the source again", "dbanon refresh $url release.$t", [
          "dbanon anonymize $url --table app.$t -q size --method dp_ranks --epsilon 1 --bounds"
          " size=0:6 --budget $t --output release.again$t"], [_NOT_NULL, _BUDGET, spend("$t")]),
)  # fmt: skip

RELEASES = (
    Trial("It was dropped or renamed. dbanon releases", "dbanon verify $url release.$t", [
          "dbanon releases $url", "dbanon verify $url release.now$t"],
          [mdav(), "ALTER TABLE release.$t RENAME TO now$t"]),
    Trial("Another program changed it. Name quasi-identifiers", "dbanon verify $url release.$t", [
          "dbanon verify $url release.$t -q age --k 5", anonymize(_REPLACE)],
          [mdav(), "UPDATE dbanon.release SET arguments = '[]' WHERE output_name = '$t'"]),
    Trial("Rename the table that has it in its name", anonymize(table="'app.\"$t\nx\"'"), [
          'CREATE VIEW app.v$t AS SELECT id, age FROM app."$t\nx"',
          anonymize("--key id", table="app.v$t"), 'ALTER TABLE app."$t\nx" RENAME TO x$t',
          anonymize("--output release.x$t", table="app.x$t")],
          ['CREATE TABLE app."$t\nx" AS TABLE app.$t']),
    Trial("dbanon releases lists all releases with their current",
          "dbanon verify $url 00000000-0000-4000-8000-000000000000", ["dbanon releases $url"]),
    Trial("If these changes are intended: `accept=", "SELECT dbanon.refresh('release.$t')", [
          "SELECT dbanon.refresh('release.$t', $argument)"],
          ["ALTER TABLE app.$t DROP id, DROP size, DROP name", declare('{"age":'
           ' "quasi_identifier", "ill": "sensitive"}'), "SELECT dbanon.mdav('app.$t', 'release.$t',"
           " k => 5)", declare('{"ill": "drop"}')]),
    Trial("If these changes are intended: `accept=", "dbanon refresh $url release.$t", [
          "dbanon refresh $url release.$t --accept source", mdav(output="release.o$t")],
          [mdav(), "ALTER TABLE app.$t ALTER age TYPE bigint"]),
    Trial("Refresh it as role {}, or release the source", "anna: dbanon refresh $url release.$t",
          ["dbanon refresh $url release.$t", anonymize("--output release.o$t", "anna: ")],
          [mdav()]),
    Trial("Release it again with all options. If the source", "dbanon refresh $url release.$t", [
          anonymize("--output release.o$t"), "dbanon refresh $url release.o$t"],
          [begin_in_sqlite, "dbanon anonymize sqlite:///$path/$t.sqlite --table"
           " people -q size --k 5 --target $url --output release.$t"]),
    Trial("Declare orders and hierarchies as rules of the table", "dbanon refresh $url release.$t",
          [declare('{"age": "quasi_identifier", "id": "drop", "size": "drop", "name": "drop",'
                   ' "ill": {"role": "quasi_identifier", "order": ["x", "y", "z"]}}'),
           "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5, if_exists => 'replace', options =>"
           " '{\"recoding\": \"median\"}')", "dbanon refresh $url release.$t"],
          [anonymize("--order ill=x,y,z --recoding median", q="age,ill")]),
    Trial("Refresh it from a client, and name the file or variable",
          "dbanon refresh $url release.$t",
          ["dbanon refresh $url release.$t --pseudonym-key file:$path/key"],
          [anonymize("--pseudonym id --pseudonym-key file:$path/key")]),
    Trial("Name the key of the release.",
          "dbanon refresh $url release.$t --pseudonym-key file:$path/other", [
          "dbanon refresh $url release.$t --pseudonym-key file:$path/key",
          anonymize(f"--pseudonym id --pseudonym-key file:$path/other {_REPLACE}")],
          [anonymize("--pseudonym id --pseudonym-key file:$path/key")]),
    Trial("Refresh it from a client, and name the chain key", "dbanon refresh $url release.$t", [
          "dbanon refresh $url release.$t --chain-key file:$path/$t"],
          ["dbanon chain create $url $t --table app.$t --entity id --changes show --key-out"
           " $path/$t", anonymize("--chain $t --entity id --chain-key file:$path/$t")]),
)  # fmt: skip


def files_of_extension(folder: str) -> Step:
    """Install as an extension whose files go to a folder of the trial's."""

    def act(site: Site) -> object:
        path = site.path / (folder or site.table)
        with site.patch.context() as patch:
            patch.setattr("dbanon.doors.install.extension_directory", lambda _: path)
            return site.take("dbanon install $url --extension --python-path $package")

    return act


def write_files(site: Site) -> None:
    """Write its files to the folder, which is there now."""
    (site.path / site.table).mkdir(exist_ok=True)
    assert write_extension(site.path / site.table, [])


def write_other_extension(site: Site) -> None:
    (site.path / site.table).mkdir()
    site.write(f"{site.table}/dbanon.control", "comment = 'another one'\n")


def catalog_without(extension: str) -> str:
    """The catalog of a server that lacks an extension."""
    return (
        "CREATE OR REPLACE VIEW pg_catalog.pg_available_extensions AS SELECT e.name,"
        " e.default_version, x.extversion AS installed_version, e.comment FROM"
        " pg_available_extensions() AS e(name, default_version, comment) LEFT JOIN pg_extension"
        f" AS x ON e.name = x.extname WHERE e.name <> '{extension}'"
    )


_CONFIG = "CREATE OR REPLACE VIEW pg_catalog.pg_config AS SELECT name, setting FROM pg_config()"
_INSTALL = "dbanon install $url --python-path $package --python-path $opendp"


def add_database(site: Site) -> None:
    """A database without anything of dbanon's, as the role `fresh`."""
    site.urls["fresh"] = site.server.create_database()


def drop_database(site: Site) -> None:
    site.close("fresh")
    site.server.drop_database(make_url(site.urls.pop("fresh")).database or "")


INSTALLATIONS = (
    Trial("Run dbanon install without --extension.", _INSTALL + " --extension",
          [_INSTALL], ["SET allow_system_table_mods = on", _CONFIG + " WHERE false"],
          [_CONFIG, "RESET allow_system_table_mods"]),
    Trial("Run it as root on the server's machine", files_of_extension("nowhere"),
          [write_files]),
    Trial("Run dbanon install without --extension, or remove {}", files_of_extension(""), [
          lambda s: Path(re.findall("remove (.*) first", s.hint)[0]).unlink(), write_files],
          [write_other_extension]),
    Trial("On Debian, run on the server's machine:", "fresh: dbanon install $url --python-path"
          " $package", ["fresh: dbanon install $url --sql-only"], [add_database,
          "fresh: SET allow_system_table_mods = on", "fresh: " + catalog_without("plpython3u")],
          [drop_database]),
)  # fmt: skip

_SQLITE = "sqlite:///$path/$t.sqlite"
_DUCKDB = "duckdb:///$path/$t.duckdb"
_TO_SQLITE = f"--target {_SQLITE} --output o$t"
_CSV = "\n".join(f"{i},{20 + i % 9},{i}" for i in range(60))


def chain_of_file(more: str) -> str:
    return (
        f"dbanon anonymize file:$path/$t.csv --table rows -q age --k 5 --output o$t --target"
        f" {_DUCKDB} --chain c --entity id --chain-key file:$path/c$t {more}"
    )


def write_rows(name: str) -> Step:
    """A file of rows, the last column of this name."""
    return lambda site: site.write(f"{site.table}.csv", f"id,age,{name}\n{_CSV}\n")


def of_sqlite(more: str = "", q: str = "size", table: str = "people") -> str:
    return (
        f"dbanon anonymize {_SQLITE} --table {table} -q {q} --k 5 --output o$t"
        f" --releases independent {more}"
    )


COPIES = (
    *(Trial("Rename the column in the file, or do not release it.", chain_of_file("--keep rowid"),
            right, [write_rows("rowid"), f"dbanon chain create {_DUCKDB} c --source"
            " file:$path/$t.csv --table rows --entity id --changes show --key-out $path/c$t"])
      for right in ([write_rows("number"), chain_of_file("--keep number")], [chain_of_file("")])),
    Trial("Cast it to text or to a number in a view, and anonymize the view.",
          anonymize(f"--keep p {_TO_SQLITE}"), [
          "CREATE VIEW app.v$t AS SELECT id, age, p::text AS p FROM app.$t",
          anonymize(f"--keep p --key id {_TO_SQLITE}", table="app.v$t")],
          ["ALTER TABLE app.$t ADD p point DEFAULT '(1,2)'"]),
    Trial("Exclude these rows in a view, or cast", anonymize(f"--keep v {_TO_SQLITE}"), [
          "CREATE VIEW app.v$t AS SELECT * FROM app.$t WHERE v <> 'NaN'",
          anonymize(f"--keep v --key id {_TO_SQLITE}", table="app.v$t"),
          "CREATE VIEW app.c$t AS SELECT id, age, v::text AS v FROM app.$t",
          anonymize(f"--keep v --key id {_TO_SQLITE} {_REPLACE}", table="app.c$t")],
          ["ALTER TABLE app.$t ADD v numeric DEFAULT 1",
           "UPDATE app.$t SET v = 'NaN' WHERE id = 3"]),
    Trial("Write to another database, or exclude these rows", anonymize(_TO_SQLITE, q="d"), [
          anonymize(q="d"), "CREATE VIEW app.v$t AS SELECT * FROM app.$t WHERE d > '0002-01-01'",
          anonymize(f"--key id {_TO_SQLITE}", table="app.v$t", q="d")],
          ["ALTER TABLE app.$t ADD d date DEFAULT '2020-01-01'",
           "UPDATE app.$t SET d = '0044-03-15 BC' WHERE id < 20"]),
    Trial("Release a table of all rows, or give the column", of_sqlite("--output-kind view",
          q="true"), [of_sqlite(q="true"), lambda s: s.sqlite(
          "CREATE VIEW v AS " + s.text("$statement").replace("…", "id").rstrip(".")
          + " FROM people"), of_sqlite("--output-kind view --key id --output v$t", "is_true", "v")],
          [begin_in_sqlite, lambda s: s.sqlite(
              'ALTER TABLE people ADD COLUMN "true" INTEGER', 'UPDATE people SET "true" = size')]),
    Trial("Rename the column in a view, and anonymize the view.",
          of_sqlite("--target $url", "xmin"), [
          lambda s: s.sqlite("CREATE VIEW v AS SELECT id, xmin AS low FROM people"),
          of_sqlite("--target $url --key id", "low", "v")],
          [begin_in_sqlite, lambda s: s.sqlite("ALTER TABLE people RENAME COLUMN size TO xmin")]),
    Trial("Leave out `kept_columns`, so that its values", anonymize("--keep w --kept-columns"
          " client"), [anonymize("--keep w")],
          ["CREATE DOMAIN app.w$t AS text", "ALTER TABLE app.$t ADD w app.w$t[] DEFAULT '{a}'"]),
    Trial("Raise the limit (`memory_limit`), or leave out `kept_columns`", anonymize(
          "--keep note --kept-columns client --memory-limit 300000"), [
          anonymize("--keep note --kept-columns client --memory-limit 30000000"),
          anonymize(f"--keep note --memory-limit 300000 {_REPLACE}")],
          ["ALTER TABLE app.$t ADD note text DEFAULT repeat('x', 5000)"]),
)  # fmt: skip


def run_job(site: Site) -> object:
    """Run a job of the trial's table."""
    call = Call(
        site.url,
        {
            "table": f"app.{site.table}",
            "output": f"release.{site.table}",
            "quasi_identifiers": ["age"],
            "k": 5,
            "if_exists": "replace",
        },
    )
    site.write("job.yaml", json.dumps(job_file(call)))
    return site.take("dbanon run $path/job.yaml --allow-inline-password")


def run_locked(site: Site, url: str = "") -> object:
    """A job whose lock another session holds; through a pooler the lock's own connection counts."""
    with open_store(url or site.url).job_lock("people"):
        return run_job(site) if not url else release_by(url, site)


def release_by(url: str, site: Site) -> object:
    """A release by a URL of the same database."""
    return dbanon.anonymize(
        url, table=f"app.{site.table}", output=f"release.{site.table}",
        quasi_identifiers=["age"], k=5, if_exists="replace",
    )  # fmt: skip


def through_pooler(words: str = "", locked: bool = False, **settings: Any) -> Step:
    """A release by way of a pooler, with these words at the end of the URL."""

    def act(site: Site) -> object:
        with pgbouncer(site.server, **settings) as port:
            url = through(site.url, port) + words
            return run_locked(site, url) if locked else release_by(url, site)

    return act


def list_releases(size: int, used: int) -> Step:
    """List releases with an engine of so many connections, of which some are in use."""

    def act(site: Site) -> None:
        engine = create_engine(site.url, pool_size=size, max_overflow=0, pool_timeout=0.05)
        with contextlib.ExitStack() as stack:
            stack.callback(engine.dispose)
            for _ in range(used):
                stack.enter_context(engine.connect())
            dbanon.releases(engine)

    return act


def without_answer(act: Callable[[str, Site], object]) -> Step:
    """An act whose connection is lost at COMMIT, and with it the server."""

    def step(site: Site) -> object:
        site.patch.setattr("dbanon.stores.postgresql.store.OUTCOME_SECONDS", 0.2)
        server = site.server
        cut = Cut("after", since=SESSION, down=True)
        with TcpProxy(server.host, server.port, cut) as proxy:
            return act(proxy.url(site.url), site)

    return step


def open_reader(site: Site) -> None:
    """Read the release in a transaction that stays open."""
    reader = psycopg.connect(conninfo(site.urls["bob"]))
    site.closing.callback(reader.close)
    reader.execute(site.text("SELECT count(*) FROM release.$t").encode())


_END = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bob' AND state ="
    " 'idle in transaction'"
)
_KEY = """(hashtextextended('dbanon output "release"."$t"', 0))"""


def require_own_message(site: Site) -> None:
    """The server's log has the server's own message."""
    assert "division by zero" in site.server.log_text()


SERVERS = (
    Trial("Wait until it is done: a second run", run_locked, [run_job]),
    Trial("Close unused connections, enlarge the pool", list_releases(1, 1),
          [list_releases(1, 0), list_releases(2, 1), "dbanon releases $url"]),
    Trial("Choose a name of at most {} bytes.", anonymize(f"--output release.{'x' * 70}"), [
          lambda s: s.take(anonymize(
              "--output release." + "x" * int(re.findall(r"\d+", s.hint)[0])))]),
    Trial("Wait until it is done, then try again.", anonymize(),
          ["bob: SELECT pg_advisory_unlock" + _KEY, anonymize()],
          ["bob: SELECT pg_advisory_lock" + _KEY]),
    Trial("Look up the server's own message", anonymize("--key id", table="app.v$t"), [
          require_own_message, "CREATE OR REPLACE VIEW app.v$t AS SELECT id, age FROM app.$t",
          anonymize("--key id", table="app.v$t")],
          ["CREATE VIEW app.v$t AS SELECT id, age / (id - 5) AS age FROM app.$t"]),
    Trial("Use pool_mode = transaction or session", through_pooler(mode="statement"),
          [through_pooler(mode="session"), anonymize(_REPLACE)]),
    Trial("Leave the setting out, add it to", through_pooler("?options=-cwork_mem%3D1MB"), [
          through_pooler(), through_pooler("?options=-cwork_mem%3D1MB",
                                           ignore_startup_parameters="options")]),
    Trial("Raise default_pool_size of the pooler", through_pooler(locked=True, size=1,
          query_wait_timeout=1), [through_pooler(locked=True, size=2, query_wait_timeout=1)]),
    Trial("End these transactions (pg_stat_activity", anonymize(_REPLACE, "anna: "), [
          _END, anonymize(_REPLACE, "anna: ")], ["ALTER ROLE anna SET lock_timeout = '100ms'",
          anonymize(role="anna: "), "GRANT SELECT ON release.$t TO bob", open_reader],
          ["ALTER ROLE anna RESET lock_timeout"]),
    Trial("Drop those objects and create them again", anonymize(
          f"--output-kind view {_REPLACE}"), [
          "CREATE VIEW app.v$t AS SELECT id, age::integer AS age FROM app.$t",
          anonymize(f"--output-kind view {_REPLACE} --key id", table="app.v$t"),
          "DROP VIEW release.d$t", anonymize(f"--output-kind view {_REPLACE}"),
          "CREATE VIEW release.d$t AS SELECT * FROM release.$t"],
          [anonymize("--output-kind view"), "CREATE VIEW release.d$t AS SELECT * FROM release.$t",
           "ALTER TABLE app.$t ALTER age TYPE bigint"]),
    Trial("Run: SELECT pg_xact_status('{}')", without_answer(lambda url, s: dbanon.store_hierarchy(
          url, s.table, {"tree": {"*": ["a"]}})), ["$statement"]),
    Trial("Look before you run it again.", without_answer(release_by), ["$statement"]),
)  # fmt: skip


def sort_on_disk(site: Site) -> object:
    """A release by anna that sorts more than fits the memory of its session."""
    for name, text in (("client.SORT_MEM", "64kB"), ("client.WORK_MEM", "64kB")):
        site.patch.setattr(f"dbanon.stores.postgresql.{name}", text)
    small = CLIENT_STATEMENTS.replace(f"'{WORK_MEM}'", "'64kB'")
    site.patch.setattr("dbanon.stores.postgresql.session.CLIENT_STATEMENTS", small)
    return site.take(anonymize("--key id", "anna: "))


DISKS = (
    Trial("A superuser can allow more: ALTER ROLE …", sort_on_disk, [
          lambda s: s.take(s.text("$statement").replace("…", "anna").partition(",")[0]),
          sort_on_disk],
          ["INSERT INTO app.$t SELECT g, g % 70, 1, repeat('n', 60), 'x'"
           " FROM generate_series(1000, 11000) AS g", "ALTER ROLE anna SET temp_file_limit = 64"],
          ["ALTER ROLE anna RESET temp_file_limit"]),
)  # fmt: skip

TRIALS = (*RIGHTS, *SQL, *RULES, *BUDGETS, *RELEASES, *INSTALLATIONS, *COPIES, *SERVERS, *DISKS)
