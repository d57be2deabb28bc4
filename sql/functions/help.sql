-- dbanon.help(): the functions, a line each. dbanon.help('mdav'): the manual of one.
CREATE OR REPLACE FUNCTION dbanon.help(topic text DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    found text;
BEGIN
    SELECT string_agg(
        CASE WHEN help.topic IS NULL
             THEN format('%s: %s', p.proname, split_part(d.description, E'\n', 1))
             ELSE format(E'dbanon.%s(%s)\n%s', p.proname, pg_get_function_arguments(p.oid),
                         d.description)
        END, E'\n' ORDER BY p.proname, p.pronargs)
    INTO found
    FROM pg_proc p
    JOIN pg_description d ON d.objoid = p.oid AND d.classoid = 'pg_proc'::regclass
    WHERE p.pronamespace = 'dbanon'::regnamespace AND p.proname NOT LIKE E'\\_%'
      AND (help.topic IS NULL OR p.proname = help.topic);
    IF found IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'There is no function of this name.',
            HINT = 'SELECT dbanon.help() lists them.';
    END IF;
    RETURN found;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.help(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon.help(text) TO dbanon_reader;
COMMENT ON FUNCTION dbanon.help(text) IS
'Lists the functions, one per line. With a name: the manual of that function.';
