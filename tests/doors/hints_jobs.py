"""Hints of jobs, methods and doors: what raises each, and what a user does who follows it."""

from __future__ import annotations

from typing import Any

import pandas as pd

import dbanon
from dbanon.errors import OutcomeUnknown
from tests.doors.hint_steps import (
    ARRAY,
    FRAME,
    MEASURES,
    PEOPLE,
    Steps,
    cli,
    evaluate,
    frame,
    noisy,
)
from tests.doors.hints_workbench import IN_WORKBENCH
from tests.doors.job_steps import (
    ALONE,
    CHAINED,
    FEW_ARRIVED,
    KEY,
    LARGE,
    MANY_ARRIVED,
    MOVED,
    OF_TABLES,
    PAIRS,
    RNG,
    SECURE,
    T_ORDERED,
    T_TREE,
    TOWN_ORDER,
    TOWNS,
    alike,
    as_published,
    copied_report,
    counted,
    create_chain,
    declare,
    declare_listing,
    demo,
    distance,
    exported,
    exported_to,
    fit,
    in_chain,
    in_duckdb,
    in_lake,
    instants,
    kept_views,
    levels,
    missing_table,
    models,
    names,
    new_chain,
    of_chain,
    on_used_port,
    open_file,
    parted,
    private,
    run_file,
    run_job,
    second_release,
    serve,
    tutorial,
)

