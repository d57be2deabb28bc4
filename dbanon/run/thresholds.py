"""Take thresholds of coded columns from the data, where a job asks for that by name.

A threshold such as ``p99.5`` becomes a number before the rows are read. It is the percentile of the
rows that the job selects. It is rounded to two significant digits, toward the middle of the column,
so that the tail has at least the share of rows that was asked for. From then on it counts as any
threshold: the tail must have k rows.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from math import isfinite

import numpy as np

from dbanon.errors import InvalidParameter
from dbanon.job.job import Job
from dbanon.sessions.base import Relation
from dbanon.stores.ports import Source

_SIGNIFICANT_DIGITS = 2


def take_thresholds(job: Job, relation: Relation, source: Source) -> Job:
    """Replace the percentiles in ``top`` and ``bottom`` by numbers from the data.

    Raises
    ------
    UnsupportedType : a column does not hold numbers.
    InvalidParameter : a percentile of a column is not a finite number.
    """
    percentiles = job.policy.coding.percentiles
    if not percentiles:
        return job
    top, bottom = (
        {
            **thresholds,
            **{
                name: _take_threshold(job, relation, source, name, percentile, option)
                for name, percentile in percentiles.get(option, {}).items()
            },
        }
        for option, thresholds in (("top", job.policy.top), ("bottom", job.policy.bottom))
    )
    return replace(job, policy=replace(job.policy, top=top, bottom=bottom))


def _take_threshold(
    job: Job, relation: Relation, source: Source, name: str, percentile: str, option: str
) -> float:
    """Return a percentile of a column, rounded.

    Parameters
    ----------
    percentile : as text, such as ``p99.5``.
    option : ``top`` or ``bottom``.
    """
    [attribute] = source.complete_attributes_from_values(relation, [relation.attribute(name)])
    job.policy.coding.require_numbers(attribute)
    value = source.read_quantile(relation, attribute, float(percentile[1:]) / 100)
    if value is not None and attribute.has_single_precision:
        # The number that the text of a real shows, not its binary value.
        value = float(str(np.float32(value)))
    if value is None or not isfinite(value):
        raise InvalidParameter(
            f'Column "{name}" has no finite number, from which `{option}` could take a threshold.',
            hint="Name a number in `top` and `bottom`, or leave the column out of them.",
        )
    rounding = ROUND_FLOOR if option == "top" else ROUND_CEILING
    context = Context(prec=_SIGNIFICANT_DIGITS, rounding=rounding)
    return float(context.create_decimal(repr(value)))
