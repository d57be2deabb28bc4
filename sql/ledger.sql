-- The ledger, as the history in migrations/ makes it (a test compares the two), and the revision of
-- that history, so that clients and this script take each other's ledger for their own.

CREATE TABLE IF NOT EXISTS dbanon.release (
    release_id                       uuid NOT NULL,
    created_at                       timestamp with time zone NOT NULL,
    dbanon_version                   text NOT NULL,
    source                           text NOT NULL,
    output_schema                    text,
    output_name                      text NOT NULL,
    output_kind                      text NOT NULL,
    relation_name                    text NOT NULL,
    method                           text NOT NULL,
    arguments                        jsonb NOT NULL,
    k_requested                      integer,
    k_achieved                       bigint,
    rows_in                          bigint NOT NULL,
    rows_out                         bigint NOT NULL,
    suppressed                       bigint NOT NULL,
    null_rows                        bigint NOT NULL,
    classes                          bigint,
    smallest_class                   bigint,
    median_class                     double precision,
    largest_class                    bigint,
    histogram                        jsonb,
    information_loss                 double precision,
    information_loss_before_rounding double precision,
    seconds                          jsonb NOT NULL,
    guarantee                        text NOT NULL,
    seed_policy                      text NOT NULL,
    earlier_releases                 text NOT NULL,
    published_by                     text,
    superseded_at                    timestamp with time zone,
    relation_oid                     bigint,
    output_oid                       bigint,
    digest                           text,
    evaluation                       jsonb,
    chain_id                         uuid,
    chain_sequence                   integer,
    epsilon                          numeric,
    neighbours                       text,
    budget                           text,
    request                          jsonb,
    delta                            double precision,
    rho                              numeric,
    owner_oid                        bigint,
    publisher_oid                    bigint,
    ledger_oid                       bigint,
    source_oid                       bigint,
    source_owner_oid                 bigint,
    person_salt                      text,
    PRIMARY KEY (release_id)
);

CREATE TABLE IF NOT EXISTS dbanon.release_column (
    release_id                       uuid NOT NULL,
    position                         integer NOT NULL,
    name                             text NOT NULL,
    role                             text NOT NULL,
    sql_type                         text NOT NULL,
    information_loss                 double precision,
    information_loss_before_rounding double precision,
    PRIMARY KEY (release_id, position)
);

-- Who is in which class of a release, under salted hashes: nobody reads it.
CREATE TABLE IF NOT EXISTS dbanon.release_person (
    release_id uuid NOT NULL,
    part       integer NOT NULL,
    persons    bytea NOT NULL,
    PRIMARY KEY (release_id, part)
);

-- Exact figures: they contain the extremes of the originals, and are the publisher's alone to read.
CREATE TABLE IF NOT EXISTS dbanon.release_internal (
    release_id uuid NOT NULL,
    internal   jsonb NOT NULL,
    PRIMARY KEY (release_id)
);

CREATE TABLE IF NOT EXISTS dbanon.run (
    run_id         uuid NOT NULL,
    release_id     uuid,
    door           text NOT NULL,
    method         text NOT NULL,
    source         text NOT NULL,
    output_schema  text,
    output_name    text NOT NULL,
    started_at     timestamp with time zone NOT NULL,
    finished_at    timestamp with time zone,
    state          text NOT NULL,
    error_code     text,
    run_by         text,
    application    text,
    server_version text,
    job            text,
    source_types   jsonb,
    fingerprint    text,
    source_counts  jsonb,
    PRIMARY KEY (run_id)
);

CREATE TABLE IF NOT EXISTS dbanon.hierarchy (
    name        text NOT NULL,
    kind        text NOT NULL,
    description text,
    created_at  timestamp with time zone NOT NULL,
    created_by  text,
    PRIMARY KEY (name)
);

CREATE TABLE IF NOT EXISTS dbanon.hierarchy_node (
    hierarchy text NOT NULL,
    node      integer NOT NULL,
    parent    integer,
    label     text NOT NULL,
    low       double precision,
    high      double precision,
    PRIMARY KEY (hierarchy, node)
);

