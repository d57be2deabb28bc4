"""Small mixed tables and hierarchies of all shapes, for hypothesis."""

from contextlib import contextmanager

import numpy as np
from hypothesis import strategies as st

from dbanon import kernels
from dbanon.data.number_levels import NumberLevels
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.levels import LevelSpace
from dbanon.spaces.mixed import ROOT_COST, LabelCosts, MixedSpace


@contextmanager
def mixed_search(search):
    """Kernels of mixed records that take their first step in this context search like this."""
    kernels.set_mixed_search(search)
    try:
        yield
    finally:
        kernels.set_mixed_search("auto")


def random_tree(rng, leaves, shape):
    """A hierarchy with about so many leaves: flat, even, uneven, a path of 12 levels, or
    one leaf.
    """
    if shape == "one":
        return Hierarchy(["root"], [-1])
    if shape == "flat":
        return Hierarchy(["root", *(f"v{i}" for i in range(leaves))], [-1] + [0] * leaves)
    if shape == "deep":
        rows = [
            [f"v{i}", *(f"{i // 2**j}/{j}" for j in range(1, 12)), "root"] for i in range(leaves)
        ]
        return Hierarchy.from_levels(rows)
    if shape == "even":
        return Hierarchy.from_levels([[f"v{i}", f"g{i // 3}", "root"] for i in range(leaves)])
    parents = [None] + [int(rng.integers(0, i)) for i in range(1, 2 * leaves)]
    return Hierarchy.from_parents(
        [(f"n{i}", None if p is None else f"n{p}") for i, p in enumerate(parents)]
    )


def draw_space(draw, n):
    """A space of n records with 1 to 5 attributes, many of them equal."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    d = draw(st.integers(1, 5))
    columns, trees, units = [], [], []
    for _ in range(d):
        unit = ROOT_COST if rng.random() < 0.8 else ROOT_COST // 1024 * int(rng.integers(0, 1024))
        kind = rng.choice(["number", "grid", "one", "flat", "even", "deep", "uneven"])
        if kind == "number":
            tree, codes = None, rng.integers(0, unit + 1, n)
        elif kind == "grid":
            tree, codes = None, rng.integers(0, 5, n) * (unit // 4)
        else:
            tree = random_tree(rng, int(rng.integers(2, 9)), kind)
            codes = rng.integers(0, tree.n_leaves, n)
        columns.append(codes)
        trees.append(tree)
        units.append(unit)
    rows = np.column_stack(columns).astype(np.int32)
    if rng.random() < 0.5:
        rows = rows[rng.integers(0, max(1, n // 3), n)]
    names = tuple(f"a{i}" for i in range(d))
    return MixedSpace(np.ascontiguousarray(rows), np.array(units, np.int64), tuple(trees), names)


def with_levels(space):
    """A space as full-domain methods see it: the codes of numbers are the numbers."""
    numbers = [
        None
        if tree is not None
        else NumberLevels.of(Attribute(name, Kind.INTEGER), Scale.of(codes), None)
        for name, tree, codes in zip(
            space.names, space.trees, space.codes.astype(float).T, strict=True
        )
    ]
    return LevelSpace(space, tuple(numbers), space.codes.astype(float))


def draw_costs(draw, space):
    """Costs of labels; some number columns have them, with few or the maximum number of pieces.

    A wider label costs no less.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pieces, firsts, costs = [], [], []
    for unit, tree in zip(space.root_costs.tolist(), space.trees, strict=True):
        w = 0 if tree is not None or not unit else int(rng.choice([0, 1, 2, 5, 30, 256]))
        pieces.append(w)
        firsts.append(np.sort(np.append(rng.integers(0, unit + 1, max(w - 1, 0)), [0] * (w > 0))))
        table = np.triu(rng.integers(0, unit + 1, (w, w)), 1)
        table = np.maximum.accumulate(table, axis=1)
        table = np.triu(np.maximum.accumulate(table[::-1], axis=0)[::-1])
        costs.append((table if rng.random() < 0.5 else table // (unit // 4 + 1)).reshape(-1))
    return LabelCosts(
        np.array(pieces, np.int32),
        np.concatenate(firsts).astype(np.int32),
        np.concatenate(costs).astype(np.int32),
    )


@st.composite
def spaces(draw, largest=60):
    """A space, and a k that its records allow."""
    k = draw(st.integers(2, 6))
    n = draw(st.one_of(st.integers(k, largest), st.sampled_from([k, 2 * k - 1, 2 * k])))
    return draw_space(draw, n), k
