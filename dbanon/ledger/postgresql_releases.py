"""Build SQL that matches ledger entries with relations on PostgreSQL.

An entry names its relations by oid. Oids are valid only in the database that recorded them, where
``ledger_oid`` is the oid of ``dbanon.release``. The relation must still have the recorded kind and
owner, which no other role can fake. A renamed relation must also have the recorded columns.
Comments are not evidence: anyone may change or copy them.

Restoring a dump changes the oids. ``REPAIR_CANDIDATES`` then finds relations by name, owner and
columns, and ``dbanon repair`` compares their rows with the recorded digest.

The *mark* of a relation is the comment that dbanon writes on it, with the id of its release. The
*summary* of an output is a table beside it, with one row that describes the release.
"""

from __future__ import annotations

from dbanon.data.frozen import dataclass
from dbanon.sessions.base import SUMMARY_SUFFIX, ExistingRelation
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session

# Columns that the summaries of releases have in every version.
SUMMARY_COLUMNS = (
    "release_id",
    "created_at",
    "dbanon_version",
    "method",
    "arguments",
    "quasi_identifiers",
    "guarantee",
    "earlier_releases",
)

# SQL condition: the oids of an entry ``r`` are of this database.
HAS_VALID_OIDS = "coalesce(r.ledger_oid = r.tableoid::bigint, false)"
# SQL of the kind of the output of an entry ``r``, as in ``pg_class``.
_RELKIND = "CASE r.output_kind WHEN 'view' THEN 'v' ELSE 'r' END"
# SQL condition: relation ``{0}`` has the mark of an entry ``r``.
_IS_MARKED = "pg_catalog.obj_description({0}.oid, 'pg_class') = 'dbanon release ' || r.release_id"


def same_columns(relation: str = "c") -> str:
    """Return an SQL condition: a relation has the columns that the entry ``r`` recorded.

    Parameters
    ----------
    relation : the alias of the relation's row of pg_class.
    """
    return f"""(
        SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attname::text COLLATE "C")
        FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = {relation}.oid AND a.attnum > 0 AND NOT a.attisdropped
    ) = (
        SELECT pg_catalog.array_agg(k.name ORDER BY k.name COLLATE "C")
        FROM dbanon.release_column AS k
        WHERE k.release_id = r.release_id AND k.role <> 'not_copied')"""


def relations_read_by(view: str) -> str:
    """Return SQL of the sorted array of the oids of relations that a view reads.

    Parameters
    ----------
    view : SQL of the oid of the view.
    """
    return f"""ARRAY(
        SELECT DISTINCT d.refobjid FROM pg_catalog.pg_rewrite AS w
        JOIN pg_catalog.pg_depend AS d
            ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
        WHERE w.ev_class = {view} AND d.refclassid = 'pg_catalog.pg_class'::regclass
          AND d.refobjid <> w.ev_class ORDER BY 1)"""


def _is_recorded(oid_column: str, name_column: str, relkind: str) -> str:
    """Return an SQL condition: ``c`` in schema ``n`` is a relation that the entry ``r`` recorded.

    Parameters
    ----------
    oid_column, name_column : the ledger columns for the oid and the name of the relation.
    relkind : SQL of the kind of the relation, as in ``pg_class``.
    """
    return f"""c.oid::bigint = r.{oid_column} AND {HAS_VALID_OIDS}
  AND c.relowner::bigint = r.owner_oid
  AND c.relkind = {relkind} AND (
      n.nspname = r.output_schema AND c.relname = r.{name_column} OR {same_columns()})"""


def existing_outputs(condition: str = "true") -> str:
    """Return SQL of the entries whose output exists; the entry of rank 1 is the current one.

    A view keeps its oid over several releases; it belongs to the release whose table it shows.

    Parameters
    ----------
    condition : SQL that limits the relations, whose row of ``pg_class`` is ``c``.
    """
    return f"""
SELECT r.release_id, c.oid, n.nspname::text AS schema_name, c.relname::text AS name,
       pg_catalog.row_number() OVER (
           PARTITION BY c.oid
           ORDER BY r.relation_oid = r.output_oid OR EXISTS (
                        SELECT FROM pg_catalog.unnest({relations_read_by("c.oid")}) AS s(oid)
                        WHERE s.oid::bigint = r.relation_oid) DESC,
                    r.created_at DESC, r.release_id) AS rank
FROM dbanon.release AS r
JOIN pg_catalog.pg_class AS c ON c.oid::bigint = r.output_oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE {_is_recorded("output_oid", "output_name", _RELKIND)} AND {condition}"""