-- Who is in which class of a chain, under keyed tags: the owner's alone.
CREATE TABLE IF NOT EXISTS dbanon.chain (
    name       text NOT NULL,
    chain_id   integer NOT NULL,
    identity   uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by text,
    source     text NOT NULL,
    entity     text NOT NULL,
    rules      jsonb NOT NULL,
    key_check  bytea NOT NULL,
    sequence   integer NOT NULL,
    closed_at  timestamp with time zone,
    PRIMARY KEY (name)
);

CREATE TABLE IF NOT EXISTS dbanon.chain_definition (
    chain_id   integer NOT NULL,
    k          integer NOT NULL,
    definition jsonb NOT NULL,
    PRIMARY KEY (chain_id)
);

CREATE TABLE IF NOT EXISTS dbanon.chain_cell (
    chain_id      integer NOT NULL,
    cell          integer NOT NULL,
    state         text NOT NULL,
    since_release integer NOT NULL,
    loose         integer,
    PRIMARY KEY (chain_id, cell)
);

CREATE TABLE IF NOT EXISTS dbanon.chain_member (
    chain_id        integer NOT NULL,
    tag             bytea NOT NULL,
    cell            integer NOT NULL,
    left_at_release integer,
    missed          integer,
    excluded_rows   integer,
    PRIMARY KEY (chain_id, tag)
);

CREATE TABLE IF NOT EXISTS dbanon.chain_waiting (
    chain_id      integer NOT NULL,
    tag           bytea NOT NULL,
    since_release integer NOT NULL,
    PRIMARY KEY (chain_id, tag)
);

CREATE TABLE IF NOT EXISTS dbanon.chain_release (
    chain_id     integer NOT NULL,
    sequence     integer NOT NULL,
    release_id   uuid NOT NULL,
    created_at   timestamp with time zone NOT NULL,
    confirmed_at timestamp with time zone,
    counts       jsonb NOT NULL,
    PRIMARY KEY (chain_id, sequence)
);

-- What the columns of tables are, as their owners declared it: each owner has rules of its own.
CREATE TABLE IF NOT EXISTS dbanon.rule (
    source       text NOT NULL,
    name         text NOT NULL,
    rule         jsonb NOT NULL,
    declared_at  timestamp with time zone NOT NULL,
    declared_by  text,
    relation_oid bigint NOT NULL,
    owner_oid    bigint NOT NULL,
    owner        text,
    declarer_oid bigint,
    ledger_oid   bigint,
    PRIMARY KEY (source, name, owner_oid, relation_oid)
);

-- What may be spent on a source, and what is: the owner's alone to write.
CREATE TABLE IF NOT EXISTS dbanon.budget (
    name          text NOT NULL,
    source        text NOT NULL,
    unit          text NOT NULL,
    entity        text,
    epsilon_total numeric NOT NULL,
    spent         numeric NOT NULL,
    created_at    timestamp with time zone NOT NULL,
    created_by    text,
    raises        text,
    closed        integer NOT NULL,
    delta         double precision,
    PRIMARY KEY (name),
    CONSTRAINT budget_one_open UNIQUE (source, unit, closed),
    CONSTRAINT budget_total_of_use CHECK (epsilon_total > 0 AND epsilon_total <= 1000000),
    CONSTRAINT budget_not_overspent CHECK (spent >= 0 AND spent <= epsilon_total)
);

CREATE TABLE IF NOT EXISTS dbanon.spending (
    spending_id uuid NOT NULL,
    budget      text NOT NULL,
    release_id  uuid,
    epsilon     numeric NOT NULL,
    state       text NOT NULL,
    spent_at    timestamp with time zone NOT NULL,
    spent_by    text,
    PRIMARY KEY (spending_id),
    CONSTRAINT spending_only_adds CHECK (epsilon > 0 AND epsilon <= 1000000)
);

