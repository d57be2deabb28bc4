"""Recorded results: masked, made compact, compared field by field.

A record holds, for each field, the value that most cases share, and for each case the values that
differ. Long values are stored as their beginning and a hash: ``python -m tests.golden show`` prints
them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbanon.job.policy import Policy
from tests.golden.doors import Answer

Cases = dict[str, dict[str, str]]

FOLDER = Path(__file__).parent / "recorded"
ABSENT = "(absent)"
LONGEST = 56

# Interfaces whose record contains only differences from another one's.
BASES = dict.fromkeys(("sqlite", "postgresql", "sql", "frame"), "duckdb")

# Fields that always differ between runs: only whether there is a value is recorded.
_MASKED = re.compile(
    r"(^|\.)(release_id|run_id|created_at|finished_at|started_at|superseded_at|seconds|elapsed"
    r"|dbanon_version|published_by|run_by|application|server_version|class_signature|entity_hash"
    r"|snapshot|digest|\w*salt|generation|oid|relation_oid|\w*_oid)$"
)
_TEXTS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "HEX"),
    (re.compile(r"(?<=_r)[0-9a-f]{12}(?![0-9a-f])"), "HEX"),
    (re.compile(r"\bdbanon(,? version)? \d+\.\d+\.\d+"), "dbanon VERSION"),
)


def _mask(value: Any, folders: Sequence[Path]) -> Any:
    """The value without parts that differ between equal runs."""
    if isinstance(value, Mapping):
        return {
            str(name): (
                "*" if _MASKED.search(str(name)) and part is not None else _mask(part, folders)
            )
            for name, part in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_mask(part, folders) for part in value]
    if isinstance(value, str):
        # For nested folders replace the longest path first.
        for folder in sorted(map(str, folders), key=len, reverse=True):
            value = re.sub(re.escape(folder) + r"(?![\w.-])", "FOLDER", value)
        for pattern, word in _TEXTS:
            value = pattern.sub(word, value)
    return value


def _longest(field: str) -> int:
    # Rights are reviewed by people, not only compared.
    return 4 * LONGEST if field.startswith("rights.") else LONGEST


def compact(value: Any, longest: int = LONGEST) -> str:
    """The value as text; a long one as its beginning and a hash."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    size = f"{len(value)} items, " if isinstance(value, (list, dict)) else ""
    return f"{text[: longest // 2]}… {size}sha256 {digest}"


def masked_answer(answer: Answer, folders: Sequence[Path]) -> Answer:
    """The result without parts that differ between equal runs.

    Only paths in the run's own ``folders`` are masked, not everything with a slash.
    """
    masked = {}
    for field, value in answer.items():
        if _MASKED.search(field):
            masked[field] = None if value is None or value == [None] else "*"
        else:
            masked[field] = _mask(value, folders)
    return masked


def recorded(answer: Answer, folders: Sequence[Path]) -> dict[str, str]:
    """The recorded fields of a result."""
    plain = _split_arguments(masked_answer(answer, folders))
    fields = {
        field: _repeated_field(field, value, plain) or compact(value, _longest(field))
        for field, value in plain.items()
    }
    # A few rows say more than a hash of all.
    # An option of a command may have this name, too.
    if "released" in plain and not isinstance(plain["released"], dict):
        fields["released.first"] = compact(plain["released"][:1])
    return fields


# The texts of values of arguments that are not set.
_UNSET = ("None", "False", "[]", "{}")
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Policy)}


def _split_arguments(answer: Answer) -> Answer:
    """The result with a field for each argument that is set to something other than its default.

    A new option changes no record that way.
    """
    split: Answer = {}
    for field, value in answer.items():
        # The ledger has a row for each release.
        rows = value if isinstance(value, list) else [value]
        if not field.endswith(".arguments") or not all(isinstance(row, Mapping) for row in rows):
            split[field] = value
            continue
        changed = [_changed_arguments(row) for row in rows]
        if len(changed) == 1:
            split |= {f"{field}.{name}": argument for name, argument in changed[0].items()}
        else:
            split[field] = changed
    return split


def _changed_arguments(arguments: Mapping[str, Any]) -> Answer:
    """The arguments that are set to something other than their default."""
    return {
        name: argument
        for name, argument in arguments.items()
        if str(argument) not in _UNSET and argument != _DEFAULTS.get(name)
    }


