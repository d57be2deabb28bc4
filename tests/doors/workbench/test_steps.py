"""Which forms a workbench accepts and refuses, and the files that it writes; only on SQLite."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml

from dbanon.extensions.workbench.state import Workbench
from dbanon.sessions.names import quote
from tests.doors.html.pages import HOSTILE
from tests.doors.workbench.client import STEPS, Client, text_of, workbench
from tests.doors.workbench.people import COLUMNS, ROLES, decide_roles, load, rows, swept, trees


def test_known_points_are_not_tried_again(client: Client) -> None:
    bench = client.routes.bench
    decide_roles(client, **ROLES)
    swept(client)
    first = bench.tasks.current
    client.sent("choose", {"point": "gaa_cp/3"})
    swept(client)
    assert bench.tasks.current is first
    swept(client, to=4)
    second = bench.tasks.current
    assert second is not first
    swept(client)
    assert bench.tasks.current is second
    assert {point.k for point in bench.current_sweep.points} == {3, 4, 5}
    swept(client, again="yes")
    assert bench.tasks.current is not second
    # Other roles make another sweep.
    decide_roles(client, pay="drop")
    assert bench.current_sweep is None
    assert bench.chosen_trial is None


ELSEWHERE = (
    "../a.yaml",
    "/tmp/a.yaml",
    "b/a.yaml",
    "..yaml",
    ".a.yaml",
    "a.sh",
    "a b.yaml",
    "$(id).yaml",
    "a\x00.yaml",
    "é.yaml",
    "a..yaml",
    "a" * 99 + ".yaml",
    "a.yaml.",
    "a.yaml\n/b",
    "~.yaml",
    "",
)


def test_a_job_file_goes_nowhere_else(client: Client, tmp_path: Path) -> None:
    decide_roles(client, **ROLES)
    form = client.form(client.page("job"), "job")
    for name in ELSEWHERE:
        assert client.post("job", form | {"file": name}).status == 422, name
        database_path = name.replace(".yaml", ".duckdb")
        assert client.post("job", form | {"database_file": database_path}).status == 422, name
    assert {path.name for path in tmp_path.iterdir()} == {"people.db"}


def test_a_file_that_it_did_not_write_stays(client: Client, tmp_path: Path) -> None:
    decide_roles(client, **ROLES)
    mine, elsewhere = tmp_path / "people.yaml", tmp_path / "elsewhere"
    form = client.form(client.page("job"), "job")
    for make in (lambda: mine.write_text("mine"), lambda: mine.symlink_to(elsewhere)):
        elsewhere.write_text("mine")
        make()
        page = client.sent("job", form)
        assert "and this workbench did not write it" in page
        assert mine.read_text() == "mine"
        mine.unlink()
    client.done("job", form)
    # Its own file is overwritten, unless it was changed.
    client.done("job", form)
    assert client.routes.bench.tasks.current.error is None
    mine.write_text(mine.read_text() + "# mine\n")
    assert "changed since" in client.sent("job", form)
    assert "# mine" in mine.read_text()
    client.done("job", form | {"replace": "yes"})
    assert "# mine" not in mine.read_text()
    # A link is replaced, and its target is not touched.
    mine.unlink()
    mine.symlink_to(elsewhere)
    client.done("job", form | {"replace": "yes"})
    assert not mine.is_symlink()
    assert elsewhere.read_text() == "mine"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".dbanon")]


def test_a_tree_never_replaces_foreign_files(client: Client, tmp_path: Path) -> None:
    """The form's box confirms the job file only: a table may have the name of a
    hierarchy's file.
    """
    decide_roles(client, **ROLES)
    client.done("trees", trees(client, area="suggest"))
    position = list(client.routes.bench.roles).index("area") + 1
    data = tmp_path / f"people.tree-{position}.csv"
    data.write_text("north,1\n")
    form = client.form(client.page("job"), "job") | {"replace": "yes"}
    assert "and this workbench did not write it" in client.sent("job", form)
    assert data.read_text() == "north,1\n"
    assert not (tmp_path / "people.yaml").exists()
    data.unlink()
    client.done("job", form)
    assert "north" in data.read_text()
    client.done("job", form)


def test_a_release_withholds_the_same_as_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With NULLs, and without a comparison that could give a recommendation."""
    monkeypatch.chdir(tmp_path)
    columns = [f"{name} {kind}" for name, kind in COLUMNS.items()]
    records = [
        [None if n == 4 and i < 20 else cell for n, cell in enumerate(row)]
        for i, row in enumerate(rows())
    ]
    url = load(tmp_path, "people", columns, records)
    with workbench(url, "people", tmp_path, key=("id",)) as client:
        decide_roles(client, **ROLES)
        swept(client, **{"from": 5, "to": 5})
        assert client.routes.bench.current_sweep.advice.start == {}
        client.sent("choose", {"point": "gaa_cp/5"})
        client.done("job", client.form(client.page("job"), "job"))
        written = (tmp_path / "people.yaml").read_text()
        assert "nulls: " in written
        client.done("plan", {})


