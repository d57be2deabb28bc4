"""A release and column statistics for measures in plain loops: slow and obvious.

A case holds columns, each a dictionary: `name`, `kind`, `x` (the originals, None for NULL) and `y`
(the released value of each class, None for NULL). Kinds: `number`, `ordinal` (ranks), `nominal`,
`interval` and `ordinal interval` (y are pairs), `node` (x are leaves, y labels of the `tree`).
"""

import statistics
from dataclasses import dataclass, field


@dataclass
class Case:
    columns: list
    labels: list
    strata: list | None = None
    entities: list | None = None
    groups: dict = field(default_factory=dict)

    @property
    def n(self):
        return len(self.labels)

    def y(self, column, record):
        return column["y"][self.labels[record]]

    def numbers(self):
        return [column for column in self.columns if column["kind"] == "number"]

    def all_numbers(self):
        return len(self.numbers()) == len(self.columns)

    def cells(self, column):
        """Records whose value is NULL neither before nor after."""
        return [
            i for i in range(self.n) if column["x"][i] is not None and self.y(column, i) is not None
        ]


def once(compute):
    """Cache the result of ``compute`` in the column."""

    def cached(column):
        if compute.__name__ not in column:
            column[compute.__name__] = compute(column)
        return column[compute.__name__]

    return cached


@once
def non_null(column):
    return [value for value in column["x"] if value is not None]


@once
def varies(column):
    return len(set(non_null(column))) > 1


@once
def mean(column):
    return statistics.fmean(non_null(column))


@once
def deviation(column):
    return statistics.stdev(non_null(column))


def z(column, value):
    return (value - mean(column)) / deviation(column) if varies(column) else 0.0


# --- distances of eq. (11) -----------------------------------------------------------------------


@once
def ladder(column):
    return sorted(set(non_null(column)))


def rank_share(column, value):
    return sum(other < value for other in ladder(column)) / max(len(ladder(column)), 1)


@once
def width(column):
    return max(non_null(column)) - min(non_null(column))


@once
def heights(column):
    """The height of each node by label: edges down to its deepest leaf."""
    tree, nodes = column["tree"], {}
    for leaf in tree.leaves.tolist():
        for height, label in enumerate(tree.path(tree.labels[leaf])):
            nodes[label] = max(nodes.get(label, 0), height)
    return nodes


def apart(column, x, y):
    if x is None or y is None:
        return 0.0
    kind = column["kind"]
    if kind == "nominal":
        return float(x != y)
    if kind == "node":
        tree, height = column["tree"], heights(column)
        above = next(label for label in tree.path(x) if label in tree.path(y))
        return (height[above] - height[y]) / max(max(height.values()), 1)
    if kind.startswith("ordinal"):
        ends = [rank_share(column, value) for value in (y if kind.endswith("interval") else (y, y))]
        at = rank_share(column, x)
        return max(ends[0] - at, at - ends[1], 0.0)
    low, high = y if kind == "interval" else (y, y)
    return max(low - x, x - high, 0.0) / width(column) if width(column) else 0.0
