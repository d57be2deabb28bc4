-- Whoever owns the schema, or a table or function in it, could change what is installed here.
DO $owner$
BEGIN
    IF EXISTS (
        SELECT 1
        FROM (
            SELECT nspowner AS owner FROM pg_catalog.pg_namespace WHERE nspname = 'dbanon'
            UNION ALL
            SELECT c.relowner FROM pg_catalog.pg_class c
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'dbanon'
            UNION ALL
            SELECT p.proowner FROM pg_catalog.pg_proc p
            JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'dbanon'
        ) AS owners
        JOIN pg_catalog.pg_roles r ON r.oid = owners.owner
        WHERE NOT r.rolsuper AND r.rolname <> current_user
    ) THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'Schema dbanon, or something in it, belongs to another role.',
            HINT = 'Look at it, then take it over: ALTER SCHEMA dbanon OWNER TO CURRENT_USER, and'
                   ' the same for its tables.';
    END IF;
END
$owner$;
