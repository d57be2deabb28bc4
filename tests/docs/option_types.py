"""Generates ``dbanon/job/options.py``: run ``python -m tests.docs.options``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from dbanon.data.option import Parameter, all_parameters, parameters
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.reading import Reading
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model
from dbanon.methods import METHODS

FILE = Path(__file__).resolve().parents[2] / "dbanon" / "job" / "options.py"

# Named parameters of anonymize and plan.
_ARGUMENTS = {
    "table",
    "output",
    "quasi_identifiers",
    "sensitive",
    "keep",
    "by",
    "entity",
    "key",
    "hierarchies",
    "k",
}
_ACCEPTED = {
    Model: "Model | Mapping[str, Any]",
    ColumnSet: "ColumnSet | Mapping[str, Any] | Sequence[str]",
    Export: "Export | str | Mapping[str, Any]",
}
# For the usual number, as before.
_OR_NONE = ("chunk_rows",)

_HEAD = '''"""The options by name and type, for type checkers.

``python -m tests.docs.options`` writes this file from the fields of ``Policy`` and ``Job`` and from
the methods; a test compares them. None also means an empty mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from dbanon.job.chain import Chain
from dbanon.job.export import Export
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model

'''


def text() -> str:
    """The complete file."""
    of_rows = [name for name, method in METHODS.items() if method.result_type.has_row_classes]
    others = [name for name in METHODS if name not in of_rows]
    policy = [parameter for parameter in parameters(Policy) if parameter.name != "k"]
    classes = [
        parameter
        for parameter in policy
        if not parameter.option.concerns_release and parameter.name != "options"
    ]
    method_options = {
        option.name: option for method in METHODS.values() for option in method.options
    }
    listed = {parameter.name for parameter in (*policy, *parameters(Reading))} | _ARGUMENTS
    job = [parameter for parameter in all_parameters(Job) if parameter.name not in listed]
    return "".join(
        (
            _HEAD,
            _literal("RowMethod", "Methods that group rows into classes.", of_rows),
            _literal("AttributeMethod", "Methods that group each attribute separately.", others),
            "MethodName: TypeAlias = RowMethod | AttributeMethod\n",
            _typed_dict(
                "PolicyOptions", "TypedDict", "The options of a policy, without k.", policy
            ),
            _typed_dict(
                "ClassOptions",
                "TypedDict",
                "The options for classes without a release: of policies, and the methods'"
                " parameters.",
                [
                    *(parameter for parameter in classes if parameter.name != "method"),
                    *method_options.values(),
                ],
            ),
            _typed_dict(
                "ReadingOptions",
                "TypedDict",
                "The options for reading files.",
                parameters(Reading),
            ),
            _typed_dict(
                "JobOptions",
                "PolicyOptions, ReadingOptions",
                "The options of a job on a database, without the names of source and output.",
                job,
            ),
        )
    )


def _literal(name: str, description: str, words: Iterable[str]) -> str:
    told_words = ", ".join(f'"{word}"' for word in words)
    return f"# {description}\n{name}: TypeAlias = Literal[{told_words}]\n"


def _typed_dict(name: str, bases: str, docstring: str, fields_of_type: Iterable[Parameter]) -> str:
    fields = "".join(f"    {field.name}: {_annotation(field)}\n" for field in fields_of_type)
    return f'\n\nclass {name}({bases}, total=False):\n    """{docstring}"""\n\n{fields}'


def _annotation(parameter: Parameter) -> str:
    if parameter.name == "method":
        return "MethodName"
    if parameter.option.choices and parameter.kind is str:
        words = ", ".join(f'"{word}"' for word in parameter.option.choices)
        annotation = f"Literal[{words}]"
    elif parameter.kind is tuple:
        annotation = f"Sequence[{_ACCEPTED.get(parameter.item_type) or _name(parameter.item_type)}]"
    else:
        annotation = _name(parameter.type)
    optional = parameter.nullable or parameter.kind is Mapping or parameter.name in _OR_NONE
    return f"{annotation} | None" if optional and not annotation.endswith("| None") else annotation


def _name(kind: Any) -> str:
    """The source text of a type."""
    if kind is NoneType:
        return "None"
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(map(_name, get_args(kind)))
    if get_origin(kind) is not None:
        inside = ", ".join(_name(part) for part in get_args(kind) if part is not Ellipsis)
        return f"{get_origin(kind).__name__}[{inside}]"
    return "Any" if kind is Any else str(kind.__name__)


def write() -> None:
    """Write the file, formatted."""
    FILE.write_text(format_code(text()), encoding="utf-8")


def format_code(code: str) -> str:
    """Format as ``ruff format`` does."""
    done = subprocess.run(
        [Path(sys.executable).with_name("ruff"), "format", "--stdin-filename", FILE, "-"],
        input=code,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
