"""Compiled kernels. Arrays are float64, C-contiguous, (n, p); labels are int32, (n,)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

DEFAULT_BUDGET: int
SOURCES: str  # checksum of the compiled sources, from sources.py

Search: TypeAlias = Literal["auto", "index", "brute"]

def simd_level() -> str:
    """The instruction set that new kernels will use."""

def simd_levels() -> list[str]:
    """The instruction sets supported here, slowest first."""

def set_simd_level(name: str) -> list[str]:
    """Set the instruction set of new kernels; returns the supported ones.

    Labels do not depend on it. Raises ValueError for unsupported names.
    """

def allow_whole_steps(value: bool) -> None:
    """Allow or forbid new kernels to search rounded coordinates first.

    For tests and benchmarks. Allowed by default; labels do not depend on it.
    """

def set_mixed_search(search: str) -> None:
    """Set how kernels of mixed records search: `auto`, `index` or `brute`.

    For tests and benchmarks. Kernels keep what is set before their first step. ``auto`` starts with
    an index and scans all records once that is faster; labels do not depend on it.
    """

class Kernel:
    """Work done in slices. Classes are numbered from 0 in order of creation.

    Kernels reference input arrays without copying: they must not change before the last step.
    Wrong shapes, values that are not finite, k < 1 and n < k raise ValueError.
    """

    def step(self, budget: int = ..., threads: int = 1) -> bool:
        """Do about `budget` distance evaluations, without the GIL; True when finished.

        Where searches run together, up to `threads` threads share them, with that budget each. The
        labels are the same for any number.
        """

    @property
    def progress(self) -> float:
        """The share done, 0 to 1."""

    def labels(self) -> npt.NDArray[np.int32]:
        """The class of each record, (n,). RuntimeError before step() has returned True."""

# In every kernel `search` affects speed, never the labels.

class Mdav(Kernel):
    """MDAV (Domingo-Ferrer & Torra 2005), exact. Classes of k to 2k - 1."""

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        search: Search = "auto",
    ) -> None: ...

class Cbfs(Kernel):
    """Centroid-based fixed size.

    While k or more records remain: the record farthest from their centroid forms a class with its
    k - 1 nearest. Fewer than k remaining records join the class with the nearest mean, without
    updating means. Classes of k to 2k - 1.
    """

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        search: Search = "auto",
    ) -> None: ...

class Md(Kernel):
    """MD or DBFS, diameter-based fixed size.

    While 2k or more remain: the two most distant records (of several such pairs the first in index
    order), each with its k - 1 nearest. Then k or more remaining records form a class; fewer join
    as in Cbfs.
    """

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        search: Search = "auto",
    ) -> None: ...

class Vmdav(Kernel):
    """V-MDAV (Solanas & Martinez-Balleste 2006) with the parameter lambda.

    Classes of k to 2k - 1, to which fewer than k leftovers join as in Cbfs: at most 3k - 2.
    """

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        lam: float = 0.2,
        search: Search = "auto",
    ) -> None: ...

class Tfrp(Kernel):
    """TFRP (Chang, Li, Huang 2007), TFRP-2 unless `second_stage` is false.

    The two fixed points are the corners of the minima and of the maxima, the former first.
    Leftovers join as in Cbfs: classes of k to 2k - 1. The second stage dissolves classes, in
    descending order of sum of squares, if that lowers the loss; classes have no size limit, and the
    remaining ones are renumbered in order. Its time grows with n^2 / k.
    """

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        second_stage: bool = True,
        search: Search = "auto",
    ) -> None: ...

class DensityFirst(Kernel):
    """LDF (`lowest`) or HDF: the candidate class of lowest or highest density first.

    Leftovers join as in Cbfs: classes of k to 2k - 1.
    """

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        lowest: bool,
        search: Search = "auto",
    ) -> None: ...

class Dbscan(Kernel):
    """DBSCAN (Ester et al. 1996), exact: a core record has k in the radius, including itself.

    Records not reached by a core record have label -1. A class may have fewer than k records,
    because border records belong to the first class that reaches them.
    """

    def __init__(self, points: npt.NDArray[np.float64], k: int, radius: float) -> None: ...

class MixedTable:
    """Records of numbers and leaves, from ``MixedSpace.table``; shared by kernels.

    codes: int32 (n, d). units: int64 (d,). leaves: int32 (d,), the leaves of each attribute's
    hierarchy, 0 if it is numeric. depths, gaps: int32 (sum of leaves,). beside: int32 (n, m),
    further values that distinguish records, at no cost. All C-contiguous; all are copied. Values
    out of range raise ValueError.
    """

    def __init__(
        self,
        codes: npt.NDArray[np.int32],
        units: npt.NDArray[np.int64],
        leaves: npt.NDArray[np.int32],
        depths: npt.NDArray[np.int32],
        gaps: npt.NDArray[np.int32],
        beside: npt.NDArray[np.int32] | None = None,
    ) -> None: ...

class GaaCp(Kernel):
    """GAA-CP (Jiang, Zeng & Ma 2017), exact."""

    def __init__(self, table: MixedTable, k: int) -> None: ...

class KMember(Kernel):
    """k-member (Byun, Kamra, Bertino & Li 2007), exact."""

    def __init__(self, table: MixedTable, k: int) -> None: ...

class MixedMdav(Kernel):
    """MDAV on records without coordinates, exact; ties by the smallest record.

    table: its trees have all leaves at one depth. squares: int64 (d,), of a tree the squared
    distance of leaves that meet one step up, which grows by the square of the steps; of numbers
    squares of differences count. All in all at most 2**62; what is wrong raises ValueError.
    """

    def __init__(self, table: MixedTable, squares: npt.NDArray[np.int64], k: int) -> None: ...

class MixedCbfs(Kernel):
    """CBFS on records without coordinates, as ``MixedMdav``."""

    def __init__(self, table: MixedTable, squares: npt.NDArray[np.int64], k: int) -> None: ...

class MixedVmdav(Kernel):
    """V-MDAV on records without coordinates, as ``MixedMdav``; lambda_ as of ``Vmdav``."""

    def __init__(
        self, table: MixedTable, squares: npt.NDArray[np.int64], k: int, lambda_: float
    ) -> None: ...

class MixedMd(Kernel):
    """MD on records without coordinates, as ``MixedMdav``."""

    def __init__(self, table: MixedTable, squares: npt.NDArray[np.int64], k: int) -> None: ...

class MixedDensityFirst(Kernel):
    """LDF (lowest) or HDF on records without coordinates, as ``MixedMdav``."""

    def __init__(
        self, table: MixedTable, squares: npt.NDArray[np.int64], k: int, lowest: bool
    ) -> None: ...

class MixedTfrp(Kernel):
    """TFRP-1, or TFRP-2 with its second stage, on records without coordinates, as ``MixedMdav``.

    From the corners, of all minima and of all maxima, only numbers tell what is farthest. A sum of
    squares is rounded down to a whole number.
    """

    def __init__(
        self, table: MixedTable, squares: npt.NDArray[np.int64], k: int, second_stage: bool
    ) -> None: ...

class Merging(Kernel):
    """KACA (threshold below 0) and EBKC (else: a distance, mean over the attributes)."""

    def __init__(self, table: MixedTable, k: int, seed: int, threshold: float) -> None: ...

class Models:
    """Privacy models on sensitive attributes.

    widths: int32 (m,), the number of values of each attribute, at least 1. Invalid arguments raise
    ValueError. persons: the last attribute has one value, which counts persons: 0 in one record of
    each person, -1 in others. Counts of the other attributes are then persons with a value, coded
    in one record and -1 in others.
    """

    def __init__(self, widths: npt.NDArray[np.int32], persons: bool = False) -> None: ...
    @property
    def persons(self) -> bool: ...
    @property
    def widths(self) -> list[int]: ...
    def add(
        self,
        wish: str,
        attribute: int,
        level: float,
        l: int,
        whole: npt.NDArray[np.float64],
        parents: npt.NDArray[np.int32],
        ranges: npt.NDArray[np.int32],
    ) -> None:
        """Add a model: distinct_l, entropy_l, recursive_cl, alpha_k, beta_likeness,
        delta_disclosure, equal_t, ordered_t or hierarchical_t.

        whole: the share of each value in the table. parents, (nodes,), parents before children, and
        ranges, (nodes, 2), the first and last leaf below each node, are for hierarchical_t.
        """

    def keeps(self, counts: npt.NDArray[np.int32]) -> bool:
        """Whether a class satisfies all models.

        counts: of values of the first attribute, then the second …, (sum of widths,).
        """

    def lack(self, counts: npt.NDArray[np.int32]) -> float:
        """About how many records a class lacks to satisfy all models; 0 if it satisfies them.

        counts: as for ``keeps``.
        """

class Enforce(Kernel):
    """Merge classes, or withhold them (-1), until all satisfy the models.

    labels: int32 (n,), -1 stays -1. values: int32 (n, m). budget: number of records that may be
    withheld. A single remaining class is returned even if it violates the models.
    """

    def __init__(
        self,
        table: MixedTable,
        labels: npt.NDArray[np.int32],
        values: npt.NDArray[np.int32],
        models: Models,
        budget: int,
    ) -> None: ...

class Split(Kernel):
    """Repeatedly split classes in two if both parts satisfy k and the models and the loss
    decreases.

    labels: int32 (n,), -1 stays -1. values: int32 (n, m).
    """

    def __init__(
        self,
        table: MixedTable,
        labels: npt.NDArray[np.int32],
        k: int,
        values: npt.NDArray[np.int32],
        models: Models,
    ) -> None: ...

class RefineLoss(Kernel):
    """Local search on the loss of classes: swaps, then rounds; reproducible by seed.

    table: its extra columns are the sensitive values of the models, int32 (n, m). labels: int32
    (n,), classes of at least k records that satisfy the models; -1 stays -1. pieces: int32 (d,),
    for numbers released as labels the number of pieces between borders, at most 256; else 0.
    firsts: the first code of each piece, ascending. costs: tables (pieces, pieces) of label losses
    by first and last piece of a class; swaps may be missed if wider labels cost less. These three
    are optional. worth: stop once n / k rounds, at least 4,096, save less than 1/worth of the loss;
    0 for no such limit. swaps: run swaps before the rounds.
    """

    def __init__(
        self,
        table: MixedTable,
        labels: npt.NDArray[np.int32],
        k: int,
        rounds: int,
        seed: int,
        models: Models,
        pieces: npt.NDArray[np.int32] = ...,
        firsts: npt.NDArray[np.int32] = ...,
        costs: npt.NDArray[np.int32] = ...,
        *,
        worth: int = ...,
        swaps: bool = ...,
    ) -> None: ...

class Refine(Kernel):
    """Local search on SSE from any partition, then destroy and repair of random neighbourhoods.

    The resulting classes have k to 2k - 1 records and are numbered by their first records. Destroy
    and repair stops after `iterations`, `work` elementary steps (about a nanosecond each), or
    `seconds` (0: no limit). Labels are reproducible by seed unless `seconds` ends it.
    """

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        labels: npt.NDArray[np.int32],
        iterations: int,
        work: int,
        seconds: float,
        heat: float,
        classes: int,
        seed: int,
    ) -> None: ...

class Pass(Kernel):
    """Local search on SSE, in pools of each class and its seven nearest ones.

    Applies improving moves and swaps of records until none is left in any pool, in at most eight
    passes. The resulting classes have k to 2k - 1 records and are numbered by their first records.
    """

    def __init__(
        self, points: npt.NDArray[np.float64], k: int, labels: npt.NDArray[np.int32]
    ) -> None: ...

class MixedPass(Kernel):
    """``Pass`` on records without coordinates; table and squares as in ``MixedMdav``.

    Without centres, classes are near if their records are neighbours. Distances are 40-bit
    integers.
    """

    def __init__(
        self,
        table: MixedTable,
        squares: npt.NDArray[np.int64],
        k: int,
        labels: npt.NDArray[np.int32],
    ) -> None: ...

class MixedRefine(Kernel):
    """``Refine`` on records without coordinates, as ``MixedPass``."""

    def __init__(
        self,
        table: MixedTable,
        squares: npt.NDArray[np.int64],
        k: int,
        labels: npt.NDArray[np.int32],
        iterations: int,
        work: int,
        seconds: float,
        heat: float,
        classes: int,
        seed: int,
    ) -> None: ...

def recombined(
    points: npt.NDArray[np.float64],
    k: int,
    labels: npt.NDArray[np.int32],
    others: Sequence[npt.NDArray[np.int32]],
    regions: int,
    seed: int,
) -> npt.NDArray[np.int32]:
    """The best partition found from all classes of several partitions (n,) with k to 2k - 1
    records.

    Starts from `labels` and improves this number of random regions. Classes are numbered by their
    first records. k is at most 32.
    """

class NearestPath(Kernel):
    """A nearest-neighbour path from the record farthest from the centroid.

    With groups, (n,), it visits one group after the other by nearest centroid. Labels are positions
    on the path.
    """

    def __init__(
        self, points: npt.NDArray[np.float64], groups: npt.NDArray[np.int32] | None = None
    ) -> None: ...

class PathCut(Kernel):
    """The partition of an order, (n,), into classes of k to 2k - 1 neighbours with the least SSE.

    The shortest path of Hansen & Mukherjee (2003); classes are numbered along the order.
    """

    def __init__(
        self, points: npt.NDArray[np.float64], k: int, order: npt.NDArray[np.int32]
    ) -> None: ...

class Ward(Kernel):
    """k-Ward (Domingo-Ferrer & Mateo-Sanz 2002); classes are numbered by their first records."""

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        search: Search = "auto",
    ) -> None: ...

class Mst(Kernel):
    """Minimum spanning tree partitioning (Laszlo & Mukherjee 2005)."""

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        diametric: bool,
        search: Search = "auto",
    ) -> None: ...

class Genetic(Kernel):
    """Microaggregation by a genetic algorithm; classes are numbered by their first records."""

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        population: int,
        generations: int,
        crossover: float,
        mutation: float,
        seed: int,
    ) -> None: ...

class Neighbours(Kernel):
    """The `count` nearest neighbours of each record, count < n."""

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        count: int,
        keep: bool = False,
        search: Search = "auto",
    ) -> None: ...
    def sums(self) -> npt.NDArray[np.float64]:
        """The sum of squared distances to the neighbours, (n,)."""

    def ids(self) -> npt.NDArray[np.int32]:
        """The neighbours, nearest first, (n * count,); requires `keep`."""

class Fitting(Kernel):
    """Prices of a smoothed linear program over listed classes, by iterative proportional fitting.

    classes: int32 (m, k). prices: float64 (n,), initial prices. spread: above 0; a class is used
    exp((prices - SSE) / spread) times, and each record is covered once, or more often at price 0.
    """

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        classes: npt.NDArray[np.int32],
        prices: npt.NDArray[np.float64],
        spread: float,
        sweeps: int,
    ) -> None: ...
    def prices(self) -> npt.NDArray[np.float64]:
        """The price of each record, (n,)."""

    def excess(self) -> npt.NDArray[np.float64]:
        """The sum of prices minus SSE of each class, (m,)."""

class Gathering(Kernel):
    """Classes of k records that cost less than their prices, searched around centres; not complete.

    prices: float64 (n,). centres: float64 (m, p). threshold: returns classes with lower reduced
    cost.
    """

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        prices: npt.NDArray[np.float64],
        centres: npt.NDArray[np.float64],
        threshold: float,
    ) -> None: ...
    def classes(self) -> npt.NDArray[np.int32]:
        """The classes, k ascending records each, possibly repeated, (m * k,)."""

class Pricing(Kernel):
    """The classes of k records that cost less than their prices.

    prices: per record. bars: per record the sum of squared distances to its k - 2 nearest
    neighbours. inner: float64 (0, n), or (k - 2, n); the squared distances within any r records add
    up to at least the sum of their values in row r - 2. threshold: 0 or less; searches for classes
    with lower reduced cost, SSE - prices. wanted: number of classes per seed, the member with the
    highest price. effort: limit of steps per seed. pairs, tolls: pairs of records, (m, 2), and the
    toll of classes that hold both, (m,).
    """

    def __init__(
        self,
        points: npt.NDArray[np.float64],
        k: int,
        prices: npt.NDArray[np.float64],
        bars: npt.NDArray[np.float64],
        inner: npt.NDArray[np.float64],
        threshold: float,
        wanted: int,
        effort: int,
        pairs: npt.NDArray[np.int32],
        tolls: npt.NDArray[np.float64],
        search: Search = "auto",
    ) -> None: ...
    def least(self) -> npt.NDArray[np.float64]:
        """A lower bound of the reduced costs by seed, (n,), at most 0, rounded down."""

    def classes(self) -> npt.NDArray[np.int32]:
        """The classes, k records each, (m * k,)."""

class Linkage(Kernel):
    """The nearest points of each query, including ties, exact.

    Squared distances tie if they differ by a factor of at most 1 + 1e-9. questions: float64 (n, p);
    points: float64 (m, p). limits: float64 (n,), expected bounds of squared distances, which affect
    speed, never the result; None if unknown. weights: int64 (m,), 0 to 2**32; None for ones. Arrays
    are referenced, not copied. Labels are the nearest points, the first of several at exactly the
    same distance. Invalid arguments raise ValueError.
    """

    def __init__(
        self,
        questions: npt.NDArray[np.float64],
        points: npt.NDArray[np.float64],
        limits: npt.NDArray[np.float64] | None = None,
        weights: npt.NDArray[np.int64] | None = None,
        second: bool = False,
        search: Search = "auto",
    ) -> None: ...
    def distances(self) -> npt.NDArray[np.float64]:
        """Squared distance to the nearest point, (n,). RuntimeError before the last step."""

    def seconds(self) -> npt.NDArray[np.float64]:
        """Squared distance to the next that does not tie, (n,); to the nearest where there is none.

        Empty without ``second``. RuntimeError before the last step.
        """

    def weights(self) -> npt.NDArray[np.int64]:
        """The total weight of all nearest points, (n,). RuntimeError before the last step."""

def grouped(
    labels: npt.NDArray[np.int32], n_classes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Records by class, in record order within a class, and where each class begins.

    labels: int32 (n,), -1 for no class; one that is none raises ValueError. Returns int64
    (n - suppressed,) and int64 (n_classes,).
    """