COMMANDS = (
    of_chain("Leave out `evaluate`.", "--evaluate"),
    of_chain("Leave out `certificate`.", "--certificate 1"),
    of_chain(
        "Leave out `pseudonyms`, or release without a chain.",
        f"--pseudonym code {KEY}",
        alone=f"--pseudonym code {KEY}",
    ),
    of_chain(
        "Leave out `also_k`, or release without a chain.", "--also-k age", alone="--also-k age"
    ),
    of_chain("Leave out `releases`, or release without a chain.", ALONE, alone=""),
    of_chain(
        "Leave out `top`, `bottom` and `recode`, or release without a chain.",
        "--top age=50",
        alone="--top age=50",
    ),
    of_chain(
        "Leave out `design_weight`, or release without a chain.",
        "--design-weight size",
        alone="--design-weight size",
    ),
    of_chain(
        "Leave out `profile`, or release without a chain.",
        "--profile hipaa",
        alone="--profile hipaa --top age=50",
    ),
    Steps(
        'Use `nulls="category"` or `nulls="suppress"`.',
        cli(f"{CHAINED} --nulls merge"),
        [new_chain(release="--nulls category"), new_chain(release="--nulls suppress")],
    ),
    Steps(
        'Choose another method, such as `method="gaa_cp"`, or release without a chain.',
        cli(f"{CHAINED} --method local_suppression"),
        [
            new_chain(release="--method gaa_cp"),
            cli(f"{PEOPLE} --entity pid --method local_suppression {ALONE}"),
        ],
    ),
    of_chain(
        "Leave out the method's option suppression.",
        "--method full_domain --option suppression=0.1 --recoding generalization",
    ),
    of_chain(
        'Use `persons="whole"`, or release without a chain.',
        "--persons rows",
        "--persons whole",
        alone="--persons rows",
    ),
    of_chain(
        "Leave out `entity_normalize`, and spell them alike in a view.",
        "--entity-normalize casefold",
    ),
    Steps(
        "Name it: --chain NAME.",
        cli(f"{PEOPLE} --max-exposed 1"),
        [
            cli(
                "anonymize {url} --table measured -q age --k 4 --output {new} --chain measured"
                " --entity id --chain-key file:{path}/measured.key --max-exposed 1"
            )
        ],
    ),
    Steps(
        "Use `k={}` or less, or create",
        new_chain("--class-size 8", "--k 10"),
        [new_chain("--class-size 8", "--k 8"), new_chain("--class-size 10", "--k 10")],
    ),
    Steps(
        "Say how many rows per person a release shows",
        new_chain("--table labs"),
        [new_chain("--table labs --max-rows-per-person 2", None)],
    ),
    Steps(
        "Leave out max_rows_per_person, or the mode",
        new_chain("--mode measure --max-rows-per-person 2"),
        [new_chain("--mode measure"), new_chain("--max-rows-per-person 2")],
    ),
    Steps(
        "Raise max_exposed, or release in a chain",
        second_release(MOVED, "--max-exposed 0", "--mode measure"),
        [
            second_release(MOVED, "--max-exposed 1", "--mode measure"),
            second_release(MOVED, create="--mode continue"),
        ],
    ),
    Steps(
        "Run it again once there are more persons.",
        second_release(FEW_ARRIVED),
        [second_release(MANY_ARRIVED, "--accept-turnover")],
    ),
    Steps(
        "Write file:people.csv, or leave the source out",
        new_chain("--source {url}"),
        [
            cli(
                "chain create {url} of_file --source file:{path}/rows.csv --table rows --entity x"
                " --changes show --key-out {path}/rows.key"
            ),
            new_chain(),
        ],
    ),
    # Job files.
    Steps(
        "Name one of its jobs: {}.",
        run_file("a", words="--job zzz"),
        [run_file("a", words="--job a")],
    ),
    Steps("Name one of them as job: {}.", run_job("a", "b"), [run_job("a", "b", job="a")]),
    Steps(
        "There is no default. docs/chains.md says",
        create_chain("zzz"),
        [create_chain(changes) for changes in ("show", "hold", "freeze")],
    ),
    Steps(
        "Run the failed jobs again by name: {}.",
        missing_table(by_name=False),
        [missing_table(by_name=True)],
    ),
    Steps(
        "Before you run a job with outcome_unknown",
        missing_table(by_name=False, error=OutcomeUnknown()),
        [cli("releases {url}"), missing_table(by_name=True)],
    ),
    Steps(
        "Name the columns that the error names",
        run_job("a", accept_types="age"),
        [run_job("a", accept_types=["age"])],
    ),
    Steps(
        "Name what the error names",
        run_job("a", accept_counts="rows"),
        [run_job("a", accept_counts=["rows"])],
    ),
    Steps(
        "Another program uses it. Leave out --port",
        on_used_port,
        [serve(choose_port=False), serve(choose_port=True)],
    ),
    Steps("Change to its folder first: cd {}", open_file(2, "."), [open_file(2)]),
    Steps(
        "Run it with dbanon run {}, and change it",
        open_file(3),
        [open_file(2), lambda w: w.cli(f"run {kept_views(w, 3)}")],
    ),
    Steps("Leave out `skip_unchanged`.", in_chain("--skip-unchanged"), [in_chain("")]),
    # Rules and files.
    Steps(
        "Save that list as it is, or write",
        declare("[1]"),
        [declare('{"age": "quasi_identifier"}'), declare_listing],
    ),
    Steps(
        "Write a JSON object, in UTF-8, as in",
        declare("{"),
        [declare('{"age": "quasi_identifier"}')],
    ),
    Steps(
        "Leave out `quasi_identifiers` and `k`, or `ledger`.",
        exported(ledger=True, quasi_identifiers=["age"], k=4),
        [exported(ledger=True), exported(quasi_identifiers=["age"], k=4)],
    ),
    # The demonstration.
    Steps(
        "Make fewer: --rows {}.",
        demo("--rows 501 --directory {path}/d"),
        [demo("--rows 500 --directory {path}/d")],
    ),
    Steps(
        "Choose another one (--directory).",
        cli("demo --rows 100 --directory {path}/key/x"),
        [cli("demo --rows 100 --directory {path}/d2")],
    ),
    Steps(
        "Choose another directory (--directory), or remove the file",
        cli("demo --rows 100 --directory {path}/foreign"),
        [cli("demo --rows 100 --directory {path}/d3")],
    ),
    Steps(
        "Choose another one (--directory), or remove it",
        cli("tutorial --yes --directory {path}/foreign"),
        [tutorial("--yes --remove --directory {path}/d4")],
    ),
    # Privacy budgets.
    Steps(
        "Give the unit person and `entity` together",
        cli("budget create {url} {new} --source people --epsilon 3 --unit person"),
        [
            cli("budget create {url} {new} --source people --epsilon 3 --unit person --entity id"),
            cli("budget create {url} {new} --source labs --epsilon 3"),
        ],
    ),
    Steps("Leave out `{}`.", cli(f"{PEOPLE} --epsilon 1"), [cli(f"{PEOPLE} {ALONE}")]),
    Steps(
        "Call dbanon.synthesize with an array",
        lambda w: w.table(method="dcmdp"),
        [as_published(ARRAY), as_published(MEASURES)],
    ),
    Steps(
        "Name the columns to release: `quasi_identifiers`.",
        private(quasi_identifiers=[]),
        [private()],
    ),
    # Sets of columns and counts.
    Steps(
        "Name fewer columns or a smaller k in `also_k`, or group rare values of copied columns in"
        " a view.",
        alike(also_k=[["email"]]),
        [alike(also_k=[["age"]])],
    ),
    Steps(
        "Name fewer columns or a smaller k in `also_k`, or group rare values of copied columns in"
        " a view. It would",
        alike(also_k=[["rare"]]),
        [
            alike(also_k=[["age"]]),
            alike(also_k=[{"columns": ["rare"], "k": 2}]),
            alike(also_k=[["rare"]], max_suppression=0.016667),
        ],
    ),
    Steps(
        "Raise the limit (`memory_limit`), or group values",
        counted(10**7),
        [counted(10**9), counted(10**7, 200)],
    ),
    # Exports.
    Steps("Leave out {release}, keep_last and format", in_lake(format="csv"), [in_lake()]),
    # Types of a database.
    Steps(
        "Cast it to text in a view.",
        in_duckdb(pseudonyms=["size"], pseudonym_key="file:key", quasi_identifiers=["age"]),
        [
            in_duckdb(
                "as_text", pseudonyms=["size"], pseudonym_key="file:key", quasi_identifiers=["age"]
            )
        ],
    ),
    Steps(
        "Cast it to text or to a number in a view.",
        in_duckdb(keep=["tags"], also_k=[["tags"]]),
        [in_duckdb("as_text", quasi_identifiers=["age"], keep=["tags"], also_k=[["tags"]])],
    ),
    Steps(
        "Cast it to a wider type in a view, or take",
        in_duckdb(method="secure_kward", quasi_identifiers=["age"], options=SECURE),
        [
            in_duckdb("as_text", method="secure_kward", quasi_identifiers=["age"], options=SECURE),
            in_duckdb(
                method="secure_kward",
                quasi_identifiers=["age"],
                options={"epsilon": 0.1, "gamma0": 1.0},
            ),
        ],
    ),
    Steps("The source gives different rows", in_duckdb("drawn", key=["id"]), [in_duckdb()]),
)