def existing_tables(condition: str = "true") -> str:
    """Return SQL of the released tables that still exist.

    ``is_shown`` says whether the output's view reads the table.

    Parameters
    ----------
    condition : SQL that limits entries ``r`` and tables ``c``.
    """
    return f"""
SELECT r.release_id, c.oid, n.nspname::text AS schema_name, c.relname::text AS name, c.relowner,
       r.output_schema, r.output_name, r.output_kind, r.superseded_at, r.created_at,
       EXISTS (
           SELECT FROM pg_catalog.unnest({relations_read_by("v.oid")}) AS s(oid) WHERE s.oid = c.oid
       ) AS is_shown
FROM dbanon.release AS r
JOIN pg_catalog.pg_class AS c ON c.oid::bigint = r.relation_oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_class AS v ON v.oid::bigint = r.output_oid AND v.relkind = 'v'
WHERE {_is_recorded("relation_oid", "relation_name", "'r'")} AND {condition}"""


def entry_of_output(oid: str) -> str:
    """Return SQL of the entry of an output with this oid; no row if it has none."""
    return f"""
SELECT r.* FROM dbanon.release AS r
JOIN ({existing_outputs(f"c.oid = {oid}")}
) AS o ON o.release_id = r.release_id AND o.rank = 1"""


def entry_of_table(oid: str) -> str:
    """Return SQL of the entry of a released table with this oid, superseded or not."""
    return f"""
SELECT r.* FROM dbanon.release AS r
JOIN ({existing_tables(f"c.oid = {oid}")}
) AS o ON o.release_id = r.release_id ORDER BY r.created_at DESC LIMIT 1"""


def entry_states() -> str:
    """Return SQL of the state of each entry, and the present oid and name of its output.

    An entry is untied if a relation matches it except for the oid or the owner.
    """
    return f"""
WITH existing AS ({existing_outputs()}
)
SELECT r.release_id, l.oid, coalesce(l.schema_name, r.output_schema) AS output_schema,
       coalesce(l.name, r.output_name) AS output_name,
       CASE WHEN l.oid IS NOT NULL THEN 'current'
            WHEN r.superseded_at IS NOT NULL THEN 'superseded'
            WHEN EXISTS (
                SELECT FROM pg_catalog.pg_class AS c
                JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                WHERE (n.nspname = r.output_schema AND c.relname = r.output_name
                       AND pg_catalog.pg_get_userbyid(c.relowner) = r.published_by
                       OR {HAS_VALID_OIDS} AND c.oid::bigint = r.output_oid)
                  AND c.relkind = {_RELKIND} AND ({_IS_MARKED.format("c")} OR {same_columns()})
                  AND NOT EXISTS (SELECT FROM existing AS o WHERE o.oid = c.oid)
            ) THEN 'untied'
            ELSE 'dropped' END AS state
FROM dbanon.release AS r
LEFT JOIN existing AS l ON l.release_id = r.release_id AND l.rank = 1"""


# Statement that completes the oids of entries from before revision 0013, which did not record the
# database of their oids. They are of this database if the relation belongs to the publishing role,
# and has either the recorded oid, or the recorded name and the entry's mark. Aliases: r is the
# entry, c its table with the schema n and the owner w, and o its view.
RECORD_OIDS = f"""
UPDATE dbanon.release AS r
SET relation_oid = t.relation_oid, output_oid = t.output_oid, owner_oid = t.owner_oid,
    publisher_oid = t.owner_oid, ledger_oid = r.tableoid::bigint
FROM (
    SELECT DISTINCT ON (r.release_id) r.release_id, c.oid::bigint AS relation_oid,
           CASE r.output_kind WHEN 'view' THEN o.oid ELSE c.oid END::bigint AS output_oid,
           c.relowner::bigint AS owner_oid
    FROM dbanon.release AS r
    JOIN pg_catalog.pg_class AS c ON c.relkind = 'r' AND (
        c.oid::bigint = r.relation_oid OR c.relname = r.relation_name)
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_roles AS w ON w.oid = c.relowner
    LEFT JOIN pg_catalog.pg_class AS o ON r.output_kind = 'view' AND o.relkind = 'v'
        AND o.relowner = c.relowner AND {relations_read_by("o.oid")} = ARRAY[c.oid]
        AND (o.oid::bigint = r.output_oid
             OR o.relnamespace = n.oid AND o.relname = r.output_name)
    WHERE r.ledger_oid IS NULL
      AND (w.rolname = r.published_by
           OR c.oid::bigint = r.relation_oid AND r.request ->> 'publisher' = w.oid::text)
      AND (c.oid::bigint = r.relation_oid AND (
               n.nspname = r.output_schema AND c.relname = r.relation_name
               OR {_IS_MARKED.format("c")} OR {same_columns()})
           OR n.nspname = r.output_schema AND c.relname = r.relation_name
              AND {_IS_MARKED.format("c")})
    ORDER BY r.release_id, c.oid::bigint = r.relation_oid DESC NULLS LAST, o.oid
) AS t
WHERE r.release_id = t.release_id"""

