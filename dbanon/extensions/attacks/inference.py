"""attribute_inference: the nearest released row reveals a person's value in a column.

The attacker knows all columns of a person except one. They find the nearest row by the known
columns, and guess that the person has this row's value in the secret column. A guess is right if it
is a label or interval that covers the person's value, or a number close enough. Random guesses use
the value of a random row, so a label that covers all values is no risk.

Source: Giomi et al. 2023, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.attacks.rates import NO_GUESSES, AttackResult, Rate
from dbanon.extensions.attacks.task import TIE_TOLERANCE, AttackData, Ints, distances_with_nulls
from dbanon.measures.attributes import Numbers

NAME = "attribute_inference"
SUMMARY = "The nearest released row reveals a column of a person whose other columns are known"
ONE_COLUMN_NOTE = "there is only one column, and no other to infer it from"

# Two arrays: the record of each guess, int64 (g,), and True for right guesses, bool (g,).
Guesses: TypeAlias = "tuple[Ints, NDArray[np.bool_]]"


def attack(data: AttackData) -> AttackResult:
    """Guess each column of sampled records; ``columns`` of the result has one result per column."""
    p = len(data.columns)
    if p < 2:
        return AttackResult(NO_GUESSES, NO_GUESSES, note=ONE_COLUMN_NOTE)
    result_by_column = {}
    # By secret column: guesses about originals, random guesses, and guesses about control records.
    attack_guesses: list[Guesses] = []
    random_guesses: list[Guesses] = []
    control_guesses: list[Guesses] = []
    for secret_index, column in enumerate(data.columns):
        rng = data.rng(f"{NAME} {secret_index}")
        known_columns = [index for index in range(p) if index != secret_index]
        targets = data.sample_targets(rng)
        tolerance = _guess_tolerance(data, secret_index)
        # Without control records there is only one array of targets.
        for records, guesses in zip(targets, (attack_guesses, control_guesses), strict=False):
            rows, _ = data.find_nearest_rows(records, known_columns, rng)
            guesses.append((records, _is_right(data, secret_index, records, rows, tolerance)))
            data.tick(secret_index / p)
        random_rows = data.draw_rows(rng, len(targets[0]))
        is_right = _is_right(data, secret_index, targets[0], random_rows, tolerance)
        random_guesses.append((targets[0], is_right))
        result_by_column[column.name] = AttackResult(
            _rate(attack_guesses[-1:]),
            _rate(random_guesses[-1:]),
            _rate(control_guesses[-1:]) if control_guesses else None,
        )
    return AttackResult(
        _rate(attack_guesses),
        _rate(random_guesses),
        _rate(control_guesses) if control_guesses else None,
        result_by_column,
    )


def _rate(guesses: Sequence[Guesses]) -> Rate:
    """Compute the rate of right guesses over several columns."""
    records, is_right = zip(*guesses, strict=True)
    return Rate.of_records(np.concatenate(records), np.concatenate(is_right))


def _guess_tolerance(data: AttackData, secret_index: int) -> float:
    """Return the distance up to which a guess is right.

    For labels and intervals it only allows for rounding errors.

    Parameters
    ----------
    secret_index : index of the guessed column.
    """
    column = data.columns[secret_index]
    if not isinstance(column, Numbers) or column.is_ordinal:
        return TIE_TOLERANCE
    # The first ``n_members`` records are the originals; control records follow.
    coordinates = column.coordinates[: data.n_members]
    if column.original_nulls is not None:
        coordinates = coordinates[~column.original_nulls[: data.n_members]]
    low, high = np.quantile(coordinates, [0.05, 0.95]) if len(coordinates) else (0.0, 0.0)
    return float(data.tolerance * (high - low)) + TIE_TOLERANCE


def _is_right(
    data: AttackData, secret_index: int, records: Ints, rows: Ints, tolerance: float
) -> NDArray[np.bool_]:
    """Return bool (g,), True if the row's value is a right guess of the record's secret column.

    Parameters
    ----------
    secret_index : index of the guessed column.
    records : int64 (g,), the record of each guess.
    rows : int64 (g,), the released row of each guess.
    tolerance : the distance up to which a guess is right.
    """
    distances = distances_with_nulls(data.columns[secret_index], records, rows)
    return np.asarray(distances <= tolerance)
