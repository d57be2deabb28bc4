-- What the server counts of a relation and all below it; nothing of it is read. The query is that of
-- the stores.
CREATE OR REPLACE FUNCTION dbanon._state_of(relation oid)
RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$@STATE@
$function$;
REVOKE ALL ON FUNCTION dbanon._state_of(oid) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._state_of(oid) IS
'Internal: what the server counts of a relation: rows written since when, and its file.';
