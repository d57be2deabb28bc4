-- dbanon.rules(source): the rules that are declared, of a table or of all.
--
-- They are kept by the table's name. state: current; another table, one that was made under this name
-- since (or restored from a dump); no column; no table. Of a table that is named also the columns
-- without a rule: no rule.
CREATE OR REPLACE FUNCTION dbanon.rules(source regclass DEFAULT NULL)
RETURNS TABLE (
    source_name text, column_name text, role text, rule jsonb, state text, declared_at timestamptz,
    declared_by text
)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
BEGIN
    PERFORM dbanon._require_ledger();
    RETURN QUERY
        WITH relations AS (
            SELECT c.oid, dbanon._name_of(n.nspname, c.relname) AS named
            FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
              AND (rules.source IS NULL OR c.oid = rules.source)
        ), listed AS (
            SELECT k.source AS named, k.name, k.rule, k.declared_at, k.declared_by, a.attnum,
                   CASE WHEN t.oid IS NULL THEN 'no table'
                        WHEN a.attname IS NULL THEN 'no column'
                        WHEN k.relation_oid IS DISTINCT FROM t.oid::bigint THEN 'another table'
                        ELSE 'current' END AS state
            FROM dbanon.rule AS k
            LEFT JOIN relations AS t ON t.named = k.source
            LEFT JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attname = k.name
                AND a.attnum > 0 AND NOT a.attisdropped
            WHERE rules.source IS NULL OR t.oid IS NOT NULL
            UNION ALL
            SELECT t.named, a.attname, NULL, NULL, NULL, a.attnum, 'no rule'
            FROM relations AS t
            JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE t.oid = rules.source AND NOT EXISTS (
                SELECT FROM dbanon.rule AS k WHERE k.source = t.named AND k.name = a.attname)
        )
        SELECT l.named, l.name, l.rule ->> 'role', l.rule, l.state, l.declared_at, l.declared_by
        FROM listed AS l ORDER BY l.named, l.attnum, l.name;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.rules(regclass) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.rules(regclass) IS
'The declared rules of a table, with its columns that have none, or the rules of all tables.
state: current; another table (made under this name since, or restored); no column; no table; no rule.';
