CREATE OR REPLACE FUNCTION dbanon._check_hierarchy(given jsonb)
RETURNS jsonb
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT@
return plpython.check_hierarchy(plpy, '@VERSION@', given)
$python$;
REVOKE ALL ON FUNCTION dbanon._check_hierarchy(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._check_hierarchy(jsonb) IS 'Internal: call dbanon.check_hierarchy.';
