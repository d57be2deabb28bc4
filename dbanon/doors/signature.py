"""Signatures that list the options behind ``**options``, for ``help()``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from inspect import Parameter as Argument
from inspect import cleandoc, signature
from typing import Any, TypeVar

from dbanon.data.option import REQUIRED, Parameter, in_docstring

Function = TypeVar("Function", bound=Callable[..., Any])


def lists(known: Iterable[Parameter]) -> Callable[[Function], Function]:
    """Let a function that takes ``**options`` list those of them that are known.

    The last argument stays where it takes more than these: where its name is no option's.
    """

    def listed(function: Function) -> Function:
        shape = signature(function)
        *named, rest = shape.parameters.values()
        names = {argument.name for argument in named}
        more = [_argument(one) for one in options if one.name not in names]
        last = [] if rest.name in {one.name for one in more} else [rest]
        whole = shape.replace(parameters=[*named, *more, *last])
        function.__signature__ = whole  # type: ignore[attr-defined]
        function.__doc__ = _with_options(cleandoc(function.__doc__ or ""), options)
        return function

    options = tuple(known)
    return listed


def _with_options(doc: str, options: Iterable[Parameter]) -> str:
    """The docstring with the options that it does not describe, at the end of its parameters."""
    described = re.findall(r"^(\w+(?:, \w+)*) : ", doc, re.MULTILINE)
    names = {name for line in described for name in line.split(", ")}
    own, *others = re.split(r"(\n\n(?:Raises|Returns)\n)", doc, maxsplit=1)
    more = in_docstring(one for one in options if one.name not in names)
    return "\n".join((own, more)) + "".join(others)


def _argument(one: Parameter) -> Argument:
    default = Argument.empty if one.default is REQUIRED else one.default
    # A mapping that is shared by all calls is no default to be shown.
    default = None if default == {} else default
    return Argument(one.name, Argument.KEYWORD_ONLY, default=default, annotation=one.type)
