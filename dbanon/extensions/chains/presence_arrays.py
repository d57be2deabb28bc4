"""Match the persons in the source with the members of a chain, using arrays in this process.

This is faster than ``presence`` on databases that export arrays cheaply. These arrays are fetched:

- for each person in the source: the row key, the tag (keyed hash of the identifier), and a *code*,
  by which rows can be compared: a hash of the columns released unchanged (*retained* columns) and
  of a secret in the database;
- for each member: the tag and the cell, which is a class of the chain (see ``membership``);
- for each *displayed* row, which means a row of the last release: the cell and the code.

The *locator* of a relation holds the SQL expressions and the types of the row key's columns.

Then the counts per cell are loaded into the database, and those persons that later statements need:
newcomers, returned persons, and members of cells that may change. ``membership`` and ``returns``
decide about the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import find_records
from dbanon.data.schema import Attribute
from dbanon.extensions.chains.arrays import FetchedPersons, argsort_tags, find_members, sum_codes
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.presence import (
    PresenceCounts,
    count_returned,
    require_one_row_per_person,
)
from dbanon.job.chain import MEASURE
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.chain_staging import (
    ABSENT_MEMBERS,
    CELL_COUNTS,
    LOADED_PERSONS,
    NEWCOMER_RECORDS,
    NEWCOMERS,
    PRESENT_PERSONS,
)
from dbanon.sessions.names import RelationName, quote

# Prefix of the names of row key columns in a copy of rows. It is lengthened if a copied column has
# the same prefix.
_KEY_PREFIX = "dbanon_key"
# Upper bound of the memory that matching takes per person.
_BYTES_PER_PERSON = 200


def stage_unadmitted(
    state: ChainState, relation: Relation, admitted_keys: NDArray[np.int64]
) -> None:
    """Stage the persons whom a first release does not admit.

    Parameters
    ----------
    admitted_keys : int64 (m, n_key_columns), the row keys of the admitted persons.
    """
    persons = state.fetched_persons
    assert persons is not None
    # Usually all persons are admitted, and no keys must be looked up.
    is_unadmitted = np.full(len(persons.keys), len(admitted_keys) < len(persons.keys))
    if is_unadmitted.any():
        is_unadmitted[find_records(persons.keys, admitted_keys)] = False
    zeros = np.zeros(int(is_unadmitted.sum()), np.int64)
    _stage_persons(state, relation, persons, is_unadmitted, cells=zeros, left_at=zeros)


def copy_newcomers(state: ChainState, relation: Relation, names: Sequence[str]) -> Relation:
    """Copy the rows of staged newcomers, and return the relation that reads the copy.

    Parameters
    ----------
    names : the columns to copy.
    """
    locator = relation.required_locator
    prefix = _KEY_PREFIX
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    key_names = [f"{prefix}{i}" for i in range(len(locator.expressions))]
    values = [f"s.{quote(name)}" for name in dict.fromkeys(names)]
    columns = ", ".join([*(f"p.key{i} AS {name}" for i, name in enumerate(key_names)), *values])
    join_condition = " AND ".join(f"{sql} = p.key{i}" for i, sql in enumerate(locator.expressions))
    with state.session.chain_dialect.tune_for_lookup():
        state.stage(
            NEWCOMER_RECORDS,
            f"SELECT {columns} FROM {relation.from_clause} JOIN {quote(NEWCOMERS)} AS p"
            f" ON {join_condition}",
        )
    key_locator = replace(locator, expressions=tuple(f"s.{name}" for name in key_names))
    return replace(
        relation, copy=RelationName(None, NEWCOMER_RECORDS), selected_rows=None, locator=key_locator
    )


def match_persons(
    state: ChainState,
    relation: Relation,
    hash_prefixes: tuple[bytes, bytes],
    retained: Sequence[Attribute],
    memory_limit: int | None,
) -> tuple[FetchedPersons, PresenceCounts] | None:
    """Fetch all persons in the source, and look up their cells; None if only SQL can do this.

    Parameters
    ----------
    hash_prefixes : key material: the bytes before the identifier in the inner hash of a tag, and
        the bytes before the inner hash in the outer one; empty without an outer hash. They are
        from ``key.hash_prefixes``.
    retained : the columns released unchanged, which are staged with the persons.
    memory_limit : bytes that matching may take in this process; None for no limit.

    Raises
    ------
    NullInEntity, ChainEntityRows : a row has no person, or a person has several rows.
    """
    session, rules, locator = state.session, state.chain.rules, relation.required_locator
    is_first = state.chain.definition is None
    # These cases need SQL: chains that only measure; row keys that a temporary table (the *key
    # map*) numbers; persons with several rows; and first releases of chains that also look up the
    # members of a predecessor.
    if session.chain_arrays is None or rules.mode == MEASURE or locator.key_map_columns:
        return None
    if state.has_several_rows_per_person or (is_first and rules.new_chain_from is not None):
        return None
    # Row keys are not checked here, so they must be known to be unique, or be the entity, of which
    # each value must occur once anyway.
    if locator.columns_to_check not in ((), (state.chain.entity,)):
        return None
    if memory_limit is not None:
        # All members are fetched, including those who have left.
        members = f"{state.ledger_table('chain_member')} AS m WHERE m.{state.chain_condition}"
        from_clauses = [f"{relation.relation_to_read.quoted} AS s", members]
        max_rows = max(
            session.rows(f"SELECT count(*) FROM {from_clause}")[0][0]
            for from_clause in from_clauses
        )
        if int(max_rows) * _BYTES_PER_PERSON > memory_limit:
            return None
    session.tags.stage_key(*hash_prefixes)
    entity = relation.attribute(state.chain.entity)
    # A row with a NULL key has no person, so it is refused before the key is used.
    key_expressions = [
        f"coalesce({sql}, 0)" if locator.columns_to_check else sql for sql in locator.expressions
    ]
    keys = [f"{sql} AS key{i}" for i, sql in enumerate(key_expressions)]
    # A row without a person gets the tag 0.
    tag_sql = session.tags.of_text(session.dialect.text_of(entity))
    tag = f"coalesce({tag_sql}, {state.arrays.no_person_tag}) AS tag"
    names = [statements.retained_column_name(i) for i in range(len(retained))]
    values = [
        f"{session.dialect.retained_value(a)} AS {name}"
        for a, name in zip(retained, names, strict=True)
    ]
    columns = [(f"s.key{i}", sql_type) for i, sql_type in enumerate(locator.types)] + [
        ("s.tag", "bytea")
    ]
    # The code of the retained columns; None if displayed rows are not compared.
    code_sql = None
    if retained and not is_first:
        row_hash = session.chain_dialect.row_hash(state.chain.table_name(session, "row"), names)
        assert row_hash is not None
        code_sql = state.arrays.hash_with_secret(row_hash)
        columns.append((code_sql, "bigint"))
    select_list = ", ".join([*keys, tag, *(values if code_sql else [])])
    with session.chain_dialect.tune_for_tagging():
        arrays = state.arrays.fetch(
            columns, f"(SELECT {select_list} FROM {relation.relation_to_read.quoted} AS s) AS s"
        )
    n_keys = len(locator.types)
    key_order = _sort_order_by_key(arrays[:n_keys])
    row_keys, tags, *codes = (
        column[key_order] for column in (np.column_stack(arrays[:n_keys]), *arrays[n_keys:])
    )
    persons = FetchedPersons(row_keys, tags, argsort_tags(tags), tuple(retained))
    _require_one_row_per_person(state, relation, tags[persons.order])
    if is_first:
        # Later statements read this table, although no member can be absent yet.
        state.arrays.load(ABSENT_MEMBERS, [("tag", "bytea", persons.tags[:0])])
        n_persons = len(persons.tags)
        return persons, PresenceCounts(
            n_persons=n_persons, n_newcomers=n_persons, n_returned=0, n_members=0, n_absent=0
        )
    return persons, _match_members(state, relation, persons, code_sql, codes)


def _sort_order_by_key(keys: Sequence[NDArray[np.int64]]) -> NDArray[np.int64] | slice:
    """Return the indices that sort rows by key; a full slice if they are sorted (the usual case).

    Parameters
    ----------
    keys : int64 (n,) each, the columns of the row key.
    """
    if len(keys) == 1 and bool((keys[0][1:] > keys[0][:-1]).all()):
        return slice(None)
    return np.lexsort(keys[::-1])


def _require_one_row_per_person(
    state: ChainState, relation: Relation, tags: NDArray[np.uint64]
) -> None:
    """Check that each row belongs to a different person, given the sorted tags of all rows."""
    # The indices at which another tag begins; the slice leaves none if there are no rows.
    starts = np.flatnonzero(np.r_[True, (tags[1:] != tags[:-1]).any(axis=1)][: len(tags)])
    # Rows without a person have the tag 0, which is sorted first.
    has_row_without_person = bool((tags[:1] == 0).all(axis=1).any())
    n_without_person = int((tags == 0).all(axis=1).sum()) if has_row_without_person else 0
    n_rows, n_persons = np.unique(np.diff(starts, append=len(tags)), return_counts=True)
    row_counts = list(zip(n_rows.tolist(), n_persons.tolist(), strict=True))
    require_one_row_per_person(
        state, relation, len(tags), n_without_person, len(starts), lambda: row_counts
    )


def _match_members(
    state: ChainState,
    relation: Relation,
    persons: FetchedPersons,
    code_sql: str | None,
    codes: Sequence[NDArray[np.int64]],
) -> PresenceCounts:
    """Match persons with members, load the counts per cell, and stage the persons needed later.

    Parameters
    ----------
    code_sql : SQL of the code of a row; None if rows are not compared.
    codes : one array, the code of each person's row, int64 (n,); empty if rows are not compared.
    """
    # A departure is the number of the release at which a member left; 0 if the member has not left.
    member_tags, member_cells, departures = state.arrays.fetch(
        [("m.tag", "bytea"), ("m.cell", "integer"), ("coalesce(m.left_at_release, 0)", "integer")],
        f"{state.ledger_table('chain_member')} AS m WHERE m.{state.chain_condition}",
    )
    # The index is -1 for persons who are not members. Below, -1 selects the last member's values,
    # which ``np.where`` then replaces by 0.
    member_indices = find_members(member_tags, persons.tags, persons.order)
    is_member = member_indices >= 0
    cell_of_person = np.where(is_member, member_cells[member_indices], 0)
    left_at = np.where(is_member, departures[member_indices], 0)
    has_not_left = departures == 0
    n_members = int(has_not_left.sum())
    # Members who have not left are absent unless they match a person in the source.
    is_absent = has_not_left.copy()
    is_absent[member_indices[is_member]] = False
    state.arrays.load(ABSENT_MEMBERS, [("tag", "bytea", member_tags[is_absent])])
    is_present = is_member & (left_at == 0)
    cell_columns = [("s.cell", "integer"), *([(code_sql, "bigint")] if code_sql else [])]
    displayed_cells, *displayed_codes = state.arrays.fetch(cell_columns, f"{state.row_table} AS s")
    n_cells = int(max(member_cells.max(initial=0), displayed_cells.max(initial=0))) + 1
    # A cell has a displayed row for each member who has not left.
    sizes = np.bincount(displayed_cells, minlength=n_cells)
    n_present = np.bincount(cell_of_person[is_present], minlength=n_cells)
    is_unchanged = np.ones(n_cells, np.bool_)
    if code_sql:
        is_unchanged = sum_codes(
            cell_of_person[is_present], codes[0][is_present], n_cells
        ) == sum_codes(displayed_cells, displayed_codes[0], n_cells)
    nonempty = np.flatnonzero(sizes)
    cell_counts = {
        "cell": nonempty,
        "members": sizes[nonempty],
        "present": n_present[nonempty],
        "is_unchanged": is_unchanged[nonempty],
    }
    state.arrays.load(
        CELL_COUNTS, [(name, "integer", values) for name, values in cell_counts.items()]
    )
    # A cell may change if all members are present and rows have changed, or if at least k members
    # have left and at least k stay.
    k = int(state.k)
    may_change = np.where(
        n_present == sizes, ~is_unchanged, (n_present >= k) & (sizes - n_present >= k)
    )
    is_needed = ~is_member | (left_at > 0) | may_change[cell_of_person]
    _stage_persons(
        state, relation, persons, is_needed, cell_of_person[is_needed], left_at[is_needed]
    )
    return PresenceCounts(
        n_persons=len(is_member),
        n_newcomers=int((~is_member).sum()),
        n_returned=count_returned(state) if (left_at > 0).any() else 0,
        n_members=n_members,
        n_absent=n_members - int(is_present.sum()),
    )


def _stage_persons(
    state: ChainState,
    relation: Relation,
    persons: FetchedPersons,
    is_selected: NDArray[np.bool_],
    cells: NDArray[np.int64],
    left_at: NDArray[np.int64],
) -> None:
    """Stage some of the fetched persons, with their identifiers and rows from the source.

    Parameters
    ----------
    persons : the n fetched persons.
    is_selected : bool (n,), True for the persons to stage.
    cells : int64 (s,), the cell of each selected person; 0 for persons without a cell.
    left_at : int64 (s,), the number of the release at which each selected person left the cell; 0
        for persons who have not left.
    """
    session, locator = state.session, relation.required_locator
    keys = [
        (f"key{i}", sql_type, persons.keys[is_selected, i])
        for i, sql_type in enumerate(locator.types)
    ]
    state.arrays.load(
        LOADED_PERSONS,
        [
            *keys,
            ("tag", "bytea", persons.tags[is_selected]),
            ("cell", "integer", cells),
            ("left_at", "integer", left_at),
        ],
    )
    names = [statements.retained_column_name(i) for i in range(len(persons.retained))]
    values = "".join(
        f", {session.dialect.retained_value(a)} AS {name}"
        for a, name in zip(persons.retained, names, strict=True)
    )
    join_condition = " AND ".join(f"{sql} = t.key{i}" for i, sql in enumerate(locator.expressions))
    key_columns = "".join(f", t.key{i}" for i in range(len(keys)))
    with session.chain_dialect.tune_for_lookup():
        state.stage(
            PRESENT_PERSONS,
            f"SELECT s.{quote(state.chain.entity)} AS person, t.tag, nullif(t.cell, 0) AS cell,"
            f" nullif(t.left_at, 0) AS left_at{key_columns}{values} FROM {relation.from_clause}"
            f" JOIN {quote(LOADED_PERSONS)} AS t ON {join_condition}",
        )