FRAMES = (
    # Methods and their options.
    Steps(
        "Its options: {}.",
        frame(method="full_domain", options={"zzz": 1}),
        [frame(method="full_domain", options={"suppression": 0.0})],
    ),
    Steps(
        "Leave it out: the method has no options.",
        frame(method="mdav", options={"zzz": 1}),
        [frame(method="mdav")],
    ),
    Steps("{} Known methods: {}.", frame(method="mdavv"), [frame(method="mdav")]),
    Steps(
        "Choose fast (takes moments)",
        frame(refine="zzz"),
        [frame(refine=name) for name in ("fast", "thorough", "pass")],
    ),
    Steps(
        "Methods that take it, with",
        frame(quasi_identifiers=["town"], method="optimal_univariate", recoding="representative"),
        [
            frame(quasi_identifiers=["town"], method="mdav", recoding="representative"),
            frame(quasi_identifiers=["town"], method="mdav", recoding="generalization"),
        ],
    ),
    Steps(
        'Use `recoding="median"`, or leave the column out',
        frame(
            method="secure_kward",
            quasi_identifiers=["age", "town"],
            orders=TOWN_ORDER,
            options=SECURE,
        ),
        [
            frame(
                method="secure_kward",
                quasi_identifiers=["age", "town"],
                orders=TOWN_ORDER,
                options=SECURE,
                recoding="median",
            ),
            frame(method="secure_kward", quasi_identifiers=["age"], options=SECURE),
        ],
    ),
    Steps(
        "Give the column as a smaller type in a view.",
        frame(LARGE, recoding="median", recode={"age": [30]}),
        [frame(LARGE.assign(age=LARGE.age.astype(float)), recoding="median", recode={"age": [30]})],
    ),
    Steps(
        "Leave out `design_weight`, or give the column as a smaller type.",
        frame(LARGE.assign(w=1.0), design_weight="w"),
        [
            frame(LARGE),
            frame(LARGE.assign(age=LARGE.age.astype(float), w=1.0), design_weight="w"),
        ],
    ),
    Steps(
        "Name a column with the numbers of persons that rows stand for: `design_weight`.",
        frame(FRAME.assign(w=1e308), design_weight="w"),
        [frame(FRAME.assign(w=2.5), design_weight="w")],
    ),
    Steps(
        "Release the means: leave out `weight_as`.",
        frame(FRAME.assign(w=0.5), design_weight="w", weight_as="rounded"),
        [frame(FRAME.assign(w=0.5), design_weight="w")],
    ),
    Steps(
        'Use `recoding="mean"`, or give the column as a smaller type.',
        frame(LARGE, recoding="medoid"),
        [
            frame(LARGE, recoding="mean"),
            frame(LARGE.assign(age=LARGE.age.astype(float)), recoding="medoid"),
        ],
    ),
    Steps(
        'Use `intervals="text"` without `local_range`',
        frame(LARGE, method="gaa_cp", recoding="generalization", local_range=True),
        [frame(LARGE, method="gaa_cp", recoding="generalization", intervals="text")],
    ),
    Steps(
        "Choose a method that makes classes of rows",
        lambda _: fit("individual_ranking"),
        [lambda _: fit("mdav")],
    ),
    # Privacy models.
    Steps(
        "Known keys: {}; l belongs",
        models({**T_ORDERED, "zzz": 1}),
        [
            models(T_TREE),
            models({"attribute": "town", "kind": "recursive_cl", "level": 3, "l": 2}),
        ],
    ),
    Steps(
        "Give all models of a column the same distance.",
        models(T_ORDERED, T_TREE),
        [models(T_TREE, T_TREE)],
    ),
    Steps(
        "Give the distance as a Hierarchy.",
        lambda _: distance({"name": "towns"}),
        [lambda _: distance(dbanon.Hierarchy.from_nested(TOWNS))],
    ),
    # Too few records.
    Steps("Anonymize a table with more rows.", frame(FRAME[:1]), [frame(FRAME)]),
    Steps(
        "No other pattern of NULLs includes",
        frame(
            FRAME.assign(age=FRAME.age.where(FRAME.id > 1), size=FRAME["size"].where(FRAME.id > 1)),
            nulls="merge",
        ),
        [
            frame(
                FRAME.assign(
                    age=FRAME.age.where(FRAME.id > 1), size=FRAME["size"].where(FRAME.id > 1)
                ),
                nulls="merge",
                max_suppression=0.05,
            )
        ],
    ),
    # Evaluations.
    Steps(
        "Call dbanon.evaluate with both frames, and name",
        lambda _: copied_report(),
        [evaluate(key="id")],
    ),
    Steps(
        "Put both in one order, or name a `key`",
        evaluate(ARRAY, released=RNG.permutation(ARRAY), quasi_identifiers=None),
        [
            evaluate(ARRAY, released=ARRAY, quasi_identifiers=None),
            evaluate(key="id"),
            evaluate(report="report"),
        ],
    ),
    Steps(
        "Give both as data frames, whose columns",
        evaluate([["a", 1]] * 9, released=[["a", 1]] * 9, quasi_identifiers=None),
        [evaluate(PAIRS, released=PAIRS, quasi_identifiers=None)],
    ),
    Steps(
        "Give the released column the type",
        evaluate(released=FRAME.assign(age=pd.Timestamp("2020-01-01")), key="id"),
        [evaluate(released=FRAME.assign(age=FRAME.age.astype(str)), key="id")],
    ),
    Steps(
        "Write {}, or {}.",
        lambda _: dbanon.advise(MEASURES, k=(4,), methods=("mdav+zzz",)),
        [lambda _: dbanon.advise(MEASURES, k=(4,), methods=("mdav+fast", "mdav"))],
    ),
    Steps(
        "Leave out `quasi_identifiers` and `key`",
        lambda _: dbanon.certificate(MEASURES, 4, quasi_identifiers=["a"]),
        [lambda _: dbanon.certificate(MEASURES, 4, seconds=0.1)],
    ),
    # Synthetic rows.
    Steps(
        "Leave out rows with NULLs",
        as_published(MEASURES.where(MEASURES.a > 30)),
        [as_published(MEASURES.where(MEASURES.a > 30).dropna())],
    ),
    Steps(
        "Give a larger epsilon.",
        lambda _: dbanon.Budget(1e-6, delta=1e-12),
        [lambda _: dbanon.Budget(1.0, delta=1e-12)],
    ),
    Steps(
        "Create a budget with a delta, or leave out",
        noisy(method="dp_marginals", delta=1e-9, accounting="zcdp"),
        [
            noisy(method="dp_marginals"),
            noisy(
                method="dp_marginals",
                budget=dbanon.Budget(99.0, delta=1e-6),
                delta=1e-9,
                accounting="zcdp",
            ),
        ],
    ),
    Steps(
        "Leave out `{}`.",
        noisy(method="dp_marginals", margins="quantiles"),
        [noisy(method="dp_marginals")],
    ),
    Steps(
        "Bring rare values together in a view, or choose",
        names(4500, method="single_axis"),
        [names(100, method="single_axis"), names(4500, method="mdav")],
    ),
    Steps(
        "Name fewer quasi-identifiers, or give hierarchies",
        levels(9),
        [levels(3), levels(9, hierarchies={f"c{i}": {"intervals": [20]} for i in range(9)})],
    ),
    Steps(
        "Classes with the same released values form one class",
        parted(0.3),
        [parted(0.9), parted(0.9, persons="whole")],
    ),
)

