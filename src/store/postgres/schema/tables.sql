-- SPDX-License-Identifier: Apache-2.0
-- The schema of a pawl store on PostgreSQL 13 or later: `pawl schema postgres | psql`. It may be
-- run again: what is there stays. Why it is as it is: docs/decisions/0023-postgresql.md.
\set ON_ERROR_STOP on
-- Whoever may create in a schema of the path could have made a function or an operator that fits
-- better, and that the owner would call.
SET search_path = pg_catalog;
-- Up to BEGIN it is for psql, and for a store that has records: an index is built on it beside what
-- writes there. One that was given up half built is in the way.
SELECT 'DROP INDEX CONCURRENTLY pawl.record_token' FROM pg_catalog.pg_index
    WHERE indexrelid = to_regclass('pawl.record_token') AND NOT indisvalid \gexec
SELECT 'CREATE INDEX CONCURRENTLY record_token ON pawl.record(token) WHERE token <> id'
    WHERE to_regclass('pawl.record') IS NOT NULL AND to_regclass('pawl.record_token') IS NULL \gexec

-- The one row that every batch reads, in a transaction of its own: nobody reads it while a column
-- is added, so that this is over before anything is built. Who has it open is waited for, a moment
-- at a time.
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog;
-- Behind those that it always had: frozen to frozen_at: src/store/tables/terms.h. revision: what
-- was added within the format, and a pawl that needs it asks for; an older one goes on.
SET pawl.columns = 'revision integer NOT NULL DEFAULT 0, frozen boolean NOT NULL DEFAULT false,'
    ' epoch bigint NOT NULL DEFAULT 0, roster bigint NOT NULL DEFAULT 0,'
    ' went_back_at bigint NOT NULL DEFAULT 0, restored_since bigint NOT NULL DEFAULT 0,'
    ' restored_at bigint NOT NULL DEFAULT 0, restored_until bigint NOT NULL DEFAULT 0,'
    ' frozen_at bigint NOT NULL DEFAULT 0';
DO $$
DECLARE
    missing text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('pawl schema'));
    PERFORM set_config('lock_timeout', '100ms', true);
    IF to_regclass('pawl.store') IS NULL THEN
        RETURN;
    END IF;
    SELECT string_agg('ADD COLUMN IF NOT EXISTS ' || wanted, ', ' ORDER BY at) INTO missing
    FROM unnest(string_to_array(current_setting('pawl.columns'), ', '))
        WITH ORDINALITY w(wanted, at)
    WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pawl.store'::regclass
        AND a.attname = split_part(wanted, ' ', 1));
    FOR try IN REVERSE 100..1 LOOP
        EXIT WHEN missing IS NULL;
        BEGIN
            EXECUTE 'ALTER TABLE pawl.store ' || missing;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF try = 1 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$;
COMMIT;

-- The same for columns of records, which every batch reads, too.
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog;
DO $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('pawl schema'));
    PERFORM set_config('lock_timeout', '100ms', true);
    FOR try IN REVERSE 100..1 LOOP
        EXIT WHEN to_regclass('pawl.record') IS NULL OR EXISTS (SELECT FROM pg_attribute a
            WHERE a.attrelid = to_regclass('pawl.record') AND a.attname = 'asking');
        BEGIN
            ALTER TABLE pawl.record ADD COLUMN IF NOT EXISTS hold_us bigint NOT NULL DEFAULT 0,
                ADD COLUMN asking bigint NOT NULL DEFAULT 0;
        EXCEPTION WHEN lock_not_available THEN
            IF try = 1 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$;
COMMIT;

BEGIN;
SET LOCAL pawl.format = @FORMAT@;
SET LOCAL pawl.revision = @REVISION@;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog;
DO $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('pawl schema'));
    PERFORM set_config('lock_timeout', '1s', true);
    IF to_regclass('pawl.store') IS NOT NULL THEN
        IF (SELECT s.format > current_setting('pawl.format')::integer
                OR (to_jsonb(s) ->> 'revision')::integer
                    > current_setting('pawl.revision')::integer FROM pawl.store s) THEN
            RAISE EXCEPTION 'the schema was made by a newer pawl; run that version';
        END IF;
    END IF;
END $$;
CREATE SCHEMA IF NOT EXISTS pawl;
REVOKE ALL ON SCHEMA pawl FROM PUBLIC;

-- One row. What hashes of identities are keyed with was drawn with the store, and never changes.
DO $$
BEGIN
    IF to_regclass('pawl.store') IS NULL THEN
        EXECUTE 'CREATE TABLE pawl.store('
            'single boolean PRIMARY KEY DEFAULT true CHECK (single), format integer NOT NULL,'
            ' secret bytea NOT NULL CHECK (octet_length(secret) = 32), '
            || current_setting('pawl.columns') || ')';
    END IF;
