-- dbanon._joint_histories(given, persons): how many persons have a joint history over releases, how
-- many have one that fewer than k share, and how many have one of their own: {"releases": [ids],
-- "k": ...}, and for a release that is being made "release_id", its "relation_oid" and "source_oid",
-- with its persons as _record_persons takes them.
--
-- It runs with the rights of the ledger's owner, as nobody else reads the persons. Counts are all that
-- leaves it. Persons that the caller brings are a question, so they are counted only with releases of
-- a source that the caller may read: the mark of the release, written by this transaction, shows whose
-- rights these are. Counts of several sources together would be such a question, too.
CREATE OR REPLACE FUNCTION dbanon._joint_histories(given jsonb, persons bytea[])
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
@PINS@
SET work_mem = '192MB'
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    own bigint := pg_current_xact_id()::text::bigint;
    ids uuid[];
    least integer := (given ->> 'k')::integer;
    marked record;
    source record;
    counted jsonb;
BEGIN
    SELECT array_agg(i::uuid ORDER BY place) INTO ids
    FROM jsonb_array_elements_text(given -> 'releases') WITH ORDINALITY AS r(i, place);
    IF ids IS NULL OR cardinality(ids) > 1000000 OR least IS NULL
       OR (given ->> 'release_id' IS NULL) <> (persons IS NULL)
       OR cardinality(ids) <> (SELECT count(DISTINCT i) FROM unnest(ids) AS i)
       OR EXISTS (SELECT FROM unnest(persons) AS p WHERE p IS NULL
                  OR octet_length(p) NOT BETWEEN 12 AND 1920 OR octet_length(p) % 12 <> 0) THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'Joint histories are counted over releases, each named once, and a k.';
    END IF;
    IF persons IS NULL THEN
        SELECT r.source_oid, r.source_owner_oid AS owner_oid, r.source AS name INTO source
        FROM dbanon.release AS r WHERE r.release_id = ids[1];
    ELSE
        SELECT c.relowner, (d.xmin::text::bigint - own % 4294967296 + 4294967296) % 4294967296 AS later
        INTO marked
        FROM pg_class AS c
        JOIN pg_description AS d
            ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0
        WHERE c.oid::bigint = (given ->> 'relation_oid')::bigint AND c.relkind = 'r'
          AND c.relpersistence = 'p'
          AND d.description = 'dbanon release ' || (given ->> 'release_id')::uuid;
        -- As in _record_release: a row that is seen while what wrote it is in progress is our own.
        IF NOT FOUND OR marked.later >= 2147483648
           OR pg_xact_status((own + marked.later)::text::xid8) IS DISTINCT FROM 'in progress' THEN
            RAISE EXCEPTION USING ERRCODE = '42501',
                MESSAGE = 'The table does not have the mark of this release, written by its owner in'
                          ' this transaction.',
                HINT = 'Releases are made by dbanon alone.';
        END IF;
        SELECT c.oid::bigint AS source_oid, c.relowner::bigint AS owner_oid,
               dbanon._name_of(n.nspname, c.relname) AS name
        INTO source
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.oid::bigint = (given ->> 'source_oid')::bigint
          AND has_schema_privilege(marked.relowner, n.oid, 'USAGE')
          AND has_any_column_privilege(marked.relowner, c.oid, 'SELECT');
    END IF;
    IF cardinality(ids) <> (
        SELECT count(*) FROM dbanon.release AS r
        WHERE r.release_id = ANY (ids) AND r.person_salt IS NOT NULL
          AND r.ledger_oid = 'dbanon.release'::regclass::oid::bigint
          AND (r.source_oid = source.source_oid
               OR r.source_owner_oid = source.owner_oid AND (
                   r.source = source.name OR EXISTS (
                       -- A name that the relation had.
                       SELECT FROM dbanon.release AS q
                       WHERE q.source_oid = source.source_oid AND q.source = r.source
                         AND q.ledger_oid = r.ledger_oid)))) THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'These are not releases of one source with a record of their persons.';
    END IF;
    @JOINT_HISTORIES@
    RETURN counted;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._joint_histories(jsonb, bytea[]) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._joint_histories(jsonb, bytea[]) IS
'Internal: how many persons share each joint history over releases of one source; counts alone.';