# Query for renamed releases, and for relations that may belong to entries without a relation in
# this database. In ``match``, ``is_same`` means that the table has the recorded oid and owner. In
# the result, ``shown`` means the relation that readers use: the view, or the table itself;
# ``read_oid`` is that of the relation whose rows are compared with the digest. ``verdict`` says
# what to do: ``rename`` updates the entry; ``attach`` attaches the relation to it if the rows match
# the digest. Other verdicts are reasons to do nothing: another role owns the relation (``owner``),
# its columns differ (``columns``), or the view is missing or shows another table (``view``).
# Aliases: r is the entry, c a table with the schema n, v a view with the schema m, q another entry
# that has the table, t a row of ``match``, and p a row of ``candidate``.
REPAIR_CANDIDATES = f"""
WITH match AS (
    SELECT r.release_id, {HAS_VALID_OIDS} AS has_valid_oids,
           c.oid, n.nspname, c.relname, c.relowner,
           coalesce({HAS_VALID_OIDS} AND c.oid::bigint = r.relation_oid
                    AND c.relowner::bigint = r.owner_oid, false) AS is_same,
           coalesce({same_columns()}, false) AS has_columns,
           coalesce({_IS_MARKED.format("c")}, false) AS is_marked,
           pg_catalog.row_number() OVER (
               PARTITION BY r.release_id
               ORDER BY {same_columns()} DESC NULLS LAST,
                        {HAS_VALID_OIDS} AND c.oid::bigint = r.relation_oid DESC NULLS LAST, c.oid
           ) AS rank
    FROM dbanon.release AS r
    JOIN pg_catalog.pg_class AS c ON c.relkind = 'r' AND c.relpersistence = 'p' AND (
        c.relname = r.relation_name OR {HAS_VALID_OIDS} AND c.oid::bigint = r.relation_oid)
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE ({HAS_VALID_OIDS} AND c.oid::bigint = r.relation_oid OR n.nspname = r.output_schema
           OR r.output_kind = 'view' AND EXISTS (
               SELECT FROM pg_catalog.pg_class AS v
               JOIN pg_catalog.pg_namespace AS m ON m.oid = v.relnamespace
               WHERE m.nspname = r.output_schema AND v.relname = r.output_name AND v.relkind = 'v'
                 AND {relations_read_by("v.oid")} = ARRAY[c.oid]))
      AND (r.output_kind = 'view' OR r.superseded_at IS NULL
           OR {HAS_VALID_OIDS} AND c.oid::bigint = r.relation_oid)
      AND NOT EXISTS (
          SELECT FROM dbanon.release AS q
          WHERE q.release_id <> r.release_id AND q.ledger_oid = q.tableoid::bigint
            AND q.relation_oid = c.oid::bigint AND q.owner_oid = c.relowner::bigint)
), candidate AS (
    SELECT t.*, r.output_schema, r.output_name, r.relation_name, r.output_kind, r.superseded_at,
           r.published_by, r.owner_oid AS recorded_owner, r.output_oid AS recorded_output,
           CASE r.output_kind WHEN 'view' THEN v.oid ELSE t.oid END AS shown_oid,
           -- Readers see the rows of the view.
           r.output_kind = 'view' AND r.superseded_at IS NULL AS is_read_by_view,
           CASE r.output_kind WHEN 'view' THEN m.nspname ELSE t.nspname END AS shown_schema,
           CASE r.output_kind WHEN 'view' THEN v.relname ELSE t.relname END AS shown_name,
           r.digest
    FROM match AS t
    JOIN dbanon.release AS r ON r.release_id = t.release_id
    LEFT JOIN LATERAL (
        SELECT v.* FROM pg_catalog.pg_class AS v
        JOIN pg_catalog.pg_namespace AS m ON m.oid = v.relnamespace
        WHERE r.output_kind = 'view' AND v.relkind = 'v' AND v.relowner = t.relowner
          AND (t.has_valid_oids AND v.oid::bigint = r.output_oid
               OR m.nspname = r.output_schema AND v.relname = r.output_name)
          AND (r.superseded_at IS NOT NULL
               OR {relations_read_by("v.oid")} = ARRAY[t.oid] AND {same_columns("v")})
        ORDER BY v.oid::bigint = r.output_oid DESC NULLS LAST LIMIT 1
    ) AS v ON true
    LEFT JOIN pg_catalog.pg_namespace AS m ON m.oid = v.relnamespace
    WHERE t.rank = 1
)
SELECT p.release_id::text AS release_id, p.output_schema, p.output_name,
       p.nspname::text AS table_schema, p.relname::text AS table_name, p.oid::bigint AS table_oid,
       coalesce(p.shown_schema, p.output_schema)::text AS shown_schema,
       coalesce(p.shown_name, p.output_name)::text AS shown_name, p.shown_oid::bigint AS shown_oid,
       p.relowner::bigint AS owner_oid, pg_catalog.pg_get_userbyid(p.relowner)::text AS owner,
       p.digest,
       CASE WHEN p.is_read_by_view THEN coalesce(p.shown_oid, p.oid) ELSE p.oid END::bigint
           AS read_oid,
       p.is_marked, pg_catalog.has_table_privilege(p.oid, 'SELECT') AS is_readable,
       CASE WHEN NOT p.has_columns THEN 'columns'
            WHEN p.shown_oid IS NULL AND p.superseded_at IS NULL THEN 'view'
            WHEN p.is_same AND (p.superseded_at IS NOT NULL AND p.output_kind = 'view'
                                OR p.recorded_output = p.shown_oid::bigint) THEN 'rename'
            WHEN CASE WHEN p.has_valid_oids THEN p.relowner::bigint = p.recorded_owner
                      ELSE pg_catalog.pg_get_userbyid(p.relowner) = p.published_by END
                THEN 'attach'
            ELSE 'owner' END AS verdict
FROM candidate AS p
WHERE NOT (p.is_same AND p.relname = p.relation_name
           AND coalesce(p.superseded_at IS NOT NULL AND p.output_kind = 'view'
                        OR p.recorded_output = p.shown_oid::bigint
                           AND p.shown_name = p.output_name AND p.shown_schema = p.output_schema,
                        false))
  -- A relation of another role that also has other columns is not a release.
  AND (p.has_columns OR CASE WHEN p.has_valid_oids THEN p.relowner::bigint = p.recorded_owner
       ELSE pg_catalog.pg_get_userbyid(p.relowner) = p.published_by END)
  -- If a view was dropped, `dbanon gc` collects its table.
  AND (p.shown_oid IS NOT NULL OR p.superseded_at IS NOT NULL OR EXISTS (
      SELECT FROM pg_catalog.pg_class AS v
      JOIN pg_catalog.pg_namespace AS m ON m.oid = v.relnamespace
      WHERE m.nspname = p.output_schema AND v.relname = p.output_name))
ORDER BY 2, 3, p.superseded_at NULLS FIRST, 1"""

