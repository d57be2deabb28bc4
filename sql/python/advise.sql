-- dbanon.advise(source, quasi_identifiers, options)
--
-- What columns may be (proposals, never decisions), what singles rows out, what releases would lose
-- and risk, and the statement to start from. Nothing is written, and no value of the data is shown.
CREATE OR REPLACE FUNCTION dbanon.advise(
    source regclass, quasi_identifiers text[] DEFAULT NULL, options jsonb DEFAULT '{}'
)
RETURNS TABLE (part text, item text, found text, detail jsonb)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    IF advise.source IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'source must not be NULL.';
    END IF;
    outcome := dbanon._advise(jsonb_build_object(
        'source', advise.source::oid::bigint,
        'quasi_identifiers', coalesce(to_jsonb(advise.quasi_identifiers), '[]'),
        'options', advise.options
    ));
@RAISE@
    RETURN QUERY
        SELECT r.value->>0, r.value->>1, r.value->>2, r.value->3
        FROM jsonb_array_elements(outcome->'rows') WITH ORDINALITY AS r(value, place)
        ORDER BY r.place;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.advise(regclass, text[], jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.advise(regclass, text[], jsonb) IS @ADVICE@;
