"""How a command that makes a release names its chain: ``--chain`` and what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dbanon.data.option import REQUIRED, parameters
from dbanon.doors.cli.options import Decorator, click_option, values
from dbanon.errors import InvalidParameter
from dbanon.job.chain import Chain

# No command needs them: what a chain needs is asked once one is named.
_PARTS = tuple(replace(one, default=None if one.default is REQUIRED else one.default)
               for one in parameters(Chain)[1:])  # fmt: skip
# The options of a command have one name each: that of a chain's key is not that of rows' keys.
_PREFIX = "chain_"


def with_parts(command: Any) -> Any:
    """Give a command the options that stand beside ``--chain``."""
    for one in reversed(_PARTS):
        given: Decorator = click_option(one, _PARTS, named=_PREFIX + one.name)
        command = given(command)
    return command


def chain_of(given: Mapping[str, Any]) -> Chain | None:
    """The chain that the options name.

    Raises
    ------
    InvalidParameter : they are given without a chain, or the chain without its key.
    """
    parts = values(_PARTS, {one.name: given[_PREFIX + one.name] for one in _PARTS})
    if given["chain"] is None:
        if any(parts.values()):
            raise InvalidParameter(
                "--chain-key, --max-exposed, --accept-turnover, --table-output and"
                " --table-keep need a chain.",
                hint="Name it: --chain NAME.",
            )
        return None
    if parts["key"] is None:
        raise InvalidParameter(
            "A chain needs its key.", hint="Say where it is: --chain-key file:PATH or env:NAME."
        )
    return Chain(given["chain"], **parts)
