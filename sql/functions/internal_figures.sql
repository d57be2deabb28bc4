-- dbanon.internal_figures(release): the exact figures of a release, for the role that published it.
--
-- release: as of dbanon.show. NULL of a release whose figures were not recorded: those of earlier
-- versions, those whose source is in another database, and synthetic ones.
CREATE OR REPLACE FUNCTION dbanon.internal_figures(release text)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
@PINS@
AS $function$
DECLARE
    id uuid := (dbanon.show(internal_figures.release) ->> 'release_id')::uuid;
BEGIN
    -- Of a ledger that was restored from a dump the numbers of roles are those of another database.
    IF NOT EXISTS (SELECT FROM dbanon.release AS r
                   WHERE r.release_id = id AND r.ledger_oid = r.tableoid::bigint
                     AND pg_has_role(r.publisher_oid::oid, 'USAGE')) THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'The exact figures of a release are for the role that published it.',
            HINT = 'They contain the extremes of the originals. Whoever may read the source'
                   ' computes them by dbanon.evaluate.';
    END IF;
    RETURN (SELECT v.internal FROM dbanon.internal_of_publisher AS v WHERE v.release_id = id);
END
$function$;
REVOKE ALL ON FUNCTION dbanon.internal_figures(text) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.internal_figures(text) IS
'internal: contains the extremes of the originals. The exact figures of a release, for the role that
published it. release is its id, or the name of its output.';