# The columns of ``REPAIR_CANDIDATES``, in order.
REPAIR_CANDIDATE_COLUMNS: tuple[str, ...] = (
    "release_id",
    "output_schema",
    "output_name",
    "table_schema",
    "table_name",
    "table_oid",
    "shown_schema",
    "shown_name",
    "shown_oid",
    "owner_oid",
    "owner",
    "digest",
    "read_oid",
    "is_marked",
    "is_readable",
    "verdict",
)

# Statement that attaches a release to its relations. Parameters: oids of table, output and owner;
# schema and name of the output; name of the table; id of the release. If the entry is from another
# database, the publisher is found by name, and the source oid becomes 0. Aliases: r and e are the
# entry, w is a role, and p its oid.
ATTACH_RELEASE = """
UPDATE dbanon.release AS r
SET relation_oid = ?::bigint, output_oid = ?::bigint, owner_oid = ?::bigint,
    output_schema = ?::text, output_name = ?::text, relation_name = ?::text,
    ledger_oid = r.tableoid::bigint, publisher_oid = p.oid,
    -- Oids of another database are meaningless here: 0 identifies the source by its name.
    source_oid = CASE WHEN r.ledger_oid = r.tableoid::bigint OR r.source_oid IS NULL
        THEN r.source_oid ELSE 0 END,
    source_owner_oid = CASE WHEN r.ledger_oid = r.tableoid::bigint THEN r.source_owner_oid END,
    request = CASE WHEN p.oid IS NULL THEN r.request - 'publisher'
        ELSE r.request || pg_catalog.jsonb_build_object('publisher', p.oid) END
FROM (
    SELECT e.release_id, CASE WHEN e.ledger_oid = e.tableoid::bigint AND EXISTS (
                SELECT FROM pg_catalog.pg_roles AS w WHERE w.oid::bigint = e.publisher_oid)
            THEN e.publisher_oid
            ELSE (SELECT w.oid::bigint FROM pg_catalog.pg_roles AS w
                  WHERE w.rolname = e.published_by) END AS oid
    FROM dbanon.release AS e
) AS p
WHERE p.release_id = r.release_id AND r.release_id::text = ?"""


