"""The definition of a chain: the settings of its first release, which later releases reuse."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from dbanon.chain import reference
from dbanon.chain.state import ChainRecord, require_entity
from dbanon.data.measures import Measures, ValueFrequencies
from dbanon.data.microdata import Microdata
from dbanon.data.scales import Scale, Whitening
from dbanon.data.words import json_text
from dbanon.errors import ChainChanged, InvalidParameter
from dbanon.hierarchy.leaves import column_texts, sort_values
from dbanon.hierarchy.spec import ENUM, HierarchySpec, build
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.release.recode import Release
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.stores.sql_source import SqlSource


def to_plain(measures: Measures) -> dict[str, Any]:
    """Scales, dictionaries and whitenings as JSON values; ``reference`` has sensitive columns."""
    return {
        "numbers": {name: asdict(scale) for name, scale in measures.numbers.items()},
        "categories": {
            name: {"values": list(distribution.values), "counts": distribution.counts.tolist()}
            for name, distribution in measures.categories.items()
        },
        "whitenings": [
            {"present": list(present), "factor": whitening.factor.tolist()}
            for present, whitening in measures.whitenings.items()
        ],
    }


def of_plain(plain: Mapping[str, Any]) -> Measures:
    """Rebuild the measures from the output of ``to_plain``."""
    return Measures(
        {name: Scale(**scale) for name, scale in plain["numbers"].items()},
        {
            name: ValueFrequencies(
                np.array(distribution["counts"], np.int64), tuple(distribution["values"])
            )
            for name, distribution in plain["categories"].items()
        },
        {},
        {
            tuple(entry["present"]): Whitening(np.array(entry["factor"], np.float64))
            for entry in plain["whitenings"]
        },
    )


def as_part(
    microdata: Microdata, measures: Measures, with_trees: Collection[str]
) -> tuple[Microdata, Measures]:
    """Recode records with the dictionaries of the table that was measured.

    Sensitive columns are measured on these records only, for models that look at classes alone;
    ``reference`` holds the table that other models compare with.

    Parameters
    ----------
    with_trees : columns with a hierarchy, whose leaves may be missing from the measured table.

    Raises
    ------
    ChainChanged : a column without a hierarchy has a value that the measured table did not have.
    """
    codes, categories = microdata.codes.copy(), []
    distributions = dict(measures.categories)
    for index, attribute in enumerate(microdata.categorical):
        values, name = microdata.categories[index], attribute.name
        original = distributions[name]
        new = sorted(set(values) - set(original.values))
        if new and name not in with_trees:
            raise ChainChanged(
                f'Column "{name}"'
                f" holds {len(new)} values that were not there when the chain began, and no"
                " hierarchy covers them.",
                hint="Replace them by known values in the source. Or close the chain, and create a"
                " new one whose first release has `hierarchies` with all values that may occur.",
            )
        all_values = (*original.values, *new)
        counts = np.append(original.counts, np.zeros(len(new), np.int64))
        distributions[name] = ValueFrequencies(counts, all_values)
        categories.append(all_values)
        code_of = {value: number for number, value in enumerate(all_values)}
        # The extra last entry maps the code -1 (NULL) to itself.
        new_codes = np.array([*(code_of[value] for value in values), -1], np.int32)
        codes[:, index] = new_codes[codes[:, index]]
    remapped = replace(microdata, codes=codes, categories=tuple(categories))
    sensitive = {
        name: ValueFrequencies.of_column(column) for name, column in microdata.sensitive.items()
    }
    return remapped, Measures(measures.numbers, distributions, sensitive, measures.whitenings)


# Options that later releases may change: they shape no class, or only classes of newcomers.
_FREE = (
    "max_suppression",
    "seed",
    "strict",
    "evaluate",
    "attacks",
    "refine_seconds",
    "hierarchies",
    "orders",
)


def definition_of(job: Job, planned: Plan) -> dict[str, Any]:
    """The settings of a job that must be the same in all releases of a chain."""
    relation, policy = planned.relation, job.policy

    def typed(names: tuple[str, ...]) -> list[list[str]]:
        return [[name, relation.attribute(name).sql_type] for name in names]

    trees = {**planned.hierarchies.trees, **policy.hierarchies}
    orders = {name: _digest(list(order)) for name, order in policy.orders.items()}
    settings = {
        **{name: value for name, value in policy.arguments().items() if name not in _FREE},
        "entity": typed((str(job.entity),)),
        "quasi_identifiers": typed(job.quasi_identifiers),
        "by": typed(job.by),
        "sensitive": typed(job.sensitive),
        "keep": typed(job.keep),
        "where": job.where,
        "orders": orders,
        "hierarchies": {
            name: tree.sha256 if isinstance(tree, Hierarchy) else tree.parameters
            for name, tree in trees.items()
        },
    }
    return _plain(settings)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Round-trip values through JSON, as the database does."""
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def require_same(chain: ChainRecord, now: Mapping[str, Any]) -> None:
    """Check that a job has the settings of the chain's first release.

    Raises
    ------
    ChainChanged : settings differ; the message lists them.
    """
    assert chain.definition is not None
    # Options unknown to an older version had their default values.
    unknown = _plain(Policy(2).arguments())
    before = {name: unknown.get(name) for name in now} | chain.definition["job"]
    differing = [name for name in before if before[name] != now.get(name)]
    if differing:
        raise ChainChanged(
            f"The job differs from the first release of chain {chain.name}.",
            detail=f"Otherwise: {', '.join(sorted(differing))}.",
            hint="What a chain's releases have in common stays. Begin another chain, or undo it.",
        )


