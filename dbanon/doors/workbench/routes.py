"""The pages of a workbench, and what their forms do: a request in, an answer out."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import jinja2

from dbanon.advice.recommend import Point
from dbanon.doors.html.page import environment, policy_of_page, style_of_page
from dbanon.doors.jobfile.field_types import written_password
from dbanon.doors.workbench import database, forms, view
from dbanon.doors.workbench.access import FORM_KEY, KEY, Access
from dbanon.doors.workbench.forms import Fields, one
from dbanon.doors.workbench.server import HOST, Answer, Asked, Server
from dbanon.doors.workbench.state import Start, Workbench
from dbanon.doors.workbench.tasks import BusyError, Task, unexpected
from dbanon.errors import DbanonError, InvalidParameter

HERE = Path(__file__).parent
_FILES = {
    "report.css": (style_of_page, "text/css"),
    "workbench.css": (lambda: (HERE / "workbench.css").read_text("utf-8"), "text/css"),
    "workbench.js": (lambda: (HERE / "workbench.js").read_text("utf-8"), "text/javascript"),
}
_NAMES = tuple(step for step, _, _ in view.STEPS)


class _StaleError(Exception):
    """A form of before something else was decided, in another tab perhaps."""


@dataclass(frozen=True)
class Routes:
    """What answers the requests of one workbench."""

    bench: Workbench
    access: Access
    _posts: dict[str, Callable[[Fields], str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        posts = {
            "columns": self._columns, "trees": self._trees, "sweep": self._sweep,
            "choose": self._choose, "look": self._look, "job": self._job, "plan": self._plan,
            "run": self._run, "cancel": self._cancel, "list": self._list,
        }  # fmt: skip
        object.__setattr__(self, "_posts", posts)

    def answer(self, asked: Asked) -> Answer:
        """Answer a request, or refuse it before anything of it is looked at."""
        try:
            return self._answer(asked)
        except Exception as error:
            return Answer(500, f"Unexpected: {unexpected(error).message}")

    def _answer(self, asked: Asked) -> Answer:
        path, _, asked_for = asked.target.partition("?")
        refusal = self.access.refused(asked.headers, path)
        if refusal is not None:
            return Answer(refusal.status, refusal.why)
        try:
            query = parse_qs(asked_for, max_num_fields=20)
        except ValueError:
            return Answer(400, "The address could not be read.")
        name = path[len(self.access.path) + 1 :]
        if asked.method != "POST" and KEY in query:
            if name == "" and self.access.opens(query[KEY][0]):
                return self._see("columns", {"Set-Cookie": self.access.set_cookie})
            return _locked()
        if not self.access.knows(asked.headers):
            return _locked()
        return self._posted(name, asked) if asked.method == "POST" else self._got(name, query)

    def _got(self, name: str, query: Fields) -> Answer:
        if name == "":
            return self._see("columns")
        if name in _FILES:
            text_of, kind = _FILES[name]
            return Answer(200, text_of(), kind)
        if name == "report" and self.bench.made is not None and self.bench.made.page:
            policy = f"{policy_of_page()}; frame-ancestors 'none'"
            return Answer(
                200, self.bench.made.page, "text/html", {"Content-Security-Policy": policy}
            )
        if name not in _NAMES:
            return Answer(404, "There is no such page.")
        return self._page(name, query)

    def _page(
        self, step: str, query: Fields, error: DbanonError | None = None, status: int = 200
    ) -> Answer:
        bench = self.bench
        if bench.proposed is None and step != "columns":
            return self._see("columns")
        if step == "compare" and error is None:
            self._look_at_releases(query)
        with bench.lock:
            told = (
                view.compare(bench, one(query, "a"), one(query, "b"))
                if step == "compare"
                else view.MAKERS[step](bench)
            )
            text = _template(f"{step}.html.j2").render(
                told=told,
                step=step,
                steps=view.STEPS,
                place=_NAMES.index(step),
                table=bench.start.table,
                form_key=self.access.form,
                form_name=FORM_KEY,
                revision=bench.revision,
                task=view.task_told(bench.tasks.current, step),
                error=None if error is None else view.error_told(error),
                proposed=bench.proposed is not None,
            )
        return Answer(status, text, "text/html")

    def _posted(self, name: str, asked: Asked) -> Answer:
        kinds = asked.headers.get("content-type", [""])
        if kinds[0].partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
            return Answer(415, "Only forms are taken.")
        step = {
            "choose": "sweep",
            "cancel": "columns",
            "plan": "job",
            "look": "columns",
            "list": "compare",
        }.get(name, name)
        try:
            fields = forms.fields_of(asked.body)
        except InvalidParameter as error:
            return Answer(400, error.message)
        refusal = self.access.refused_form(asked.headers, one(fields, FORM_KEY))
        if refusal is not None:
            return Answer(refusal.status, refusal.why)
        if name not in self._posts:
            return Answer(404, "There is no such form.")
        try:
            if name != "cancel":
                self._require_current(fields)
            return self._see(self._posts[name](fields))
        except (_StaleError, BusyError) as refused:
            why = (
                "Something else was decided since this page was shown, perhaps in another tab."
                if isinstance(refused, _StaleError)
                else "Something else is running. Wait for its end, or cancel it."
            )
            told = InvalidParameter(why, hint="This is its current state. Nothing was changed.")
            return self._page(step, {}, told, 409)
        except DbanonError as error:
            return self._page(step, {}, error, 422)

    def _require_current(self, fields: Fields) -> None:
        if one(fields, "revision") != str(self.bench.revision):
            raise _StaleError
        if self.bench.tasks.busy:
            raise BusyError

    def _see(self, where: str, headers: dict[str, str] | None = None) -> Answer:
        place = {"Location": f"{self.access.path}/{where}"}
        return Answer(303, "", "text/plain", place | (headers or {}))

    def _begin(
        self, name: str, step: str, work: Callable[..., None], *given: Any, **more: Any
    ) -> Task:
        return self.bench.tasks.begin(
            name, step, lambda task: work(self.bench, *given, task, **more)
        )

    # --- forms -----------------------------------------------------------------------------------

    def look(self) -> None:
        """Begin to look at the table."""
        self._begin("Look at the columns", "columns", database.propose)

    def _look(self, fields: Fields) -> str:
        self.look()
        return "columns"

    def _columns(self, fields: Fields) -> str:
        bench = self.bench
        roles, reasons = forms.roles_of(bench, fields)
        with bench.lock:
            if (roles, reasons) != (bench.roles, bench.reasons):
                bench.roles, bench.reasons, bench.chosen = roles, reasons, None
                bench.decide()
        return "trees"

    def _trees(self, fields: Fields) -> str:
        choices = forms.trees_of(self.bench, fields)
        task = self._begin("Make the trees", "trees", database.grow, choices)
        return "sweep" if task.state == "done" and one(fields, "next") else "trees"

    def _sweep(self, fields: Fields) -> str:
        choice = forms.sweep_of(self.bench, fields)
        again = one(fields, "again") == "yes"
        known = self.bench.sweeps.get(self.bench.key_of(choice))
        if known is not None and known.advice is not None and not again:
            self._choose_recommended(choice)
            return "sweep"
        self._begin("Try releases", "sweep", database.sweep, choice)
        return "sweep"

    def _choose_recommended(self, choice: Any) -> None:
        bench = self.bench
        with bench.lock:
            bench.sweep_choice = choice
            found = bench.swept and bench.swept.advice and bench.swept.advice.recommendation
            bench.chosen = found.point if found else None
            bench.decide()

    def _choose(self, fields: Fields) -> str:
        bench = self.bench
        swept = bench.swept
        points: dict[str, Point] = {}
        if swept is not None:
            points = {f"{point.curve}/{point.k}": point for point in swept.points}
        chosen = points.get(one(fields, "point"))
        if chosen is None:
            raise InvalidParameter("Choose one of the releases that were tried.")
        with bench.lock:
            bench.chosen = chosen
            bench.decide()
        return "compare" if one(fields, "next") == "compare" else "job"

    def _job(self, fields: Fields) -> str:
        choice = forms.job_of(self.bench, fields)
        replaced = one(fields, "replace") == "yes"
        self._begin("Write the job file", "job", database.save, choice, replace_file=replaced)
        return "job"

    def _plan(self, fields: Fields) -> str:
        self._begin("Say what a run would do", "job", database.plan)
        return "job"

    def _run(self, fields: Fields) -> str:
        self._begin("Run the job", "run", database.run)
        return "run"

    def _list(self, fields: Fields) -> str:
        self.bench.looks.clear()
        self._begin("Look which releases there are", "compare", database.list_releases)
        return "compare"

    def _cancel(self, fields: Fields) -> str:
        task = self.bench.tasks.current
        self.bench.tasks.cancel()
        if task is None:
            return "columns"
        task.over.wait(5.0)
        return task.step

    def _look_at_releases(self, query: Fields) -> None:
        """Begin to look at what is to be compared, unless it is known or something else runs."""
        bench = self.bench
        last = bench.tasks.current
        failed = last is not None and last.step == "compare" and last.state != "done"
        if bench.tasks.busy or failed:
            return
        try:
            if bench.listed is None:
                self._begin("Look which releases there are", "compare", database.list_releases)
            names = [one(query, side) for side in ("a", "b")]
            listed = [listed.output for listed in bench.listed or ()]
            wanted = [name[2:] for name in names if name.startswith("r/") and name[2:] in listed]
            wanted = [name for name in wanted if name not in bench.looks]
            if wanted:
                self._begin("Look at releases", "compare", database.look_at, wanted)
        except BusyError:
            return


def run_workbench(start: Start, *, port: int, ready: Callable[[str], None]) -> bool:
    """Answer pages until a signal arrives; whether a task was running then.

    Parameters
    ----------
    port : to listen on; 0 for any that is free.
    ready : called with the address that a person opens. It holds the key.

    Raises
    ------
    InvalidParameter : the port is in use.
    DbanonError : the table is not there, or cannot be reached.
    """
    for name, url in (("DBANON_URL", start.url), ("DBANON_TARGET", start.target)):
        if url is not None and written_password(url):
            # The job file has a variable in its place.
            os.environ[name] = url
    database.require_table(start)
    bench = Workbench(start)
    try:
        server = Server(port)
    except OSError:
        raise InvalidParameter(
            f"Port {port} of {HOST} cannot be listened on.",
            hint="Another program has it. Leave the port out, or name another one.",
        ) from None
    access = Access(server.port)
    routes = Routes(bench, access)
    server.answer = routes.answer
    pages = threading.Thread(target=server.serve_forever, args=(0.2,), daemon=True)
    pages.start()
    try:
        ready(access.address)
        threading.Thread(target=routes.look, daemon=True).start()
        bench.tasks.run()
    except KeyboardInterrupt:
        return bench.tasks.busy
    finally:
        server.shutdown()
        server.server_close()
    return False


def _locked() -> Answer:
    """What whoever has no key sees."""
    return Answer(403, "Open the address that dbanon workbench printed in its terminal.")


@cache
def _template(name: str) -> jinja2.Template:
    found = environment(HERE)
    found.filters["in_query"] = lambda text: quote(str(text), safe="")
    return found.get_template(name)
