-- dbanon.equivalence_classes(relation, quasi_identifiers, k)
--
-- The histogram of class sizes. Sizes below k are one line, from 1 to k - 1: how many people are
-- alone, or in twos, is not told.
CREATE OR REPLACE FUNCTION dbanon.equivalence_classes(
    relation regclass, quasi_identifiers text[], k integer DEFAULT 5
)
RETURNS TABLE (smallest bigint, largest bigint, classes bigint, rows bigint)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
BEGIN
    IF equivalence_classes.k IS NULL OR equivalence_classes.k < 2 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'k must be 2 or more.';
    END IF;
    RETURN QUERY
        SELECT CASE WHEN found.size < k THEN 1 ELSE found.size END,
               CASE WHEN found.size < k THEN k - 1 ELSE found.size END,
               sum(found.classes)::bigint, sum(found.classes * found.size)::bigint
        FROM dbanon._class_sizes(
            equivalence_classes.relation, equivalence_classes.quasi_identifiers
        ) AS found
        GROUP BY 1, 2
        ORDER BY 1;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.equivalence_classes(regclass, text[], integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon.equivalence_classes(regclass, text[], integer) TO dbanon_reader;
COMMENT ON FUNCTION dbanon.equivalence_classes(regclass, text[], integer) IS
'The histogram of class sizes, one line each: (smallest, largest, classes, rows).
Sizes below k share one line, from 1 to k - 1.';
