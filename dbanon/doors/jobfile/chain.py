"""The chain that a job of a file belongs to."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import create_model

from dbanon.data.option import parameters
from dbanon.doors.jobfile.shapes import Expanded, Strict, checked, typed
from dbanon.job.chain import Chain, Rules, require_chain_name, require_key_form

_NEEDED: Any = {
    "name": (Annotated[str, checked(require_chain_name)], ...),
    # Where it is, never the key itself.
    "key": (Annotated[Expanded, checked(require_key_form)], ...),
}
_OTHERS: Any = {
    one.name: (typed(one), None)
    for one in (*parameters(Chain), *parameters(Rules))
    if one.name not in _NEEDED
}
# The rules are those that the file expects of the chain: it was made with them, and keeps them.
ChainSpec: Any = create_model("ChainSpec", __base__=Strict, **_NEEDED, **_OTHERS)


def chain_of(spec: Any) -> Chain | None:
    """The chain that a job names; its key may still hold variables. None where it names none."""
    if spec is None:
        return None
    return Chain.of_plain({name: getattr(spec, name) for name in spec.model_fields_set})
