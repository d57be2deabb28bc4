"""The Python API for data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, overload

from dbanon.data.option import build_options, parameters
from dbanon.doors.frame_report import FrameReport
from dbanon.doors.progress import progress_callback
from dbanon.doors.signature import list_options
from dbanon.errors import (
    InvalidParameter,
    RowsLinkable,
    RowsLinkableRefused,
    hints_without_views,
    warn_caller,
)
from dbanon.hierarchy.spec import HierarchySource, parse_all
from dbanon.job.date_shift import DateShift
from dbanon.job.guarantee import WHOLE_PERSONS
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.release.alignment import INPUT, INPUT_ORDER_CAUTION, SHUFFLED
from dbanon.run.run import run
from dbanon.stores.frame.conversion import alignment_of, frame_of
from dbanon.stores.frame.source import FRAME_NAME, FrameSource
from dbanon.stores.frame.target import FrameTarget
from dbanon.stores.ports import IN_DATA_FRAME

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dbanon.data.types import JsonMapping
    from dbanon.doors.progress import ProgressOption
    from dbanon.job.options import PolicyOptions

    class FrameOptions(PolicyOptions, total=False):
        """Options of a call on a data frame, except the frame, quasi-identifiers and k."""

        sensitive: Sequence[str]
        keep: Sequence[str]
        by: Sequence[str]
        entity: str | None
        entity_normalize: Literal["trim", "casefold"] | None
        persons: Literal["whole", "rows"]
        design_weight: str | None
        weight_as: Literal["mean", "rounded", "copied"] | None
        hierarchies: Mapping[str, HierarchySource] | None
        shift_dates: DateShift | JsonMapping | None
        rows: Literal["shuffled", "input"]
        progress: ProgressOption


class ArrowExporter(Protocol):
    """An object that exports an Arrow table by the PyCapsule interface, like DuckDB relations."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


# A job needs names for source and output, but frames have none.
_TABLE_NAMES = {"table": FRAME_NAME, "output": FRAME_NAME}
# What the report says about the reproducibility of a release whose rows keep the input order.
_NOT_SHUFFLED = "classes: reproducible; row order and index: those of the input"


@overload
def anonymize_frame(
    frame: pd.DataFrame | Mapping[str, object] | Sequence[Mapping[str, object]],
    *,
    quasi_identifiers: Sequence[str],
    k: int,
    **options: Unpack[FrameOptions],
) -> tuple[pd.DataFrame, FrameReport]: ...


@overload
def anonymize_frame(
    frame: pl.DataFrame,
    *,
    quasi_identifiers: Sequence[str],
    k: int,
    **options: Unpack[FrameOptions],
) -> tuple[pl.DataFrame, FrameReport]: ...


@overload
def anonymize_frame(
    frame: ArrowExporter,
    *,
    quasi_identifiers: Sequence[str],
    k: int,
    **options: Unpack[FrameOptions],
) -> tuple[pa.Table, FrameReport]: ...


