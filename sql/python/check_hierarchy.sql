-- dbanon.check_hierarchy(hierarchy, source, column_name)
--
-- Everything that is wrong with a hierarchy, a row each, with the label meant; no row when nothing
-- is. With source and column_name: also the values of the column that are no leaf.
CREATE OR REPLACE FUNCTION dbanon.check_hierarchy(
    hierarchy jsonb, source regclass DEFAULT NULL, column_name text DEFAULT NULL
)
RETURNS TABLE (problem text, label text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    IF check_hierarchy.hierarchy IS NULL
       OR (check_hierarchy.source IS NULL) <> (check_hierarchy.column_name IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = '22004',
            MESSAGE = 'hierarchy must not be NULL; source and column_name belong together.';
    END IF;
    outcome := dbanon._check_hierarchy(jsonb_build_object(
        'hierarchy', check_hierarchy.hierarchy,
        'source', check_hierarchy.source::oid::bigint,
        'column_name', check_hierarchy.column_name
    ));
@RAISE@
    -- One by one: a query of them would show the labels in its plan, which servers log.
    FOR place IN 0 .. jsonb_array_length(outcome -> 'problems') - 1 LOOP
        problem := outcome -> 'problems' -> place ->> 'kind';
        label := outcome -> 'problems' -> place ->> 'label';
        RETURN NEXT;
    END LOOP;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.check_hierarchy(jsonb, regclass, text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.check_hierarchy(jsonb, regclass, text) IS
'Everything that is wrong with a hierarchy: (problem, label); no row when nothing is.
With source and column_name, also the values of the column that are not leaves.
For the owner of the data: labels may be values.';