# The first of these with a field records it; the others refer to it.
_TELLERS = ("report", "result", "release", "summary")


def _repeated_field(field: str, value: Any, answer: Answer) -> str | None:
    """Which part of the result already has the same value."""
    part, _, name = field.partition(".")
    if part in _TELLERS:
        for teller in _TELLERS[: _TELLERS.index(part)]:
            key = f"{teller}.{name}"
            if key in answer and _as_text(answer[key]) == _as_text(value):
                return f"as in {teller}"
    return None


def _as_text(value: Any) -> str:
    """The value as text, for a single row as read from DuckDB's ledger."""
    single = value[0] if isinstance(value, list) and len(value) == 1 else value
    # Databases store JSON in an order of their own.
    return json.dumps(single, sort_keys=True) if isinstance(single, dict) else str(single)


def _is_refusal(fields: Mapping[str, str]) -> bool:
    return any(field.startswith(("refused.", "failed")) for field in fields)


def _of_base(name: str, *, refused: bool) -> Cases:
    """The cases of one kind of the interface on which this one is based."""
    base = load(BASES[name]) if name in BASES else {}
    return {case: fields for case, fields in base.items() if _is_refusal(fields) is refused}


def _common(cases: Cases, base: Cases) -> dict[str, str]:
    """Values that the base's record does not contain."""
    shared = {}
    for field in sorted(
        {field for fields in (*cases.values(), *base.values()) for field in fields}
    ):
        values = {case: fields.get(field, ABSENT) for case, fields in cases.items()}
        [(value, times)] = Counter(values.values()).most_common(1)
        by_base = sum(base.get(case, {}).get(field, ABSENT) == v for case, v in values.items())
        if (times > by_base and value != ABSENT) or (times >= by_base and base):
            shared[field] = value
    return shared


def save(name: str, cases: Cases) -> Path:
    """Write an interface's record, and the records based on it."""
    others = {
        other: load(other)
        for other, base in BASES.items()
        if base == name and _path(other).exists()
    }
    parts = []
    for title, refused in _KINDS:
        mine = {case: fields for case, fields in cases.items() if _is_refusal(fields) is refused}
        base = _of_base(name, refused=refused)
        common = _common(mine, base) if mine else {}
        parts.append(_lines(f"common to {title}", common))
        for case, fields in mine.items():
            default = {**base.get(case, {}), **common}
            differing = {
                field: fields.get(field, ABSENT)
                for field in sorted({*fields, *default})
                if fields.get(field, ABSENT) != default.get(field, ABSENT)
            }
            parts.append(_lines(f"{title}: {case}", differing))
    # One field per line, so that a difference is one line of a diff.
    _path(name).write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    for other, fields in others.items():
        save(other, fields)
    return _path(name)


_KINDS = (("answers", False), ("refusals", True))


def _lines(title: str, fields: Mapping[str, str]) -> str:
    body = ",\n".join(f" {_json(field)}: {_json(value)}" for field, value in fields.items())
    return f"{_json(title)}: {{" + (f"\n{body}" if body else "") + "}"


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _path(name: str) -> Path:
    return FOLDER / f"{name}.json"


def load(name: str) -> Cases:
    """The record of a door.

    Raises
    ------
    FileNotFoundError : it was never recorded.
    """
    document = json.loads(_path(name).read_text(encoding="utf-8"))
    cases: Cases = {}
    for title, refused in _KINDS:
        base = _of_base(name, refused=refused)
        common = document.pop(f"common to {title}")
        start = f"{title}: "
        for case in (key.removeprefix(start) for key in document if key.startswith(start)):
            complete = {**base.get(case, {}), **common, **document[start + case]}
            cases[case] = {field: value for field, value in complete.items() if value != ABSENT}
    return cases


def differences(name: str, before: Cases, now: Cases) -> Iterator[str]:
    """All differences, one per line."""
    for case in [*before, *(case for case in now if case not in before)]:
        if case not in now:
            yield f"{name} / {case}: is not asked any more"
        elif case not in before:
            yield f"{name} / {case}: is new"
        else:
            yield from _fields(f"{name} / {case}", before[case], now[case])


def _fields(title: str, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for field in sorted({*before, *now}):
        old, new = before.get(field, ABSENT), now.get(field, ABSENT)
        if old != new:
            yield f"{title} / {field}: {old} -> {new}"
