"""A refused form keeps the input, and only a real conflict counts as one."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import dbanon
from tests.doors.workbench.client import Client, text_of, workbench
from tests.doors.workbench.people import COLUMNS, ROLES, decide_roles, load, rows, swept, trees

TYPED: dict[str, dict[str, str]] = {
    "columns": {
        "role-0": "identifier",
        "role-1": "keep",
        "reason-1": "public",
        "role-2": "drop",
        "role-3": "quasi_identifier",
        "role-4": "sensitive",
        "role-5": "keep",
        "role-6": "drop",
        "reason-5": "in <b> & out",
    },
    "trees": {
        "tree-1": "dates",
        "tree-2": "mask",
        "tree-3": "suggest",
        "tree-4": "intervals",
        "intervals-4": "7, 70",
    },
    "sweep": {
        "from": "3",
        "to": "9",
        "sample": "700",
        "limit": "7",
        "seed": "8",
        "nulls": "suppress",
        "method": "gaa_cp+fast",
    },
    "job": {
        "file": "mine.yaml",
        "name": "mine",
        "output": "mine",
        "kind": "table",
        "export": "parquet",
        "schedule": "1 2 3 4 5",
        "replace": "yes",
        "risk": "yes",
        "risk-household": "6",
        "risk-sampling_fraction": "0.02",
        "risk-threshold": ".3",
        "risk-max_individual": "1",
        "risk-max_global": "0.5",
    },
}
WRONG: list[tuple[str, dict[str, str]]] = [
    ("columns", {"reason-5": ""}),
    ("columns", {"role-0": "keep", "reason-0": "", "reason-5": ""}),
    ("trees", {"intervals-4": "x"}),
    ("sweep", {"sample": "many"}),
    ("sweep", {"from": "", "limit": "0"}),
    ("job", {"name": "a b"}),
    ("job", {"file": "../a.yaml", "output": "a.b", "schedule": "often"}),
    ("job", {"name": "", "risk-threshold": "0", "risk-max_global": "1.1"}),
    ("job", {"risk-max_individual": "2e-1", "risk-max_global": "nan"}),
]


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_a_wrong_value_leaves_the_others(client: Client, name: str, wrong: dict[str, str]) -> None:
    decide_roles(client, **ROLES)
    sent = TYPED[name] | wrong
    answer = client.post(name, sent)
    assert answer.status == 422
    assert sent.items() <= client.form(answer.body, name).items()
    # An unticked box stays unticked.
    assert "report" not in client.form(answer.body, name) or name != "job"
    marked = re.findall(r'<(?:select|input) id="([^"]*)"[^>]*aria-invalid="true"', answer.body)
    # The choice of its kind marks a hierarchy's row.
    fields = [name.replace("intervals", "tree") for name in wrong if name != "role-0"]
    assert set(marked) == set(fields)
    focused = re.findall(r'id="([^"]*)"[^>]* autofocus', answer.body)
    assert focused == marked[:1]
    for field in fields:
        assert f'id="wrong-{field}"' in answer.body
    [alert] = re.findall(r'role="alert">.*?</div>', answer.body, re.S)
    assert alert.count("<li>") == (len(fields) if len(fields) > 1 else 0)
    # After the correction it is accepted from the current page.
    assert client.post(name, sent | TYPED[name] | keys_of(answer.body)).status == 303


def test_a_task_that_fails_leaves_its_form(client: Client, tmp_path: Path) -> None:
    """One column's hierarchy cannot be read; the choices for the others stay."""
    decide_roles(client, **ROLES)
    (tmp_path / "broken.csv").write_text("".join(f"a,b{i},c{i}\n" for i in range(3000)))
    sent = TYPED["trees"] | {"tree-3": "file", "file-3": "broken.csv"}
    page = client.sent("trees", sent)
    fields = client.form(page, "trees")
    assert {name: fields[name] for name in sent if name != "file-3"} == {
        name: text for name, text in sent.items() if name != "file-3"
    }
    assert re.findall(r'id="([^"]*)"[^>]* autofocus', page) == ["tree-3"]
    [alert] = re.findall(r'role="alert">.*?</div>', page, re.S)
    assert alert.count("<li>") == 10
    assert re.search(r'class="rest">and [0-9,]{4,} more<', alert)
    assert "b17" not in page
    # Afterwards the page shows the saved values.
    client.done("trees", {"tree-1": "dates", "tree-2": "", "tree-3": "", "tree-4": ""})
    assert client.form(client.page("trees"), "trees")["tree-2"] == ""


