-- CALL dbanon.@PROCEDURE@(source, output, quasi_identifiers, epsilon, bounds, budget, ...): synthetic
-- rows with differential privacy.
--
-- A procedure, as it commits: epsilon is spent, and that is seen by another transaction, before any
-- noise is drawn; a function could be rolled back after a look at what it made. Inside BEGIN it is
-- refused before anything is read. A SET clause would forbid the commit: so all names here, operators
-- too, are qualified, and the path is set in the first statement and again after each commit. There
-- is no function that draws noise for a spending of somebody's: a spending is made, and used, in one
-- call.
CREATE OR REPLACE PROCEDURE dbanon._@PROCEDURE@(
    source bigint, output text, quasi_identifiers text[], epsilon double precision, bounds jsonb,
    budget text, entity text, null_as jsonb, if_exists text, options jsonb, INOUT outcome jsonb
)
LANGUAGE plpython3u SECURITY INVOKER
AS $python$
def work():
    @IMPORT_CALL@
    from dbanon.doors import plpython_private
    return plpython_private.synthetic(plpy, '@VERSION@', '@PROCEDURE@', {
        'source': source, 'output': output, 'quasi_identifiers': quasi_identifiers,
        'epsilon': epsilon, 'bounds': bounds, 'budget': budget, 'entity': entity,
        'null_as': null_as, 'if_exists': if_exists, 'options': options,
    })
return (work(),)
$python$;
REVOKE ALL ON PROCEDURE dbanon._@PROCEDURE@(bigint, @DP_TYPES@, jsonb) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dbanon._@PROCEDURE@(bigint, @DP_TYPES@, jsonb) TO dbanon_admin, dbanon_runner;
COMMENT ON PROCEDURE dbanon._@PROCEDURE@(bigint, @DP_TYPES@, jsonb) IS
'Internal: CALL dbanon.@PROCEDURE@. What fails is rolled back, and handed back.';

CREATE OR REPLACE PROCEDURE dbanon.@PROCEDURE@(
    source regclass, output text, quasi_identifiers text[], epsilon double precision, bounds jsonb,
    budget text, entity text DEFAULT NULL, null_as jsonb DEFAULT '{}',
    if_exists text DEFAULT 'error', options jsonb DEFAULT '{}'
)
LANGUAGE plpgsql SECURITY INVOKER
AS $procedure$
DECLARE
    outcome pg_catalog.jsonb;
BEGIN
    CALL dbanon._@PROCEDURE@(@PROCEDURE@.source::pg_catalog.oid::pg_catalog.int8, @PROCEDURE@.output,
        @PROCEDURE@.quasi_identifiers, @PROCEDURE@.epsilon, @PROCEDURE@.bounds, @PROCEDURE@.budget, @PROCEDURE@.entity, @PROCEDURE@.null_as,
        @PROCEDURE@.if_exists, @PROCEDURE@.options, outcome);
    IF outcome IS NOT NULL THEN
        -- An empty hint would be shown as an empty line.
        RAISE EXCEPTION USING
            ERRCODE = outcome OPERATOR(pg_catalog.->>) 'sqlstate',
            MESSAGE = outcome OPERATOR(pg_catalog.->>) 'message',
            HINT = coalesce(outcome OPERATOR(pg_catalog.->>) 'hint',
                            'See docs/differential-privacy.md.');
    END IF;
END
$procedure$;
REVOKE ALL ON PROCEDURE dbanon.@PROCEDURE@(regclass, @DP_TYPES@) FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE dbanon.@PROCEDURE@(regclass, @DP_TYPES@) TO dbanon_admin, dbanon_runner;
COMMENT ON PROCEDURE dbanon.@PROCEDURE@(regclass, @DP_TYPES@) IS
'@SUMMARY@, of a table, into another one: "schema.table".
CALL it outside of BEGIN: epsilon is spent of the budget, and committed, before noise is drawn.
bounds, by column, are what anyone may know: never taken from the data. null_as: what stands for NULL.
entity: the column that identifies persons; the guarantee then protects a person. It needs OpenDP beside
dbanon: pip install ''opendp>=0.16''. See docs/differential-privacy.md.';
