-- dbanon.gc(keep_last)
--
-- Drops released tables that their view no longer shows, but for the newest keep_last of each
-- view: only tables of the calling role that the ledger knows and that bear their release's mark.
CREATE OR REPLACE FUNCTION dbanon.gc(keep_last integer DEFAULT 1)
RETURNS TABLE (dropped text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found record;
BEGIN
    IF gc.keep_last IS NULL OR gc.keep_last < 0 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'keep_last must be 0 or more.';
    END IF;
    FOR found IN
        SELECT old.output_schema, old.relation_name
        FROM (
            SELECT r.*, row_number() OVER (
                PARTITION BY r.output_schema, r.output_name
                ORDER BY r.superseded_at DESC, r.created_at DESC
            ) AS place
            FROM dbanon.release r
            WHERE r.output_kind = 'view' AND r.superseded_at IS NOT NULL
        ) AS old
        JOIN pg_namespace n ON n.nspname = old.output_schema
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = old.relation_name
        WHERE old.place > gc.keep_last AND c.relkind = 'r'
          AND obj_description(c.oid, 'pg_class') = 'dbanon release ' || old.release_id
          AND pg_has_role(c.relowner, 'USAGE')
    LOOP
        EXECUTE format('DROP TABLE %I.%I', found.output_schema, found.relation_name);
        dropped := format('%I.%I', found.output_schema, found.relation_name);
        RETURN NEXT;
    END LOOP;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.gc(integer) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.gc(integer) IS
'Drop released tables that their view no longer shows, but for the newest keep_last of each view.
Only tables of the calling role that the ledger knows and that bear their release''s mark.';
