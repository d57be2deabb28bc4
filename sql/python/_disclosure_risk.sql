-- STABLE: all of its queries see the one snapshot of the statement that calls it.
CREATE OR REPLACE FUNCTION dbanon._disclosure_risk(given jsonb)
RETURNS jsonb
LANGUAGE plpython3u STABLE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT@
return plpython.disclosure_risk(plpy, '@VERSION@', given)
$python$;
REVOKE ALL ON FUNCTION dbanon._disclosure_risk(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._disclosure_risk(jsonb) IS 'Internal: call dbanon.disclosure_risk.';
