-- A value of the statement that a function in Python runs: statements and plans are logged, and this
-- call is all that is seen of it there. Nothing but for such a statement, in its own session.
CREATE OR REPLACE FUNCTION dbanon._given(number integer)
RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED SECURITY INVOKER
@PINS@
AS $python$
import sys
memory = sys.modules.get('dbanon.stores.postgresql.given')
return None if memory is None else memory.given(number)
$python$;
REVOKE ALL ON FUNCTION dbanon._given(integer) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._given(integer) IS 'Internal: a value of the statement that runs.';