END $$;

-- A number is a block of tokens: the last 255 before it are of the block below.
CREATE SEQUENCE IF NOT EXISTS pawl.token AS bigint INCREMENT BY 256 MINVALUE 256
    MAXVALUE 9007199254740991 CACHE 1;

-- How many young records and bound keys went, see pawl.note_removal.
CREATE SEQUENCE IF NOT EXISTS pawl.removal AS bigint CACHE 1;

-- A record. It has no index on a column that a finish changes, so that a finish stays on its page.
-- named: its key leads to it; once_name: the hash of the once value that leads to it.
CREATE TABLE IF NOT EXISTS pawl.record(
    id bigint PRIMARY KEY, version bigint NOT NULL, named boolean NOT NULL, once_name bytea,
    key_hash bytea NOT NULL, tenant bytea NOT NULL, rule bytea NOT NULL, key bytea NOT NULL,
    recipe bytea NOT NULL, fingerprint bytea NOT NULL, payload_hash bytea NOT NULL,
    target_hash bytea NOT NULL, created_at bigint NOT NULL, status smallint NOT NULL,
    token bigint NOT NULL, attempt_id bytea NOT NULL, attempts bigint NOT NULL,
    started_at bigint NOT NULL, lease_until bigint NOT NULL, lease_us bigint NOT NULL,
    owner bigint NOT NULL, probing smallint NOT NULL, windowed smallint NOT NULL,
    unknown smallint NOT NULL, settle_us bigint NOT NULL, quiet_at bigint NOT NULL,
    ttl_us bigint NOT NULL, least_us bigint NOT NULL, doubted_us bigint NOT NULL,
    tombstone_us bigint NOT NULL, doubt smallint NOT NULL, cause integer NOT NULL,
    origin bytea NOT NULL, provisional smallint NOT NULL, once bytea NOT NULL,
    once_template bigint NOT NULL, once_ttl_us bigint NOT NULL, once_window smallint NOT NULL,
    once_replay smallint NOT NULL, once_until bigint NOT NULL, completed_at bigint NOT NULL,
    expires_at bigint NOT NULL, gone_at bigint NOT NULL, kept smallint NOT NULL,
    http_code integer NOT NULL, result_ref bytea NOT NULL, hold_us bigint NOT NULL DEFAULT 0,
    asking bigint NOT NULL DEFAULT 0)
    WITH (fillfactor = 70);

-- Of every final record: what is kept of its response (headers NULL: nothing), and when that, or
-- the record, is to go. A migration may partition it by the day of sweep_at.
CREATE TABLE IF NOT EXISTS pawl.outcome(
    id bigint PRIMARY KEY, sweep_at bigint NOT NULL, packed smallint NOT NULL,
    headers bytea, body bytea);

-- A key that leads to the record of another one (core/once.h).
CREATE TABLE IF NOT EXISTS pawl.bound(
    id bigint PRIMARY KEY, holder bigint NOT NULL, expires_at bigint NOT NULL,
    acknowledges smallint NOT NULL, key_hash bytea NOT NULL UNIQUE, key bytea NOT NULL,
    recipe bytea NOT NULL, payload_hash bytea NOT NULL, target_hash bytea NOT NULL);

-- Records that nobody holds and that are not final: released (status 1: at: they expire), unknown
-- (status 4; at: since).
CREATE TABLE IF NOT EXISTS pawl.unheld(
    id bigint PRIMARY KEY, status smallint NOT NULL, at bigint NOT NULL);

-- A process that holds leases, and when it last said that it lives.
CREATE TABLE IF NOT EXISTS pawl.owner(
    incarnation bigint PRIMARY KEY, beat_at bigint NOT NULL) WITH (fillfactor = 20);

-- What each process (by) changed of the counts, so that none writes another one's row: of records
-- where owner is 0, else of the leases of that owner. What counts is the sum.
CREATE TABLE IF NOT EXISTS pawl.tally(
    by bigint NOT NULL, owner bigint NOT NULL, leases bigint NOT NULL, lease_us bigint NOT NULL,
    pending bigint NOT NULL, complete bigint NOT NULL, failed bigint NOT NULL,
    unknown bigint NOT NULL, released bigint NOT NULL, forgets bigint NOT NULL,
    PRIMARY KEY (by, owner)) WITH (fillfactor = 20);

-- What a gateway last committed (docs/model/marks.pml): by it each save sees whether that is lost.
CREATE TABLE IF NOT EXISTS pawl.mark(
    by bigint PRIMARY KEY, value bigint NOT NULL, at bigint NOT NULL) WITH (fillfactor = 20);

