"""Generates ``dbanon/job/options.py``: run ``python -m tests.docs.options``."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from dbanon.data.groups import Groups
from dbanon.data.option import Parameter, all_parameters, parameters
from dbanon.job.date_shift import DateShift
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
    Groups: "Mapping[str, Sequence[str | int] | str]",
    DateShift: "DateShift | Mapping[str, Any]",
}
# For the usual number, as before.
_OR_NONE = ("chunk_rows",)

_HEAD = '''"""The options by name and type, for type checkers.

``python -m tests.docs.options`` writes this file from the fields of ``Policy`` and ``Job`` and from
the methods; a test compares them. Where a mapping is expected, None stands for an empty one. The
comment above a key says what the option does: the first sentence of its help, or all of it if each
sentence describes a choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from dbanon.job.chain import Chain
from dbanon.job.date_shift import DateShift
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
    method_options: dict[str, Parameter] = {}
    methods_by_option: dict[str, list[str]] = {}
    for method_name, method in METHODS.items():
        for option in method.options:
            method_options[option.name] = option
            methods_by_option.setdefault(option.name, []).append(method_name)
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
                "The options for finding classes without a release: of the policy and of methods.",
                [
                    *(parameter for parameter in classes if parameter.name != "method"),
                    *method_options.values(),
                ],
                methods_by_option,
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


def _typed_dict(
    name: str,
    bases: str,
    docstring: str,
    fields_of_type: Iterable[Parameter],
    methods_by_option: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> str:
    """A class with a key for each option; ``methods_by_option`` has the methods of their own."""
    fields = "".join(
        f"{_comment(field, methods_by_option.get(field.name, ()))}"
        f"    {field.name}: {_annotation(field)}\n"
        for field in fields_of_type
    )
    return f'\n\nclass {name}({bases}, total=False):\n    """{docstring}"""\n\n{fields}'


def _comment(parameter: Parameter, methods: Sequence[str]) -> str:
    """The first sentence of an option's help as a comment, with the methods that it belongs to.

    A help that describes one choice per sentence is used as a whole.
    """
    text = parameter.help
    if text.partition(":")[0] not in parameter.option.choices:
        text = re.split(r"(?<=\w\.)\s", text, maxsplit=1)[0]
    prefix = f"For {', '.join(methods)}: " if methods else ""
    lines = textwrap.wrap(prefix + text, 100, initial_indent="    # ", subsequent_indent="    # ")
    return "".join(f"{line}\n" for line in lines)


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
    if kind in (Groups, DateShift):
        return _ACCEPTED[kind]
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
