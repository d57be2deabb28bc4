"""Answers requests for the pages of a workbench, and handles their forms."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, quote

import jinja2

from dbanon.doors.html.page import create_environment, report_content_security_policy, report_style
from dbanon.errors import DbanonError, InvalidParameter
from dbanon.extensions.workbench import database, forms, view
from dbanon.extensions.workbench.access import FORM_KEY_PARAMETER, KEY_PARAMETER, Access
from dbanon.extensions.workbench.comparison import RELEASE_PREFIX, describe_comparison
from dbanon.extensions.workbench.forms import Fields, FormError, FormState, get_first_value
from dbanon.extensions.workbench.server import HttpRequest, HttpResponse
from dbanon.extensions.workbench.state import SweepChoice, Workbench
from dbanon.extensions.workbench.tasks import (
    NO_FORM,
    BackgroundTask,
    BusyError,
    FormRequest,
    convert_unexpected,
)

_FOLDER = Path(__file__).parent
_STATIC_FILES = {
    "report.css": (report_style, "text/css"),
    "workbench.css": (lambda: (_FOLDER / "workbench.css").read_text("utf-8"), "text/css"),
    "workbench.js": (lambda: (_FOLDER / "workbench.js").read_text("utf-8"), "text/javascript"),
}
# Maximum length of the random identifier that a page sends with its forms.
_MAX_PAGE_ID_LENGTH = 32
_STEP_NAMES = tuple(step.name for step in view.STEPS)


# By form, the section of the workbench's state that it replaces or uses. The form is in conflict if
# another page has changed the section in the meantime. Forms without a section have no conflicts.
# The form ``look`` reads the columns of the table again; ``saved`` is the saved job file. A form
# contains the revision at which its page was shown: the number of changes until then.
_REPLACED_SECTIONS = {
    "columns": "columns",
    "look": "columns",
    "trees": "trees",
    "job": "job",
    "plan": "saved",
    "run": "saved",
}
# Forms that keep the submitted values on the page when they are refused.
_RETAINED_FORMS = ("columns", "trees", "sweep", "job")


class _ConflictError(Exception):
    """After a form's page was shown, another page changed the section that the form replaces."""


