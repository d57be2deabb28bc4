"""What is wished of a synthesis, checked before anything is read; one description a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from dbanon.data.option import REQUIRED, Option, check, make, parameters
from dbanon.errors import InvalidParameter, UnknownMethod, UnknownOption, nearest_names

AS_PUBLISHED = "as_published"
ALGORITHM, SECTION_4 = READINGS = ("algorithm", "section_4")
_SEE = "differential-privacy.md"


@dataclass(frozen=True)
class AsPublished:
    """DCMDP: noise as Liu and Li published it, which guarantees nothing.

    Raises
    ------
    InvalidParameter : an option is out of range, or it was not asked for as what it is.
    """

    k: Annotated[int, Option("DBSCAN's smallest neighbourhood.", minimum=2, see=_SEE)]
    epsilon: Annotated[
        float, Option("The source's; no privacy holds for it.", minimum=0, above=True, see=_SEE)
    ]
    guarantee: Annotated[
        str | None,
        Option("as_published: noise that guarantees nothing.", choices=(AS_PUBLISHED,), see=_SEE),
    ] = None
    radius: Annotated[
        float,
        Option("How far a neighbour may be, in columns from 0 to 1.", minimum=0, above=True),
    ] = 0.2
    reading: Annotated[
        str,
        Option(
            "Which noise: of the source's algorithm, range / (k epsilon), or of its section 4,"
            " n range / (k^2 epsilon).",
            choices=READINGS,
            see=_SEE,
        ),
    ] = ALGORITHM
    seed: Annotated[int, Option("For the noise: the same seed gives the same rows.", minimum=0)] = 0

    def __post_init__(self) -> None:
        check(self)
        if self.guarantee != AS_PUBLISHED:
            raise InvalidParameter(
                "Method dcmdp adds noise as published: it is not differentially private, and its"
                " rows are not k-anonymous.",
                hint='Use method dp_ranks, or `guarantee="as_published"` to have it all the same.',
            )


WISHES: dict[str, type[Any]] = {"dcmdp": AsPublished}


def wish(method: str, options: Mapping[str, Any]) -> Any:
    """What is wished of this method, from options by name.

    Raises
    ------
    UnknownMethod : no method of this name makes synthetic rows.
    UnknownOption : the method has no option of this name.
    InvalidParameter : an option is missing or out of range, or others do not fit.
    """
    if method not in WISHES:
        raise UnknownMethod(
            f'No method "{method}" makes synthetic rows.', hint=f"Known: {', '.join(WISHES)}."
        )
    known = {one.name: one for one in parameters(WISHES[method])}
    for name in options:
        if name not in known:
            near = nearest_names(name, known)
            raise UnknownOption(
                f'Method {method} has no option "{name}".',
                hint=f"{f'{near} ' if near else ''}Its options: {', '.join(known)}.",
            )
    for one in known.values():
        if one.default is REQUIRED and one.name not in options:
            raise InvalidParameter(f"Method {method} needs {one.name}.", hint=one.help)
    return make(WISHES[method], options)
