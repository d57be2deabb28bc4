-- Whether the source of a release has other rows than it read. An error is handed back, not raised.
CREATE OR REPLACE FUNCTION dbanon._compare_source(release_id uuid)
RETURNS jsonb
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@SETTINGS@
AS $python$
@IMPORT@
return plpython.has_other_rows(plpy, '@VERSION@', release_id)
$python$;
REVOKE ALL ON FUNCTION dbanon._compare_source(uuid) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._compare_source(uuid) IS 'Internal: rows of a source, read again.';
