"""Privacy models that count persons: kernels beside the plain way, record by record."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon import kernels
from dbanon.data.microdata import first_record_mask
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model
from dbanon.partitioning.merge import Guard, satisfies_models
from dbanon.partitioning.protect import compile_models
from dbanon.spaces.mixed import ROOT_COST, MixedSpace
from tests.reference import enforce as reference_enforce
from tests.unit.kernels.test_model_kernels import EMPTY, NO_RANGES, cases, finish
from tests.unit.kernels.test_model_kernels import guard_of as guard_of_records


def widths_of(codes, models):
    names = list(dict.fromkeys(model.attribute for model in models))
    widths = {name: int(codes[name].max()) + 1 for name in names}
    for model in models:
        if not isinstance(model.distance, str):
            widths[model.attribute] = model.distance.n_leaves
    return names, widths


def guard_of(codes, models, who, labels):
    """The input of the kernel, and the shares of the table, counted with sets."""
    names, widths = widths_of(codes, models)
    released = np.flatnonzero(labels >= 0)
    size = len({who[i] for i in released})
    tables = {}
    for name in names:
        pairs = {(who[i], codes[name][i]) for i in released}
        tables[name] = np.bincount([v for _, v in pairs], minlength=widths[name]) / size
    columns = [np.where(first_record_mask(who, codes[name]), codes[name], -1) for name in names]
    columns.append(np.where(first_record_mask(who), 0, -1))
    values = np.column_stack(columns).astype(np.int32)
    return Guard(values, compile_models(models, names, tables, counts_persons=True)), tables


@given(cases(), st.integers(0, 20), st.integers(1, 6), st.integers(1, 3))
@settings(max_examples=250, deadline=None)
def test_the_kernel_equals_the_plain_version(case, budget, size, records):
    space, _, codes, models = case
    n = space.n_records
    rng = np.random.default_rng(n)
    who = np.sort(rng.integers(0, max(n // records, 1), n)).astype(np.int64)
    # All records of a person are in one class.
    of_person = rng.permutation(int(who.max()) + 1) // size
    _, labels = np.unique(of_person[who], return_inverse=True)
    labels = labels.reshape(-1).astype(np.int32)
    guard, _ = guard_of(codes, models, who, labels)
    named = {m.attribute: codes[m.attribute] for m in models}
    arguments = (space.table(), labels, guard.values, guard.models, budget)
    actual = finish(kernels.Enforce(*arguments))
    np.testing.assert_array_equal(
        actual,
        reference_enforce.enforce(space, labels, named, models, budget, who, guard.models),
    )
    np.testing.assert_array_equal(actual, finish(kernels.Enforce(*arguments), 1))


@given(cases(), st.integers(1, 8), st.data())
@settings(max_examples=300, deadline=None)
def test_keeping_to_a_model_is_what_the_measure_says(case, n, data):
    _, _, codes, models = case
    who = np.arange(len(codes["a"])) // 2
    guard, tables = guard_of(codes, models, who, np.zeros(len(who), np.int32))
    counts = {
        name: np.array(data.draw(st.lists(st.integers(0, n), min_size=len(w), max_size=len(w))))
        for name, w in tables.items()
    }
    # Everybody has a value.
    if any(actual.sum() < n for actual in counts.values()):
        return
    together = np.concatenate([*counts.values(), [n]]).astype(np.int32)
    persons = np.array([n])
    expected = all(
        m.is_satisfied(counts[m.attribute].reshape(1, -1), tables[m.attribute], persons)[0]
        for m in models
    )
    assert guard.models.keeps(together) == expected


@given(cases(), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_one_record_each_is_as_without_persons(case, size):
    space, _, codes, models = case
    n = space.n_records
    labels = (np.random.default_rng(n).permutation(n) // size).astype(np.int32)
    guard, _ = guard_of(codes, models, np.arange(n), labels)
    named = {m.attribute: codes[m.attribute] for m in models}
    actual = finish(kernels.Enforce(space.table(), labels, guard.values, guard.models, 0))
    exact = guard_of_records(codes, models, labels)[0].models
    np.testing.assert_array_equal(
        actual, reference_enforce.enforce(space, labels, named, models, exact=exact)
    )
    assert satisfies_models(guard) == guard.models.keeps(
        np.concatenate(
            [
                np.bincount(c[c >= 0], minlength=w)
                for c, w in zip(guard.values.T, guard.models.widths, strict=True)
            ]
        ).astype(np.int32)
    )


@pytest.mark.parametrize("wish", ["equal_t", "ordered_t", "hierarchical_t"])
def test_with_a_value_each_distances_are_those_of_records_to_the_last_bit(wish):
    rng = np.random.default_rng(4)
    tree = Hierarchy.from_nested({"*": {"a": ["b", "c", "d"], "e": ["f", "g"], "h": ["i", "j"]}})
    shape = (EMPTY, NO_RANGES)
    if wish == "hierarchical_t":
        shape = (tree.parents.astype(np.int32), tree.leaf_ranges.astype(np.int32))
    for _ in range(200):
        table, counts = rng.multinomial(60, np.ones(7) / 7) / 60, rng.multinomial(9, np.ones(7) / 7)
        of_records = kernels.Models(np.array([7], np.int32), False)
        of_persons = kernels.Models(np.array([7, 1], np.int32), True)
        for models in (of_records, of_persons):
            models.add(wish, 0, 0.0, 1, table, *shape)
        together = np.append(counts, 9).astype(np.int32)
        assert of_persons.lack(together) == of_records.lack(together[:7])


@pytest.mark.parametrize(
    ("distance", "level", "places", "values", "before"),
    [
        ("equal", 0.1, "000012222", "011100011", "011234455"),
        ("ordered", 0.15, "0000111111112222", "0110001111000000", "0001122234556778"),
    ],
)
def test_what_helps_by_rounding_alone_is_no_help(distance, level, places, values, before):
    """A neighbour at no loss would be taken for it, where persons have a record each."""
    places, values, labels = (np.array(list(guard), np.int32) for guard in (places, values, before))
    codes = (places * (ROOT_COST // 8)).reshape(-1, 1)
    table = MixedSpace(codes, np.array([ROOT_COST]), (None,), ("a",)).table()
    models = [Model("t_closeness", "b", level, distance=distance)]
    of_records = guard_of_records({"b": values}, models, labels)[0]
    of_persons = guard_of({"b": values}, models, np.arange(len(labels)), labels)[0]
    actual, others = (
        finish(kernels.Enforce(table, labels, guard.values, guard.models, 0))
        for guard in (of_persons, of_records)
    )
    np.testing.assert_array_equal(actual, others)
    assert actual.max() > 0


def test_what_is_refused():
    with pytest.raises(ValueError, match="must have one value"):
        kernels.Models(np.array([3, 2], np.int32), True)
    models = kernels.Models(np.array([2, 1], np.int32), True)
    assert models.persons
    models.add("alpha_k", 0, 0.5, 2, np.array([0.5, 0.5]), EMPTY, NO_RANGES)
    assert models.keeps(np.array([2, 2, 4], np.int32))
    assert not models.keeps(np.array([2, 3, 4], np.int32))
    assert not models.keeps(np.array([0, 0, 0], np.int32))
