"""Compare the analyses of readers on a release with the same analyses on its originals.

Both tables are analyzed for themselves; their rows are not paired. The estimates are computed from
the originals: they are for the owner of the data, and never part of a release, a report or a
ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.job import analyses as kinds
from dbanon.job.analyses import Analysis, AnalysisRequest
from dbanon.measures.analyses import classification
from dbanon.measures.analyses.classification import Predictors
from dbanon.measures.analyses.columns import CategoryColumn
from dbanon.measures.analyses.cross_table import (
    build_cross_table,
    count_rare_categories,
    measure_cramers_v,
    measure_total_variation,
)
from dbanon.measures.analyses.estimates import (
    Estimate,
    estimate_correlation,
    estimate_gini,
    estimate_mean,
    estimate_quantiles,
    estimate_total,
    measure_interval_overlap,
)
from dbanon.measures.analyses.regression import RegressionFit, fit_regression
from dbanon.release.analysis_columns import MAX_CATEGORIES, ColumnReader
from dbanon.release.analysis_comparison import (
    AnalysisComparison,
    ComparedAnalysis,
    ComparedEstimate,
)

_TOTAL_VARIATION = "total variation distance"


def compare_analyses(
    request: AnalysisRequest,
    readers: Mapping[str, ColumnReader],
    original_rows: int,
    released_rows: int,
    *,
    seed: int = 0,
) -> AnalysisComparison:
    """Run the analyses on both tables.

    Parameters
    ----------
    readers : by name, each column of the request, in both tables.
    original_rows, released_rows : the numbers of rows of both tables.
    seed : draws the parts of the originals in which a classifier is tested.

    Raises
    ------
    InvalidParameter, UnsupportedType : a column does not fit its analysis.
    """
    original, released = _read_tables(request, readers, (original_rows, released_rows))
    compared = []
    for requested in request.analyses:
        analysis = _spell_event_as_category(requested, readers)
        used = original.select_rows(analysis), released.select_rows(analysis)
        estimates = (
            _compare_classifiers(analysis, *used, seed)
            if analysis.kind == kinds.CLASSIFY
            else _COMPARE_BY_KIND[analysis.kind](analysis, *used)
        )
        compared.append(
            ComparedAnalysis(
                name=requested.name,
                kind=analysis.kind,
                original_rows=len(used[0].weights),
                released_rows=len(used[1].weights),
                estimates=tuple(estimates),
            )
        )
    return AnalysisComparison(original_rows, released_rows, request.weight, tuple(compared))


def _spell_event_as_category(analysis: Analysis, readers: Mapping[str, ColumnReader]) -> Analysis:
    """Return the analysis with its event as categories are written: 2.0 of numbers as ``2``."""
    if analysis.event is None or analysis.column is None:
        return analysis
    return replace(analysis, event=readers[analysis.column].find_category(analysis.event))


@dataclass(frozen=True, eq=False)
class _Table:
    """The columns of one table as its analyses take them.

    Parameters
    ----------
    weights : float64 (n,); 0 for rows that do not count.
    numbers : by name, float64 (n,), NaN where missing.
    categories : by name. A column may be both numbers and categories.
    nominal : columns of numbers that are codes of categories.
    """

    weights: NDArray[np.float64]
    numbers: Mapping[str, NDArray[np.float64]]
    categories: Mapping[str, CategoryColumn]
    nominal: tuple[str, ...] = ()

    def select_rows(self, analysis: Analysis) -> _Table:
        """Select the rows that an analysis uses: with a weight, and without a missing value."""
        is_used = self.weights > 0
        for name in analysis.columns:
            if name in self.numbers:
                is_used &= ~np.isnan(self.numbers[name])
            if name in self.categories:
                is_used &= self.categories[name].valid
        rows = np.flatnonzero(is_used)
        names = set(analysis.columns)
        return _Table(
            self.weights[rows],
            {name: values[rows] for name, values in self.numbers.items() if name in names},
            {name: column.take(rows) for name, column in self.categories.items() if name in names},
            self.nominal,
        )

    def is_number(self, name: str) -> bool:
        """Whether a predictor is used as a number."""
        return name in self.numbers and name not in self.nominal


def _read_tables(
    request: AnalysisRequest, readers: Mapping[str, ColumnReader], n_rows: tuple[int, int]
) -> tuple[_Table, _Table]:
    """Read the columns of both tables in the forms that the analyses need."""
    number_names, category_names = _classify_columns(request, readers)
    numbers: tuple[dict[str, NDArray[np.float64]], ...] = ({}, {})
    categories: tuple[dict[str, CategoryColumn], ...] = ({}, {})
    for name in number_names:
        numbers[0][name], numbers[1][name] = readers[name].read_numbers()
    for name in category_names:
        categories[0][name], categories[1][name] = readers[name].read_categories()
    weights = (np.ones(n_rows[0]), np.ones(n_rows[1]))
    if request.weight is not None:
        if not readers[request.weight].original.are_numbers:
            raise UnsupportedType(
                f'The weight "{request.weight}" does not hold numbers.',
                hint="Name a column of numbers as weight, or leave it out.",
            )
        weights = readers[request.weight].read_numbers()
        if any((values < 0).any() for values in weights):
            raise InvalidParameter(
                f'The weight "{request.weight}" is negative in some rows.',
                hint="Correct these weights, or set them to NULL: such rows do not count.",
            )
        weights = (np.nan_to_num(weights[0]), np.nan_to_num(weights[1]))
    first, second = (
        _Table(weights[i], numbers[i], categories[i], request.nominal) for i in range(2)
    )
    return first, second


def _classify_columns(
    request: AnalysisRequest, readers: Mapping[str, ColumnReader]
) -> tuple[list[str], list[str]]:
    """Return the names of columns that analyses take as numbers, and as categories."""
    number_names: dict[str, None] = {}
    category_names: dict[str, None] = {}
    for analysis in request.analyses:
        if analysis.kind in (kinds.REGRESSION, kinds.CLASSIFY):
            for name in analysis.by:
                is_number = readers[name].original.are_numbers and name not in request.nominal
                (number_names if is_number else category_names)[name] = None
        elif analysis.kind == kinds.CORRELATION:
            number_names |= dict.fromkeys(analysis.by)
        else:
            category_names |= dict.fromkeys(analysis.by)
        if analysis.column is None:
            continue
        is_logistic = analysis.kind == kinds.REGRESSION and analysis.model == kinds.LOGISTIC
        has_categories = analysis.kind == kinds.CLASSIFY or (
            is_logistic
            and (analysis.event is not None or not readers[analysis.column].original.are_numbers)
        )
        (category_names if has_categories else number_names)[analysis.column] = None
    return list(number_names), list(category_names)


def _compare(name: str, estimates: Sequence[Estimate], note: str = "") -> ComparedEstimate:
    """Put two estimates side by side: that of the originals, and that of the release."""
    original, released = estimates
    return ComparedEstimate(
        name,
        original.value,
        released.value,
        original.error,
        released.error,
        measure_interval_overlap(original, released),
        note=note,
    )


def _compare_groups(
    analysis: Analysis, original: _Table, released: _Table
) -> Iterator[ComparedEstimate]:
    """Compare a mean or total, of all rows or by group."""
    assert analysis.column is not None
    column = analysis.column
    estimate = estimate_mean if analysis.kind == kinds.MEAN else estimate_total
    if not analysis.by:
        yield _compare(
            "",
            [estimate(table.numbers[column], table.weights) for table in (original, released)],
        )
        return
    label_lists = [original.categories[name].labels for name in analysis.by]
    if np.prod([len(labels) for labels in label_lists]) > MAX_CATEGORIES:
        raise InvalidParameter(
            f"The {analysis.name_without_values} has more than {MAX_CATEGORIES} groups.",
            hint="Use columns with fewer values, or fewer columns.",
        )
    for indexes in product(*(range(len(labels)) for labels in label_lists)):
        name = ", ".join(
            f"{by} = {labels[index]}"
            for by, labels, index in zip(analysis.by, label_lists, indexes, strict=True)
        )
        estimates = []
        for table in (original, released):
            shares = np.ones(len(table.weights))
            for by, index in zip(analysis.by, indexes, strict=True):
                shares *= table.categories[by].share_of(index)
            is_present = bool((shares > 0).any())
            estimates.append(
                estimate(table.numbers[column], table.weights, shares)
                if is_present
                else Estimate(None)
            )
        absent = [
            table
            for table, each in zip(("originals", "release"), estimates, strict=True)
            if each.value is None
        ]
        if len(absent) < 2:
            yield _compare(name, estimates, note=f"no row in the {absent[0]}" if absent else "")


def _compare_quantiles(
    analysis: Analysis, original: _Table, released: _Table
) -> Iterator[ComparedEstimate]:
    assert analysis.column is not None
    column, probabilities = analysis.column, analysis.probabilities
    for probability, of_originals, of_release in zip(
        probabilities,
        estimate_quantiles(original.numbers[column], original.weights, probabilities),
        estimate_quantiles(released.numbers[column], released.weights, probabilities),
        strict=True,
    ):
        yield _compare(f"p = {probability:g}", [of_originals, of_release])


def _compare_gini(
    analysis: Analysis, original: _Table, released: _Table
) -> Iterator[ComparedEstimate]:
    assert analysis.column is not None
    estimates = [
        estimate_gini(table.numbers[analysis.column], table.weights)
        for table in (original, released)
    ]
    is_undefined = any(estimate.value is None for estimate in estimates)
    note = "values must be 0 or more, and not all 0" if is_undefined else ""
    yield _compare("", estimates, note=note)


def _compare_correlations(
    analysis: Analysis, original: _Table, released: _Table
) -> Iterator[ComparedEstimate]:
    for first, second in combinations(analysis.by, 2):
        estimates = [
            estimate_correlation(table.numbers[first], table.numbers[second], table.weights)
            for table in (original, released)
        ]
        is_undefined = any(estimate.value is None for estimate in estimates)
        note = "a column has a single value" if is_undefined else ""
        yield _compare(f"{first}, {second}", estimates, note=note)


def _compare_rare_categories(
    analysis: Analysis, original: _Table, released: _Table
) -> Iterator[ComparedEstimate]:
    """Compare how many rare categories there are, and their shares."""
    [name] = analysis.by
    weights = [table.categories[name].weigh(table.weights) for table in (original, released)]
    if not min(each.sum() for each in weights) > 0:
        yield ComparedEstimate("categories", original=None, released=None, note="no rows")
        return
    n_rare, n_left, error = count_rare_categories(weights[0], weights[1], analysis.below)
    yield _compare("categories", [Estimate(n_rare), Estimate(n_left)])
    yield ComparedEstimate(
        "mean relative error of their shares",
        original=None,
        released=None,
        distance=error,
        note="no category is rare" if error is None else "",
    )


def _compare_cross_tables(
    analysis: Analysis, original: _Table, released: _Table
) -> Iterator[ComparedEstimate]:
    tables = [
        build_cross_table([table.categories[name] for name in analysis.by], table.weights)
        for table in (original, released)
    ]
    distance = measure_total_variation(tables[0], tables[1])
    yield ComparedEstimate(
        _TOTAL_VARIATION,
        original=None,
        released=None,
        distance=distance,
        note="no rows" if distance is None else "",
    )
    if len(analysis.by) == 2:
        estimates = [Estimate(measure_cramers_v(table)) for table in tables]
        is_undefined = any(estimate.value is None for estimate in estimates)
        note = "a column has a single value" if is_undefined else ""
        yield _compare("Cramér's V", estimates, note=note)


def _compare_regressions(
    analysis: Analysis, original: _Table, released: _Table
) -> Iterator[ComparedEstimate]:
    """Compare coefficients. The base category of a column is the most frequent original one."""
    is_logistic = analysis.model == kinds.LOGISTIC
    names, terms = ["(intercept)"], []
    for by in analysis.by:
        if original.is_number(by):
            names.append(by)
            terms.append((by, -1))
            continue
        column = original.categories[by]
        base = int(np.argmax(column.weigh(original.weights))) if column.labels else -1
        for index, label in enumerate(column.labels):
            if index != base:
                names.append(f"{by} = {label}")
                terms.append((by, index))
    if len(names) > MAX_CATEGORIES:
        raise InvalidParameter(
            f"The {analysis.name_without_values} has {len(names)} coefficients, more than"
            f" {MAX_CATEGORIES}.",
            hint="Use columns with fewer values, or fewer columns.",
        )
    event = _find_event(analysis, original) if is_logistic else None
    fits: list[RegressionFit] = []
    for table in (original, released):
        design = np.column_stack(
            [
                np.ones(len(table.weights)),
                *(
                    table.numbers[by] if index < 0 else table.categories[by].share_of(index)
                    for by, index in terms
                ),
            ]
        )
        outcome = _read_outcome(analysis, table, event)
        fits.append(fit_regression(design, outcome, table.weights, is_logistic=is_logistic))
    for position, name in enumerate(names):
        estimates = [fit.coefficients[position] for fit in fits]
        yield _compare(name, estimates, note=_describe_missing(fits, estimates))


def _describe_missing(fits: Sequence[RegressionFit], estimates: Sequence[Estimate]) -> str:
    """Describe why a coefficient has no estimate; empty if it has both."""
    reasons = [
        f"{table}: {'not determined by the rows' if fit.converged else 'no finite solution'}"
        for table, fit, estimate in zip(("original", "release"), fits, estimates, strict=True)
        if estimate.value is None
    ]
    return "; ".join(reasons)


def _find_event(analysis: Analysis, original: _Table) -> int | None:
    """Return the index of the category whose probability is explained; None for numbers."""
    assert analysis.column is not None
    column = original.categories.get(analysis.column) if _has_event(analysis, original) else None
    if column is None:
        return None
    if analysis.event is not None:
        if analysis.event not in column.labels:
            raise InvalidParameter(
                f'Column "{analysis.column}" does not hold the event of the {analysis.model}'
                " regression.",
                hint="Write event as the value is written in the column.",
            )
        return column.labels.index(analysis.event)
    if len(column.labels) != 2:
        raise InvalidParameter(
            f'Column "{analysis.column}" has {len(column.labels)} values; a logistic regression'
            " explains one of two.",
            hint='Name the value that it explains among the analyses, as in event: "yes".',
        )
    return 1


def _has_event(analysis: Analysis, table: _Table) -> bool:
    """Whether the outcome of a logistic regression is a category, and not a number."""
    return analysis.event is not None or analysis.column not in table.numbers


def _read_outcome(analysis: Analysis, table: _Table, event: int | None) -> NDArray[np.float64]:
    """Return the outcome of a regression, float64 (n,)."""
    assert analysis.column is not None
    if event is not None:
        return table.categories[analysis.column].share_of(event)
    outcome = table.numbers[analysis.column]
    if (
        analysis.model == kinds.LOGISTIC
        and len(outcome)
        and not 0 <= outcome.min() <= outcome.max() <= 1
    ):
        raise UnsupportedType(
            f'Column "{analysis.column}" holds numbers other than 0 and 1.',
            hint="Name the value whose probability it explains among the analyses, as in"
            ' event: "2".',
        )
    return outcome


def _compare_classifiers(
    analysis: Analysis, original: _Table, released: _Table, seed: int
) -> Iterator[ComparedEstimate]:
    """Compare a classifier that is trained on the release with one trained on originals.

    Both are tested on the same originals, in parts that are drawn at random. That of originals is
    trained on the other parts. That of the release has seen the tested persons, as no release
    without them can be made of it; so there is also one of originals that has seen them.
    """
    assert analysis.column is not None
    target = original.categories[analysis.column]
    n = len(original.weights)
    # Each original is of a single class. Without originals, there may be no class.
    actual = np.argmax(target.all_shares(), axis=1) if n else np.zeros(0, np.int64)
    predictors = _build_predictors(analysis, original)
    validated = _cross_validate(predictors, target, original.weights, analysis.folds, seed)
    seen, of_release = (
        None if classifier is None or not n else classifier.predict(predictors)
        for classifier in (
            classification.train(
                _build_predictors(analysis, table), table.categories[analysis.column], table.weights
            )
            for table in (original, released)
        )
    )
    majority = target.weigh(original.weights).max() / original.weights.sum() if n else None
    majority_note = "" if majority is None else f"the most frequent class alone: {majority:.6g}"
    measures: tuple[tuple[str, Callable[..., float], NDArray[np.int64] | None, str], ...] = (
        ("accuracy", classification.measure_accuracy, validated, majority_note),
        ("balanced accuracy", classification.measure_balanced_accuracy, validated, ""),
        (
            "accuracy, persons seen",
            classification.measure_accuracy,
            seen,
            "both trained on the persons that are tested",
        ),
    )
    for name, measure, of_originals, note in measures:
        yield _compare(
            name,
            [
                Estimate(None if each is None else measure(each, actual, original.weights))
                for each in (of_originals, of_release)
            ],
            note=note,
        )


def _cross_validate(
    predictors: Predictors,
    target: CategoryColumn,
    weights: NDArray[np.float64],
    n_folds: int,
    seed: int,
) -> NDArray[np.int64] | None:
    """Predict the class of each row from the rows of other folds, int64 (n,); None below 2 rows."""
    n = len(weights)
    if n < 2:
        return None
    predicted = np.empty(n, np.int64)
    for fold in classification.draw_folds(n, n_folds, seed):
        others = np.setdiff1d(np.arange(n), fold, assume_unique=True)
        classifier = classification.train(
            predictors.take(others), target.take(others), weights[others]
        )
        assert classifier is not None
        predicted[fold] = classifier.predict(predictors.take(fold))
    return predicted


def _build_predictors(analysis: Analysis, table: _Table) -> Predictors:
    """Return the predictors of a classifier in one table."""
    return Predictors(
        tuple(table.numbers[name] for name in analysis.by if table.is_number(name)),
        tuple(table.categories[name] for name in analysis.by if not table.is_number(name)),
    )


_COMPARE_BY_KIND: Mapping[str, Callable[[Analysis, _Table, _Table], Iterator[ComparedEstimate]]] = {
    kinds.MEAN: _compare_groups,
    kinds.TOTAL: _compare_groups,
    kinds.QUANTILES: _compare_quantiles,
    kinds.GINI: _compare_gini,
    kinds.CORRELATION: _compare_correlations,
    kinds.TABLE: _compare_cross_tables,
    kinds.RARE: _compare_rare_categories,
    kinds.REGRESSION: _compare_regressions,
}
