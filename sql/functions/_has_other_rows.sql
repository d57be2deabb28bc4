-- Whether the source of a release has other rows than it read, by all of them; NULL where nobody can
-- tell, or this role may not read it.
CREATE OR REPLACE FUNCTION dbanon._has_other_rows(release_id uuid)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    IF to_regprocedure('dbanon._compare_source(uuid)') IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '0A000',
            MESSAGE = 'Rows of a source are read again by Python, which is not installed here.',
            HINT = 'Ask a client: dbanon releases --exact.';
    END IF;
    -- Installations without Python have no such function.
    EXECUTE 'SELECT dbanon._compare_source($1)' INTO outcome USING release_id;
    RETURN (outcome ->> 'differs')::boolean;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._has_other_rows(uuid) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._has_other_rows(uuid) IS
'Internal: whether the rows of a release''s source differ from those that it read.';
