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
        SELECT k.name FROM dbanon.rule AS k
        JOIN pg_class AS c ON c.oid = undeclare.source
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE k.source = dbanon._name_of(n.nspname, c.relname)) LIMIT 1;
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
