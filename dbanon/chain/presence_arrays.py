"""Who is in the source, by arrays in this process, where a database hands tags over at little cost.

What comes here of a person is the row key, the tag, and a code of the kept columns under a secret
of the database's own, which tells rows that are equal; of members, tags and cells; of the rows
last shown, cells and codes. What goes back are counts of each cell, and those persons alone whom
later statements ask for: newcomers, whoever is back, and the members of cells that may be shown
anew. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.chain.arrays import Matched, find_tags, order_of, sums
from dbanon.chain.membership import CellState
from dbanon.chain.presence import Presence, require_one_row, returned
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

# What the columns of row keys begin with in a copy of rows, where no column of theirs does.
_KEY = "dbanon_key"
# At most, of a person, while they are found among the members.
_BYTES = 200


def stage_others(state: CellState, relation: Relation, keys: NDArray[np.int64]) -> None:
    """Stage who is in the source and in no row of these keys; at a first release none is a member.

    Parameters
    ----------
    keys : int64 (c, m), some of those that were brought.
    """
    persons = state.matched
    assert persons is not None
    others = np.full(len(persons.keys), len(keys) < len(persons.keys))
    if others.any():
        others[find_records(persons.keys, keys)] = False
    nothing = np.zeros(int(others.sum()), np.int64)
    _stage(state, relation, persons, others, nothing, nothing)


def copy_newcomers(state: CellState, relation: Relation, names: Sequence[str]) -> Relation:
    """Copy the rows of newcomers, who are staged, and read them in the place of all.

    Parameters
    ----------
    names : the columns that are read of them.
    """
    locator = relation.located
    key = _KEY
    while any(name.startswith(key) for name in names):
        key += "_"
    keys = [f"{key}{i}" for i in range(len(locator.expressions))]
    values = [f"s.{quote(name)}" for name in dict.fromkeys(names)]
    own = ", ".join([*(f"p.key{i} AS {name}" for i, name in enumerate(keys)), *values])
    on = " AND ".join(f"{sql} = p.key{i}" for i, sql in enumerate(locator.expressions))
    with state.session.seeking():
        state.make(
            PERSONS,
            f"SELECT {own} FROM {relation.from_clause} JOIN {quote(NEWCOMERS)} AS p ON {on}",
        )
    found = replace(locator, expressions=tuple(f"s.{name}" for name in keys))
    return replace(relation, copy=RelationName(None, PERSONS), filtered=None, locator=found)


def match_persons(
    state: CellState,
    relation: Relation,
    blocks: tuple[bytes, bytes],
    kept: Sequence[Attribute],
    memory_limit: int | None,
) -> tuple[Matched, Presence] | None:
    """Bring everybody in the source, and find their cells; None where statements do that.

    Parameters
    ----------
    kept : columns that rows are released with as they are, as ``stage_persons`` has them.
    memory_limit : bytes that this may take; statements take none here.

    Raises
    ------
    NullInEntity, ChainEntityRows : a row is nobody's, or one of several of a person.
    """
    session, rules, locator = state.session, state.chain.rules, relation.located
    first = state.chain.definition is None
    if not session.brings_arrays or rules.mode == MEASURE or locator.mapped:
        return None
    if state.several or (first and rules.new_chain_from is not None):
        return None
    # Of a key on the caller's word, only newcomers' are looked at; the entity's is counted here.
    if locator.unchecked not in ((), (state.chain.entity,)):
        return None
    if memory_limit is not None:
        # Whoever was a member once is brought, too.
        members = f"{state.name('chain_member')} AS m WHERE m.{state.of_chain}"
        counted = [f"{relation.relation.quoted} AS s", members]
        most = max(session.rows(f"SELECT count(*) FROM {rows}")[0][0] for rows in counted)
        if int(most) * _BYTES > memory_limit:
            return None
    session.stage_key(*blocks)
    entity = relation.attribute(state.chain.entity)
    # Where that is NULL the tag is nobody's, which is refused before a key is used.
    known = [f"coalesce({sql}, 0)" if locator.unchecked else sql for sql in locator.expressions]
    keys = [f"{sql} AS key{i}" for i, sql in enumerate(known)]
    tag = f"coalesce({session.keyed_tag(session.text_of(entity))}, {session.nobodys_tag}) AS tag"
    names = [statements.kept_column(i) for i in range(len(kept))]
    values = [f"{session.kept_value(a)} AS {name}" for a, name in zip(kept, names, strict=True)]
    asked = [(f"s.key{i}", kind) for i, kind in enumerate(locator.types)] + [("s.tag", "bytea")]
    code = None
    if kept and not first:
        hashed = session.row_hash(state.chain.table(session, "row"), names)
        assert hashed is not None
        code = session.secret_code(hashed)
        asked.append((code, "bigint"))
    given = ", ".join([*keys, tag, *(values if code else [])])
    with session.tagging():
        found = session.fetch(asked, f"(SELECT {given} FROM {relation.relation.quoted} AS s) AS s")
    width = len(locator.types)
    by_key = _ascending(found[:width])
    key, tags, *codes = (
        column[by_key] for column in (np.column_stack(found[:width]), *found[width:])
    )
    persons = Matched(key, tags, order_of(tags), tuple(kept))
    _require_one_row(state, relation, tags[persons.order])
    if first:
        session.load(MISSING, [("tag", "bytea", persons.tags[:0])])
        return persons, Presence(len(persons.tags), len(persons.tags), 0, 0, 0)
    return persons, _with_members(state, relation, persons, code, codes)


def _ascending(keys: Sequence[NDArray[np.int64]]) -> NDArray[np.int64] | slice:
    """What puts rows in the order of their keys; they are read in it, unless others wrote."""
    if len(keys) == 1 and bool((keys[0][1:] > keys[0][:-1]).all()):
        return slice(None)
    return np.lexsort(keys[::-1])


def _require_one_row(state: CellState, relation: Relation, tags: NDArray[np.uint64]) -> None:
    """Check that each row is of another person, by the tags in order."""
    begins = np.flatnonzero(np.r_[True, (tags[1:] != tags[:-1]).any(axis=1)][: len(tags)])
    nobodys = int((tags[:1] == 0).all(axis=1).sum())
    nobodys = nobodys and int((tags == 0).all(axis=1).sum())
    sizes, many = np.unique(np.diff(begins, append=len(tags)), return_counts=True)
    rows_a_person = list(zip(sizes.tolist(), many.tolist(), strict=True))
    require_one_row(state, relation, len(tags), nobodys, len(begins), lambda: rows_a_person)


def _with_members(
    state: CellState,
    relation: Relation,
    persons: Matched,
    code: str | None,
    codes: Sequence[NDArray[np.int64]],
) -> Presence:
    """Stage what later statements ask for, once persons are found among the members."""
    session = state.session
    tags, cells, left = session.fetch(
        [("m.tag", "bytea"), ("m.cell", "integer"), ("coalesce(m.left_at_release, 0)", "integer")],
        f"{state.name('chain_member')} AS m WHERE m.{state.of_chain}",
    )
    at = find_tags(tags, persons.tags, persons.order)
    known = at >= 0
    in_cell, left_at = np.where(known, cells[at], 0), np.where(known, left[at], 0)
    absent = left == 0
    members = int(absent.sum())
    absent[at[known]] = False
    session.load(MISSING, [("tag", "bytea", tags[absent])])
    here = known & (left_at == 0)
    own = [("s.cell", "integer"), *([(code, "bigint")] if code else [])]
    shown, *shown_codes = session.fetch(own, f"{state.rows} AS s")
    n = int(max(cells.max(initial=0), shown.max(initial=0))) + 1
    size, present = np.bincount(shown, minlength=n), np.bincount(in_cell[here], minlength=n)
    same = np.ones(n, np.bool_)
    if code:
        same = sums(in_cell[here], codes[0][here], n) == sums(shown, shown_codes[0], n)
    kept = np.flatnonzero(size)
    counted = {"cell": kept, "members": size[kept], "present": present[kept], "same": same[kept]}
    session.load(COUNTED, [(name, "integer", values) for name, values in counted.items()])
    # Cells that are shown anew, if any: whole and with other rows, or parted.
    k = int(state.k)
    anew = np.where(present == size, ~same, (present >= k) & (size - present >= k))
    wanted = ~known | (left_at > 0) | anew[in_cell]
    _stage(state, relation, persons, wanted, in_cell[wanted], left_at[wanted])
    out = int((left_at > 0).sum())
    newcomers = int((~known).sum())
    back = returned(state) if out else 0
    return Presence(len(known), newcomers, back, members, members - int(here.sum()))


def _stage(
    state: CellState,
    relation: Relation,
    persons: Matched,
    wanted: NDArray[np.bool_],
    cells: NDArray[np.int64],
    left_at: NDArray[np.int64],
) -> None:
    """Stage some of the persons, bool (n,), with their cells and what they left; 0 for none."""
    session, locator = state.session, relation.located
    keys = [(f"key{i}", kind, persons.keys[wanted, i]) for i, kind in enumerate(locator.types)]
    session.load(
        MATCHED,
        [*keys, ("tag", "bytea", persons.tags[wanted]), ("cell", "integer", cells),
         ("left_at", "integer", left_at)],
    )  # fmt: skip
    names = [statements.kept_column(i) for i in range(len(persons.kept))]
    values = "".join(
        f", {session.kept_value(a)} AS {name}" for a, name in zip(persons.kept, names, strict=True)
    )
    on = " AND ".join(f"{sql} = t.key{i}" for i, sql in enumerate(locator.expressions))
    own = "".join(f", t.key{i}" for i in range(len(keys)))
    with session.seeking():
        state.make(
            PRESENT,
            f"SELECT s.{quote(state.chain.entity)} AS person, t.tag, nullif(t.cell, 0) AS cell,"
            f" nullif(t.left_at, 0) AS left_at{own}{values} FROM {relation.from_clause}"
            f" JOIN {quote(MATCHED)} AS t ON {on}",
        )