def keys_of(page: str) -> dict[str, str]:
    """The keys that a page sends with each of its forms."""
    return {
        key: unescape(re.findall(rf'name="{key}" value="([^"]*)"', page)[0])
        for key in ("form", "revision", "page")
    }


def test_one_column_is_the_design_weight(client: Client) -> None:
    names = list(client.routes.bench.roles)
    fields = client.form(client.page("columns"), "columns")
    two_weights = {f"role-{names.index(name)}": "weight" for name in ("id", "pay")}
    answer = client.post("columns", fields | two_weights)
    assert answer.status == 422
    assert "cannot be a second design weight" in answer.body
    answer = client.post("columns", fields | {f"role-{names.index('area')}": "weight"})
    assert "must have one of the listed roles" in answer.body
    assert client.post("columns", fields | dict([two_weights.popitem()])).status == 303
    assert client.routes.bench.design_weight == "pay"


def test_the_saved_columns_of_the_risk_are_shown_by_name(client: Client) -> None:
    """Another tab named another household."""
    decide_roles(client, **ROLES | {"pay": "drop"})
    page = client.page("job")
    form = client.form(page, "job") | {"risk": "yes"}
    names = list(client.routes.bench.roles)
    saved_fields = form | {"risk-household": str(names.index("note")), "page": "another"}
    client.done("job", saved_fields)
    own_fields = form | keys_of(page) | {"risk-household": str(names.index("illness"))}
    for household in ("99", str(names.index("area"))):
        # Only columns that are no quasi-identifiers are offered.
        assert client.post("job", own_fields | {"risk-household": household}).status == 422
    unticked_fields = {name: text for name, text in own_fields.items() if name != "risk"}
    assert "but it would not be measured" in client.post("job", unticked_fields).body
    same_column = dict.fromkeys(("risk-weight", "risk-household"), str(names.index("pay")))
    assert "are different columns" in client.post("job", own_fields | same_column).body
    answer = client.post("job", own_fields)
    assert answer.status == 409
    assert re.findall(r'class="differs">Saved: <bdi>([^<]*)', answer.body) == ["note"]


def test_back_and_save_again(client: Client) -> None:
    """A user who goes back in the browser submits the form of an earlier page."""
    page = client.page("columns")
    first = client.form(page, "columns") | keys_of(page)
    for role in ("sensitive", "drop", "quasi_identifier", "drop"):
        assert client.post("columns", first | {"role-4": role}).status == 303
        assert client.routes.bench.roles["pay"] == role
    page = client.page("trees")
    grown = client.form(page, "trees") | keys_of(page)
    for kind in ("dates", ""):
        client.sent("trees", grown | {"tree-1": kind})
        assert ("born" in client.routes.bench.trees) == bool(kind)
    # Steps before and after do not make the form outdated.
    client.sent("columns", first | {"role-4": "sensitive"})
    page = client.page("sweep")
    tried = keys_of(page)
    swept(client, **tried)
    sweep_page = client.page("sweep")
    [digest] = re.findall(r'name="tried" value="(\w+)"', sweep_page)
    swept(client, to=4, **tried)
    client.sent("choose", keys_of(sweep_page) | {"tried": digest, "point": "gaa_cp/5"})
    assert client.routes.bench.chosen_trial.k == 5
    page = client.page("job")
    written = client.form(page, "job") | keys_of(page)
    for name in ("one", "two", "one"):
        client.sent("job", written | {"name": name, "replace": "yes"})
        assert client.routes.bench.saved_file.choice.name == name
    client.sent("columns", first | {"role-4": "drop"})


