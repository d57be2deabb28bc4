"""Python's door to data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbanon.data.option import make, parameters
from dbanon.doors.signature import lists
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.spec import Given, parse_all
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.run.run import run
from dbanon.stores.frame.handed import frame_of
from dbanon.stores.frame.source import NAME, FrameSource
from dbanon.stores.frame.target import FrameTarget

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from dbanon.job.options import PolicyOptions
    from dbanon.release.report import Report


@lists(parameters(Policy))
def anonymize_frame(
    frame: Any,
    *,
    quasi_identifiers: Sequence[str],
    k: int,
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    hierarchies: Mapping[str, Given] | None = None,
    **options: Unpack[PolicyOptions],
) -> tuple[Any, Report]:
    """Anonymize a data frame; the result is counted again before it is returned.

    Rows come back in fresh random order under a new index. Columns named nowhere are left out.
    NaN and NaT are NULLs. What came as an Arrow table or of polars comes back as one.

    Parameters
    ----------
    frame : the records: a data frame of pandas or polars, an Arrow table or what hands out one, a
        dict of columns or a list of dicts. Its order is the record order, its index is not looked
        at.
    quasi_identifiers, sensitive, keep : column names by role.
    by : columns whose values make strata: released as they are, no class crosses them, and k counts
        them as quasi-identifiers.
    entity : the column that says whose a row is: k counts its distinct values, and all rows of one
        (in a stratum) share a class. It is not released. None: every row is a person of its own.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``.
    options : the other options of ``Policy``. Ordered categoricals have the order of their
        categories, unless ``orders`` says another.

    Of columns released as they are that tell too much ``KeptColumnTells`` warns; ``strict`` refuses
    them.

    Raises
    ------
    DbanonError : of the class that says what went wrong.
    """
    table, handed_back = frame_of(frame)
    columns = {"quasi_identifiers": quasi_identifiers, "sensitive": sensitive, "keep": keep,
               "by": by}  # fmt: skip
    for given in columns.values():
        if isinstance(given, (list, tuple)) and not all(isinstance(name, str) for name in given):
            raise InvalidParameter(
                "The columns of the frame have names that are no text.",
                hint="Name them first: frame.columns = [...]",
            )
    trees = parse_all(hierarchies, files=True)
    policy = make(Policy, {"k": k, **options})
    named = {"table": NAME, "output": NAME, "entity": entity, "hierarchies": trees, **columns}
    job = make(Job, {"policy": policy, **named})
    target = FrameTarget()
    report = run(job, FrameSource(table), target)
    assert target.released is not None
    return handed_back(target.released), report