def test_pages_show_no_password(client: Client) -> None:
    url = "postgresql://anna:zyxomma@127.0.0.1:9/none"
    bench = client.routes.bench
    visible_url = Workbench(replace(bench.arguments, url=url)).shown_url
    assert "anna" in visible_url
    assert "zyxomma" not in visible_url
    bench.shown_url = visible_url
    decide_roles(client, **ROLES)
    page = unescape(swept(client))
    [line] = re.findall(r'aria-label="Command"><code>(.*?)</code>', page, re.S)
    assert visible_url in line


def test_trees_are_counted_again_for_a_larger_k(client: Client) -> None:
    """They remain after a sweep, and show no label with fewer rows than the chosen k."""
    decide_roles(client, **ROLES)
    client.done("trees", trees(client, area="suggest"))
    bench = client.routes.bench
    first = bench.trees["area"]
    assert "north" in client.page("trees")
    for k in (30, 39):
        swept(client, **{"from": k, "to": k + 1})
        client.sent("choose", {"point": f"gaa_cp/{k}"})
        page = client.page("trees")
        assert "build the hierarchies again" not in page
        assert f"as multiples of {k}." in page
        assert "north" in page
        assert "zyxomma" not in page
        assert (bench.trees["area"].tree, bench.k) == (first.tree, k)


def test_the_line_for_cron_finds_its_program(client: Client, tmp_path: Path) -> None:
    """cron runs it with its own shell, whose PATH lacks any Python environment."""
    decide_roles(client, **ROLES)
    client.done("job", client.form(client.page("job"), "job") | {"schedule": "0 3 1 * *"})
    [line] = re.findall(r'aria-label="Line for cron"><code>(.*?)</code>', client.page("run"), re.S)
    command = unescape(line).removeprefix("0 3 1 * * ").replace(r"\%", "%")
    ran = subprocess.run(
        ["/bin/sh", "-c", command], env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True
    )
    assert ran.returncode == 0, ran.stderr
    assert list(tmp_path.glob("out/people/*.html"))


