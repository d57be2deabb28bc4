"""Reads files of analyses: what the readers of a release will compute from it.

The file is YAML as job files are, with the same errors: all problems at once, each with its line
and its key, and no value. Python callers may also pass the same content as a list or dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from dbanon.doors.jobfile.document import Document, read_document
from dbanon.doors.jobfile.field_types import ColumnName, StrictModel, validation_error
from dbanon.doors.jobfile.problems import record_missing_values, record_validation_errors
from dbanon.errors import AnalysesInvalid
from dbanon.job import analyses as kinds
from dbanon.job.analyses import Analysis, AnalysisRequest

# The most columns of a cross table.
_MAX_TABLE_COLUMNS = 2
_MIN_CORRELATION_COLUMNS = 2
_MAX_FOLDS = 100


def _check_names(value: object) -> tuple[str, ...]:
    """Check one column name or a list of different ones."""
    names = value if isinstance(value, (list, tuple)) else [value]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise validation_error("must be a column, or a list of columns")
    if len(set(names)) < len(names):
        raise validation_error("names a column twice")
    return tuple(map(str, names))


def _check_table(value: object) -> tuple[str, ...]:
    names = _check_names(value)
    if len(names) > _MAX_TABLE_COLUMNS:
        raise validation_error("must be one column or two")
    return names


def _check_correlation(value: object) -> tuple[str, ...]:
    names = _check_names(value)
    if len(names) < _MIN_CORRELATION_COLUMNS:
        raise validation_error("must be two columns or more")
    return names


def _check_probabilities(value: object) -> tuple[float, ...]:
    numbers = value if isinstance(value, (list, tuple)) else [value]
    probabilities = tuple(
        number for number in numbers if isinstance(number, float) and 0 < number < 1
    )
    if not probabilities or len(probabilities) < len(numbers):
        raise validation_error("must be numbers between 0 and 1, as in [0.1, 0.5, 0.9]")
    return probabilities


def _check_share(value: float) -> float:
    if not 0 < value < 1:
        raise validation_error("must be a number between 0 and 1, as in 0.01")
    return value


def _check_event(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        raise validation_error("must be a value of the column, as a text or a number")
    return str(value)


_Names = Annotated[Any, AfterValidator(_check_names)]


class _AnalysisSpec(StrictModel):
    """The base of analyses. The key that names the kind has the column."""

    def to_analysis(self) -> Analysis:
        """Return the analysis."""
        raise NotImplementedError


class _GroupedSpec(_AnalysisSpec):
    """The base of analyses that can be made by group."""

    by: _Names = ()


class MeanSpec(_GroupedSpec):
    """The mean of a column, of all rows or by group."""

    mean: ColumnName

    def to_analysis(self) -> Analysis:
        return Analysis(kinds.MEAN, self.mean, self.by)


class TotalSpec(_GroupedSpec):
    """The sum of weight times value of a column, of all rows or by group."""

    total: ColumnName

    def to_analysis(self) -> Analysis:
        return Analysis(kinds.TOTAL, self.total, self.by)


class QuantilesSpec(_AnalysisSpec):
    """Quantiles of a column."""

    quantiles: ColumnName
    probabilities: Annotated[Any, AfterValidator(_check_probabilities)] = (
        kinds.DEFAULT_PROBABILITIES
    )

    def to_analysis(self) -> Analysis:
        return Analysis(kinds.QUANTILES, self.quantiles, probabilities=self.probabilities)


class GiniSpec(_AnalysisSpec):
    """The Gini coefficient of a column."""

    gini: ColumnName

    def to_analysis(self) -> Analysis:
        return Analysis(kinds.GINI, self.gini)


class CorrelationSpec(_AnalysisSpec):
    """The correlations of columns of numbers, of each two of them."""

    correlation: Annotated[Any, AfterValidator(_check_correlation)]

    def to_analysis(self) -> Analysis:
        return Analysis(kinds.CORRELATION, by=self.correlation)


class TableSpec(_AnalysisSpec):
    """The distribution of a column, or the cross table of two."""

    table: Annotated[Any, AfterValidator(_check_table)]

    def to_analysis(self) -> Analysis:
        return Analysis(kinds.TABLE, by=self.table)


class RareSpec(_AnalysisSpec):
    """What becomes of the rare categories of a column."""

    rare: ColumnName
    below: Annotated[float, AfterValidator(_check_share)] = kinds.DEFAULT_RARE_SHARE

    def to_analysis(self) -> Analysis:
        return Analysis(kinds.RARE, by=(self.rare,), below=self.below)


class RegressionSpec(_AnalysisSpec):
    """A linear or logistic regression."""

    regression: ColumnName
    on: _Names
    model: kinds.RegressionModel = kinds.LINEAR
    event: Annotated[Any, AfterValidator(_check_event)] = None

    @model_validator(mode="after")
    def _check_regression(self) -> RegressionSpec:
        if self.regression in self.on:
            raise validation_error("explains a column by itself: name it only once")
        if self.event is not None and self.model != kinds.LOGISTIC:
            raise validation_error("event needs model: logistic")
        return self

    def to_analysis(self) -> Analysis:
        return Analysis(
            kinds.REGRESSION, self.regression, self.on, model=self.model, event=self.event
        )


class ClassifySpec(_AnalysisSpec):
    """A classifier that is trained on each table, and tested on originals."""

    classify: ColumnName
    by: _Names
    folds: Annotated[int, Field(ge=2, le=_MAX_FOLDS)] = kinds.DEFAULT_FOLDS

    @model_validator(mode="after")
    def _check_columns(self) -> ClassifySpec:
        if self.classify in self.by:
            raise validation_error("predicts a column by itself: name it only once")
        return self

    def to_analysis(self) -> Analysis:
        return Analysis(kinds.CLASSIFY, self.classify, self.by, folds=self.folds)


# By the key that names the kind.
ANALYSIS_MODELS: Mapping[str, type[_AnalysisSpec]] = {
    kinds.MEAN: MeanSpec,
    kinds.TOTAL: TotalSpec,
    kinds.QUANTILES: QuantilesSpec,
    kinds.GINI: GiniSpec,
    kinds.CORRELATION: CorrelationSpec,
    kinds.TABLE: TableSpec,
    kinds.RARE: RareSpec,
    kinds.REGRESSION: RegressionSpec,
    kinds.CLASSIFY: ClassifySpec,
}


def _find_kind(value: object) -> str | None:
    """Return the tag of an analysis's model; None unless exactly one key names a kind.

    Problems are located by keys. A tag is not a key, so that it is left out of the location.
    """
    named = [kind for kind in ANALYSIS_MODELS if isinstance(value, dict) and kind in value]
    return f"({named[0]})" if len(named) == 1 else None


_AnyAnalysis = Annotated[
    Annotated[MeanSpec, Tag("(mean)")]
    | Annotated[TotalSpec, Tag("(total)")]
    | Annotated[QuantilesSpec, Tag("(quantiles)")]
    | Annotated[GiniSpec, Tag("(gini)")]
    | Annotated[CorrelationSpec, Tag("(correlation)")]
    | Annotated[TableSpec, Tag("(table)")]
    | Annotated[RareSpec, Tag("(rare)")]
    | Annotated[RegressionSpec, Tag("(regression)")]
    | Annotated[ClassifySpec, Tag("(classify)")],
    Discriminator(
        _find_kind,
        custom_error_type="refused",
        custom_error_message="{text}",
        custom_error_context={"text": "must have exactly one of " + ", ".join(ANALYSIS_MODELS)},
    ),
]


class AnalysesSpec(StrictModel):
    """The content of a file of analyses."""

    analyses: Annotated[list[_AnyAnalysis], Field(min_length=1)]
    weight: ColumnName | None = None
    # Columns of numbers that are codes of categories.
    nominal: _Names = ()

    @model_validator(mode="after")
    def _check_nominal(self) -> AnalysesSpec:
        used = {name for spec in self.analyses for name in spec.to_analysis().columns}
        if not used.issuperset(self.nominal):
            raise validation_error("nominal names a column that is in no analysis")
        return self

    def to_request(self) -> AnalysisRequest:
        """Return the request."""
        return AnalysisRequest(
            tuple(spec.to_analysis() for spec in self.analyses), self.weight, self.nominal
        )


def read_analyses(source: object) -> AnalysisRequest:
    """Read and check analyses.

    Parameters
    ----------
    source : the path of a file, or its content: a list of analyses, or a dict with the keys
        ``analyses``, ``weight`` and ``nominal``.

    Raises
    ------
    AnalysesInvalid : lists all problems, each with its line and key.
    """
    if isinstance(source, (str, PathLike)):
        document = read_document(Path(fspath(source)), AnalysesInvalid)
    else:
        # Problems of values that are in no file are all on its first line.
        document = Document(
            Path("in Python"), _to_plain_values(source), error_class=AnalysesInvalid
        )
    if isinstance(document.content, list):
        # A list stands for its key; lines of problems are those of the list's items.
        document.lines = {("analyses", *path): line for path, line in document.lines.items()}
        document.content = {"analyses": document.content}
    if not isinstance(document.content, dict):
        if not document.problems:
            document.add_problem((), "must be a list of analyses, or keys with values: analyses")
        document.require_no_problems()
    record_missing_values(document)
    try:
        spec = AnalysesSpec.model_validate(document.content)
    except ValidationError as error:
        record_validation_errors(document, error, _find_allowed_keys)
        document.require_no_problems()
        raise
    document.require_no_problems()
    return spec.to_request()


def _find_allowed_keys(document: Document, path: Sequence[str | int]) -> list[str]:
    """Return the keys that are allowed at a path."""
    model: type[StrictModel] = AnalysesSpec
    if len(path) == 2:
        value = document.content[path[0]][path[1]]
        model = next(model for kind, model in ANALYSIS_MODELS.items() if kind in value)
    return list(model.model_fields)


def _to_plain_values(value: object) -> object:
    """Convert tuples and mappings of Python callers to the lists and dicts that files have."""
    if isinstance(value, Mapping):
        return {str(key): _to_plain_values(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain_values(child) for child in value]
    return value
