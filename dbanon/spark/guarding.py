"""Privacy models of a table on its pieces: by the table's distribution, whatever a piece holds."""

from __future__ import annotations

import numpy as np

from dbanon.data.microdata import Coded, Microdata
from dbanon.data.partition import Partition
from dbanon.partitioning.merge import Guard
from dbanon.partitioning.protect import guard_of
from dbanon.partitioning.sensitive import released_places
from dbanon.spark.pieces import Known


def guard_on(microdata: Microdata, partition: Partition, known: Known) -> Guard:
    """The models, and what they look at, of records that all have classes."""
    attributes = {attribute.name: attribute for attribute in known.layout.sensitive}
    places, table = released_places(
        microdata, partition, known.policy.models, attributes, known.released, None
    )
    return guard_of(microdata, known.policy, places, table)


def guard_of_table(known: Known) -> Guard:
    """The models as the driver asks them of counts: of no record."""
    layout, none = known.layout, np.zeros(0, np.int32)
    attributes = layout.quasi_identifiers
    dictionaries = tuple(
        known.released.categories[a.name].values for a in attributes if not a.kind.is_numeric
    )
    nobody = Microdata(
        attributes,
        np.zeros((0, 1), np.int64),
        np.zeros((0, len(attributes) - len(dictionaries))),
        np.zeros((0, len(dictionaries)), np.int32),
        dictionaries,
        entities=none if layout.persons else None,
        sensitive={
            a.name: Coded(none, known.released.sensitive[a.name].values) for a in layout.sensitive
        },
    )
    return guard_on(nobody, Partition(none), known)
