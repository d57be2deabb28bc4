-- dbanon.classes(source, method, quasi_identifiers, k, options)
--
-- The equivalence class of every row, without writing anything. row_key is the primary key, or
-- the row's address (ctid) where there is none; class is NULL for a row that would be withheld.
-- The pairs link rows to classes: they are for the owner of the data, not for release.
-- options: those of the method's function but for output_kind and recoding, and nulls.
CREATE OR REPLACE FUNCTION dbanon.classes(
    source regclass, method text, quasi_identifiers text[], k integer,
    options jsonb DEFAULT '{}'
)
RETURNS TABLE (row_key jsonb, class integer)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF classes.source IS NULL OR classes.method IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'source and method must not be NULL.';
    END IF;
    RETURN QUERY
        SELECT CASE WHEN found.outcome = '' THEN found.row_key::jsonb
                    ELSE dbanon._raise(found.outcome::jsonb) END, found.class
        FROM dbanon._classes(jsonb_build_object(
            'source', classes.source::oid::bigint,
            'method', classes.method,
            'quasi_identifiers', classes.quasi_identifiers,
            'k', classes.k,
            'options', classes.options
        )) AS found;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.classes(regclass, text, text[], integer, jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.classes(regclass, text, text[], integer, jsonb) IS
'The class of every row, without writing anything: (row_key, class).
row_key is the primary key, or the row''s address where there is none.
class is NULL where the row would be withheld. For the owner of the data, not for release.';
