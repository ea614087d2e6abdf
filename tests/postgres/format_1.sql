-- SPDX-License-Identifier: Apache-2.0
-- A store of format 1, as `pawl schema postgres` wrote it, with a response to POST /refunds
-- under the key k1: {"amount": 1}, kept forever.
-- The schema of a pawl store on PostgreSQL 13 or later: `pawl schema postgres | psql`. It may be
-- run again: what is there stays. Why it is as it is: docs/decisions/0023-postgresql.md.
BEGIN;
SET LOCAL lock_timeout = '1s';
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog;
DO $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext('pawl schema')); END $$;
CREATE SCHEMA IF NOT EXISTS pawl;
REVOKE ALL ON SCHEMA pawl FROM PUBLIC;

-- One row. What hashes of identities are keyed with was drawn with the store, and never changes.
CREATE TABLE IF NOT EXISTS pawl.store(
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    format integer NOT NULL,
    secret bytea NOT NULL CHECK (octet_length(secret) = 32));

-- A number is a block of tokens: the last 255 before it are of the block below.
CREATE SEQUENCE IF NOT EXISTS pawl.token AS bigint INCREMENT BY 256 MINVALUE 256
    MAXVALUE 9007199254740991 CACHE 1;

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
    http_code integer NOT NULL, result_ref bytea NOT NULL)
    WITH (fillfactor = 70);
CREATE UNIQUE INDEX IF NOT EXISTS record_key ON pawl.record(key_hash) WHERE named;
CREATE UNIQUE INDEX IF NOT EXISTS record_once ON pawl.record(once_name)
    WHERE once_name IS NOT NULL;

-- Of every final record: what is kept of its response (headers NULL: nothing), and when that, or
-- the record, is to go. A migration may partition it by the day of sweep_at.
CREATE TABLE IF NOT EXISTS pawl.outcome(
    id bigint PRIMARY KEY, sweep_at bigint NOT NULL, packed smallint NOT NULL,
    headers bytea, body bytea);
CREATE INDEX IF NOT EXISTS outcome_sweep ON pawl.outcome(sweep_at);
ALTER TABLE pawl.outcome ALTER COLUMN body SET STORAGE EXTERNAL;

-- A key that leads to the record of another one (core/once.h).
CREATE TABLE IF NOT EXISTS pawl.bound(
    id bigint PRIMARY KEY, holder bigint NOT NULL, expires_at bigint NOT NULL,
    acknowledges smallint NOT NULL, key_hash bytea NOT NULL UNIQUE, key bytea NOT NULL,
    recipe bytea NOT NULL, payload_hash bytea NOT NULL, target_hash bytea NOT NULL);
CREATE INDEX IF NOT EXISTS bound_holder ON pawl.bound(holder);
CREATE INDEX IF NOT EXISTS bound_expires ON pawl.bound(expires_at);
CREATE INDEX IF NOT EXISTS bound_key ON pawl.bound(key);

-- Records that nobody holds and that are not final: released (status 1: at: they expire), unknown
-- (status 4; at: since).
CREATE TABLE IF NOT EXISTS pawl.unheld(
    id bigint PRIMARY KEY, status smallint NOT NULL, at bigint NOT NULL);
CREATE INDEX IF NOT EXISTS unheld_at ON pawl.unheld(status, at);

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

-- What functions take and return. Numbers are bigint: the client writes one kind.
DO $$ BEGIN
IF to_regtype('pawl.seen_name') IS NULL THEN
    -- grp: of a save; lock: the first 8 bytes of the hash; leads_to: where it led, 0: nowhere.
    CREATE TYPE pawl.seen_name AS (
        grp bigint, hash bytea, lock bigint, is_once bigint, is_claimed bigint, leads_to bigint);
    CREATE TYPE pawl.seen_row AS (grp bigint, id bigint, version bigint);
    -- status 0: it goes. once_name NULL: none is new.
    CREATE TYPE pawl.saved_row AS (grp bigint, is_new bigint, id bigint, once_name bytea,
    key_hash bytea, tenant bytea, rule bytea, key bytea, recipe bytea, fingerprint bytea,
    payload_hash bytea, target_hash bytea, created_at bigint, status bigint, token bigint,
    attempt_id bytea, attempts bigint, started_at bigint, lease_until bigint, lease_us bigint,
    owner bigint, probing bigint, windowed bigint, unknown bigint, settle_us bigint,
    quiet_at bigint, ttl_us bigint, least_us bigint, doubted_us bigint, tombstone_us bigint,
    doubt bigint, cause bigint, origin bytea, provisional bigint, once bytea,
    once_template bigint, once_ttl_us bigint, once_window bigint, once_replay bigint,
    once_until bigint, completed_at bigint, expires_at bigint, gone_at bigint, kept bigint,
    http_code bigint, result_ref bytea);
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
        id bigint, version bigint,
    key_hash bytea, tenant bytea, rule bytea, key bytea, recipe bytea, fingerprint bytea,
    payload_hash bytea, target_hash bytea, created_at bigint, status smallint, token bigint,
    attempt_id bytea, attempts bigint, started_at bigint, lease_until bigint, lease_us bigint,
    owner bigint, probing smallint, windowed smallint, unknown smallint, settle_us bigint,
    quiet_at bigint, ttl_us bigint, least_us bigint, doubted_us bigint, tombstone_us bigint,
    doubt smallint, cause integer, origin bytea, provisional smallint, once bytea,
    once_template bigint, once_ttl_us bigint, once_window smallint, once_replay smallint,
    once_until bigint, completed_at bigint, expires_at bigint, gone_at bigint, kept smallint,
    http_code integer, result_ref bytea);
