-- dbanon._record_run(run): writes a run that failed into dbanon.run.
--
-- It runs with the rights of the ledger's owner. Role and time are not the caller's to say: it is the
-- role that logged in, since a function like this sees no other; and the state is always 'failed'.
CREATE OR REPLACE FUNCTION dbanon._record_run(run jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
@PINS@
-- A plan for any arguments: one made for these would show them to whoever has plans logged.
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    unknown text;
BEGIN
    IF jsonb_typeof(run) IS DISTINCT FROM 'object' OR pg_column_size(run) > 65536 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'A run is a small object.';
    END IF;
    SELECT given INTO unknown FROM (
        SELECT jsonb_object_keys(run) AS given EXCEPT VALUES ('door'), ('elapsed'), ('error_code'),
            ('job'), ('method'), ('output_name'), ('output_schema'), ('run_id'), ('source')
    ) AS keys LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('%I is no key of a run, or one that is not the caller''s to say.',
                             left(unknown, 60));
    END IF;
    IF coalesce(run ->> 'door' NOT IN ('cli', 'python', 'job'), true)
       OR coalesce(run ->> 'error_code' !~ '^[a-z_]{1,60}$', true)
       OR coalesce(run ->> 'method' !~ '^[a-z0-9_]{1,60}$', true)
       OR coalesce(length(run ->> 'source') > 300 OR length(run ->> 'output_name') > 300, true)
       OR coalesce(length(run ->> 'output_schema') > 300, false)
       OR concat(run ->> 'source', run ->> 'output_schema', run ->> 'output_name')
          ~ E'[\\u0001-\\u0008\\u000a-\\u001f\\u007f-\\u009f]'
       -- Letters of any script; no mark of direction, which a terminal would follow.
       OR coalesce(run ->> 'job' !~ E'^(?![-_])[^\\u0001-\\u002c\\u002e\\u002f\\u003a-\\u0040\\u005b-\\u005e\\u0060\\u007b-\\u00a0\\u2000-\\u206f]{1,63}$', false)
       OR run ? 'job' AND run ->> 'door' <> 'job'
       OR run ->> 'run_id' !~ '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'A run has a door, a method, a source, an output and the code of an error; one of'
                      ' a job file also its job.';
    END IF;
    PERFORM dbanon._require_room(session_user);
    INSERT INTO dbanon.run (run_id, door, method, source, output_schema, output_name, started_at,
                            finished_at, state, error_code, run_by, application, server_version, job)
    SELECT coalesce((run ->> 'run_id')::uuid, gen_random_uuid()), run ->> 'door', run ->> 'method', run ->> 'source',
           run ->> 'output_schema', run ->> 'output_name',
           moment - make_interval(secs => coalesce(
               least(greatest((run ->> 'elapsed')::double precision, 0), 31536000), 0)),
           moment, 'failed', run ->> 'error_code', session_user,
           left(current_setting('application_name'), 200), current_setting('server_version'),
           run ->> 'job'
    FROM clock_timestamp() AS moment;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._record_run(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._record_run(jsonb) IS
'Internal: writes a run that failed into the ledger, with the role that logged in and the time.';
