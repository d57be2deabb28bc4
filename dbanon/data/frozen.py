"""Measures that later rows are measured by: as plain values, and new rows put to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from dbanon.data.measures import Distribution, Measures
from dbanon.data.microdata import Microdata
from dbanon.data.scales import Scale, Whitening
from dbanon.errors import ChainChanged


def to_plain(measures: Measures) -> dict[str, Any]:
    """Scales, dictionaries and whitenings as plain values; not the shares of sensitive columns."""
    return {
        "numbers": {name: asdict(scale) for name, scale in measures.numbers.items()},
        "categories": {
            name: {"values": list(known.values), "counts": known.counts.tolist()}
            for name, known in measures.categories.items()
        },
        "whitenings": [
            {"present": list(present), "factor": found.factor.tolist()}
            for present, found in measures.whitenings.items()
        ],
    }


def of_plain(plain: Mapping[str, Any]) -> Measures:
    """The measures that ``to_plain`` told."""
    return Measures(
        {name: Scale(**scale) for name, scale in plain["numbers"].items()},
        {
            name: Distribution(np.array(known["counts"], np.int64), tuple(known["values"]))
            for name, known in plain["categories"].items()
        },
        {},
        {
            tuple(one["present"]): Whitening(np.array(one["factor"], np.float64))
            for one in plain["whitenings"]
        },
    )


def as_part(
    microdata: Microdata, measures: Measures, with_trees: Collection[str]
) -> tuple[Microdata, Measures]:
    """Records as a part of the table that was measured: with the codes of its dictionaries.

    Sensitive columns are measured by these records alone: models that may be kept to here look at
    classes, and at nothing else.

    Parameters
    ----------
    with_trees : columns with a hierarchy, which may have leaves that the table did not hold.

    Raises
    ------
    ChainChanged : a column without one holds a value that the table did not.
    """
    codes, categories = microdata.codes.copy(), []
    known = dict(measures.categories)
    for place, attribute in enumerate(microdata.categorical):
        values, name = microdata.categories[place], attribute.name
        before = known[name]
        new = sorted(set(values) - set(before.values))
        if new and name not in with_trees:
            raise ChainChanged(
                f'Column "{name}" holds {len(new)} values that it did not hold when the chain'
                " began, and no hierarchy says what they are released as.",
                hint="Bring them under known ones in a view, or begin another chain, with a"
                " hierarchy of all values that may come.",
            )
        together = (*before.values, *new)
        counts = np.append(before.counts, np.zeros(len(new), np.int64))
        known[name] = Distribution(counts, together)
        categories.append(together)
        place_of = {value: number for number, value in enumerate(together)}
        # One more place for the code -1 of NULL.
        places = np.array([*(place_of[value] for value in values), -1], np.int32)
        codes[:, place] = places[codes[:, place]]
    remapped = replace(microdata, codes=codes, categories=tuple(categories))
    own = {name: Distribution.of_column(column) for name, column in microdata.sensitive.items()}
    return remapped, Measures(measures.numbers, known, own, measures.whitenings)
