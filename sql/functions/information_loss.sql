-- dbanon.information_loss(release, original, quasi_identifiers)
--
-- 0: nothing lost, 1: only the overall means are left. Without original: what the ledger recorded,
-- which is above 1 where rounding, medians or medoids lose more.
-- With original: 1 - SSB / SST on z-scores, from the two relations alone; rows cannot be paired.
-- It is exact for class means that were not rounded, of all rows, in numeric columns.
CREATE OR REPLACE FUNCTION dbanon.information_loss(
    release regclass, original regclass DEFAULT NULL, quasi_identifiers text[] DEFAULT NULL
)
RETURNS double precision
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    loss double precision;
    outcome jsonb;
    name text;
    compared regclass;
    is_number boolean;
    kept double precision := 0;
    varying integer := 0;
    rows_before bigint;
    rows_after bigint;
    variance_before double precision;
    variance_after double precision;
BEGIN
    IF information_loss.release IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'release must not be NULL.';
    END IF;
    IF information_loss.original IS NULL THEN
        PERFORM dbanon._require_ledger();
        SELECT r.information_loss INTO loss
        FROM dbanon._release_of(information_loss.release) AS r;
        IF NOT FOUND THEN
            outcome := dbanon._unknown_release(information_loss.release,
                'Name original and quasi_identifiers to compare two relations.');
@RAISE@
        END IF;
        RETURN loss;
    END IF;
    IF array_ndims(quasi_identifiers) > 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'quasi_identifiers must be a list of names, and not one of lists.',
            HINT = 'As in ARRAY[''age'', ''income''].';
    END IF;
    IF coalesce(cardinality(quasi_identifiers), 0) = 0
            OR array_position(quasi_identifiers, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004',
            MESSAGE = 'quasi_identifiers must not be NULL or empty.';
    END IF;
    FOREACH compared IN ARRAY ARRAY[information_loss.original, information_loss.release] LOOP
        PERFORM dbanon._require_own_code(compared);
        -- Of another type, a cast that the type's owner made could lead to a number.
        FOREACH name IN ARRAY quasi_identifiers LOOP
            WITH RECURSIVE chain(held) AS (
                SELECT a.atttypid FROM pg_attribute a
                WHERE a.attrelid = compared AND a.attname = name AND NOT a.attisdropped
                UNION ALL
                SELECT t.typbasetype FROM chain c JOIN pg_type t ON t.oid = c.held
                WHERE t.typtype = 'd'
            )
            SELECT bool_or(c.held = ANY ('{int2,int4,int8,numeric,float4,float8}'::regtype[]))
            INTO is_number FROM chain c;
            IF is_number IS NULL THEN
                RAISE EXCEPTION USING ERRCODE = '42703',
                    MESSAGE = format('%s has no column %I.', compared, name);
            ELSIF NOT is_number THEN
                RAISE EXCEPTION USING ERRCODE = '0A000',
                    MESSAGE = format('Column %I of %s holds no numbers.', name, compared);
            END IF;
        END LOOP;
    END LOOP;
    FOREACH name IN ARRAY quasi_identifiers LOOP
        EXECUTE format('SELECT count(%1$I), var_pop(%1$I)::float8 FROM %2$s',
                       name, information_loss.original)
            INTO rows_before, variance_before;
        EXECUTE format('SELECT count(%1$I), var_pop(%1$I)::float8 FROM %2$s',
                       name, information_loss.release)
            INTO rows_after, variance_after;
        IF rows_before <> rows_after THEN
            RAISE EXCEPTION USING ERRCODE = '0A000',
                MESSAGE = 'The tables have different numbers of values, because rows were suppressed.',
                HINT = 'Read what was recorded: dbanon.information_loss(release).';
        END IF;
        IF variance_before > 0 THEN
            varying := varying + 1;
            kept := kept + variance_after / variance_before;
        END IF;
    END LOOP;
    RETURN CASE WHEN varying = 0 THEN 0 ELSE greatest(1 - kept / varying, 0) END;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.information_loss(regclass, regclass, text[]) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.information_loss(regclass, regclass, text[]) IS
'Information loss: 0 is none. Rounded values, and values other than means, can lose more than 1.
Without original: what the ledger recorded for the release.
With original and quasi_identifiers: 1 - SSB/SST on z-scores, exact for unrounded class means.';
