-- What the digest of a relation's rows says beside one that was recorded: 'unchanged', 'changed',
-- 'not recorded', or 'recorded by another version of the database', which hashes in another way.
CREATE OR REPLACE FUNCTION dbanon._compare_rows(relation regclass, recorded text)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
SET jit = off
AS $function$
DECLARE
    parts text[] := string_to_array(recorded, ':');
    relation_salt text := parts[2];
    relation_schema text;
    relation_name text;
    counted text;
BEGIN
    IF recorded IS NULL THEN
        RETURN 'not recorded';
    END IF;
    IF parts[1] <> '@DIGEST_METHOD@' OR parts[3] <> (@DIGEST_PROBE@)::text THEN
        RETURN 'recorded by another version of the database';
    END IF;
    SELECT n.nspname, c.relname INTO relation_schema, relation_name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = _compare_rows.relation;
    PERFORM dbanon._require_own_code(_compare_rows.relation);
    EXECUTE format('SELECT format(''%%s:%%s'', found.rows, found.total) FROM (%s) AS found',
                   (@DIGEST_STATEMENT@)) INTO counted;
    RETURN CASE WHEN counted = parts[4] || ':' || parts[5] THEN 'unchanged' ELSE 'changed' END;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._compare_rows(regclass, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon._compare_rows(regclass, text) TO dbanon_reader;
COMMENT ON FUNCTION dbanon._compare_rows(regclass, text) IS
'Internal: how the digest of a relation''s rows compares with one that was recorded.';
