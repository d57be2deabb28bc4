"""What the first release of a chain was made by, which all later ones keep to."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from dbanon.chain import reference
from dbanon.chain.state import ChainKept, require_entity
from dbanon.data.measures import Distribution, Measures
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
    """Scales, dictionaries and whitenings as plain values; sensitive columns: ``reference``."""
    return {
        "numbers": {name: asdict(scale) for name, scale in measures.numbers.items()},
        "categories": {
            name: {"values": list(known.values), "counts": known.counts.tolist()}
            for name, known in measures.categories.items()
        },
        "whitenings": [
            {"present": list(present), "factor": found.factor.tolist()}
            for present, found in measures.whitenings.items()
        ],
    }


def of_plain(plain: Mapping[str, Any]) -> Measures:
    """The measures that ``to_plain`` told."""
    return Measures(
        {name: Scale(**scale) for name, scale in plain["numbers"].items()},
        {
            name: Distribution(np.array(known["counts"], np.int64), tuple(known["values"]))
            for name, known in plain["categories"].items()
        },
        {},
        {
            tuple(one["present"]): Whitening(np.array(one["factor"], np.float64))
            for one in plain["whitenings"]
        },
    )


def as_part(
    microdata: Microdata, measures: Measures, with_trees: Collection[str]
) -> tuple[Microdata, Measures]:
    """Records as a part of the table that was measured: with the codes of its dictionaries.

    Sensitive columns are measured by these records alone, for models that look at classes and at
    nothing else; ``reference`` has what others compare with.

    Parameters
    ----------
    with_trees : columns with a hierarchy, which may have leaves that the table did not hold.

    Raises
    ------
    ChainChanged : a column without one holds a value that the table did not.
    """
    codes, categories = microdata.codes.copy(), []
    known = dict(measures.categories)
    for place, attribute in enumerate(microdata.categorical):
        values, name = microdata.categories[place], attribute.name
        before = known[name]
        new = sorted(set(values) - set(before.values))
        if new and name not in with_trees:
            raise ChainChanged(
                f'Column "{name}" holds {len(new)} values that it did not hold when the chain'
                " began, and no hierarchy says what they are released as.",
                hint="Bring them under known ones in a view, or begin another chain, with a"
                " hierarchy of all values that may come.",
            )
        together = (*before.values, *new)
        counts = np.append(before.counts, np.zeros(len(new), np.int64))
        known[name] = Distribution(counts, together)
        categories.append(together)
        place_of = {value: number for number, value in enumerate(together)}
        # One more place for the code -1 of NULL.
        places = np.array([*(place_of[value] for value in values), -1], np.int32)
        codes[:, place] = places[codes[:, place]]
    remapped = replace(microdata, codes=codes, categories=tuple(categories))
    own = {name: Distribution.of_column(column) for name, column in microdata.sensitive.items()}
    return remapped, Measures(measures.numbers, known, own, measures.whitenings)


# What a later release may say otherwise: it shapes no class, or only those of newcomers.
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
    """What a job says of a release, as far as all releases of a chain have it alike."""
    relation, policy = planned.relation, job.policy

    def typed(names: tuple[str, ...]) -> list[list[str]]:
        return [[name, relation.attribute(name).sql_type] for name in names]

    trees = {**planned.hierarchies.trees, **policy.hierarchies}
    orders = {name: _digest(list(order)) for name, order in policy.orders.items()}
    found = {
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
    return _plain(found)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As they come back from the database."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found


def require_same(chain: ChainKept, now: Mapping[str, Any]) -> None:
    """Check that a job is as the chain's first release was.

    Raises
    ------
    ChainChanged : it is not; the message says in what.
    """
    assert chain.definition is not None
    # An older version did not know each option: it released as without it.
    unknown = _plain(Policy(2).arguments())
    before = {name: unknown.get(name) for name in now} | chain.definition["job"]
    differing = [name for name in before if before[name] != now.get(name)]
    if differing:
        raise ChainChanged(
            f"The job is not as the first release of chain {chain.name} was made.",
            detail=f"Otherwise: {', '.join(sorted(differing))}.",
            hint="What a chain's releases have in common stays. Begin another chain, or undo it.",
        )


def require_source(chain: ChainKept, job: Job, source: SqlSource, relation: Relation) -> None:
    """Check that a job reads what the chain was made of, and chooses its rows by nothing it keeps.

    Raises
    ------
    ChainChanged : it reads another relation, or another column says whose a row is.
    UnsupportedType, ChainEntityRows : as ``require_entity``.
    InvalidParameter : ``where`` reads a column that is kept.
    """
    session = source.session
    if (str(relation.name), job.entity) != (chain.source, chain.entity):
        raise ChainChanged(
            f'Chain {chain.name} follows "{chain.entity}" of {chain.source}.',
            hint="Name these, or begin another chain.",
        )
    require_entity(session, relation, relation.attribute(chain.entity))
    session.require_rights(relation, [chain.entity])
    session.require_equality(relation, [*job.sensitive, *job.keep])
    kept = (*job.sensitive, *job.keep)
    if job.where is None or not kept:
        return
    words = {word.lower() for word in re.findall(r"\w+", job.where)}
    others = [a.name for a in relation.schema.attributes if a.name not in kept]
    reads_kept = any(set(re.findall(r"\w+", name.lower())) <= words for name in kept)
    if not reads_kept and source.takes(relation, others, job.where):
        return
    raise InvalidParameter(
        "In a chain, where may not read a column that is released as it is: a person who"
        " leaves would reveal its value.",
        detail=f"Released as they are: {', '.join(kept)}.",
        hint="Choose rows by quasi-identifiers and others, without the name of the table.",
    )


def made(
    job: Job,
    planned: Plan,
    release: Release,
    of_tables: Mapping[str, Any],
    typical: float | None,
) -> dict[str, Any]:
    """What is kept of the first release: how it was made, its measures, trees and columns.

    Parameters
    ----------
    of_tables : what holds of the chain's further tables.
    typical : what its classes lose a cell, by which later classes are admitted; of version 0.3 on
        as ``typical_loss`` has it.
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
    """Columns of a release, in the source's order: name, place in the state, what it stands for."""
    shared = [(column.attribute.name, column.source) for column in release.columns]
    shared += [(name, name) for name in job.by]
    kept = [*job.sensitive, *job.keep]
    found = []
    for attribute in relation.schema.attributes:
        for place, (name, source) in enumerate(shared):
            if source == attribute.name:
                found.append([name, f"v{place}", source])
        if attribute.name in kept:
            found.append([attribute.name, f"k{kept.index(attribute.name)}", attribute.name])
    return found


