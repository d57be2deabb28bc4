"""Hints of commands, and of files that they read."""

from __future__ import annotations

import gzip
import json

import dbanon
from tests.doors.hint_steps import (
    CSV,
    FRAME,
    OPEN,
    PEOPLE,
    SHOW,
    Act,
    Steps,
    World,
    cli,
    csv,
)

# Of a database whose URL matters: the table of all releases takes long to lay out.
LIST = cli("releases {url} --format json")
_LETTERS = {"tree": {"*": ["a", "b"]}}


def with_hierarchy(content: bytes) -> Act:
    """A release with a hierarchy of towns in a CSV file of this content."""

    def act(world: World) -> object:
        path = world.path / world.new(".csv")
        path.write_bytes(content)
        return world.table(
            quasi_identifiers=["town"], method="gaa_cp", hierarchies={"town": str(path)}
        )

    return act


def count_export(options: str) -> Act:
    """Count a file of a release with k = 4."""

    def act(world: World) -> object:
        path = world.path / "counted.parquet"
        if not path.exists():
            world.table(exports=[{"path": str(path)}])
        return world.cli(f"verify {path} {options}")

    return act


def risk_page(
    words: str = "", *, figures: str = "", page: str = "", released: str = "taken"
) -> Act:
    """A page of a release with the disclosure risk, of figures that are measured first."""

    def act(world: World) -> object:
        file = world.path / world.new(".json")
        result = dbanon.disclosure_risk(
            world.url, "people", quasi_identifiers=["age"], released=released
        )
        file.write_text(figures or json.dumps(result.to_dict()))
        name = page or world.new()
        return world.cli(f"report {{url}} taken -o {{path}}/{name}.html --risk {file} {words}")

    return act


