-- dbanon._hold_job(job): holds the lock of a job for as long as the transaction is open.
--
-- It runs with the rights of the ledger's owner: a lock that anybody can take by its number, as an
-- advisory lock, could be kept by a role that may run nothing. The lock is a row of the ledger that is
-- never committed: two transactions cannot both write its key, and whatever ends the transaction
-- takes the row away.
CREATE OR REPLACE FUNCTION dbanon._hold_job(job text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
@PINS@
AS $function$
DECLARE
    -- No id of a run: these are of version 4. What a role has written, this does not take away.
    key constant uuid := overlay(md5('dbanon job ' || job) PLACING '8' FROM 13 FOR 1)::uuid;
    patience constant text := current_setting('lock_timeout');
BEGIN
    IF coalesce(length(job) NOT BETWEEN 1 AND 200, true) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'A job has a name of 1 to 200 characters.';
    END IF;
    PERFORM dbanon._require_room(session_user);
    -- For the table with the caller's patience: an upgrade has it, not a job of this name.
    LOCK TABLE ONLY dbanon.run IN ROW EXCLUSIVE MODE;
    IF patience::interval NOT BETWEEN '1 ms' AND '200 ms' THEN
        PERFORM set_config('lock_timeout', '200ms', true);
    END IF;
    BEGIN
        -- One that a caller has committed is no lock.
        DELETE FROM dbanon.run AS r WHERE r.run_id = key AND r.state = 'lock';
        INSERT INTO dbanon.run (run_id, door, method, source, output_name, started_at, state, run_by)
        VALUES (key, 'job', '', '', '', clock_timestamp(), 'lock', session_user);
    EXCEPTION
        WHEN lock_not_available OR unique_violation OR serialization_failure THEN
            PERFORM set_config('lock_timeout', patience, true);
            RETURN false;
    END;
    PERFORM set_config('lock_timeout', patience, true);
    RETURN true;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._hold_job(text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._hold_job(text) IS
'Internal: true when the transaction holds the lock of a job now, false when another one does.';
