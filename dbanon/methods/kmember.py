"""k-member clustering.

The first class starts with record 0 and takes, one at a time, the remaining record that raises its
loss least, until it holds k. The next class starts with the record farthest from the seed of the
class before. The last records, fewer than k, join one by one the class whose loss they raise least.
Ties go to the record of smaller index, then to the class made first.

Source: J.-W. Byun, A. Kamra, E. Bertino and N. Li, "Efficient k-anonymization using clustering
techniques", DASFAA 2007. The paper starts with a random record; loss is iloss, distance that of
GAA-CP.
Classes: k records; those that take the last records more, 2k-1 at most.
Cost: O(n^2) in the worst case: of two trees of boxes over the distinct records, one finds the
nearest, one the farthest.
"""

from __future__ import annotations

from dbanon.kernels import KMember
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import MixedMethod, on_table

METHOD = MixedMethod(
    name="kmember",
    run=on_table(KMember),
    summary="Greedy clustering by the loss of the growing class",
    class_sizes="k; the last records make some larger, up to 2k-1",
    cost="O(n^2) at worst, far less with many identical records",
    reference="Byun, Kamra, Bertino & Li 2007",
    forecast=MethodForecast(mixed=PowerLaw(0.33, 1.27, 1.84, trees=2.1, categories=1.7)),
)
