-- dbanon.declare(source, rules, from_comments): what the columns of a table are, kept beside it.
--
-- Only the table's owner says so, or a member of that role. Columns that are not named keep their
-- rules. from_comments reads those that comments on columns state, in a line "dbanon: role" or
-- "dbanon: {rule as JSON}"; what rules say besides goes before. A comment is read, and never run.
CREATE OR REPLACE FUNCTION dbanon.declare(
    source regclass, rules jsonb DEFAULT '{}', from_comments boolean DEFAULT false
)
RETURNS TABLE (column_name text, role text, rule jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    wanted jsonb := '{}';
    outcome jsonb;
    found record;
BEGIN
    IF declare.source IS NULL OR declare.rules IS NULL OR declare.from_comments IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004',
            MESSAGE = 'source, rules and from_comments must not be NULL.';
    END IF;
    IF jsonb_typeof(declare.rules) <> 'object' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'Rules must be an object: a rule by column.',
            HINT = 'As in ''{"age": "quasi_identifier", "name": "identifier"}''.';
    END IF;
    IF declare.from_comments THEN
        FOR found IN
            SELECT a.attname, regexp_match(c.said, E'(?n)^[ \\t]*dbanon:[ \\t]*(\\S.*?)[ \\t]*$') AS said,
                   (SELECT count(*) FROM regexp_matches(c.said, E'(?n)^[ \\t]*dbanon:[ \\t]*\\S', 'g'))
                       AS lines
            FROM pg_attribute AS a
            CROSS JOIN LATERAL (SELECT col_description(a.attrelid, a.attnum) AS said) AS c
            WHERE a.attrelid = declare.source AND a.attnum > 0 AND NOT a.attisdropped
              AND c.said ~ E'(?n)^[ \\t]*dbanon:[ \\t]*\\S'
        LOOP
            outcome := NULL;
            BEGIN
                IF found.lines = 1 THEN
                    outcome := CASE WHEN found.said[1] LIKE '{%' THEN found.said[1]::jsonb
                                    ELSE to_jsonb(found.said[1]) END;
                END IF;
            EXCEPTION WHEN data_exception OR program_limit_exceeded OR statement_too_complex THEN
                outcome := NULL;
            END;
            IF outcome IS NULL THEN
                RAISE EXCEPTION USING ERRCODE = '22023',
                    MESSAGE = format('The comment on column %I states no rule.', found.attname),
                    HINT = 'Write one line, as in dbanon: quasi_identifier, or with JSON, as in'
                           ' dbanon: {"role": "quasi_identifier"}.';
            END IF;
            wanted := wanted || jsonb_build_object(found.attname, outcome);
        END LOOP;
    END IF;
    wanted := wanted || declare.rules;
    IF wanted = '{}' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'There is no rule to declare.',
            HINT = 'As in ''{"age": "quasi_identifier", "name": "identifier"}'', or with comments on'
                   ' columns, from_comments => true.';
    END IF;
    -- Hierarchies and models are known to Python, where it is.
    IF to_regprocedure('dbanon._check_rules(jsonb)') IS NOT NULL THEN
        EXECUTE 'SELECT dbanon._check_rules($1)' INTO outcome USING wanted;
@RAISE@
    END IF;
    SELECT jsonb_object_agg(r.key, CASE jsonb_typeof(r.value) WHEN 'string'
                                   THEN jsonb_build_object('role', r.value) ELSE r.value END)
    INTO wanted FROM jsonb_each(wanted) AS r;
    PERFORM dbanon._declare(jsonb_build_object('source', declare.source::oid::bigint, 'set', wanted));
    RETURN QUERY SELECT k.column_name, k.role, k.rule FROM dbanon.rules(declare.source) AS k
        WHERE k.rule IS NOT NULL;
END
$function$;
REVOKE ALL ON FUNCTION dbanon.declare(regclass, jsonb, boolean) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.declare(regclass, jsonb, boolean) IS
'Declares the role of each column of a table, and keeps the roles beside the table.
rules: by column, as in {"age": "quasi_identifier", "name": "identifier"}.
A rule is a role, or an object with a role and what belongs to it:
  quasi_identifier: hierarchy (the name of a stored one, or as calls take it), step, weight, order
  sensitive: model, as in {"distinct_l": 2}, or models, a list
  keep: reason (copied as it is); by (makes strata); drop: reason
  entity (identifies the person; one column): pseudonym, if it is released as one
  pseudonym (released as a keyed hash, by clients); identifier (never released)
  weight (how many persons a row stands for; one column): weight_as, mean, rounded or copied
Only the table''s owner declares. Columns that are not named keep their rules.
from_comments: also read comments on columns that have a line "dbanon: quasi_identifier".
Calls of methods without quasi_identifiers use the rules; each column must have one then.';
