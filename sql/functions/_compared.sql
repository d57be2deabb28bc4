-- What source and release tell of a loss without any pairs of rows: a row each figure. Columns that
-- hold numbers in both are compared by their means and covariances, texts by their entropies.
CREATE OR REPLACE FUNCTION dbanon._compared(
    release regclass, source regclass, names text[], ranked text[]
)
RETURNS TABLE (measure text, attribute text, value double precision, note text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    name text;
    numbers text[] := '{}';
    texts text[] := '{}';
    kinds text[];
    x record;
    y record;
    p integer;
    at integer := 0;
    v double precision;
    w double precision;
    deviation double precision[] := '{}';
    after_deviation double precision[] := '{}';
    mean_changes double precision[] := '{}';
    variance_changes double precision[] := '{}';
    relative double precision[] := '{}';
    scaled double precision[] := '{}';
    turned double precision[] := '{}';
    before_all double precision := 0;
    after_all double precision := 0;
    before_one double precision;
    after_one double precision;
    told text;
BEGIN
    FOREACH name IN ARRAY names LOOP
        -- The base type of each, through domains; other types may bring code of their owners.
        SELECT array_agg(DISTINCT found.kind) INTO kinds FROM (
            WITH RECURSIVE chain(relation, held) AS (
                SELECT a.attrelid, a.atttypid FROM pg_attribute a
                WHERE a.attrelid IN (_compared.release, _compared.source) AND a.attname = name
                  AND a.attnum > 0 AND NOT a.attisdropped
                UNION ALL
                SELECT c.relation, t.typbasetype FROM chain c JOIN pg_type t ON t.oid = c.held
                WHERE t.typtype = 'd'
            )
            SELECT CASE
                WHEN bool_or(c.held = ANY ('{int2,int4,int8,numeric,float4,float8}'::regtype[]))
                THEN 'number'
                WHEN bool_or(c.held = ANY ('{text,varchar,bpchar}'::regtype[])) THEN 'text'
                ELSE 'other' END AS kind
            FROM chain c GROUP BY c.relation
        ) AS found;
        IF kinds = ARRAY['number'] THEN
            numbers := numbers || name;
        ELSIF kinds = ARRAY['text'] AND name <> ALL (ranked) THEN
            texts := texts || name;
        END IF;
    END LOOP;
    p := cardinality(numbers);
    told := 'from source and release alone, without pairs; of '
            || array_to_string(ARRAY(SELECT quote_ident(n) FROM unnest(numbers) AS n), ', ');
    IF p = 0 THEN
        RETURN QUERY SELECT m, NULL::text, NULL::float8,
                            'no column holds numbers in source and release'
        FROM unnest(ARRAY['sse_loss', 'moment_loss', 'structure_loss', 'covariance_loss',
                          'correlation_loss']) AS m;
    ELSE
        SELECT * INTO x FROM dbanon._moments(_compared.source, numbers);
        SELECT * INTO y FROM dbanon._moments(_compared.release, numbers);
        FOR i IN 1..p LOOP
            FOR j IN i..p LOOP
                at := at + 1;
                IF i = j THEN
                    deviation[i] := CASE WHEN x.varies[i] THEN sqrt(x.covariances[at]) ELSE 0 END;
                    after_deviation[i] :=
                        CASE WHEN y.varies[i] THEN sqrt(y.covariances[at]) ELSE 0 END;
                END IF;
            END LOOP;
        END LOOP;
        at := 0;
        FOR i IN 1..p LOOP
            IF abs(x.means[i]) > 1e-15 * deviation[i] THEN
                mean_changes := mean_changes || abs(x.means[i] - y.means[i]) / abs(x.means[i]);
            END IF;
            FOR j IN i..p LOOP
                at := at + 1;
                v := x.covariances[at];
                w := CASE WHEN y.varies[i] AND y.varies[j] THEN y.covariances[at] ELSE 0 END;
                IF deviation[i] > 0 AND deviation[j] > 0 THEN
                    IF i = j THEN
                        variance_changes := variance_changes || abs(v - w) / v;
                        -- Not clipped: values that spread more than the originals show as less than 0.
                        RETURN QUERY SELECT 'sse_loss'::text, numbers[i], nullif(1 - w / v, 'NaN'),
                                            'from source and release alone, without pairs';
                    END IF;
                    scaled := scaled || abs(v - w) / (deviation[i] * deviation[j]);
                    IF abs(v) > 1e-13 * deviation[i] * deviation[j] THEN
                        relative := relative || abs(v - w) / abs(v);
                    END IF;
                END IF;
                IF i < j THEN
                    turned := turned || abs(
                        CASE WHEN deviation[i] > 0 AND deviation[j] > 0
                             THEN v / (deviation[i] * deviation[j]) ELSE 0 END
                        - CASE WHEN after_deviation[i] > 0 AND after_deviation[j] > 0
                               THEN w / (after_deviation[i] * after_deviation[j]) ELSE 0 END);
                END IF;
            END LOOP;
        END LOOP;
        -- avg of no row is NULL, which has no meaning here either.
        RETURN QUERY
        WITH means AS (
            SELECT (SELECT avg(e) FROM unnest(mean_changes) AS e) AS of_means,
                   (SELECT avg(e) FROM unnest(variance_changes) AS e) AS of_variances,
                   (SELECT avg(e) FROM unnest(relative) AS e) AS of_relative,
                   (SELECT avg(e) FROM unnest(scaled) AS e) AS of_scaled,
                   (SELECT avg(e) FROM unnest(turned) AS e) AS of_turned
        ), figures AS (
            SELECT 1 AS place, 'moment_loss' AS figure, (of_means + of_variances) / 2 AS found
            FROM means
            UNION ALL SELECT 2, 'structure_loss',
                CASE WHEN p = 1 THEN of_relative ELSE (of_relative + of_turned) / 2 END FROM means
            UNION ALL SELECT 3, 'covariance_loss', of_scaled FROM means
            UNION ALL SELECT 4, 'correlation_loss', of_turned FROM means
            UNION ALL SELECT 0, 'sse_loss', (
                SELECT avg(1 - (CASE WHEN deviation[i] > 0
                                     THEN power(after_deviation[i] / deviation[i], 2) END))
                FROM generate_subscripts(deviation, 1) AS i WHERE deviation[i] > 0) FROM means
        )
        SELECT f.figure, NULL::text, nullif(f.found, 'NaN'),
               CASE WHEN f.found IS NULL THEN 'too few columns of numbers that vary' ELSE told END
        FROM figures AS f ORDER BY f.place;
    END IF;
    FOREACH name IN ARRAY texts LOOP
        before_one := dbanon._entropy(_compared.source, name);
        after_one := dbanon._entropy(_compared.release, name);
        before_all := before_all + before_one;
        after_all := after_all + after_one;
        RETURN QUERY SELECT 'entropy_change'::text, name,
            CASE WHEN before_one > 0 THEN 100 * abs(before_one - after_one) / before_one ELSE 0 END,
            'percent; from source and release alone, without pairs';
    END LOOP;
    RETURN QUERY SELECT 'entropy_change'::text, NULL::text,
        CASE WHEN texts = '{}' THEN NULL
             WHEN before_all > 0 THEN 100 * abs(before_all - after_all) / before_all ELSE 0 END,
        CASE WHEN texts = '{}' THEN 'no column of text, without an order, is in both'
             ELSE 'percent; from source and release alone, without pairs' END;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._compared(regclass, regclass, text[], text[]) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._compared(regclass, regclass, text[], text[]) IS
'Internal: losses that follow from source and release without pairs of rows.';
