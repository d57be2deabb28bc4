-- dbanon._require_room(role): refuses a role more entries of the ledger a day than are allowed.
--
-- 10,000 entries, or as many as the owner of the database set: ALTER DATABASE ... SET
-- dbanon.entries_a_day = '500'. What a session or a role sets itself is not asked for. It is called by
-- the functions that write the ledger, and belongs to the same role.
CREATE OR REPLACE FUNCTION dbanon._require_room(role text)
RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    quota integer := coalesce((
        SELECT nullif(regexp_replace(setting, '^dbanon[.]entries_a_day=', ''), setting)
        FROM pg_db_role_setting AS s CROSS JOIN LATERAL unnest(s.setconfig) AS setting
        WHERE s.setrole = 0 AND s.setdatabase =
              (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
          AND setting ~ '^dbanon[.]entries_a_day=[0-9]{1,9}$'), '10000')::integer;
BEGIN
    IF role IS NOT NULL AND (
        SELECT count(*) FROM dbanon.run AS u
        WHERE u.run_by = role AND u.started_at > clock_timestamp() - interval '1 day') >= quota THEN
        RAISE EXCEPTION USING ERRCODE = '53400', CONSTRAINT = 'dbanon_entries_a_day',
            MESSAGE = format('Role %I has written %s entries of the ledger within a day, which is all'
                             ' that one may.', role, quota),
            HINT = 'The owner of the database can allow more: ALTER DATABASE ... SET'
                   ' dbanon.entries_a_day = ...';
    END IF;
    RETURN quota;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._require_room(text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._require_room(text) IS
'Internal: refuses a role that has written too many entries into the ledger in a day; returns the limit.';
