-- What is to be said of a relation that is not as it was released, for raise.sql.
CREATE OR REPLACE FUNCTION dbanon._changed_release(relation regclass, differing text[])
RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
    SELECT jsonb_build_object('error', jsonb_build_object(
        'sqlstate', 'ZK007',
        'message', format('%s has changed since it was released: %s differ.',
                          relation, array_to_string(differing, ', ')),
        'hint', 'Find out who changed it, and release it again.'))
$function$;
REVOKE ALL ON FUNCTION dbanon._changed_release(regclass, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon._changed_release(regclass, text[]) TO dbanon_reader;
COMMENT ON FUNCTION dbanon._changed_release(regclass, text[]) IS
'Internal: the error of a relation that is not as it was released (ZK007).';
