-- SPDX-License-Identifier: Apache-2.0
-- pawl.begin: what it brings, what it comes to on a record (core/record.c), and what it writes.

DO $$ BEGIN
IF to_regtype('pawl.asked') IS NULL THEN
    -- hash, once_hash, as_key: names of the key, of the once value, of that value as a key.
    -- payload, target: '' not brought. once: '' none.
    CREATE TYPE pawl.asked AS (hash bytea, tenant bytea, rule bytea, key bytea, payload bytea,
        target bytea, ttl_us bigint, least_us bigint, tombstone_us bigint, duplicate text,
        once bytea, once_hash bytea, as_key bytea, once_ttl_us bigint);
END IF;
IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pawl.asked'::regclass
        AND a.attname = 'held') THEN
    -- The lock of its name, where nothing led anywhere; NULL: nobody looked.
    ALTER TYPE pawl.asked ADD ATTRIBUTE held boolean;
END IF;
END $$;

-- ---- decisions ----

-- No key leads to it any more. What no pawl wrote is never gone: it is in doubt until a person
-- acts.
CREATE OR REPLACE FUNCTION pawl.key_is_gone(r pawl.record, now bigint) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN r.id IS NULL OR (((r.status IN (@COMPLETE@, @FAILED@) AND now >= r.gone_at)
        OR (r.status = @PENDING@ AND r.lease_until = 0 AND now >= r.expires_at))
        AND pawl.is_sound(r));
END $$;

CREATE OR REPLACE FUNCTION pawl.is_gone(r pawl.record, now bigint) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN pawl.key_is_gone(r, now)
        AND (r.id IS NULL OR r.status <> @COMPLETE@ OR now >= r.once_until);
END $$;

CREATE OR REPLACE FUNCTION pawl.body_until(r pawl.record) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN r.once_replay = 1 THEN greatest(r.expires_at, r.once_until)
                ELSE r.expires_at END;
END $$;

CREATE OR REPLACE FUNCTION pawl.sweep_at(r pawl.record) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    row_until bigint := greatest(pawl.after(r.completed_at, @ROW_LEAST_US@), r.gone_at,
        r.once_until);
BEGIN
    RETURN CASE WHEN r.kept = 1 THEN least(pawl.body_until(r), row_until) ELSE row_until END;
END $$;

-- When its lease ends, by what its owner has said of itself, too; 0: it has none.
CREATE OR REPLACE FUNCTION pawl.lease_end(r pawl.record) RETURNS bigint
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF r.lease_until = 0 THEN
        RETURN 0;
    END IF;
    RETURN greatest(r.lease_until, (SELECT pawl.after(o.beat_at, r.lease_us) FROM pawl.owner o
        WHERE o.incarnation = r.owner AND pawl.is_beat(o.beat_at, pawl.clock(0))));
END $$;

CREATE OR REPLACE FUNCTION pawl.differs(a bytea, b bytea) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT a <> '' AND b <> '' AND a <> b $$;

-- Of hashes: refuses to compare what was made by two recipes.
CREATE OR REPLACE FUNCTION pawl.is_other_request(asked pawl.asked, recipe bytea, payload bytea,
    target bytea) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT pawl.differs(payload, asked.payload) THEN
        RETURN pawl.differs(target, asked.target);
    ELSIF recipe <> '2 all' THEN
        RAISE EXCEPTION
            'rule % selects what of a payload counts, and its records cannot be compared',
            encode(asked.rule, 'escape') USING ERRCODE = '22023',
            HINT = 'Give the gateway''s rule `payload: all`, or bring no payload_hash.';
    END IF;
    RETURN true;
END $$;

