-- dbanon._write_rules(given): writes and removes rules of a table: {"source": its oid, "set":
-- {column: rule}, "remove": [columns], or null for all}. How many there are then.
--
-- It runs with the rights of the ledger's owner, and does not see who calls it: neither the role that
-- logged in nor one that calls through a function of somebody else may be the one to ask. But only the
-- owner of a relation, or a member of that role, can comment on its columns. So it asks for the mark of
-- these very rules on the first column, written by the transaction that calls and gone afterwards.
--
-- The mark proves the owner's rights, and not who uses them. So rules record the owner, and beside it
-- the role that logged in, if it may act as the owner: what it declares counts no longer than that.
CREATE OR REPLACE FUNCTION dbanon._write_rules(given jsonb)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
@PINS@
-- A plan for any arguments: one made for these would show them to whoever has plans logged.
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    own constant bigint := pg_current_xact_id()::text::bigint;
    roles constant jsonb := '{"quasi_identifier": ["role", "hierarchy", "step", "weight", "order",
        "kind"],
        "sensitive": ["role", "model", "models"], "by": ["role"], "keep": ["role", "reason"],
        "entity": ["role", "pseudonym", "normalize"], "pseudonym": ["role"], "identifier": ["role"],
        "weight": ["role", "weight_as"],
        "drop": ["role", "reason"]}';
    marked record;
    declarer oid;
    named text;
    wrong text;
    n_rules integer;
    entities integer;
    weights integer;
