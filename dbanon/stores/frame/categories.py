"""Categories of a released data frame: those that released rows have, and no others.

A categorical column carries the values that it could hold, and hands them on to every copy and
file, whether a row has them or not. So columns are built anew from the rows that are released.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def with_own_categories(series: pd.Series[Any]) -> pd.Series[Any]:
    """The column with no more categories than its rows have.

    Those of an ordered column keep their order; others come in the order of the rows, which is that
    of the release: the old order may be that of the original rows.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        codes, used = _own(series.cat.codes.to_numpy(), bool(dtype.ordered))
        categories = dtype.categories.take(used).rename(None)
        made = pd.Categorical.from_codes(codes, categories=categories, ordered=dtype.ordered)
        found: pd.Series[Any] = pd.Series(made, index=series.index)
        return found
    if isinstance(dtype, pd.ArrowDtype) and hasattr(dtype.pyarrow_dtype, "value_type"):
        return _arrow(series, dtype.pyarrow_dtype)
    return series


def _arrow(series: pd.Series[Any], kind: Any) -> pd.Series[Any]:
    """The same for a column of Arrow's dictionaries; other nested types stay as they are."""
    import pyarrow as pa

    if not pa.types.is_dictionary(kind):
        return series
    found = series.array.__arrow_array__()
    array = found.unify_dictionaries().combine_chunks()
    raw = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    codes, used = _own(raw, bool(kind.ordered))
    indices = pa.array(codes, kind.index_type, mask=codes < 0)
    dictionary = array.dictionary.take(pa.array(used))
    made = pa.DictionaryArray.from_arrays(indices, dictionary, ordered=kind.ordered)
    rebuilt: pd.Series[Any] = pd.Series(pd.arrays.ArrowExtensionArray(made), index=series.index)
    return rebuilt


def _own(codes: Any, ordered: bool) -> tuple[Any, Any]:
    """Codes among those that occur, -1 for NULL, and which these are."""
    used, first, places = np.unique(codes, return_index=True, return_inverse=True)
    order = np.arange(len(used)) if ordered else np.argsort(first)
    order = order[used[order] >= 0]
    rank = np.full(len(used), -1)
    rank[order] = np.arange(len(order))
    return rank[places.reshape(-1)], used[order]


def labels_as(
    source: pd.Series[Any],
    values: NDArray[Any],
    missing: NDArray[np.bool_] | None,
    labels: NDArray[np.int32],
) -> pd.Series[Any]:
    """Labels of generalization under the type of the column that they stand for, if it takes them.

    Text stays text of its type; of type ``object`` it gets the one that pandas has for texts.
    Categories stay categories: the column's own where each label is one of them, with their
    order, or else the labels. Whole numbers and truths stay what they are
    where each label is a value of the column. All else is text, as pandas' type ``object``.

    Parameters
    ----------
    source : the values that the released rows had.
    values, missing : the label of each class, and where it is NULL.
    labels : int32 (r,), the class of each row.
    """
    told = values.astype(object)
    if missing is not None:
        told[missing] = None
    kind = source.dtype
    categories = isinstance(kind, pd.CategoricalDtype)
    dtype: Any = kind if isinstance(kind, pd.StringDtype) else object
    if pd.api.types.is_object_dtype(kind):
        # One row that is withheld, and holds no text, would show by the type.
        dtype = pd.Series(["text"]).dtype
    if categories or pd.api.types.is_integer_dtype(kind) or pd.api.types.is_bool_dtype(kind):
        own = {str(value): value for value in source.dropna().unique()}
        if {text for text in told if text is not None} <= own.keys():
            told, dtype = np.array([own.get(text) for text in told], object), kind
        elif categories:
            dtype = "category"
    made: pd.Series[Any] = pd.Series(told, dtype=object).astype(dtype)
    rows = made.iloc[labels].reset_index(drop=True)
    if dtype == "category":
        # Sorted labels, without those of classes that are withheld.
        return rows.cat.remove_unused_categories()
    return with_own_categories(rows)