IN_POSTGRESQL = (
    Steps(
        "Withhold such instants in a view, or set them to NULL.",
        instants("late"),
        [instants("early", key=["id"]), instants("unknown", nulls="suppress", max_suppression=0.5)],
    ),
)

_AXIS: dict[str, Any] = {"method": "single_axis"}

# Hints whose texts have names in the sources, by what is printed.
BY_NAME = (
    Steps(
        "Use sum (of the standardized values), first_component (first principal component), or"
        " the name of an attribute.",
        frame(**_AXIS, options={"axis": "zzz"}),
        [frame(**_AXIS, options={"axis": axis}) for axis in ("sum", "first_component", "age")],
    ),
    Steps(
        'Write a file as in "out/people.parquet" or "out/people.csv".',
        exported_to("people"),
        [exported_to("out/people.parquet"), exported_to("out/people.csv")],
    ),
    Steps(
        "Write one condition without WHERE, as in --where 'status = '\"'\"'active'\"'\"''.",
        cli(f"{PEOPLE} {ALONE} --where 'town = \"a'"),
        [cli(f"{PEOPLE} {ALONE} --where \"town = 'a'\"")],
    ),
    Steps(
        'Write {"columns": ["age", "illness"], "k": 20}, or ["age", "illness"].',
        alike(also_k=[[]]),
        [
            alike(also_k=[["age", "rare"]], max_suppression=0.1),
            alike(also_k=[{"columns": ["age"], "k": 5}], max_suppression=0.5),
        ],
    ),
    Steps(
        'Write {"attribute": "diagnosis", "kind": "distinct_l", "level": 3}.',
        models({"kind": "distinct_l"}),
        [models({"attribute": "town", "kind": "distinct_l", "level": 2})],
    ),
    Steps(
        "Synthetic rows have no classes, and no row belongs to a person. Leave out k.",
        private(k=4),
        [private()],
    ),
    Steps(
        "It applies to classes, and synthetic rows have no classes. Leave out max_suppression.",
        private(max_suppression=0.1),
        [private()],
    ),
    Steps(
        "A column that is copied has no noise: name it in quasi_identifiers. Leave out keep.",
        private(keep=["pid"]),
        [
            private(),
            private(
                quasi_identifiers=["age", "pid"],
                bounds={"age": (0, 100), "pid": (0, 40)},
                null_as={"age": 50, "pid": 0},
            ),
        ],
    ),
    Steps(
        "Say which value replaces NULL: null_as. Leave out nulls.",
        private(nulls="suppress"),
        [private()],
    ),
    Steps(
        'Did you mean "people"?',
        run_file("people", words="--job peopel"),
        [run_file("people", words="--job people")],
    ),
)

# Texts that nobody can follow here, and why.
IMPOSSIBLE = {
    "This is an error in dbanon: please report it.": "it stands where dbanon itself is wrong",
    "Please report this, with what was done and this line.": "as the one before, in the workbench",
}

FOLLOWED = tuple(
    case.hint for case in (*OF_TABLES, *COMMANDS, *FRAMES, *IN_POSTGRESQL, *IN_WORKBENCH)
)