@dataclass(frozen=True)
class Routes:
    """The request handler of a workbench."""

    bench: Workbench
    access: Access
    # From the name of a form to the method that handles it and returns the page to show next.
    _form_handlers: dict[str, Callable[[FormRequest], str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        handlers = {
            "columns": self._submit_columns,
            "trees": self._submit_trees,
            "sweep": self._submit_sweep,
            "choose": self._submit_choice,
            "look": self._submit_profiling,
            "job": self._submit_job,
            "plan": self._submit_plan,
            "run": self._submit_run,
            "cancel": self._submit_cancellation,
            "list": self._submit_listing,
        }
        object.__setattr__(self, "_form_handlers", handlers)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request; every request is checked before any of its content is used."""
        try:
            return self._answer(request)
        except Exception as error:
            # The message has the location of the error, and nothing of the request or the data.
            return HttpResponse(500, f"Unexpected: {convert_unexpected(error).message}")

    def _answer(self, request: HttpRequest) -> HttpResponse:
        path, _, query_text = request.target.partition("?")
        refusal = self.access.find_refusal(request.headers, path)
        if refusal is not None:
            return HttpResponse(refusal.status, refusal.reason)
        try:
            query = parse_qs(query_text, max_num_fields=20)
        except ValueError:
            return HttpResponse(400, "The address could not be read.")
        name = path[len(self.access.path) + 1 :]
        if request.method != "POST" and KEY_PARAMETER in query:
            if name == "" and self.access.is_address_key(query[KEY_PARAMETER][0]):
                return self._redirect("columns", {"Set-Cookie": self.access.set_cookie_header})
            return _refuse_without_key()
        if not self.access.has_cookie(request.headers):
            return _refuse_without_key()
        return (
            self._handle_post(name, request)
            if request.method == "POST"
            else self._handle_get(name, query)
        )

    def _handle_get(self, name: str, query: Fields) -> HttpResponse:
        if name == "":
            return self._redirect("columns")
        if name in _STATIC_FILES:
            read_text, content_type = _STATIC_FILES[name]
            return HttpResponse(200, read_text(), content_type)
        if (
            name == "report"
            and self.bench.published_release is not None
            and self.bench.published_release.report_html
        ):
            policy = f"{report_content_security_policy()}; frame-ancestors 'none'"
            return HttpResponse(
                200,
                self.bench.published_release.report_html,
                "text/html",
                {"Content-Security-Policy": policy},
            )
        if name not in _STEP_NAMES:
            return HttpResponse(404, "There is no such page.")
        return self._render_page(name, query)

    def _render_page(
        self,
        step: str,
        query: Fields,
        state: FormState | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """Render the page of a step.

        Parameters
        ----------
        state : a refused form, which the page shows with its errors; None for an ordinary request.
        """
        bench = self.bench
        if bench.role_proposals is None and step != "columns":
            return self._redirect("columns")
        if step == "compare" and state is None:
            self._begin_inspections(query)
        if step == "trees" and state is None:
            self._begin_tree_recount()
        error = None if state is None else view.describe_form_errors(state.errors)
        if state is None:
            state = _restore_form(bench.tasks.current)
        # A refused form keeps the id and revision of the page that it was submitted from. After a
        # conflict it gets new ones, so that it can be sent again.
        sent_fields = state.request.fields if error is not None and not state.is_conflict else {}
        with bench.lock:
            content = (
                describe_comparison(bench, get_first_value(query, "a"), get_first_value(query, "b"))
                if step == "compare"
                else view.PAGE_BUILDERS[step](bench, state)
            )
            text = _load_template(f"{step}.html.j2").render(
                content=content,
                step=step,
                steps=view.STEPS,
                index=_STEP_NAMES.index(step),
                table=bench.arguments.table,
                form_key=self.access.form_key,
                form_name=FORM_KEY_PARAMETER,
                revision=get_first_value(sent_fields, "revision", str(bench.revision)),
                page=get_first_value(sent_fields, "page", secrets.token_hex(8)),
                notes=view.describe_field_errors(state),
                # The field to put the cursor in: the first one with an error.
                focus=next((name for name in state.errors if name), ""),
                task=view.describe_task(bench.tasks.current, step),
                error=error,
                has_proposals=bench.role_proposals is not None,
            )
        return HttpResponse(status, text, "text/html")

    def _handle_post(self, name: str, request: HttpRequest) -> HttpResponse:
        content_types = request.headers.get("content-type", [""])
        if (
            content_types[0].partition(";")[0].strip().lower()
            != "application/x-www-form-urlencoded"
        ):
            return HttpResponse(415, "Only forms are accepted.")
        # The page to show if the form is refused.
        step = {
            "choose": "sweep",
            "cancel": "columns",
            "plan": "job",
            "look": "columns",
            "list": "compare",
        }.get(name, name)
        try:
            fields = forms.parse_fields(request.body)
        except InvalidParameter as error:
            return HttpResponse(400, error.message)
        refusal = self.access.find_form_refusal(
            request.headers, get_first_value(fields, FORM_KEY_PARAMETER)
        )
        if refusal is not None:
            return HttpResponse(refusal.status, refusal.reason)
        if name not in self._form_handlers:
            return HttpResponse(404, "There is no such form.")
        form = FormRequest(name, get_first_value(fields, "page")[:_MAX_PAGE_ID_LENGTH], fields)
        try:
            return self._redirect(self._form_handlers[name](form))
        except FormError as error:
            return self._render_page(step, {}, FormState(form, error.errors), 422)
        except _ConflictError:
            return self._render_page(step, {}, _report_conflict(form), 409)
        except BusyError:
            busy_error = InvalidParameter(
                "Another step is running, and nothing was changed.",
                hint="Wait until it ends, or cancel it. Then send the form again.",
            )
            return self._render_page(step, {}, FormState(form, {"": busy_error}), 409)
        except DbanonError as error:
            return self._render_page(step, {}, FormState(form, {"": error}), 422)

    def _require_current(self, request: FormRequest) -> None:
        """Check that no other page changed what a form replaces or uses.

        Raises
        ------
        BusyError : a task is running.
        _ConflictError : another page changed the section after the form's page was shown.
        """
        if self.bench.tasks.is_busy:
            raise BusyError
        revision = get_first_value(request.fields, "revision")
        shown_revision = int(revision) if re.fullmatch(r"[0-9]{1,9}", revision, re.ASCII) else 0
        section = _REPLACED_SECTIONS.get(request.name)
        if section is not None and self.bench.is_changed_elsewhere(
            section, shown_revision, request.page_id
        ):
            raise _ConflictError

    def _redirect(self, page_name: str, headers: dict[str, str] | None = None) -> HttpResponse:
        """Redirect to a page of the workbench, with further headers."""
        location = {"Location": f"{self.access.path}/{page_name}"}
        return HttpResponse(303, headers=location | (headers or {}))

    def _begin_task(
        self,
        name: str,
        step: str,
        work: Callable[..., None],
        *arguments: object,
        request: FormRequest = NO_FORM,
        **options: object,
    ) -> BackgroundTask:
        """Begin a task that calls a function of ``database``.

        Parameters
        ----------
        name : what the task does, as pages show it.
        step : the page that shows the task's progress.
        work : the function; it gets the workbench, ``arguments``, the task and ``options``.
        request : the form that begins the task, if any.
        """
        return self.bench.tasks.begin_task(
            name, step, lambda task: work(self.bench, *arguments, task, **options), request
        )

    # --- forms -----------------------------------------------------------------------------------

    def begin_profiling(self, request: FormRequest = NO_FORM) -> None:
        """Begin the task that examines the columns of the table."""
        self._begin_task(
            "Examine the columns", "columns", database.profile_columns, request=request
        )

    def _submit_profiling(self, request: FormRequest) -> str:
        self._require_current(request)
        self.begin_profiling(request)
        return "columns"

    def _submit_columns(self, request: FormRequest) -> str:
        bench = self.bench
        roles, reasons = forms.read_roles(bench, request.fields)
        with bench.lock:
            if (roles, reasons) != (bench.roles, bench.reasons):
                self._require_current(request)
                bench.roles, bench.reasons, bench.chosen_trial = roles, reasons, None
                bench.record_decision("columns", request.page_id)
        return "trees"

    def _submit_trees(self, request: FormRequest) -> str:
        choices = forms.read_tree_choices(self.bench, request.fields)
        if choices != {name: tree.choice for name, tree in self.bench.trees.items()}:
            self._require_current(request)
        task = self._begin_task(
            "Build the hierarchies", "trees", database.build_trees, choices, request=request
        )
        # If the task was quick, it has ended already, and the form may go on to the next page.
        return (
            "sweep" if task.state == "done" and get_first_value(request.fields, "next") else "trees"
        )

    def _submit_sweep(self, request: FormRequest) -> str:
        choice = forms.read_sweep_choice(self.bench, request.fields)
        self._require_current(request)
        repeats_sweep = get_first_value(request.fields, "again") == "yes"
        earlier_sweep = self.bench.sweeps.get(self.bench.build_sweep_key(choice))
        if earlier_sweep is not None and earlier_sweep.advice is not None and not repeats_sweep:
            self._choose_recommended(choice, request.page_id)
            return "sweep"
        self._begin_task("Try releases", "sweep", database.run_sweep, choice, request=request)
        return "sweep"

    def _choose_recommended(self, choice: SweepChoice, page_id: str) -> None:
        """Choose the release that an earlier sweep recommends."""
        bench = self.bench
        with bench.lock:
            bench.sweep_choice = choice
            advice = None if bench.current_sweep is None else bench.current_sweep.advice
            recommendation = None if advice is None else advice.recommendation
            bench.chosen_trial = None if recommendation is None else recommendation.point
            bench.record_decision("sweep", page_id)

    def _submit_choice(self, request: FormRequest) -> str:
        self._require_current(request)
        fields = request.fields
        if not self.bench.choose_release(
            digest=get_first_value(fields, "tried"),
            name=get_first_value(fields, "point"),
            page_id=request.page_id,
        ):
            raise InvalidParameter(
                "Choose one of the trial releases.",
                hint="Choose one on this page, which lists those of the current columns and"
                " hierarchies.",
            )
        return "compare" if get_first_value(fields, "next") == "compare" else "job"

    def _submit_job(self, request: FormRequest) -> str:
        choice = forms.read_job_choice(self.bench, request.fields)
        if choice != self.bench.job_choice:
            self._require_current(request)
        replaces_file = get_first_value(request.fields, "replace") == "yes"
        self._begin_task(
            "Write the job file",
            "job",
            database.save_job_file,
            choice,
            replace_file=replaces_file,
            request=request,
        )
        return "job"

    def _submit_plan(self, request: FormRequest) -> str:
        self._require_current(request)
        self._begin_task("Preview a run", "job", database.plan_job, request=request)
        return "job"

    def _submit_run(self, request: FormRequest) -> str:
        self._require_current(request)
        self._begin_task("Run the job", "run", database.run_saved_job, request=request)
        return "run"

    def _submit_listing(self, request: FormRequest) -> str:
        self._require_current(request)
        # Compared releases are read again, too.
        self.bench.inspections.clear()
        self._begin_task("List the releases", "compare", database.list_releases)
        return "compare"

    def _submit_cancellation(self, request: FormRequest) -> str:
        task = self.bench.tasks.current
        self.bench.tasks.cancel()
        if task is None:
            return "columns"
        # So that the next page usually shows the end of the task.
        task.end_event.wait(5.0)
        return task.step

    def _begin_tree_recount(self) -> None:
        """Recount the trees for a larger k, unless a task is running or the last recount failed."""
        tasks = self.bench.tasks
        has_failed = (
            tasks.current is not None
            and tasks.current.step == "trees"
            and tasks.current.state != "done"
        )
        if self.bench.trees_to_recount and not tasks.is_busy and not has_failed:
            with contextlib.suppress(BusyError):
                self._begin_task(
                    "Count the rows of the hierarchies", "trees", database.recount_trees
                )

    def _begin_inspections(self, query: Fields) -> None:
        """Begin to read the releases to compare, unless they were read or a task is running."""
        bench = self.bench
        last_task = bench.tasks.current
        has_failed = (
            last_task is not None and last_task.step == "compare" and last_task.state != "done"
        )
        if bench.tasks.is_busy or has_failed:
            return
        try:
            if bench.listed_releases is None:
                self._begin_task("List the releases", "compare", database.list_releases)
            compared_names = [get_first_value(query, parameter) for parameter in ("a", "b")]
            listed_outputs = [release.output for release in bench.listed_releases or ()]
            outputs = [
                name.removeprefix(RELEASE_PREFIX)
                for name in compared_names
                if name.startswith(RELEASE_PREFIX)
                and name.removeprefix(RELEASE_PREFIX) in listed_outputs
            ]
            outputs = [name for name in outputs if name not in bench.inspections]
            if outputs:
                self._begin_task("Read the releases", "compare", database.inspect_releases, outputs)
        except BusyError:
            return


def _restore_form(task: BackgroundTask | None) -> FormState:
    """Return the form that began a task which is unfinished or failed, with the task's error."""
    if task is None or task.state == "done" or task.request.name not in _RETAINED_FORMS:
        return FormState()
    if task.state == "failed" and task.error is not None and task.field_name:
        return FormState(task.request, {task.field_name: task.error})
    return FormState(task.request)


def _report_conflict(request: FormRequest) -> FormState:
    """Return the state of a form that would replace another page's change."""
    shows_values = request.name in _RETAINED_FORMS
    error = InvalidParameter(
        "Your settings have changed since this page was shown, perhaps in another tab.",
        hint="Your values are still below, with the saved ones beside them where they differ."
        " Nothing was changed. Save again to replace the saved values."
        if shows_values
        else "The page shows the current state, and nothing was changed. Send the form again.",
    )
    return FormState(request, {"": error}, is_conflict=True)


def _refuse_without_key() -> HttpResponse:
    """Return the response to a request without the key."""
    return HttpResponse(403, "Open the address that dbanon workbench printed in its terminal.")


@cache
def _load_template(name: str) -> jinja2.Template:
    templates = create_environment(_FOLDER)
    templates.filters["in_query"] = lambda text: quote(str(text), safe="")
    return templates.get_template(name)
