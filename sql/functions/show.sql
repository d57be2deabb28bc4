-- dbanon.show(release): all that the ledger has of a release, as one object.
--
-- release: its id, or the name of its output as dbanon.releases() or as people write it; of several
-- releases of a name the newest.
CREATE OR REPLACE FUNCTION dbanon.show(release text)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    found jsonb;
BEGIN
    IF show.release IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'release must not be NULL.';
    END IF;
    PERFORM dbanon._require_ledger();
    SELECT to_jsonb(r) - ARRAY['relation_oid', 'output_oid', 'owner_oid', 'publisher_oid',
                                 'ledger_oid', 'request']
           || jsonb_build_object(
               'state', (SELECT listed.state FROM dbanon.releases() AS listed
                         WHERE listed.release_id = r.release_id),
               'columns', (SELECT coalesce(jsonb_agg(to_jsonb(c) - 'release_id' ORDER BY c.position),
                                           '[]')
                           FROM dbanon.release_column AS c WHERE c.release_id = r.release_id),
               'run', (SELECT to_jsonb(u) - ARRAY['release_id', 'method', 'source', 'output_schema',
                                                  'output_name', 'state', 'error_code',
                                                  'source_types', 'fingerprint',
                                                  'source_counts']
                       FROM dbanon.run AS u WHERE u.release_id = r.release_id LIMIT 1))
    INTO found
    FROM dbanon.release AS r
    WHERE r.release_id::text = lower(show.release)
       OR format('%I.%I', r.output_schema, r.output_name) = show.release
       OR r.output_schema || '.' || r.output_name = show.release
       OR r.release_id IN (SELECT listed.release_id FROM dbanon.releases() AS listed
                           WHERE listed.output = show.release)
    ORDER BY r.created_at DESC, r.release_id
    LIMIT 1;
    IF found IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '42P01',
            MESSAGE = 'The ledger of this database has no such release.',
            HINT = 'SELECT * FROM dbanon.releases() lists them.';
    END IF;
    RETURN found;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.show(text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.show(text) IS
'Everything that the ledger has about a release: entry, state, columns and run.
release is its id, or the name of its output.';
