-- dbanon.gc(keep_last)
--
-- Drops released tables that their view no longer shows, but for the newest keep_last of each
-- view: only tables of the calling role that the ledger knows by their oids. A table that something
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
        SELECT t.schema_name, t.name
        FROM (
            SELECT r.*, row_number() OVER (
                PARTITION BY r.output_schema, r.output_name
                ORDER BY r.superseded_at DESC, r.created_at DESC
            ) AS place
            FROM dbanon.release r
            WHERE r.output_kind = 'view' AND r.superseded_at IS NOT NULL
        ) AS old
        JOIN (@RELEASED_TABLES@) AS t ON t.release_id = old.release_id
        WHERE old.place > gc.keep_last AND pg_has_role(t.relowner, 'USAGE')
          -- The view shows it still, whatever the ledger says.
          AND NOT t.is_shown
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE %I.%I', found.schema_name, found.name);
        EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
            RAISE WARNING 'dbanon: %.% was not dropped: another object depends on it.',
                          quote_ident(found.schema_name), quote_ident(found.name);
            CONTINUE;
        WHEN lock_not_available THEN
            RAISE WARNING 'dbanon: %.% was not dropped: readers hold it in open transactions.',
                          quote_ident(found.schema_name), quote_ident(found.name);
            CONTINUE;
        END;
        dropped := format('%I.%I', found.schema_name, found.name);
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('lock_timeout', patience, true);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.gc(integer) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.gc(integer) IS
'Drops released tables that their view no longer shows, except the newest keep_last of each view.
Only tables of the calling role that the ledger knows by their oids.';
