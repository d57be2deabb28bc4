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
            'message', format('%s has the mark of a release, but is not the table or view that the'
                              ' ledger recorded.', relation),
            'hint', 'Another relation took its place, or its mark was copied. After a dump was'
                    ' restored, or its owner changed, an administrator attaches releases to their'
                    ' relations again: dbanon repair. After a dump dbanon upgrade does it, too.')
        WHEN EXISTS (SELECT FROM dbanon.release AS r
                     JOIN pg_class AS c ON c.oid = _unknown_release.relation
                     JOIN pg_namespace AS n ON n.oid = c.relnamespace
                     WHERE r.superseded_at IS NULL AND r.output_schema = n.nspname
                       AND r.output_name = c.relname)
        THEN jsonb_build_object(
            'message', format('%s has the name of a release, but is not the table or view that the'
                              ' ledger recorded.', relation),
            'hint', 'Another relation took its place. After a dump was restored, or its owner'
                    ' changed, an administrator attaches releases to their relations again:'
                    ' dbanon repair. After a dump dbanon upgrade does it, too.')
        ELSE jsonb_build_object(
            'message', format('The ledger of this database has no release %s.', relation),
            'hint', _unknown_release.hint)
    END)
$function$;
REVOKE ALL ON FUNCTION dbanon._unknown_release(regclass, text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._unknown_release(regclass, text) IS
'Internal: the error of a relation that is not in the ledger (42P01).';
