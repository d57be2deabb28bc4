-- dbanon.check(): whether SQL functions, ledger and Python package fit together.
CREATE OR REPLACE FUNCTION dbanon.check()
RETURNS TABLE (item text, found text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    RETURN QUERY SELECT 'sql functions'::text, dbanon.version();
    RETURN QUERY SELECT 'ledger'::text, v.version_num::text FROM dbanon.alembic_version v;
    RETURN QUERY SELECT 'server'::text, current_setting('server_version');
    IF to_regprocedure('dbanon._check()') IS NULL THEN
        RETURN QUERY SELECT 'python'::text, 'not installed (--sql-only)'::text;
        RETURN;
    END IF;
    EXECUTE 'SELECT dbanon._check()' INTO outcome;
@RAISE@
    RETURN QUERY SELECT e.key, e.value FROM jsonb_each_text(outcome) AS e;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.check() FROM PUBLIC;
COMMENT ON FUNCTION dbanon.check() IS
'Whether SQL functions, ledger and Python package fit together; 55000 if versions differ.';
