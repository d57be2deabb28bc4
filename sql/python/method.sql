-- dbanon.@METHOD@(source, output, quasi_identifiers, k, ...): @SUMMARY@
--
-- source: table, partitioned table or materialized view; a view only with options.key.
-- output: "schema.table" that is made; <output>_summary is made beside it.
-- quasi_identifiers: NULL for what the rules of the source say of all its columns; see
-- dbanon.declare. Then entity, keep, sensitive and hierarchies are theirs, too.
-- entity: the column that identifies persons; k then counts its distinct values. Not released.
-- keep, sensitive: columns that are copied as they are; a column named nowhere is not copied.
-- nulls: error, suppress or category. max_suppression: largest share of rows withheld.
-- if_exists: error, or replace for what dbanon made.
CREATE OR REPLACE FUNCTION dbanon.@METHOD@(
    source regclass, output text, quasi_identifiers text[] DEFAULT NULL, k integer DEFAULT NULL,
    entity text DEFAULT NULL, keep text[] DEFAULT '{}', sensitive text[] DEFAULT '{}',
    hierarchies jsonb DEFAULT '{}', max_suppression double precision DEFAULT 0,
    nulls text DEFAULT 'error', if_exists text DEFAULT 'error', options jsonb DEFAULT '{}'
)
RETURNS dbanon.release_info
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    IF @METHOD@.source IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'source must not be NULL.';
    END IF;
    outcome := dbanon._anonymize(jsonb_build_object(
        'method', '@METHOD@',
        'source', @METHOD@.source::oid::bigint,
        'output', @METHOD@.output,
        'quasi_identifiers', @METHOD@.quasi_identifiers,
        'k', @METHOD@.k,
        'entity', @METHOD@.entity,
        'keep', @METHOD@.keep,
        'sensitive', @METHOD@.sensitive,
        'hierarchies', @METHOD@.hierarchies,
        'max_suppression', @METHOD@.max_suppression,
        'nulls', @METHOD@.nulls,
        'if_exists', @METHOD@.if_exists,
        'options', @METHOD@.options
    ));
@RAISE@
    RETURN jsonb_populate_record(NULL::dbanon.release_info, outcome);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.@METHOD@(@TYPES@) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.@METHOD@(@TYPES@) IS @MANUAL@;
