"""The definition of a chain: what later releases reuse of the first one.

A definition holds the settings of the job, the column statistics of the table (scales and
frequencies), the hierarchies and the released columns. It is stored with the chain as JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from dataclasses import asdict, replace

import numpy as np

from dbanon.data.measures import ColumnStatistics, ValueFrequencies
from dbanon.data.microdata import Microdata
from dbanon.data.scales import Scale, Whitening
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.data.words import json_text
from dbanon.errors import ChainChanged, InvalidParameter, pluralize
from dbanon.extensions.chains import reference
from dbanon.extensions.chains.state import ChainColumn, ChainRecord, require_entity
from dbanon.hierarchy.leaves import list_column_texts, sort_values
from dbanon.hierarchy.spec import ENUM, HierarchySpec, build
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.release.recode import Release
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.stores.sql_source import SqlSource


def column_statistics_to_plain(column_statistics: ColumnStatistics) -> JsonObject:
    """Convert scales, value frequencies and whitenings to JSON values.

    A whitening decorrelates the numbers of records with one pattern of NULLs; ``present`` says
    which numbers are not NULL in the pattern.

    ``reference.distributions_to_plain`` converts the distributions of sensitive columns.
    """
    return {
        "numbers": {name: asdict(scale) for name, scale in column_statistics.scales.items()},
        "categories": {
            name: {"values": list(distribution.values), "counts": distribution.counts.tolist()}
            for name, distribution in column_statistics.categories.items()
        },
        "whitenings": [
            {"present": list(present), "factor": whitening.factor.tolist()}
            for present, whitening in column_statistics.whitenings.items()
        ],
    }


def column_statistics_from_plain(plain: JsonMapping) -> ColumnStatistics:
    """Rebuild the column statistics from the output of ``column_statistics_to_plain``."""
    return ColumnStatistics(
        scales={name: Scale(**scale) for name, scale in plain["numbers"].items()},
        categories={
            name: ValueFrequencies(
                np.array(distribution["counts"], np.int64), tuple(distribution["values"])
            )
            for name, distribution in plain["categories"].items()
        },
        whitenings={
            tuple(entry["present"]): Whitening(np.array(entry["factor"], np.float64))
            for entry in plain["whitenings"]
        },
    )


def recode_as_first_release(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    columns_with_hierarchy: Collection[str],
) -> tuple[Microdata, ColumnStatistics]:
    """Convert the codes of records to those of the chain's first release.

    Also returns column statistics for the records. They are those of the first release, extended by
    values that only the records have. Sensitive columns are an exception: their frequencies are
    counted in the records. (Models that compare classes with a table use the frequencies of the
    first release instead; see ``reference``.)

    Parameters
    ----------
    column_statistics : those of the first release.
    columns_with_hierarchy : the names of the columns with a hierarchy. Only these may have values
        that the first release lacked.

    Raises
    ------
    ChainChanged : a column without a hierarchy has a value that the first release did not have.
    """
    codes, categories = microdata.codes.copy(), []
    distributions = dict(column_statistics.categories)
    for index, attribute in enumerate(microdata.categorical):
        values, name = microdata.categories[index], attribute.name
        first_frequencies = distributions[name]
        new_values = sorted(set(values) - set(first_frequencies.values))
        if new_values and name not in columns_with_hierarchy:
            raise ChainChanged(
                f'Column "{name}"'
                f" has {pluralize(len(new_values), 'value')} that the chain's first release did not"
                " have, and no hierarchy.",
                hint="Replace them by known values in the source. Or close the chain, and create a"
                " new one whose first release has `hierarchies` with all values that may occur.",
            )
        all_values = (*first_frequencies.values, *new_values)
        counts = np.append(first_frequencies.counts, np.zeros(len(new_values), np.int64))
        distributions[name] = ValueFrequencies(counts, all_values)
        categories.append(all_values)
        code_of = {value: code for code, value in enumerate(all_values)}
        # The extra last entry maps the code -1 (NULL) to itself.
        new_codes = np.array([*(code_of[value] for value in values), -1], np.int32)
        codes[:, index] = new_codes[codes[:, index]]
    recoded_microdata = replace(microdata, codes=codes, categories=tuple(categories))
    sensitive = {
        name: ValueFrequencies.of_column(column) for name, column in microdata.sensitive.items()
    }
    return recoded_microdata, ColumnStatistics(
        scales=column_statistics.scales,
        categories=distributions,
        sensitive=sensitive,
        whitenings=column_statistics.whitenings,
    )


# Options that later releases may change, because they affect at most the classes of newcomers:
# persons who are in no class of the chain yet. ``describe_job`` adds hierarchies and orders in
# another form: as digests, or as the parameters of hierarchies that are derived from values.
_CHANGEABLE_OPTIONS = (
    "max_suppression",
    "seed",
    "strict",
    "evaluate",
    "attacks",
    "refine_seconds",
    "hierarchies",
    "orders",
)


def describe_job(job: Job, planned: Plan) -> JsonObject:
    """Return the settings of a job that must be the same in all releases of a chain."""
    relation, policy = planned.relation, job.policy

    def with_types(names: tuple[str, ...]) -> list[list[str]]:
        return [[name, relation.attribute(name).sql_type] for name in names]

    # ``planned.hierarchies`` has the hierarchies that the job names; the policy may have others. An
    # existing tree (``Hierarchy``) is compared by its digest. A tree that is derived from the
    # values of each release is compared by the parameters of its derivation.
    trees = {**planned.hierarchies.trees, **policy.hierarchies}
    orders = {name: _digest(list(order)) for name, order in policy.orders.items()}
    settings = {
        **{
            name: value
            for name, value in policy.arguments().items()
            if name not in _CHANGEABLE_OPTIONS
        },
        "entity": with_types((str(job.entity),)),
        "quasi_identifiers": with_types(job.quasi_identifiers),
        "by": with_types(job.by),
        "sensitive": with_types(job.sensitive),
        "keep": with_types(job.keep),
        "where": job.where,
        "orders": orders,
        "hierarchies": {
            name: tree.sha256 if isinstance(tree, Hierarchy) else tree.parameters
            for name, tree in trees.items()
        },
    }
    return _round_trip_json(settings)


def _round_trip_json(values: JsonMapping) -> JsonObject:
    """Convert values to JSON and back, as storing them in the database does."""
    plain: JsonObject = json.loads(json.dumps(values))
    return plain


def require_same(chain: ChainRecord, settings: JsonMapping) -> None:
    """Check that a job has the settings of the chain's first release.

    Parameters
    ----------
    settings : the settings of the job, from ``describe_job`` and ``tables.describe_tables``.

    Raises
    ------
    ChainChanged : settings differ; the error's detail lists them.
    """
    assert chain.definition is not None
    # Options that did not exist at the first release had their default values. Only k has no
    # default: the 2 is not used, because the definition contains the chain's k.
    defaults = _round_trip_json(Policy(2).arguments())
    first_settings = {name: defaults.get(name) for name in settings} | chain.definition["job"]
    differing_settings = [
        name for name in first_settings if first_settings[name] != settings.get(name)
    ]
    if differing_settings:
        raise ChainChanged(
            f"The job differs from the first release of chain {chain.name}.",
            detail=f"These settings differ: {', '.join(sorted(differing_settings))}.",
            hint="The releases of a chain have these settings in common. Undo the change, or create"
            " another chain.",
        )


def require_source(chain: ChainRecord, job: Job, source: SqlSource, relation: Relation) -> None:
    """Check that a job reads the chain's source, and that its ``where`` uses no retained column.

    *Retained columns* (``sensitive`` and ``keep``) are released unchanged. The condition is refused
    if it contains all words of a retained column's name, or if the database does not accept it with
    the other columns alone.

    Raises
    ------
    ChainChanged : the job reads another relation or has another entity column.
    UnsupportedType, ChainEntityRows : the entity column cannot identify persons; see
        ``require_entity``.
    InvalidParameter : ``where`` uses a retained column, or may do so.
    """
    session = source.session
    if (str(relation.name), job.entity) != (chain.source, chain.entity):
        raise ChainChanged(
            f'Chain {chain.name} reads {chain.source} with the entity "{chain.entity}".',
            hint=f"Release {chain.source} with `entity={json.dumps(chain.entity)}`, or create"
            " another chain: dbanon chain create.",
        )
    require_entity(session, relation, relation.attribute(chain.entity))
    session.catalog.require_readable(relation, [chain.entity])
    session.catalog.require_comparable_types(relation, [*job.sensitive, *job.keep])
    retained = (*job.sensitive, *job.keep)
    if job.where is None or not retained:
        return
    condition_words = {word.lower() for word in re.findall(r"\w+", job.where)}
    other_columns = [a.name for a in relation.schema.attributes if a.name not in retained]
    # A condition that uses a column, such as "annual income", contains all words of its name.
    may_use_retained = any(
        set(re.findall(r"\w+", name.lower())) <= condition_words for name in retained
    )
    if not may_use_retained and source.accepts_condition(relation, other_columns, job.where):
        return
    raise InvalidParameter(
        "In a chain, `where` may not use a column that is released unchanged: when a person leaves"
        " the source, the releases would reveal the person's value.",
        detail=f"Released unchanged: {', '.join(retained)}.",
        hint="Use other columns in `where`, and write them without the name of the table.",
    )


def build_definition(
    job: Job,
    planned: Plan,
    release: Release,
    table_settings: JsonMapping,
    typical_class_loss: float | None,
) -> JsonObject:
    """Build the definition that is stored with the first release.

    Parameters
    ----------
    table_settings : the settings of the chain's further tables, from ``tables.describe_tables``.
    typical_class_loss : the information loss per value that later classes are compared with, from
        ``quality.compute_typical_loss``; None if it was not measured.
    """
    assert release.column_statistics is not None
    return {
        "job": {**describe_job(job, planned), **table_settings},
        "measures": column_statistics_to_plain(release.column_statistics),
        "trees": {
            name: {"labels": list(tree.labels), "parents": tree.parents.tolist()}
            for name, tree in release.hierarchies.items()
        },
        "columns": list_columns(job, planned.relation, release),
        "sensitive": reference.distributions_to_plain(
            release.column_statistics, planned.policy.models
        ),
        "loss_measure": release.measure,
        "class_loss": typical_class_loss,
    }


def list_columns(job: Job, relation: Relation, release: Release) -> list[ChainColumn]:
    """List the released columns, with their columns in the chain's tables, in the source's order.

    In the chain's tables, ``v0``, ``v1``, … hold values that the rows of a cell (a class of the
    chain) share. Retained columns, which are released unchanged, are in ``k0``, ``k1``, ….
    """
    # Pairs: the name in the release, and the column of the source. A quasi-identifier can have
    # several released columns. Columns of strata (``by``) have one value per cell, too.
    shared = [(column.attribute.name, column.quasi_identifier) for column in release.columns]
    shared += [(name, name) for name in job.by]
    retained = [*job.sensitive, *job.keep]
    columns = []
    for attribute in relation.schema.attributes:
        for index, (name, source) in enumerate(shared):
            if source == attribute.name:
                columns.append(ChainColumn(name, state_column=f"v{index}", source=source))
        if attribute.name in retained:
            state_column = f"k{retained.index(attribute.name)}"
            columns.append(
                ChainColumn(attribute.name, state_column=state_column, source=attribute.name)
            )
    return columns


def rebuild_hierarchies(
    chain: ChainRecord, planned: Plan, microdata: Microdata
) -> dict[str, Hierarchy]:
    """Rebuild the hierarchies of the first release, by quasi-identifier.

    Hierarchies that are derived from values, such as prefixes, are derived again from the first
    release's values and those of these records.
    """
    assert chain.definition is not None
    attributes = {attribute.name: attribute for attribute in microdata.attributes}
    hierarchies = {}
    for name, tree_data in chain.definition["trees"].items():
        tree = Hierarchy(tree_data["labels"], tree_data["parents"])
        spec = planned.hierarchies.trees.get(name)
        # A tree over the labels of an enumerated type (ENUM) does not depend on the values.
        if isinstance(spec, HierarchySpec) and spec.kind != ENUM:
            labels = {tree.labels[leaf] for leaf in tree.leaves.tolist()}
            values = labels.union(list_column_texts(microdata, attributes[name]))
            tree = build(spec, sort_values(values, attributes[name]), name)
        hierarchies[name] = tree
    return hierarchies


def read_column_statistics(chain: ChainRecord) -> ColumnStatistics:
    """Read the column statistics of the first release's table from the definition."""
    assert chain.definition is not None
    return column_statistics_from_plain(chain.definition["measures"])


def read_typical_class_loss(chain: ChainRecord) -> float | None:
    """Read the typical loss of the first release's classes; None if it was not stored."""
    assert chain.definition is not None
    loss = chain.definition.get("class_loss")
    return None if loss is None else float(loss)


def to_json_text(definition: JsonMapping) -> str:
    """Serialize a definition for the database."""
    return json_text(definition)


def _digest(value: object) -> str:
    """The SHA-256 of a value as JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
