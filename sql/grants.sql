-- Nobody but these roles. Functions run with the caller's rights, so the ledger is granted, too.
REVOKE ALL ON SCHEMA dbanon FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA dbanon FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dbanon FROM PUBLIC;

GRANT USAGE ON SCHEMA dbanon TO dbanon_admin, dbanon_runner, dbanon_reader;
GRANT USAGE ON TYPE dbanon.release_info, dbanon.verification
    TO dbanon_admin, dbanon_runner, dbanon_reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dbanon TO dbanon_admin, dbanon_runner;

GRANT SELECT, INSERT, UPDATE, DELETE
    ON dbanon.release, dbanon.release_column, dbanon.run, dbanon.hierarchy, dbanon.hierarchy_node
    TO dbanon_admin;
GRANT SELECT, INSERT ON dbanon.release, dbanon.release_column, dbanon.run TO dbanon_runner;
GRANT UPDATE (superseded_at) ON dbanon.release TO dbanon_runner;
GRANT SELECT ON dbanon.hierarchy, dbanon.hierarchy_node TO dbanon_runner;
GRANT SELECT ON dbanon.alembic_version TO dbanon_admin, dbanon_runner;
