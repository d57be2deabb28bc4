"""Counts of suppressed cells that only the owner of the source may see."""

from __future__ import annotations

import numpy as np

from dbanon.data.microdata import Microdata
from dbanon.data.partition import MethodResult
from dbanon.job.policy import Policy
from dbanon.measures.agreement import add_up_matches, number_distinct_rows
from dbanon.methods.local_suppression import list_demands
from dbanon.methods.suppression_wildcard import count_least_cells
from dbanon.partitioning.cells import code_for_method, sets_to_search
from dbanon.release.recode import suppressed_cells
from dbanon.spaces.cells import MISSING, codes_of_cells


def count_for_owner(
    originals: Microdata, suppressed: Microdata, classes: MethodResult, policy: Policy
) -> dict[str, int]:
    """Count for local suppression: suppressed cells, a bound, and persons whom few rows agree with.

    Parameters
    ----------
    originals : the records with the values of the source.
    suppressed : the records without the suppressed cells.
    classes : the classes of ``local_suppression``.

    Returns
    -------
    ``cells``, the number of suppressed cells, and ``least_cells``, the number that every release of
    these records needs. Where NULL agrees with every value also ``rows_below_k``, the number of
    released records that fewer than k rows of the release agree with, by their values in the
    source, and ``fewest_agreeing_rows``, the smallest number of rows that agree with one of them.
    """
    row_partition, _ = classes.combine_into_row_partition()
    released_records = np.flatnonzero(row_partition.labels >= 0)
    names = [attribute.name for attribute in originals.attributes]
    codes = codes_of_cells(code_for_method(originals, policy))[released_records]
    demands = list_demands(
        names, int(policy.k), sets_to_search(policy, names), len(released_records)
    )
    counts = {
        "cells": sum(suppressed_cells(suppressed).values()),
        "least_cells": count_least_cells(codes, demands, missing_agrees=policy.null_agrees),
    }
    if not policy.null_agrees:
        return counts
    released_codes = codes.copy()
    if suppressed.suppressed is not None:
        released_codes[suppressed.suppressed[released_records]] = MISSING
    persons, person_ids = number_distinct_rows(codes)
    rows, row_ids = number_distinct_rows(released_codes)
    sizes = np.bincount(row_ids)[:, None].astype(np.float64)
    agreeing_rows = add_up_matches(persons, rows, sizes, missing_agrees=True)[person_ids, 0]
    return counts | {
        "rows_below_k": int((agreeing_rows < policy.k).sum()),
        "fewest_agreeing_rows": int(agreeing_rows.min()),
    }
