"""Who is in which class of a release, on PostgreSQL: packed, counted and recorded in SQL.

Where dbanon is installed, nobody but the ledger's owner reads these records: two functions of that
role write them, and count. Elsewhere the ledger belongs to the role that publishes.
"""

from __future__ import annotations

from dbanon.ledger.postgresql_rules import may_act_as

# The persons of a row of ``release_person``: it is not compressed, and stays in its page.
PERSONS_A_ROW = 160


def packed(staged: str) -> str:
    """SQL of an array of what ``release_person`` holds, of rows of a person and a class.

    Parameters
    ----------
    staged : what FROM has: ``person``, 8 bytes, and ``class``, an integer.
    """
    return (
        "ARRAY(SELECT string_agg(s.person || int4send(s.class::integer), ''::bytea"
        " ORDER BY s.person, s.class) FROM (SELECT t.person, t.class,"
        f" (row_number() OVER (ORDER BY t.person, t.class) - 1) / {PERSONS_A_ROW} AS part"
        f" FROM {staged} AS t) AS s GROUP BY s.part ORDER BY s.part)"
    )


def joint_histories(releases: str, persons: str, k: str) -> str:
    """The query of persons by joint history: as JSON, all, those below k, and those alone.

    A history is the classes of a person in all releases. Whoever is in none of them has none.

    Parameters
    ----------
    releases : SQL of an array of ids. persons : SQL of an array as ``packed`` gives it, or NULL.
    """
    rows = "generate_series(0, octet_length({0}.persons) / 12 - 1) AS i(i)"
    taken = (
        "substr({0}.persons, 12 * i.i + 1, 8) AS person,"
        " int4send({1}) || substr({0}.persons, 12 * i.i + 9, 4) AS mark"
    )
    return f"""
SELECT jsonb_build_object('persons', coalesce(sum(size), 0),
           'below', coalesce(sum(size) FILTER (WHERE size < {k}), 0),
           'alone', count(*) FILTER (WHERE size = 1))
FROM (
    SELECT count(*) AS size FROM (
        SELECT string_agg(m.mark, ''::bytea ORDER BY m.mark) AS history FROM (
            SELECT {taken.format("p", "w.place::integer")}
            FROM unnest({releases}) WITH ORDINALITY AS w(id, place)
            JOIN dbanon.release_person AS p ON p.release_id = w.id
            CROSS JOIN LATERAL {rows.format("p")}
            UNION ALL
            SELECT {taken.format("c", "0")}
            FROM unnest({persons}) AS c(persons)
            CROSS JOIN LATERAL {rows.format("c")}
        ) AS m GROUP BY m.person
    ) AS h GROUP BY h.history
) AS sizes"""


def joint_histories_variable() -> str:
    """The same as a statement of plpgsql, of the variables of ``_joint_histories``."""
    query = joint_histories("ids", "persons", "least").strip()
    return query.replace("SELECT ", "SELECT INTO counted ", 1) + ";"


# The releases of a source that count as its earlier ones, of entries as ``r``. An entry counts if
# its source was this relation, or one of a name that it has or had, that belonged to today's owner,
# or to a member of that role: tables are dropped and made anew each night. A table of another role
# that had the name does not count. Entries that do not know their relation, as those of a cluster,
# count by name; those of persons if their publisher may read the table. Entries of earlier
# versions, and of the database that a dump was taken of, count by name. Persons are counted over
# those of this relation, or of such a name and its owner.
EARLIER = f"""
SELECT r.release_id, r.source_oid > 0 AND coalesce(
           r.ledger_oid = r.tableoid::bigint AND (r.source_oid = t.oid
               OR r.source = ANY (t.names) AND r.source_owner_oid = t.owner::bigint),
           false) AS is_counted
FROM dbanon.release AS r
CROSS JOIN (
    SELECT c.oid AS relation, c.oid::bigint AS oid, c.relowner AS owner, ARRAY(
               SELECT ?::text UNION SELECT q.source FROM dbanon.release AS q
               WHERE q.source_oid = c.oid::bigint AND q.ledger_oid = q.tableoid::bigint) AS names
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ?::name AND c.relname = ?::name
) AS t
LEFT JOIN pg_catalog.pg_roles AS o ON o.oid::bigint = r.source_owner_oid
LEFT JOIN pg_catalog.pg_roles AS p
    ON p.oid::bigint = r.publisher_oid AND r.ledger_oid = r.tableoid::bigint
WHERE CASE
    WHEN r.source_oid = 0 THEN
        r.source = ANY (t.names) OR (r.request #>> '{{source,oid}}') = t.oid::text
    WHEN r.source_oid IS NULL THEN
        r.source = ANY (t.names) AND (r.arguments ->> 'entity' IS NULL OR coalesce(
            pg_catalog.has_any_column_privilege(p.oid, t.relation, 'SELECT'), false))
    WHEN r.ledger_oid IS DISTINCT FROM r.tableoid::bigint THEN r.source = ANY (t.names)
    ELSE r.source_oid = t.oid OR r.source = ANY (t.names) AND (
        r.source_owner_oid = t.owner::bigint
        OR o.oid IS NOT NULL AND NOT o.rolsuper AND {may_act_as("o.oid", "t.owner")})
END"""
