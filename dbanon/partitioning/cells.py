"""Records as the methods that suppress cells see them, with NULL as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dbanon.data.microdata import Microdata
from dbanon.job.nulls import RELEASED_NULLS
from dbanon.job.policy import Policy
from dbanon.methods import find_method
from dbanon.partitioning.strata import null_error

if TYPE_CHECKING:
    from dbanon.spaces.cells import NamedSets


def code_for_method(microdata: Microdata, policy: Policy) -> Microdata:
    """Code the cells if the method compares them as equal or not; others are returned unchanged.

    Coded microdata have no NULL, so that classes may hold records that are NULL in different
    attributes. A method that chooses levels of hierarchies codes the cells itself.

    Raises
    ------
    NullInQuasiIdentifier : there are NULLs, and the policy does not say how to treat them.
    UnsupportedType : an attribute has numbers that float64 cannot hold exactly.
    """
    method = find_method(policy.method)
    if not method.suppresses_cells:
        return microdata
    if microdata.valid is not None and policy.nulls not in RELEASED_NULLS:
        names = [attribute.name for attribute in microdata.attributes]
        null_counts = (~microdata.valid).sum(axis=0).tolist()
        raise null_error(dict(zip(names, null_counts, strict=True)))
    if method.result_type.sees_all_strata:
        return microdata
    from dbanon.spaces.cells import code_cells

    return code_cells(microdata)


def sets_to_search(policy: Policy, names: Sequence[str]) -> NamedSets:
    """List the columns and k of the sets in ``also_k`` that the method can meet by itself.

    Sets with copied columns are left out: the method does not see these.

    Parameters
    ----------
    names : the quasi-identifiers.
    """
    return [
        (column_set.columns, int(policy.k if column_set.k is None else column_set.k))
        for column_set in policy.also_k
        if set(column_set.columns) <= {*names}
    ]


def merging_weights(policy: Policy, names: Sequence[str]) -> Mapping[str, float]:
    """Return the weight of each attribute, by name, when classes are merged.

    It is the price of a cell if the method spares the cells of important attributes.

    Parameters
    ----------
    names : the attributes that are merged, which may be some of the quasi-identifiers.
    """
    importance = str(policy.options.get("importance") or "")
    if not importance:
        return policy.weights
    from dbanon.methods.local_suppression import price_columns

    listed = [name.strip() for name in importance.split(",")]
    return price_columns(names, ",".join(name for name in listed if name in names))
