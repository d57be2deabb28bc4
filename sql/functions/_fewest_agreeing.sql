-- The smallest number of rows that agree with a row, itself included, where NULL agrees with every value.
-- Values count as in _class_sizes, which checks the arguments. Rows of a class agree, so classes with
-- more rows than the smallest number so far need no count.
CREATE OR REPLACE FUNCTION dbanon._fewest_agreeing(relation regclass, quasi_identifiers text[])
RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    smallest bigint;
    fewest bigint;
    fewest_of_larger bigint;
    keys text;
    null_mask text;
    remaining text;
    query text;
BEGIN
    SELECT min(found.size) INTO smallest
    FROM dbanon._class_sizes(_fewest_agreeing.relation, _fewest_agreeing.quasi_identifiers) AS found;
    IF smallest IS NULL THEN
        RETURN 0;
    END IF;
    -- A key for each column, which is NULL where the value is; the columns that are NULL, as bits; and the keys
    -- without those of hidden columns.
    SELECT string_agg(format('CASE WHEN s.%I IS NOT NULL THEN ROW(%s)::text END', found.name,
                             replace(found.shown, '{}', format('s.%I', found.name))),
                      ', ' ORDER BY found.number),
           string_agg(format('CASE WHEN c.keys[%s] IS NULL THEN %s ELSE 0 END', found.number,
                             1::bigint << (found.number - 1)::integer),
                      ' + ' ORDER BY found.number),
           string_agg(format('CASE WHEN {hidden} & %s = 0 THEN {keys}[%s] END',
                             1::bigint << (found.number - 1)::integer, found.number),
                      ', ' ORDER BY found.number)
    INTO keys, null_mask, remaining
    FROM (SELECT t.name, t.shown, row_number() OVER () AS number
          FROM (@AGREEING_TEMPLATES@) AS t) AS found;
    query := format(
        'WITH grouped AS (SELECT ARRAY[%s] AS keys, count(*) AS size FROM %s AS s GROUP BY 1),'
        ' classes AS MATERIALIZED (SELECT c.keys, c.size, %s AS nulls FROM grouped AS c),'
        ' counted AS MATERIALIZED (SELECT row_number() OVER () AS id, c.keys, c.nulls FROM classes AS c'
        '                          WHERE c.size > $1 AND c.size <= $2),'
        ' hidden AS (SELECT DISTINCT a.nulls, a.nulls | b.nulls AS hidden FROM counted AS a,'
        '            (SELECT DISTINCT c.nulls FROM classes AS c) AS b),'
        ' others AS (SELECT a.nulls, a.nulls | c.nulls AS hidden, ARRAY[%s] AS keys, sum(c.size) AS size'
        '            FROM classes AS c, (SELECT DISTINCT d.nulls FROM counted AS d) AS a GROUP BY 1, 2, 3)'
        ' SELECT min(agreeing.n) FROM (SELECT sum(o.size)::bigint AS n FROM counted AS c'
        '        JOIN hidden AS h ON h.nulls = c.nulls JOIN others AS o ON o.nulls = c.nulls'
        '        AND o.hidden = h.hidden AND o.keys = ARRAY[%s] GROUP BY c.id) AS agreeing',
        keys, _fewest_agreeing.relation, null_mask,
        replace(replace(remaining, '{hidden}', '(a.nulls | c.nulls)'), '{keys}', 'c.keys'),
        replace(replace(remaining, '{hidden}', 'h.hidden'), '{keys}', 'c.keys'));
    EXECUTE query INTO fewest USING 0, smallest;
    EXECUTE query INTO fewest_of_larger USING smallest, fewest - 1;
    RETURN least(fewest, fewest_of_larger);
END
$function$;
REVOKE ALL ON FUNCTION dbanon._fewest_agreeing(regclass, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbanon._fewest_agreeing(regclass, text[]) TO dbanon_reader;
COMMENT ON FUNCTION dbanon._fewest_agreeing(regclass, text[]) IS 'Internal: how many rows agree.';
