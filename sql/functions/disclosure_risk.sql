-- dbanon.disclosure_risk(release): the rows of dbanon.evaluate(release) that tell a risk.
CREATE OR REPLACE FUNCTION dbanon.disclosure_risk(release regclass)
RETURNS TABLE (measure text, attribute text, value double precision, note text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY INVOKER
@PINS@
AS $function$
BEGIN
    RETURN QUERY
        SELECT e.* FROM dbanon.evaluate(disclosure_risk.release) AS e
        WHERE e.measure LIKE E'%\\_risk' OR e.measure IN ('score', 'security_ratio');
END
$function$;
REVOKE ALL ON FUNCTION dbanon.disclosure_risk(regclass) FROM PUBLIC;
COMMENT ON FUNCTION dbanon.disclosure_risk(regclass) IS
'What an attacker still gains from a release: the risks among dbanon.evaluate(release).
class_risk is the risk from someone who knows that a person is in the release.
It stays when others fall to 0.';
