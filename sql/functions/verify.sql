-- dbanon.verify(relation, quasi_identifiers, k)
--
-- Recounts a published relation. With a ledger entry, the columns and k are those of the release;
-- names, order and types of all columns, the digest of the rows and the histogram of class sizes
-- must still be those recorded. Otherwise name columns and k.
-- ZK001: a class is smaller than k. ZK007: something else differs; the message says what.
-- unchanged is NULL where the rows could not be compared; digest says why.
-- The table of a release that another one superseded is recounted by its own entry, and a notice says so.
-- A release with guarantee per_attribute is counted column by column, and a warning says so.
-- A differentially private release has no classes: rows, NULLs, bounds and lists are counted, and a notice
-- says that its privacy cannot be.
-- Where NULL agrees with every value (missing=wildcard), the rows that agree with each row are counted.
-- A release with entity counted persons, in its privacy models, too; only its rows can be counted
-- now, which notices say.
CREATE OR REPLACE FUNCTION dbanon.verify(
    relation regclass, quasi_identifiers text[] DEFAULT NULL, k integer DEFAULT NULL
)
RETURNS dbanon.verification
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    entry record;
    counted jsonb;
    result dbanon.verification;
    names text[] := quasi_identifiers;
    wanted integer := k;
    differing text[] := '{}';
    columns_now text;
    synthetic boolean := false;
    null_agrees boolean := false;
    outcome jsonb;
    column_set record;
    superseded record;
BEGIN
    IF verify.relation IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'relation must not be NULL.';
    END IF;
    IF names IS NULL THEN
        IF NOT (has_function_privilege('dbanon._require_ledger()', 'EXECUTE')
                AND has_table_privilege('dbanon.release', 'SELECT')) THEN
            RAISE EXCEPTION USING ERRCODE = '42501',
                MESSAGE = 'This role may not read the ledger, schema dbanon.',
                HINT = format('An administrator runs: GRANT dbanon_runner TO %I; Or name quasi_identifiers'
                              ' and k.', current_user);
        END IF;
        PERFORM dbanon._require_ledger();
        SELECT r.release_id, r.k_requested, r.histogram, r.epsilon,
               r.arguments->>'entity' AS entity,
               r.arguments->>'guarantee' = 'per_attribute' AS alone,
               jsonb_array_length(r.arguments->'models') AS models, r.digest,
               coalesce(r.arguments->'also_k', '[]') AS also_k,
               coalesce(r.arguments->'options'->>'missing' = 'wildcard', false) AS null_agrees,
               r.arguments @? '$.models[*] ? (@.counted_in == "persons")' AS of_persons,
               ARRAY(SELECT jsonb_array_elements_text(r.arguments->'by')) AS strata
        INTO entry
        FROM (SELECT o.*, 1 AS rank FROM dbanon._release_of(verify.relation) AS o
              UNION ALL
              SELECT t.*, 2 FROM dbanon._release_of_table(verify.relation) AS t
              ORDER BY rank LIMIT 1) AS r;
        IF NOT FOUND THEN
            outcome := dbanon._unknown_release(verify.relation,
                'Name quasi_identifiers and k to recount a relation that is not in it.');
