"""Local suppression by plain counts over all pairs of rows, and all choices of cells.

Slow: it visits all (2 ** m) ** n choices of cells to blank in n rows of m columns.
"""

import itertools

import numpy as np


def count_rows(released, originals, columns, missing):
    """Count the rows that share each released row's values, pair by pair."""
    counts = []
    for row in released:
        n_rows = 0
        for other in originals if missing == "own_wildcard" else released:
            pairs = [(row[column], other[column]) for column in columns]
            if missing == "category":
                n_rows += all(a == b for a, b in pairs)
            else:
                n_rows += all(a == b or a == -1 or b == -1 for a, b in pairs)
        counts.append(n_rows)
    return np.array(counts)


def least_cost(codes, demands, prices, missing):
    """The least cost of all choices of cells that meet all demands.

    demands: columns and k of each.
    """
    n, m = codes.shape
    choices = np.array(list(itertools.product(range(2**m), repeat=n)))
    blank = (choices[:, :, None] >> np.arange(m) & 1).astype(bool)
    # A missing cell has nothing to blank, which costs nothing and changes nothing.
    costs = (blank * prices * (codes >= 0)).sum(axis=(1, 2))
    is_missing = blank | (codes < 0)
    is_feasible = np.ones(len(choices), bool)
    for columns, k in demands:
        for i in range(n):
            counts = np.zeros(len(choices), int)
            for j in range(n):
                agrees = np.ones(len(choices), bool)
                for column in columns:
                    is_equal = codes[i, column] == codes[j, column]
                    ours, theirs = is_missing[:, i, column], is_missing[:, j, column]
                    if missing == "category":
                        agrees &= (ours & theirs) | (~ours & ~theirs & is_equal)
                    elif missing == "wildcard":
                        agrees &= ours | theirs | is_equal
                    else:
                        agrees &= ours | (codes[j, column] < 0) | is_equal
                counts += agrees
            is_feasible &= counts >= k
    return costs[is_feasible].min()
