CREATE OR REPLACE FUNCTION dbanon._check_rules(given jsonb)
RETURNS jsonb
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT@
return plpython.check_rules(plpy, '@VERSION@', given)
$python$;
REVOKE ALL ON FUNCTION dbanon._check_rules(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._check_rules(jsonb) IS 'Internal: call dbanon.declare.';
