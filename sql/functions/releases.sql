-- dbanon.releases(): what the ledger has, newest first; superseded ones are marked.
CREATE OR REPLACE FUNCTION dbanon.releases()
RETURNS TABLE (
    release_id uuid, created_at timestamptz, output text, method text, k_requested integer,
    k_achieved bigint, rows_out bigint, information_loss double precision, published_by text,
    superseded boolean
)
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT r.release_id, r.created_at, format('%I.%I', r.output_schema, r.output_name), r.method,
           r.k_requested, r.k_achieved, r.rows_out, r.information_loss, r.published_by,
           r.superseded_at IS NOT NULL
    FROM dbanon.release r
    ORDER BY r.created_at DESC, r.release_id
$function$;
REVOKE ALL ON FUNCTION dbanon.releases() FROM PUBLIC;
COMMENT ON FUNCTION dbanon.releases() IS 'The releases in the ledger, newest first.';
