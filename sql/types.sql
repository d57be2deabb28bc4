-- What a call returns. Never void: a caller can check it.
CREATE TYPE dbanon.release_info AS (
    release_id       uuid,
    output           regclass,
    summary          regclass,
    rows_in          bigint,
    rows_out         bigint,
    suppressed       bigint,
    classes          bigint,
    k_requested      integer,
    k_achieved       bigint,
    information_loss double precision,
    verified         boolean,
    elapsed          interval,
    seconds          jsonb
);
REVOKE ALL ON TYPE dbanon.release_info FROM PUBLIC;
COMMENT ON TYPE dbanon.release_info IS
    'One release: what was read, written and counted. Seconds are per phase.';

CREATE TYPE dbanon.verification AS (
    relation       regclass,
    rows           bigint,
    classes        bigint,
    smallest_class bigint,
    largest_class  bigint,
    k_requested    integer,
    k_achieved     bigint,
    release_id     uuid,
    unchanged      boolean,
    digest         text
);
REVOKE ALL ON TYPE dbanon.verification FROM PUBLIC;
COMMENT ON TYPE dbanon.verification IS
'What a recount of a relation found, in rows. digest says how its rows compare with those released.';
