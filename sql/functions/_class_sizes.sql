-- How many classes there are of each size, by GROUP BY over what readers see: values that are equal
-- and shown differently, such as 7.5 and 7.50, are several. NULLs are equal to each other here.
CREATE OR REPLACE FUNCTION dbanon._class_sizes(relation regclass, quasi_identifiers text[])
RETURNS TABLE (size bigint, classes bigint)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    column_name text;
    columns text;
BEGIN
    IF array_ndims(quasi_identifiers) > 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'quasi_identifiers must be a list of names, and not one of lists.',
            HINT = 'As in ARRAY[''age'', ''income''].';
    END IF;
    IF _class_sizes.relation IS NULL OR coalesce(cardinality(quasi_identifiers), 0) = 0
            OR array_position(quasi_identifiers, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004',
            MESSAGE = 'relation and quasi_identifiers must not be NULL or empty.';
    END IF;
    FOREACH column_name IN ARRAY quasi_identifiers LOOP
        IF NOT EXISTS (
            SELECT 1 FROM pg_attribute a
            WHERE a.attrelid = _class_sizes.relation AND a.attname = column_name
              AND a.attnum > 0 AND NOT a.attisdropped
        ) THEN
            RAISE EXCEPTION USING ERRCODE = '42703',
                MESSAGE = format('%s has no column %I.', _class_sizes.relation, column_name);
        ELSIF NOT has_column_privilege(_class_sizes.relation, column_name, 'SELECT') THEN
            RAISE EXCEPTION USING ERRCODE = '42501',
                MESSAGE = format('This role may not read column %I of %s.', column_name,
                                 _class_sizes.relation),
                HINT = format('Its owner runs: GRANT SELECT ON %s TO %I;', _class_sizes.relation,
                              current_user);
        END IF;
    END LOOP;
    PERFORM dbanon._require_own_code(_class_sizes.relation);
    SELECT string_agg(replace(found.shown, '{}', format('s.%I', found.name)), ', ')
    INTO columns FROM (@DISPLAY_TEMPLATES@) AS found;
    RETURN QUERY EXECUTE format(
        'SELECT found.size, count(*) FROM (SELECT count(*) AS size FROM %s AS s GROUP BY %s) AS found'
        ' GROUP BY found.size ORDER BY found.size',
        _class_sizes.relation, columns
    );
END
$function$;
REVOKE ALL ON FUNCTION dbanon._class_sizes(regclass, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon._class_sizes(regclass, text[]) TO dbanon_reader;
COMMENT ON FUNCTION dbanon._class_sizes(regclass, text[]) IS 'Internal: sizes of classes.';
