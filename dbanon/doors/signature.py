"""Signatures that list the options behind ``**options``, for ``help()``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from inspect import Parameter as Argument
from inspect import cleandoc, signature
from typing import Any, TypeVar

from dbanon.data.option import REQUIRED, Parameter, docstring_paragraphs

Function = TypeVar("Function", bound=Callable[..., Any])


def list_options(parameters: Iterable[Parameter]) -> Callable[[Function], Function]:
    """Return a decorator that lists options in the signature of a function with ``**options``.

    The last argument stays in the signature, unless an option has its name.
    """

    def decorate(function: Function) -> Function:
        shape = signature(function)
        *named_arguments, last_argument = shape.parameters.values()
        names = {argument.name for argument in named_arguments}
        added = [_argument(parameter) for parameter in options if parameter.name not in names]
        trailing = (
            [] if last_argument.name in {parameter.name for parameter in added} else [last_argument]
        )
        new_signature = shape.replace(parameters=[*named_arguments, *added, *trailing])
        function.__signature__ = new_signature  # type: ignore[attr-defined]
        function.__doc__ = _with_options(cleandoc(function.__doc__ or ""), options)
        return function

    options = tuple(parameters)
    return decorate


def _with_options(doc: str, options: Iterable[Parameter]) -> str:
    """Append the options that a docstring does not describe to its parameters."""
    described = re.findall(r"^(\w+(?:, \w+)*) : ", doc, re.MULTILINE)
    names = {name for line in described for name in line.split(", ")}
    description, *others = re.split(r"(\n\n(?:Raises|Returns)\n)", doc, maxsplit=1)
    added = docstring_paragraphs(option for option in options if option.name not in names)
    return "\n".join((description, added)) + "".join(others)


def _argument(parameter: Parameter) -> Argument:
    default = Argument.empty if parameter.default is REQUIRED else parameter.default
    # Show an empty mapping as None, as a mutable default would be shared by all calls.
    default = None if default == {} else default
    return Argument(
        parameter.name, Argument.KEYWORD_ONLY, default=default, annotation=parameter.type
    )