@dataclass(frozen=True)
class ReleasedTable:
    """The table of a release, as recorded in its entry.

    Parameters
    ----------
    name : the present name of the table.
    is_shown : whether the output's view reads it.
    """

    release_id: str
    name: RelationName
    is_shown: bool


def records_oids(session: Session) -> bool:
    """Return True if entries record the database of their oids: PostgreSQL, from revision 0013."""
    if session.catalog.find_role_id() is None:
        return False
    types = dict(session.catalog.list_columns(session.ledger.table("release")))
    return {"owner_oid", "ledger_oid"} <= set(types)


def release_id_of(session: Session, existing: ExistingRelation) -> str | None:
    """Return the id of the release that a relation holds; None if it holds none."""
    rows = session.rows(
        f"SELECT f.release_id::text FROM ({entry_of_output('?::bigint::oid')}\n) AS f",
        (existing.oid,),
    )
    return str(rows[0][0]) if rows else None


def find_states(session: Session) -> dict[str, tuple[str, RelationName]]:
    """Return the state and the present output name of each entry, by release id."""
    rows = session.rows(
        "SELECT f.release_id::text, f.state, f.output_schema, f.output_name"
        f" FROM ({entry_states()}\n) AS f"
    )
    return {
        str(release_id): (str(state), RelationName(schema, name))
        for release_id, state, schema, name in rows
    }


def find_tables(session: Session, release_id: str | None = None) -> list[ReleasedTable]:
    """List existing tables of one or all releases, the most recently superseded first."""
    condition = "true" if release_id is None else "r.release_id::text = ?"
    rows = session.rows(
        "SELECT f.release_id::text, f.schema_name, f.name, f.is_shown"
        f" FROM ({existing_tables(condition)}\n) AS f"
        " ORDER BY f.superseded_at DESC NULLS FIRST, f.created_at DESC",
        () if release_id is None else (release_id,),
    )
    return [
        ReleasedTable(str(id_), RelationName(schema, name), is_shown)
        for id_, schema, name, is_shown in rows
    ]


def is_summary(
    session: Session,
    output: RelationName,
    existing: ExistingRelation,
    existing_output: ExistingRelation | None,
) -> bool:
    """Return True if a table named like an output's summary has its columns and owner.

    The owner must be that of the release or, if the release was dropped or renamed, its publisher
    or the current role.
    """
    columns = dict(session.catalog.list_columns(output.sibling(output.name + SUMMARY_SUFFIX)))
    if existing.kind != "table" or not set(SUMMARY_COLUMNS) <= set(columns):
        return False
    if existing_output is not None and release_id_of(session, existing_output) is not None:
        return existing.owner_oid == existing_output.owner_oid
    if existing.owner_oid == session.catalog.find_role_id():
        return True
    return bool(
        session.rows(
            "SELECT 1 FROM dbanon.release AS r WHERE r.output_schema = ? AND r.output_name = ?"
            f" AND CASE WHEN {HAS_VALID_OIDS} THEN r.publisher_oid = ?::bigint"
            " ELSE r.published_by = ?::text END LIMIT 1",
            (output.schema, output.name, existing.owner_oid, existing.owner),
        )
    )
