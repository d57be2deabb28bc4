"""Data frames, anonymized: read, released and counted again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata, require_entities
from dbanon.data.partition import AttributePartition, Levels, Partition
from dbanon.data.schema import Attribute, Kind, require_lists
from dbanon.errors import (
    InvalidParameter,
    RecountFailed,
)
from dbanon.hierarchy.leaves import column_texts, leaf_text
from dbanon.hierarchy.spec import Given, HierarchySpec, build, built, parse_all, require_own_ranges
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import check_entity, check_models
from dbanon.job.policy import Policy, require_guarantee, require_kinds
from dbanon.measures import Model, sensitive_counts
from dbanon.measures.models import ModelLevel
from dbanon.partitioning.classes import find_attribute_classes, find_classes
from dbanon.partitioning.entities import as_identifier
from dbanon.partitioning.protect import (
    protect,
    require_models,
    width_of,
    with_null_leaves,
)
from dbanon.recoding import GENERALIZED, RANGE, ReleasedColumn
from dbanon.release.counts import Recount
from dbanon.release.recode import Release, recode
from dbanon.release.report import Report
from dbanon.stores.base import random_order
from dbanon.stores.frame.categories import with_own_categories
from dbanon.stores.frame.kept import telling_columns
from dbanon.stores.frame.microdata import (
    attribute_of,
    candidates,
    microdata_from_frame,
    require_columns,
)
from dbanon.version import version


def anonymize_frame(
    frame: pd.DataFrame,
    *,
    quasi_identifiers: Sequence[str],
    k: int,
    method: str = "mdav",
    options: Mapping[str, Any] | None = None,
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    standardize: str = "zscore",
    weights: Mapping[str, float] | None = None,
    nulls: str = "error",
    max_suppression: float | None = 0.0,
    recoding: str | None = None,
    seed: int = 0,
    refine: str | None = None,
    hierarchies: Mapping[str, Given] | None = None,
    intervals: str = "text",
    local_range: bool = False,
    steps: Mapping[str, float] | None = None,
    refine_iterations: int | None = None,
    refine_seconds: float | None = None,
    block_size: int | None = None,
    models: Sequence[Model] = (),
    withhold_failing: bool = False,
    orders: Mapping[str, Sequence[str]] | None = None,
    guarantee: str = "rows",
    strict: bool = False,
) -> tuple[pd.DataFrame, Report]:
    """Anonymize a data frame; the result is counted again before it is returned.

    Rows come back in fresh random order under a new index. Columns named nowhere are left out.
    NaN and NaT are NULLs.

    Parameters
    ----------
    frame : the records; its order is the record order, its index is not looked at.
    quasi_identifiers, sensitive, keep : column names by role.
    by : columns whose values make strata: released as they are, no class crosses them, and k counts
        them as quasi-identifiers.
    entity : the column that says whose a row is: k counts its distinct values, and all rows of one
        (in a stratum) share a class. It is not released. None: every row is a person of its own.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``.
    models : privacy models of sensitive columns; classes are merged until each keeps to all.
    orders : the values of text columns from the lowest to the highest; ordered categoricals have
        that of their categories.

    The other parameters are those of ``Policy``. Of columns released as they are that tell too much
    ``KeptColumnTells`` warns; ``strict`` refuses them.

    Raises
    ------
    DbanonError : of the class that says what went wrong.
    """
    started = time.perf_counter()
    require_lists(
        quasi_identifiers=quasi_identifiers, by=by, sensitive=sensitive, keep=keep, models=models
    )
    policy = Policy(
        k=k,
        method=method,
        options=options or {},
        standardize=standardize,
        weights=weights or {},
        nulls=nulls,
        max_suppression=max_suppression,
        recoding=recoding,
        seed=seed,
        refine=refine,
        intervals=intervals,
        local_range=local_range,
        steps=steps or {},
        refine_iterations=refine_iterations,
        refine_seconds=refine_seconds,
        block_size=block_size,
        models=tuple(models),
        withhold_failing=withhold_failing,
        orders=orders or {},
        guarantee=guarantee,
        strict=strict,
    )
    named = [*quasi_identifiers, *by, *sensitive, *keep]
    check_entity(entity, named)
    for name in named:
        if named.count(name) > 1:
            raise InvalidParameter(f'Column "{name}" is named more than once.')
        if not isinstance(name, str):
            raise InvalidParameter(
                "The columns of the frame have names that are no text.",
                hint="Name them first: frame.columns = [...]",
            )
    check_models(policy.models, sensitive)
    read = named if entity is None else [*named, entity]
    require_columns(frame, read)
    whole = frame
    frame = candidates(frame, quasi_identifiers, policy.nulls)
    microdata = microdata_from_frame(frame, list(quasi_identifiers), read, by, orders=policy.orders)
    microdata = replace(microdata, withheld=len(whole) - len(frame))
    if entity is not None:
        microdata = replace(microdata, entities=_entities(frame[entity], entity))
    require_guarantee(policy, entity)
    require_kinds(policy, microdata.attributes)
    if policy.intervals == RANGE:
        raise InvalidParameter(
            "A data frame has no range type.", hint="Use intervals text, bounds or midpoint."
        )
    given_trees = parse_all(hierarchies, files=True)
    require_own_ranges(given_trees, local_range)

    def trees(microdata: Microdata) -> dict[str, Hierarchy]:
        return built(given_trees, microdata)

    policy = replace(
        policy,
        hierarchies=trees(microdata),
        models=with_null_leaves([_with_tree(model, frame) for model in models]),
    )
    seconds = {"read": time.perf_counter() - started}

    started = time.perf_counter()
    levels_found = None
    found: Partition | AttributePartition
    if policy.per_attribute:
        found = find_attribute_classes(microdata, policy)
    else:
        found = find_classes(microdata, policy, None, trees)
        levels_found = found if isinstance(found, Levels) else None
        codes = _sensitive_codes(frame, policy.models)
        found = protect(microdata, found, policy, codes)
    seconds["cluster"] = time.perf_counter() - started

    started = time.perf_counter()

    def exact_totals(
        partition: Partition, attributes: Sequence[Attribute]
    ) -> dict[str, NDArray[np.object_]]:
        return {a.name: _exact_totals(a, frame[a.name], partition) for a in attributes}

    release = recode(microdata, found, policy, exact_totals, by, entity, levels_found, trees)
    partition = release.partition
    records = np.flatnonzero(partition.labels >= 0)
    records = records[random_order(len(records))]
    released = _released(frame, named, records, release)
    seconds["write"] = time.perf_counter() - started

    started = time.perf_counter()
    names = [column.attribute.name for column in release.columns]
    columns = [*names, *by]
    recount = _recount(released, columns)
    if policy.per_attribute:
        alone = [_recount(released, [name, *by]) for name in names]
        recount = Recount.of_attributes(alone, recount)
    if recount.smallest < k or recount.rows != len(records):
        raise RecountFailed(
            f"The smallest class counted holds {recount.smallest} rows, fewer than k = {k}.",
            hint="This is an error in dbanon: please report it.",
        )
    persons, fewest = None, recount.smallest
    if microdata.entities is not None:
        persons, fewest = _count_entities(released, columns, microdata.entities[records], k)
    levels: tuple[ModelLevel, ...] = ()
    if models:
        classes = released.groupby(columns, dropna=False, observed=True).ngroup().to_numpy()
        written = _sensitive_codes(released, policy.models)
        levels = require_models(
            policy.models,
            {
                name: sensitive_counts(
                    Partition(classes), values, width_of(policy.models, name, values)
                )
                for name, values in written.items()
            },
        )
    tells = telling_columns(frame, [*by, *sensitive, *keep], microdata, release, policy)
    chosen = None if levels_found is None else dict(levels_found.levels)
    seconds["verify"] = time.perf_counter() - started
    report = Report(
        release_id=str(uuid.uuid4()),
        created_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        dbanon_version=version(),
        source="data frame",
        output="data frame",
        output_kind="frame",
        relation="data frame",
        method=policy.method,
        arguments=policy.arguments()
        | {"by": list(by), "telling": [vars(column) for column in tells]}
        | ({} if chosen is None else {"levels": chosen})
        | ({} if recount.k_rows is None else {"k_rows": recount.k_rows})
        | ({} if entity is None else {"entity": entity, "persons": persons}),
        quasi_identifiers=tuple(quasi_identifiers),
        sensitive=tuple(sensitive),
        kept=tuple(keep),
        not_copied=tuple(str(name) for name in frame.columns if name not in named),
        rows_in=microdata.n_read,
        rows_out=recount.rows,
        suppressed=microdata.withheld + partition.n_suppressed,
        null_rows=recount.null_rows,
        classes=recount.classes,
        smallest_class=recount.smallest,
        median_class=recount.median,
        largest_class=recount.largest,
        k_requested=int(policy.k),
        k_achieved=fewest,
        information_loss=release.loss,
        information_loss_before_rounding=release.loss_before_rounding,
        column_losses=release.losses,
        guarantee=release.guarantee,
        loss_measure=release.measure,
        models=levels,
        seconds=seconds | {"total": sum(seconds.values())},
        entity=entity,
        persons=persons,
        k_rows=recount.k_rows,
        levels=chosen,
        telling=tells,
    )
    return released, report


def _with_tree(model: Model, frame: pd.DataFrame) -> Model:
    """The model with the hierarchy that a builder makes from its column's values."""
    if not isinstance(model.distance, HierarchySpec):
        return model
    name = model.attribute
    microdata = microdata_from_frame(frame, [name])
    texts = column_texts(microdata, microdata.attributes[0])
    return replace(model, distance=build(model.distance, texts, name))


