-- dbanon.verify_release(release)
--
-- Recounts a release that is named by its id, as dbanon.verify does. The release may be superseded:
-- its table is recounted, if it was kept. release: as of dbanon.show.
CREATE OR REPLACE FUNCTION dbanon.verify_release(release text)
RETURNS dbanon.verification
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    id uuid := (dbanon.show(verify_release.release) ->> 'release_id')::uuid;
    entry record;
    relation regclass;
BEGIN
    SELECT r.output_schema, r.output_name, r.relation_name, r.superseded_at, s.oid, s.state
    INTO entry
    FROM dbanon.release AS r JOIN (@STATES@) AS s ON s.release_id = r.release_id
    WHERE r.release_id = id;
    relation := coalesce(entry.oid, (SELECT t.oid FROM (@RELEASED_TABLES@) AS t
                                     WHERE t.release_id = id));
    IF relation IS NULL AND entry.state = 'untied' THEN
        RAISE EXCEPTION USING ERRCODE = '42P01',
            MESSAGE = format('%I.%I is not the table that the ledger recorded.', entry.output_schema,
                             entry.output_name),
            HINT = 'After a dump was restored, an administrator attaches releases to their relations'
                   ' again: dbanon repair.';
    ELSIF relation IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '42P01',
            MESSAGE = format('The table %I.%I of release %s of %I.%I%s was dropped or replaced.',
                             entry.output_schema, entry.relation_name, id, entry.output_schema,
                             entry.output_name,
                             ', superseded at ' || to_char(entry.superseded_at AT TIME ZONE 'UTC',
                                                           'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ','),
            HINT = 'Its rows are in no relation of this database. The command dbanon verify FILE --ledger'
                   ' URL compares an exported file of it with the ledger.';
    END IF;
    RETURN dbanon.verify(relation);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.verify_release(text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.verify_release(text) IS
'Recounts a release named by its id, also one that another release superseded, if its table was kept.';
