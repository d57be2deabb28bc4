"""The pages of a workbench and the actions of their forms: a request in, a response out."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import jinja2

from dbanon.doors.html.page import environment, policy_of_page, style_of_page
from dbanon.doors.workbench import database, forms, view
from dbanon.doors.workbench.access import FORM_KEY, KEY, Access
from dbanon.doors.workbench.comparison import compare
from dbanon.doors.workbench.forms import Fields, FormError, FormState, first_value
from dbanon.doors.workbench.server import HttpRequest, HttpResponse
from dbanon.doors.workbench.state import Workbench
from dbanon.doors.workbench.tasks import NO_FORM, BackgroundTask, BusyError, FormRequest, unexpected
from dbanon.errors import DbanonError, InvalidParameter

FOLDER = Path(__file__).parent
_FILES = {
    "report.css": (style_of_page, "text/css"),
    "workbench.css": (lambda: (FOLDER / "workbench.css").read_text("utf-8"), "text/css"),
    "workbench.js": (lambda: (FOLDER / "workbench.js").read_text("utf-8"), "text/javascript"),
}
# Most characters of the random identifier that a page sends with its forms.
_LONGEST_PAGE_ID = 32
_STEP_NAMES = tuple(step for step, _, _ in view.STEPS)


# In the query of the page of comparisons, the names of releases in the ledger begin with this.
_RELEASE_PREFIX = "r/"


# The part of the pages that a form replaces or acts on. If another page changed it since, the form
# is in conflict. Forms that are not listed replace nothing.
_REPLACED = {
    "columns": "columns",
    "look": "columns",
    "trees": "trees",
    "job": "job",
    "plan": "saved",
    "run": "saved",
}
# Forms whose values stay on the page when they are refused.
_RETAINED_FORMS = ("columns", "trees", "sweep", "job")


class _ConflictError(Exception):
    """Another page changed the part that a form would replace, after its own page was shown."""


@dataclass(frozen=True)
class Routes:
    """The request handler of a workbench."""

    bench: Workbench
    access: Access
    _posts: dict[str, Callable[[FormRequest], str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        posts = {
            "columns": self._columns,
            "trees": self._trees,
            "sweep": self._sweep,
            "choose": self._choose,
            "look": self._look,
            "job": self._job,
            "plan": self._plan,
            "run": self._run,
            "cancel": self._cancel,
            "list": self._list,
        }
        object.__setattr__(self, "_posts", posts)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request, or refuse it before any part of it is used."""
        try:
            return self._answer(request)
        except Exception as error:
            return HttpResponse(500, f"Unexpected: {unexpected(error).message}")

    def _answer(self, request: HttpRequest) -> HttpResponse:
        path, _, query_text = request.target.partition("?")
        refusal = self.access.refused(request.headers, path)
        if refusal is not None:
            return HttpResponse(refusal.status, refusal.why)
        try:
            query = parse_qs(query_text, max_num_fields=20)
        except ValueError:
            return HttpResponse(400, "The address could not be read.")
        name = path[len(self.access.path) + 1 :]
        if request.method != "POST" and KEY in query:
            if name == "" and self.access.opens(query[KEY][0]):
                return self._redirect("columns", {"Set-Cookie": self.access.set_cookie})
            return _key_required()
        if not self.access.has_cookie(request.headers):
            return _key_required()
        return (
            self._handle_post(name, request)
            if request.method == "POST"
            else self._handle_get(name, query)
        )

    def _handle_get(self, name: str, query: Fields) -> HttpResponse:
        if name == "":
            return self._redirect("columns")
        if name in _FILES:
            text_of, kind = _FILES[name]
            return HttpResponse(200, text_of(), kind)
        if name == "report" and self.bench.made is not None and self.bench.made.page:
            policy = f"{policy_of_page()}; frame-ancestors 'none'"
            return HttpResponse(
                200, self.bench.made.page, "text/html", {"Content-Security-Policy": policy}
            )
        if name not in _STEP_NAMES:
            return HttpResponse(404, "There is no such page.")
        return self._page(name, query)

    def _page(
        self,
        step: str,
        query: Fields,
        state: FormState | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """A page; with ``state`` the one that answers a form which was refused."""
        bench = self.bench
        if bench.proposed is None and step != "columns":
            return self._redirect("columns")
        if step == "compare" and state is None:
            self._look_at_releases(query)
        if step == "trees" and state is None:
            self._count_trees_again()
        error = None if state is None else view.form_errors(state.errors)
        if state is None:
            state = _task_form(bench.tasks.current)
        # A form that was sent with errors is still one of the page that it was sent from.
        sent = state.request.fields if error is not None and not state.is_conflict else {}
        with bench.lock:
            content = (
                compare(bench, first_value(query, "a"), first_value(query, "b"))
                if step == "compare"
                else view.MAKERS[step](bench, state)
            )
            text = _template(f"{step}.html.j2").render(
                content=content,
                step=step,
                steps=view.STEPS,
                index=_STEP_NAMES.index(step),
                table=bench.start.table,
                form_key=self.access.form,
                form_name=FORM_KEY,
                revision=first_value(sent, "revision", str(bench.revision)),
                page=first_value(sent, "page", secrets.token_hex(8)),
                notes=view.field_notes(state),
                focus=next((name for name in state.errors if name), ""),
                task=view.describe_task(bench.tasks.current, step),
                error=error,
                proposed=bench.proposed is not None,
            )
        return HttpResponse(status, text, "text/html")

    def _handle_post(self, name: str, request: HttpRequest) -> HttpResponse:
        kinds = request.headers.get("content-type", [""])
        if kinds[0].partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
            return HttpResponse(415, "Only forms are accepted.")
        step = {
            "choose": "sweep",
            "cancel": "columns",
            "plan": "job",
            "look": "columns",
            "list": "compare",
        }.get(name, name)
        try:
            fields = forms.fields_of(request.body)
        except InvalidParameter as error:
            return HttpResponse(400, error.message)
        refusal = self.access.refused_form(request.headers, first_value(fields, FORM_KEY))
        if refusal is not None:
            return HttpResponse(refusal.status, refusal.why)
        if name not in self._posts:
            return HttpResponse(404, "There is no such form.")
        form = FormRequest(name, first_value(fields, "page")[:_LONGEST_PAGE_ID], fields)
        try:
            return self._redirect(self._posts[name](form))
        except FormError as error:
            return self._page(step, {}, FormState(form, error.errors), 422)
        except _ConflictError:
            return self._page(step, {}, _conflict(form), 409)
        except BusyError:
            busy = InvalidParameter(
                "Another step is running, and nothing was changed.",
                hint="Wait until it ends, or cancel it. Then send the form again.",
            )
            return self._page(step, {}, FormState(form, {"": busy}), 409)
        except DbanonError as error:
            return self._page(step, {}, FormState(form, {"": error}), 422)

    def _require_current(self, request: FormRequest) -> None:
        """Check that no other page changed what a form would replace.

        Raises
        ------
        BusyError : a task is running.
        _ConflictError : another page changed it since the form's page was shown.
        """
        if self.bench.tasks.busy:
            raise BusyError
        revision = first_value(request.fields, "revision")
        since = int(revision) if re.fullmatch(r"[0-9]{1,9}", revision, re.ASCII) else 0
        part = _REPLACED.get(request.name)
        if part is not None and self.bench.is_changed_elsewhere(part, since, request.page):
            raise _ConflictError

    def _redirect(self, where: str, headers: dict[str, str] | None = None) -> HttpResponse:
        location = {"Location": f"{self.access.path}/{where}"}
        return HttpResponse(303, "", "text/plain", location | (headers or {}))

    def _begin(
        self,
        name: str,
        step: str,
        work: Callable[..., None],
        *arguments: Any,
        request: FormRequest = NO_FORM,
        **options: Any,
    ) -> BackgroundTask:
        return self.bench.tasks.begin(
            name, step, lambda task: work(self.bench, *arguments, task, **options), request
        )

    # --- forms -----------------------------------------------------------------------------------

    def look(self, request: FormRequest = NO_FORM) -> None:
        """Start the task that examines the columns of the table."""
        self._begin("Examine the columns", "columns", database.propose, request=request)

    def _look(self, request: FormRequest) -> str:
        self._require_current(request)
        self.look(request)
        return "columns"

    def _columns(self, request: FormRequest) -> str:
        bench = self.bench
        roles, reasons = forms.roles_of(bench, request.fields)
        with bench.lock:
            if (roles, reasons) != (bench.roles, bench.reasons):
                self._require_current(request)
                bench.roles, bench.reasons, bench.chosen = roles, reasons, None
                bench.decide("columns", request.page)
        return "trees"

    def _trees(self, request: FormRequest) -> str:
        choices = forms.trees_of(self.bench, request.fields)
        if choices != {name: tree.choice for name, tree in self.bench.trees.items()}:
            self._require_current(request)
        task = self._begin("Make the trees", "trees", database.grow, choices, request=request)
        return "sweep" if task.state == "done" and first_value(request.fields, "next") else "trees"

    def _sweep(self, request: FormRequest) -> str:
        choice = forms.sweep_of(self.bench, request.fields)
        self._require_current(request)
        again = first_value(request.fields, "again") == "yes"
        earlier = self.bench.sweeps.get(self.bench.key_of(choice))
        if earlier is not None and earlier.advice is not None and not again:
            self._choose_recommended(choice, request.page)
            return "sweep"
        self._begin("Try releases", "sweep", database.sweep, choice, request=request)
        return "sweep"

    def _choose_recommended(self, choice: Any, page: str) -> None:
        bench = self.bench
        with bench.lock:
            bench.sweep_choice = choice
            advice = None if bench.current_sweep is None else bench.current_sweep.advice
            recommendation = None if advice is None else advice.recommendation
            bench.chosen = None if recommendation is None else recommendation.point
            bench.decide("sweep", page)

    def _choose(self, request: FormRequest) -> str:
        self._require_current(request)
        fields = request.fields
        if not self.bench.choose(
            first_value(fields, "tried"), first_value(fields, "point"), request.page
        ):
            raise InvalidParameter(
                "Choose one of the trial releases.",
                hint="Choose one on this page, which lists those of the current columns and"
                " hierarchies.",
            )
        return "compare" if first_value(fields, "next") == "compare" else "job"

    def _job(self, request: FormRequest) -> str:
        choice = forms.job_of(self.bench, request.fields)
        if choice != self.bench.job:
            self._require_current(request)
        replaced = first_value(request.fields, "replace") == "yes"
        self._begin(
            "Write the job file",
            "job",
            database.save,
            choice,
            replace_file=replaced,
            request=request,
        )
        return "job"

    def _plan(self, request: FormRequest) -> str:
        self._require_current(request)
        self._begin("Preview a run", "job", database.plan, request=request)
        return "job"

    def _run(self, request: FormRequest) -> str:
        self._require_current(request)
        self._begin("Run the job", "run", database.run, request=request)
        return "run"

    def _list(self, request: FormRequest) -> str:
        self._require_current(request)
        self.bench.inspections.clear()
        self._begin("List the releases", "compare", database.list_releases)
        return "compare"

    def _cancel(self, request: FormRequest) -> str:
        task = self.bench.tasks.current
        self.bench.tasks.cancel()
        if task is None:
            return "columns"
        task.ended.wait(5.0)
        return task.step

    def _count_trees_again(self) -> None:
        """Count the trees again for a larger k, unless a task is running or the last one failed."""
        tasks = self.bench.tasks
        has_failed = (
            tasks.current is not None
            and tasks.current.step == "trees"
            and (tasks.current.state != "done")
        )
        if self.bench.trees_to_recount and not tasks.busy and not has_failed:
            with contextlib.suppress(BusyError):
                self._begin("Count the trees", "trees", database.count_again)

    def _look_at_releases(self, query: Fields) -> None:
        """Start reading the releases to compare, unless they were read or a task is running."""
        bench = self.bench
        last = bench.tasks.current
        has_failed = last is not None and last.step == "compare" and last.state != "done"
        if bench.tasks.busy or has_failed:
            return
        try:
            if bench.listed is None:
                self._begin("List the releases", "compare", database.list_releases)
            names = [first_value(query, side) for side in ("a", "b")]
            listed = [listed.output for listed in bench.listed or ()]
            outputs = [
                name.removeprefix(_RELEASE_PREFIX)
                for name in names
                if name.startswith(_RELEASE_PREFIX) and name.removeprefix(_RELEASE_PREFIX) in listed
            ]
            outputs = [name for name in outputs if name not in bench.inspections]
            if outputs:
                self._begin("Look at releases", "compare", database.look_at, outputs)
        except BusyError:
            return


def _task_form(task: BackgroundTask | None) -> FormState:
    """The form of a task that is not done, with the error of the task."""
    if task is None or task.state == "done" or task.request.name not in _RETAINED_FORMS:
        return FormState()
    if task.state == "failed" and task.error is not None and task.field_name:
        return FormState(task.request, {task.field_name: task.error})
    return FormState(task.request)


def _conflict(request: FormRequest) -> FormState:
    """The answer to a form that would replace another page's change."""
    is_shown = request.name in _RETAINED_FORMS
    error = InvalidParameter(
        "Your settings have changed since this page was shown, perhaps in another tab.",
        hint="Your values are still below, with the saved ones beside them where they differ."
        " Nothing was changed. Save again to replace the saved values."
        if is_shown
        else "The page shows the current state, and nothing was changed. Send the form again.",
    )
    return FormState(request, {"": error}, is_conflict=True)


def _key_required() -> HttpResponse:
    """The answer to a request without the key."""
    return HttpResponse(403, "Open the address that dbanon workbench printed in its terminal.")


@cache
def _template(name: str) -> jinja2.Template:
    templates = environment(FOLDER)
    templates.filters["in_query"] = lambda text: quote(str(text), safe="")
    return templates.get_template(name)
