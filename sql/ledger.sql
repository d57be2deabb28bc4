-- What later versions added to a ledger that is there already. The tables of a new ledger come before:
-- dbanon/ledger/tables.py has them. A test compares the outcome with that of migrations/, as clients and
-- this script share ledgers.

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
