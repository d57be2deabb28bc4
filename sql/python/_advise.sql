-- STABLE: all of its queries see the one snapshot of the statement that calls it.
CREATE OR REPLACE FUNCTION dbanon._advise(given jsonb)
RETURNS jsonb
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT@
return plpython.advise(plpy, '@VERSION@', given)
$python$;
REVOKE ALL ON FUNCTION dbanon._advise(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._advise(jsonb) IS 'Internal: call dbanon.advise.';
