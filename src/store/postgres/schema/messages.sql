-- SPDX-License-Identifier: Apache-2.0
-- Built on records, or beside them: natural keys, state machines, and the events that a transaction
-- publishes or receives. Each is one call, and commits with the effect.

-- ---- natural keys ----

-- The first claim of a key keeps its row for ever; each later one gets that row.
CREATE OR REPLACE FUNCTION pawl.claim(tenant text, rule text, key text, "row" jsonb,
    OUT claimed boolean, OUT existing jsonb, OUT at timestamptz)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    begun record;
BEGIN
    SELECT * INTO begun FROM pawl.begin(tenant, rule, key, ttl => NULL,
        wait => NULL) b;
    claimed := begun.decision = 'proceed';
    at := begun.first_at;
    IF claimed THEN
        PERFORM pawl.complete(begun.token, 200, coalesce("row", 'null')::text);
    ELSIF begun.decision = 'replay' THEN
        existing := convert_from(begun.body, 'UTF8')::jsonb;
    ELSE
        RAISE EXCEPTION 'key % of rule % is no claim: %', key, rule, begun.decision
            USING ERRCODE = '55P03';
    END IF;
END $$;

-- ---- state machines ----

-- What an action makes of a state; from_state '': of what is not there yet. Its owner fills it in.
CREATE TABLE IF NOT EXISTS pawl.machine(
    name text, from_state text, action text, to_state text NOT NULL CHECK (to_state <> ''),
    PRIMARY KEY (name, from_state, action));
CREATE TABLE IF NOT EXISTS pawl.state(
    tenant text, machine text, id text, state text NOT NULL, seq bigint, at timestamptz NOT NULL,
    PRIMARY KEY (tenant, machine, id));
-- What each action was told, so that it is told the same again.
CREATE TABLE IF NOT EXISTS pawl.transition_told(
    tenant text, machine text, id text, action_id text, action text NOT NULL,
    decision text NOT NULL, from_state text NOT NULL, to_state text NOT NULL,
    at timestamptz NOT NULL, PRIMARY KEY (tenant, machine, id, action_id));

-- moved; conflict: no such edge leaves from_state; stale: the event is not newer than the state;
-- mismatch: the action id is another action's. replayed: it was told before.
CREATE OR REPLACE FUNCTION pawl.transition(tenant text, machine text, id text, action text,
    action_id text, seq bigint DEFAULT NULL, OUT decision text, OUT replayed boolean,
    OUT from_state text, OUT to_state text, OUT at timestamptz)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    place text := coalesce(tenant, '');
    now pawl.state;
    told pawl.transition_told;
BEGIN
    PERFORM pawl.refuse_closed(), pawl.check_names(tenant, machine, id),
        pawl.check_names(tenant, machine, action_id);
    IF NOT EXISTS (SELECT FROM pawl.machine m WHERE m.name = machine AND m.action = action) THEN
        RAISE EXCEPTION 'the machine % has no action %', machine, coalesce(action, 'NULL')
            USING ERRCODE = '22023', HINT = 'Declare it: INSERT INTO pawl.machine.';
    END IF;
    -- One at a time: a state that is not there yet is held like one that is.
    INSERT INTO pawl.state AS s (tenant, machine, id, state, at)
        VALUES (place, machine, id, '', clock_timestamp()) ON CONFLICT DO NOTHING;
    SELECT s.* INTO now FROM pawl.state s
        WHERE s.tenant = place AND s.machine = machine AND s.id = id FOR UPDATE;
    SELECT t.* INTO told FROM pawl.transition_told t WHERE t.tenant = place
        AND t.machine = machine AND t.id = id AND t.action_id = action_id;
    replayed := FOUND;
    IF replayed THEN
        decision := CASE WHEN told.action = action THEN told.decision ELSE 'mismatch' END;
        from_state := told.from_state;
        to_state := told.to_state;
        at := told.at;
        RETURN;
    END IF;
    from_state := now.state;
    to_state := now.state;
    at := clock_timestamp();
    decision := 'conflict';
    IF seq <= now.seq THEN
        decision := 'stale';
    ELSE
        SELECT 'moved', m.to_state INTO decision, to_state FROM pawl.machine m
            WHERE m.name = machine AND m.from_state = from_state AND m.action = action;
        decision := coalesce(decision, 'conflict');
        to_state := coalesce(to_state, from_state);
    END IF;
    IF decision = 'moved' THEN
        UPDATE pawl.state s SET state = to_state, seq = coalesce(seq, s.seq), at = at
            WHERE s.tenant = place AND s.machine = machine AND s.id = id;
    END IF;
    INSERT INTO pawl.transition_told AS t
        VALUES (place, machine, id, action_id, action, decision, from_state, to_state, at)
        ON CONFLICT DO NOTHING; -- under an older snapshot alone, where it is 40001
END $$;

-- ---- events ----

