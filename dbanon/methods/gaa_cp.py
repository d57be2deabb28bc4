"""GAA-CP: greedy k-anonymity by clustering partition.

The first class starts with record 0 and takes the nearest remaining record, one at a time, until it
holds k. The next class starts with the record farthest from the class just closed. The last
records, fewer than k, join one by one the class whose loss they raise least. Distance: definitions
5 and 6 of the paper, the class standing for its generalized record. Ties go to the record of
smaller index, then to the class made first.

Source: Jiang H. W., Zeng G. S. and Ma H. Y., "Greedy clustering-anonymity method for privacy
preservation of table data-publishing", Journal of Software 28 (2017) 341-351, algorithm 1. Step 3.1
is read as adding one record at a time.
Classes: k records; those that take the last records more, 2k-1 at most.
Cost: O(n^2) in the worst case: of two trees of boxes over the distinct records, one finds the
nearest, one the farthest.
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
    forecast=MethodForecast(mixed=PowerLaw(0.33, 1.27, 1.84, trees=2.1, categories=1.7)),
)
