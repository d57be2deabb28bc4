CREATE OR REPLACE FUNCTION dbanon._suggest_hierarchy(given jsonb)
RETURNS jsonb
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT@
return plpython.suggest_hierarchy(plpy, '@VERSION@', given)
$python$;
REVOKE ALL ON FUNCTION dbanon._suggest_hierarchy(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._suggest_hierarchy(jsonb) IS 'Internal: call dbanon.suggest_hierarchy.';
