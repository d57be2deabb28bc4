"""The doors at which hints are tried: each raises an error, and takes what its hint prints."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

import dbanon
from dbanon.data.option import Parameter, all_parameters
from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.field_types import COLUMN_KEYS, spell_in_job_file
from dbanon.doors.spelling import _option_words, flag
from dbanon.errors import DbanonError
from dbanon.job.job import Job
from dbanon.measures import Model

OPTIONS: dict[str, Parameter] = {one.name: one for one in all_parameters(Job)}
FLAGS = {flag(one): one for one in OPTIONS.values()}
_NUMBERS = itertools.count()
_VALUE = r"('[^']*'|\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}|[^\s,;:()}\]]+)"
# What stands behind the name of an option in a sentence, and is no value of it.
_NO_VALUE = re.compile(
    r"[A-Z]+(=.*)?|…|that|by|and|or|only|then|also|without|with|to|of|out|for|in|is|are"
)


@dataclass(frozen=True)
class Call:
    """A call that a hint is tried on.

    Parameters
    ----------
    source : URL or frame.
    options : as Python takes them.
    printed : what a hint printed and the next call takes, as its door has it.
    """

    source: Any
    options: Mapping[str, Any]
    printed: tuple[Any, ...] = ()

    def with_options(self, changes: Mapping[str, Any]) -> Call:
        """The call with other options; None leaves one out."""
        merged = {**self.options, **changes}
        return replace(self, options={n: v for n, v in merged.items() if v is not None})

    def with_output(self) -> Call:
        """The call with an output of its own, unless it names one."""
        if "output" in self.options or not isinstance(self.source, str):
            return self
        return self.with_options({"output": f"o{next(_NUMBERS)}"})


def fresh(path: Path) -> Path:
    """A name that nothing has yet in the folder of the source."""
    return path / f"f{next(_NUMBERS)}"


class PythonDoor:
    """Keyword arguments."""

    def spell(self, name: str) -> str:
        return name

    def run(self, call: Call) -> str | None:
        """Run it: the hint of its error, or None where it succeeds."""
        call = call.with_output()
        try:
            if isinstance(call.source, str):
                dbanon.anonymize(call.source, **call.options)
            else:
                dbanon.anonymize_frame(call.source, **call.options)
        except DbanonError as error:
            return error.hint or "(no hint)"
        return None

    def changes(self, call: Call, hint: str) -> Iterator[tuple[str, Call]]:
        """Every option with a value that the hint prints, and the call that has it."""
        for name, text in re.findall(rf"(?<![\w\"'])([a-z_]+)={_VALUE}", hint):
            if name in OPTIONS and "…" not in text:
                value = {"True": True, "False": False}.get(text.rstrip("."))
                value = json.loads(text.rstrip(".")) if value is None else value
                yield name, call.with_options({name: value})


class CommandDoor:
    """Flags of ``dbanon anonymize``."""

    def spell(self, name: str) -> str:
        return flag(OPTIONS[name])

    def run(self, call: Call) -> str | None:
        call = call.with_output()
        words = [word for name, value in call.options.items() for word in words_of(name, value)]
        return run_command("anonymize", call.source, *words, *call.printed)

    def changes(self, call: Call, hint: str) -> Iterator[tuple[str, Call]]:
        for found in re.finditer(rf"(--[a-z-]+)(?: {_VALUE})?", hint):
            name, value = found.groups()
            one = FLAGS.get(name.replace("--no-", "--"))
            if one is None:
                continue
            if one.kind is bool:
                printed = [name] if name.startswith("--no-") or value is None else []
            elif value is None or "…" in value or _NO_VALUE.fullmatch(value.rstrip(".")):
                continue
            else:
                printed = [name, *shlex.split(value.rstrip("."))]
            if printed and (one.kind is not bool or name.startswith("--no-")):
                kept = call.with_options({one.name: None})
                yield one.name, replace(kept, printed=(*call.printed, *printed))


def words_of(name: str, value: Any) -> list[str]:
    """An option as words of the command line."""
    if name in ("target", "lock_timeout"):
        return [f"--{name.replace('_', '-')}", str(value)]
    if name == "hierarchies":
        return [
            word
            for column, spec in value.items()
            for word in ("--hierarchy", f"{column}={json.dumps(spec)}")
        ]
    return _option_words(name, value)


def run_command(*words: str) -> str | None:
    """The hint that a command prints; None where it succeeds."""
    result = CliRunner().invoke(main, list(words), env={"COLUMNS": "200"})
    if result.exit_code == 0:
        return None
    # What is wrong in a job file stands in the details, with what to do.
    label = "Detail" if "Error [job_file]" in result.stderr else "Hint"
    told = re.search(rf"^{label}: (.*?)(?=^Hint: |^More: |\Z)", result.stderr, re.S | re.M)
    return told[1].strip() if told else f"(no hint) {result.stderr} {result.exception!r}"


class JobDoor:
    """Keys of a job file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def spell(self, name: str) -> str:
        return spell_in_job_file(name, None).removeprefix("role: ")

    def run(self, call: Call) -> str | None:
        path = self._folder / f"job{next(_NUMBERS)}.yaml"
        path.write_text(json.dumps(job_file(call.with_output())), encoding="utf-8")
        return run_command("run", str(path))

    def changes(self, call: Call, hint: str) -> Iterator[tuple[str, Call]]:
        for key, text in re.findall(rf"(?=\b([a-z_]+): {_VALUE})", hint):
            if key in OPTIONS or key in ("output", "export"):
                if "…" in text or text in ("the", "a", "an"):
                    continue
                value = yaml.safe_load(text.rstrip("."))
                if key == "if_exists":
                    continue
                name = next(iter(value)) if key == "output" else key
                kept = call.with_options({name: None})
                yield name, replace(kept, printed=(*call.printed, {key: value}))


