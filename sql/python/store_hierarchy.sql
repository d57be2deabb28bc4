-- dbanon.store_hierarchy(name, hierarchy, replace, description)
--
-- Stores a hierarchy by name, for calls here and for clients: {"tree": {"*": {"a": ["b", "c"]}}},
-- {"tree": [["child", "parent"]]}, {"levels": [["leaf", "level 1", "root"]]} or
-- {"table": "ref.tree"}, which is copied as it is now.
CREATE OR REPLACE FUNCTION dbanon.store_hierarchy(
    name text, hierarchy jsonb, replace boolean DEFAULT false, description text DEFAULT NULL
)
RETURNS TABLE (leaves integer, height integer, sha256 text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    IF store_hierarchy.name IS NULL OR store_hierarchy.hierarchy IS NULL
       OR store_hierarchy.replace IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004',
            MESSAGE = 'name, hierarchy and replace must not be NULL.';
    END IF;
    outcome := dbanon._store_hierarchy(jsonb_build_object(
        'name', store_hierarchy.name,
        'hierarchy', store_hierarchy.hierarchy,
        'replace', store_hierarchy.replace,
        'description', store_hierarchy.description
    ));
@RAISE@
    RETURN QUERY SELECT (outcome ->> 'leaves')::integer, (outcome ->> 'height')::integer,
                        outcome ->> 'sha256';
END
$function$;
REVOKE ALL ON FUNCTION dbanon.store_hierarchy(text, jsonb, boolean, text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.store_hierarchy(text, jsonb, boolean, text) IS
'Stores a hierarchy by name, for calls here and for clients: (leaves, height, sha256).
{"tree": {"*": {"a": ["b", "c"]}}}, {"tree": [["child", "parent"]]},
{"levels": [["leaf", "level 1", "root"]]} or {"table": "ref.tree"}, copied as it is now.
Needs the role dbanon_admin. An existing one of this name stays unless replace is true.';