def trees(chain: ChainKept, planned: Plan, microdata: Microdata) -> dict[str, Hierarchy]:
    """The hierarchies by quasi-identifier, as the first release had them.

    Builders are given these records' values, too: what they make of a value is theirs to say.
    """
    assert chain.definition is not None
    attributes = {attribute.name: attribute for attribute in microdata.attributes}
    found = {}
    for name, one in chain.definition["trees"].items():
        tree, given = Hierarchy(one["labels"], one["parents"]), planned.hierarchies.trees.get(name)
        if isinstance(given, HierarchySpec) and given.kind != ENUM:
            known = {tree.labels[leaf] for leaf in tree.leaves.tolist()}
            values = known.union(column_texts(microdata, attributes[name]))
            tree = build(given, sort_values(values, attributes[name]), name)
        found[name] = tree
    return found


def measures(chain: ChainKept) -> Measures:
    """What the first release measured its table by."""
    assert chain.definition is not None
    return of_plain(chain.definition["measures"])


def typical(chain: ChainKept) -> float | None:
    """What the classes of the first release lose a cell; None where none was kept."""
    assert chain.definition is not None
    found = chain.definition.get("class_loss")
    return None if found is None else float(found)


def as_text(told: Mapping[str, Any]) -> str:
    """A definition as the database keeps it."""
    return json_text(told)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