-- pawl.event is a table of the courier (store/tables/events.h): its texts are bytes. pawl.inbox
-- has the events that applications handle in their own transactions (pawl.receive); those that the
-- gateway received are in pawl.receipt, and both are in the view pawl.inbox_events
-- (store/tables/receipts.c).
CREATE TABLE IF NOT EXISTS pawl.inbox(
    source text, event_id text, payload_hash bytea NOT NULL, recipe text NOT NULL,
    received_at bigint NOT NULL, processed_at bigint, result text, task_id bigint, gone_at bigint,
    PRIMARY KEY (source, event_id));
DO $$ BEGIN
IF to_regclass('pawl.inbox_gone') IS NULL THEN
    CREATE INDEX inbox_gone ON pawl.inbox(gone_at) WHERE gone_at IS NOT NULL;
END IF;
END $$;

-- An event is delivered once this transaction has committed. stored; replayed: the same type and
-- data of that tenant were published under this id before. Others are an error: 23505.
CREATE OR REPLACE FUNCTION pawl.publish(type text, event_id text, data jsonb,
    tenant text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    now bigint := pawl.clock(0);
    token bigint := pawl.new_token(now);
    same boolean;
BEGIN
    PERFORM pawl.refuse_closed();
    IF coalesce(length(event_id), 0) NOT BETWEEN 1 AND 255
            OR event_id COLLATE "C" ~ '[^A-Za-z0-9_-]' THEN
        RAISE EXCEPTION 'the event id must be 1 to 255 of A-Z a-z 0-9 _ -' USING ERRCODE = 'PW004';
    ELSIF type IS NULL OR type COLLATE "C" !~ '^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$'
            OR length(type) > 255 THEN
        RAISE EXCEPTION 'the type must be words of A-Z a-z 0-9 _ joined by dots, at most 255'
            USING ERRCODE = '22023';
    ELSIF octet_length(data::text) > 1048576 THEN
        RAISE EXCEPTION 'the data is larger than 1 MiB' USING ERRCODE = '22023';
    END IF;
    PERFORM pawl.check_names(tenant, 'events', event_id);
    INSERT INTO pawl.event AS e (id, version, event_id, tenant, type, time, data, created_at,
            is_new, fanned_at, gone_at)
        VALUES (token, token, convert_to(event_id, 'UTF8'), convert_to(coalesce(tenant, ''),
            'UTF8'), convert_to(type, 'UTF8'), convert_to(to_char(to_timestamp(now / 1e6)
            AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'UTF8'),
            convert_to(coalesce(data, 'null')::text, 'UTF8'), now, 1, 0, @NEVER@)
        ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN 'stored';
    END IF;
    SELECT e.type = convert_to(type, 'UTF8')
            AND e.tenant = convert_to(coalesce(tenant, ''), 'UTF8')
            AND convert_from(e.data, 'UTF8')::jsonb = coalesce(data, 'null')
        INTO same FROM pawl.event e WHERE e.event_id = convert_to(event_id, 'UTF8');
    IF same THEN
        RETURN 'replayed';
    END IF;
    RAISE EXCEPTION 'the event % was published with another type, tenant or other data', event_id
        USING ERRCODE = '23505';
END $$;

-- An event that this transaction handles itself: proceed, replay (it was handled), mismatch. The id
-- is known for `keep` (NULL: for ever), then it is new.
CREATE OR REPLACE FUNCTION pawl.receive(source text, event_id text, payload_hash text DEFAULT NULL,
    keep interval DEFAULT '7 days', OUT decision text, OUT received_at timestamptz,
    OUT result text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    now bigint := pawl.clock(0);
    hash bytea := coalesce(pawl.digest(payload_hash, 'payload_hash'), '');
    until bigint := pawl.after(now, pawl.microseconds(keep, 'keep'));
    met pawl.inbox;
BEGIN
    PERFORM pawl.refuse_closed(), pawl.check_names(NULL, source, event_id);
    IF keep <= '0' THEN
        RAISE EXCEPTION 'keep must be more than 0' USING ERRCODE = '22023';
    END IF;
    DELETE FROM pawl.inbox i WHERE i.source = source AND i.event_id = event_id AND i.gone_at <= now;
    INSERT INTO pawl.inbox AS i (source, event_id, payload_hash, recipe, received_at, processed_at,
            result, gone_at)
        VALUES (source, event_id, hash, '2 all', now, now, 'ok',
            nullif(until, @NEVER@)) ON CONFLICT DO NOTHING;
    decision := CASE WHEN FOUND THEN 'proceed' END;
    SELECT i.* INTO met FROM pawl.inbox i WHERE i.source = source AND i.event_id = event_id;
    received_at := to_timestamp(met.received_at / 1e6);
    result := met.result;
    decision := coalesce(decision,
        CASE WHEN pawl.differs(met.payload_hash, hash) THEN 'mismatch' ELSE 'replay' END);
END $$;

CREATE OR REPLACE FUNCTION pawl.sweep_messages(at bigint, most bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    steps bigint;
BEGIN
    DELETE FROM pawl.inbox i WHERE (i.source, i.event_id) IN (SELECT d.source, d.event_id
        FROM pawl.inbox d WHERE d.gone_at <= pawl.clock(at) LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS steps = ROW_COUNT;
    RETURN steps;
END $$;
