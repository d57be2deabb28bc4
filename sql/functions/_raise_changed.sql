-- Raise ZK007 for a relation that is not as it was released.
CREATE OR REPLACE FUNCTION dbanon._raise_changed(relation regclass, differing text[])
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'ZK007',
        MESSAGE = format('%s is not as it was released: %s differ.',
                         relation, array_to_string(differing, ', ')),
        HINT = 'Find out who changed it, and release it again.';
END
$function$;
REVOKE ALL ON FUNCTION dbanon._raise_changed(regclass, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon._raise_changed(regclass, text[]) TO dbanon_reader;
COMMENT ON FUNCTION dbanon._raise_changed(regclass, text[]) IS
'Internal: raises the error of a relation that is not as it was released.';
