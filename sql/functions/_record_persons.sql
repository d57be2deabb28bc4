-- dbanon._record_persons(release, persons): keeps who is in which class of a release, under salted
-- hashes, packed: 8 bytes of the hash and 4 of a number of the class, up to 160 times a row.
--
-- It runs with the rights of the ledger's owner, whose alone the rows are. An entry that the calling
-- transaction wrote, by dbanon._record_release, is proof that the caller owns the release, and that its
-- publisher may read the source. Persons of an entry are recorded once.
CREATE OR REPLACE FUNCTION dbanon._record_persons(release uuid, persons bytea[])
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
@PINS@
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    own bigint := pg_current_xact_id()::text::bigint;
    later bigint;
    recorded bigint;
BEGIN
    SELECT (r.xmin::text::bigint - own % 4294967296 + 4294967296) % 4294967296 INTO later
    FROM dbanon.release AS r
    WHERE r.release_id = _record_persons.release AND r.person_salt IS NOT NULL;
    -- As in _record_release: a row that is seen while what wrote it is in progress is our own.
    IF NOT FOUND OR later >= 2147483648
       OR pg_xact_status((own + later)::text::xid8) IS DISTINCT FROM 'in progress' THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'This transaction recorded no release of that id whose persons are kept.',
            HINT = 'Persons are recorded by dbanon alone, in the transaction that makes the release.';
    END IF;
    IF EXISTS (SELECT FROM unnest(persons) AS p
               WHERE p IS NULL OR octet_length(p) NOT BETWEEN 12 AND 1920 OR octet_length(p) % 12 <> 0)
       OR EXISTS (SELECT FROM dbanon.release_person AS p
                  WHERE p.release_id = _record_persons.release) THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'Persons of a release are recorded once, 12 bytes each, up to 160 in a row.';
    END IF;
    INSERT INTO dbanon.release_person (release_id, part, persons)
    SELECT _record_persons.release, p.part, p.packed
    FROM unnest(persons) WITH ORDINALITY AS p(packed, part);
    GET DIAGNOSTICS recorded = ROW_COUNT;
    RETURN recorded;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._record_persons(uuid, bytea[]) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._record_persons(uuid, bytea[]) IS
'Internal: keeps who is in which class of a release, under salted hashes, for the transaction that
recorded it.';
