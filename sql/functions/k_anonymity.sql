-- dbanon.k_anonymity(relation, quasi_identifiers)
--
-- The size of the smallest class: how many rows share the rarest combination of these columns.
-- NULL is counted as a value. 0 for an empty relation. Counts rows, not persons.
CREATE OR REPLACE FUNCTION dbanon.k_anonymity(relation regclass, quasi_identifiers text[])
RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
    SELECT coalesce(min(found.size), 0)
    FROM dbanon._class_sizes(k_anonymity.relation, k_anonymity.quasi_identifiers) AS found
$function$;
REVOKE ALL ON FUNCTION dbanon.k_anonymity(regclass, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon.k_anonymity(regclass, text[]) TO dbanon_reader;
COMMENT ON FUNCTION dbanon.k_anonymity(regclass, text[]) IS
'The size of the smallest class: the k that these columns have now, in rows.
NULL is counted as a value. 0 for an empty relation.';
