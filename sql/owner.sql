-- Whoever owns the schema, or a table or function in it, could change what is installed here, and
-- whatever hangs on a table would run as whoever installs. The locks keep triggers away meanwhile.
DO $owner$
DECLARE
    held regclass;
    wrong record;
BEGIN
    FOR held IN
        SELECT c.oid::regclass FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'dbanon' AND c.relkind = 'r' ORDER BY c.oid
    LOOP
        EXECUTE pg_catalog.format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE', held);
    END LOOP;
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
        WHERE NOT r.rolsuper AND r.rolname NOT IN (current_user, 'dbanon_ledger')
    ) THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'Schema dbanon, or something in it, belongs to another role.',
            HINT = 'Look at it, then take it over: ALTER SCHEMA dbanon OWNER TO CURRENT_USER, and'
                   ' the same for its tables.';
    END IF;
    FOR wrong IN
        SELECT u.object, u.owner FROM (@UNTRUSTED@) AS u WHERE u.kind = 'code'
    LOOP
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = pg_catalog.format('The ledger has a %s, of role %I.', wrong.object, wrong.owner),
            HINT = 'Find out who made it, and drop it: nothing hangs on a ledger''s tables.';
    END LOOP;
END
$owner$;
