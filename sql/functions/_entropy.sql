-- The entropy of a column of text, in bits; NULLs are left out.
CREATE OR REPLACE FUNCTION dbanon._entropy(relation regclass, name text)
RETURNS double precision
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    found double precision;
BEGIN
    EXECUTE format(
        'SELECT coalesce(-sum(share * ln(share) / ln(2::float8)), 0) FROM ('
        ' SELECT count(*)::float8 / sum(count(*)) OVER ()::float8 AS share FROM %s AS s'
        ' WHERE s.%2$I IS NOT NULL GROUP BY s.%2$I::text COLLATE "C") AS shares',
        _entropy.relation, _entropy.name
    ) INTO found;
    RETURN found;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._entropy(regclass, text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._entropy(regclass, text) IS
'Internal: the entropy of a column of text.';
