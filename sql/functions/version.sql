-- dbanon.version(): the version of the SQL functions. dbanon.check() compares it with Python's.
CREATE OR REPLACE FUNCTION dbanon.version()
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$ SELECT '@VERSION@'::text $function$;
REVOKE ALL ON FUNCTION dbanon.version() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon.version() TO dbanon_reader;
COMMENT ON FUNCTION dbanon.version() IS 'The version of the SQL functions.';
