-- What dbanon.refresh does. An error is handed back, not raised.
CREATE OR REPLACE FUNCTION dbanon._refresh(given jsonb)
RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT@
return plpython.refresh(plpy, '@VERSION@', given)
$python$;
REVOKE ALL ON FUNCTION dbanon._refresh(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._refresh(jsonb) IS 'Internal: call dbanon.refresh.';
