-- What the functions of the methods share. An error is handed back, not raised.
CREATE OR REPLACE FUNCTION dbanon._anonymize(given jsonb)
RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT@
return plpython.anonymize(plpy, '@VERSION@', given)
$python$;
REVOKE ALL ON FUNCTION dbanon._anonymize(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._anonymize(jsonb) IS 'Internal: call the function of a method.';