def _entities(series: pd.Series[Any], name: str) -> NDArray[np.int32]:
    """Whose each row is, as codes."""
    as_identifier(attribute_of(name, series))
    codes, _ = pd.factorize(series)
    return require_entities(codes.astype(np.int32), name)


def _count_entities(
    frame: pd.DataFrame, columns: list[str], persons: NDArray[np.int32], k: int
) -> tuple[int, int]:
    """The persons in a released frame, and in its class of fewest; ``persons``: each row's."""
    classes = frame.groupby(columns, dropna=False, observed=True).ngroup().to_numpy()
    pairs = pd.DataFrame({"class": classes, "person": persons})
    fewest = int(pairs.groupby("class").person.nunique().min())
    if fewest < k:
        raise RecountFailed(
            f"The class of fewest persons holds {fewest}, fewer than k = {k}.",
            hint="This is an error in dbanon: please report it.",
        )
    return int(pairs.person.nunique()), fewest


def _sensitive_codes(frame: pd.DataFrame, models: Sequence[Model]) -> dict[str, NDArray[np.int32]]:
    """Each sensitive column of a model as codes; NULL comes last."""
    found = {}
    for model in models:
        name = model.attribute
        if name in found and model.distance == "equal":
            continue
        if isinstance(model.distance, Hierarchy):
            valid, attribute = frame[name].notna().to_numpy(), attribute_of(name, frame[name])
            texts = [leaf_text(str(value), attribute) for value in frame[name][valid]]
            found[name] = np.full(len(frame), model.distance.n_leaves - 1, np.int32)
            found[name][valid] = model.distance.encode(texts, name)
            continue
        series = frame[name]
        if isinstance(series.dtype, pd.CategoricalDtype) and not series.dtype.ordered:
            # The order of categories that have none says nothing, and a release has another.
            series = series.astype(series.dtype.categories.dtype)
        categories = pd.Index(series.dropna().unique()).sort_values()
        codes = categories.get_indexer(series).astype(np.int32)
        codes[codes < 0] = len(categories)
        found[name] = codes
    return found