@RAISE@
        END IF;
        SELECT array_agg(c.name ORDER BY c.position) INTO names
        FROM dbanon.release_column c
        WHERE c.release_id = entry.release_id AND c.role = 'quasi_identifier';
        SELECT r.superseded_at, r.output_schema, r.output_name INTO superseded
        FROM dbanon.release AS r
        WHERE r.release_id = entry.release_id AND r.superseded_at IS NOT NULL
          AND r.relation_oid = verify.relation::oid::bigint;
        IF FOUND THEN
            RAISE NOTICE 'Release % of %.% is superseded since %.', entry.release_id,
                quote_ident(superseded.output_schema), quote_ident(superseded.output_name),
                to_char(superseded.superseded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
        END IF;
        wanted := coalesce(wanted, entry.k_requested);
        result.release_id := entry.release_id;
        columns_now := dbanon._compare_columns(verify.relation, entry.release_id);
        IF columns_now IS NOT NULL THEN
            differing := ARRAY[columns_now];
        END IF;
        IF EXISTS (SELECT FROM unnest(names) AS name WHERE name NOT IN
                       (SELECT a.attname FROM pg_attribute a WHERE a.attrelid = verify.relation
                        AND a.attnum > 0 AND NOT a.attisdropped)) THEN
            outcome := dbanon._changed_release(verify.relation, differing);
@RAISE@
        END IF;
        synthetic := entry.epsilon IS NOT NULL;
        null_agrees := entry.null_agrees;
        IF synthetic AND verify.k IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = 'The rows are synthetic: they belong to no person and have no classes.',
                HINT = 'Leave out k.';
        END IF;
    ELSIF wanted IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'k is needed with quasi_identifiers.';
    END IF;
    result.relation := verify.relation;
    IF synthetic THEN
        IF columns_now IS NULL THEN
            result.rows := dbanon._verify_synthesis(verify.relation, entry.release_id);
            RAISE NOTICE 'Rows, NULLs, bounds and lists were counted; differential privacy cannot be.';
        END IF;
    ELSE
        SELECT coalesce(sum(found.classes * found.size), 0), coalesce(sum(found.classes), 0),
               coalesce(min(found.size), 0), coalesce(max(found.size), 0),
               coalesce(jsonb_object_agg(found.size::text, found.classes), '{}')
        INTO result.rows, result.classes, result.smallest_class, result.largest_class, counted
        FROM dbanon._class_sizes(verify.relation, names) AS found;
        IF result.release_id IS NULL THEN
            NULL;
        ELSIF entry.alone THEN
            RAISE WARNING 'The rows of % are NOT k-anonymous: the rarest combination of released values is'
                          ' shared by % row(s).', relation, result.smallest_class;
            SELECT coalesce(sum(found.classes), 0), coalesce(min(found.size), 0),
                   coalesce(max(found.size), 0),
                   coalesce(jsonb_object_agg(found.size::text, found.classes), '{}')
            INTO result.classes, result.smallest_class, result.largest_class, counted
            FROM (SELECT own.size, sum(own.classes)::bigint AS classes
                  FROM unnest(names) AS name,
                       dbanon._class_sizes(verify.relation, name || entry.strata) AS own
                  WHERE name <> ALL (entry.strata)
                  GROUP BY own.size) AS found;
        END IF;
        result.k_requested := wanted;
        result.k_achieved := result.smallest_class;
        IF null_agrees THEN
            result.k_achieved := dbanon._fewest_agreeing(verify.relation, names);
            RAISE NOTICE 'NULL agrees with every value in this release: rows that agree are counted, and rows'
                         ' may be unique.';
        END IF;
        IF result.k_achieved < wanted THEN
            RAISE EXCEPTION USING ERRCODE = 'ZK001',
                MESSAGE = format(CASE WHEN null_agrees
                    THEN 'A row of %s agrees with %s rows, itself included, fewer than k = %s.'
                    ELSE 'The smallest class of %s holds %s rows, fewer than k = %s.'
                END, relation, result.k_achieved, wanted),
                HINT = CASE
                    WHEN result.release_id IS NULL
                    THEN 'The ledger was not asked, because columns and k were given. Leave both out to'
                         ' verify a release; publish other rows as a release, made with this k.'
                    ELSE 'Drop it (dbanon.drop), and release the table again.'
                END;
        END IF;
        IF result.release_id IS NOT NULL AND columns_now IS NULL THEN
            -- A runner writes entries: without a number of its own, a set has that of the release.
            FOR column_set IN SELECT own.columns, coalesce(own.k, entry.k_requested) AS k FROM jsonb_to_recordset(entry.also_k)
                              AS own (columns text[], k integer)
            LOOP
                IF (CASE WHEN null_agrees
                    THEN dbanon._fewest_agreeing(verify.relation, column_set.columns)
                    ELSE (SELECT min(found.size)
                          FROM dbanon._class_sizes(verify.relation, column_set.columns) AS found)
                    END) < column_set.k THEN
                    RAISE EXCEPTION USING ERRCODE = 'ZK001',
                        MESSAGE = format('A combination of values of (%s) in %s is shared by fewer than k = %s'
                                         ' rows.', array_to_string(column_set.columns, ', '), relation, column_set.k),
                        HINT = 'Drop it (dbanon.drop), and release the table again.';
                END IF;
            END LOOP;
        END IF;
        IF result.release_id IS NOT NULL THEN
            IF entry.of_persons THEN
                RAISE NOTICE 'Privacy models of sensitive columns were counted in persons, and the release does'
                             ' not show which rows belong to one person: nobody can count them in it.';
            ELSIF entry.models > 0 THEN
                RAISE NOTICE 'Privacy models of sensitive columns are not counted here: the command'
                             ' dbanon verify counts them.';
            END IF;
            IF entry.entity IS NOT NULL THEN
                RAISE NOTICE 'The release counted persons by %, which it does not hold: rows are counted'
                             ' now.', quote_ident(entry.entity);
            END IF;
            IF counted IS DISTINCT FROM entry.histogram THEN
                differing := differing || 'class sizes'::text;
            END IF;
        END IF;
    END IF;
    IF result.release_id IS NOT NULL THEN
        IF columns_now IS NULL THEN
            result.digest := dbanon._compare_rows(verify.relation, entry.digest);
        END IF;
        IF result.digest = 'changed' THEN
            differing := differing || 'rows (digest)'::text;
        END IF;
        IF differing <> '{}' THEN
            outcome := dbanon._changed_release(verify.relation, differing);
@RAISE@
        END IF;
        result.unchanged := CASE result.digest WHEN 'unchanged' THEN true END;
    END IF;
    RETURN result;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.verify(regclass, text[], integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon.verify(regclass, text[], integer) TO dbanon_reader;
COMMENT ON FUNCTION dbanon.verify(regclass, text[], integer) IS
'Recounts a published relation, against its ledger entry or the given columns and k.
ZK001: a class is smaller than k. ZK007: it is not as it was released; the message says what differs.
unchanged is NULL if the rows could not be compared; digest says why.';
