-- dbanon.show_hierarchy(name): the nodes of a stored hierarchy, the root first.
CREATE OR REPLACE FUNCTION dbanon.show_hierarchy(name text)
RETURNS TABLE (child text, parent text)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
BEGIN
    PERFORM dbanon._require_ledger();
    RETURN QUERY
        SELECT n.label, up.label
        FROM dbanon.hierarchy_node AS n
        LEFT JOIN dbanon.hierarchy_node AS up
            ON up.hierarchy = n.hierarchy AND up.node = n.parent
        WHERE n.hierarchy = show_hierarchy.name
        ORDER BY n.node;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42704',
            MESSAGE = 'There is no stored hierarchy of this name.',
            HINT = 'SELECT * FROM dbanon.hierarchies() lists them.';
    END IF;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.show_hierarchy(text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.show_hierarchy(text) IS
'The nodes of a stored hierarchy, the root first: (child, parent).';
