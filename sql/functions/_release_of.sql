-- The entry of the ledger that a relation is, by the oids of the relation and of its owner that the
-- entry recorded in this database. A comment decides nothing. The query is that of the client.
CREATE OR REPLACE FUNCTION dbanon._release_of(relation oid)
RETURNS SETOF dbanon.release
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$@RELEASE_OF(_release_of.relation)@
$function$;
REVOKE ALL ON FUNCTION dbanon._release_of(oid) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._release_of(oid) IS
'Internal: the entry of the ledger that a relation is, by the oids of the relation and its owner.';
