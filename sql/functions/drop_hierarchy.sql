-- dbanon.drop_hierarchy(name): removes a stored hierarchy. Releases that used it stay.
CREATE OR REPLACE FUNCTION dbanon.drop_hierarchy(name text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
BEGIN
    PERFORM dbanon._require_ledger();
    DELETE FROM dbanon.hierarchy_node AS n WHERE n.hierarchy = drop_hierarchy.name;
    DELETE FROM dbanon.hierarchy AS h WHERE h.name = drop_hierarchy.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42704',
            MESSAGE = 'There is no stored hierarchy of this name.',
            HINT = 'SELECT * FROM dbanon.hierarchies() lists them.';
    END IF;
    RETURN true;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.drop_hierarchy(text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.drop_hierarchy(text) IS
'Removes a stored hierarchy, and returns true. Releases that used it stay as they are.';
