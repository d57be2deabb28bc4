-- Means, covariances (i <= j, of rows that hold both) and whether each column varies, of columns that
-- hold numbers. Nothing of a single row comes out.
CREATE OR REPLACE FUNCTION dbanon._moments(
    relation regclass, names text[], OUT held bigint[], OUT means double precision[],
    OUT varies boolean[], OUT covariances double precision[]
)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    selected text;
    paired text;
BEGIN
    SELECT string_agg(format('(s.%I)::float8 AS c%s', n.name, n.i), ', ' ORDER BY n.i)
    INTO selected FROM unnest(names) WITH ORDINALITY AS n(name, i);
    SELECT string_agg(format('covar_samp(c%s, c%s)', a.i, b.i), ', ' ORDER BY a.i, b.i)
    INTO paired
    FROM generate_subscripts(names, 1) AS a(i) JOIN generate_subscripts(names, 1) AS b(i)
        ON a.i <= b.i;
    BEGIN
        EXECUTE (
            SELECT format('SELECT ARRAY[%s], ARRAY[%s], ARRAY[%s], ARRAY[%s] FROM'
                          ' (SELECT %s FROM %s AS s) AS t',
                          string_agg(format('count(c%s)', i), ', ' ORDER BY i),
                          string_agg(format('avg(c%s)', i), ', ' ORDER BY i),
                          string_agg(format('coalesce(min(c%1$s) < max(c%1$s), false)', i), ', '
                                     ORDER BY i),
                          paired, selected, _moments.relation)
            FROM generate_subscripts(names, 1) AS i)
        INTO held, means, varies, covariances;
    EXCEPTION
        -- The server's own text shows the value.
        WHEN numeric_value_out_of_range THEN
            RAISE EXCEPTION USING ERRCODE = '22003',
                MESSAGE = format('A column of %s holds numbers that are too large to be compared.',
                                 _moments.relation);
    END;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._moments(regclass, text[]) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._moments(regclass, text[]) IS
'Internal: means and covariances of columns of numbers.';
