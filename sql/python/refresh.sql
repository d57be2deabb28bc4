-- dbanon.refresh(release, accept): a release again by its entry in the ledger, of its source as it is
-- now, under its name and in its place.
--
-- Only for the role that published it, with the rights that it has now. It is refused (ZK010) where
-- version, rules, source or hierarchies make it another thing; accept takes the words of what is as it
-- should be. It is refused (ZK011) if the persons of its entity were released before, outside a chain,
-- and nobody accepted independent releases.
CREATE OR REPLACE FUNCTION dbanon.refresh(release regclass, accept text[] DEFAULT '{}')
RETURNS dbanon.release_info
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    IF refresh.release IS NULL OR refresh.accept IS NULL
       OR array_position(refresh.accept, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'release and accept must not be NULL.';
    END IF;
    SELECT dbanon._refresh(jsonb_build_object('schema', n.nspname, 'name', c.relname,
                                              'accept', to_jsonb(refresh.accept)))
    INTO outcome
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid = refresh.release;
@RAISE@
    RETURN jsonb_populate_record(NULL::dbanon.release_info, outcome);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.refresh(regclass, text[]) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.refresh(regclass, text[]) IS
'Makes a release again from its entry in the ledger and its source as it is now, in its place.
ZK010: what the release depends on has changed; the message says what. accept lists changes that
you approve: version (of dbanon), rules, source (another table, other types), hierarchies.
ZK011: the persons of its entity were released before. accept independent to release them again.
Only for the role that published it.';
