CREATE OR REPLACE FUNCTION dbanon._store_hierarchy(given jsonb)
RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT@
return plpython.store_hierarchy(plpy, '@VERSION@', given)
$python$;
REVOKE ALL ON FUNCTION dbanon._store_hierarchy(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._store_hierarchy(jsonb) IS 'Internal: call dbanon.store_hierarchy.';
