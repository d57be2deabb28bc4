-- Raises what is to be said of a relation that no entry of the ledger belongs to.
CREATE OR REPLACE FUNCTION dbanon._not_in_ledger(relation regclass, hint text)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF EXISTS (SELECT FROM dbanon.release AS r
               WHERE obj_description(_not_in_ledger.relation, 'pg_class')
                     = 'dbanon release ' || r.release_id) THEN
        RAISE EXCEPTION USING ERRCODE = '42P01',
            MESSAGE = format('%s bears the mark of a release, but is not the relation that the'
                             ' ledger recorded.', relation),
            HINT = 'The mark was copied, or the relation renamed. After a dump was restored an'
                   ' administrator ties releases to their relations again: dbanon upgrade';
    END IF;
    RAISE EXCEPTION USING ERRCODE = '42P01',
        MESSAGE = format('The ledger of this database has no release %s.', relation),
        HINT = _not_in_ledger.hint;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._not_in_ledger(regclass, text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._not_in_ledger(regclass, text) IS
'Internal: raises that a relation is not in the ledger (42P01).';
