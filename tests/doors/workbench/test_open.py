"""The workbench opens a job file that it saved, and continues with its contents."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from dbanon.errors import InvalidParameter, JobFileInvalid
from dbanon.extensions.workbench.open import open_job_file
from dbanon.extensions.workbench.state import WorkbenchArguments
from tests.doors.workbench.client import Client, text_of, workbench
from tests.doors.workbench.people import ROLES, decide_roles, swept, trees
from tests.doors.workbench.test_command import READING, write_table


def opened(client: Client, file: str = "people.yaml") -> WorkbenchArguments:
    return open_job_file(Path(file), client.routes.bench.arguments.save_report, 10**9)


def workbench_of(start: WorkbenchArguments, folder: Path) -> AbstractContextManager[Client]:
    return workbench(
        start.url,
        start.table,
        folder,
        key=start.key,
        reading=start.reading,
        target=start.target,
        opened_decisions=start.opened_decisions,
    )


def job_of(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(file.read_text())
    return content


def test_a_job_file_is_opened_again(client: Client, tmp_path: Path) -> None:
    decide_roles(client, **ROLES)
    names = list(client.routes.bench.roles)
    widths = {f"intervals-{names.index('pay')}": "100, 500"}
    chosen = trees(client, born="dates", code="mask", area="suggest", pay="intervals")
    client.done("trees", chosen | widths)
    swept(client)
    client.sent("choose", {"point": "gaa_cp/4"})
    form = client.form(client.page("job"), "job") | {
        "name": "monthly",
        "export": "parquet",
        "schedule": "0 3 1 * *",
        "risk": "yes",
        "risk-household": str(names.index("note")),
        "risk-sampling_fraction": "0.00002",
        "risk-max_individual": "1",
    }
    client.done("job", form)
    written = job_of(tmp_path / "people.yaml")
    with workbench_of(opened(client), tmp_path) as again:
        bench = again.routes.bench
        assert bench.roles == client.routes.bench.roles
        assert {name: tree.choice.kind for name, tree in bench.trees.items()} == {
            "born": "dates",
            "code": "mask",
            "area": "file",
            "pay": "intervals",
        }
        assert bench.trees["pay"].choice.argument == "100, 500"
        page = again.page("job")
        assert "k = 4, method = gaa_cp" in text_of(page)
        assert "Your settings changed after this file was saved" not in page
        fields = again.form(page, "job")
        assert {name: fields[name] for name in form if name != "report"} == {
            name: text for name, text in form.items() if name != "report"
        }
        # Saved unchanged, the file stays the same, and needs no confirmation to be replaced.
        again.done("job", fields)
        assert job_of(tmp_path / "people.yaml") == written
        assert "Released" in text_of(again.done("run", {}))
        # The new decisions count, and the file's options no longer do.
        decide_roles(again, pay="drop")
        assert (bench.opened_decisions, bench.k) == (None, 5)


def test_a_file_of_rows_is_read_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path)
    with workbench("file:people.csv", "people", tmp_path, reading=READING) as client:
        decide_roles(client, id="identifier", illness="sensitive", note="keep")
        swept(client, method=[])
        form = client.form(client.page("job"), "job") | {"database_file": "mine.duckdb"}
        client.done("job", form)
        start = opened(client)
        written = job_of(tmp_path / "people.yaml")
        with workbench_of(start, tmp_path) as again:
            assert again.routes.bench.reasons == {"note": "of no person"}
            assert again.form(again.page("job"), "job")["database_file"] == "mine.duckdb"
            again.done("job", again.form(again.page("job"), "job"))
            assert job_of(tmp_path / "people.yaml") == written


STRANGE: list[tuple[str, str, str]] = [
    ("role: drop}", "role: by}", "role by of note"),
    (
        "role: sensitive}",
        "role: sensitive, models: [{kind: distinct_l, level: 2}]}",
        "models of illness",
    ),
    ("keep_last: 2", "keep_last: 3", "keep_last"),
    ("table: people\n", 'table: people\n    where: "pay > 0"\n', "where"),
    ("report: ", 'notify: [{on: [failure], webhook: "${HOOK}"}]\n    report: ', "notify"),
    ("out/{job}/{release}.html", "out/{release}.html", "report"),
    ("report: ", 'risk: {suda: true, file: "{release}.txt"}\n    report: ', "risk"),
]


def test_options_without_a_form_are_listed(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saving it from the forms would lose it."""
    monkeypatch.setenv("HOOK", "https://hook.example")
    decide_roles(client, **ROLES)
    client.done("job", client.form(client.page("job"), "job"))
    text = (tmp_path / "people.yaml").read_text()
    for old, new, named in STRANGE:
        assert old in text, text
        (tmp_path / "people.yaml").write_text(text.replace(old, new))
        with pytest.raises(InvalidParameter, match="no form for") as caught:
            opened(client)
        assert caught.value.message.endswith(f": {named}."), named
    (tmp_path / "people.yaml").write_text(text.replace("role: drop}", "role: dropped}"))
    with pytest.raises(JobFileInvalid):
        opened(client)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "people.yaml").write_text(text)
    with pytest.raises(InvalidParameter, match="another folder"):
        opened(client, "below/people.yaml")


def test_a_job_file_names_its_own_table() -> None:
    for words, why in (
        (["people.yaml", "--table", "people"], "leave out --table"),
        (["people.yaml", "--decimal", ","], "leave out --table"),
        (["sqlite:///people.db"], "Name the table"),
    ):
        result = CliRunner().invoke(main, ["workbench", *words])
        assert (result.exit_code, why in result.output) == (2, True), result.output
