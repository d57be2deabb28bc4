-- The entry of the ledger whose rows are in a table, also of a release that another one superseded.
-- The query is that of the client.
CREATE OR REPLACE FUNCTION dbanon._release_of_table(relation oid)
RETURNS SETOF dbanon.release
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$@RELEASE_OF_TABLE(_release_of_table.relation)@
$function$;
REVOKE ALL ON FUNCTION dbanon._release_of_table(oid) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._release_of_table(oid) IS
'Internal: the entry of the ledger whose rows are in a table, superseded or not.';
GRANT EXECUTE ON FUNCTION dbanon._release_of_table(oid) TO dbanon_reader;