END IF;
END $$;
-- What a batch calls: load, draw, save.

-- Store time in microseconds; `at`: as a test says, 0: as the clock says.
CREATE OR REPLACE FUNCTION pawl.clock(at bigint) RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT CASE WHEN at <> 0 THEN at
               ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint END $$;

-- In PL/pgSQL as all that a batch calls: PostgreSQL keeps no plan of a function in SQL.
CREATE OR REPLACE FUNCTION pawl.counts(OUT pending bigint, OUT complete bigint, OUT failed bigint,
    OUT unknown bigint, OUT released bigint, OUT forgets bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    SELECT coalesce(sum(t.pending), 0), coalesce(sum(t.complete), 0), coalesce(sum(t.failed), 0),
        coalesce(sum(t.unknown), 0), coalesce(sum(t.released), 0), coalesce(sum(t.forgets), 0)
    INTO pending, complete, failed, unknown, released, forgets FROM pawl.tally t;
END $$;

-- The plans of the functions below are made once, perhaps while tables are empty: each look-up is
-- written so that no plan reads a whole table (LATERAL .. OFFSET 0, = ANY), and the client sets
-- enable_seqscan = off.

-- What names lead to, a row for each find. hints: 0, or a row whose key may be that name; it is
-- found too. Where that row has its key still, no further one is looked for. It takes no lock.
CREATE OR REPLACE FUNCTION pawl.load(hashes bytea[], hints bigint[], onces bytea[], most bigint)
    RETURNS SETOF pawl.loaded LANGUAGE plpgsql STABLE ROWS 100 AS $$
BEGIN
RETURN QUERY
    SELECT n.name, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea, NULL::bytea,
        false, true, o.beat_at, c.packed, c.headers, c.body, r.id, r.version,
        r.key_hash, r.tenant, r.rule, r.key, r.recipe, r.fingerprint, r.payload_hash,
        r.target_hash, r.created_at, r.status, r.token, r.attempt_id, r.attempts, r.started_at,
        r.lease_until, r.lease_us, r.owner, r.probing, r.windowed, r.unknown, r.settle_us,
        r.quiet_at, r.ttl_us, r.least_us, r.doubted_us, r.tombstone_us, r.doubt, r.cause,
        r.origin, r.provisional, r.once, r.once_template, r.once_ttl_us, r.once_window,
        r.once_replay, r.once_until, r.completed_at, r.expires_at, r.gone_at, r.kept, r.http_code,
        r.result_ref
    FROM unnest(hashes, hints) WITH ORDINALITY n(hash, hint, name)
    CROSS JOIN LATERAL (SELECT * FROM pawl.record k
        WHERE k.key_hash = n.hash AND k.named OFFSET 0) r
    LEFT JOIN LATERAL (SELECT * FROM pawl.owner k
        WHERE k.incarnation = r.owner AND r.lease_until > 0 OFFSET 0) o ON true
    LEFT JOIN LATERAL (SELECT * FROM pawl.outcome k WHERE k.id = r.id AND r.kept = 1
        AND n.hint = 0 AND octet_length(k.headers) + octet_length(k.body) <= most
        OFFSET 0) c ON true
    WHERE n.hint = 0 OR NOT EXISTS (SELECT FROM pawl.record h
        WHERE h.id = n.hint AND h.key_hash = n.hash AND h.named);
IF EXISTS (SELECT FROM pawl.bound) THEN
    RETURN QUERY
    SELECT n.name, b.id, b.expires_at, b.acknowledges::bigint, b.recipe, b.payload_hash,
        b.target_hash, false, true, o.beat_at, c.packed, c.headers, c.body, r.id, r.version,
        r.key_hash, r.tenant, r.rule, r.key, r.recipe, r.fingerprint, r.payload_hash,
        r.target_hash, r.created_at, r.status, r.token, r.attempt_id, r.attempts, r.started_at,
        r.lease_until, r.lease_us, r.owner, r.probing, r.windowed, r.unknown, r.settle_us,
        r.quiet_at, r.ttl_us, r.least_us, r.doubted_us, r.tombstone_us, r.doubt, r.cause,
        r.origin, r.provisional, r.once, r.once_template, r.once_ttl_us, r.once_window,
        r.once_replay, r.once_until, r.completed_at, r.expires_at, r.gone_at, r.kept, r.http_code,
        r.result_ref
    FROM unnest(hashes) WITH ORDINALITY n(hash, name)
    CROSS JOIN LATERAL (SELECT * FROM pawl.bound k WHERE k.key_hash = n.hash OFFSET 0) b
    CROSS JOIN LATERAL (SELECT * FROM pawl.record k WHERE k.id = b.holder OFFSET 0) r
    LEFT JOIN LATERAL (SELECT * FROM pawl.owner k
        WHERE k.incarnation = r.owner AND r.lease_until > 0 OFFSET 0) o ON true
    LEFT JOIN LATERAL (SELECT * FROM pawl.outcome k WHERE k.id = r.id AND r.kept = 1
        AND octet_length(k.headers) + octet_length(k.body) <= most OFFSET 0) c ON true;
END IF;
IF EXISTS (SELECT FROM unnest(hints) h WHERE h <> 0) THEN
    RETURN QUERY
    SELECT n.name, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea, NULL::bytea,
        true, r.named, o.beat_at, NULL::smallint, NULL::bytea, NULL::bytea, r.id, r.version,
        r.key_hash, r.tenant, r.rule, r.key, r.recipe, r.fingerprint, r.payload_hash,
        r.target_hash, r.created_at, r.status, r.token, r.attempt_id, r.attempts, r.started_at,
        r.lease_until, r.lease_us, r.owner, r.probing, r.windowed, r.unknown, r.settle_us,
        r.quiet_at, r.ttl_us, r.least_us, r.doubted_us, r.tombstone_us, r.doubt, r.cause,
        r.origin, r.provisional, r.once, r.once_template, r.once_ttl_us, r.once_window,
        r.once_replay, r.once_until, r.completed_at, r.expires_at, r.gone_at, r.kept, r.http_code,
        r.result_ref
    FROM unnest(hashes, hints) WITH ORDINALITY n(hash, hint, name)
    CROSS JOIN LATERAL (SELECT * FROM pawl.record k
        WHERE k.id = n.hint AND k.key_hash = n.hash OFFSET 0) r
    LEFT JOIN LATERAL (SELECT * FROM pawl.owner k
        WHERE k.incarnation = r.owner AND r.lease_until > 0 OFFSET 0) o ON true;
END IF;
IF cardinality(onces) > 0 THEN
    RETURN QUERY
    SELECT cardinality(hashes) + n.name, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bytea,
        NULL::bytea, NULL::bytea, false, true, o.beat_at, c.packed, c.headers, c.body, r.id,
        r.version,
        r.key_hash, r.tenant, r.rule, r.key, r.recipe, r.fingerprint, r.payload_hash,
        r.target_hash, r.created_at, r.status, r.token, r.attempt_id, r.attempts, r.started_at,
        r.lease_until, r.lease_us, r.owner, r.probing, r.windowed, r.unknown, r.settle_us,
        r.quiet_at, r.ttl_us, r.least_us, r.doubted_us, r.tombstone_us, r.doubt, r.cause,
        r.origin, r.provisional, r.once, r.once_template, r.once_ttl_us, r.once_window,
        r.once_replay, r.once_until, r.completed_at, r.expires_at, r.gone_at, r.kept, r.http_code,
        r.result_ref
    FROM unnest(onces) WITH ORDINALITY n(hash, name)
    CROSS JOIN LATERAL (SELECT * FROM pawl.record k
        WHERE k.once_name = n.hash OFFSET 0) r
    LEFT JOIN LATERAL (SELECT * FROM pawl.owner k
        WHERE k.incarnation = r.owner AND r.lease_until > 0 OFFSET 0) o ON true
    LEFT JOIN LATERAL (SELECT * FROM pawl.outcome k WHERE k.id = r.id AND r.kept = 1
        AND octet_length(k.headers) + octet_length(k.body) <= most OFFSET 0) c ON true;
END IF;
END $$;

-- A block of tokens, and the time. Where the tokens lag behind the clock (a restore, a failover, a
-- quiet night) one drawer lifts them, and the others wait for it: an old one might come again.
CREATE OR REPLACE FUNCTION pawl.draw(at bigint, OUT now bigint, OUT token bigint,
    OUT pending bigint, OUT complete bigint, OUT failed bigint, OUT unknown bigint,
    OUT released bigint, OUT forgets bigint) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    clock bigint := pawl.clock(0);
BEGIN
    token := nextval('pawl.token');
    FOR i IN 1..1000 LOOP
        EXIT WHEN token + 1000000 >= clock;
        IF pg_try_advisory_xact_lock(hashtext('pawl token')) THEN
            token := nextval('pawl.token');
            IF token + 1000000 < clock THEN
                PERFORM setval('pawl.token', clock);
                token := nextval('pawl.token');
            END IF;
            EXIT;
        END IF;
        PERFORM pg_sleep(0.001);
        token := nextval('pawl.token');
    END LOOP;
    IF token + 1000000 < clock THEN
        RAISE EXCEPTION 'another session lifts the tokens, and does not end'
            USING ERRCODE = '55P03';
    END IF;
    now := pawl.clock(at);
    SELECT * INTO pending, complete, failed, unknown, released, forgets FROM pawl.counts();
END $$;

-- Saves the groups of a batch, each whole or not at all, and waits for nobody: what another
-- transaction holds is locked. results: a digit for each group, 0 saved, 1 conflict, 2 locked;
-- stale: one for each row brought, 1: it did not fit.
CREATE OR REPLACE FUNCTION pawl.save(self bigint, at bigint, new_version bigint, groups bigint,
    names pawl.seen_name[], seen pawl.seen_row[], saved pawl.saved_row[],
    outcomes pawl.saved_outcome[], bounds pawl.saved_bound[], unhelds pawl.saved_unheld[],
    brought pawl.saved_brought[], vals pawl.saved_value[], tallies pawl.saved_tally[],
    OUT results text, OUT stale text, OUT now bigint, OUT pending bigint, OUT complete bigint,
    OUT failed bigint, OUT unknown bigint, OUT released bigint, OUT forgets bigint)
    LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    locked bigint[];
    conflict bigint[];
    bad bigint[] := '{}';
    ids bigint[];
    gone bigint[];
    stales bigint[] := '{}';
    one record;
    fits boolean;
    n bigint;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    locked := ARRAY(SELECT n.grp FROM unnest(names) n WHERE NOT CASE n.is_claimed
        WHEN 1 THEN pg_try_advisory_xact_lock(n.lock)
        ELSE pg_try_advisory_xact_lock_shared(n.lock) END);
    ids := ARRAY(SELECT DISTINCT s.id FROM unnest(seen) s);
    IF cardinality(ids) > 0 THEN
        WITH held AS MATERIALIZED (
            SELECT r.id, r.version FROM pawl.record r
            WHERE r.id = ANY (ids) FOR UPDATE SKIP LOCKED),
        judged AS (
            SELECT s.grp, h.version IS NULL AND EXISTS
                (SELECT FROM pawl.record r WHERE r.id = s.id) AS is_locked
            FROM unnest(seen) s LEFT JOIN held h ON h.id = s.id
            WHERE h.version IS NULL OR (s.version <> 0 AND s.version <> h.version))
        SELECT locked || coalesce(array_agg(grp) FILTER (WHERE is_locked), '{}'),
            coalesce(array_agg(grp) FILTER (WHERE NOT is_locked), '{}')
        INTO locked, bad FROM judged;
    END IF;
    conflict := bad || ARRAY(SELECT n.grp FROM unnest(names) n
        WHERE n.leads_to >= 0 AND n.leads_to <> coalesce(
        CASE WHEN n.is_once = 1 THEN
            (SELECT r.id FROM pawl.record r WHERE r.once_name = n.hash)
        ELSE coalesce((SELECT r.id FROM pawl.record r WHERE r.key_hash = n.hash AND r.named),
            (SELECT b.id FROM pawl.bound b WHERE b.key_hash = n.hash)) END, 0));
    bad := conflict || locked;

    FOR one IN SELECT DISTINCT b.grp FROM unnest(brought) b WHERE b.grp <> ALL (bad) LOOP
        DECLARE
            row record;
            touched bigint;
        BEGIN
            FOR row IN SELECT b.* FROM unnest(brought) b WHERE b.grp = one.grp ORDER BY b.place
            LOOP
                EXECUTE row.statement
                USING ARRAY(SELECT v.value FROM unnest(vals) v WHERE v.place = row.place);
                GET DIAGNOSTICS touched = ROW_COUNT;
                IF touched = 0 AND row.may_miss = 0 THEN
                    stales := stales || row.place;
                    RAISE EXCEPTION 'stale' USING ERRCODE = 'PW099';
                END IF;
            END LOOP;
        EXCEPTION WHEN SQLSTATE 'PW099' THEN
            conflict := conflict || one.grp;
            bad := bad || one.grp;
        END;
    END LOOP;

    IF EXISTS (SELECT FROM unnest(names) n WHERE n.is_claimed = 1 AND n.leads_to <> 0) THEN
        UPDATE pawl.record r SET named = false, version = new_version
        WHERE r.named AND r.key_hash = ANY (ARRAY(SELECT n.hash FROM unnest(names) n
            WHERE n.is_claimed = 1 AND n.is_once = 0 AND n.grp <> ALL (bad)));
        UPDATE pawl.record r SET once_name = NULL, version = new_version
        WHERE r.once_name = ANY (ARRAY(SELECT n.hash FROM unnest(names) n
            WHERE n.is_claimed = 1 AND n.is_once = 1 AND n.grp <> ALL (bad)));
        DELETE FROM pawl.bound b WHERE b.key_hash = ANY (ARRAY(
            SELECT n.hash FROM unnest(names) n
            WHERE n.is_claimed = 1 AND n.is_once = 0 AND n.grp <> ALL (bad)));
    END IF;
    gone := ARRAY(SELECT w.id FROM unnest(saved) w WHERE w.status = 0 AND w.grp <> ALL (bad));
    IF cardinality(gone) > 0 THEN
        PERFORM pawl.remove(gone);
    END IF;

    INSERT INTO pawl.record(id, version, named, once_name,
        key_hash, tenant, rule, key, recipe, fingerprint, payload_hash, target_hash, created_at,
        status, token, attempt_id, attempts, started_at, lease_until, lease_us, owner, probing,
        windowed, unknown, settle_us, quiet_at, ttl_us, least_us, doubted_us, tombstone_us, doubt,
        cause, origin, provisional, once, once_template, once_ttl_us, once_window, once_replay,
        once_until, completed_at, expires_at, gone_at, kept, http_code, result_ref)
    SELECT w.id, new_version, true, w.once_name,
        w.key_hash, w.tenant, w.rule, w.key, w.recipe, w.fingerprint, w.payload_hash,
        w.target_hash, w.created_at, w.status, w.token, w.attempt_id, w.attempts, w.started_at,
        w.lease_until, w.lease_us, w.owner, w.probing, w.windowed, w.unknown, w.settle_us,
        w.quiet_at, w.ttl_us, w.least_us, w.doubted_us, w.tombstone_us, w.doubt, w.cause,
        w.origin, w.provisional, w.once, w.once_template, w.once_ttl_us, w.once_window,
        w.once_replay, w.once_until, w.completed_at, w.expires_at, w.gone_at, w.kept, w.http_code,
        w.result_ref
    FROM unnest(saved) w WHERE w.is_new = 1 AND w.grp <> ALL (bad);

    -- By the place of a row, which is locked. For id = ANY (ids) beside id = w.id an index tries
    -- all ids at each row; for id = w.id alone a plan made on an empty table reads a whole one.
    UPDATE pawl.record r SET version = new_version, once_name = coalesce(w.once_name, r.once_name),
        status = w.status, token = w.token, attempt_id = w.attempt_id, attempts = w.attempts,
        started_at = w.started_at, lease_until = w.lease_until, lease_us = w.lease_us,
        owner = w.owner, probing = w.probing, windowed = w.windowed, unknown = w.unknown,
        settle_us = w.settle_us, quiet_at = w.quiet_at, ttl_us = w.ttl_us, least_us = w.least_us,
        doubted_us = w.doubted_us, tombstone_us = w.tombstone_us, doubt = w.doubt,
        cause = w.cause, origin = w.origin, provisional = w.provisional, once = w.once,
        once_template = w.once_template, once_ttl_us = w.once_ttl_us, once_window = w.once_window,
        once_replay = w.once_replay, once_until = w.once_until, completed_at = w.completed_at,
        expires_at = w.expires_at, gone_at = w.gone_at, kept = w.kept, http_code = w.http_code,
        result_ref = w.result_ref
    FROM unnest(saved) w
    CROSS JOIN LATERAL (SELECT k.ctid AS place FROM pawl.record k WHERE k.id = w.id OFFSET 0) k
    WHERE r.ctid = k.place AND w.is_new = 0 AND w.status <> 0 AND w.grp <> ALL (bad);

    IF cardinality(outcomes) > 0 THEN
        INSERT INTO pawl.outcome AS c (id, sweep_at, packed, headers, body)
        SELECT o.id, o.sweep_at, o.packed, o.headers, o.body
        FROM unnest(outcomes) o WHERE o.is_whole = 1 AND o.grp <> ALL (bad)
        ON CONFLICT (id) DO UPDATE SET sweep_at = excluded.sweep_at, packed = excluded.packed,
            headers = excluded.headers, body = excluded.body;
        UPDATE pawl.outcome c SET sweep_at = o.sweep_at FROM unnest(outcomes) o
        WHERE c.id = ANY (ids) AND c.id = o.id AND o.is_whole = 0 AND o.grp <> ALL (bad);
    END IF;
    IF cardinality(bounds) > 0 THEN
        INSERT INTO pawl.bound(id, holder, expires_at, acknowledges, key_hash, key, recipe,
            payload_hash, target_hash)
        SELECT b.id, b.holder, b.expires_at, b.acknowledges, b.key_hash, b.key, b.recipe,
            b.payload_hash, b.target_hash FROM unnest(bounds) b WHERE b.grp <> ALL (bad);
    END IF;
    IF cardinality(unhelds) > 0 THEN
        DELETE FROM pawl.unheld u WHERE u.id = ANY (ARRAY(SELECT c.id FROM unnest(unhelds) c
            WHERE c.status = 0 AND c.grp <> ALL (bad)));
        INSERT INTO pawl.unheld(id, status, at)
        SELECT c.id, c.status, c.at FROM unnest(unhelds) c
        WHERE c.status <> 0 AND c.grp <> ALL (bad)
        ON CONFLICT (id) DO UPDATE SET status = excluded.status, at = excluded.at;
    END IF;
    PERFORM pawl.count(self, ARRAY(SELECT t FROM unnest(tallies) t WHERE t.grp <> ALL (bad)));

    SELECT coalesce(string_agg(CASE WHEN g = ANY (conflict) THEN '1' WHEN g = ANY (locked) THEN '2'
        ELSE '0' END, '' ORDER BY g), '') INTO results FROM generate_series(0, groups - 1) g;
    SELECT coalesce(string_agg(CASE WHEN g = ANY (stales) THEN '1' ELSE '0' END, '' ORDER BY g), '')
        INTO stale FROM generate_series(0, cardinality(brought) - 1) g;
    SELECT * INTO pending, complete, failed, unknown, released, forgets FROM pawl.counts();
    now := pawl.clock(at);
END $$;

-- Rows with all that leads to them.
CREATE OR REPLACE FUNCTION pawl.remove(gone bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF cardinality(gone) = 0 THEN
        RETURN;
    END IF;
    DELETE FROM pawl.bound WHERE holder = ANY (gone);
    DELETE FROM pawl.outcome WHERE id = ANY (gone);
    DELETE FROM pawl.unheld WHERE id = ANY (gone);
    DELETE FROM pawl.record WHERE id = ANY (gone);
END $$;

CREATE OR REPLACE FUNCTION pawl.count(self bigint, tallies pawl.saved_tally[]) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO pawl.tally AS t (by, owner, leases, lease_us, pending, complete, failed, unknown,
        released, forgets)
    SELECT self, c.owner, sum(c.leases), max(c.lease_us), sum(c.pending), sum(c.complete),
        sum(c.failed), sum(c.unknown), sum(c.released), sum(c.forgets)
    FROM unnest(tallies) c GROUP BY c.owner
    ON CONFLICT (by, owner) DO UPDATE SET leases = t.leases + excluded.leases,
        lease_us = greatest(t.lease_us, excluded.lease_us), pending = t.pending + excluded.pending,
        complete = t.complete + excluded.complete, failed = t.failed + excluded.failed,
        unknown = t.unknown + excluded.unknown, released = t.released + excluded.released,
        forgets = t.forgets + excluded.forgets;
END $$;
-- What is due beside operations: beat, sweep, gauges.

-- This process lives. Whether it holds leases.
CREATE OR REPLACE FUNCTION pawl.beat(self bigint, at bigint, OUT now bigint, OUT holds boolean)
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    now := pawl.clock(at);
    holds := (SELECT coalesce(sum(leases), 0) > 0 FROM pawl.tally WHERE owner = self);
    IF holds THEN
        INSERT INTO pawl.owner AS o (incarnation, beat_at) VALUES (self, now)
        ON CONFLICT (incarnation) DO UPDATE SET beat_at = greatest(o.beat_at, excluded.beat_at);
    END IF;
END $$;

-- Takes at most so many steps towards what is past its time: outcomes are dropped, then records,
-- released records, bound keys. Several processes may sweep together.
CREATE OR REPLACE FUNCTION pawl.sweep(self bigint, at bigint, most bigint, OUT steps bigint)
    LANGUAGE plpgsql VOLATILE SET lock_timeout = '20ms' AS $$
DECLARE
    t bigint := pawl.clock(at);
    due bigint[];
    gone bigint[];
    touched bigint;
BEGIN
    BEGIN
        due := ARRAY(SELECT c.id FROM pawl.outcome c WHERE c.sweep_at <= t ORDER BY c.sweep_at
            LIMIT most FOR UPDATE SKIP LOCKED);
        steps := cardinality(due);
        IF steps > 0 THEN
            gone := ARRAY(SELECT r.id FROM pawl.record r WHERE r.id = ANY (due)
                AND greatest(r.gone_at, r.once_until, r.completed_at + 60000000) <= t
                FOR UPDATE SKIP LOCKED);
            UPDATE pawl.outcome c SET headers = NULL, body = NULL,
                sweep_at = greatest(r.gone_at, r.once_until, r.completed_at + 60000000)
            FROM pawl.record r WHERE r.id = c.id AND c.id = ANY (due) AND r.id = ANY (due)
                AND greatest(r.gone_at, r.once_until, r.completed_at + 60000000) > t;
            PERFORM pawl.sweep_rows(self, gone);
            DELETE FROM pawl.outcome c WHERE c.id = ANY (due)
                AND (SELECT r.id FROM pawl.record r WHERE r.id = c.id) IS NULL;
        END IF;
        gone := ARRAY(SELECT r.id FROM pawl.record r WHERE r.id = ANY (ARRAY(SELECT u.id
                FROM pawl.unheld u WHERE u.status = 1 AND u.at <= t ORDER BY u.at
                LIMIT most - steps))
            AND r.status = 1 AND r.lease_until = 0 AND r.expires_at <= t FOR UPDATE SKIP LOCKED);
        steps := steps + cardinality(gone);
        PERFORM pawl.sweep_rows(self, gone);
        DELETE FROM pawl.bound b WHERE b.id = ANY (ARRAY(SELECT d.id FROM pawl.bound d
            WHERE d.expires_at <= t ORDER BY d.expires_at LIMIT most - steps
            FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS touched = ROW_COUNT;
        steps := steps + touched;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        steps := 0; -- what leads to a row is held by a stranger: another time
    END;
END $$;

CREATE OR REPLACE FUNCTION pawl.sweep_rows(self bigint, gone bigint[]) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF cardinality(gone) = 0 THEN
        RETURN;
    END IF;
    PERFORM pawl.count(self, ARRAY(SELECT ROW(0, 0, 0, 0, -(r.status = 1)::int,
        -(r.status = 2)::int, -(r.status = 3)::int, -(r.status = 4)::int, -(r.status = 1)::int,
        0)::pawl.saved_tally FROM pawl.record r WHERE r.id = ANY (gone)));
    PERFORM pawl.remove(gone);
END $$;

-- Gauges; and what dead processes counted becomes part of what nobody (0) did.
CREATE OR REPLACE FUNCTION pawl.gauge(self bigint, at bigint, most bigint, OUT stale bigint,
    OUT unknown_oldest bigint, OUT expired bigint, OUT expired_oldest bigint)
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    t bigint := pawl.clock(at);
BEGIN
    stale := (SELECT coalesce(sum(l.leases), 0) FROM (SELECT owner, sum(leases) AS leases,
            max(lease_us) AS lease_us FROM pawl.tally WHERE owner NOT IN (0, self) GROUP BY owner) l
        LEFT JOIN pawl.owner o ON o.incarnation = l.owner
        WHERE coalesce(o.beat_at, 0) + l.lease_us <= t);
    unknown_oldest := (SELECT coalesce(min(u.at), 0) FROM pawl.unheld u WHERE u.status = 4);
    SELECT count(*), coalesce(min(due), 0) INTO expired, expired_oldest FROM (
        (SELECT c.sweep_at AS due FROM pawl.outcome c WHERE c.sweep_at <= t ORDER BY 1 LIMIT most)
        UNION ALL
        (SELECT u.at FROM pawl.unheld u WHERE u.status = 1 AND u.at <= t ORDER BY 1 LIMIT most)
        LIMIT most) d;
    IF pg_try_advisory_xact_lock(hashtext('pawl fold')) THEN
        PERFORM pawl.fold(self, t - 60000000);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION pawl.fold(self bigint, silent_since bigint) RETURNS void LANGUAGE sql
    VOLATILE AS $$
    WITH dead AS (DELETE FROM pawl.tally t WHERE (t.by, t.owner) IN (SELECT d.by, d.owner
            FROM pawl.tally d WHERE d.by NOT IN (0, self) AND NOT EXISTS (SELECT FROM pawl.owner o
                WHERE o.incarnation = d.by AND o.beat_at > silent_since) FOR UPDATE SKIP LOCKED)
        RETURNING t.*)
    SELECT pawl.count(0, array_agg(ROW(0, d.owner, d.leases, d.lease_us, d.pending, d.complete,
        d.failed, d.unknown, d.released, d.forgets)::pawl.saved_tally))
    FROM dead d HAVING count(*) > 0;
    DELETE FROM pawl.tally t WHERE t.by = 0 AND t.owner <> 0 AND t.leases = 0;
    DELETE FROM pawl.owner o WHERE o.beat_at < silent_since AND o.incarnation <> self
        AND NOT EXISTS (SELECT FROM pawl.tally t WHERE t.owner = o.incarnation) $$;
-- For people and programs: the records, as idempotency_keys of an SQLite store shows them.
CREATE OR REPLACE VIEW pawl.idempotency_keys AS
    SELECT encode(r.key, 'escape') AS key, encode(r.payload_hash, 'hex') AS payload_hash,
        (ARRAY['pending', 'complete', 'failed', 'unknown'])[r.status] AS status,
        encode(r.result_ref, 'escape') AS result_ref, nullif(r.http_code, 0) AS http_code,
        to_timestamp(r.created_at / 1e6) AS created_at,
        CASE WHEN r.expires_at BETWEEN 1 AND 253402300799000000
            THEN to_timestamp(r.expires_at / 1e6) END AS expires_at,
        encode(r.tenant, 'escape') AS tenant, encode(r.rule, 'escape') AS rule,
        to_timestamp(nullif(r.completed_at, 0) / 1e6) AS completed_at,
        encode(r.target_hash, 'hex') AS target_hash, r.token, r.attempts
    FROM pawl.record r WHERE r.status IN (1, 4)
        OR r.gone_at > (extract(epoch FROM now()) * 1000000)::bigint;

INSERT INTO pawl.store(format, secret) VALUES (1, sha256(convert_to(gen_random_uuid()::text
    || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS pawl.audit(id bigint PRIMARY KEY, version bigint, "at" bigint NOT
    NULL, "actor" bytea NOT NULL, "act" bigint NOT NULL, "tenant" bytea NOT NULL, "rule" bytea
    NOT NULL, "key" bytea NOT NULL, "token" bigint NOT NULL, "from_status" bigint NOT NULL,
    "to_status" bigint NOT NULL, "http_code" bigint NOT NULL, "forced" bigint NOT NULL,
    "attempt_id" bytea NOT NULL);
CREATE INDEX IF NOT EXISTS audit_at ON pawl.audit("at") WHERE "at" < 9223372036854775807;
COMMIT;

UPDATE pawl.store SET secret = '\x6b4f179e6c08814e5acffbf3b240691c6e45107bd486dedf7d402529b8a52d47';
INSERT INTO pawl.outcome VALUES (1795379446727654, 9223372036854775807, 0,
    '\x436f6e74656e742d547970653a206170706c69636174696f6e2f6a736f6e0d0a43616368652d436f6e7'
    '4726f6c3a206e6f2d63616368650d0a4c6f636174696f6e3a202f726566756e64732f310d0a',
    '\x7b226964223a20317d');
INSERT INTO pawl.record VALUES (1795379446727654, 1795379446727910, true, NULL,
    '\xac8556c4f5490a433be8325dfa653566d517aa6306788eeb244a568e49a30315', '\x',
    '\x726566756e64732e637265617465', '\x6b31', '\x3220616c6c',
    '\x3d38695f356d6c43573451467341414148454b4f5362',
    '\xc2b11e657e12fd177359627ca89412018e2274d0873cfbfcf1fc50f685582e9e',
    '\xc8d6920a8339152f7e5a67e9c24828db4c69284fc67ab62c0ae2080431983908', 1795379446740711, 2,
    1795379446727654, '\x5580f238dab812755760379e74cc1e48', 1, 1795379446740711, 0, 30000000,
    3488954374242217439, 0, 0, 0, 30000000, 0, 9223372036854775807, 30000000,
    9223372036854775807, 0, 0, 0, '\x504f5354202f726566756e64730a3132372e302e302e310a0a0a', 0,
    '\x', 0, 0, 0, 0, 0, 1795379446750102, 9223372036854775807, 9223372036854775807, 1, 201,
    '\x2f726566756e64732f31');
INSERT INTO pawl.tally VALUES (3488954374242217439, 3488954374242217439, 0, 30000000, 0, 0, 0, 0,
    0, 0);
INSERT INTO pawl.tally VALUES (3488954374242217439, 0, 0, 0, 0, 1, 0, 0, 0, 0);
SELECT pg_catalog.setval('pawl.token', 1795379446728165, true);
