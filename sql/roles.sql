-- Roles belong to the whole server: another database may have made them. dbanon_ledger owns the
-- ledger and the functions that write it: nobody may be able to become it.
DO $roles$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY
        ARRAY['dbanon_admin', 'dbanon_runner', 'dbanon_reader', 'dbanon_ledger']
    LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = role_name) THEN
            EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', role_name);
        END IF;
    END LOOP;
    IF EXISTS (SELECT 1 FROM pg_catalog.pg_roles
               WHERE rolname = 'dbanon_ledger' AND (rolcanlogin OR rolsuper)) THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'The role dbanon_ledger can log in, or is a superuser.',
            HINT = 'Find out who made it, then: ALTER ROLE dbanon_ledger NOLOGIN NOSUPERUSER.';
    END IF;
    IF EXISTS (
        SELECT 1 FROM pg_catalog.pg_auth_members AS m
        JOIN pg_catalog.pg_roles AS member ON member.oid = m.member
        WHERE m.roleid = 'dbanon_ledger'::pg_catalog.regrole AND NOT member.rolsuper
          -- Whoever makes a role on version 16 may grant it, and has nothing else of it.
          AND (coalesce((pg_catalog.to_jsonb(m) ->> 'set_option')::boolean, true)
               OR coalesce((pg_catalog.to_jsonb(m) ->> 'inherit_option')::boolean, true))
    ) THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'The role dbanon_ledger has a member that is no superuser.',
            HINT = 'Find out who made it a member, then: REVOKE dbanon_ledger FROM that role.';
    END IF;
    -- On servers whose administrator is no superuser: the one for this script, which grants.sql takes
    -- back; the other to stay, as what is installed belongs to another role then.
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        EXECUTE pg_catalog.format('GRANT dbanon_ledger, dbanon_admin TO %I', current_user);
    END IF;
END
$roles$;
