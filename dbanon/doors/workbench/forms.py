"""Forms as decisions: a choice among what was offered, a number within limits, or a plain name.

Columns are named by their place, so that no name of theirs is one of a field.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qsl

from dbanon.advice.request import OF_CATEGORIES, OF_NUMBERS
from dbanon.advice.roles import IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE
from dbanon.data.schema import Kind
from dbanon.doors.jobfile.field_types import is_name
from dbanon.doors.workbench.state import (
    KEEP,
    ROLES,
    TREES,
    JobChoice,
    SweepChoice,
    TreeChoice,
    Workbench,
)
from dbanon.errors import InvalidParameter
from dbanon.job.nulls import NULL_POLICIES
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores.folders import is_of_files

MOST_FIELDS = 5_000
# Names of files: none that is hidden, leads elsewhere, or means something to a shell.
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,58}", re.ASCII)
_SCHEDULE = re.compile(r"[0-9A-Za-z*/,-]+( [0-9A-Za-z*/,-]+){4}", re.ASCII)
_MOST_FILES = 50
EXPORTS = ("", "csv", "parquet")

Fields = Mapping[str, Sequence[str]]


def fields_of(body: bytes) -> dict[str, list[str]]:
    """The fields of a form, all values of each.

    Raises
    ------
    InvalidParameter : it is no form, or has too many fields.
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise InvalidParameter("The form could not be read.") from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value.strip())
    return found


def one(fields: Fields, name: str, default: str = "") -> str:
    """The value of a field."""
    return next(iter(fields.get(name, ())), default)


def roles_of(bench: Workbench, fields: Fields) -> tuple[dict[str, str], dict[str, str]]:
    """The role of each column, and the reasons of those that are kept.

    Raises
    ------
    InvalidParameter : a role is none, a reason is missing, or nothing is a quasi-identifier.
    """
    roles, reasons = {}, {}
    for place, name in enumerate(bench.roles):
        role = one(fields, f"role-{place}")
        if role not in roles_for(bench, name):
            raise InvalidParameter(f'Column "{name}" must have one of the roles that are offered.')
        roles[name] = role
        if role == KEEP:
            reasons[name] = one(fields, f"reason-{place}")[:200]
            if not reasons[name]:
                raise InvalidParameter(
                    f'Column "{name}" is kept as it is, and has no reason.',
                    hint="Write why it reveals nothing about a person, or give it another role.",
                )
    if QUASI_IDENTIFIER not in roles.values():
        raise InvalidParameter(
            "No column is a quasi-identifier.", hint="Name those that others may know of a person."
        )
    return roles, reasons


def roles_for(bench: Workbench, name: str) -> tuple[str, ...]:
    """The roles that a column may have."""
    entity = None if bench.proposed is None else bench.proposed.entity
    # What says whose a row is, is counted, or it is a column like others.
    return (IDENTIFIER, QUASI_IDENTIFIER, SENSITIVE) if name == entity else ROLES


def trees_for(bench: Workbench, name: str) -> tuple[str, ...]:
    """The kinds of tree that a column may have."""
    if bench.proposed is None:
        return ()
    kind = bench.proposed.profile.column(name).attribute.kind
    if kind is Kind.DATE:
        return tuple(one for one in TREES if one in ("dates", "name", "file"))
    if not kind.is_coded:
        return () if kind is Kind.TIMESTAMP else ("intervals", "name", "file")
    return ("mask", "suggest", "name", "file")


def files_for(directory: Path) -> list[str]:
    """Files that may hold a tree."""
    with os.scandir(directory) as entries:
        found = [
            entry.name
            for entry in entries
            if entry.name.endswith((".csv", ".json"))
            and _FILE.fullmatch(entry.name)
            and entry.is_file(follow_symlinks=False)
        ]
    return sorted(found)[:_MOST_FILES]


def trees_of(bench: Workbench, fields: Fields) -> dict[str, TreeChoice]:
    """The trees that were chosen, by quasi-identifier.

    Raises
    ------
    InvalidParameter : one is not among what was offered, or widths are no numbers.
    """
    found = {}
    names = list(bench.roles)
    for name in bench.quasi_identifiers:
        place = names.index(name)
        kind = one(fields, f"tree-{place}")
        if not kind:
            continue
        if kind not in trees_for(bench, name):
            raise InvalidParameter(f'Column "{name}" takes no tree of this kind.')
        offered = {"name": bench.stored, "file": files_for(bench.start.directory)}
        more = one(fields, f"{kind}-{place}")
        choice = TreeChoice(kind, more if kind in ("intervals", *offered) else "")
        if kind in offered and choice.more not in offered[kind]:
            raise InvalidParameter(f'Column "{name}": choose one of the trees that are there.')
        try:
            choice.plain("")
        except (ValueError, OverflowError):
            raise InvalidParameter(
                f'Column "{name}": widths must be numbers, such as 5, 10, 50.'
            ) from None
        found[name] = choice
    return found


