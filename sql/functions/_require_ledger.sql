-- Refuses a ledger whose owner's code would run as the caller, before it is looked at.
CREATE OR REPLACE FUNCTION dbanon._require_ledger()
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    wrong record;
BEGIN
    FOR wrong IN SELECT u.object, u.owner FROM (@UNTRUSTED@) AS u LOOP
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = format('The ledger of this database is not trusted: %s, of role %I.',
                             wrong.object, wrong.owner),
            HINT = 'Its owner''s code would run as this role. Ask an administrator to look at it,'
                   ' and to run: dbanon upgrade';
    END LOOP;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._require_ledger() FROM PUBLIC;
COMMENT ON FUNCTION dbanon._require_ledger() IS
'Internal: refuses a ledger whose owner''s code would run as the caller (42501).';
