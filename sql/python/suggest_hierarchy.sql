-- dbanon.suggest_hierarchy(source, column_name): a proposal from the values, for a person to edit.
CREATE OR REPLACE FUNCTION dbanon.suggest_hierarchy(source regclass, column_name text)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    IF suggest_hierarchy.source IS NULL OR suggest_hierarchy.column_name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004',
            MESSAGE = 'source and column_name must not be NULL.';
    END IF;
    outcome := dbanon._suggest_hierarchy(jsonb_build_object(
        'source', suggest_hierarchy.source::oid::bigint,
        'column_name', suggest_hierarchy.column_name
    ));
@RAISE@
    RETURN outcome;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.suggest_hierarchy(regclass, text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.suggest_hierarchy(regclass, text) IS
'A proposal from the values of a column, {"levels": [...]}, for a person to edit and store.
It lists the values: for the owner of the data.';
