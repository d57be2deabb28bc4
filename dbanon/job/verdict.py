"""What a written release must hold, and the verdict once it was counted."""

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
class Expected:
    """What the written release of these records must hold.

    Parameters
    ----------
    rows : in all.
    null_rows : with a NULL in a quasi-identifier, where each NULL is released as one.
    sensitive : what the columns of the privacy models are.
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
    ) -> Expected:
        """Of records whose labels, int32 (n,), are -1 where they are withheld."""
        released = labels >= 0
        holes = 0
        if microdata.valid is not None:
            # Records may be withheld for other reasons, those with a NULL among them.
            holes = int((~microdata.valid.all(axis=1) & released).sum())
        return cls(int(released.sum()), holes, sensitive)


@dataclass(frozen=True)
class Caution:
    """What whoever reads a release has to be told beside its guarantee.

    Parameters
    ----------
    what : in a sentence.
    title : over it.
    why : what was counted.
    """

    what: str
    title: str
    why: str


# What several releases of one source reveal together.
INTERSECT = (
    "Whoever knows a person's class in each release has only those left who are in both classes,"
    " and these may be fewer than k"
)


def releases_intersect(what: str) -> Caution:
    """That the source had releases before; ``what`` names them."""
    why = f"{INTERSECT[0].lower()}{INTERSECT[1:]}. A chain prevents it: docs/chains.md"
    return Caution(what, "RELEASES INTERSECT", why)


@dataclass(frozen=True)
class Verdict:
    """What holds of a release, counted where it was written.

    Parameters
    ----------
    k : what k counts, in the class of fewest: rows, or persons.
    rarest : the rows, or persons, that share the rarest combination of released values.
    models : the levels that all classes keep to.
    also : what shares the rarest combination of each set of columns.
    persons : in all; None where rows were counted.
    k_rows : as in ``Recount``.
    noted : what the ledger notes of it, beside the models.
    of_models : what the ledger notes with each model.
    classes, counted : words: what the classes are, and what k counts in them where that is not
        rows.
    cautions : what has to be told with it.
    of_rows : the k of whole rows and what it is worth, in words, where k is of something else.
    """

    k: int
    rarest: int
    models: tuple[CountedModel, ...] = ()
    also: tuple[int, ...] = ()
    persons: int | None = None
    k_rows: int | None = None
    noted: Mapping[str, Any] = field(default_factory=dict)
    of_models: Mapping[str, Any] = field(default_factory=dict)
    classes: str = "classes"
    counted: str = ""
    cautions: tuple[Caution, ...] = ()
    of_rows: tuple[tuple[str, str], ...] = ()