def sweep_of(bench: Workbench, fields: Fields) -> SweepChoice:
    """Which releases are to be tried.

    Raises
    ------
    InvalidParameter : a number is none, or too large.
    """
    low, high = _number(fields, "from", 2, 10_000), _number(fields, "to", 2, 10_000)
    if low > high or high - low > 40:
        raise InvalidParameter(
            "The sizes of classes must run from a smaller to a larger one, 41 at most."
        )
    methods = tuple(dict.fromkeys(fields.get("method", ())))
    if any(name not in (*OF_NUMBERS, *OF_CATEGORIES) for name in methods):
        raise InvalidParameter("Choose methods of those that are offered.")
    nulls = one(fields, "nulls", "") or None
    if nulls is not None and nulls not in NULL_POLICIES:
        raise InvalidParameter(f"NULLs may become one of {', '.join(NULL_POLICIES)}.")
    return SweepChoice(
        k=tuple(range(low, high + 1)),
        methods=methods,
        sample=_number(fields, "sample", 100, 10_000_000),
        seed=_number(fields, "seed", 0, 2**31),
        time_limit=float(_number(fields, "limit", 1, 86_400)),
        nulls=nulls,
    )


def _number(fields: Fields, name: str, least: int, most: int) -> int:
    text = one(fields, name)
    if re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) and least <= int(text) <= most:
        return int(text)
    told = {"from": "The smallest k", "to": "The largest k", "limit": "The seconds"}.get(
        name, f"The {name}"
    )
    raise InvalidParameter(f"{told} must be a whole number from {least:,} to {most:,}.")


def job_of(bench: Workbench, fields: Fields) -> JobChoice:
    """How the job file is to be written.

    Raises
    ------
    InvalidParameter : a name is none that a file, a job or a view may have.
    """
    kinds = bench.start.kinds
    found = JobChoice(
        file=_file(one(fields, "file"), (".yaml", ".yml"), "job file"),
        name=one(fields, "name"),
        output=one(fields, "output"),
        kind=one(fields, "kind", kinds[0]),
        place=_file(one(fields, "place", "released.duckdb"), (".duckdb",), "database file"),
        export=one(fields, "export"),
        report=one(fields, "report") == "yes",
        schedule=one(fields, "schedule"),
    )
    if not is_name(found.name):
        raise InvalidParameter(
            "The job's name must be letters, digits, _ and -, at most 63 of them."
        )
    if parse_relation(found.output).schema is not None:
        raise InvalidParameter(
            "The release's name is one without a schema.", hint="It goes into the schema release."
        )
    if found.kind not in kinds:
        raise InvalidParameter(f"A release is made as a {' or as a '.join(kinds)}.")
    if found.export not in EXPORTS:
        raise InvalidParameter("A release is exported as CSV, as Parquet, or not at all.")
    if found.schedule and not _SCHEDULE.fullmatch(found.schedule):
        raise InvalidParameter('A schedule is five fields as cron has them, such as "0 3 1 * *".')
    return found


def _file(name: str, endings: tuple[str, ...], what: str) -> str:
    if not _FILE.fullmatch(name) or ".." in name or not name.endswith(endings):
        raise InvalidParameter(
            f"The {what}'s name must end in {' or '.join(endings)}, and be letters of English,"
            " digits, _, - and dots, without a directory.",
            hint="It goes into the directory in which the workbench was started.",
        )
    return name


def job_first(bench: Workbench) -> JobChoice:
    """What the form of the job file begins with."""
    table = parse_relation(bench.start.table).name
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", table).strip("-_")[:40] or "job"
    export = "csv" if is_of_files(bench.start.url) else ""
    output = str(RelationName(None, table))
    place = f"{stem}-releases.duckdb"
    kind = bench.start.kinds[0]
    return JobChoice(f"{stem}.yaml", stem, output, kind, place=place, export=export)
