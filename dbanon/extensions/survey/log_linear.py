"""Risk of sample uniques by a Poisson log-linear model of their cells.

The cells of the table of all keys have independent Poisson frequencies. With a sampling fraction π,
the sample frequency of a cell has the mean μ, which a log-linear model describes. The persons in
the cell who are not in the sample are Poisson, too, with the mean m = μ (1 - π) / π. Hence for a
record that is unique in the sample

    P(F = 1 | f = 1) = exp(-m),    E(1/F | f = 1) = (1 - exp(-m)) / m

Two models are fitted: main effects only, which is the independence of all keys, and all two-way
interactions. Main effects have a closed form. Interactions are fitted by iterative proportional
fitting: the table is scaled to the sample's margins of each pair of keys in turn. Only cells whose
margins are all above 0 can have a mean above 0, so no other cells are stored.

Both models can be wrong. If keys depend on each other, main effects mostly overestimate the risk.
Two-way interactions fit the sample's chance frequencies if there are few records per parameter, and
then **underestimate** the risk. In simulations with true two-way interactions (tests/unit/survey),
the number of population uniques was off by -56 % on average with 4 records per
parameter, by -11 % and -13 % with 18 and 37, and by less than 4 % with 55, 185 and 550.
The source compares models by how well
they fit.

Source: C. Skinner and N. Shlomo, "Assessing identification risk in survey microdata using
log-linear models", JASA 103 (2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidParameter
from dbanon.extensions.survey.frequencies import require_codes
from dbanon.extensions.survey.population_uniqueness import require_population_size
from dbanon.measures.agreement import Codes, Floats, Ints, combine_codes

Model = Literal["main_effects", "two_way"]

# The maximum number of cells for which two-way interactions are fitted, in about a minute.
_MAX_CELLS = 2**21
# Fitting stops when margins deviate by at most this many records, or after this many rounds. It is
# slow only where the model gives possible cells a mean of 0.
_MAX_DEVIATION, _MAX_ROUNDS = 0.01, 200


@dataclass(frozen=True, eq=False)
class SampleUniques:
    """The records that are unique in the sample, and their risk.

    Parameters
    ----------
    records : int64 (u,), indices of the records, ascending.
    means : float64 (u,), expected sample frequency of each record's cell, μ.
    population_unique : float64 (u,), probability that the record is unique in the population.
    match_probabilities : float64 (u,), expected probability of a right match, E(1/F | f = 1).
    deviation : largest difference between a margin of the sample and of the fitted table, in
        records.
    records_per_parameter : number of records in the sample per parameter of the model.
    """

    records: Ints
    means: Floats
    population_unique: Floats
    match_probabilities: Floats
    deviation: float
    records_per_parameter: float

    @property
    def expected_population_uniques(self) -> float:
        """Expected number of sample uniques that are unique in the population."""
        return float(self.population_unique.sum())

    @property
    def expected_matches(self) -> float:
        """Expected number of right matches if each sample unique is matched at random."""
        return float(self.match_probabilities.sum())

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the number of population uniques among sample uniques.

        It is that of independent cells with the fitted means. The error of the fit is not included.
        """
        return math.sqrt(float((self.population_unique * (1 - self.population_unique)).sum()))


def assess_sample_uniques(
    codes: Codes, population_size: float, *, model: Model = "main_effects"
) -> SampleUniques:
    """Estimate the risk of all records that are unique in the sample.

    Parameters
    ----------
    codes : int32 (n, m), the codes of the m keys, from 0. A missing code, -1, is a code of its own.
    population_size : number of persons in the population, n or more.
    model : ``main_effects`` or ``two_way``, the log-linear model.

    Raises
    ------
    InvalidParameter : an argument has the wrong type, shape or range, or two-way interactions have
        too many cells.
    TooFewRecords : there are no records.
    """
    require_codes(codes)
    require_population_size(population_size, len(codes))
    if model not in get_args(Model):
        raise InvalidParameter(
            "model must be main_effects or two_way.", hint="Choose main effects."
        )
    levels = np.column_stack(
        [np.unique(key, return_inverse=True)[1].astype(np.int32) for key in codes.T]
    )
    cell_ids = combine_codes(levels.T)
    _, first_records, counts = np.unique(cell_ids, return_index=True, return_counts=True)
    records = np.sort(first_records[counts == 1]).astype(np.int64)
    if model == "main_effects":
        means, deviation = _main_effects(levels, records), 0.0
    else:
        cells = _list_possible_cells(levels)
        table, deviation = _fit_two_way(levels, cells)
        means = _select_cells(cells, table, levels[records])
    ratio = (population_size - len(codes)) / len(codes)
    unsampled = means * ratio
    match_probabilities = np.ones(len(records))
    np.divide(-np.expm1(-unsampled), unsampled, out=match_probabilities, where=unsampled > 0)
    return SampleUniques(
        records,
        means,
        np.exp(-unsampled),
        match_probabilities,
        deviation,
        len(codes) / _count_parameters(levels, model),
    )


