"""Match the persons in the source with members by arrays, for databases that export tags cheaply.

Fetched per person: the row key, the tag, and a code of the retained columns under a secret of the
database, which identifies equal rows. Fetched per member: tag and cell. Fetched per displayed row:
cell and code. Loaded back: counts per cell, and only the persons that later statements need, namely
newcomers, returned persons, and members of cells that may change. No decision is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.chain.arrays import MatchedPersons, find_tags, order_of, sums
from dbanon.chain.membership import CellState
from dbanon.chain.presence import Presence, count_returned, require_one_row
from dbanon.data.microdata import find_records
from dbanon.data.schema import Attribute
from dbanon.job.chain import MEASURE
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.pseudonym_session import (
    COUNTED,
    MATCHED,
    MISSING,
    NEWCOMERS,
    PERSONS,
    PRESENT,
)

# Prefix of row key columns in a copy of rows; lengthened if a copied column starts with it.
_KEY = "dbanon_key"
# Upper bound of memory per person during matching.
_BYTES = 200


def stage_others(state: CellState, relation: Relation, keys: NDArray[np.int64]) -> None:
    """Stage the persons whose row keys are not among these, at a first release.

    Parameters
    ----------
    keys : int64 (c, m), a subset of the fetched keys.
    """
    persons = state.matched
    assert persons is not None
    others = np.full(len(persons.keys), len(keys) < len(persons.keys))
    if others.any():
        others[find_records(persons.keys, keys)] = False
    nothing = np.zeros(int(others.sum()), np.int64)
    _stage(state, relation, persons, others, nothing, nothing)


def copy_newcomers(state: CellState, relation: Relation, names: Sequence[str]) -> Relation:
    """Copy the rows of staged newcomers, and return the relation that reads the copy.

    Parameters
    ----------
    names : the columns to copy.
    """
    locator = relation.required_locator
    key = _KEY
    while any(name.startswith(key) for name in names):
        key += "_"
    keys = [f"{key}{i}" for i in range(len(locator.expressions))]
    values = [f"s.{quote(name)}" for name in dict.fromkeys(names)]
    columns = ", ".join([*(f"p.key{i} AS {name}" for i, name in enumerate(keys)), *values])
    on = " AND ".join(f"{sql} = p.key{i}" for i, sql in enumerate(locator.expressions))
    with state.session.prepare_lookup():
        state.make(
            PERSONS,
            f"SELECT {columns} FROM {relation.from_clause} JOIN {quote(NEWCOMERS)} AS p ON {on}",
        )
    key_locator = replace(locator, expressions=tuple(f"s.{name}" for name in keys))
    return replace(
        relation, copy=RelationName(None, PERSONS), selected_rows=None, locator=key_locator
    )


def match_persons(
    state: CellState,
    relation: Relation,
    key_blocks: tuple[bytes, bytes],
    retained: Sequence[Attribute],
    memory_limit: int | None,
) -> tuple[MatchedPersons, Presence] | None:
    """Fetch all persons in the source, and look up their cells; None if SQL has to do that.

    Parameters
    ----------
    retained : retained columns, as in ``stage_persons``.
    memory_limit : bytes that matching may take; SQL takes none in this process.

    Raises
    ------
    NullInEntity, ChainEntityRows : a row has no person, or a person has several rows.
    """
    session, rules, locator = state.session, state.chain.rules, relation.required_locator
    first = state.chain.definition is None
    if not session.supports_arrays or rules.mode == MEASURE or locator.mapped_columns:
        return None
    if state.several or (first and rules.new_chain_from is not None):
        return None
    # Keys that only the caller vouches for are checked for newcomers only, except the entity.
    if locator.unchecked_columns not in ((), (state.chain.entity,)):
        return None
    if memory_limit is not None:
        # Former members are fetched, too.
        members = f"{state.name('chain_member')} AS m WHERE m.{state.of_chain}"
        counted = [f"{relation.relation.quoted} AS s", members]
        most = max(session.rows(f"SELECT count(*) FROM {rows}")[0][0] for rows in counted)
        if int(most) * _BYTES > memory_limit:
            return None
    session.stage_key(*key_blocks)
    entity = relation.attribute(state.chain.entity)
    # A NULL key has the tag for "no person", which is refused before the key is used.
    key_expressions = [
        f"coalesce({sql}, 0)" if locator.unchecked_columns else sql for sql in locator.expressions
    ]
    keys = [f"{sql} AS key{i}" for i, sql in enumerate(key_expressions)]
    tag = f"coalesce({session.keyed_tag(session.text_of(entity))}, {session.absent_tag}) AS tag"
    names = [statements.kept_column(i) for i in range(len(retained))]
    values = [f"{session.kept_value(a)} AS {name}" for a, name in zip(retained, names, strict=True)]
    columns = [(f"s.key{i}", kind) for i, kind in enumerate(locator.types)] + [("s.tag", "bytea")]
    code = None
    if retained and not first:
        hashed = session.row_hash(state.chain.table(session, "row"), names)
        assert hashed is not None
        code = session.secret_code(hashed)
        columns.append((code, "bigint"))
    select_list = ", ".join([*keys, tag, *(values if code else [])])
    with session.prepare_tagging():
        arrays = session.fetch(
            columns, f"(SELECT {select_list} FROM {relation.relation.quoted} AS s) AS s"
        )
    width = len(locator.types)
    key_order = _ascending(arrays[:width])
    key, tags, *codes = (
        column[key_order] for column in (np.column_stack(arrays[:width]), *arrays[width:])
    )
    persons = MatchedPersons(key, tags, order_of(tags), tuple(retained))
    _require_one_row(state, relation, tags[persons.order])
    if first:
        session.load(MISSING, [("tag", "bytea", persons.tags[:0])])
        return persons, Presence(len(persons.tags), len(persons.tags), 0, 0, 0)
    return persons, _with_members(state, relation, persons, code, codes)


def _ascending(keys: Sequence[NDArray[np.int64]]) -> NDArray[np.int64] | slice:
    """The index that sorts rows by key; a full slice if they are sorted (the usual case)."""
    if len(keys) == 1 and bool((keys[0][1:] > keys[0][:-1]).all()):
        return slice(None)
    return np.lexsort(keys[::-1])


def _require_one_row(state: CellState, relation: Relation, tags: NDArray[np.uint64]) -> None:
    """Check, using sorted tags, that each row belongs to a different person."""
    begins = np.flatnonzero(np.r_[True, (tags[1:] != tags[:-1]).any(axis=1)][: len(tags)])
    n_unidentified = int((tags[:1] == 0).all(axis=1).sum())
    n_unidentified = n_unidentified and int((tags == 0).all(axis=1).sum())
    sizes, many = np.unique(np.diff(begins, append=len(tags)), return_counts=True)
    row_counts = list(zip(sizes.tolist(), many.tolist(), strict=True))
    require_one_row(state, relation, len(tags), n_unidentified, len(begins), lambda: row_counts)


def _with_members(
    state: CellState,
    relation: Relation,
    persons: MatchedPersons,
    code: str | None,
    codes: Sequence[NDArray[np.int64]],
) -> Presence:
    """Match persons with members, and stage what later statements need."""
    session = state.session
    tags, cells, left = session.fetch(
        [("m.tag", "bytea"), ("m.cell", "integer"), ("coalesce(m.left_at_release, 0)", "integer")],
        f"{state.name('chain_member')} AS m WHERE m.{state.of_chain}",
    )
    at = find_tags(tags, persons.tags, persons.order)
    is_member = at >= 0
    in_cell, left_at = np.where(is_member, cells[at], 0), np.where(is_member, left[at], 0)
    absent = left == 0
    members = int(absent.sum())
    absent[at[is_member]] = False
    session.load(MISSING, [("tag", "bytea", tags[absent])])
    is_present = is_member & (left_at == 0)
    cell_columns = [("s.cell", "integer"), *([(code, "bigint")] if code else [])]
    displayed_cells, *displayed_codes = session.fetch(cell_columns, f"{state.rows} AS s")
    n = int(max(cells.max(initial=0), displayed_cells.max(initial=0))) + 1
    size, present = (
        np.bincount(displayed_cells, minlength=n),
        np.bincount(in_cell[is_present], minlength=n),
    )
    same = np.ones(n, np.bool_)
    if code:
        same = sums(in_cell[is_present], codes[0][is_present], n) == sums(
            displayed_cells, displayed_codes[0], n
        )
    nonempty = np.flatnonzero(size)
    counted = {
        "cell": nonempty,
        "members": size[nonempty],
        "present": present[nonempty],
        "same": same[nonempty],
    }
    session.load(COUNTED, [(name, "integer", values) for name, values in counted.items()])
    # Cells that may change: complete with changed rows, or left by k while k stay.
    k = int(state.k)
    may_change = np.where(present == size, ~same, (present >= k) & (size - present >= k))
    selected = ~is_member | (left_at > 0) | may_change[in_cell]
    _stage(state, relation, persons, selected, in_cell[selected], left_at[selected])
    out = int((left_at > 0).sum())
    newcomers = int((~is_member).sum())
    back = count_returned(state) if out else 0
    return Presence(len(is_member), newcomers, back, members, members - int(is_present.sum()))


def _stage(
    state: CellState,
    relation: Relation,
    persons: MatchedPersons,
    selected: NDArray[np.bool_],
    cells: NDArray[np.int64],
    left_at: NDArray[np.int64],
) -> None:
    """Stage the selected persons, bool (n,), with cell and release they left at; 0 for none."""
    session, locator = state.session, relation.required_locator
    keys = [(f"key{i}", kind, persons.keys[selected, i]) for i, kind in enumerate(locator.types)]
    session.load(
        MATCHED,
        [
            *keys,
            ("tag", "bytea", persons.tags[selected]),
            ("cell", "integer", cells),
            ("left_at", "integer", left_at),
        ],
    )
    names = [statements.kept_column(i) for i in range(len(persons.retained))]
    values = "".join(
        f", {session.kept_value(a)} AS {name}"
        for a, name in zip(persons.retained, names, strict=True)
    )
    on = " AND ".join(f"{sql} = t.key{i}" for i, sql in enumerate(locator.expressions))
    key_columns = "".join(f", t.key{i}" for i in range(len(keys)))
    with session.prepare_lookup():
        state.make(
            PRESENT,
            f"SELECT s.{quote(state.chain.entity)} AS person, t.tag, nullif(t.cell, 0) AS cell,"
            f" nullif(t.left_at, 0) AS left_at{key_columns}{values} FROM {relation.from_clause}"
            f" JOIN {quote(MATCHED)} AS t ON {on}",
        )
