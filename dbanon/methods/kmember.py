"""k-member clustering.

The first class starts with record 0 and takes, one at a time, the remaining record that raises the
loss of the class least, until the class holds k records. The next class starts with the record
farthest from the first record of the previous class. The last records, fewer than k, are added one
by one to the class whose loss they raise least. Ties go to the record with the smaller index, then
to the class formed first.

Source: J.-W. Byun, A. Kamra, E. Bertino and N. Li, "Efficient k-anonymization using clustering
techniques", DASFAA 2007. The paper starts with a random record. The loss is iloss
(``measures.information_loss``), and the distance is that of the method ``gaa_cp``.
Classes: k records; those that the last records are added to hold up to 2k-1.
Cost: O(n^2) in the worst case. Two trees of bounding boxes over the distinct records find the
nearest and the farthest record, or scans of all records once the trees rule out too few.
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
    forecast=MethodForecast(
        mixed=PowerLaw(seconds=0.33, records=1.27, attributes=1.84, trees=2.1, categories=1.7)
    ),
)
