-- Recounts a relation of synthetic rows: how many there are, and how many with a NULL or a value
-- outside of the public bounds or list that its entry has. Differential privacy itself cannot be
-- counted.
CREATE OR REPLACE FUNCTION dbanon._verify_synthesis(relation regclass, id uuid)
RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    entry record;
    outside text;
    rows bigint;
    wrong bigint;
BEGIN
    PERFORM dbanon._require_own_code(_verify_synthesis.relation);
    SELECT r.rows_out, r.arguments -> 'between' AS ends, r.arguments -> 'listed' AS lists
    INTO entry
    FROM dbanon.release AS r WHERE r.release_id = _verify_synthesis.id;
    -- By the types of the catalog, never by what the entry says of them: who published wrote it.
    SELECT string_agg(format('s.%I IS NULL', a.attname) || CASE
               WHEN jsonb_array_length(entry.ends -> a.attname) = 2
               THEN format(' OR s.%1$I < %2$L::%4$s OR s.%1$I > %3$L::%4$s', a.attname,
                           entry.ends -> a.attname ->> 0, entry.ends -> a.attname ->> 1,
                           format_type(t.oid, NULL))
               ELSE '' END || CASE
               WHEN jsonb_typeof(entry.lists -> a.attname) = 'array'
               -- By the output function of an enumerated type: a cast may be anybody's.
               THEN format(' OR format(''%%s'', s.%1$I) COLLATE "C" NOT IN'
                           ' (SELECT jsonb_array_elements_text(%2$L::jsonb))', a.attname,
                           entry.lists -> a.attname)
               ELSE '' END, ' OR ')
    INTO outside
    FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
    WHERE a.attrelid = _verify_synthesis.relation AND a.attnum > 0 AND NOT a.attisdropped
      AND entry.ends ? a.attname
      AND (t.typtype = 'e' OR t.typnamespace = 'pg_catalog'::regnamespace
           AND t.typname IN ('int2', 'int4', 'int8', 'numeric', 'float4', 'float8', 'date',
                             'timestamp', 'timestamptz', 'bool', 'text'));
    EXECUTE format('SELECT count(*), count(*) FILTER (WHERE %s) FROM %s AS s',
                   coalesce(outside, 'false'), _verify_synthesis.relation)
    INTO rows, wrong;
    IF rows <> entry.rows_out OR wrong > 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'ZK001',
            MESSAGE = format('%s has %s rows and was released with %s; %s of them have a NULL, or a'
                             ' value outside of its bounds or list.', _verify_synthesis.relation, rows,
                             entry.rows_out, wrong),
            HINT = 'Drop it (dbanon.drop), and release the table again. That spends again.';
    END IF;
    RETURN rows;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._verify_synthesis(regclass, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon._verify_synthesis(regclass, uuid) TO dbanon_reader;
COMMENT ON FUNCTION dbanon._verify_synthesis(regclass, uuid) IS
'Internal: recounts synthetic rows, their bounds and their lists (ZK001).';
