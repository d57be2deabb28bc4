-- Of earlier versions.
DROP FUNCTION IF EXISTS
    dbanon._raise(jsonb), dbanon._raise_changed(regclass, text[]),
    dbanon._not_in_ledger(regclass, text);
-- Nobody but these roles. Functions run with the caller's rights, but for those that write
-- the ledger or hold a lock in it, which run with those of the role that owns it.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dbanon FROM PUBLIC;
ALTER FUNCTION dbanon._record_release(jsonb, jsonb, jsonb) OWNER TO dbanon_ledger;
ALTER FUNCTION dbanon._record_run(jsonb) OWNER TO dbanon_ledger;
ALTER FUNCTION dbanon._record_persons(uuid, bytea[]) OWNER TO dbanon_ledger;
ALTER FUNCTION dbanon._joint_histories(jsonb, bytea[]) OWNER TO dbanon_ledger;
ALTER FUNCTION dbanon._spend(text, numeric, uuid) OWNER TO dbanon_ledger;
ALTER FUNCTION dbanon._write_rules(jsonb) OWNER TO dbanon_ledger;
ALTER FUNCTION dbanon._name_of(text, text) OWNER TO dbanon_ledger;
ALTER FUNCTION dbanon._hold_job(text) OWNER TO dbanon_ledger;
ALTER FUNCTION dbanon._require_room(text) OWNER TO dbanon_ledger;

ALTER VIEW dbanon.internal_of_publisher OWNER TO dbanon_ledger;
GRANT SELECT ON dbanon.internal_of_publisher TO dbanon_admin, dbanon_runner;

GRANT USAGE ON TYPE dbanon.release_info, dbanon.verification
    TO dbanon_admin, dbanon_runner, dbanon_reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dbanon TO dbanon_admin, dbanon_runner;

DO $own$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        EXECUTE pg_catalog.format('REVOKE dbanon_ledger FROM %I', current_user);
    END IF;
END
$own$;
