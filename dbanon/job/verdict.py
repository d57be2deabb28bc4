"""The expected contents of a written release, and the verdict after the recount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute
from dbanon.measures.models import CountedModel


@dataclass(frozen=True, eq=False)
class ExpectedRelease:
    """The expected contents of a written release.

    Parameters
    ----------
    rows : number of rows.
    null_rows : number of rows with a NULL in a quasi-identifier, if NULLs are released as NULL.
    sensitive : the columns of the privacy models.
    """

    rows: int
    null_rows: int
    sensitive: Mapping[str, Attribute]

    @classmethod
    def of(
        cls,
        microdata: Microdata,
        labels: NDArray[np.int32],
        sensitive: Mapping[str, Attribute],
    ) -> ExpectedRelease:
        """From the labels of records, int32 (n,), -1 for withheld records."""
        released = labels >= 0
        holes = 0
        if microdata.valid is not None:
            # Records with a NULL may be among those withheld for other reasons.
            holes = int((~microdata.valid.all(axis=1) & released).sum())
        return cls(int(released.sum()), holes, sensitive)


@dataclass(frozen=True)
class Caution:
    """A warning to the readers of a release, shown next to its guarantee.

    Parameters
    ----------
    what : the warning, as a sentence.
    title : its heading.
    why : the counts behind it.
    """

    what: str
    title: str
    why: str


# The joint disclosure of several releases of one source.
INTERSECT = (
    "Someone who knows a person's class in each release only has to consider the persons in both"
    " classes, who may be fewer than k"
)


def releases_intersect(description: str) -> Caution:
    """The caution that the source had earlier releases, which ``description`` names."""
    why = f"{INTERSECT[0].lower()}{INTERSECT[1:]}. A chain prevents it: docs/chains.md"
    return Caution(description, "RELEASES INTERSECT", why)


@dataclass(frozen=True)
class Verdict:
    """The properties of a release, counted in the written relation.

    Parameters
    ----------
    k : the number of rows, or persons, in the smallest class.
    rarest : the number of rows, or persons, that share the rarest combination of released values.
    models : the levels that all classes reach.
    also : the number of rows, or persons, that share the rarest combination of each set of columns.
    persons : the number of persons; None if rows were counted.
    k_rows : as in ``Recount``.
    ledger_values : values for the ledger, in addition to the models.
    of_models : values for the ledger to record with each model.
    classes, counted : texts that describe the classes, and what k counts if not rows.
    cautions : warnings to show with it.
    of_rows : the k of whole rows and its meaning, as texts, if ``k`` counts something else.
    """

    k: int
    rarest: int
    models: tuple[CountedModel, ...] = ()
    also: tuple[int, ...] = ()
    persons: int | None = None
    k_rows: int | None = None
    ledger_values: Mapping[str, Any] = field(default_factory=dict)
    of_models: Mapping[str, Any] = field(default_factory=dict)
    classes: str = "classes"
    counted: str = ""
    cautions: tuple[Caution, ...] = ()
    of_rows: tuple[tuple[str, str], ...] = ()
