"""Guarantees of every method, over the entire registry: house rules, section 3."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.data.chunks import Chunk, microdata_from_chunks
from dbanon.data.microdata import Microdata
from dbanon.data.partition import AttributePartition, Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import Cancelled, NonFiniteValue, TooFewRecords, UnsupportedType
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.policy import Policy
from dbanon.measures import centroid_loss
from dbanon.methods import METHODS
from dbanon.partitioning.classes import find_attribute_classes, find_classes
from tests.conftest import CAMPAIGN
from tests.prerequisites import skip_case

NUMERIC = [name for name, method in METHODS.items() if not method.takes_categories]
POINTS = [name for name in NUMERIC if METHODS[name].takes_points]
# Of each method.
EXAMPLES = 200 if CAMPAIGN else 20

pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.RowsNotAnonymous")


def test_the_registry_has_each_method_under_its_name() -> None:
    assert [method.name for method in METHODS.values()] == list(METHODS)


each_method = pytest.mark.parametrize("method", [METHODS[n] for n in NUMERIC], ids=NUMERIC)


@st.composite
def tables(draw):
    """Small tables of all sorts, and a k; the counts at which methods change their course too."""
    k = draw(st.integers(2, 6))
    n = draw(
        st.one_of(
            st.sampled_from([k, 2 * k - 1, 2 * k, 3 * k - 1, 3 * k, 4 * k]), st.integers(k, 60)
        )
    )
    p = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "clusters", "ties", "binary", "repeated", "skewed"]))
    numbers = rng.normal(size=(n, p))
    if kind == "clusters":
        numbers += 8.0 * rng.integers(0, 3, size=(n, 1))
    elif kind == "ties":
        numbers = numbers.round()
    elif kind == "binary":
        numbers = rng.integers(0, 2, size=(n, p)).astype(float)
    elif kind == "repeated":
        numbers = numbers[rng.integers(0, max(1, n // 4), size=n)]
    elif kind == "skewed":
        numbers = np.exp(4 * numbers)
    if draw(st.booleans()):
        numbers[:, rng.integers(0, p)] = 0.1
    return numbers, k


def microdata(numbers, method) -> Microdata:
    numbers = numbers[:, : method.max_attributes]
    attributes = [Attribute(f"a{j}", Kind.FLOAT) for j in range(numbers.shape[1])]
    keys = np.arange(len(numbers), dtype=np.int64).reshape(-1, 1)
    return microdata_from_chunks(attributes, [Chunk(keys, np.ascontiguousarray(numbers))])


def partitions(numbers, k, method, **policy) -> list[Partition]:
    """The partition of the rows, or one for each attribute."""
    data = microdata(numbers, method)
    complete_policy = Policy(k=k, method=method.name, **policy)
    if method.result_type is AttributePartition:
        return list(find_attribute_classes(data, complete_policy).partitions)
    return [find_classes(data, complete_policy)]


def labels(numbers, k, method, **policy):
    return np.array([partition.labels for partition in partitions(numbers, k, method, **policy)])


@each_method
@given(table=tables(), seed=st.integers(0, 2**32))
@settings(max_examples=EXAMPLES, deadline=None)
def test_contract(method, table, seed):
    numbers, k = table
    numbers.flags.writeable = False
    before = numbers.copy()
    n = len(numbers)
    found_partitions = partitions(numbers, k, method, seed=seed)
    for partition in found_partitions:
        # Every record once, k or more to a class, the declared maximum kept.
        assert len(partition.labels) == n
        assert partition.n_suppressed == 0
        assert partition.sizes.min() >= k
        if method.max_size is not None:
            assert partition.sizes.max() <= method.max_size(k)
        if n < 2 * k:
            assert partition.n_classes == 1
    first = np.array([partition.labels for partition in found_partitions])
    # The input is unchanged, and the same seed gives the same classes.
    np.testing.assert_array_equal(numbers, before)
    np.testing.assert_array_equal(labels(numbers, k, method, seed=seed), first)
    # Powers of two change no bit after standardization.
    scales = 2.0 ** np.arange(-3, numbers.shape[1] - 3)
    np.testing.assert_array_equal(labels(numbers * scales, k, method, seed=seed), first)


@each_method
@given(table=tables())
@settings(max_examples=15, deadline=None)
def test_constant_column_changes_nothing(method, table):
    if method.max_attributes == 1:
        skip_case("takes one attribute")
    numbers, k = table
    wider = np.column_stack((numbers, np.full(len(numbers), 0.1)))
    plain = labels(numbers, k, method)
    np.testing.assert_array_equal(labels(wider, k, method)[: len(plain)], plain)


@each_method
@pytest.mark.parametrize("n", [5, 9, 10, 14, 15, 40])
def test_identical_records_lose_nothing(method, n):
    numbers = np.full((n, 3), 0.1)
    for partition in partitions(numbers, 5, method):
        assert partition.sizes.min() >= 5
        assert centroid_loss(numbers, partition).total == 0.0


@each_method
@pytest.mark.parametrize("n", [1, 4])
def test_too_few_records(method, n):
    with pytest.raises(TooFewRecords):
        partitions(np.zeros((n, 2)), 5, method)


@each_method
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(method, value):
    numbers = np.zeros((9, 2))
    numbers[3, 0] = value
    with pytest.raises(NonFiniteValue, match="a0"):
        partitions(numbers, 3, method)


@each_method
def test_no_bounds_on_magnitude(method):
    for scale in (1e300, 5e-324, 1e-310):
        numbers = np.random.default_rng(0).integers(-9, 9, size=(30, 2)) * scale
        for partition in partitions(numbers, 3, method):
            assert partition.sizes.min() >= 3


@each_method
def test_refused_when_ticked_off(method):
    """An exception raised by tick ends the run."""

    def stop(share):
        raise Cancelled

    numbers = np.random.default_rng(0).normal(size=(50, 2))
    run = find_attribute_classes if method.result_type is AttributePartition else find_classes
    with pytest.raises(Cancelled):
        run(microdata(numbers, method), Policy(k=3, method=method.name), stop)


@each_method
def test_described(method):
    for text in (method.summary, method.data, method.class_sizes, method.cost, method.reference):
        assert text
    assert method.check_options({}) == {o.name: o.default for o in method.options}


@st.composite
def mixed_tables(draw):
    """Numbers, ranks, text and text with a hierarchy, some of it NULL, and a k."""
    k = draw(st.integers(2, 5))
    n = draw(st.integers(k, 50))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    width = draw(st.sampled_from([1, 2, 12]))
    text = rng.integers(0, width, n).astype(np.int32)
    codes = np.column_stack([rng.integers(0, 3, n), text, rng.integers(0, 4, n)]).astype(np.int32)
    valid = None
    if draw(st.booleans()) and n >= 2 * k:
        valid = np.ones((n, 4), bool)
        valid[:k, 2] = False
    return rng.normal(size=(n, 1)).round(draw(st.integers(0, 3))), codes, valid, k


GRADES = ("low", "middle", "high")
PLACES = Hierarchy.from_nested({"*": {"north": ["Kiel", "Ulm"], "south": ["Pisa", "Rome", "Bari"]}})
CITIES = ("Bari", "Kiel", "Pisa", "Rome")


def mixed_microdata(numbers, codes, valid) -> Microdata:
    attributes = [
        Attribute("size", Kind.FLOAT),
        Attribute("grade", Kind.ORDINAL, order=GRADES),
        Attribute("text", Kind.CATEGORY),
        Attribute("city", Kind.CATEGORY),
    ]
    keys = np.arange(len(numbers), dtype=np.int64).reshape(-1, 1)
    texts = [f"text {i:02}" for i in range(12)]
    return microdata_from_chunks(
        attributes, [Chunk(keys, numbers, codes, valid)], categories=[list(GRADES), texts, CITIES]
    )


@pytest.mark.parametrize("name", POINTS)
@given(table=mixed_tables(), seed=st.integers(0, 2**32), refine=st.sampled_from([None, "fast"]))
@settings(max_examples=18 if CAMPAIGN else 10, deadline=None)
def test_contract_of_mixed_data(name, table, seed, refine):
    *parts, k = table
    data = mixed_microdata(*parts)
    method = METHODS[name]
    options = {"generations": 5} if "generations" in {o.name for o in method.options} else {}
    policy = Policy(
        k=k,
        method=name,
        recoding="representative",
        hierarchies={"city": PLACES},
        seed=seed,
        nulls="category",
        refine=refine,
        options=options,
    )
    partition = find_classes(data, policy)
    assert partition.n_suppressed == 0
    assert partition.sizes.min() >= k
    if refine is not None:
        assert partition.sizes.max() <= 2 * k - 1
    elif method.max_size is not None:
        assert partition.sizes.max() <= method.max_size(k)
    if data.valid is not None:
        # No class crosses a pattern of NULLs.
        missing = ~data.valid[:, 2]
        assert not set(partition.labels[missing]) & set(partition.labels[~missing])
    np.testing.assert_array_equal(find_classes(data, policy).labels, partition.labels)


@pytest.mark.parametrize("name", [name for name in NUMERIC if name not in POINTS])
def test_methods_of_one_line_refuse_text(name):
    data = mixed_microdata(np.zeros((9, 1)), np.zeros((9, 3), np.int32), None)
    data = data.select_attributes(["text"])
    per_attribute = (
        {"guarantee": "per_attribute"} if not METHODS[name].result_type.has_row_classes else {}
    )
    policy = Policy(k=3, method=name, **per_attribute)
    find = find_attribute_classes if per_attribute else find_classes
    with pytest.raises(UnsupportedType, match="mdav"):
        find(data, policy)


@pytest.mark.parametrize("name", POINTS)
def test_text_is_not_taken_without_a_recoding_for_it(name):
    data = mixed_microdata(np.zeros((9, 1)), np.zeros((9, 3), np.int32), None)
    data = data.select_attributes(["size", "text"])
    with pytest.raises(UnsupportedType, match='recoding="representative"'):
        find_classes(data, Policy(k=3, method=name))
