-- dbanon._declare(given): has rules written, as dbanon._write_rules takes them.
--
-- The mark, by which the caller is known as the table's owner, takes the place of the first column's
-- comment for a moment, which nobody else sees.
CREATE OR REPLACE FUNCTION dbanon._declare(given jsonb)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    held record;
    kept integer;
BEGIN
    PERFORM dbanon._require_ledger();
    SELECT c.oid, n.nspname, c.relname, c.relowner, a.attname,
           col_description(c.oid, a.attnum) AS said
    INTO held
    FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.oid::bigint = (given ->> 'source')::bigint AND c.relpersistence <> 't'
      AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    ORDER BY a.attnum LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42809',
            MESSAGE = 'Rules are of tables and views with columns, and not of temporary ones.';
    END IF;
    IF NOT pg_has_role(held.relowner, 'USAGE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = format('Rules of %I.%I can only be declared by its owner.', held.nspname,
                             held.relname),
            HINT = format('Run it as role "%s", or as a member of it.', pg_get_userbyid(held.relowner));
    END IF;
    EXECUTE format('COMMENT ON COLUMN %I.%I.%I IS %L', held.nspname, held.relname, held.attname,
                   'dbanon rules ' || encode(sha256(convert_to(given::text, 'UTF8')), 'hex'));
    kept := dbanon._write_rules(given);
    EXECUTE format('COMMENT ON COLUMN %I.%I.%I IS %L', held.nspname, held.relname, held.attname,
                   held.said);
    RETURN kept;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._declare(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._declare(jsonb) IS 'Internal: call dbanon.declare.';