def test_a_wide_table_has_a_filter(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "data-bulk" not in client.page("columns")
    url = load(tmp_path, "wide", [f"c{i} integer" for i in range(60)], [range(60)] * 30)
    with workbench(url, "wide", tmp_path) as wide:
        page = wide.page("columns")
        assert 'id="filter"' in page
        # Displayed only by the script, and not part of the form.
        assert "data-bulk hidden" in page
        assert set(wide.form(page, "columns")) == {
            f"{field}-{i}" for field in ("role", "reason") for i in range(60)
        }


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("columns", {"role-0": "by"}, "one of the listed roles"),
    ("columns", {"role-0": "keep"}, "has no reason"),
    ("columns", {f"role-{i}": "drop" for i in range(7)}, "No column is a quasi-identifier"),
    ("trees", {"tree-1": "mask"}, "cannot have a hierarchy of this kind"),
    ("trees", {"tree-1": "file", "file-1": "../people.yaml"}, "one of the existing hierarchies"),
    ("trees", {"tree-1": "name", "name-1": "none"}, "one of the existing hierarchies"),
    ("trees", {"tree-4": "intervals", "intervals-4": "1e999"}, "must be numbers"),
    ("trees", {"tree-4": "intervals", "intervals-4": "x"}, "must be numbers"),
    ("sweep", {"from": 2, "to": 500}, "at most 41"),
    ("sweep", {"from": "1e3"}, "must be a whole number"),
    ("sweep", {"from": "٣"}, "must be a whole number"),
    ("sweep", {"from": 3, "to": 4, "method": "exact"}, "from the listed methods"),
    ("choose", {"point": "gaa_cp/4"}, "the trial releases"),
    ("job", {"file": "a.yaml", "name": "a b", "output": "x"}, "letters, digits"),
    ("sweep", {"nulls": "none"}, "The treatment of NULLs must be one of"),
    ("job", {"file": "a.yaml", "name": "a", "output": "x.y"}, "must not have a schema"),
    ("job", {"file": "a.yaml", "name": "a", "output": "x", "export": "exe"}, "exported"),
    ("job", {"file": "a.yaml", "name": "a", "output": "x", "kind": "file"}, "view or as a table"),
    ("job", {"file": "a.yaml", "name": "a", "output": "x", "schedule": "* * * * ;"}, "cron"),
    (
        "job",
        {"file": "a.yaml", "name": "a", "output": "x", "schedule": "0 25 1 * *"},
        "hour must be",
    ),
    (
        "job",
        {"file": "a.yaml", "name": "a", "output": "x", "schedule": "0 3 31 2 *"},
        "do not have",
    ),
]


def test_only_offered_values_are_accepted(client: Client, tmp_path: Path) -> None:
    decide_roles(client, **ROLES)
    complete_forms: dict[str, dict[str, Any]] = {
        "columns": client.form(client.page("columns"), "columns"),
        "sweep": {"from": 3, "to": 4, "sample": 2000, "seed": 0, "limit": 9},
    }
    before = client.routes.bench.decision_revision
    for name, fields, why in WRONG:
        answer = client.post(name, complete_forms.get(name, {}) | fields)
        assert (answer.status, why) == (422, why if why in text_of(answer.body) else answer.body)
        assert 'role="alert"' in answer.body
    assert client.routes.bench.decision_revision == before
    assert {path.name for path in tmp_path.iterdir()} == {"people.db"}


def test_handling_of_nulls_is_tried_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    records = [[i, None if i < 2 else 20 + i % 9, None if i < 8 else i % 5] for i in range(60)]
    columns = ["id integer PRIMARY KEY", "age integer", "visits integer"]
    url = load(tmp_path, "people", columns, records)
    with workbench(url, "people", tmp_path, key=("id",)) as client:
        decide_roles(client, id="identifier", age="quasi_identifier", visits="quasi_identifier")
        for nulls in ("merge", "suppress"):
            swept(client, nulls=nulls)
            client.sent("choose", {"point": "gaa_cp/4"})
            form = client.form(client.page("job"), "job") | {"file": f"{nulls}.yaml"}
            client.done("job", form)
            text = (tmp_path / f"{nulls}.yaml").read_text()
            assert f"nulls: {nulls}\n" in text
            assert ("max_suppression: 0.14\n" in text) == (nulls == "suppress")
        assert "Released" in text_of(client.done("run", {}))


