-- dbanon.usage(): what each role has written into the ledger, for monitoring.
CREATE OR REPLACE FUNCTION dbanon.usage()
RETURNS TABLE (role text, entries bigint, entries_today bigint, quota integer, bytes bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
BEGIN
    PERFORM dbanon._require_ledger();
    RETURN QUERY
        SELECT u.run_by, count(*),
               count(*) FILTER (WHERE u.started_at > clock_timestamp() - interval '1 day'),
               dbanon._require_room(NULL),
               sum(pg_column_size(u.*) + coalesce(pg_column_size(r.*), 0))::bigint
        FROM dbanon.run AS u LEFT JOIN dbanon.release AS r ON r.release_id = u.release_id
        GROUP BY u.run_by ORDER BY u.run_by;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.usage() FROM PUBLIC;
COMMENT ON FUNCTION dbanon.usage() IS
'What each role has written into the ledger.
Entries, entries of the last day, how many are allowed, and their bytes.';
