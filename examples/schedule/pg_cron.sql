-- A release each night at three, by pg_cron. Run it in the database that cron.database_name names,
-- as a superuser, with psql -v database=... -v role=...
--
-- The view release.people is a stable name: every run writes a new table, recounts it, and points
-- the view to it, in one transaction. Grants on the view stay. The table before the newest stays,
-- too, for readers that are busy with it; older ones are dropped.
--
-- The role needs to log in, membership in dbanon_runner, SELECT on app.people, and USAGE and CREATE
-- on schema release. It owns what it releases.
--
-- SQL functions do not check releases against each other: each is k-anonymous, but who holds two of them
-- can intersect their classes. `dbanon chain measure` counts what they reveal together. Releases of a
-- chain are checked against all earlier ones; the command line, Python and job files make them, and no
-- SQL function does (docs/chains.md). Without one, withdraw a release before the next one is given to the
-- same readers, or release only once.
SELECT cron.schedule_in_database(
    'release people',
    '0 3 * * *',
    $job$
    SELECT dbanon.mdav('app.people', 'release.people', '{age,income}', k => 5,
                       sensitive => '{diagnosis}', if_exists => 'replace',
                       options => '{"output_kind": "view"}');
    $job$,
    :'database',
    :'role'
);
SELECT cron.schedule_in_database(
    'clear people', '30 3 * * *', 'SELECT dbanon.gc(keep_last => 1)', :'database', :'role'
);
-- What ran, and what failed:
--   SELECT start_time, status, return_message FROM cron.job_run_details ORDER BY start_time DESC;
-- For readers, once there is a first release:
--   GRANT USAGE ON SCHEMA release TO dbanon_reader; GRANT SELECT ON release.people TO dbanon_reader;
