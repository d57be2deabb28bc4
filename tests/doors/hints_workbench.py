"""Hints on pages of the workbench: the form that raises each, and the ways out of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.doors.workbench.client import Client
from tests.doors.workbench.people import ROLES, decide_roles, swept
from tests.doors.workbench.test_forms import keys_of


@dataclass(frozen=True)
class FormSteps:
    """A hint on a page of the workbench, and what a user does who follows it.

    Parameters
    ----------
    hint : the beginning of its text.
    wrong : sends a form; returns the page with the hint.
    right : sends forms that are taken.
    """

    hint: str
    wrong: Callable[[Client], str]
    right: Sequence[Callable[[Client], object]]


def roles(client: Client, **changes: str) -> dict[str, str]:
    """The fields of the form of columns, with roles by column."""
    columns = list(client.routes.bench.roles)
    fields = client.form(client.page("columns"), "columns")
    return fields | {f"role-{columns.index(name)}": role for name, role in changes.items()}


def job_form(client: Client, **changes: str) -> dict[str, str]:
    """The fields of the form of the job file."""
    return client.form(client.page("job"), "job") | changes


def sent(name: str, **changes: str) -> Callable[[Client], str]:
    """Send the form of the job file with these values; the page that answers."""
    return lambda c: c.post(name, job_form(c, **changes)).body


def save(**changes: str) -> Callable[[Client], object]:
    return lambda c: c.done("job", job_form(c, **changes))


def beside_task(client: Client) -> str:
    """Send a form while a task runs."""
    fields = roles(client, pay="drop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client.routes.bench, "tasks", SimpleNamespace(is_busy=True, current=None))
        return client.post("columns", fields).body


def in_two_tabs(client: Client, *, again: bool) -> str:
    """Send the form of columns from two tabs; with ``again`` once more from the answer."""
    fields = roles(client, pay="quasi_identifier") | keys_of(client.page("columns"))
    other = "drop" if client.routes.bench.roles["pay"] == "sensitive" else "sensitive"
    client.sent("columns", roles(client, pay=other) | {"page": "another"})
    answer = client.post("columns", fields | {"page": "first"})
    assert answer.status == 409
    if again:
        answer = client.post("columns", fields | keys_of(answer.body))
        assert answer.status == 303
    return answer.body


def plan_in_two_tabs(client: Client, *, again: bool) -> str:
    """Plan a job that another tab has saved anew; with ``again`` once more from the answer."""
    save()(client)
    keys = keys_of(client.page("run"))
    client.done("job", job_form(client, name="theirs", page="another"))
    answer = client.post("plan", keys)
    assert answer.status == 409
    if again:
        client.done("plan", keys_of(answer.body))
    return answer.body


def over_file(client: Client, **changes: str) -> str:
    """Save the job file where another file is."""
    (client.routes.bench.arguments.directory / "people.yaml").write_text("mine")
    return client.sent("job", job_form(client, **changes))


def without_file(client: Client) -> object:
    (client.routes.bench.arguments.directory / "people.yaml").unlink()
    return save()(client)


def choose(client: Client, point: str) -> Any:
    [digest] = re.findall(r'name="tried" value="(\w+)"', client.page("sweep"))
    return client.post("choose", {"tried": digest, "point": point})


def choose_wrong(client: Client) -> str:
    swept(client)
    return str(choose(client, "gaa_cp/9").body)


def choose_right(client: Client) -> None:
    assert choose(client, "gaa_cp/4").status == 303


_LIMIT = {"risk": "yes", "risk-max_individual": "1"}


def limit_risk(client: Client, *, is_saved: bool = False) -> str:
    """Limit the risk with a column of weights, which may have another role."""
    if not is_saved:
        decide_roles(client, pay="drop")
    weight = str(list(client.routes.bench.roles).index("pay"))
    values = {**_LIMIT, "risk-weight": weight}
    if is_saved:
        return str(save(**values)(client))
    return sent("job", **values)(client)


IN_WORKBENCH = (
    FormSteps(
        "Give the role quasi-identifier",
        lambda c: c.post("columns", roles(c, **dict.fromkeys(ROLES, "drop"))).body,
        [lambda c: decide_roles(c, **ROLES)],
    ),
    FormSteps(
        "Write why it reveals nothing about",
        lambda c: c.post("columns", roles(c, note="keep")).body,
        [lambda c: decide_roles(c, note="keep"), lambda c: decide_roles(c, note="drop")],
    ),
    FormSteps(
        "Leave out the schema: the release is written",
        sent("job", output="a.b"),
        [save(output="b")],
    ),
    FormSteps(
        "Write a name such as people{}.", sent("job", file="../a.yaml"), [save(file="people.yaml")]
    ),
    FormSteps(
        "Choose another name for the job file, or",
        over_file,
        [save(file="other.yaml"), without_file, lambda c: (over_file(c), save(replace="yes")(c))],
    ),
    FormSteps(
        "Save it on the page", lambda c: c.sent("plan", {}), [save(), lambda c: c.done("plan", {})]
    ),
    FormSteps(
        "Wait until it ends, or cancel it. Then",
        beside_task,
        [lambda c: c.sent("columns", roles(c, pay="drop"))],
    ),
    FormSteps(
        "Your values are still below",
        lambda c: in_two_tabs(c, again=False),
        [lambda c: in_two_tabs(c, again=True)],
    ),
    FormSteps(
        "The page shows the current state",
        lambda c: plan_in_two_tabs(c, again=False),
        [lambda c: plan_in_two_tabs(c, again=True)],
    ),
    FormSteps(
        "Tick the box to measure it, or clear",
        sent("job", **{"risk-threshold": "0.1"}),
        [save(**{"risk": "yes", "risk-threshold": "0.1"}), save()],
    ),
    FormSteps(
        "Give the column the role weight on the first page",
        limit_risk,
        [
            lambda c: (decide_roles(c, pay="weight"), limit_risk(c, is_saved=True)),
            lambda c: save(**{**_LIMIT, "risk-sampling_fraction": "0.02"})(c),
        ],
    ),
    FormSteps("Choose one on this page, which lists", choose_wrong, [choose_right]),
)
