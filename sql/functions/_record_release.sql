-- dbanon._record_release(release, columns, run): writes a release into the ledger.
--
-- It runs with the rights of the ledger's owner, and nobody else may write there, so it believes
-- the caller nothing that it can know itself. A function like this does not see who calls it; but
-- only the owner of a relation can comment on it. So it asks for the mark of this very release on
-- the relation and the output, written by the transaction that calls, and takes names, oids and
-- owner from the catalog, and the time from the clock. An id is good for one entry.
CREATE OR REPLACE FUNCTION dbanon._record_release(release jsonb, columns jsonb, run jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
@PINS@
-- A plan for any arguments: one made for these would show them to whoever has plans logged.
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    taken constant text[] := ARRAY['created_at', 'output_schema', 'output_name', 'output_kind',
                                   'relation_name', 'published_by', 'superseded_at', 'owner_oid',
                                   'publisher_oid', 'ledger_oid', 'source_owner_oid'];
    of_classes constant text[] := ARRAY['k_requested', 'k_achieved', 'classes', 'smallest_class',
        'median_class', 'largest_class', 'histogram', 'information_loss',
        'information_loss_before_rounding'];
    internal jsonb;
    unknown text;
    private boolean := release ->> 'budget' IS NOT NULL;
    id uuid;
    own bigint;
    place text;
    marked record;
    released record;
    shown record;
    entry dbanon.release;
    moment timestamptz := clock_timestamp();
    -- A snapshot that lasts as long as the transaction still shows what another one replaced
    -- meanwhile, in place of what is ours now: a new transaction has the answer.
    refused text := CASE current_setting('transaction_isolation')
                    WHEN 'read committed' THEN '42501' ELSE '40001' END;
BEGIN
    IF jsonb_typeof(release) IS DISTINCT FROM 'object'
       OR jsonb_typeof(columns) IS DISTINCT FROM 'array'
       OR jsonb_typeof(run) IS DISTINCT FROM 'object'
       OR EXISTS (SELECT FROM jsonb_array_elements(columns) AS e
                  WHERE jsonb_typeof(e) <> 'object') THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'A release is an object, its columns an array of objects, its run an object.';
    END IF;
    IF greatest(pg_column_size(release), pg_column_size(columns), pg_column_size(run)) > 16777216
       OR jsonb_array_length(columns) > 4096 THEN
        RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'The entry is too large.';
    END IF;
    -- Exact figures go into a table that only their publisher reads.
    internal := nullif(release -> 'internal', 'null');
    release := release - 'internal';
    SELECT given INTO unknown FROM (
        SELECT jsonb_object_keys(release) AS given
        EXCEPT SELECT attname FROM pg_attribute
        WHERE attrelid = 'dbanon.release'::regclass AND attnum > 0 AND NOT attisdropped
          AND attname <> ALL (taken)
        UNION ALL (
            SELECT DISTINCT jsonb_object_keys(e) FROM jsonb_array_elements(columns) AS e
            EXCEPT SELECT attname FROM pg_attribute
            WHERE attrelid = 'dbanon.release_column'::regclass AND attnum > 0
              AND NOT attisdropped AND attname <> 'release_id')
        UNION ALL (
            SELECT jsonb_object_keys(run)
            EXCEPT VALUES ('door'), ('elapsed'), ('fingerprint'), ('job'), ('run_id'),
                ('source_counts'), ('source_types'))
    ) AS keys LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('%I is not a key of an entry, or not one that is the caller''s to say.',
                             left(unknown, 60));
    END IF;
    -- Whoever reads the ledger on a terminal reads what a runner wrote. A tab may be in a name. Names
    -- and types of columns are what the table has, and are compared with it: readers write them out.
    SELECT key INTO unknown FROM (
        SELECT key, value FROM jsonb_each_text(release)
        WHERE jsonb_typeof(release -> key) = 'string'
        UNION ALL
        SELECT c.key, c.value FROM jsonb_array_elements(columns) AS e, jsonb_each_text(e) AS c
    ) AS texts
    WHERE key NOT IN ('name', 'sql_type') AND value ~ E'[\\u0001-\\u0008\\u000a-\\u001f\\u007f-\\u009f]'
       OR length(value) > CASE key WHEN 'source' THEN 5000 WHEN 'guarantee' THEN 300000
                                   WHEN 'sql_type' THEN 5000 ELSE 2000 END
    LIMIT 1;
    IF FOUND OR coalesce(release ->> 'method' !~ '^[a-z0-9_]{1,60}$', false) THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('The %s of the entry has a control character, or is too long.',
                             coalesce(unknown, 'method'));
    END IF;
    id := (release ->> 'release_id')::uuid;
    own := pg_current_xact_id()::text::bigint;
    FOREACH place IN ARRAY ARRAY['relation_oid', 'output_oid'] LOOP
        SELECT c.oid, c.relname, c.relkind, c.relowner, n.nspname,
               (d.xmin::text::bigint - own % 4294967296 + 4294967296) % 4294967296 AS later
        INTO marked
        FROM pg_class AS c
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_description AS d
            ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0
        WHERE c.oid::bigint = (release ->> place)::bigint AND c.relpersistence = 'p'
          AND c.relkind IN ('r', 'v') AND d.description = 'dbanon release ' || id;
        -- Numbers of subtransactions follow their transaction's. A row that is seen while what
        -- wrote it is in progress is our own.
        IF NOT FOUND OR marked.later >= 2147483648
           OR pg_xact_status((own + marked.later)::text::xid8) IS DISTINCT FROM 'in progress' THEN
            RAISE EXCEPTION USING ERRCODE = refused,
                MESSAGE = 'The table does not have the mark of this release, written by its'
                          ' owner in this transaction.',
                HINT = 'Releases are recorded by dbanon alone, in the transaction that makes them.';
        END IF;
        IF place = 'relation_oid' THEN
            released := marked;
        ELSE
            shown := marked;
        END IF;
    END LOOP;
    -- A view is the output of this table when it shows this table, and nothing else.
    IF released.relkind <> 'r' OR shown.nspname <> released.nspname
       OR shown.relowner <> released.relowner
       OR shown.oid <> released.oid AND (
            shown.relkind <> 'v' OR ARRAY[released.oid] IS DISTINCT FROM (
                SELECT array_agg(DISTINCT d.refobjid)
                FROM pg_rewrite AS w JOIN pg_depend AS d
                    ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
                WHERE w.ev_class = shown.oid AND d.refclassid = 'pg_class'::regclass
                  AND d.refobjid <> shown.oid)) THEN
        RAISE EXCEPTION USING ERRCODE = refused,
            MESSAGE = 'The output is neither the released table nor a view of it alone, of one owner'
                      ' and in one schema.';
    END IF;
    -- A release has figures of classes, or it has spent of a budget; never both, nor neither.
    IF EXISTS (SELECT FROM unnest(ARRAY['arguments', 'seconds']
                                  || CASE WHEN private THEN '{}'::text[]
                                          ELSE ARRAY['histogram'] END) AS key
               WHERE jsonb_typeof(release -> key) IS DISTINCT FROM 'object') THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'arguments, histogram and seconds are objects.';
    END IF;
    IF private AND release ?| of_classes
       OR NOT private AND release ?| ARRAY['epsilon', 'neighbours', 'delta', 'rho'] THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'A release has figures of classes, or what it spent of a budget.';
    END IF;
    IF EXISTS (SELECT FROM unnest(CASE WHEN private THEN ARRAY['epsilon', 'neighbours']
                                       ELSE of_classes END) AS key
               WHERE release ->> key IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = '23502', MESSAGE = 'The entry is not complete.';
    END IF;
    IF coalesce(jsonb_typeof(release -> 'evaluation'), 'object') <> 'object'
       OR coalesce(jsonb_typeof(release -> 'request'), 'object') <> 'object'
       OR coalesce(jsonb_typeof(internal), 'object') <> 'object' THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'evaluation, request and internal are objects.';
    END IF;
    IF run ?| ARRAY['job', 'source_types', 'fingerprint', 'source_counts'] AND (
           run ->> 'door' IS DISTINCT FROM 'job'
           -- As in _record_run.
           OR coalesce(run ->> 'job' !~ E'^(?![-_])[^\\u0001-\\u002c\\u002e\\u002f\\u003a-\\u0040\\u005b-\\u005e\\u0060\\u007b-\\u00a0\\u2000-\\u206f]{1,63}$', true)
           OR coalesce(run ->> 'fingerprint' !~ '^[a-z0-9:]{1,200}$', false)
           OR coalesce(jsonb_typeof(run -> 'source_types'), 'object') <> 'object'
           OR jsonb_path_exists(run, '$.source_types.* ? (@.type() != "string")')
           OR coalesce(jsonb_typeof(run -> 'source_counts'), 'object') <> 'object'
           OR jsonb_path_exists(run, '$.source_counts.* ? (@.type() != "number")')) THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'A run of a job has the job''s name, types as texts, a fingerprint, and counts.';
    END IF;
    entry := jsonb_populate_record(NULL::dbanon.release, release);
    entry.created_at := moment;
    entry.output_schema := released.nspname;
    entry.output_name := shown.relname;
    entry.output_kind := CASE shown.relkind WHEN 'r' THEN 'table' ELSE 'view' END;
    entry.relation_name := released.relname;
    entry.published_by := pg_get_userbyid(released.relowner);
    -- Later the oids say which relation this is. A role that is renamed keeps its number.
    entry.owner_oid := released.relowner;
    entry.publisher_oid := released.relowner;
    entry.ledger_oid := 'dbanon.release'::regclass::oid;
    -- The source by its oid: the relation of that name, if whoever publishes may read it.
    SELECT c.oid, c.relowner INTO entry.source_oid, entry.source_owner_oid
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid::bigint = coalesce(entry.source_oid,
                                   CASE WHEN jsonb_typeof(entry.request #> '{source,oid}') = 'number'
                                        THEN (entry.request #>> '{source,oid}')::numeric END)
      AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't'
      AND dbanon._name_of(n.nspname, c.relname) = entry.source
      AND has_schema_privilege(released.relowner, n.oid, 'USAGE')
      AND has_any_column_privilege(released.relowner, c.oid, 'SELECT');
    IF entry.source_oid IS NULL OR private OR entry.person_salt !~ '^[0-9a-f]{64}$' THEN
        entry.person_salt := NULL;
    END IF;
    entry.request := entry.request || jsonb_build_object('publisher', released.relowner::bigint);
    PERFORM dbanon._require_room(entry.published_by);
    -- Its own spending, once: what nobody has spent, nobody has released.
    IF entry.budget IS NOT NULL THEN
        UPDATE dbanon.spending AS s SET release_id = id, state = 'published'
        FROM dbanon.budget AS b
        WHERE s.spending_id = id AND s.state = 'spent' AND s.budget = entry.budget
          AND b.name = s.budget AND b.source = entry.source AND b.unit = entry.neighbours
          -- A budget with a delta counts rho, and what was charged of it stands in the entry.
          AND s.epsilon >= CASE WHEN b.delta IS NULL THEN entry.epsilon ELSE entry.rho END
          AND (b.delta IS NULL) = (entry.rho IS NULL)
          AND (b.delta IS NOT NULL OR entry.delta IS NULL)
          AND entry.epsilon > 0
          -- The rho that was charged pays for the epsilon that is promised: without a delta it is
          -- epsilon^2 / 2 or more. With one, rho means at most the epsilon of the plain conversion.
          AND CASE
              WHEN entry.rho IS NULL THEN true
              WHEN NOT (entry.rho > 0 AND coalesce(entry.delta > 0 AND entry.delta <= 1e-5, true))
                  THEN false
              WHEN entry.delta IS NULL
                  THEN entry.epsilon <= (1 + 1e-9) * sqrt(2 * entry.rho::double precision)
              -- Rho is rounded to billionths.
              ELSE entry.epsilon <= (entry.rho::double precision + 1e-9)
                       + 2 * sqrt((entry.rho::double precision + 1e-9) * ln(1 / entry.delta))
          END;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = '42501',
                MESSAGE = 'Nothing was spent of this budget for this release.';
        END IF;
    END IF;
    -- This relation has the name now: no earlier release has it any more.
    UPDATE dbanon.release AS r SET superseded_at = moment
    WHERE r.superseded_at IS NULL AND (
        r.output_schema = entry.output_schema AND r.output_name = entry.output_name
        -- The view may have had another name.
        OR r.output_oid = entry.output_oid AND r.ledger_oid = entry.ledger_oid);
    BEGIN
        INSERT INTO dbanon.release SELECT entry.*;
        INSERT INTO dbanon.release_internal SELECT id, internal WHERE internal IS NOT NULL;
        INSERT INTO dbanon.release_column
        SELECT c.* FROM jsonb_array_elements(columns) AS e CROSS JOIN LATERAL
            jsonb_populate_record(NULL::dbanon.release_column,
                                  e || jsonb_build_object('release_id', id)) AS c;
        INSERT INTO dbanon.run (run_id, release_id, door, method, source, output_schema, output_name,
                                started_at, finished_at, state, run_by, application, server_version,
                                job, source_types, fingerprint, source_counts)
        SELECT coalesce(w.run_id, gen_random_uuid()), id, w.door, entry.method, entry.source, entry.output_schema,
               entry.output_name, moment - make_interval(secs => w.elapsed), moment, 'done',
               entry.published_by, left(current_setting('application_name'), 200),
               current_setting('server_version'),
               run ->> 'job', run -> 'source_types', run ->> 'fingerprint',
               run -> 'source_counts'
        FROM (SELECT CASE WHEN run ->> 'door' IN ('sql', 'cli', 'python', 'job')
                          THEN run ->> 'door' END AS door,
                     CASE WHEN run ->> 'run_id' ~ '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$'
                          THEN (run ->> 'run_id')::uuid END AS run_id,
                     least(greatest((run ->> 'elapsed')::double precision, 0), 31536000) AS elapsed
             ) AS w;
    EXCEPTION
        -- The server's own texts would show the whole row.
        WHEN unique_violation THEN
            RAISE EXCEPTION USING ERRCODE = '23505',
                MESSAGE = 'The ledger has an entry of this release, or of its run, already.';
        WHEN not_null_violation THEN
            RAISE EXCEPTION USING ERRCODE = '23502',
                MESSAGE = 'The entry is not complete.';
    END;
    RETURN jsonb_build_object('created_at', moment, 'published_by', entry.published_by);
END
$function$;
REVOKE ALL ON FUNCTION dbanon._record_release(jsonb, jsonb, jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._record_release(jsonb, jsonb, jsonb) IS
'Internal: writes a release into the ledger, for the owner of a relation that was marked in this
transaction. Names, oids, owner and time are taken from the catalog and the clock.';
