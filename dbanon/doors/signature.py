"""Signatures that list the options behind ``**options``, for ``help()``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter as Argument
from inspect import signature
from typing import Any, TypeVar

from dbanon.data.option import REQUIRED, Parameter

Function = TypeVar("Function", bound=Callable[..., Any])


def lists(known: Iterable[Parameter]) -> Callable[[Function], Function]:
    """Let a function that takes ``**options`` list those of them that are known.

    The last argument stays where it takes more than these: where its name is no option's.
    """

    def listed(function: Function) -> Function:
        shape = signature(function)
        *named, rest = shape.parameters.values()
        names = {argument.name for argument in named}
        more = [_argument(one) for one in known if one.name not in names]
        last = [] if rest.name in {one.name for one in more} else [rest]
        whole = shape.replace(parameters=[*named, *more, *last])
        function.__signature__ = whole  # type: ignore[attr-defined]
        return function

    return listed


def _argument(one: Parameter) -> Argument:
    default = Argument.empty if one.default is REQUIRED else one.default
    # A mapping that is shared by all calls is no default to be shown.
    default = None if default == {} else default
    return Argument(one.name, Argument.KEYWORD_ONLY, default=default, annotation=one.type)
