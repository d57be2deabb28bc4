-- The exact figures of the releases that the reading role, or a role whose rights it has, published.
--
-- A view reads with the rights of its owner, and its conditions ask about the role that reads it. Numbers
-- of roles count in the database that recorded them alone.
CREATE OR REPLACE VIEW dbanon.internal_of_publisher WITH (security_barrier) AS
SELECT i.release_id, i.internal
FROM dbanon.release_internal AS i
JOIN dbanon.release AS r ON r.release_id = i.release_id
WHERE r.ledger_oid = r.tableoid::bigint
  AND pg_catalog.pg_has_role(r.publisher_oid::oid, 'USAGE');
REVOKE ALL ON dbanon.internal_of_publisher FROM PUBLIC;
COMMENT ON VIEW dbanon.internal_of_publisher IS
'internal: contains the extremes of the originals. Exact figures of releases, for the role that
published them.';
