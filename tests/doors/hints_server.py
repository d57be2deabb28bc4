"""Hints of PostgreSQL, its SQL functions, rules, budgets and refreshes, with their ways out."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import dbanon
from tests.doors.hints_installation import COPIES, DISKS, INSTALLATIONS, SERVERS
from tests.doors.server_site import Trial
from tests.doors.server_steps import (
    AGE,
    BUDGET,
    NOT_NULL,
    OWNER,
    REPLACE,
    anonymize,
    begin_in_sqlite,
    declare,
    for_role,
    in_python,
    mdav,
    options,
    spend,
    spend_in_sqlite,
)

# Groups of values, in words of the command line.
_GROUPS = """--method gaa_cp --recode 'ill={"A": ["x"], "Other": "*"}'"""

RIGHTS = (
    Trial(
        "Its owner runs: GRANT SELECT ON {} TO {};",
        anonymize(role="anna: "),
        ["$statement", anonymize(role="anna: ")],
        ["REVOKE SELECT ON app.$t FROM PUBLIC"],
    ),
    Trial(
        "Its owner runs: GRANT USAGE ON SCHEMA {} TO {};",
        anonymize(role="anna: ", table="s$t.p"),
        ["$statement", anonymize(role="anna: ", table="s$t.p")],
        [
            "CREATE SCHEMA s$t",
            "CREATE TABLE s$t.p AS TABLE app.$t",
            "GRANT SELECT ON s$t.p TO anna",
        ],
    ),
    Trial(
        "The owner of the database runs: GRANT TEMPORARY",
        "anna: " + mdav(),
        ["$statement", "anna: " + mdav()],
        ["REVOKE TEMPORARY ON DATABASE $db FROM PUBLIC"],
        ["GRANT TEMPORARY ON DATABASE $db TO PUBLIC"],
    ),
    Trial(
        "Strata, entities and keys need a type with",
        anonymize("--by doc"),
        [
            "CREATE VIEW app.v$t AS SELECT id, age, doc::jsonb AS doc FROM app.$t",
            anonymize("--by doc --key id", table="app.v$t"),
        ],
        ["ALTER TABLE app.$t ADD doc json DEFAULT '{}'"],
    ),
    Trial(
        "The owner of the database runs: CREATE SCHEMA",
        "anna: " + mdav(output="no$t.p"),
        ["$statement", "anna: " + mdav(output="no$t.p")],
    ),
    Trial(
        "The owner of the schema runs: GRANT USAGE, CREATE",
        "anna: " + mdav(output="c$t.p"),
        ["$statement", "anna: " + mdav(output="c$t.p")],
        ["CREATE SCHEMA c$t"],
    ),
    Trial(
        "If the name is right, create it first:",
        anonymize("--output m$t.p --strict -q size"),
        ["$statement", anonymize("--output m$t.p --strict -q size")],
    ),
    Trial(
        "An administrator runs dbanon install, or dbanon",
        anonymize(role="nell: "),
        ["dbanon install $url --python-path $package", "$statement", anonymize(role="nell: ")],
        (),
        ["REVOKE dbanon_runner FROM nell"],
    ),
    Trial(
        "An administrator runs: GRANT dbanon_runner TO …; Or",
        "nell: dbanon verify $url release.$t",
        [
            "nell: dbanon verify $url release.$t -q age --k 5",
            for_role("nell"),
            "nell: dbanon verify $url release.$t",
        ],
        [mdav(), "GRANT SELECT ON release.$t TO PUBLIC"],
        ["REVOKE dbanon_runner FROM nell"],
    ),
    Trial(
        "Its owner runs: GRANT SELECT ON {} TO …;",
        "anna: dbanon verify $url release.$t",
        [for_role("anna"), "anna: dbanon verify $url release.$t"],
        [mdav()],
    ),
    Trial(
        "Drop it as role {}, and first drop the views",
        "anna: dbanon drop $url release.$t",
        ["dbanon drop $url release.$t"],
        [mdav()],
    ),
    Trial(
        "Drop it as role {}, and first drop the views",
        "dbanon drop $url release.$t",
        ["DROP VIEW release.v$t", "dbanon drop $url release.$t"],
        [mdav(), "CREATE VIEW release.v$t AS SELECT * FROM release.$t"],
    ),
    Trial(
        "Publish as role {}, or choose another name.",
        anonymize(f"--output-kind view {REPLACE}", "anna: "),
        [
            anonymize(f"--output-kind view {REPLACE}"),
            anonymize(f"--output-kind view {REPLACE} --output release.a$t", "anna: "),
        ],
        [anonymize("--output-kind view")],
    ),
    Trial(
        "Use a role that sees all rows: the table's owner",
        "anna: " + mdav(),
        [mdav(), "ALTER ROLE anna BYPASSRLS", "anna: " + mdav(output="release.a$t")],
        [
            "ALTER TABLE app.$t ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY y ON app.$t USING (age < 30)",
        ],
        ["ALTER ROLE anna NOBYPASSRLS"],
    ),
    Trial(
        "Release a copy of your own in which the column",
        anonymize("--keep word"),
        [
            "CREATE TABLE app.v$t AS SELECT id, age, word::text[] FROM app.$t",
            anonymize("--keep word", table="app.v$t"),
            anonymize("--keep word --output release.o$t", "bob: "),
        ],
        [
            OWNER + "bob",
            "GRANT CREATE ON SCHEMA app TO bob",
            "bob: CREATE DOMAIN app.w$t AS text CHECK (VALUE <> '')",
            "bob: ALTER TABLE app.$t ADD word app.w$t[] DEFAULT '{a}'",
        ],
    ),
    Trial(
        'Run it as role "{}", or as a member of it.',
        declare(AGE, "anna: "),
        [declare(AGE), "GRANT bob TO anna", declare(AGE, "anna: ")],
        [OWNER + "bob"],
        ["REVOKE bob FROM anna"],
    ),
    Trial(
        "Its owner runs: GRANT USAGE ON SCHEMA {} TO {}; GRANT",
        "SELECT dbanon.mdav('app.$t',"
        " 'release.$t', k => 5, options => '{\"recoding\": \"generalization\"}')",
        [
            lambda s: [s.take(text) for text in re.findall("GRANT [^;]*", s.hint)],
            "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5, options =>"
            ' \'{"recoding": "generalization"}\')',
        ],
        [
            "CREATE TABLE app.h$t AS SELECT 'n' || g AS leaf, '*' AS level1"
            " FROM generate_series(1, 120) AS g",
            declare(
                '{"age": "quasi_identifier", "size": "drop", "id": "drop", "ill": "drop", "name":'
                ' {"role": "quasi_identifier", "hierarchy": {"table": "app.h$t"}}}'
            ),
            OWNER + "bob",
            "REVOKE USAGE ON SCHEMA app FROM bob",
        ],
        ["GRANT USAGE ON SCHEMA app TO bob"],
    ),
)

SQL = (
    Trial(
        "Use `memory_limit={}` or less.",
        options('{"memory_limit": 2000000000}'),
        [
            mdav("$argument"),
            "ALTER DATABASE $db RESET dbanon.memory_limit",
            mdav("options => '{\"memory_limit\": 2000000000}'", "release.m$t"),
        ],
        ["ALTER DATABASE $db SET dbanon.memory_limit = '1GB'"],
        ["ALTER DATABASE $db RESET dbanon.memory_limit"],
    ),
    Trial(
        "If it is a label, write it as text",
        "SELECT dbanon.gaa_cp('app.$t', 'release.$t',"
        ' \'{code}\', 5, hierarchies => \'{"code": {"tree": {"*": [12345678901234567890]}}}\')',
        [
            "SELECT dbanon.gaa_cp('app.$t', 'release.$t', '{code}', 5, hierarchies =>"
            ' \'{"code": {"tree": {"*": ["12345678901234567890"]}}}\')'
        ],
        ["ALTER TABLE app.$t ADD code text DEFAULT '12345678901234567890'"],
    ),
    Trial("Write an object, as in options", options("[1]"), [mdav("$argument")]),
    Trial(
        "Create a view of the rows",
        options('{"where": "age < 40"}'),
        [
            "CREATE VIEW app.v$t AS SELECT * FROM app.$t WHERE age < 40",
            lambda s: s.take(mdav(s.text("$argument").replace("…", "id"), table="app.v$t")),
        ],
    ),
    Trial(
        "Run it from a client: dbanon anonymize",
        options('{"chain": {"name": "c"}}'),
        [anonymize("--chain $t --entity id --chain-key file:$path/$t")],
        [
            "dbanon chain create $url $t --table app.$t --entity id --changes show --key-out"
            " $path/$t"
        ],
    ),
    Trial(
        "Run it from a client: dbanon anonymize",
        options('{"pseudonyms": ["id"]}'),
        [anonymize("--pseudonym id --pseudonym-key file:$path/key")],
    ),
    Trial(
        "Refresh it from a client: dbanon refresh URL {}",
        "SELECT dbanon.refresh('release.$t')",
        ["$command"],
        [anonymize("--where 'age < 40'")],
    ),
    Trial(
        "A superuser runs: dbanon upgrade URL",
        mdav(),
        ["$command --python-path $package --python-path $opendp", mdav()],
        [
            lambda s: [
                s.connection().execute(text)
                for (text,) in s.connection().execute(
                    "SELECT replace(pg_get_functiondef(p.oid), '''' || dbanon.version() || '''',"
                    " '''0.0.1''') FROM pg_proc AS p WHERE proname = '_anonymize' AND"
                    " pronamespace = 'dbanon'::regnamespace"
                )
            ]
        ],
    ),
    Trial(
        "Drop or rename pg_temp.{}: dbanon stages rows",
        mdav(),
        [lambda s: s.take("DROP TABLE " + re.findall(r'pg_temp\."\w+"', s.hint)[0]), mdav()],
        ["CREATE TEMPORARY TABLE dbanon_source (x integer)"],
        ["DROP TABLE IF EXISTS pg_temp.dbanon_source"],
    ),
    Trial("Name its schema, as in release.people.", mdav(output="$t"), [mdav()]),
    Trial(
        "Name its schema, as in release.people.",
        anonymize("--output x", "nell: "),
        [anonymize("--output release.n$t", "nell: ")],
        ["ALTER ROLE nell SET search_path = nowhere", "GRANT dbanon_runner TO nell"],
        ["ALTER ROLE nell RESET search_path", "REVOKE dbanon_runner FROM nell"],
    ),
    Trial(
        "Name another schema, as in release.people.", anonymize("--output pg_temp.x"), [anonymize()]
    ),
    Trial("Name its schema, as in app.people.", anonymize(table="$t"), [anonymize()]),
    Trial(
        "Choose another output, or replace it:",
        mdav(),
        [mdav(output="release.o$t"), mdav("$argument")],
        [mdav(), "DROP TABLE release.$t"],
    ),
    Trial(
        "Choose another output, or drop or rename {} yourself.",
        mdav("if_exists => 'replace'"),
        [mdav(output="release.o$t"), "ALTER TABLE release.${t}_summary RENAME TO spare$t", mdav()],
        ["CREATE TABLE release.${t}_summary (x integer)"],
    ),
    Trial(
        "Try again.",
        lambda s: (
            s.take("BEGIN ISOLATION LEVEL REPEATABLE READ"),
            s.take("SELECT 1"),
            s.take("bob: CREATE SCHEMA late$t"),
            s.take("bob: GRANT ALL ON SCHEMA late$t TO PUBLIC"),
            s.take(mdav(output="late$t.p")),
        ),
        [mdav(output="late$t.p")],
        ["GRANT CREATE ON DATABASE $db TO bob"],
        [],
    ),
    Trial(
        "CALL dbanon.{} without BEGIN",
        "BEGIN; CALL dbanon.dp_ranks('app.$t', 'release.$t',"
        " '{size}', epsilon => 1, bounds => '{\"size\": [0, 6]}', budget => '$t')",
        [
            "CALL dbanon.dp_ranks('app.$t', 'release.$t', '{size}', epsilon => 1,"
            " bounds => '{\"size\": [0, 6]}', budget => '$t')"
        ],
        [NOT_NULL, BUDGET],
    ),
)

RULES = (
    Trial(
        'For example: {"age": "quasi_identifier"',
        in_python(lambda url, t: dbanon.declare(url, t, [])),
        [
            in_python(
                lambda url, t: dbanon.declare(
                    url, t, {"age": "quasi_identifier", "name": "identifier"}
                )
            )
        ],
    ),
    Trial(
        "Give the role entity to one column",
        declare('{"id": "entity", "name": "entity"}'),
        [declare('{"id": "entity", "name": "identifier"}')],
    ),
    Trial(
        "Give the role weight to one column",
        declare('{"id": "weight", "age": "weight"}'),
        [declare('{"id": "drop", "age": "weight"}')],
    ),
    Trial(
        "Leave out `{}`, or name `quasi_identifiers`",
        "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5, keep => '{name}')",
        [
            "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)",
            mdav("keep => '{name}'", "release.k$t"),
        ],
        [
            declare(
                '{"age": "quasi_identifier", "id": "drop", "size": "drop", "name": "drop",'
                ' "ill": "drop"}'
            )
        ],
    ),
    Trial(
        "Write one line, as in dbanon: quasi_identifier",
        "dbanon declare $url --table app.$t --from-comments",
        [
            "COMMENT ON COLUMN app.$t.age IS 'dbanon: quasi_identifier'",
            "dbanon declare $url --table app.$t --from-comments",
            'COMMENT ON COLUMN app.$t.age IS \'dbanon: {"role": "quasi_identifier"}\'',
            "dbanon declare $url --table app.$t --from-comments",
        ],
        ["COMMENT ON COLUMN app.$t.age IS 'dbanon: {\"role\"'"],
    ),
    Trial(
        "The role {} takes these keys: {}.",
        declare('{"age": {"role": "keep", "reason": "x", "weight": 2}}'),
        [declare('{"age": {"role": "keep", "reason": "x"}}')],
    ),
    Trial(
        "Give the reason:",
        declare('{"name": "keep"}'),
        [declare('{"name": {"role": "keep", "reason": "…"}}')],
    ),
    Trial(
        "Store the hierarchy (dbanon hierarchy store)",
        declare(
            json.dumps(
                {"name": {"role": "quasi_identifier", "hierarchy": {"tree": {"*": ["n" * 70_000]}}}}
            )
        ),
        [
            'dbanon hierarchy store $url $t --from \'{"tree": {"*": ["n1", "n2"]}}\'',
            declare('{"name": {"role": "quasi_identifier", "hierarchy": "$t"}}'),
        ],
    ),
    Trial(
        "Known privacy models: {}.",
        declare('{"ill": {"role": "sensitive", "model": {"zzz": 2}}}'),
        [declare('{"ill": {"role": "sensitive", "model": {"distinct_l": 2}}}')],
    ),
    Trial(
        "Declare the rules of one table at a time.",
        lambda s: (
            s.write("rules.json", json.dumps([asdict(rule) for rule in dbanon.rules(s.url)])),
            s.take("dbanon declare $url $path/rules.json --table app.$t"),
        ),
        [
            lambda s: s.write(
                "rules.json",
                json.dumps([asdict(rule) for rule in dbanon.rules(s.url, f"app.o{s.table}")]),
            ),
            "dbanon declare $url $path/rules.json --table app.$t",
        ],
        [
            "CREATE TABLE app.o$t AS TABLE app.$t",
            declare(AGE),
            "SELECT dbanon.declare('app.o$t', '{\"size\": \"quasi_identifier\"}')",
        ],
    ),
    Trial(
        "The rules went with the table",
        "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)",
        [
            mdav(),
            declare(AGE),
            "ALTER TABLE app.$t DROP id, DROP size, DROP name, DROP ill",
            "SELECT dbanon.mdav('app.$t', 'release.r$t', k => 5)",
        ],
        [
            declare(AGE),
            "ALTER TABLE app.$t RENAME TO old$t",
            "CREATE TABLE app.$t AS TABLE app.old$t",
        ],
    ),
    Trial(
        "Declare rules for its columns, or name",
        "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)",
        [
            mdav(),
            "ALTER TABLE app.$t DROP id, DROP size, DROP name, DROP ill",
            declare(AGE),
            "SELECT dbanon.mdav('app.$t', 'release.r$t', k => 5)",
        ],
    ),
    Trial(
        "Check these rules. If they are right",
        "anna: SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)",
        ["anna: $statement", "anna: SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)"],
        [
            "ALTER TABLE app.$t DROP id, DROP size, DROP name, DROP ill",
            OWNER + "bob",
            declare(AGE, "bob: "),
            OWNER + "anna",
        ],
    ),
    Trial(
        "Declare the columns that together could",
        "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)",
        [declare(AGE), "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)"],
        [declare('{"age": "drop", "id": "drop", "size": "drop", "name": "drop", "ill": "drop"}')],
    ),
    Trial(
        "Write a line in the comment on a column",
        "dbanon declare $url --table app.$t --from-comments",
        [
            "COMMENT ON COLUMN app.$t.age IS 'dbanon: quasi_identifier'",
            "dbanon declare $url --table app.$t --from-comments",
        ],
    ),
)

BUDGETS = (
    Trial(
        "Spend from it, or create a larger one under",
        BUDGET,
        [spend("$t"), "dbanon budget create $url more$t --source app.$t --epsilon 5 --raises $t"],
        [NOT_NULL, BUDGET],
    ),
    Trial(
        "Choose a total {} {}.",
        "dbanon budget create $url more$t --source app.$t --epsilon 3 --raises $t",
        ["dbanon budget create $url more$t --source app.$t --epsilon 4 --raises $t"],
        [BUDGET],
    ),
    Trial(
        "Spend from {}, or create a larger one",
        "dbanon budget create $url more$t --source app.$t --epsilon 5",
        [spend("$t"), "dbanon budget create $url more$t --source app.$t --epsilon 5 --raises $t"],
        [NOT_NULL, BUDGET],
    ),
    Trial(
        "Create one that raises {}, with a total of {}",
        "dbanon budget create $url new$t --source app.new$t --epsilon 5",
        ["dbanon budget create $url new$t --source app.new$t --epsilon 3 --raises $t"],
        [NOT_NULL, BUDGET, spend("$t"), "ALTER TABLE app.$t RENAME TO new$t"],
    ),
    Trial("The owner of the ledger, schema dbanon, runs", "anna: " + BUDGET, [BUDGET]),
    Trial(
        "Create one for all releases of the source",
        spend("zzzzzzzz"),
        [BUDGET, spend("$t")],
        [NOT_NULL],
    ),
    Trial(
        "dbanon budget list shows the open ones.",
        spend("$t"),
        ["dbanon budget list $url", spend("more$t")],
        [
            NOT_NULL,
            BUDGET,
            "dbanon budget create $url more$t --source app.$t --epsilon 5 --raises $t",
        ],
    ),
    Trial(
        "Another program removed it. Find out which one",
        spend_in_sqlite,
        [lambda s: s.sqlite("DROP TRIGGER remover"), spend_in_sqlite],
        [
            begin_in_sqlite,
            lambda s: s.sqlite(
                "CREATE TRIGGER remover AFTER INSERT ON dbanon_spending BEGIN"
                " DELETE FROM dbanon_spending; END"
            ),
        ],
    ),
    Trial(
        "Name a table, or create one from the rows",
        "dbanon budget create $url $t --source app.v$t --epsilon 3",
        [
            BUDGET,
            "CREATE TABLE app.w$t AS TABLE app.v$t",
            "dbanon budget create $url w$t --source app.w$t --epsilon 3",
        ],
        ["CREATE VIEW app.v$t AS SELECT * FROM app.$t"],
    ),
    Trial(
        "Check them with dbanon verify",
        "dbanon evaluate $url release.$t",
        [
            "dbanon verify $url release.$t",
            "dbanon evaluate $url release.$t --original app.$t --analyses $path/sizes.yaml",
        ],
        [
            NOT_NULL,
            BUDGET,
            spend("$t"),
            lambda s: s.write("sizes.yaml", "[{quantiles: size}]"),
        ],
    ),
    Trial(
        "To spend epsilon again, release the source again",
        "dbanon refresh $url release.$t",
        [
            "dbanon anonymize $url --table app.$t -q size --method dp_ranks --epsilon 1 --bounds"
            " size=0:6 --budget $t --output release.again$t"
        ],
        [NOT_NULL, BUDGET, spend("$t")],
    ),
)

RELEASES = (
    Trial(
        "It was dropped or renamed. dbanon releases",
        "dbanon verify $url release.$t",
        ["dbanon releases $url", "dbanon verify $url release.now$t"],
        [mdav(), "ALTER TABLE release.$t RENAME TO now$t"],
    ),
    Trial(
        "Another program changed it. Name quasi-identifiers",
        "dbanon verify $url release.$t",
        ["dbanon verify $url release.$t -q age --k 5", anonymize(REPLACE)],
        [mdav(), "UPDATE dbanon.release SET arguments = '[]' WHERE output_name = '$t'"],
    ),
    Trial(
        "Rename the table that has it in its name",
        anonymize(table="'app.\"$t\nx\"'"),
        [
            'CREATE VIEW app.v$t AS SELECT id, age FROM app."$t\nx"',
            anonymize("--key id", table="app.v$t"),
            'ALTER TABLE app."$t\nx" RENAME TO x$t',
            anonymize("--output release.x$t", table="app.x$t"),
        ],
        ['CREATE TABLE app."$t\nx" AS TABLE app.$t'],
    ),
    Trial(
        "dbanon releases lists all releases with their current",
        "dbanon verify $url 00000000-0000-4000-8000-000000000000",
        ["dbanon releases $url"],
    ),
    Trial(
        "If these changes are intended: `accept=",
        "SELECT dbanon.refresh('release.$t')",
        ["SELECT dbanon.refresh('release.$t', $argument)"],
        [
            "ALTER TABLE app.$t DROP id, DROP size, DROP name",
            declare('{"age": "quasi_identifier", "ill": "sensitive"}'),
            "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5)",
            declare('{"ill": "drop"}'),
        ],
    ),
    Trial(
        "If these changes are intended: `accept=",
        "dbanon refresh $url release.$t",
        ["dbanon refresh $url release.$t --accept source", mdav(output="release.o$t")],
        [mdav(), "ALTER TABLE app.$t ALTER age TYPE bigint"],
    ),
    Trial(
        "Refresh it as role {}, or release the source",
        "anna: dbanon refresh $url release.$t",
        ["dbanon refresh $url release.$t", anonymize("--output release.o$t", "anna: ")],
        [mdav()],
    ),
    Trial(
        "Release it again with all options. If the source",
        "dbanon refresh $url release.$t",
        [anonymize("--output release.o$t"), "dbanon refresh $url release.o$t"],
        [
            begin_in_sqlite,
            "dbanon anonymize sqlite:///$path/$t.sqlite --table"
            " people -q size --k 5 --target $url --output release.$t",
        ],
    ),
    Trial(
        "Declare orders and hierarchies as rules of the table",
        "dbanon refresh $url release.$t",
        [
            declare(
                '{"age": "quasi_identifier", "id": "drop", "size": "drop", "name": "drop",'
                ' "ill": {"role": "quasi_identifier", "order": ["x", "y", "z"]}}'
            ),
            "SELECT dbanon.mdav('app.$t', 'release.$t', k => 5, if_exists => 'replace', options =>"
            ' \'{"recoding": "median"}\')',
            "dbanon refresh $url release.$t",
        ],
        [anonymize("--order ill=x,y,z --recoding median", q="age,ill")],
    ),
    Trial(
        "Release it again with all options, among them the groups",
        "dbanon refresh $url release.$t",
        [anonymize(f"{_GROUPS} {REPLACE}", q="age,ill")],
        [anonymize(_GROUPS, q="age,ill")],
    ),
    Trial(
        "Refresh it from a client, and name the file or variable",
        "dbanon refresh $url release.$t",
        ["dbanon refresh $url release.$t --pseudonym-key file:$path/key"],
        [anonymize("--pseudonym id --pseudonym-key file:$path/key")],
    ),
    Trial(
        "Name the key of the release.",
        "dbanon refresh $url release.$t --pseudonym-key file:$path/other",
        [
            "dbanon refresh $url release.$t --pseudonym-key file:$path/key",
            anonymize(f"--pseudonym id --pseudonym-key file:$path/other {REPLACE}"),
        ],
        [anonymize("--pseudonym id --pseudonym-key file:$path/key")],
    ),
    Trial(
        "Refresh it from a client, and name the chain key",
        "dbanon refresh $url release.$t",
        ["dbanon refresh $url release.$t --chain-key file:$path/$t"],
        [
            "dbanon chain create $url $t --table app.$t --entity id --changes show --key-out"
            " $path/$t",
            anonymize("--chain $t --entity id --chain-key file:$path/$t"),
        ],
    ),
)


TRIALS = (*RIGHTS, *SQL, *RULES, *BUDGETS, *RELEASES, *INSTALLATIONS, *COPIES, *SERVERS, *DISKS)