def class_sizes(labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The number of records in each class, int64 (largest label + 1,); without the GIL.

    labels: int32 (n,), -1 for no class; one below raises ValueError.
    """

def class_means(
    values: npt.NDArray[np.float64], members: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64] | None:
    """The mean of each class, float64 (n_classes,), within its range; None where a sum overflows.

    values: float64 (n,), finite, at any step; members and starts as ``grouped`` gives them, of
    classes that are not empty, else ValueError. Values are added as numpy's reduceat adds them.
    """

def integer_class_means(
    values: npt.NDArray[np.int64], members: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Class means of integers, int64, rounded half to even, in exact arithmetic."""

def column_squares(
    values: npt.NDArray[np.float64],
    labels: npt.NDArray[np.int32],
    released: npt.NDArray[np.float64],
    other: npt.NDArray[np.float64] | None,
    valid: npt.NDArray[np.bool_] | None,
    exponent: int,
    shift: float,
    scale: float,
    part: bool,
) -> tuple[float, float, float]:
    """Sums of squares of a column: about two released values per class, and about its mean.

    values: float64 (n,), at any step; labels: int32 (n,), -1 for ignored records; released, other:
    float64 (n_classes,); valid: bool (n,), False for NULL. All values are mapped by x -> (x *
    2**-exponent - shift) / scale first, to 0 where scale is 0. The third sum is about 0 where
    ``part``. Values are added as numpy's sum adds them. Other shapes raise ValueError.
    """

def shuffled(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """A random permutation of 0 to n - 1, from n random words, uint64; n must be below 2**31."""

def shuffled_classes(
    members: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    classes: npt.NDArray[np.int64],
    words: npt.NDArray[np.uint64],
    first: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The records of classes, class by class, in random order within each, (r,).

    members, starts: as ``grouped`` gives them; classes: int64 (c,); words: r random words, one
    per record of these classes, else ValueError. Also returns, as first array, the index of each
    record's class among these, counted from ``first``, int64 (r,).
    """

def hash_rows(rows: Iterable[tuple[object, ...]], salt: bytes) -> tuple[int, int, int]:
    """Add up the hashes of rows that SQLite returns, modulo 2**128.

    rows: tuples of integers, floats, bytes, None, and texts as bytearrays. A row's hash is
    BLAKE2b of the salt and of what marshal.dumps(row, 2) is, with a text as a tuple of its bytes.
    Returns the number of rows, and the high and the low 64 bits of the sum.
    """

def take_numbers(
    rows: Iterator[tuple[object, ...]], most: int, is_number: Sequence[bool]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64], list[list[Any]]]:
    """Take up to ``most`` rows of an integer key and p values.

    is_number: for each value, whether it becomes a float, as float() converts it. Returns the keys,
    int64 (n,); floats, float64 (n * p,), 0 for None and for other values; the indices of None in
    them, int64 (m,); and for each column its values that are no floats: an empty list where
    is_number is true.
    """

def integers_text(values: npt.NDArray[np.int64]) -> bytes:
    """Integers, int64 (n,), as comma-separated ASCII."""

def floats_text(values: npt.NDArray[np.float64]) -> bytes | None:
    """Floats, float64 (n,), as comma-separated C hexadecimal literals.

    None if one is infinite, NaN or subnormal.
    """

def split_rows(
    rows: npt.NDArray[np.uint8], widths: Sequence[int], others: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Split rows of a binary COPY into first fields of fixed width and opaque other fields.

    rows: uint8 (m,), complete rows without header and trailer of the COPY; widths: bytes of each
    first field that is not NULL; others: number of further fields. Malformed rows raise ValueError.
    Returns the first fields of n rows with their lengths, -1 and zeros for NULL, uint8 (n * sum(4 +
    widths),), the other fields with their lengths, uint8, and where those of each row end, int64
    (n,).
    """

class MixedLinkage(Kernel):
    """The nearest boxes of each query, including ties, exact.

    A box has, in each column, the ends of an interval or a node of a hierarchy; distances are sums
    of EM4ADOM's eq. (11) in the order of the columns, and tie when they differ by a factor of 1e-9
    at most. parents: of each column, int32 (nodes,), each node's parent, which comes before it, -1
    of the root; None where it is numbers. ends: float64 (m, numbers, 2), ordered; nodes: int32 (m,
    trees); likewise n questions. Of each hierarchy all questions or all boxes are leaves. limits:
    float64 (n,), distances within which answers are expected, of the second where that is asked
    for; None for no guess. A guess changes the time, never the result. weights: int64 (m,), 0 to
    2**32; None for ones. All are kept. Labels are 0. What is wrong raises ValueError.
    """

    def __init__(
        self,
        parents: Sequence[npt.NDArray[np.int32] | None],
        question_ends: npt.NDArray[np.float64],
        question_nodes: npt.NDArray[np.int32],
        ends: npt.NDArray[np.float64],
        nodes: npt.NDArray[np.int32],
        limits: npt.NDArray[np.float64] | None = None,
        weights: npt.NDArray[np.int64] | None = None,
        second: bool = False,
    ) -> None: ...
    def distances(self) -> npt.NDArray[np.float64]:
        """Distance to the nearest box, (n,). RuntimeError before the last step."""

    def seconds(self) -> npt.NDArray[np.float64]:
        """Distance to the next that does not tie, (n,); to the nearest where there is none.

        Empty without ``second``. RuntimeError before the last step.
        """

    def weights(self) -> npt.NDArray[np.int64]:
        """The total weight of all nearest boxes, (n,). RuntimeError before the last step."""

class Suda(Kernel):
    """The minimal sample uniques of up to ``max_size`` keys, by SUDA's definition.

    codes: int32 (n, m), from 0 to below n, or -1 where a value is missing; 1 to 27 keys. A missing
    value equals no other and is in no MSU. max_size: 1 to m. seconds: stop when the time is up,
    with all MSUs of the sizes whose search ended; 0 for no limit. Labels are the number of keys of
    a record's smallest MSU, 0 without one. Invalid arguments raise ValueError.
    """

    def __init__(
        self, codes: npt.NDArray[np.int32], max_size: int, seconds: float = 0.0
    ) -> None: ...
    @property
    def searched_size(self) -> int:
        """The size up to which the search ended; RuntimeError before the last step."""

    @property
    def n_unique(self) -> int:
        """The number of records that equal no other on all keys; RuntimeError before the last step.

        Here a missing value equals a missing value.
        """

    @property
    def n_paired(self) -> int:
        """Likewise the number of records that equal exactly one other."""

    def msu_records(self) -> npt.NDArray[np.int32]:
        """The record of each MSU, (u,), ascending. RuntimeError before the last step."""

    def msu_keys(self) -> npt.NDArray[np.uint32]:
        """The keys of each MSU, (u,): bit j is set for key j; of a record the smaller sets first,
        then the smaller number. RuntimeError before the last step.
        """

class CopyDrain:
    """Concatenated rows of a COPY … TO STDOUT (FORMAT binary) from libpq.

    connection: the address of a PGconn in which a COPY has begun, with nobody else at it;
    get_copy_data, consume_input, free: those of PQgetCopyData, PQconsumeInput and PQfreemem of the
    libpq that made it; head: bytes of the COPY's head. Addresses of anything else end the process.
    """

    def __init__(
        self, connection: int, get_copy_data: int, consume_input: int, free: int, head: int
    ) -> None: ...
    def drain(self, rows: int) -> int:
        """Read rows until this many are buffered, without the GIL; never blocks.

        0: there are; 1: the server has to be waited for; 2: the last one was taken; 3: libpq has
        no more of them, and the end did not come.
        """
    @property
    def rows(self) -> int:
        """The number of buffered rows."""
    def take(self) -> npt.NDArray[np.uint8]:
        """Move out the bytes of the buffered rows, (m,)."""

class RowJoin:
    """Rows of a binary COPY: the number of fields, a head, and an optional tail.

    heads, tails: uint8, their fields with their lengths; head_ends, tail_ends: int64, where each of
    them ends. They must not change in the meantime. Ends that do not rise raise ValueError.
    """

    def __init__(
        self,
        fields: int,
        heads: npt.NDArray[np.uint8],
        head_ends: npt.NDArray[np.int64],
        tails: npt.NDArray[np.uint8],
        tail_ends: npt.NDArray[np.int64],
    ) -> None: ...
    def join(
        self,
        head_of: npt.NDArray[np.int64],
        tail_of: npt.NDArray[np.int64] | None,
        start: int,
        stop: int,
    ) -> npt.NDArray[np.uint8]:
        """The bytes of the rows from start to before stop, of a head and a tail each, (r,)."""

def block_of(
    points: npt.NDArray[np.float64],
    keys: npt.NDArray[np.int64],
    directions: npt.NDArray[np.float64],
    borders: npt.NDArray[np.float64],
    cut_keys: npt.NDArray[np.int64],
    sides: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """The block of each record by a tree of cuts, int64 (n,); without the GIL.

    points: float64 (n, p); keys: int64 (n,). Of each of m cuts the direction, float64 (m, p), the
    border, float64 (m,), the key that decides on the border, int64 (m,), and where records below it
    go and the others, int64 (m, 2): to a later cut, or to block b as -1 - b. Other shapes, and cuts
    that lead back, raise ValueError.
    """

def standardized(
    numbers: npt.NDArray[np.float64],
    records: npt.NDArray[np.int64],
    exponents: npt.NDArray[np.int64],
    shifts: npt.NDArray[np.float64],
    scales: npt.NDArray[np.float64],
    factors: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Some rows, each number as (x * 2**-exponent - shift) / scale * factor; without the GIL.

    numbers: float64 (n, p); records: int64 (m,), positions of rows. Of each column an exponent,
    int64 (p,), and three float64 (p,); where a scale is 0 so is the column. Returns float64 (m, p),
    bit for bit what numpy makes of it. Other shapes, and positions that are none, raise ValueError.
    """

def exact_sums(
    values: npt.NDArray[np.float64],
) -> tuple[float, float, bool, list[tuple[int, int, int, int, int, int]]]:
    """The smallest and the largest value, whether all are whole, and the sums by exponent.

    values: float64 (n,), at any step; what is not finite raises ValueError. Of each exponent that
    occurs: the power of two of its unit above 2**-1074; the sum in two words of 64 bits, the first
    with its sign; and the sum of squares, in squares of that unit, in three. Without the GIL.
    """
