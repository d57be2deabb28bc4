-- The entry of the ledger that a relation is: its mark names the entry, and the entry names it, by
-- oid. Entries of version 0.1.0 have no oid until dbanon upgrade gives them one: their publisher's
-- name must be the relation's owner then.
CREATE OR REPLACE FUNCTION dbanon._release_of(relation oid)
RETURNS SETOF dbanon.release
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
    SELECT r.*
    FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN dbanon.release AS r ON r.output_schema = n.nspname AND r.output_name = c.relname
    WHERE c.oid = _release_of.relation
      AND obj_description(c.oid, 'pg_class') = 'dbanon release ' || r.release_id
      AND r.output_kind = CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' END
      AND (r.output_oid = c.oid::bigint
           OR r.output_oid IS NULL AND r.published_by = pg_get_userbyid(c.relowner))
$function$;
REVOKE ALL ON FUNCTION dbanon._release_of(oid) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._release_of(oid) IS
'Internal: the entry of the ledger that a relation is, by mark, name and oid.';
