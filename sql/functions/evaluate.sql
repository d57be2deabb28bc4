-- dbanon.evaluate(release, source, options)
--
-- What a release lost and what it still risks, a row each figure: what was recorded when it was made
-- with evaluate; what its rows say now; and with source, what both relations say without pairs of rows.
-- attribute NULL: of all columns. value NULL: note says why. note tells where a figure is from.
-- options: quasi_identifiers (a list of names; for relations that are not in the ledger),
-- changed_source (true: compare a source of other rows or columns than those that were released),
-- risk (an object of options of dbanon.disclosure_risk: its rows for both relations follow).
CREATE OR REPLACE FUNCTION dbanon.evaluate(
    release regclass, source regclass DEFAULT NULL, options jsonb DEFAULT '{}'
)
RETURNS TABLE (measure text, attribute text, value double precision, note text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    unknown text;
    names text[];
    ranked text[] := '{}';
    strata text[] := '{}';
    entry record;
    id uuid;
    outcome jsonb;
    withheld bigint := 0;
    weight text;
    person text;
    person_normalize text;
    sizes record;
BEGIN
    IF evaluate.release IS NULL OR options IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'release and options must not be NULL.';
    END IF;
    IF jsonb_typeof(options) <> 'object' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'options must be an object.';
    END IF;
    SELECT given INTO unknown FROM jsonb_object_keys(options) AS given
    WHERE given NOT IN ('quasi_identifiers', 'changed_source', 'risk') LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('%I is not a key of options.', left(unknown, 60)),
            HINT = 'Known: quasi_identifiers, changed_source, risk.';
    END IF;
    IF coalesce(jsonb_typeof(options -> 'changed_source'), 'boolean') <> 'boolean' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'changed_source must be true or false.';
    END IF;
    IF options ? 'risk' AND evaluate.source IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'risk needs the source of the release.',
            HINT = 'Name it: dbanon.evaluate(release, source, options).';
    END IF;
    IF options ? 'risk' AND to_regprocedure('dbanon._disclosure_risk(jsonb)') IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '0A000',
            MESSAGE = 'The disclosure risk needs PL/Python, without which dbanon is installed here.',
            HINT = 'From a client: dbanon evaluate URL RELEASE --original TABLE --risk ''{}''';
    END IF;
    IF options ? 'quasi_identifiers' THEN
        IF jsonb_typeof(options -> 'quasi_identifiers') <> 'array'
           OR options -> 'quasi_identifiers' = '[]'
           OR EXISTS (SELECT FROM jsonb_array_elements(options -> 'quasi_identifiers') AS e
                      WHERE jsonb_typeof(e) <> 'string') THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = 'quasi_identifiers must be a list of names.',
                HINT = 'As in {"quasi_identifiers": ["age", "income"]}.';
        END IF;
        names := ARRAY(SELECT jsonb_array_elements_text(options -> 'quasi_identifiers'));
    ELSE
        PERFORM dbanon._require_ledger();
        SELECT r.release_id, r.suppressed, r.evaluation, r.arguments, r.epsilon INTO entry
        FROM dbanon._release_of(evaluate.release) AS r;
        IF NOT FOUND THEN
            outcome := dbanon._unknown_release(evaluate.release,
                'Name columns to look at a relation that is not in it:'
                ' options => ''{"quasi_identifiers": ["age", "income"]}''.');
@RAISE@
        END IF;
        IF entry.epsilon IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = 'The rows are synthetic: they belong to no person and have no classes.',
                HINT = 'dbanon.verify counts what can be counted of them.';
        END IF;
        SELECT array_agg(c.name ORDER BY c.position) INTO names
        FROM dbanon.release_column AS c
        WHERE c.release_id = entry.release_id AND c.role = 'quasi_identifier';
        id := entry.release_id;
        withheld := entry.suppressed;
        weight := entry.arguments -> 'design_weight' ->> 'column';
        person := entry.arguments ->> 'entity';
        person_normalize := entry.arguments ->> 'entity_normalize';
        strata := ARRAY(SELECT jsonb_array_elements_text(entry.arguments -> 'by'));
        IF jsonb_typeof(entry.arguments -> 'orders') = 'object' THEN
            ranked := ARRAY(SELECT jsonb_object_keys(entry.arguments -> 'orders'));
        END IF;
        IF entry.evaluation IS NULL THEN
            RETURN QUERY SELECT 'linkage_risk'::text, NULL::text, NULL::float8,
                'needs the pairs of the run: release with options => ''{"evaluate": true}''';
        END IF;
        RETURN QUERY
            SELECT f.key, NULL::text, f.figure::float8,
                   coalesce(entry.evaluation -> 'notes' ->> f.key, 'recorded when it was released')
            FROM (SELECT e.* FROM jsonb_each_text(entry.evaluation -> 'losses') AS e
                  UNION ALL SELECT e.* FROM jsonb_each_text(entry.evaluation -> 'risks') AS e
                 ) AS f(key, figure);
        RETURN QUERY
            SELECT m.key, c.name, m.figure::float8, 'recorded when it was released'
            FROM jsonb_each(entry.evaluation -> 'columns') AS c(name, figures),
                 LATERAL jsonb_each_text(c.figures) AS m(key, figure);
    END IF;
    SELECT sum(f.size * f.classes) AS rows, sum(f.classes) AS classes, min(f.size) AS smallest,
           sum(f.size::numeric * f.size * f.classes) AS squares
    INTO sizes FROM dbanon._class_sizes(evaluate.release, names) AS f;
    RETURN QUERY
        SELECT f.figure, NULL::text, f.found,
               CASE WHEN f.found IS NULL THEN 'no row is released'
                    ELSE 'counted now, in rows' END
        FROM (VALUES ('class_risk', 1 / sizes.smallest::float8),
                     ('average_class_risk', sizes.classes::float8 / sizes.rows::float8),
                     ('average_class_size', sizes.rows::float8 / sizes.classes::float8),
                     ('discernibility', sizes.squares::float8)) AS f(figure, found);
    IF evaluate.source IS NULL THEN
        RETURN;
    END IF;
    PERFORM dbanon._require_own_code(evaluate.source);
    IF id IS NOT NULL AND NOT coalesce((options -> 'changed_source')::boolean, false) THEN
        PERFORM dbanon._require_original(evaluate.source, id);
    END IF;
    IF options ? 'risk' THEN
        outcome := dbanon._disclosure_risk(jsonb_build_object(
            'source', evaluate.source::oid::bigint,
            'release', evaluate.release::oid::bigint,
            'quasi_identifiers', to_jsonb(names),
            'design_weight', weight,
            'entity', person,
            'entity_normalize', person_normalize,
            'options', options -> 'risk'
        ));
@RAISE@
        RETURN QUERY
            SELECT r.value->>0, r.value->>1, (r.value->>2)::double precision, r.value->>3
            FROM jsonb_array_elements(outcome->'rows') WITH ORDINALITY AS r(value, place)
            ORDER BY r.place;
    END IF;
    IF withheld > 0 THEN
        RETURN QUERY SELECT m, NULL::text, NULL::float8,
            'rows were withheld: source and release hold different rows'
        FROM unnest(ARRAY['sse_loss', 'moment_loss', 'structure_loss', 'covariance_loss',
                          'correlation_loss', 'entropy_change']) AS m;
        RETURN;
    END IF;
    -- Released columns of other names, as ends of ranges, and strata, which lose nothing, aside.
    names := ARRAY(
        SELECT n.name FROM unnest(names) WITH ORDINALITY AS n(name, i)
        WHERE EXISTS (SELECT FROM pg_attribute AS a
                      WHERE a.attrelid = evaluate.source AND a.attname = n.name AND a.attnum > 0
                        AND NOT a.attisdropped)
          AND n.name <> ALL (strata)
        ORDER BY n.i);
    RETURN QUERY SELECT * FROM dbanon._compared(evaluate.release, evaluate.source, names, ranked);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.evaluate(regclass, regclass, jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.evaluate(regclass, regclass, jsonb) IS
'What a release lost and what it still risks.
Figures recorded if it was made with evaluate, figures counted now, and with source a comparison
without pairs of rows. attribute is NULL for all columns together.
options: quasi_identifiers (for relations that are not in the ledger), changed_source, risk.
risk: options of dbanon.disclosure_risk, such as {"weight": "w"}; {} for those of the release. Its
rows for source and release follow: for the controller of the data, not for publication.
ZK008: source does not have the rows or columns that were released.';