def require_source(chain: ChainRecord, job: Job, source: SqlSource, relation: Relation) -> None:
    """Check that a job reads the chain's source, and that ``where`` reads no retained column.

    Raises
    ------
    ChainChanged : the job reads another relation or has another entity column.
    UnsupportedType, ChainEntityRows : as ``require_entity``.
    InvalidParameter : ``where`` reads a retained column.
    """
    session = source.session
    if (str(relation.name), job.entity) != (chain.source, chain.entity):
        raise ChainChanged(
            f'Chain {chain.name} follows "{chain.entity}" of {chain.source}.',
            hint=f"Release {chain.source} with `entity={json.dumps(chain.entity)}`, or create"
            " another chain: dbanon chain create.",
        )
    require_entity(session, relation, relation.attribute(chain.entity))
    session.require_rights(relation, [chain.entity])
    session.require_equality(relation, [*job.sensitive, *job.keep])
    retained = (*job.sensitive, *job.keep)
    if job.where is None or not retained:
        return
    words = {word.lower() for word in re.findall(r"\w+", job.where)}
    others = [a.name for a in relation.schema.attributes if a.name not in retained]
    reads_kept = any(set(re.findall(r"\w+", name.lower())) <= words for name in retained)
    if not reads_kept and source.accepts_condition(relation, others, job.where):
        return
    raise InvalidParameter(
        "In a chain, where may not read a column that is released as it is: a person who"
        " leaves would reveal its value.",
        detail=f"Released as they are: {', '.join(retained)}.",
        hint="Use other columns in `where`, and write them without the name of the table.",
    )


def build_definition(
    job: Job,
    planned: Plan,
    release: Release,
    of_tables: Mapping[str, Any],
    typical: float | None,
) -> dict[str, Any]:
    """The definition to store with the first release: its job, measures, hierarchies and columns.

    Parameters
    ----------
    of_tables : the settings of the chain's further tables.
    typical : information loss per cell that later classes are compared with, from
        ``typical_loss`` (since version 0.3).
    """
    assert release.measures is not None
    return {
        "job": {**definition_of(job, planned), **of_tables},
        "measures": to_plain(release.measures),
        "trees": {
            name: {"labels": list(tree.labels), "parents": tree.parents.tolist()}
            for name, tree in release.hierarchies.items()
        },
        "columns": columns_of(job, planned.relation, release),
        "sensitive": reference.to_plain(release.measures, planned.policy.models),
        "loss_measure": release.measure,
        "class_loss": typical,
    }


def columns_of(job: Job, relation: Relation, release: Release) -> list[list[str]]:
    """Columns of a release, in the source's order: name, state column, source column."""
    shared = [(column.attribute.name, column.source) for column in release.columns]
    shared += [(name, name) for name in job.by]
    retained = [*job.sensitive, *job.keep]
    columns = []
    for attribute in relation.schema.attributes:
        for index, (name, source) in enumerate(shared):
            if source == attribute.name:
                columns.append([name, f"v{index}", source])
        if attribute.name in retained:
            columns.append([attribute.name, f"k{retained.index(attribute.name)}", attribute.name])
    return columns


def trees(chain: ChainRecord, planned: Plan, microdata: Microdata) -> dict[str, Hierarchy]:
    """The hierarchies of the first release, by quasi-identifier.

    A builder is run again with the values of these records added.
    """
    assert chain.definition is not None
    attributes = {attribute.name: attribute for attribute in microdata.attributes}
    hierarchies = {}
    for name, tree_data in chain.definition["trees"].items():
        tree, builder = (
            Hierarchy(tree_data["labels"], tree_data["parents"]),
            planned.hierarchies.trees.get(name),
        )
        if isinstance(builder, HierarchySpec) and builder.kind != ENUM:
            labels = {tree.labels[leaf] for leaf in tree.leaves.tolist()}
            values = labels.union(column_texts(microdata, attributes[name]))
            tree = build(builder, sort_values(values, attributes[name]), name)
        hierarchies[name] = tree
    return hierarchies


def measures(chain: ChainRecord) -> Measures:
    """The measures of the first release's table."""
    assert chain.definition is not None
    return of_plain(chain.definition["measures"])


def typical_class_loss(chain: ChainRecord) -> float | None:
    """Information loss per cell of the first release's classes; None if it was not stored."""
    assert chain.definition is not None
    loss = chain.definition.get("class_loss")
    return None if loss is None else float(loss)


def as_text(definition: Mapping[str, Any]) -> str:
    """Serialize a definition for the database."""
    return json_text(definition)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
