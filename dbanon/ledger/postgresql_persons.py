"""Build SQL that packs and counts the persons and classes of releases on PostgreSQL.

If dbanon's SQL functions are installed in the database (``dbanon install``), only the ledger's
owner and superusers can read these records; two functions of the owner write and count them.
Otherwise the ledger belongs to the publishing role.

A record of a person has 12 bytes: 8 of the salted hash, and 4 of the class number. A *history* is
the set of a person's classes over all releases.
"""

from __future__ import annotations

from dbanon.ledger.postgresql_rules import may_act_as

# Persons per row of ``release_person``: few enough that PostgreSQL neither compresses the row nor
# stores it out of line.
PERSONS_PER_ROW = 160


def pack_persons(staging_table: str) -> str:
    """Return SQL of the array of packed persons that ``release_person`` stores.

    Parameters
    ----------
    staging_table : the quoted name of a table with the columns ``person``, 8 bytes, and ``class``,
        an integer.
    """
    return (
        "ARRAY(SELECT string_agg(s.person || int4send(s.class::integer), ''::bytea"
        " ORDER BY s.person, s.class) FROM (SELECT t.person, t.class,"
        f" (row_number() OVER (ORDER BY t.person, t.class) - 1) / {PERSONS_PER_ROW} AS part"
        f" FROM {staging_table} AS t) AS s GROUP BY s.part ORDER BY s.part)"
    )


def build_joint_histories_query(releases: str, persons: str, k: str) -> str:
    """Return SQL that counts persons by joint history, as JSON.

    The JSON object has three counts: ``persons``, of all persons; ``below``, of those whose history
    fewer than k persons share; and ``alone``, of those whose history is unique.

    Parameters
    ----------
    releases : SQL of an array of ids of recorded releases.
    persons : SQL of the array of packed persons of a release in progress, as ``pack_persons``
        builds it; or NULL.
    k : SQL of the number of persons who should share each history.
    """
    # Here a mark is not a comment on a relation. It identifies a class over all releases: the
    # ordinal of the release (0 for the one in progress), and the class number. The sorted marks of
    # a person are the person's history.
    record_indices = "generate_series(0, octet_length({0}.persons) / 12 - 1) AS i(i)"
    person_columns = (
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
            SELECT {person_columns.format("p", "w.ordinal::integer")}
            FROM unnest({releases}) WITH ORDINALITY AS w(id, ordinal)
            JOIN dbanon.release_person AS p ON p.release_id = w.id
            CROSS JOIN LATERAL {record_indices.format("p")}
            UNION ALL
            SELECT {person_columns.format("c", "0")}
            FROM unnest({persons}) AS c(persons)
            CROSS JOIN LATERAL {record_indices.format("c")}
        ) AS m GROUP BY m.person
    ) AS h GROUP BY h.history
) AS sizes"""


def build_joint_histories_plpgsql() -> str:
    """Return the query that counts joint histories as a statement of ``dbanon._joint_histories``.

    It reads the plpgsql variables of this SQL function, and writes to ``counted``. The variable
    ``least`` is k.
    """
    query = build_joint_histories_query("ids", "persons", "least").strip()
    return query.replace("SELECT ", "SELECT INTO counted ", 1) + ";"


# Query for the earlier releases of a relation. Its *names* are the present one, and those under
# which the ledger recorded the same oid. Whether an entry matches depends on the recorded source,
# in the order of the last CASE:
# - Oid 0, in entries of earlier versions, or after a dump was restored and repaired: its name must
#   be one of the names, or the recorded request must have the relation's oid.
# - No oid, as in releases by Spark: its name must be one of the names. If the release counts
#   persons, its publisher must also be able to read the relation.
# - An oid of another database, after a dump was restored: its name must be one of the names.
# - An oid of this database: it must be the relation's. Or, since some tables are recreated each
#   night, its name must be one of the names, and its owner the relation's owner or a role, except a
#   superuser, that may act as that owner.
# ``is_counted`` is true for entries whose source is this relation, or has a matching name and the
# same owner: joint histories are counted over these. Parameters: full name of the relation; its
# schema and name.
EARLIER_RELEASES = f"""
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