def test_only_a_conflict_is_refused(client: Client) -> None:
    """Another tab decided otherwise: both versions are displayed, and saving again is accepted."""
    mine, other = client.page("columns"), client.page("columns")
    form = client.form(mine, "columns")
    reason = {"role-6": "keep", "reason-6": "theirs"}
    client.sent("columns", form | keys_of(other) | {"role-4": "drop"} | reason)
    # Equal values are no conflict.
    same = form | {"role-4": "drop"} | reason
    assert client.post("columns", same | keys_of(mine)).status == 303
    sent = form | {"role-4": "sensitive", "role-6": "keep", "reason-6": "mine"}
    answer = client.post("columns", sent | keys_of(mine))
    assert answer.status == 409
    assert "perhaps in another tab" in text_of(answer.body)
    assert client.routes.bench.roles["pay"] == "drop"
    assert sent.items() <= client.form(answer.body, "columns").items()
    saved_values = re.findall(r'class="differs">Saved: <bdi>([^<]*)', answer.body)
    assert saved_values == ["drop: not released", "theirs"]
    assert client.post("columns", sent | keys_of(answer.body)).status == 303
    assert client.routes.bench.reasons["note"] == "mine"
    # The proposals would replace it, too.
    assert client.post("look", keys_of(mine)).status == 409


def test_conflicts_of_later_steps(client: Client) -> None:
    decide_roles(client, **ROLES)
    mine = keys_of(client.page("trees"))
    client.done("trees", trees(client, born="dates", area="suggest"))
    answer = client.post("trees", mine | {"tree-1": "", "tree-3": "mask"})
    assert answer.status == 409
    assert client.form(answer.body, "trees")["tree-3"] == "mask"
    saved_values = re.findall(r'class="differs">Saved: <bdi>([^<]*)', answer.body)
    assert saved_values[0] == "calendar: month, year, decade"
    swept(client)
    page = client.page("sweep")
    [digest] = re.findall(r'name="tried" value="(\w+)"', page)
    decide_roles(client, pay="drop")
    swept(client)
    # A point for other columns would be another release with the same name.
    refused = client.post("choose", keys_of(page) | {"tried": digest, "point": "gaa_cp/4"})
    assert refused.status == 422
    page = client.page("job")
    form = client.form(page, "job")
    client.done("job", form)
    run = keys_of(client.page("run"))
    answer = client.post("job", form | keys_of(page) | {"name": "mine"})
    assert answer.status == 409
    assert "Saved: <bdi>people<" in answer.body
    client.done("job", form | {"name": "theirs", "page": "another"})
    for name in ("plan", "run"):
        answer = client.post(name, run)
        assert (answer.status, "current state" in answer.body) == (409, True)


def test_a_form_beside_a_task_keeps_its_values(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_roles(client, **ROLES)

    class Busy:
        is_busy, current = True, None

    monkeypatch.setattr(client.routes.bench, "tasks", Busy())
    sent: dict[str, Any] = TYPED["columns"]
    answer = client.post("columns", sent)
    monkeypatch.undo()
    assert answer.status == 409
    assert "Another step is running" in answer.body
    assert sent.items() <= client.form(answer.body, "columns").items()


def test_a_free_name_is_proposed_for_the_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table release.people, as made by a command, blocks a view with this name."""
    monkeypatch.chdir(tmp_path)
    columns = [f"{name} {kind}" for name, kind in COLUMNS.items()]
    url = load(tmp_path, "people", columns, rows())
    dbanon.anonymize(url, table="people", output="release.people", quasi_identifiers=["pay"], k=5)
    with workbench(url, "people", tmp_path, key=("id",)) as client:
        decide_roles(client)
        assert 'name="output" value="people_released"' in client.page("job")
