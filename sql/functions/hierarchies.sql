-- dbanon.hierarchies(): the stored hierarchies.
CREATE OR REPLACE FUNCTION dbanon.hierarchies()
RETURNS TABLE (
    name text, leaves bigint, nodes bigint, description text, created_at timestamp with time zone,
    created_by text
)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
BEGIN
    PERFORM dbanon._require_ledger();
    RETURN QUERY
        SELECT h.name, count(n.node) - count(DISTINCT n.parent), count(n.node), h.description,
               h.created_at, h.created_by
        FROM dbanon.hierarchy AS h
        JOIN dbanon.hierarchy_node AS n ON n.hierarchy = h.name
        GROUP BY h.name
        ORDER BY h.name;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.hierarchies() FROM PUBLIC;
COMMENT ON FUNCTION dbanon.hierarchies() IS
'The stored hierarchies. Calls refer to one as {"education": {"name": "education"}}.';
