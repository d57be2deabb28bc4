-- The ledger belongs to a role that nobody can become; runners and clients write it by four
-- functions of that role. Whatever an earlier version or its administrator granted beyond is taken back.
DO $grants$
DECLARE
    held record;
BEGIN
    EXECUTE 'ALTER SCHEMA dbanon OWNER TO dbanon_ledger';
    FOR held IN
        SELECT c.oid, c.relname, c.relacl FROM pg_catalog.pg_class c
        WHERE c.relnamespace = 'dbanon'::pg_catalog.regnamespace AND c.relkind = 'r'
          AND c.relname IN (@TABLES@)
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE dbanon.%I OWNER TO dbanon_ledger', held.relname);
    END LOOP;
    FOR held IN
        SELECT DISTINCT c.relname, CASE g.grantee WHEN 0 THEN 'PUBLIC'
                   ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END AS grantee,
               g.privilege_type AS privilege
        FROM (
            SELECT c.oid, c.relname, c.relacl AS acl FROM pg_catalog.pg_class c
            UNION ALL
            SELECT c.oid, c.relname, a.attacl FROM pg_catalog.pg_class c
            JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
        ) AS c
        CROSS JOIN LATERAL pg_catalog.aclexplode(c.acl) AS g
        JOIN pg_catalog.pg_class AS t ON t.oid = c.oid
        WHERE t.relnamespace = 'dbanon'::pg_catalog.regnamespace AND t.relname IN (@TABLES@)
          AND g.grantee <> t.relowner
          -- All privileges that this server's version has, but for reading; nobody reads persons.
          AND (g.privilege_type <> 'SELECT' OR t.relname = 'release_person')
          -- Whom the owner lets in to chains stays in: see docs/rights.md.
          AND NOT (g.privilege_type IN ('INSERT', 'UPDATE', 'DELETE')
                   AND (t.relname IN ('hierarchy', 'hierarchy_node') OR t.relname ~ '^chain'))
    LOOP
        EXECUTE pg_catalog.format('REVOKE %s ON dbanon.%I FROM %s',
                                  held.privilege, held.relname, held.grantee);
    END LOOP;
END
$grants$;
REVOKE ALL ON SCHEMA dbanon FROM PUBLIC;
REVOKE CREATE ON SCHEMA dbanon FROM dbanon_admin, dbanon_runner, dbanon_reader;
REVOKE ALL ON ALL TABLES IN SCHEMA dbanon FROM PUBLIC;

@REVOKE_INTERNAL@;
-- Administrators may clear rows away by their release, and read no figure.
GRANT SELECT (release_id), DELETE ON dbanon.release_internal TO dbanon_admin;

GRANT USAGE ON SCHEMA dbanon TO dbanon_admin, dbanon_runner, dbanon_reader;
GRANT SELECT ON dbanon.release, dbanon.release_column, dbanon.run, dbanon.hierarchy,
    dbanon.hierarchy_node, dbanon.rule, dbanon.budget, dbanon.spending, dbanon.alembic_version
    TO dbanon_admin, dbanon_runner;
-- Entries may be cleared away, never made up.
GRANT DELETE ON dbanon.release, dbanon.release_column, dbanon.run, dbanon.rule TO dbanon_admin;
-- To clear the persons of releases away whose id is known.
GRANT DELETE, SELECT (release_id) ON dbanon.release_person TO dbanon_admin;
GRANT INSERT, UPDATE, DELETE ON dbanon.hierarchy, dbanon.hierarchy_node TO dbanon_admin;
