-- Ties entries of the ledger to the oids of their relations, where these bear the entry's mark and
-- name and belong to whoever published it: entries of version 0.1.0, and all after a dump was restored.
UPDATE dbanon.release AS r
SET relation_oid = t.relation_oid, output_oid = t.output_oid
FROM (
    SELECT e.release_id, c.oid::bigint AS relation_oid, o.oid::bigint AS output_oid
    FROM dbanon.release AS e
    JOIN pg_catalog.pg_namespace AS n ON n.nspname = e.output_schema
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = e.relation_name
        AND c.relkind = 'r'
    JOIN pg_catalog.pg_roles AS owner ON owner.oid = c.relowner AND owner.rolname = e.published_by
    LEFT JOIN pg_catalog.pg_class AS o ON o.relnamespace = n.oid AND o.relname = e.output_name
        AND o.relkind = CASE e.output_kind WHEN 'view' THEN 'v' ELSE 'r' END
        AND o.relowner = c.relowner
        AND pg_catalog.obj_description(o.oid, 'pg_class') = 'dbanon release ' || e.release_id
    WHERE pg_catalog.obj_description(c.oid, 'pg_class') = 'dbanon release ' || e.release_id
) AS t
WHERE r.release_id = t.release_id
  AND (r.relation_oid, r.output_oid) IS DISTINCT FROM (t.relation_oid, t.output_oid);
