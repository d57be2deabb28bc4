-- dbanon.anonymize(source, output, method, ...): the function of a method, by its name.
--
-- Its arguments are those of the method's own function, with the method before them, so that one
-- call takes any: dbanon.anonymize('app.people', 'release.people', method => 'gaa_cp', k => 5).
CREATE OR REPLACE FUNCTION dbanon.anonymize(
    source regclass, output text, quasi_identifiers text[] DEFAULT NULL, k integer DEFAULT NULL,
    entity text DEFAULT NULL, keep text[] DEFAULT '{}', sensitive text[] DEFAULT '{}',
    hierarchies jsonb DEFAULT '{}', max_suppression double precision DEFAULT 0,
    nulls text DEFAULT 'error', if_exists text DEFAULT 'error', options jsonb DEFAULT '{}',
    method text DEFAULT 'mdav'
)
RETURNS dbanon.release_info
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    outcome jsonb;
BEGIN
    IF anonymize.source IS NULL OR anonymize.method IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'source and method must not be NULL.';
    END IF;
    outcome := dbanon._anonymize(jsonb_build_object(
        'method', anonymize.method,
        'source', anonymize.source::oid::bigint,
        'output', anonymize.output,
        'quasi_identifiers', anonymize.quasi_identifiers,
        'k', anonymize.k,
        'entity', anonymize.entity,
        'keep', anonymize.keep,
        'sensitive', anonymize.sensitive,
        'hierarchies', anonymize.hierarchies,
        'max_suppression', anonymize.max_suppression,
        'nulls', anonymize.nulls,
        'if_exists', anonymize.if_exists,
        'options', anonymize.options
    ));
@RAISE@
    RETURN jsonb_populate_record(NULL::dbanon.release_info, outcome);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.anonymize(@TYPES@, text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.anonymize(@TYPES@, text) IS
'Makes a release by any method, given by name.
Like the method''s own function, with method => ''gaa_cp''.
dbanon.help(''gaa_cp'') lists the keys of options that a method takes.';
