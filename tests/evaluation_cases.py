"""Small releases of all kinds to test measures, as plain lists and in the package's form."""

import numpy as np
from hypothesis import strategies as st

from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.measures.attributes import Categories, Intervals, Nodes, Numbers
from dbanon.measures.pairs import Pairs
from tests.generalization_data import random_tree
from tests.reference.evaluation_case import Case

KINDS = ("number", "ordinal", "nominal", "interval", "ordinal interval", "node")


def filled(values, fill=0.0):
    """Values with `fill` for None, and a mask of those that are not None, or None if all
    are valid.
    """
    valid = np.array([value is not None for value in values], bool)
    numbers = np.array([fill if value is None else value for value in values], float)
    return numbers, None if valid.all() else valid


def attribute(column):
    """One column of a case in the package's form."""
    kind, name = column["kind"], column["name"]
    if kind == "nominal":
        codes = [
            np.array([-1 if value is None else value for value in values], np.int32)
            for values in (column["x"], column["y"])
        ]
        return Categories(name=name, original=codes[0], released=codes[1])
    if kind == "node":
        tree = column["tree"]
        leaves = [-1 if value is None else tree.positions[value] for value in column["x"]]
        nodes = [-1 if value is None else tree.node(value) for value in column["y"]]
        return Nodes(
            name=name,
            original=np.array(leaves, np.int32),
            released=np.array(nodes, np.int32),
            tree=tree,
        )
    original, valid = filled(column["x"], 7.25)
    common = {
        "name": name,
        "original": original,
        "scale": Scale.of(original if valid is None else original[valid]),
        "valid": valid,
        "is_ordinal": kind.startswith("ordinal"),
    }
    if not kind.endswith("interval"):
        released, released_valid = filled(column["y"], -3.5)
        return Numbers(**common, released=released, released_valid=released_valid)
    low, released_valid = filled([None if y is None else y[0] for y in column["y"]], -3.5)
    high, _ = filled([None if y is None else y[1] for y in column["y"]], -3.5)
    return Intervals(**common, low=low, high=high, released_valid=released_valid)


def pairs(case):
    """A case in the package's form."""
    return Pairs(
        tuple(attribute(column) for column in case.columns),
        Partition(case.labels),
        strata=None if case.strata is None else np.array(case.strata, np.int32),
        entities=None if case.entities is None else np.array(case.entities, np.int32),
    )


def _values(rng, kind, n, tree):
    if kind == "nominal":
        return rng.integers(0, 4, n).tolist()
    if kind == "node":
        return [tree.labels[tree.leaves[at]] for at in rng.integers(0, tree.n_leaves, n)]
    if kind.startswith("ordinal"):
        return rng.integers(0, 5, n).astype(float).tolist()
    spread = rng.choice(["normal", "grid", "constant", "skewed"], p=[0.4, 0.4, 0.1, 0.1])
    if spread == "constant":
        return [0.1] * n
    values = rng.normal(size=n) if spread != "skewed" else np.exp(3 * rng.normal(size=n))
    return (np.round(2 * values) if spread == "grid" else values).tolist()


def _released(rng, kind, values, members, tree):
    """The released value of each class: mostly derived from its members."""
    released = []
    for class_members in members:
        mine = [values[i] for i in class_members if values[i] is not None]
        if not mine:
            released.append(None)
            continue
        member = mine[int(rng.integers(0, len(mine)))]
        if kind == "number":
            mean = min(max(float(np.mean(mine)), min(mine)), max(mine))
            released.append(float(rng.choice([mean, member, member + 0.25])))
        elif kind == "node":
            path = tree.path(member)
            released.append(path[int(rng.integers(0, len(path)))])
        elif kind.endswith("interval"):
            low, high = min(mine), max(mine)
            cut = 0.5 * (high - low) * (rng.random() < 0.3)
            released.append((low, high - (np.floor(cut) if kind.startswith("ordinal") else cut)))
        else:
            released.append(member)
    return released


def make(rng, n, kinds, nulls="none", strata=False, entities=False):
    """A case of n records with one column for each kind.

    nulls: `none`; `patterns`, where classes do not mix them; or `any`, before and after.
    """
    n_classes = int(rng.integers(1, n + 1))
    labels = np.concatenate((np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)))
    labels = rng.permutation(labels)
    members = [np.flatnonzero(labels == label).tolist() for label in range(n_classes)]
    columns = []
    for at, kind in enumerate(kinds):
        shape = rng.choice(["flat", "even", "uneven", "one"])
        tree = random_tree(rng, int(rng.integers(2, 7)), shape) if kind == "node" else None
        values = _values(rng, kind, n, tree)
        if nulls != "none":
            missing = rng.random(n_classes if nulls == "patterns" else n) < 0.25
            missing = missing[labels] if nulls == "patterns" else missing
            values = [None if null else value for value, null in zip(values, missing, strict=True)]
        released = _released(rng, kind, values, members, tree)
        if nulls == "any":
            released = [None if rng.random() < 0.1 else value for value in released]
        columns.append({"name": f"a{at}", "kind": kind, "x": values, "y": released, "tree": tree})
    of_class = rng.integers(0, 3, n_classes)
    return Case(
        columns,
        labels.tolist(),
        of_class[labels].tolist() if strata else None,
        rng.integers(0, max(n // 2, 1), n).tolist() if entities else None,
    )


@st.composite
def cases(draw, kinds=KINDS):
    """Cases of up to 30 records and 4 columns."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return make(
        rng,
        draw(st.integers(1, 30)),
        draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)),
        draw(st.sampled_from(["none", "none", "patterns", "any"])),
        draw(st.booleans()),
        draw(st.booleans()),
    )
