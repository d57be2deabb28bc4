-- Refuses a relation that is not the one a release was made of, as far as the ledger can tell: by its
-- number of rows and the names of its columns. ZK008.
CREATE OR REPLACE FUNCTION dbanon._require_original(source regclass, release_id uuid)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    rows_now bigint;
    rows_then bigint;
    missing text;
BEGIN
    SELECT string_agg(quote_ident(c.name), ', ' ORDER BY c.position) INTO missing
    FROM dbanon.release_column AS c
    WHERE c.release_id = _require_original.release_id AND c.role <> 'quasi_identifier'
      AND NOT EXISTS (SELECT FROM pg_attribute AS a
                      WHERE a.attrelid = _require_original.source AND a.attname = c.name
                        AND a.attnum > 0 AND NOT a.attisdropped);
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'ZK008',
            MESSAGE = format('%s is not the table that was released: it has no column %s.', source,
                             missing),
            HINT = 'Name the relation that the release was made of, as it was then.';
    END IF;
    EXECUTE format('SELECT count(*) FROM %s', source) INTO rows_now;
    SELECT r.rows_in INTO rows_then FROM dbanon.release AS r
    WHERE r.release_id = _require_original.release_id;
    IF rows_now <> rows_then THEN
        RAISE EXCEPTION USING ERRCODE = 'ZK008',
            MESSAGE = format('%s is not the table that was released: it has %s rows, and had %s then.',
                             source, rows_now, rows_then),
            HINT = 'To compare it all the same: options => ''{"changed_source": true}''.';
    END IF;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._require_original(regclass, uuid) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._require_original(regclass, uuid) IS
'Internal: refuses a relation that a release cannot have been made of (ZK008).';
