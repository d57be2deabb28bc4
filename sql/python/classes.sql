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
@PINS@
AS $function$
DECLARE
    found record;
    outcome jsonb;
BEGIN
    IF classes.source IS NULL OR classes.method IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'source and method must not be NULL.';
    END IF;
    FOR found IN
        SELECT given.row_key, given.class, given.outcome
        FROM dbanon._classes(jsonb_build_object(
            'source', classes.source::oid::bigint,
            'method', classes.method,
            'quasi_identifiers', classes.quasi_identifiers,
            'k', classes.k,
            'options', classes.options
        )) AS given
    LOOP
        IF found.outcome <> '' THEN
            outcome := found.outcome;
        END IF;
@RAISE@
        row_key := found.row_key;
        class := found.class;
        RETURN NEXT;
    END LOOP;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.classes(regclass, text, text[], integer, jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.classes(regclass, text, text[], integer, jsonb) IS
'The class of every row, without writing anything: (row_key, class).
row_key is the primary key, or the row''s address if there is none.
class is NULL if the row would be withheld. For the owner of the data, not for release.';
