-- Whether rows of a source were written between two states of it; NULL where nobody can tell. As
-- dbanon.ledger.releases has it.
CREATE OR REPLACE FUNCTION dbanon._is_stale(before jsonb, after jsonb)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
    SELECT CASE
        WHEN before -> 'oid' IS NULL THEN NULL
        WHEN before -> 'oid' <> after -> 'oid' THEN true
        -- Counters that were set back say nothing.
        WHEN before ->> 'since' IS DISTINCT FROM after ->> 'since' THEN NULL
        WHEN (after ->> 'writes')::numeric < (before ->> 'writes')::numeric THEN NULL
        ELSE (after ->> 'writes')::numeric > (before ->> 'writes')::numeric
             OR before ->> 'file' IS DISTINCT FROM after ->> 'file'
    END
$function$;
REVOKE ALL ON FUNCTION dbanon._is_stale(jsonb, jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._is_stale(jsonb, jsonb) IS
'Internal: whether rows of a source were written between two states of it.';