def job_file(call: Call) -> dict[str, Any]:
    """The job file of a call."""
    options = dict(call.options)
    target = options.pop("target", None)
    columns: dict[str, dict[str, Any]] = {}
    job: dict[str, Any] = {"name": "people", "on_new_column": "drop", "columns": columns}
    output: dict[str, Any] = {}
    for name, value in options.items():
        if name == "models":
            for model in value:
                columns[model.attribute].setdefault("models", []).append(
                    {"kind": model.kind, "level": model.level}
                )
        elif isinstance(value, Mapping) and name in COLUMN_KEYS:
            for column, part in value.items():
                columns.setdefault(column, {})[COLUMN_KEYS[name]] = part
        elif name in COLUMN_KEYS:
            # The design weight is a single column.
            for column in [value] if isinstance(value, str) else value:
                columns.setdefault(column, {})["role"] = COLUMN_KEYS[name]
                if name == "keep":
                    columns[column]["reason"] = "it is a test"
        elif name == "output":
            output["view" if options.get("output_kind") == "view" else "table"] = value
        elif name == "if_exists":
            output[name] = value
        elif name == "exports":
            job["export"] = value
        elif name != "output_kind":
            job[name] = value
    for part in call.printed:
        for key, value in part.items():
            if key == "output":
                output |= value
            else:
                job[key] = value
    # Whose a row is, and what its key is, stand among the columns.
    for name in {options.get("entity"), *options.get("key", ())} - {None}:
        columns.setdefault(name, {"role": "identifier"})
    if "entity_normalize" in job:
        job["entity"] = {"column": job["entity"], "normalize": job.pop("entity_normalize")}
    job["output"] = output
    more = {} if target is None else {"target": {"url": target}}
    return {"version": 1, "source": {"url": call.source}, **more, "jobs": [job]}


def model(attribute: str, kind: str, level: float) -> Model:
    """A privacy model."""
    return Model(kind=kind, level=level, attribute=attribute)