@list_options(parameters(Policy))
def anonymize_frame(
    frame: object,
    *,
    quasi_identifiers: Sequence[str],
    k: int,
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    entity_normalize: str | None = None,
    persons: str = WHOLE_PERSONS,
    design_weight: str | None = None,
    weight_as: str | None = None,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    pseudonyms: Sequence[str] = (),
    pseudonym_key: str | None = None,
    shift_dates: DateShift | JsonMapping | None = None,
    rows: str = SHUFFLED,
    progress: ProgressOption = None,
    **options: Unpack[PolicyOptions],
) -> tuple[object, FrameReport]:
    """Anonymize a data frame; the released rows are recounted before they are returned.

    Rows are returned in a new random order with a new index. Columns without a role are left out.
    NaN and NaT count as NULL. An Arrow table or polars frame is returned as the same type. The
    report keeps in memory, for its method ``evaluate``, which row became which; this is never
    written anywhere. Ordered categoricals use the order of their categories, unless ``orders``
    states another. ``KeptColumnTells`` warns about copied columns that reveal too much; ``strict``
    refuses them.

    Parameters
    ----------
    frame : the records: a data frame of pandas or polars, an Arrow table or an object that
        provides one, a dict of columns or a list of dicts. Its order is the record order; its
        index is ignored.
    quasi_identifiers, sensitive, keep : column names by role.
    by : columns that define strata: they are released unchanged, no class spans two strata, and k
        counts them as quasi-identifiers.
    entity : the column that identifies the person: k counts its distinct values, and all rows of
        a person (in a stratum) share a class. It is not released. None: k counts rows.
    entity_normalize : ``trim`` or ``casefold``: how texts of ``entity`` are normalized before they
        are compared.
    persons : ``whole``: all rows of a person share a class; ``rows``: they may lie in different
        classes of k persons.
    design_weight : the column with the number of persons that a row stands for. Means of classes
        are weighted by it.
    weight_as : ``mean`` (the default) to release the mean weight of each class, so that their sum
        stays the same; ``rounded`` to release this mean as a whole number; ``copied`` to release
        weights as they are.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``.
    pseudonyms : identifiers that are released as keyed hashes, which can be joined across releases.
    pseudonym_key : source of the key of the hashes: ``file:PATH`` or ``env:NAME``.
    shift_dates : ``{"days": 365, "columns": ["admitted"]}``: copied dates that are shifted by a
        secret number of days, the same for all rows of a person, or for all columns of a row.
    rows : ``shuffled``, or ``input`` to return the rows in the order and with the index of the
        input. Use ``input`` only for yourself, because it links rows to their originals:
        ``RowsLinkable`` warns, and ``strict`` refuses it.
    progress : True for a progress bar in a notebook or on a terminal; or a function that is called
        with the name of a phase and its completed share, 0 to 1. An error that it raises ends the
        run.

    Raises
    ------
    DbanonError : its class says what went wrong.
    """
    table, to_input_type = frame_of(frame)
    roles = {"quasi_identifiers": quasi_identifiers, "sensitive": sensitive, "keep": keep, "by": by}
    _require_text_names(roles)
    tree_sources = parse_all(hierarchies, files=True)
    policy = build_options(Policy, {"k": k, **options})
    _check_row_order(rows, policy)
    identifier_options = {
        "pseudonyms": pseudonyms,
        "pseudonym_key": pseudonym_key,
        "shift_dates": shift_dates,
        "entity": entity,
        "entity_normalize": entity_normalize,
        "persons": persons,
        "design_weight": design_weight,
        "weight_as": weight_as,
    }
    job = build_options(
        Job,
        {
            "policy": policy,
            "hierarchies": tree_sources,
            **_TABLE_NAMES,
            **identifier_options,
            **roles,
        },
    )
    target = FrameTarget(rows)
    # Data frames have no views, so hints say "in the data frame" in place of "in a view".
    with progress_callback(progress) as callback, hints_without_views(IN_DATA_FRAME):
        report = run(job, FrameSource(table), target, callback)
    # ``run`` has set both.
    assert target.released is not None
    assert target.source_positions is not None
    if rows == INPUT:
        report = report.with_arguments(rows=INPUT).with_provenance(seed_policy=_NOT_SHUFFLED)
        warn_caller(RowsLinkable(f"{INPUT_ORDER_CAUTION.warning}; {INPUT_ORDER_CAUTION.reason}."))
    released = to_input_type(target.released)
    # Records which row became which, for ``FrameReport.evaluate``.
    alignment = alignment_of(
        table, released, job.quasi_identifiers, target.source_positions, tree_sources
    )
    return released, FrameReport.of(report, alignment)


def _require_text_names(columns_by_role: Mapping[str, Sequence[str]]) -> None:
    """Refuse column names that are not text."""
    for names in columns_by_role.values():
        if isinstance(names, (list, tuple)) and not all(isinstance(name, str) for name in names):
            raise InvalidParameter(
                "The columns of the frame have names that are not text.",
                hint="Name them first: frame.columns = [...]",
            )


def _check_row_order(rows: str, policy: Policy) -> None:
    """Refuse unknown values of ``rows``, and with ``strict`` rows in input order."""
    if rows not in (SHUFFLED, INPUT):
        raise InvalidParameter(f"rows must be {SHUFFLED} or {INPUT}.")
    if rows == INPUT and policy.strict:
        raise RowsLinkableRefused(
            f'With rows="{INPUT}" the released rows would have the order of their originals, and'
            " strict was requested.",
            hint="Take the usual order, which is random, or leave out `strict`.",
        )
