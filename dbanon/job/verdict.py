"""The expected content of a written release, and the verdict on it after the recount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute
from dbanon.data.types import JsonMapping
from dbanon.measures.models import CountedModel


@dataclass(frozen=True, eq=False)
class ExpectedRelease:
    """The expected content of a written release.

    Parameters
    ----------
    n_rows : number of rows.
    null_rows : number of rows with a NULL in a quasi-identifier; used only if NULLs are released as
        NULL.
    sensitive : the columns that privacy models are about, by name.
    """

    n_rows: int
    null_rows: int
    sensitive: Mapping[str, Attribute]

    @classmethod
    def of(
        cls,
        microdata: Microdata,
        labels: NDArray[np.int32],
        sensitive: Mapping[str, Attribute],
    ) -> ExpectedRelease:
        """Derive the expected content from the records and their classes.

        Parameters
        ----------
        labels : int32 (n,), the class of each record, -1 if it is withheld.
        """
        is_released = labels >= 0
        null_rows = 0
        if microdata.valid is not None:
            # Records with a NULL may be among those withheld for other reasons.
            null_rows = int((~microdata.valid.all(axis=1) & is_released).sum())
        return cls(int(is_released.sum()), null_rows, sensitive)


@dataclass(frozen=True)
class Caution:
    """A warning to the readers of a release, shown next to its guarantee.

    Parameters
    ----------
    warning : the warning in a few words.
    title : a heading for it, in capitals.
    reason : why readers need it, with counts if there are any.
    """

    warning: str
    title: str
    reason: str


# Why two releases of the same persons can disclose more than each of them.
INTERSECTION_RISK = (
    "Someone who knows a person's class in each release only has to consider the persons in both"
    " classes, who may be fewer than k"
)


def build_intersection_caution(description: str) -> Caution:
    """Build the caution about earlier releases of the source.

    Parameters
    ----------
    description : a short text that names the earlier releases.
    """
    risk = f"{INTERSECTION_RISK[0].lower()}{INTERSECTION_RISK[1:]}"
    reason = f"{risk}. A chain prevents it: docs/chains.md"
    return Caution(warning=description, title="RELEASES INTERSECT", reason=reason)


@dataclass(frozen=True)
class Verdict:
    """Whether and how a release meets its guarantee, as counted in the written relation.

    Parameters
    ----------
    k : the number of rows, or persons, in the smallest class.
    rarest_combination_size : the number of rows, or persons, that share the rarest combination of
        released values.
    models : the privacy models, each with the level that all classes reach.
    rarest_in_sets : for each set of columns in ``also_k``, the number of rows, or persons, that
        share the rarest combination of its values.
    persons : the number of persons; None if rows were counted.
    k_rows : the number of rows that share the rarest combination of values, if ``k`` counts the
        values of each attribute separately; otherwise None.
    ledger_values : values to record in the ledger, in addition to the models.
    model_ledger_values : values to record in the ledger with each model.
    classes_text : a noun for the classes, such as "classes of each attribute".
    unit_suffix : what k counts, in parentheses, to append to its value; empty for rows.
    cautions : warnings to show next to the guarantee.
    row_anonymity_texts : the k of whole rows and its meaning, as pairs of texts; empty unless
        ``k_rows`` is set.
    """

    k: int
    rarest_combination_size: int
    models: tuple[CountedModel, ...] = ()
    rarest_in_sets: tuple[int, ...] = ()
    persons: int | None = None
    k_rows: int | None = None
    ledger_values: JsonMapping = field(default_factory=dict)
    model_ledger_values: JsonMapping = field(default_factory=dict)
    classes_text: str = "classes"
    unit_suffix: str = ""
    cautions: tuple[Caution, ...] = ()
    row_anonymity_texts: tuple[tuple[str, str], ...] = ()
