"""Lists the options that a function takes as ``**options`` in its signature, for ``help()``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from inspect import Parameter as Argument
from inspect import cleandoc, signature
from typing import TypeVar

from dbanon.data.option import REQUIRED, Parameter, docstring_paragraphs

Function = TypeVar("Function", bound=Callable[..., object])


def list_options(parameters: Iterable[Parameter]) -> Callable[[Function], Function]:
    """Return a decorator that lists options in the signature of a function with ``**options``.

    The function's last argument must be ``**options``. ``**options`` stays in the signature, unless
    an option is named ``options``.
    """

    options = tuple(parameters)

    def decorate(function: Function) -> Function:
        old_signature = signature(function)
        *named_arguments, last_argument = old_signature.parameters.values()
        argument_names = {argument.name for argument in named_arguments}
        option_arguments = [
            _to_argument(option) for option in options if option.name not in argument_names
        ]
        trailing_arguments = (
            []
            if last_argument.name in {argument.name for argument in option_arguments}
            else [last_argument]
        )
        new_signature = old_signature.replace(
            parameters=[*named_arguments, *option_arguments, *trailing_arguments]
        )
        function.__signature__ = new_signature  # type: ignore[attr-defined]
        function.__doc__ = _with_options(cleandoc(function.__doc__ or ""), options)
        return function

    return decorate


def _with_options(doc: str, options: Iterable[Parameter]) -> str:
    """Append options to a docstring's parameters, unless it already describes them."""
    parameter_lists = re.findall(r"^(\w+(?:, \w+)*) : ", doc, re.MULTILINE)
    described_names = {name for names in parameter_lists for name in names.split(", ")}
    description, *later_sections = re.split(r"(\n\n(?:Raises|Returns)\n)", doc, maxsplit=1)
    option_lines = docstring_paragraphs(
        option for option in options if option.name not in described_names
    )
    return "\n".join((description, option_lines)) + "".join(later_sections)


def _to_argument(parameter: Parameter) -> Argument:
    """Convert an option to a keyword argument of a signature."""
    default = Argument.empty if parameter.default is REQUIRED else parameter.default
    # Show an empty mapping as None, as a mutable default would be shared by all calls.
    default = None if default == {} else default
    return Argument(
        parameter.name, Argument.KEYWORD_ONLY, default=default, annotation=parameter.type
    )
