-- dbanon.rules(source): the rules that are declared, of a table or of all.
--
-- They belong to the table that they were declared of, and after it to the next one of its name and
-- owner. state: current; another table of this name, of another role or restored; not trusted, as no
-- owner of today declared it; no column; no table. Of a table that is named also the columns without
-- a rule: no rule.
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
        WITH judged AS (@RULES_WITH_STATE((rules.source IS NULL OR c.oid = rules.source))@
        ), listed AS (
            SELECT j.table_name AS named, j.name, j.rule, j.declared_at, j.declared_by, j.attnum,
                   j.state
            FROM judged AS j
            WHERE j.table_oid IS NULL AND rules.source IS NULL
               -- What others said of columns that are not there is nothing to decide about.
               OR j.rank = 1 AND (j.is_trusted OR j.attnum IS NOT NULL)
            UNION ALL
            SELECT dbanon._name_of(n.nspname, c.relname), a.attname, NULL, NULL, NULL, a.attnum,
                   'no rule'
            FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.oid = rules.source AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT EXISTS (
                SELECT FROM judged AS j WHERE j.table_oid = c.oid AND j.attnum = a.attnum)
        )
        SELECT l.named, l.name, l.rule ->> 'role', l.rule, l.state, l.declared_at, l.declared_by
        FROM listed AS l ORDER BY l.named, l.attnum, l.name;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.rules(regclass) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.rules(regclass) IS
'The declared rules of a table, with its columns that have none, or the rules of all tables.
state: current; not trusted (not declared by the owner of today, who can declare it again); another
table (of this name, of another role or restored); no column; no table; no rule.';
