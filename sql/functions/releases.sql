-- dbanon.releases(exact): what the ledger has, newest first, and what became of each.
--
-- state: current, the relation is there, and the one recorded; superseded, another release has its
-- name; dropped, there is no such relation; untied, one has its name, owner and columns, but is not the
-- one recorded, as after a dump was restored: dbanon.repair() attaches it. output is the name that the
-- relation has now.
-- stale: of a current release, whether rows of its source were written since it was read, by the
-- server's counters (stale_by); NULL where they do not tell. With exact, by the rows themselves, of
-- releases that were made with source_digest: they are read again.
DO $drop$
DECLARE
    acl aclitem[];
BEGIN
    -- Versions before had other columns. Grants to others are noted and made again below.
    SELECT p.proacl INTO acl FROM pg_catalog.pg_proc AS p
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'dbanon' AND p.proname = 'releases' AND NOT coalesce('exact' = ANY (p.proargnames), false);
    IF FOUND THEN
        DROP FUNCTION dbanon.releases();
    END IF;
    PERFORM pg_catalog.set_config('dbanon.noted', coalesce(acl::text, ''), true);
END
$drop$;
CREATE OR REPLACE FUNCTION dbanon.releases(exact boolean DEFAULT false)
RETURNS TABLE (
    release_id uuid, created_at timestamptz, output text, method text, k_requested integer,
    k_achieved bigint, rows_out bigint, information_loss double precision, published_by text,
    superseded boolean, state text, epsilon double precision, stale boolean, stale_by text
)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
BEGIN
    PERFORM dbanon._require_ledger();
    RETURN QUERY
        SELECT r.release_id, r.created_at, format('%I.%I', w.output_schema, w.output_name), r.method,
               r.k_requested, r.k_achieved, r.rows_out, r.information_loss, r.published_by,
               r.superseded_at IS NOT NULL,
               w.state,
               r.epsilon::double precision, coalesce(d.differs, s.stale),
               CASE WHEN d.differs IS NOT NULL THEN 'digest'
                    WHEN s.stale IS NOT NULL THEN 'counters' END
        FROM dbanon.release AS r
        JOIN (@STATES@) AS w ON w.release_id = r.release_id
        LEFT JOIN LATERAL (
            SELECT dbanon._is_stale(r.request -> 'source', dbanon._state_of(c2.oid)) AS stale
            FROM pg_class AS c2 JOIN pg_namespace AS n2 ON n2.oid = c2.relnamespace
            WHERE w.state = 'current' AND r.request IS NOT NULL
              AND dbanon._name_of(n2.nspname, c2.relname) = r.source
              AND c2.relkind IN ('r', 'p', 'm')
        ) AS s ON true
        LEFT JOIN LATERAL (
            SELECT CASE WHEN releases.exact AND w.state = 'current'
                             AND r.request -> 'source' -> 'read' ->> 'hash' IS NOT NULL
                        THEN dbanon._has_other_rows(r.release_id) END AS differs
        ) AS d ON true
        ORDER BY r.created_at DESC, r.release_id;
END
$function$;
DO $grant$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT quote_ident(pg_get_userbyid(a.grantee))
        FROM pg_catalog.aclexplode(
                 nullif(current_setting('dbanon.noted'), '')::aclitem[]) AS a
        JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
    LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION dbanon.releases(boolean) TO ' || grantee;
    END LOOP;
END
$grant$;
REVOKE ALL ON FUNCTION dbanon.releases(boolean) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.releases(boolean) IS
'The releases in the ledger, newest first. state: current, superseded, dropped, or untied, which
dbanon.repair() mends after a dump was restored. stale: rows of the source were written since, by the
server''s counters, which come some seconds late; NULL where they do not tell. With exact, by all rows
of sources, of releases made with source_digest.';
