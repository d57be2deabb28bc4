CREATE OR REPLACE FUNCTION dbanon._check()
RETURNS jsonb
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $python$
@IMPORT@
return plpython.check(plpy, '@VERSION@')
$python$;
REVOKE ALL ON FUNCTION dbanon._check() FROM PUBLIC;
COMMENT ON FUNCTION dbanon._check() IS 'Internal: call dbanon.check.';