BEGIN
    IF jsonb_typeof(given) IS DISTINCT FROM 'object'
       OR jsonb_typeof(given -> 'source') IS DISTINCT FROM 'number'
       OR coalesce(jsonb_typeof(given -> 'set'), 'object') <> 'object'
       OR coalesce(jsonb_typeof(given -> 'remove'), 'null') NOT IN ('null', 'array')
       OR EXISTS (SELECT FROM jsonb_object_keys(given) AS key
                  WHERE key NOT IN ('source', 'set', 'remove')) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'Rules are an object: a rule by column.';
    END IF;
    IF pg_column_size(given) > 4194304 THEN
        RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'The rules are too large.';
    END IF;
    SELECT c.oid, n.nspname, c.relname, c.relowner,
           (d.xmin::text::bigint - own % 4294967296 + 4294967296) % 4294967296 AS later
    INTO marked
    FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_description AS d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass
        AND d.objsubid = (SELECT min(a.attnum) FROM pg_attribute AS a
                          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
    WHERE c.oid::bigint = (given ->> 'source')::numeric AND c.relpersistence <> 't'
      AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND d.description = 'dbanon rules ' || encode(sha256(convert_to(given::text, 'UTF8')), 'hex');
    -- As in _record_release: a row that is seen while what wrote it is in progress is our own.
    IF NOT FOUND OR marked.later >= 2147483648
       OR pg_xact_status((own + marked.later)::text::xid8) IS DISTINCT FROM 'in progress' THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'The table does not have the mark of these rules, written by its owner in this'
                      ' transaction.',
            HINT = 'Rules are declared by dbanon.declare alone.';
    END IF;
    SELECT r.key INTO wrong FROM jsonb_each(given -> 'set') AS r
    WHERE jsonb_typeof(r.value) <> 'object'
       OR coalesce(jsonb_typeof(r.value -> 'role') <> 'string', true)
       OR NOT roles ? (r.value ->> 'role')
       OR EXISTS (SELECT FROM jsonb_object_keys(r.value) AS key
                  WHERE NOT (roles -> (r.value ->> 'role')) ? key)
       OR r.value ->> 'role' = 'keep' AND coalesce(btrim(r.value ->> 'reason'), '') = ''
       OR octet_length(r.value::text) > 65536
       -- Whoever reads rules on a terminal reads what a table's owner wrote; JSON escapes the others.
       OR r.value::text ~ E'[\\u007f-\\u009f]'
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('The rule of column %I has an unknown role, or keys that do not belong to'
                             ' it.', left(wrong, 63)),
            HINT = 'Roles: quasi_identifier, sensitive, by, keep (with a reason), entity, pseudonym,'
                   ' weight, identifier, drop. See dbanon.help(''declare'').';
    END IF;
    SELECT r INTO wrong FROM jsonb_object_keys(given -> 'set') AS r
    WHERE r NOT IN (SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = marked.oid
                    AND a.attnum > 0 AND NOT a.attisdropped) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42703',
            MESSAGE = format('%I.%I has no column %I, which a rule names.', marked.nspname,
                             marked.relname, left(wrong, 63));
    END IF;
    named := dbanon._name_of(marked.nspname, marked.relname);
    SELECT coalesce((SELECT r.oid FROM pg_roles AS r
                     WHERE r.rolname = session_user AND @MAY_ACT_AS(r.oid, marked.relowner)@),
                    marked.relowner) INTO declarer;
    -- Rules of others stay, unless they are of this very table: the owner of today decides.
    DELETE FROM dbanon.rule AS k
    USING (@RULES_WITH_STATE(c.oid = marked.oid)@
    ) AS j
    WHERE k.source = j.source AND k.name = j.name AND k.owner_oid = j.owner_oid
      AND k.relation_oid = j.relation_oid
      AND j.table_oid IS NOT NULL AND (j.is_trusted OR j.is_same)
      AND (coalesce(given -> 'set' ? k.name, false)
           OR given ? 'remove' AND (jsonb_typeof(given -> 'remove') = 'null'
                                    OR given -> 'remove' ? k.name));
    @TIE_RULES(c.oid = marked.oid)@;
    -- Rules that went with a table to another name give back this one.
    UPDATE dbanon.rule AS k SET source = dbanon._name_of(n.nspname, c.relname)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE k.source = named AND k.ledger_oid = k.tableoid::bigint
      AND k.relation_oid = c.oid::bigint AND c.oid <> marked.oid
      AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND dbanon._name_of(n.nspname, c.relname) <> named;
    INSERT INTO dbanon.rule AS k (source, name, rule, declared_at, declared_by, relation_oid,
                                  owner_oid, owner, declarer_oid, ledger_oid)
    SELECT named, r.key, r.value, clock_timestamp(), pg_get_userbyid(declarer), marked.oid::bigint,
           marked.relowner::bigint, pg_get_userbyid(marked.relowner), declarer::bigint,
           'dbanon.rule'::regclass::oid::bigint
    FROM jsonb_each(given -> 'set') AS r
    ON CONFLICT (source, name, owner_oid, relation_oid) DO UPDATE SET rule = excluded.rule,
        declared_at = excluded.declared_at, declared_by = excluded.declared_by,
        owner = excluded.owner, declarer_oid = excluded.declarer_oid,
        ledger_oid = excluded.ledger_oid;
    SELECT count(*), count(*) FILTER (WHERE j.rule ->> 'role' = 'entity'),
        count(*) FILTER (WHERE j.rule ->> 'role' = 'weight')
    INTO n_rules, entities, weights
    FROM (@RULES_WITH_STATE(c.oid = marked.oid)@
    ) AS j
    WHERE j.table_oid IS NOT NULL AND j.is_trusted AND j.rank = 1;
    IF entities > 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'More than one column has the role entity.',
            HINT = 'Give the role entity to one column, and the role identifier to the others.';
    END IF;
    IF weights > 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'More than one column has the role weight.',
            HINT = 'Give the role weight to one column, and the role drop to the others.';
    END IF;
    IF (SELECT count(*) FROM dbanon.rule AS k WHERE k.declarer_oid = declarer::bigint) > 100000 THEN
        RAISE EXCEPTION USING ERRCODE = '53400', CONSTRAINT = 'dbanon_rules_of_role',
            MESSAGE = 'This role has declared rules of 100,000 columns, which is all that one may.';
    END IF;
    RETURN n_rules;
END
$function$;
REVOKE ALL ON FUNCTION dbanon._write_rules(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._write_rules(jsonb) IS
'Internal: writes rules of a table, for its owner, who marked a column of it in this transaction.';