CREATE TABLE IF NOT EXISTS dbanon.alembic_version (
    version_num character varying(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

-- What later versions added to a ledger that is there already.
ALTER TABLE dbanon.release
    ADD COLUMN IF NOT EXISTS relation_oid bigint,
    ADD COLUMN IF NOT EXISTS output_oid bigint,
    ADD COLUMN IF NOT EXISTS digest text,
    ADD COLUMN IF NOT EXISTS evaluation jsonb,
    ADD COLUMN IF NOT EXISTS chain_id uuid,
    ADD COLUMN IF NOT EXISTS chain_sequence integer,
    ADD COLUMN IF NOT EXISTS epsilon numeric,
    ADD COLUMN IF NOT EXISTS neighbours text,
    ADD COLUMN IF NOT EXISTS budget text,
    ADD COLUMN IF NOT EXISTS request jsonb,
    ADD COLUMN IF NOT EXISTS delta double precision,
    ADD COLUMN IF NOT EXISTS rho numeric,
    ADD COLUMN IF NOT EXISTS owner_oid bigint,
    ADD COLUMN IF NOT EXISTS publisher_oid bigint,
    ADD COLUMN IF NOT EXISTS ledger_oid bigint;

DO $source$
BEGIN
    -- Entries of earlier versions do not say which relation their source was.
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute AS a
                   WHERE a.attrelid = 'dbanon.release'::pg_catalog.regclass
                     AND a.attname = 'source_oid' AND NOT a.attisdropped) THEN
        ALTER TABLE dbanon.release
            ADD COLUMN source_oid bigint,
            ADD COLUMN source_owner_oid bigint,
            ADD COLUMN person_salt text;
        UPDATE dbanon.release SET source_oid = 0;
    END IF;
END
$source$;

ALTER TABLE dbanon.budget
    ADD COLUMN IF NOT EXISTS delta double precision;

-- Releases without classes have none of these.
ALTER TABLE dbanon.release
    ALTER COLUMN k_requested DROP NOT NULL,
    ALTER COLUMN k_achieved DROP NOT NULL,
    ALTER COLUMN classes DROP NOT NULL,
    ALTER COLUMN smallest_class DROP NOT NULL,
    ALTER COLUMN median_class DROP NOT NULL,
    ALTER COLUMN largest_class DROP NOT NULL,
    ALTER COLUMN histogram DROP NOT NULL,
    ALTER COLUMN information_loss DROP NOT NULL,
    ALTER COLUMN information_loss_before_rounding DROP NOT NULL;

-- What earlier versions had, and never used.
ALTER TABLE dbanon.release
    DROP COLUMN IF EXISTS class_signature,
    DROP COLUMN IF EXISTS entity_hash;

ALTER TABLE dbanon.chain_cell
    ADD COLUMN IF NOT EXISTS loose integer;

ALTER TABLE dbanon.chain_member
    ADD COLUMN IF NOT EXISTS missed integer,
    ADD COLUMN IF NOT EXISTS excluded_rows integer;

ALTER TABLE dbanon.run
    ADD COLUMN IF NOT EXISTS job text,
    ADD COLUMN IF NOT EXISTS source_types jsonb,
    ADD COLUMN IF NOT EXISTS fingerprint text,
    ADD COLUMN IF NOT EXISTS source_counts jsonb;

ALTER TABLE dbanon.rule
    ADD COLUMN IF NOT EXISTS owner_oid bigint,
    ADD COLUMN IF NOT EXISTS owner text,
    ADD COLUMN IF NOT EXISTS declarer_oid bigint,
    ADD COLUMN IF NOT EXISTS ledger_oid bigint;
UPDATE dbanon.rule SET owner_oid = coalesce(owner_oid, 0), relation_oid = coalesce(relation_oid, 0)
WHERE owner_oid IS NULL OR relation_oid IS NULL;
ALTER TABLE dbanon.rule
    ALTER COLUMN owner_oid SET NOT NULL,
    ALTER COLUMN relation_oid SET NOT NULL;
DO $key$
BEGIN
    -- Rules of one owner no longer take the place of another owner's.
    IF EXISTS (SELECT FROM pg_catalog.pg_constraint AS k
               WHERE k.conrelid = 'dbanon.rule'::pg_catalog.regclass AND k.conname = 'rule_pkey'
                 AND pg_catalog.cardinality(k.conkey) = 2) THEN
        ALTER TABLE dbanon.rule DROP CONSTRAINT rule_pkey;
        ALTER TABLE dbanon.rule ADD PRIMARY KEY (source, name, owner_oid, relation_oid);
    END IF;
END
$key$;