-- Only what is not there yet takes a lock of its table.
DO $$
DECLARE
    missing record;
BEGIN
    FOR missing IN SELECT * FROM (VALUES
        ('record_key', 'UNIQUE INDEX record_key ON pawl.record(key_hash) WHERE named'),
        ('record_once', 'UNIQUE INDEX record_once ON pawl.record(once_name)
            WHERE once_name IS NOT NULL'),
        -- A token that is no id: of every acquisition but the first. A finish changes no token.
        ('record_token', 'INDEX record_token ON pawl.record(token) WHERE token <> id'),
        ('outcome_sweep', 'INDEX outcome_sweep ON pawl.outcome(sweep_at)'),
        ('bound_holder', 'INDEX bound_holder ON pawl.bound(holder)'),
        ('bound_expires', 'INDEX bound_expires ON pawl.bound(expires_at)'),
        ('bound_key', 'INDEX bound_key ON pawl.bound(key)'),
        ('unheld_at', 'INDEX unheld_at ON pawl.unheld(status, at)')) wanted(name, index)
    WHERE to_regclass('pawl.' || name) IS NULL LOOP
        EXECUTE 'CREATE ' || missing.index;
    END LOOP;
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'pawl.outcome'::regclass
            AND attname = 'body' AND attstorage <> 'e') THEN
        ALTER TABLE pawl.outcome ALTER COLUMN body SET STORAGE EXTERNAL;
    END IF;
END $$;

-- What functions take and return. Numbers are bigint: the client writes one kind.
DO $$ BEGIN
IF to_regtype('pawl.seen_name') IS NULL THEN
    -- grp: of a save; lock: the first 8 bytes of the hash; leads_to: where it led, 0: nowhere.
    CREATE TYPE pawl.seen_name AS (
        grp bigint, hash bytea, lock bigint, is_once bigint, is_claimed bigint, leads_to bigint);
    CREATE TYPE pawl.seen_row AS (grp bigint, id bigint, version bigint);
    -- status 0: it goes. once_name NULL: none is new.
    CREATE TYPE pawl.saved_row AS (grp bigint, is_new bigint, id bigint, once_name bytea,
        @RECORD_WIRE@);
    -- is_whole 0: sweep_at alone.
    CREATE TYPE pawl.saved_outcome AS (grp bigint, id bigint, is_whole bigint, sweep_at bigint,
        packed bigint, headers bytea, body bytea);
    CREATE TYPE pawl.saved_bound AS (grp bigint, id bigint, holder bigint, expires_at bigint,
        acknowledges bigint, key_hash bytea, key bytea, recipe bytea, payload_hash bytea,
        target_hash bytea);
    -- status 0: it is one no longer.
    CREATE TYPE pawl.saved_unheld AS (grp bigint, id bigint, status bigint, at bigint);
    -- A row of a module: its statement, whose one parameter is an array of its values as text.
    CREATE TYPE pawl.saved_brought AS (grp bigint, place bigint, may_miss bigint, statement text);
    CREATE TYPE pawl.saved_value AS (place bigint, value bytea);
    CREATE TYPE pawl.saved_tally AS (grp bigint, owner bigint, leases bigint, lease_us bigint,
        pending bigint, complete bigint, failed bigint, unknown bigint, released bigint,
        forgets bigint);
    CREATE TYPE pawl.loaded AS (name bigint, bound_id bigint, bound_until bigint,
        bound_acknowledges bigint, bound_recipe bytea, bound_payload_hash bytea,
        bound_target_hash bytea, by_hint boolean, named boolean, beat_at bigint,
        outcome_packed smallint, outcome_headers bytea, outcome_body bytea,
        id bigint, version bigint, @RECORD_TYPES@);
END IF;
IF to_regtype('pawl.saved_hold') IS NULL THEN
    CREATE TYPE pawl.saved_hold AS (grp bigint, id bigint, hold_us bigint);
    ALTER TYPE pawl.loaded ADD ATTRIBUTE hold_us bigint;
END IF;
IF to_regtype('pawl.saved_asking') IS NULL THEN
    CREATE TYPE pawl.saved_asking AS (grp bigint, id bigint, asking bigint);
    ALTER TYPE pawl.loaded ADD ATTRIBUTE asking bigint;
END IF;
IF to_regtype('pawl.claim') IS NULL THEN
    CREATE TYPE pawl.claim AS (place bigint, lock bigint, @CLAIM_WIRE@);
    CREATE TYPE pawl.ended AS (id bigint, version bigint, token bigint, sweep_at bigint,
        packed bigint, headers bytea, body bytea, @ENDED_WIRE@);
END IF;
END $$;