COMMANDS = (
    Steps(
        "Name it: --chain NAME.",
        cli("anonymize {url} --table people -q age --k 4 --output {new} --max-exposed 3"),
    ),
    Steps(
        "Say where it is: --chain-key file:PATH or env:NAME.",
        cli(f"{PEOPLE} --chain open --entity id"),
        [cli(f"{PEOPLE} {OPEN}")],
    ),
    Steps(
        "Write --recode 'region=",
        cli(
            "anonymize {url} --table people -q town --k 4 --output {new} --method gaa_cp --recode"
            " town='{{A: a}}'"
        ),
        [
            cli(
                "anonymize {url} --table people -q town --k 4 --output {new} --method gaa_cp"
                """ --recode 'town={{"A": ["a", "b"], "Other": "*"}}'"""
            )
        ],
    ),
    Steps(
        "Choose another name.",
        cli(f"chain create {{url}} open --table people {SHOW}"),
        [cli(f"chain create {{url}} others --table plain {SHOW}")],
    ),
    Steps(
        "Use that chain. Or close it, and",
        cli(f"chain create {{url}} wider --table wide {SHOW}"),
        [
            cli("chain close {url} wide"),
            cli(
                "chain create {url} wider --table wide --entity id"
                " --changes show --new-chain-from wide --chain-key file:{path}/wide.key"
            ),
        ],
    ),
    Steps(
        "Create another one.",
        cli(
            "anonymize {url} --table few -q age --k 4 --output {new}"
            " --chain closed --entity id --chain-key file:{path}/closed.key"
        ),
        [cli(f"{PEOPLE} {OPEN}")],
    ),
    Steps(
        "The releases of a chain have these settings in common.",
        cli(f"{PEOPLE} {OPEN}".replace("-q age", "-q size")),
        [cli(f"chain create {{url}} fourth --table seen {SHOW}"), cli(f"{PEOPLE} {OPEN}")],
    ),
    Steps(
        "dbanon chain list shows them.",
        cli("chain show {url} nobody"),
        [cli("chain list {url}"), cli("chain show {url} open")],
    ),
    Steps(
        "With another key everyone would look",
        cli(f"{PEOPLE} {OPEN}".replace("people.key", "key")),
        [cli(f"{PEOPLE} {OPEN}")],
    ),
    Steps(
        "A key is never written over another file.",
        cli(
            "chain create {url} fifth --table extra --entity id --changes show --key-out {path}/key"
        ),
        [cli(f"chain create {{url}} fifth --table extra {SHOW}")],
    ),
    Steps(
        "Choose a name such as patients.",
        cli(f"chain create {{url}} 'a b' --table extra2 {SHOW}"),
        [cli(f"chain create {{url}} patients --table extra2 {SHOW}")],
    ),
    Steps(
        "dbanon chain create writes a key to a file.",
        cli(f"{PEOPLE} --chain open --entity id --chain-key hush"),
        [
            cli(
                "chain create {url} key --table fewer --entity id --changes show"
                " --key-out {path}/key2"
            ),
            cli(
                "anonymize {url} --table fewer -q age --k 4 --output {new} --chain key --entity id"
                " --chain-key file:{path}/key2"
            ),
        ],
    ),
    Steps(
        "Name one chain, without --k and --sensitive.",
        cli("chain measure {url} open --chain-key file:{path}/people.key --k 4"),
        [cli("chain measure {url} open --chain-key file:{path}/people.key")],
    ),
    Steps(
        "Leave out --chain-key or --entity.",
        cli("chain measure {url} open --chain-key file:{path}/people.key --entity id"),
        [cli("chain measure {url} open --chain-key file:{path}/people.key")],
    ),
    Steps(
        "Name the database that its releases go to, and the file",
        cli(f"chain create file:{{path}}/rows.csv c --table rows {SHOW}"),
        [
            cli(
                "chain create {url} of_file --source file:{path}/rows.csv --table rows --entity x"
                " --changes show --key-out {path}/rows.key"
            )
        ],
    ),
    Steps(
        "Name the column of the person that each of these",
        cli("chain measure {url} taken taken2 --k 4"),
        [cli("chain measure {url} with_id with_id2 --k 4 --entity id")],
    ),
    Steps(
        "Add --original TABLE.",
        cli("evaluate {url} taken --changed-source"),
        [cli("evaluate {url} taken --changed-source --original people")],
    ),
    Steps(
        "Name the relation that the release was made from",
        cli("evaluate {url} taken --original cast_copy"),
        [cli("evaluate {url} taken --original people")],
    ),
    Steps(
        "To compare it all the same: `changed_source`.",
        cli("evaluate {url} taken --original fewer"),
        [cli("evaluate {url} taken --original fewer --changed-source")],
    ),
    Steps(
        "Name a .html file.",
        cli("report {url} taken -o {path}/r.json --risk {path}/none.json"),
        [cli("report {url} taken -o {path}/r4.html")],
    ),
    Steps(
        "Name the .json file that a job wrote for its key risk, or",
        risk_page(figures="{}"),
        [risk_page()],
    ),
    Steps("Name a new file: --output FILE.html", risk_page(page="r4"), [risk_page()]),
    Steps(
        "Write two pages: leave out --risk for the recipient's.",
        risk_page("--for Ann"),
        [risk_page(), cli("report {url} taken -o {path}/r5.html --for Ann")],
    ),
    Steps(
        "Measure this one: dbanon risk URL --table TABLE --released RELEASE --format json",
        risk_page(released="fewer"),
        [risk_page()],
    ),
    Steps(
        "Name a .html file.",
        cli("report {url} taken -o {path}/r.json --for Ann"),
        [cli("report {url} taken -o {path}/r.html --for Ann")],
    ),
    Steps(
        "Name a .json, .html or .txt file in a",
        cli("report {url} taken -o {path}/no/r.html"),
        [cli("report {url} taken -o {path}/r2.json"), cli("report {url} taken -o {path}/r3.txt")],
    ),
    Steps(
        "The collector ignores other files.",
        cli("run {path}/job.yaml --metrics {path}/x.txt"),
        [cli("run {path}/job.yaml --metrics {path}/x.prom")],
    ),
    Steps(
        "Choose another one (--directory), or remove it yourself.",
        cli("tutorial --yes --directory {path}/full"),
    ),
    Steps(
        "Write values as a,b,c, or one in each line of a file.",
        cli(
            "anonymize {url} --table"
            " people -q age,town --k 4 --output {new} --order town=a,,b --recoding median"
        ),
        [
            cli(
                "anonymize {url} --table people -q age,town --k 4 --output {new} --order"
                " town=a,b,c,d,e --recoding median"
            )
        ],
    ),
    Steps(
        "Name a file that exists, in UTF-8.",
        cli(
            "anonymize {url} --table people -q age,town"
            " --k 4 --output {new} --order-file town={path}/none.txt --recoding median"
        ),
        [
            cli(
                "anonymize {url} --table people -q age,town --k 4 --output {new}"
                " --order-file town={path}/order.txt --recoding median"
            )
        ],
    ),
    Steps(
        "recursive_cl takes l=NUMBER",
        cli(
            "anonymize {url} --table people -q age --k 4 --output"
            " {new} -s ill --model ill=distinct_l:2:l=3"
        ),
        [
            cli(
                "anonymize {url} --table people -q age --k 4 --output {new} -s ill --model"
                " ill=recursive_cl:3:l=2"
            ),
            cli(
                "anonymize {url} --table people -q age --k 4 --output {new} -s ill --model"
                " ill=t_closeness:0.9:distance=equal"
            ),
        ],
    ),
    Steps(
        "Known: {}.",
        cli(
            "anonymize {url} --table people -q age --k 4 --output {new} -s ill"
            " --model ill=closeness:2"
        ),
        [
            cli(
                "anonymize {url} --table people -q age --k 4 --output"
                " {new} -s ill --model ill=distinct_l:2"
            )
        ],
    ),
    Steps(
        "dbanon releases lists all releases with their current state.",
        cli("refresh {url} nothing"),
        [cli("releases {url}"), cli("refresh {url} taken")],
    ),
    Steps(
        "dbanon explain lists all codes.",
        cli("explain zzzzzz"),
        [cli("explain"), cli("explain invalid_parameter")],
    ),
    Steps("dbanon drops only what it made: {}", cli("drop {url} strange"), [LIST]),
    Steps(
        "Add `k`.", cli("verify {url} people -q town"), [cli("verify {url} people -q town --k 2")]
    ),
    Steps(
        "Leave `k` out.",
        count_export("--k 3"),
        [count_export("")],
    ),
    Steps(
        "Compare it with the ledger of its release: name its",
        cli("verify {path}/rows.csv"),
        [cli("verify file:{path}/rows.csv rows -q x --k 2")],
    ),
    Steps(
        "Write duckdb:///{} or sqlite:///{}.",
        lambda w: dbanon.releases(w.path / "none"),
        [LIST],
    ),
    Steps(
        "Write sqlite:///file.db: a database in memory",
        cli("releases sqlite://"),
        [LIST],
    ),
    Steps(
        "Write duckdb:///file.duckdb; in Python a",
        cli("releases duckdb://"),
        [cli("releases duckdb:///{path}/x.duckdb")],
    ),
    Steps(
        "Write duckdb:///file.duckdb: a file is opened",
        cli("releases duckdb:///{path}/x.duckdb?read_only=1"),
        [cli("releases duckdb:///{path}/x.duckdb")],
    ),
    Steps(
        "Write {}:///{}.",
        cli("releases duckdb:///{path}/people.sqlite"),
        [cli("releases sqlite:///{path}/people.sqlite --format json")],
    ),
    Steps("Name a database file.", cli("releases sqlite:///{path}"), [LIST]),
    Steps(
        "Remove it, so that a database can be created there",
        cli("releases duckdb:///{path}/empty.sqlite"),
        [LIST],
    ),
    Steps(
        "Name a database file, as in",
        cli(
            "anonymize {url} --table people -q age --k 4 --output"
            " {new} --target sqlite:///{path}/out.csv"
        ),
        [
            cli(
                "anonymize {url} --table people -q age --k 4 --output {new} --releases independent"
                " --target sqlite:///{path}/out.db"
            )
        ],
    ),
    Steps(
        "Write postgresql://user@host/name",
        cli("releases 'a:b:c//x'"),
        [cli("releases duckdb:///{path}/x.duckdb"), cli("releases {url}")],
    ),
    Steps(
        "Use PostgreSQL, MariaDB, DuckDB or SQLite",
        cli("releases oracle://u@h/d"),
        [LIST],
    ),
    Steps(
        "Leave out --declare, and name the columns in the call.",
        cli("advise file:{path}/rows.csv --table rows --declare"),
        [cli("advise file:{path}/rows.csv --table rows")],
    ),
    Steps(
        "Name the columns in the call of the release.",
        cli("declare file:{path}/rows.csv --table rows --from-comments"),
        [cli("plan file:{path}/rows.csv --table rows -q age --k 3 --output {new} --target {url}")],
    ),
    Steps(
        "Give the hierarchy itself in the call of the release.",
        lambda w: dbanon.store_hierarchy(f"file:{w.path}/rows.csv", "letters", _LETTERS),
        [csv(CSV, quasi_identifiers=["x"], method="gaa_cp", hierarchies={"x": _LETTERS})],
    ),
    Steps(
        "Write a JSON object, in UTF-8, as in", cli("declare {url} {path}/rows.csv --table people")
    ),
    Steps(
        "Common choices are 3, 5 and 10.",
        cli("plan {url} --table people -q age --k 1 --output {new}"),
        [cli("plan {url} --table people -q age --k 3 --output {new}")],
    ),
)


