-- The name of a relation as the ledger has names: parts are quoted only where a dot or quote is in
-- them, and letters keep their case.
CREATE OR REPLACE FUNCTION dbanon._name_of(schema_name text, relation_name text)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
    SELECT string_agg(CASE WHEN part ~ '[."]' THEN '"' || replace(part, '"', '""') || '"'
                           ELSE part END, '.' ORDER BY place)
    FROM unnest(ARRAY[schema_name, relation_name]) WITH ORDINALITY AS parts(part, place)
$function$;
REVOKE ALL ON FUNCTION dbanon._name_of(text, text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._name_of(text, text) IS
'Internal: the name of a relation as the ledger writes names.';
