-- What a relation's views, and its indexes to the planner, would run as the caller: refused, where
-- a role that is neither the caller nor a superuser could have put it there. Called before a
-- relation is read. The query is that of the stores.
CREATE OR REPLACE FUNCTION dbanon._require_own_code(checked regclass)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
SET jit = off
AS $function$
DECLARE
    refused record;
BEGIN
    FOR refused IN
        SELECT * FROM (@FOREIGN_CODE@) AS found(relation, called, owned_by)
    LOOP
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = format('Reading %s would run %s of role %s with this role''s rights.',
                             refused.relation, refused.called, refused.owned_by),
            HINT = '@FOREIGN_HINT@';
    END LOOP;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._require_own_code(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon._require_own_code(regclass) TO dbanon_reader;
COMMENT ON FUNCTION dbanon._require_own_code(regclass) IS
    'Internal: refuses relations that would run code of another role.';