def test_hostile_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hostile names of the table, columns and labels in pages, pictures, files and the job file."""
    monkeypatch.chdir(tmp_path)
    table = '<b>"; DROP --{{x}} #'
    label = "</code><script>alert(1)</script>{{ 7 * 7 }}\"'&"
    kinds = {
        "id": "integer",
        **dict.fromkeys(HOSTILE[:2], "text"),
        HOSTILE[2]: "integer",
        HOSTILE[3]: "text",
        HOSTILE[4]: "text",
    }
    records = [[i, label, f"{label}{i % 3}", i % 30, label, "x"] for i in range(120)]
    quoted = quote(table)
    url = load(tmp_path, quoted, [f"{quote(name)} {kind}" for name, kind in kinds.items()], records)
    with workbench(url, quoted, tmp_path, key=("id",)) as client:
        roles = dict(
            zip(
                kinds,
                ("identifier", "drop", "quasi_identifier", "quasi_identifier", "sensitive", "keep"),
                strict=True,
            )
        )
        decide_roles(client, **roles)
        client.done("trees", trees(client, **{HOSTILE[1]: "suggest"}))
        swept(client)
        client.sent("choose", {"point": "gaa_cp/4"})
        form = client.form(client.page("job"), "job")
        client.done("job", form | {"report": "yes"})
        client.done("plan", {})
        assert "Released" in text_of(client.done("run", {}))
        output = client.routes.bench.published_release.output
        client.page(f"compare?b=r%2F{output}")
        for step in (*STEPS, "report"):
            client.page(step)
        tree_text = text_of(client.page("trees"))
        # As plain text, not interpreted by a template or a browser.
        assert f"{label}0" in tree_text
        assert "{{x}}" in tree_text
    for answer in client.answers:
        assert "<script>alert" not in answer.body
        assert "<img" not in answer.body
        assert "<b>" not in answer.body
        assert not any("\n" in value or "\r" in value for value in answer.headers.values())
    assert {path.name for path in tmp_path.iterdir() if path.suffix in (".yaml", ".csv")} == {
        "b-DROP-x.yaml",
        "b-DROP-x.tree-3.csv",
    }


def test_values_are_planted_where_they_could_be_seen(client: Client) -> None:
    """The same pages show values that enough rows have."""
    bench = client.routes.bench
    decide_roles(client, **ROLES)
    client.done("trees", trees(client, area="suggest", born="dates"))
    tree = bench.trees["area"].tree
    assert "zyxomma" in tree.labels
    page = client.page("trees")
    assert "zyxomma" not in page
    assert "south" in page
    assert "under 5" in page


def test_the_page_of_a_run_shows_the_risk_that_its_job_measures(
    client: Client, tmp_path: Path
) -> None:
    """It is on no report, which readers may have."""
    names = list(client.routes.bench.roles)
    decide_roles(client, **ROLES | {"pay": "weight"})
    form = client.form(client.page("job"), "job") | {"report": "yes"}
    chosen = {"risk": "yes", "risk-weight": str(names.index("pay")), "risk-threshold": "0.1"}
    chosen |= {"risk-household": str(names.index("note")), "risk-max_individual": "1"}
    for has_risk in (False, True):
        client.done("job", form | (chosen if has_risk else {}))
        keys = yaml.safe_load((tmp_path / "people.yaml").read_text())["jobs"][0]
        assert keys["columns"]["pay"] == {"role": "weight"}
        assert keys.get("risk", {}) == (
            {
                "weight": "pay",
                "household": "note",
                "threshold": 0.1,
                "max_individual": 1.0,
                "file": "private/{job}-{release}.html",
            }
            if has_risk
            else {}
        )
        client.done("run", {})
        assert ('id="disclosure"' in client.page("run")) == has_risk
        report = client.get("report").body
        assert "<html" in report
        assert 'id="disclosure"' not in report
    [private] = tmp_path.glob("private/people-*.html")
    assert (private.stat().st_mode & 0o777, private.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    for path in tmp_path.glob("out/**/*.html"):
        assert "isclosure risk" not in path.read_text()
