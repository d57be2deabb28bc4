-- What is to be said of a relation that no entry of the ledger belongs to, for raise.sql.
CREATE OR REPLACE FUNCTION dbanon._unknown_release(relation regclass, hint text)
RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
    SELECT jsonb_build_object('error', jsonb_build_object('sqlstate', '42P01') || CASE
        WHEN EXISTS (SELECT FROM dbanon.release AS r
                     WHERE obj_description(_unknown_release.relation, 'pg_class')
                           = 'dbanon release ' || r.release_id)
        THEN jsonb_build_object(
            'message', format('%s bears the mark of a release, but is not the relation that the'
                              ' ledger recorded.', relation),
            'hint', 'The mark was copied, or the relation renamed. After a dump was restored an'
                    ' administrator ties releases to their relations again: dbanon upgrade')
        ELSE jsonb_build_object(
            'message', format('The ledger of this database has no release %s.', relation),
            'hint', _unknown_release.hint)
    END)
$function$;
REVOKE ALL ON FUNCTION dbanon._unknown_release(regclass, text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._unknown_release(regclass, text) IS
'Internal: the error of a relation that is not in the ledger (42P01).';
