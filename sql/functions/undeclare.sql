-- dbanon.undeclare(source, columns): forgets rules of a table, all of them where none are named.
CREATE OR REPLACE FUNCTION dbanon.undeclare(source regclass, columns text[] DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    wrong text;
BEGIN
    IF undeclare.source IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'source must not be NULL.';
    END IF;
    PERFORM dbanon._require_ledger();
    SELECT name INTO wrong FROM unnest(undeclare.columns) AS name
    WHERE name IS NULL OR name NOT IN (
        SELECT j.name FROM (@RULES_WITH_STATE(c.oid = undeclare.source)@
        ) AS j WHERE j.table_oid IS NOT NULL AND (j.is_trusted OR j.is_same)) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42704',
            MESSAGE = format('There is no rule of column %I.', left(wrong, 63)),
            HINT = format('SELECT * FROM dbanon.rules(%L) lists them.', undeclare.source);
    END IF;
    RETURN dbanon._declare(jsonb_build_object('source', undeclare.source::oid::bigint,
                                              'remove', to_jsonb(undeclare.columns)));
END
$function$;
REVOKE ALL ON FUNCTION dbanon.undeclare(regclass, text[]) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.undeclare(regclass, text[]) IS
'Removes rules of a table, of these columns or of all. Returns how many are left.
Only the table''s owner may do this.';
