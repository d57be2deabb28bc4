-- dbanon._spend(budget, epsilon, spending): spends of a budget, before any noise is drawn.
--
-- It runs with the rights of the ledger's owner, whose alone the rows are, and it can only add: an
-- epsilon that is no number above 0 is refused, as a negative one would refund and NaN passes
-- comparisons. What is charged is rounded up to nine decimals. The caller commits before noise: a
-- run looks, in another transaction, whether this row is there.
-- NULL: the budget has less left, or is none that is open.
CREATE OR REPLACE FUNCTION dbanon._spend(budget text, epsilon numeric, spending uuid)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
@PINS@
AS $function$
DECLARE
    charged numeric;
    after record;
BEGIN
    -- NaN and infinity are above the limit.
    IF _spend.budget IS NULL OR _spend.spending IS NULL
       OR coalesce(NOT (_spend.epsilon > 0 AND _spend.epsilon <= 1000000), true) THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'A spending has a budget, an id, and an epsilon above 0.';
    END IF;
    charged := ceil(_spend.epsilon * 1000000000) / 1000000000;
    UPDATE dbanon.budget AS b SET spent = round(b.spent + charged, 9)
    WHERE b.name = _spend.budget AND b.closed = 0 AND round(b.spent + charged, 9) <= b.epsilon_total
    RETURNING b.spent, b.epsilon_total INTO after;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    BEGIN
        INSERT INTO dbanon.spending (spending_id, budget, epsilon, state, spent_at, spent_by)
        VALUES (_spend.spending, _spend.budget, round(charged, 9), 'spent', clock_timestamp(),
                session_user);
    EXCEPTION WHEN unique_violation THEN
        RAISE EXCEPTION USING ERRCODE = '23505', MESSAGE = 'The ledger already has this spending.';
    END;
    RETURN jsonb_build_object('spent', after.spent::text, 'total', after.epsilon_total::text);
END
$function$;
REVOKE ALL ON FUNCTION dbanon._spend(text, numeric, uuid) FROM PUBLIC;
COMMENT ON FUNCTION dbanon._spend(text, numeric, uuid) IS
'Internal: spends from a budget, and can do nothing else; NULL if less is left.';
