"""Measure the disclosure risk of a source and of a release that exists already.

The figures are for the controller of the data: whoever asks for them may read the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from dbanon.data.extension import load_runner
from dbanon.data.schema import Attribute, Kind, as_identifier
from dbanon.data.words import json_text
from dbanon.errors import DbanonError, InvalidParameter, UnknownOption, nearest_names
from dbanon.job.risk import FIXED_OPTIONS, JobRisk, require_rows_of_persons
from dbanon.measures.figure import Tick, ignore_progress
from dbanon.release.risk_figures import RiskFigures
from dbanon.run.compare_analyses import find_bounds
from dbanon.run.job_runner import RiskRunner, TableRows
from dbanon.sessions.base import Relation
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource, read_rows


def check_risk(options: object) -> JobRisk:
    """Check the options of a measurement one by one; the names of columns are not looked up.

    Parameters
    ----------
    options : values by name, as the key ``risk`` of a job file has them, without file and limits.

    Raises
    ------
    InvalidParameter : they are no mapping, or a value is not allowed.
    UnknownOption : there is no option of this name.
    """
    if not isinstance(options, Mapping):
        raise InvalidParameter(
            "risk must be an object of options.",
            hint='Write {} for the defaults, or options by name, as in {"weight": "…"}.',
        )
    runner: RiskRunner = load_runner("sample_risk")
    known_options = {
        option.name: option for option in runner.options if option.name not in FIXED_OPTIONS
    }
    for name in options:
        if name not in known_options:
            raise UnknownOption(
                f'risk has no option "{name}".', hint=_list_options(str(name), known_options)
            )
    with _hints_with_keys():
        return JobRisk(
            {
                name: known_options[name].check(value, f"risk.{name}")
                for name, value in options.items()
            }
        )


def compare_tables(
    risk: JobRisk,
    sample: TableRows,
    released: TableRows,
    class_columns: Sequence[str],
    design_weight: str | None,
    tick: Tick = ignore_progress,
) -> RiskFigures:
    """Measure the risk of a table and of its release.

    Parameters
    ----------
    sample : the columns that ``risk.columns`` lists.
    released : the columns of the release.
    class_columns, design_weight : the columns of the table with these roles, as in ``JobRisk``.
    tick : called with the share of the work that is done, 0 to 1.

    Raises
    ------
    ColumnNotFound : the release has none of the quasi-identifiers.
    TooFewRecords, UnsupportedType, InvalidParameter : the rows cannot be measured.
    """
    runner: RiskRunner = load_runner("sample_risk")
    options = risk.measure_options(class_columns, design_weight)
    with _hints_with_keys():
        return runner.compare(options, sample, released, tick)


def compare_relations(
    session: Session,
    source: Relation,
    released: Relation,
    risk: JobRisk,
    *,
    class_columns: Sequence[str],
    design_weight: str | None,
    person_column: str | None,
    entity_normalize: str | None,
) -> RiskFigures:
    """Measure the risk of a source and of its release in one database; neither needs a row key.

    Parameters
    ----------
    class_columns : the released columns of quasi-identifiers and strata. Two columns of bounds
        stand for their column in the source.
    design_weight : the column with the design weight; None without one.
    person_column : the column that identifies persons in the source; None if each row is one.
    entity_normalize : how its texts are compared, as in ``Job``.

    Raises
    ------
    InvalidParameter : persons have several rows.
    ColumnNotFound : the source lacks the weight or the persons' column, as it has changed.
    InsufficientRights : a column cannot be read.
    DbanonError : as ``compare_tables``.
    """
    source_names = [attribute.name for attribute in source.schema.attributes]
    released_names = [attribute.name for attribute in released.schema.attributes]
    source_columns = _list_released(source_names, class_columns)
    if person_column is not None:
        person = as_identifier(source.attribute(person_column), entity_normalize)
        _require_rows_of_persons(session, source, person)
    names = risk.columns(tuple(source_columns), design_weight)
    parts = [part for parts in _list_released(names, released_names).values() for part in parts]
    return compare_tables(
        risk,
        _read_table(session, source, names),
        _read_table(session, released, tuple(dict.fromkeys(parts))),
        tuple(source_columns),
        design_weight,
    )


def _list_options(name: str, known_options: Iterable[str]) -> str:
    """List the known options, after those that are most similar to ``name``."""
    suggestion = nearest_names(name, known_options)
    return f"{suggestion or ''} Known options: {', '.join(known_options)}.".strip()


def _require_rows_of_persons(session: Session, source: Relation, person: Attribute) -> None:
    """Check in the database that each person has one row."""
    session.catalog.require_readable(source, [person.name])
    totals = SqlSource(session).count_totals(source, [person], ()).totals
    require_rows_of_persons(totals["rows"], totals["persons"])


def _list_released(
    names: Sequence[str], released_names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the released columns of each column that a release has, or those of its bounds."""
    return {
        name: parts
        for name, parts in find_bounds(names, released_names).items()
        if set(parts) <= set(released_names)
    }


def _read_table(session: Session, relation: Relation, names: Sequence[str]) -> TableRows:
    """Read columns of a relation as texts, in no particular order of its rows."""
    attributes: tuple[Attribute, ...] = tuple(relation.attribute(name) for name in names)
    if not attributes:
        return TableRows(str(relation.name), (), ())
    session.require_typed(names)
    session.catalog.require_readable(relation, names)
    attributes = tuple(session.complete_attributes_from_values(relation, attributes))
    # As floats, large numbers that differ could become equal.
    texts = [replace(attribute, kind=Kind.CATEGORY) for attribute in attributes]
    rows = read_rows(session, relation, texts)
    return TableRows(str(relation.name), attributes, [rows] if rows else ())


@contextmanager
def _hints_with_keys() -> Iterator[None]:
    """Write options in hints as keys of ``risk``, in place of options of the interface."""
    try:
        yield
    except DbanonError as error:
        error.fixed_notation = error.fixed_notation or _write_key
        raise


def _write_key(name: str, value: object) -> str:
    """Write an option as a key of a JSON object; without a value, its name."""
    return f"risk.{name}" if value is None else f'"{name}": {json_text(value)}'
