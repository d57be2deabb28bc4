-- dbanon.disclosure_risk(source, quasi_identifiers, options)
--
-- How likely the records of a sample lead to their persons, before a release is made. Nothing is
-- written, and no value of the data is shown. The function of one argument measures a release.
CREATE OR REPLACE FUNCTION dbanon.disclosure_risk(
    source regclass, quasi_identifiers text[], options jsonb DEFAULT '{}'
)
RETURNS TABLE (measure text, attribute text, value double precision, note text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    IF disclosure_risk.source IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'source must not be NULL.';
    END IF;
    outcome := dbanon._disclosure_risk(jsonb_build_object(
        'source', disclosure_risk.source::oid::bigint,
        'quasi_identifiers', coalesce(to_jsonb(disclosure_risk.quasi_identifiers), '[]'),
        'options', disclosure_risk.options
    ));
@RAISE@
    RETURN QUERY
        SELECT r.value->>0, r.value->>1, (r.value->>2)::double precision, r.value->>3
        FROM jsonb_array_elements(outcome->'rows') WITH ORDINALITY AS r(value, place)
        ORDER BY r.place;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.disclosure_risk(regclass, text[], jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.disclosure_risk(regclass, text[], jsonb) IS @RISK@;
