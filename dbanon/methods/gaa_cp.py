"""GAA-CP: greedy k-anonymity by clustering partition.

The first class starts with record 0 and takes the nearest remaining record, one at a time, until it
holds k records. The next class starts with the record farthest from the previous class. The last
records, fewer than k, are added one by one to the class whose loss they raise least. Distances are
those of definitions 5 and 6 of the paper, where a class is represented by its generalized record.
Ties go to the record with the smaller index, then to the class formed first.

Source: Jiang H. W., Zeng G. S. and Ma H. Y., "Greedy clustering-anonymity method for privacy
preservation of table data-publishing", Journal of Software 28 (2017) 341-351, algorithm 1. Step 3.1
is understood as adding one record at a time.
Classes: k records; those that the last records are added to hold up to 2k-1.
Cost: O(n^2) in the worst case. Two trees of bounding boxes over the distinct records find the
nearest and the farthest record, or scans of all records once the trees rule out too few.
"""

from __future__ import annotations

from dbanon.kernels import GaaCp
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import MixedMethod, on_table

METHOD = MixedMethod(
    name="gaa_cp",
    run=on_table(GaaCp),
    summary="Greedy clustering of numbers and categories with hierarchies",
    class_sizes="k; the last records make some larger, up to 2k-1",
    cost="O(n^2) at worst, far less with many identical records",
    reference="Jiang, Zeng & Ma 2017",
    forecast=MethodForecast(
        mixed=PowerLaw(seconds=0.33, records=1.27, attributes=1.84, trees=2.1, categories=1.7)
    ),
)
