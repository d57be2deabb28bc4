-- Raise the error that a function in Python handed back: its own text, no traceback.
CREATE OR REPLACE FUNCTION dbanon._raise(outcome jsonb)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    error jsonb := outcome -> 'error';
BEGIN
    IF error IS NULL THEN
        RETURN outcome;
    END IF;
    -- An empty detail or hint would be shown as an empty line.
    IF error ->> 'detail' IS NULL AND error ->> 'hint' IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = error ->> 'sqlstate', MESSAGE = error ->> 'message';
    ELSIF error ->> 'detail' IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = error ->> 'sqlstate', MESSAGE = error ->> 'message',
            HINT = error ->> 'hint';
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = error ->> 'sqlstate', MESSAGE = error ->> 'message',
        DETAIL = error ->> 'detail', HINT = coalesce(error ->> 'hint', 'See dbanon.help().');
END
$function$;
REVOKE ALL ON FUNCTION dbanon._raise(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._raise(jsonb) IS 'Internal: raises the error in a result.';