-- In a stricter isolation nobody sees a beat that came after the snapshot: a lease that has ended
-- since may live.
CREATE OR REPLACE FUNCTION pawl.refuse_unseen_beat(r pawl.record, lease_end bigint) RETURNS void
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF r.owner > 0 AND current_setting('transaction_isolation') <> 'read committed'
            AND lease_end > (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint THEN
        RAISE EXCEPTION 'the lease of key % of rule % ended after this transaction began',
            encode(r.key, 'escape'), encode(r.rule, 'escape') USING ERRCODE = '40001',
            HINT = 'Repeat the transaction: whether its owner lives is not seen in this one.';
    END IF;
END $$;

-- What the begin comes to on a record that is not gone, and what is to be written for it: NULL,
-- acquire, repeat (after a doubt), freeze, doubt (it becomes unknown).
CREATE OR REPLACE FUNCTION pawl.decide(r pawl.record, now bigint, OUT verdict text, OUT act text)
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    lease_end bigint := pawl.lease_end(r);
    repeats boolean := r.unknown IN (@UNKNOWN_RETRY@, @UNKNOWN_PARTICIPANT@);
BEGIN
    IF NOT pawl.is_sound(r) THEN
        verdict := 'outcome_unknown';
        RETURN;
    ELSIF lease_end BETWEEN 1 AND now THEN
        PERFORM pawl.refuse_unseen_beat(r, lease_end);
    END IF;
    IF lease_end > 0 AND r.owner = -(pg_current_xact_id_if_assigned()::text::bigint) THEN
        verdict := 'begun_here';
    ELSIF lease_end > now THEN
        verdict := 'in_progress';
    ELSIF r.status IN (@COMPLETE@, @FAILED@) THEN
        act := CASE WHEN r.provisional = 1 THEN 'freeze' END;
        verdict := CASE WHEN now >= r.expires_at THEN 'result_expired'
                        WHEN r.kept = 1 THEN 'replay' ELSE 'result_not_kept' END;
    ELSIF r.status = @UNKNOWN@ THEN
        verdict := 'outcome_unknown';
    ELSIF repeats OR (lease_end = 0 AND r.doubt = 0) THEN
        act := CASE WHEN lease_end > 0 THEN 'repeat' ELSE 'acquire' END;
        verdict := 'proceed';
    ELSE
        act := 'doubt';
        verdict := 'outcome_unknown';
    END IF;
END $$;

-- ---- writes ----

CREATE OR REPLACE FUNCTION pawl.end_of(since bigint, span bigint, r pawl.record, now bigint)
    RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN greatest(pawl.after(since, span), pawl.after(now, r.least_us), r.quiet_at);
END $$;

-- Times of a record that becomes final, or is frozen, now.
CREATE OR REPLACE FUNCTION pawl.set_times(INOUT r pawl.record, now bigint)
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    r.expires_at := pawl.end_of(CASE WHEN r.windowed = 1 THEN r.created_at ELSE now END,
        r.ttl_us, r, now);
    r.gone_at := pawl.after(r.expires_at, r.tombstone_us);
    IF r.status = @COMPLETE@ AND r.once_ttl_us > 0 THEN
        r.once_until := pawl.end_of(CASE WHEN r.once_window = 1 THEN r.created_at ELSE now END,
            r.once_ttl_us, r, now);
    END IF;
END $$;

-- Counts a record that was `was` and is `r`, and the lease of a process that ended with it.
CREATE OR REPLACE FUNCTION pawl.count_change(was pawl.record, r pawl.record) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- What this transaction made was never counted.
    old smallint := CASE WHEN was.owner < 0 AND was.lease_until > 0 AND was.token = was.id THEN 0
                         ELSE was.status END;
    was_released boolean := old = @PENDING@ AND was.lease_until = 0;
BEGIN
    INSERT INTO pawl.tally_entry(pending, complete, failed, unknown, released)
        VALUES ((r.status = @PENDING@)::int - (old = @PENDING@)::int,
            (r.status = @COMPLETE@)::int - (old = @COMPLETE@)::int,
            (r.status = @FAILED@)::int - (old = @FAILED@)::int,
            (r.status = @UNKNOWN@)::int - (old = @UNKNOWN@)::int,
            (r.status = @PENDING@ AND r.lease_until = 0)::int - was_released::int);
    IF was.lease_until > 0 AND was.owner > 0 AND (r.lease_until = 0 OR r.owner <> was.owner) THEN
        INSERT INTO pawl.tally_entry(owner, leases) VALUES (was.owner, -1);
    END IF;
END $$;

-- Keeps a record, which is locked, as it is now: its row, what is kept beside it, the counts.
CREATE OR REPLACE FUNCTION pawl.keep(was pawl.record, r pawl.record) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE pawl.record k SET version = r.version, named = r.named, once_name = r.once_name,
        hold_us = r.hold_us, @STATE_SET(r)@
    WHERE k.id = r.id;
    IF r.status = @UNKNOWN@ OR (r.status = @PENDING@ AND r.lease_until = 0) THEN
        INSERT INTO pawl.unheld(id, status, at) VALUES (r.id, r.status,
            CASE WHEN r.status = @PENDING@ THEN r.expires_at ELSE r.quiet_at - r.settle_us END)
            ON CONFLICT (id) DO UPDATE SET status = excluded.status, at = excluded.at;
    ELSIF was.status = @UNKNOWN@ OR (was.status = @PENDING@ AND was.lease_until = 0) THEN
        DELETE FROM pawl.unheld u WHERE u.id = r.id;
    END IF;
    IF was.status IN (@COMPLETE@, @FAILED@) THEN
        UPDATE pawl.outcome c SET sweep_at = pawl.sweep_at(r) WHERE c.id = r.id;
    END IF;
    PERFORM pawl.count_change(was, r);
END $$;

-- A record of no further use, with all that leads to it.
CREATE OR REPLACE FUNCTION pawl.end_life(r pawl.record) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    none pawl.record;
BEGIN
    none.status := @ABSENT@;
    none.lease_until := 0;
    PERFORM pawl.count_change(r, none), pawl.remove(ARRAY[r.id]);
END $$;

-- Nobody sends since then, except a participant, of whom it does not matter; a probe has no effect.
CREATE OR REPLACE FUNCTION pawl.quiet_after(r pawl.record, since bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN r.probing = 1 OR r.unknown = @UNKNOWN_PARTICIPANT@ THEN r.quiet_at
                ELSE greatest(r.quiet_at, pawl.after(since, r.settle_us)) END;
END $$;

-- What pawl.decide said, on a record that is locked. It is owned by this transaction, if acquired.
CREATE OR REPLACE FUNCTION pawl.act(INOUT r pawl.record, asked pawl.asked, act text, now bigint)
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    was pawl.record := r;
    token bigint := pawl.new_token(now);
    lapsed boolean := r.lease_until > 0;
BEGIN
    r.version := token;
    IF lapsed AND r.status = @PENDING@ THEN
        r.cause := CASE WHEN r.probing = 1 THEN r.cause ELSE @CAUSE_LAPSED@ END;
        r.quiet_at := pawl.quiet_after(r, pawl.lease_end(r));
    END IF;
    IF act = 'freeze' THEN
        r.provisional := 0;
        r.lease_until := 0;
        r := pawl.set_times(r, now);
    ELSIF act = 'doubt' THEN
        IF NOT lapsed THEN
            r.quiet_at := pawl.quiet_after(r, CASE WHEN r.quiet_at > 0 THEN r.quiet_at - r.settle_us
                                                  ELSE now END);
        END IF;
        r.status := @UNKNOWN@;
        r.lease_until := 0;
        r.expires_at := 0;
        r.probing := 0;
    ELSE
        IF token <= r.token THEN
            RAISE EXCEPTION 'the token % is not above %', token, r.token USING ERRCODE = '40001';
        END IF;
        r.doubt := CASE WHEN act = 'repeat' THEN 1 ELSE r.doubt END;
        r.status := @PENDING@;
        r.token := token;
        r.attempt_id := pawl.attempt_id(token);
        r.attempts := r.attempts + 1;
        r.started_at := now;
        r.lease_us := 1000000;
        r.lease_until := now + 1000000;
        r.expires_at := 0;
        r.owner := -(pg_current_xact_id()::text::bigint);
        r.probing := 0;
        r.unknown := @UNKNOWN_PARTICIPANT@;
        r.hold_us := 0;
        r.ttl_us := asked.ttl_us;
        r.least_us := asked.least_us;
        r.doubted_us := asked.ttl_us;
        r.tombstone_us := asked.tombstone_us;
        r.windowed := 0;
        r.once_ttl_us := asked.once_ttl_us;
        r.once_window := 0;
        r.once_replay := (asked.duplicate = 'replay')::int * (asked.once <> '')::int;
        r.origin := '';
    END IF;
    PERFORM pawl.keep(was, r);
END $$;

-- A begin's own, that no other begin has.
CREATE OR REPLACE FUNCTION pawl.attempt_id(token bigint) RETURNS bytea LANGUAGE sql STABLE AS
$$ SELECT int8send(pg_current_xact_id()::text::bigint) || int8send(token) $$;

-- A new record of this transaction: of `asked`, and of `n`: its token, the time, the number of the
-- transaction, whether the once value replays.
@@ NEW_LIFE
INSERT INTO pawl.record(id, version, named, once_name,
    @RECORD@)
SELECT n.token, n.token, true, asked.once_hash, asked.hash, asked.tenant, asked.rule,
    asked.key, '2 all', '', asked.payload, asked.target, n.now, @PENDING@, n.token,
    int8send(n.xid) || int8send(n.token), 1, n.now, n.now + 1000000, 1000000, -n.xid, 0, 0,
    @UNKNOWN_PARTICIPANT@, 0, 0, asked.ttl_us, asked.least_us, asked.ttl_us,
    asked.tombstone_us, 0, 0, '', 0, asked.once, 0, asked.once_ttl_us, 0, n.once_replay, 0, 0, 0,
    0, 0, 0, ''
@@

-- NULL: somebody was faster.
CREATE OR REPLACE FUNCTION pawl.start_life(asked pawl.asked, now bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    token bigint := pawl.new_token(now);
BEGIN
    @NEW_LIFE@
    FROM (SELECT token, now, pg_current_xact_id()::text::bigint,
        (asked.once <> '' AND asked.duplicate = 'replay')::int) n(token, now, xid, once_replay)
    ON CONFLICT DO NOTHING;
    RETURN CASE WHEN FOUND THEN token END;
END $$;

-- The row is locked as it was read. False: it changed, and nobody else holds it: look again. NULL:
-- another transaction held it for longer than this one waits.
CREATE OR REPLACE FUNCTION pawl.hold_row(r pawl.record, wait interval) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own text := current_setting('lock_timeout');
    span interval := least(wait, nullif(own, '0')::interval);
BEGIN
    PERFORM FROM pawl.record k WHERE k.id = r.id AND k.version = r.version FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN true;
    ELSIF span < '1ms' THEN
        RETURN CASE WHEN EXISTS (SELECT FROM pawl.record k WHERE k.id = r.id
            AND k.version = r.version) THEN NULL ELSE false END;
    END IF;
    PERFORM set_config('lock_timeout', coalesce(ceil(extract(epoch FROM span) * 1000), 0)::text,
        true);
    PERFORM FROM pawl.record k WHERE k.id = r.id FOR UPDATE;
    PERFORM set_config('lock_timeout', own, true);
    RETURN false;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END $$;

-- What leads a key elsewhere goes; `r`: its own record, which is gone, or none.
CREATE OR REPLACE FUNCTION pawl.free_key(hash bytea, r pawl.record, now bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM pawl.bound b WHERE b.key_hash = hash;
    IF r.key_hash IS DISTINCT FROM hash THEN
        RETURN;
    ELSIF pawl.is_gone(r, now) THEN
        PERFORM pawl.end_life(r);
    ELSE
        UPDATE pawl.record k SET named = false, version = nextval('pawl.token') WHERE k.id = r.id;
    END IF;
END $$;

-- Writes what was decided, under the locks of all names and of `r` (id NULL: none leads anywhere).
-- decision NULL: somebody was faster, look again. id: of the record that it ended on.
CREATE OR REPLACE FUNCTION pawl.write(asked pawl.asked, r pawl.record, act text, wait interval,
    now bigint, INOUT decision text, OUT id bigint, OUT by_once boolean)
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    taken text;
BEGIN
    id := r.id;
    by_once := false;
    IF act = 'start' AND asked.once <> '' THEN
        SELECT o.decision, o.id, true INTO decision, id, by_once
            FROM pawl.begin_once(asked, r, wait, now) o;
    ELSIF act = 'start' THEN
        PERFORM pawl.free_key(asked.hash, r, now);
        id := pawl.start_life(asked, now);
        decision := CASE WHEN id IS NOT NULL THEN 'proceed' END;
    ELSIF decision = 'proceed' AND asked.once <> '' AND (r.once = '' OR r.once_template <> 0) THEN
        SELECT o.decision, o.id, o.by_once INTO decision, id, by_once
            FROM pawl.take_once(asked, r, act, wait, now, decision) o;
    ELSE
        PERFORM pawl.act(r, asked, act, now);
    END IF;
END $$;

-- ---- what is told ----

CREATE OR REPLACE FUNCTION pawl.text_of(bytes bytea) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN encode(bytes, 'escape');
END $$;

-- Lines `Name: value` as an object; a name that comes several times has an array.
CREATE OR REPLACE FUNCTION pawl.headers_of(lines bytea) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT jsonb_object_agg(n.name, CASE WHEN n.times = 1 THEN n.vals -> 0 ELSE n.vals END)
        FROM (SELECT l.line[1] AS name, count(*) AS times,
                jsonb_agg(l.line[2] ORDER BY l.at) AS vals
            FROM (SELECT regexp_match(t.text, '^([^:]+): ?(.*)$') AS line, t.at
                FROM regexp_split_to_table(pawl.text_of(lines), chr(13) || chr(10))
                    WITH ORDINALITY t(text, at) WHERE t.text <> '') l
            GROUP BY l.line[1]) n);
END $$;

-- What becomes of a duplicate of what is done: NULL: it is replayed.
CREATE OR REPLACE FUNCTION pawl.refusal(asked pawl.asked, status smallint, by_once boolean,
    acknowledges boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN status <> @COMPLETE@ THEN NULL WHEN acknowledges THEN 'ack'
        WHEN by_once OR asked.once = '' THEN nullif(asked.duplicate, 'replay') END;
END $$;

-- ---- begin ----

-- What a begin brings, as it is compared and kept.
CREATE OR REPLACE FUNCTION pawl.ask(tenant text, rule text, key text, payload_hash text,
    target_hash text, ttl interval, tombstone interval, wait interval, duplicate text, once text,
    once_ttl interval) RETURNS pawl.asked LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    asked pawl.asked;
    place bytea;
    value bytea;
BEGIN
    IF pawl.name_error(tenant, rule, key) IS NOT NULL THEN
        PERFORM pawl.check_names(tenant, rule, key);
    ELSIF ttl <= '0' OR once_ttl <= '0' THEN
        RAISE EXCEPTION 'ttl and once_ttl must be more than 0' USING ERRCODE = '22023';
    ELSIF duplicate IS NULL OR duplicate NOT IN ('replay', 'reject', 'ack') THEN
        RAISE EXCEPTION 'duplicate must be replay, reject or ack' USING ERRCODE = '22023';
    END IF;
    -- All at once: each expression of a function costs something anew in each transaction.
    SELECT pawl.hmac(s.inner_pad, s.outer_pad, pawl.sized(n.tenant) || pawl.sized(n.rule)
            || pawl.sized(n.key)), n.tenant, n.rule, n.key,
        coalesce(pawl.digest(payload_hash, 'payload_hash'), ''),
        coalesce(pawl.digest(target_hash, 'target_hash'), ''), pawl.microseconds(ttl, 'ttl'),
        pawl.microseconds(coalesce(greatest(wait, '0'), '0'), 'wait'),
        pawl.microseconds(coalesce(tombstone, '0'), 'tombstone'), duplicate, '', NULL, NULL, 0
    INTO asked FROM pawl.store s, (SELECT convert_to(coalesce(tenant, ''), 'UTF8') AS tenant,
        convert_to(rule, 'UTF8') AS rule, convert_to(key, 'UTF8') AS key OFFSET 0) n
    WHERE s.single AND pawl.is_open(s.format, s.frozen);
    IF NOT FOUND THEN
        PERFORM pawl.refuse_closed();
    ELSIF once IS NOT NULL THEN
        PERFORM pawl.check_names(tenant, rule, once);
        place := pawl.sized(asked.tenant) || pawl.sized(asked.rule);
        asked.once := convert_to(once, 'UTF8');
        value := pawl.sized(asked.once);
        SELECT pawl.hmac(s.inner_pad, s.outer_pad, pawl.sized('once') || place || value),
            pawl.hmac(s.inner_pad, s.outer_pad, place || value)
            INTO asked.once_hash, asked.as_key FROM pawl.store s WHERE s.single;
        asked.once_ttl_us := pawl.microseconds(coalesce(once_ttl, ttl), 'once_ttl');
    END IF;
    RETURN asked;
END $$;

-- A begin of a key that may lead somewhere.
CREATE OR REPLACE FUNCTION pawl.begin_any(asked pawl.asked, wait interval, OUT decision text,
    OUT token bigint, OUT http_code integer, OUT headers jsonb, OUT body bytea,
    OUT result_ref text, OUT first_at timestamptz, OUT lease_left interval)
    LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    locks bigint[] := ARRAY[pawl.lock_number(asked.hash)];
    r pawl.record;
    bound pawl.bound;
    kept pawl.outcome;
    now bigint;
    act text;
    held boolean := coalesce(asked.held, false);
    by_once boolean;
    row_held boolean;
    refused text;
BEGIN
    IF asked.once <> '' THEN
        locks := ARRAY(SELECT DISTINCT pawl.lock_number(n.hash)
            FROM unnest(ARRAY[asked.hash, asked.once_hash, asked.as_key]) n(hash) ORDER BY 1);
    ELSIF asked.held IS NULL AND current_setting('transaction_isolation') = 'read committed' THEN
        held := (SELECT k.id FROM pawl.record k WHERE k.key_hash = asked.hash AND k.named) IS NULL
            AND pg_try_advisory_xact_lock(locks[1]);
    END IF;
    FOR try IN 1..100 LOOP
        SELECT k.* INTO r FROM pawl.record k WHERE k.key_hash = asked.hash AND k.named;
        bound := NULL;
        IF r.id IS NULL THEN
            SELECT b.* INTO bound FROM pawl.bound b WHERE b.key_hash = asked.hash;
            IF bound.id IS NOT NULL THEN
                SELECT k.* INTO r FROM pawl.record k WHERE k.id = bound.holder;
            END IF;
        END IF;
        now := pawl.clock(0);
        by_once := false;
        decision := 'mismatch';
        act := NULL;
        IF r.id IS NULL OR pawl.key_is_gone(r, now) OR bound.expires_at BETWEEN 0 AND now
        THEN
            act := 'start';
        ELSIF coalesce(bound.expires_at, 0) >= 0
                AND NOT pawl.is_other_request(asked, coalesce(bound.recipe, r.recipe),
                coalesce(bound.payload_hash, r.payload_hash),
                coalesce(bound.target_hash, r.target_hash))
                AND NOT (r.once_template = 0 AND pawl.differs(r.once, asked.once)) THEN
            SELECT d.verdict, d.act INTO decision, act FROM pawl.decide(r, now) d;
        END IF;
        IF act IS NOT NULL AND NOT held THEN
            decision := pawl.hold(locks, asked.hash, wait);
            held := decision = 'held';
            CONTINUE WHEN decision <> 'busy';
            decision := 'in_progress';
            r := NULL;
        ELSIF act IS NOT NULL THEN
            row_held := r.id IS NULL OR pawl.hold_row(r, wait);
            CONTINUE WHEN NOT row_held;
            IF row_held IS NULL THEN
                decision := 'in_progress';
            ELSE
                SELECT w.decision, w.id, w.by_once INTO decision, r.id, by_once
                    FROM pawl.write(asked, r, act, wait, now, decision) w;
                CONTINUE WHEN decision IS NULL;
                IF act <> 'start' OR by_once THEN
                    SELECT k.* INTO r FROM pawl.record k WHERE k.id = r.id;
                END IF;
            END IF;
        END IF;
        refused := CASE WHEN decision IN ('replay', 'result_not_kept')
                OR (decision = 'result_expired' AND (by_once OR bound.acknowledges = 1))
            THEN pawl.refusal(asked, r.status, by_once, bound.acknowledges = 1) END;
        EXIT WHEN decision <> 'replay' OR refused IS NOT NULL;
        -- It may have been forgotten meanwhile.
        SELECT c.* INTO kept FROM pawl.record k JOIN pawl.outcome c ON c.id = k.id
            WHERE k.id = r.id AND k.version = r.version;
        EXIT WHEN kept.id IS NOT NULL;
    END LOOP;
    IF decision IS NULL OR decision IN ('held', 'free') THEN
        RAISE EXCEPTION 'the record changes faster than it can be read' USING ERRCODE = '40001';
    END IF;
    IF decision = 'proceed' THEN
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            PERFORM pawl.refuse_unseen(asked, now);
        END IF;
        token := CASE WHEN act = 'start' AND NOT by_once THEN r.id ELSE r.token END;
        first_at := to_timestamp(CASE WHEN token = r.id THEN now ELSE r.created_at END / 1e6);
        RETURN;
    ELSIF decision = 'replay' AND refused IS NULL AND coalesce(kept.packed, 1) = 1 THEN
        decision := 'result_not_kept'; -- by a gateway that packed it: no function here unpacks it
    END IF;
    decision := CASE refused WHEN 'reject' THEN 'duplicate' WHEN 'ack' THEN 'replay'
                             ELSE decision END;
    INSERT INTO pawl.tally_entry(rule, decision) VALUES (asked.rule, decision);
    first_at := to_timestamp(r.created_at / 1e6);
    IF decision = 'in_progress' AND r.lease_until > 0 THEN
        lease_left := make_interval(secs => greatest(pawl.lease_end(r) - now, 0) / 1e6);
    ELSIF refused = 'ack' THEN
        http_code := 204;
    ELSIF decision IN ('replay', 'duplicate', 'result_expired', 'result_not_kept') THEN
        http_code := r.http_code;
    END IF;
    IF decision IN ('replay', 'duplicate') AND refused IS DISTINCT FROM 'ack'
            AND now < pawl.body_until(r) THEN
        result_ref := nullif(pawl.text_of(r.result_ref), '');
        headers := pawl.headers_of(kept.headers);
        body := CASE WHEN kept.id IS NOT NULL THEN coalesce(kept.body, '') END;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION pawl.begin(tenant text, rule text, key text,
    payload_hash text DEFAULT NULL, ttl interval DEFAULT '24 hours', once text DEFAULT NULL,
    once_ttl interval DEFAULT NULL, duplicate text DEFAULT 'replay',
    tombstone interval DEFAULT '0', wait interval DEFAULT '10s', target_hash text DEFAULT NULL,
    OUT decision text, OUT token bigint, OUT http_code integer, OUT headers jsonb,
    OUT body bytea, OUT result_ref text, OUT first_at timestamptz, OUT lease_left interval)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    asked pawl.asked;
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    -- What most begins are: of a key that leads nowhere, with nothing wrong in what they bring. Two
    -- statements, as none sees what came after it began: the look that counts is behind the lock,
    -- the one before it keeps a replay from holding a name. Whatever is not so goes the long way.
    SELECT h.hash, h.tenant, h.rule, h.key, h.payload, '', h.ttl_us, h.least_us, 0, duplicate, '',
        NULL, NULL, 0,
        (SELECT k.id FROM pawl.record k WHERE k.key_hash = h.hash AND k.named) IS NULL
            AND pg_try_advisory_xact_lock(pawl.lock_number(h.hash))
    INTO asked FROM (
        SELECT pawl.hmac(n.inner_pad, n.outer_pad, pawl.sized(n.tenant) || pawl.sized(n.rule)
            || pawl.sized(n.key)) AS hash, n.*
        FROM (
            SELECT s.inner_pad, s.outer_pad,
                convert_to(coalesce(tenant, ''), 'SQL_ASCII') AS tenant,
                convert_to(rule, 'SQL_ASCII') AS rule, convert_to(key, 'SQL_ASCII') AS key,
                CASE WHEN payload_hash IS NULL THEN '' WHEN pawl.is_digest(payload_hash)
                    THEN decode(payload_hash, 'hex') END AS payload,
                pawl.common_span(ttl, '1 microsecond', @NEVER@) AS ttl_us,
                pawl.common_span(wait, '0', 0) AS least_us
            FROM pawl.store s WHERE s.single AND pawl.is_open(s.format, s.frozen) OFFSET 0) n
        WHERE current_setting('transaction_isolation') = 'read committed'
            AND once IS NULL AND once_ttl IS NULL AND target_hash IS NULL AND tombstone = '0'
            AND duplicate IN ('replay', 'reject', 'ack')
            AND n.key <> '' AND octet_length(n.key) <= 255
            AND n.rule <> '' AND octet_length(n.rule) <= 100 AND octet_length(n.tenant) <= 1024
            AND pawl.is_printable(n.tenant || n.key) AND pawl.is_word(n.rule)
            AND starts_with(tenant, 'credential:') IS NOT TRUE AND n.payload IS NOT NULL
            AND n.ttl_us IS NOT NULL AND n.least_us IS NOT NULL OFFSET 0) h;
    IF asked.held THEN
        @NEW_LIFE@
        FROM (SELECT CASE WHEN d.drawn + 1000000 >= d.now THEN d.drawn - 255
                ELSE pawl.new_token(d.now) END AS token, d.now,
                pg_current_xact_id()::text::bigint AS xid, 0 AS once_replay
            FROM (SELECT nextval('pawl.token') AS drawn, pawl.clock(0) AS now OFFSET 0) d
            OFFSET 0) n
        WHERE (SELECT b.id FROM pawl.bound b WHERE b.key_hash = asked.hash) IS NULL
        ON CONFLICT DO NOTHING
        RETURNING 'proceed', id, to_timestamp(created_at / 1e6) INTO decision, token, first_at;
        IF FOUND THEN
            RETURN;
        END IF;
    ELSIF asked.hash IS NULL THEN
        asked := pawl.ask(tenant, rule, key, payload_hash, target_hash, ttl, tombstone, wait,
            duplicate, once, once_ttl);
    END IF;
    SELECT b.* INTO decision, token, http_code, headers, body, result_ref, first_at, lease_left
        FROM pawl.begin_any(asked, wait) b;
END $$;
