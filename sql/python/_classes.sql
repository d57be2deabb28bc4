-- STABLE: all of its queries see the one snapshot of the statement that calls it.
CREATE OR REPLACE FUNCTION dbanon._classes(
    given jsonb, OUT row_key text, OUT class integer, OUT outcome text
)
RETURNS SETOF record
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT_ROWS@
return plpython.classes(plpy, '@VERSION@', given)
$python$;
REVOKE ALL ON FUNCTION dbanon._classes(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._classes(jsonb) IS 'Internal: call dbanon.classes.';
