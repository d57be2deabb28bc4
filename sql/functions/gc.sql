-- dbanon.gc(keep_last)
--
-- Drops released tables that their view no longer shows, but for the newest keep_last of each
-- view: only tables of the calling role that the ledger knows by oid and mark. A table that something
-- else still shows, or that a transaction has read, is left, with a warning.
CREATE OR REPLACE FUNCTION dbanon.gc(keep_last integer DEFAULT 1)
RETURNS TABLE (dropped text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    found record;
    patience constant text := current_setting('lock_timeout');
BEGIN
    IF gc.keep_last IS NULL OR gc.keep_last < 0 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'keep_last must be 0 or more.';
    END IF;
    PERFORM dbanon._require_ledger();
    -- Whoever waits for a table holds up its new readers.
    IF patience::interval NOT BETWEEN '1 ms' AND '500 ms' THEN
        PERFORM set_config('lock_timeout', '500ms', true);
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
          AND (old.relation_oid = c.oid::bigint
               OR old.relation_oid IS NULL AND old.published_by = pg_get_userbyid(c.relowner))
          AND pg_has_role(c.relowner, 'USAGE')
          -- The view shows it still, whatever the ledger says.
          AND NOT EXISTS (
              SELECT FROM pg_class AS v WHERE v.relnamespace = n.oid
              AND v.relname = old.output_name AND v.relkind = 'v'
              AND obj_description(v.oid, 'pg_class') = 'dbanon release ' || old.release_id)
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE %I.%I', found.output_schema, found.relation_name);
        EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
            RAISE WARNING 'dbanon: %.% is not dropped: something depends on it.',
                          quote_ident(found.output_schema), quote_ident(found.relation_name);
            CONTINUE;
        WHEN lock_not_available THEN
            RAISE WARNING 'dbanon: %.% is not dropped: readers hold it in open transactions.',
                          quote_ident(found.output_schema), quote_ident(found.relation_name);
            CONTINUE;
        END;
        dropped := format('%I.%I', found.output_schema, found.relation_name);
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('lock_timeout', patience, true);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.gc(integer) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.gc(integer) IS
'Drops released tables that their view no longer shows, except the newest keep_last of each view.
Only tables of the calling role that the ledger knows by oid and mark.';