def _released(
    frame: pd.DataFrame, named: Sequence[str], records: NDArray[np.intp], release: Release
) -> pd.DataFrame:
    """The released rows in the frame's order of columns; bounds stand where their column stood."""
    labels = release.partition.labels[records]
    columns: dict[Any, pd.Series[Any]] = {}
    for name in (name for name in frame.columns if name in named):
        made = [column for column in release.columns if column.source == str(name)]
        if not made:
            columns[name] = with_own_categories(frame[name].iloc[records].reset_index(drop=True))
        for column in made:
            key = name if column.of is None else column.attribute.name
            if key in columns or (column.of is not None and key in frame.columns):
                raise InvalidParameter(f'The data frame has a column named "{key}" already.')
            columns[key] = with_own_categories(_series(column, frame[name].dtype, labels))
    released: pd.DataFrame = pd.DataFrame(columns)
    return released


def _exact_totals(
    attribute: Attribute, series: pd.Series[Any], partition: Partition
) -> NDArray[np.object_]:
    values = series
    if attribute.kind is Kind.TIMESTAMP:
        if attribute.zoned:
            values = series.dt.tz_convert("UTC").dt.tz_localize(None)
        micros = values.to_numpy("datetime64[us]").astype(np.int64)
        integers = (micros // 10 ** (6 - attribute.scale)).astype(object)
    else:
        integers = values.to_numpy(object)
    integers[series.isna().to_numpy()] = 0
    # Python's integers have no limit, and reduceat adds them as they are.
    exact = np.array([int(value) for value in integers[partition.members]], object)
    return np.asarray(np.add.reduceat(exact, partition.starts), object)


def _series(column: ReleasedColumn, dtype: Any, labels: NDArray[np.int32]) -> Any:
    values, missing = column.values, column.missing
    if column.attribute.kind is Kind.CATEGORY:
        texts = values[labels]
        if missing is not None:
            texts[missing[labels]] = None
        if column.attribute.sql_type == GENERALIZED:
            return pd.Series(texts, dtype=object)
        if isinstance(dtype, pd.CategoricalDtype):
            own = {str(value): value for value in dtype.categories}
            texts = np.array([own.get(text) for text in texts], object)
        return pd.Series(texts, dtype=dtype)
    if column.attribute.kind is Kind.TIMESTAMP:
        moments = values.astype("datetime64[us]")
        if missing is not None:
            moments = np.where(missing, np.datetime64("NaT"), moments)
        series: pd.Series[Any] = pd.Series(moments[labels])
        if column.attribute.zoned:
            return series.dt.tz_localize("UTC").astype(dtype)
        return series.astype(dtype)
    if missing is None:
        return pd.Series(values[labels]).astype(dtype)
    holed = values.astype(object)
    holed[missing] = pd.NA if pd.api.types.is_extension_array_dtype(dtype) else np.nan
    return pd.Series(holed[labels], dtype=dtype)


def _recount(frame: pd.DataFrame, names: list[str]) -> Recount:
    sizes = frame.groupby(names, dropna=False, observed=True).size().to_numpy()
    histogram = {
        int(size): int(count)
        for size, count in zip(*np.unique(sizes, return_counts=True), strict=True)
    }
    null_rows = int(frame[names].isna().any(axis=1).sum())
    return Recount(len(frame), histogram, null_rows)