def _count_parameters(levels: Codes, model: Model) -> int:
    """Count the parameters of a model.

    Parameters
    ----------
    levels : int32 (n, m), the level of each record in each key, from 0.
    """
    n_effects = [int(key_levels.max()) for key_levels in levels.T]
    n_parameters = 1 + sum(n_effects)
    if model == "two_way":
        n_parameters += sum(first * second for first, second in combinations(n_effects, 2))
    return n_parameters


def _main_effects(levels: Codes, records: Ints) -> Floats:
    """Compute the expected frequency of some records' cells if all keys are independent.

    Returns float64 (u,).

    Parameters
    ----------
    levels : int32 (n, m), the level of each record in each key, from 0.
    records : int64 (u,), indices of the records.
    """
    n = len(levels)
    means = np.full(len(records), float(n))
    for key_levels in levels.T:
        means *= np.bincount(key_levels)[key_levels[records]] / n
    return means


def _list_possible_cells(levels: Codes) -> Codes:
    """List the cells whose pairs of levels all occur in the sample, int32 (m, c).

    Parameters
    ----------
    levels : int32 (n, m), the level of each record in each key, from 0.

    Raises
    ------
    InvalidParameter : there are more than the maximum number of cells.
    """
    n_levels = levels.max(axis=0) + 1
    cells = np.arange(n_levels[0], dtype=np.int32)[None, :]
    for j in range(1, levels.shape[1]):
        n_keys, n_cells = cells.shape
        if n_cells * int(n_levels[j]) > 8 * _MAX_CELLS:
            raise _too_many_cells_error()
        cells = np.repeat(cells, n_levels[j], axis=1)
        new_key = np.tile(np.arange(n_levels[j], dtype=np.int32), n_cells)
        is_possible = np.ones(cells.shape[1], np.bool_)
        for i in range(n_keys):
            occurs = np.zeros((n_levels[i], n_levels[j]), np.bool_)
            occurs[levels[:, i], levels[:, j]] = True
            is_possible &= occurs[cells[i], new_key]
        cells = np.vstack([cells, new_key])[:, is_possible]
        if cells.shape[1] > _MAX_CELLS:
            raise _too_many_cells_error()
    return cells


def _too_many_cells_error() -> InvalidParameter:
    return InvalidParameter(
        f"The table of all keys has more than {_MAX_CELLS} possible cells.",
        hint="Choose main effects (`log_linear`), or columns with fewer values.",
    )


def _fit_two_way(levels: Codes, cells: Codes) -> tuple[Floats, float]:
    """Fit the frequencies of cells to the sample's margins of all pairs of keys.

    Returns the expected frequency of each cell, float64 (c,), and the largest deviation of a
    margin, in records.

    Parameters
    ----------
    levels : int32 (n, m), the level of each record in each key, from 0.
    cells : int32 (m, c), the levels of each cell.
    """
    m = levels.shape[1]
    if m == 1:
        return np.bincount(levels[:, 0]).astype(np.float64), 0.0
    widths = (levels.max(axis=0) + 1).astype(np.int64)
    table = np.ones(cells.shape[1])
    deviation = math.inf
    n_rounds = 0
    while deviation > _MAX_DEVIATION and n_rounds < _MAX_ROUNDS:
        deviation = 0.0
        n_rounds += 1
        for i, j in combinations(range(m), 2):
            margin_ids = cells[i] * widths[j] + cells[j]
            n_margins = int(widths[i] * widths[j])
            observed = np.bincount(levels[:, i] * widths[j] + levels[:, j], minlength=n_margins)
            fitted = np.bincount(margin_ids, table, minlength=n_margins)
            if n_rounds > 1:
                deviation = max(deviation, float(np.abs(observed - fitted).max()))
            # A pair that occurs in the sample has a record, whose cell is listed.
            factors = np.divide(observed, fitted, out=np.zeros(n_margins), where=fitted > 0)
            table *= factors[margin_ids]
        if n_rounds == 1:
            deviation = math.inf
    return table, deviation


def _select_cells(cells: Codes, values: Floats, levels: Codes) -> Floats:
    """Select the values of the cells of some records, float64 (u,).

    Parameters
    ----------
    cells : int32 (m, c), the levels of each cell; every record's cell is among them.
    values : float64 (c,), the value of each cell.
    levels : int32 (u, m), the levels of each record.
    """
    ids = combine_codes(np.concatenate([cells, levels.T], axis=1))
    cell_of_id: NDArray[np.int64] = np.zeros(int(ids.max(initial=-1)) + 1, np.int64)
    cell_of_id[ids[: cells.shape[1]]] = np.arange(cells.shape[1])
    return values[cell_of_id[ids[cells.shape[1] :]]]
