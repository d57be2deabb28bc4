-- dbanon.drop(release): drops a release of ours, by the relation that readers use.
--
-- Its view, its table and its summary, of the calling role, that the ledger knows by their oids.
-- The entry stays in the ledger, where its state is dropped then. Tables of earlier releases that a
-- view showed stay until dbanon.gc(0).
CREATE OR REPLACE FUNCTION dbanon.drop(release regclass)
RETURNS TABLE (dropped text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    entry dbanon.release;
    found record;
    patience constant text := current_setting('lock_timeout');
    outcome jsonb;
BEGIN
    IF drop.release IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'release must not be NULL.';
    END IF;
    PERFORM dbanon._require_ledger();
    -- Whoever waits for a table holds up its new readers.
    IF patience::interval NOT BETWEEN '1 ms' AND '500 ms' THEN
        PERFORM set_config('lock_timeout', '500ms', true);
    END IF;
    SELECT r.* INTO entry FROM dbanon._release_of(drop.release::oid) AS r;
    IF entry.release_id IS NULL THEN
        outcome := dbanon._unknown_release(drop.release,
            'dbanon drops only what it made: SELECT * FROM dbanon.releases() lists it.');
@RAISE@
    END IF;
    FOR found IN
        SELECT n.nspname, c.relname, c.relkind, c.relowner
        FROM pg_class AS c
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_class AS o ON o.oid = drop.release
        WHERE c.oid = o.oid
           OR c.oid IN (SELECT t.oid FROM (@RELEASED_TABLES@) AS t
                        WHERE t.release_id = entry.release_id AND t.relowner = o.relowner)
           -- A summary, by its columns; of earlier versions by its mark.
           OR c.relkind = 'r' AND c.relowner = o.relowner AND c.relnamespace = o.relnamespace
              AND c.relname = o.relname || '_summary'
              AND (obj_description(c.oid, 'pg_class') = 'dbanon release ' || entry.release_id
                   OR ARRAY(SELECT a.attname::text FROM pg_attribute AS a
                            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
                      @> ARRAY[@SUMMARY_COLUMNS@])
        -- A view before the table that it shows.
        ORDER BY c.relkind = 'r', c.oid <> o.oid, c.relname = o.relname || '_summary'
    LOOP
        IF NOT pg_has_role(found.relowner, 'USAGE') THEN
            RAISE EXCEPTION USING ERRCODE = '42501',
                MESSAGE = format('%I.%I was not dropped: it belongs to role %I.', found.nspname,
                                 found.relname, pg_get_userbyid(found.relowner)),
                HINT = 'Drop it as that role.';
        END IF;
        BEGIN
            EXECUTE format('DROP %s %I.%I', CASE found.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END,
                           found.nspname, found.relname);
        EXCEPTION WHEN dependent_objects_still_exist THEN
            RAISE EXCEPTION USING ERRCODE = '2BP01',
                MESSAGE = format('%I.%I was not dropped: another object depends on it.',
                                 found.nspname, found.relname),
                HINT = 'Drop before it what depends on it.';
        WHEN lock_not_available THEN
            RAISE EXCEPTION USING ERRCODE = '55P03',
                MESSAGE = format('%I.%I was not dropped: readers hold it in open transactions.',
                                 found.nspname, found.relname),
                HINT = 'Try again; pg_stat_activity shows them.';
        END;
        dropped := format('%I.%I', found.nspname, found.relname);
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('lock_timeout', patience, true);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.drop(regclass) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.drop(regclass) IS
'Drops a release of dbanon: its view, its table and its summary. The ledger keeps its entry, as dropped.
Only relations of the calling role that the ledger knows by their oids.';
