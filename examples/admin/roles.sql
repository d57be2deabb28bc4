-- Roles for those who work with dbanon, once in each database, by a superuser, after dbanon install:
--
--     psql URL --set ON_ERROR_STOP=1 --file roles.sql
--
-- It can be run again. Give the roles to people: GRANT dbanon_publisher TO anna. The rights on
-- sources and outputs are yours to grant; see docs/administration.md.
DO $roles$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['dbanon_publisher', 'dbanon_operator', 'dbanon_auditor'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
            EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', wanted);
        END IF;
    END LOOP;
END
$roles$;

-- Makes releases, and spends of budgets. It deletes nothing of the ledger.
GRANT dbanon_runner TO dbanon_publisher;

-- Keeps jobs running: sees whose process holds what since when, ends one that hangs, forgets old runs,
-- stores hierarchies. It can end every session of the server that is not a superuser's.
GRANT dbanon_admin, pg_signal_backend, pg_read_all_stats TO dbanon_operator;

-- Reads releases, runs, budgets and what was spent, and recounts what it may read. It is no runner: it
-- makes no release, spends nothing, and holds no job's lock.
GRANT dbanon_reader TO dbanon_auditor;
GRANT SELECT ON dbanon.release, dbanon.release_column, dbanon.run, dbanon.budget, dbanon.spending,
    dbanon.alembic_version TO dbanon_auditor;
GRANT EXECUTE ON FUNCTION dbanon.releases(boolean), dbanon.show(text), dbanon.usage(),
    dbanon._require_room(text), dbanon._require_ledger(), dbanon._release_of(oid),
    dbanon._is_stale(jsonb, jsonb), dbanon._state_of(oid), dbanon._name_of(text, text),
    dbanon._has_other_rows(uuid),
    dbanon._unknown_release(regclass, text) TO dbanon_auditor;