FILES = (
    Steps(
        "Write up to {} digits, and no more decimals than digits, as in decimal(18,2).",
        csv(CSV, types={"age": "decimal(40,2)"}),
        [csv(CSV, types={"age": "decimal(18,2)"})],
    ),
    Steps(
        "Name a CSV or JSON file, in UTF-8.",
        with_hierarchy("a;größer\nb;größer\nc;größer\nd;größer\ne;größer\n".encode("latin-1")),
        [with_hierarchy("a;größer\nb;größer\nc;größer\nd;größer\ne;größer\n".encode())],
    ),
    Steps(
        "Name a target, or a file: `exports`.",
        csv(CSV, target=None),
        [
            csv(CSV),
            lambda w: w.file(
                w.new(".csv"), CSV, target=None, exports=[{"path": str(w.path / w.new(".parquet"))}]
            ),
        ],
    ),
    Steps(
        "Write file:people.csv or file:/data",
        csv(CSV, "rows.dat"),
        [
            csv(CSV, "dat/rows.csv"),
            lambda w: w.rows(f"file:{w.path}/dat/"),
            lambda w: w.rows(f"file:{w.path}/dat/*.csv"),
        ],
    ),
    Steps(
        "A folder, or a pattern such as file:data/*.parquet",
        lambda w: w.rows(f"file:{w.path}/none/*.csv"),
        [lambda w: w.rows(f"file:{w.path}/dat/*.csv")],
    ),
    Steps(
        "Read a pattern, which leaves it out",
        lambda w: w.rows(f"file:{w.path}/mix/"),
        [lambda w: w.rows(f"file:{w.path}/mix/**/*.csv")],
    ),
    Steps(
        "Read one kind:",
        lambda w: (
            w.file("kinds/a.csv", CSV),
            FRAME.to_parquet(w.path / "kinds/b.parquet"),
            w.rows(f"file:{w.path}/kinds/"),
        )[-1],
        [lambda w: w.rows(f"file:{w.path}/kinds/**/*.parquet")],
    ),
    Steps(
        "Put the folder itself there, or remove the link.",
        lambda w: w.rows(f"file:{w.path}/link/"),
        [
            lambda w: w.rows(f"file:{w.path}/link/", foreign_files="links"),
            lambda w: w.rows(f"file:{w.path}/dat/"),
        ],
    ),
    Steps(
        "All files of a table must have the same columns",
        lambda w: (
            w.file("differ/a.csv", CSV),
            w.file("differ/b.csv", CSV.replace("x", "y")),
            w.rows(f"file:{w.path}/differ/"),
        )[-1],
        [lambda w: w.rows(f"file:{w.path}/differ/a*.csv")],
    ),
    Steps(
        "All files must be at the same depth",
        lambda w: (
            w.file("deep/y=1/a.csv", CSV),
            w.file("deep/b.csv", CSV),
            w.rows(f"file:{w.path}/deep/"),
        )[-1],
        [lambda w: w.rows(f"file:{w.path}/deep/y=*/*.csv")],
    ),
    Steps(
        "Rename one of them, or read the folders one by one.",
        lambda w: (w.file("part/x=1/a.csv", CSV), w.rows(f"file:{w.path}/part/"))[-1],
        [lambda w: w.rows(f"file:{w.path}/part/x=1/a.csv")],
    ),
    Steps(
        "Say `encoding=",
        csv(b"\xff\xfe" + CSV.encode("utf-16-le")),
        [csv(b"\xff\xfe" + CSV.encode("utf-16-le"), encoding="utf-16")],
    ),
    Steps("Files were concatenated with their headers", csv(CSV + CSV), [csv(CSV)]),
    Steps(
        "Say how it is read: {}. As text: {}.",
        csv("age,x\n" + "".join(f'"1,{i:03}",a\n' for i in range(20))),
        [
            csv("age,x\n" + "".join(f'"1,{i:03}",a\n' for i in range(20)), decimal=","),
            csv("age,x\n" + "".join(f'"1,{i:03}",a\n' for i in range(20)), thousands=","),
            csv(
                "age,x\n" + "".join(f'"1,{i:03}",a\n' for i in range(20)),
                types={"age": "text"},
                recoding="representative",
            ),
        ],
    ),
    Steps(
        "It may be truncated: write it again.",
        csv(b"nothing", "cut.csv.gz"),
        [csv(gzip.compress(CSV.encode()), "whole.csv.gz")],
    ),
    Steps(
        "Choose another name, write {release} in it, or",
        lambda w: w.file(
            w.new(".csv"), CSV, target=None, exports=[{"path": str(w.path / "mix/a.csv")}]
        ),
        [
            lambda w: w.file(
                w.new(".csv"), CSV, target=None, exports=[{"path": f"{w.path}/{w.new()}.csv"}]
            ),
            lambda w: w.file(
                w.new(".csv"), CSV, target=None, exports=[{"path": f"{w.path}/x-{{release}}.csv"}]
            ),
        ],
    ),
    Steps(
        "Choose another place, or remove it.",
        lambda w: w.table(if_exists="replace", exports=[{"path": str(w.path / "mix/a.csv")}]),
        [lambda w: w.table(exports=[{"path": str(w.path / w.new(".csv"))}])],
    ),
    Steps(
        'Set "formulas" of the export to "escape"',
        lambda w: w.table(
            quasi_identifiers=["size"],
            keep=["sums"],
            exports=[{"path": str(w.path / w.new(".csv"))}],
        ),
        [
            lambda w: w.table(
                quasi_identifiers=["size"],
                keep=["sums"],
                exports=[{"path": str(w.path / w.new(".csv")), "formulas": "escape"}],
            ),
            lambda w: w.table(
                quasi_identifiers=["size"],
                keep=["sums"],
                exports=[{"path": str(w.path / w.new(".csv")), "formulas": "keep"}],
            ),
            lambda w: w.table(
                quasi_identifiers=["size"],
                keep=["sums"],
                exports=[{"path": str(w.path / w.new(".parquet"))}],
            ),
        ],
    ),
    Steps(
        "Export Parquet, or leave the column out.",
        lambda w: w.table(
            table="large",
            quasi_identifiers=["size"],
            keep=["serial"],
            exports=[str(w.path / w.new(".sav"))],
        ),
        [
            lambda w: w.table(
                table="large",
                quasi_identifiers=["size"],
                keep=["serial"],
                exports=[str(w.path / w.new(".parquet"))],
            ),
            lambda w: w.table(
                table="large", quasi_identifiers=["size"], exports=[str(w.path / w.new(".sav"))]
            ),
        ],
    ),
    Steps(
        "Its columns probably have names that the format does not allow",
        lambda w: w.table(
            table="named",
            quasi_identifiers=["size"],
            keep=["=A1"],
            exports=[str(w.path / w.new(".dta"))],
        ),
        [
            lambda w: w.table(
                table="renamed",
                key=["id"],
                quasi_identifiers=["size"],
                keep=["a1"],
                exports=[str(w.path / w.new(".dta"))],
            ),
            lambda w: w.table(
                table="named",
                quasi_identifiers=["size"],
                keep=["=A1"],
                exports=[str(w.path / w.new(".parquet"))],
            ),
        ],
    ),
    Steps(
        'Rename the column in a view, set "formulas" of the export to "keep"',
        lambda w: w.table(
            table="named",
            quasi_identifiers=["size"],
            keep=["=A1"],
            exports=[{"path": str(w.path / w.new(".csv"))}],
        ),
        [
            lambda w: w.table(
                table="renamed",
                key=["id"],
                quasi_identifiers=["size"],
                keep=["a1"],
                exports=[{"path": str(w.path / w.new(".csv"))}],
            ),
            lambda w: w.table(
                table="named",
                quasi_identifiers=["size"],
                keep=["=A1"],
                exports=[{"path": str(w.path / w.new(".csv")), "formulas": "keep"}],
            ),
            lambda w: w.table(
                table="named",
                quasi_identifiers=["size"],
                keep=["=A1"],
                exports=[{"path": str(w.path / w.new(".parquet"))}],
            ),
        ],
    ),
    Steps(
        "Leave out codes of the export.",
        lambda w: w.table(exports=[{"path": str(w.path / w.new(".csv")), "codes": "source"}]),
        [lambda w: w.table(exports=[{"path": str(w.path / w.new(".csv"))}])],
    ),
    Steps(
        'With decimal "," set separator to ";" or tab.',
        lambda w: w.table(exports=[{"path": str(w.path / w.new(".csv")), "decimal": ","}]),
        [
            lambda w: w.table(
                exports=[{"path": str(w.path / w.new(".csv")), "decimal": ",", "separator": ";"}]
            ),
            lambda w: w.table(
                exports=[{"path": str(w.path / w.new(".csv")), "decimal": ",", "separator": "tab"}]
            ),
        ],
    ),
    Steps(
        "Known keys: {}",
        lambda w: w.table(exports=[{"place": "x.csv"}]),
        [lambda w: w.table(exports=[{"path": str(w.path / w.new(".csv"))}])],
    ),
    Steps("Take it out of `types`.", csv(CSV, types={"zzzzz": "text"}), [csv(CSV)]),
)
