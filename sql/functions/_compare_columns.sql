-- What differs between a relation's columns and those of a release: 'columns', 'types' or nothing.
-- Of a release of version 0.1.0, which has no digest, only the names are compared.
CREATE OR REPLACE FUNCTION dbanon._compare_columns(relation regclass, release uuid)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    relation_schema text;
    relation_name text;
    names_now text[];
    types_now text[];
    names_then text[];
    types_then text[];
    with_digest boolean;
BEGIN
    SELECT n.nspname, c.relname INTO relation_schema, relation_name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = _compare_columns.relation;
    SELECT array_agg(now.name), array_agg(now.sql_type) INTO names_now, types_now
    FROM (@DIGEST_COLUMNS@) AS now;
    SELECT r.digest IS NOT NULL INTO with_digest
    FROM dbanon.release r WHERE r.release_id = _compare_columns.release;
    SELECT array_agg(c.name ORDER BY c.position), array_agg(c.sql_type ORDER BY c.position)
    INTO names_then, types_then
    FROM dbanon.release_column c
    WHERE c.release_id = _compare_columns.release AND c.role <> 'not_copied';
    IF NOT with_digest THEN
        RETURN CASE WHEN ARRAY(SELECT unnest(names_now) ORDER BY 1)
                         IS DISTINCT FROM ARRAY(SELECT unnest(names_then) ORDER BY 1)
                    THEN 'columns' END;
    END IF;
    RETURN CASE WHEN names_now IS DISTINCT FROM names_then THEN 'columns'
                WHEN types_now IS DISTINCT FROM types_then THEN 'types' END;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._compare_columns(regclass, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon._compare_columns(regclass, uuid) TO dbanon_reader;
COMMENT ON FUNCTION dbanon._compare_columns(regclass, uuid) IS
'Internal: what differs between a relation''s columns and those recorded.';
