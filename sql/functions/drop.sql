-- dbanon.drop(release): drops a release of ours, by the relation that readers use.
--
-- Its view, its table and its summary, of the calling role, that the ledger knows by oid and mark.
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
        SELECT c.relname, c.relkind, c.relowner
        FROM pg_class AS c
        JOIN pg_class AS o ON o.oid = drop.release AND o.relnamespace = c.relnamespace
        WHERE c.oid = o.oid
           OR c.relkind = 'r' AND c.relowner = o.relowner
              AND obj_description(c.oid, 'pg_class') = 'dbanon release ' || entry.release_id
              AND (c.relname = entry.output_name || '_summary'
                   OR c.relname = entry.relation_name
                      AND coalesce(entry.relation_oid = c.oid::bigint,
                                   entry.published_by = pg_get_userbyid(c.relowner)))
        -- A view before the table that it shows.
        ORDER BY c.relkind = 'r', c.oid <> o.oid, c.relname = entry.output_name || '_summary'
    LOOP
        IF NOT pg_has_role(found.relowner, 'USAGE') THEN
            RAISE EXCEPTION USING ERRCODE = '42501',
                MESSAGE = format('%I.%I is not dropped: it belongs to role %I.', entry.output_schema,
                                 found.relname, pg_get_userbyid(found.relowner)),
                HINT = 'Drop it as that role.';
        END IF;
        BEGIN
            EXECUTE format('DROP %s %I.%I', CASE found.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END,
                           entry.output_schema, found.relname);
        EXCEPTION WHEN dependent_objects_still_exist THEN
            RAISE EXCEPTION USING ERRCODE = '2BP01',
                MESSAGE = format('%I.%I is not dropped: something else shows it.',
                                 entry.output_schema, found.relname),
                HINT = 'Drop before it what depends on it.';
        WHEN lock_not_available THEN
            RAISE EXCEPTION USING ERRCODE = '55P03',
                MESSAGE = format('%I.%I is not dropped: readers hold it in open transactions.',
                                 entry.output_schema, found.relname),
                HINT = 'Try again; pg_stat_activity shows them.';
        END;
        dropped := format('%I.%I', entry.output_schema, found.relname);
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('lock_timeout', patience, true);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.drop(regclass) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.drop(regclass) IS
'Drops a release of dbanon: its view, its table and its summary. The ledger keeps its entry, as dropped.
Only relations of the calling role that the ledger knows by oid and mark.';
