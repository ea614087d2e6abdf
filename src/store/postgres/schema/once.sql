-- SPDX-License-Identifier: Apache-2.0
-- A begin whose key leads nowhere, but that brings a once value: core/once.c, by its table.

-- The record that holds the value; or one from before there was such a value, whose key it is.
CREATE OR REPLACE FUNCTION pawl.find_holder(asked pawl.asked, now bigint) RETURNS pawl.record
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r pawl.record;
BEGIN
    SELECT k.* INTO r FROM pawl.record k WHERE k.once_name = asked.once_hash;
    IF NOT pawl.is_gone(r, now) THEN
        RETURN r;
    END IF;
    SELECT k.* INTO r FROM pawl.record k WHERE k.key_hash = asked.as_key AND k.named
        AND k.once = '';
    RETURN CASE WHEN NOT pawl.key_is_gone(r, now) THEN r END;
END $$;

-- What it comes to, and what is to be written: what pawl.decide says (the key is then bound to the
-- holder), take, replace (the holder ends), bind (after a freeze, where it is provisional).
CREATE OR REPLACE FUNCTION pawl.decide_once(holder pawl.record, asked pawl.asked, now bigint,
    OUT verdict text, OUT act text) LANGUAGE plpgsql STABLE AS $$
DECLARE
    lease_end bigint;
BEGIN
    IF pawl.is_gone(holder, now) OR (holder.status = @FAILED@ AND pawl.is_sound(holder)) THEN
        act := 'take';
        RETURN;
    END IF;
    lease_end := pawl.lease_end(holder);
    SELECT d.verdict, d.act INTO verdict, act FROM pawl.decide(holder, now) d;
    IF verdict IN ('begun_here', 'in_progress') OR NOT pawl.is_sound(holder) THEN
        RETURN;
    ELSIF holder.status = @COMPLETE@ THEN
        IF now >= (CASE WHEN holder.once_ttl_us > 0 THEN holder.once_until
                ELSE holder.gone_at END) THEN
            act := 'take';
        ELSIF asked.duplicate = 'reject' THEN
            verdict := 'duplicate';
            act := NULL;
        ELSIF pawl.is_other_request(asked, holder.recipe, holder.payload_hash,
                holder.target_hash) THEN
            verdict := 'mismatch';
            act := NULL;
        ELSE
            verdict := CASE WHEN now >= pawl.body_until(holder) THEN 'result_expired'
                            WHEN holder.kept = 1 THEN 'replay' ELSE 'result_not_kept' END;
            act := 'bind';
        END IF;
    ELSIF holder.status = @PENDING@ AND lease_end = 0 AND holder.doubt = 0 THEN
        act := 'replace';
    ELSIF holder.unknown IN (@UNKNOWN_RETRY@, @UNKNOWN_PARTICIPANT@)
            AND pawl.is_other_request(asked, holder.recipe, holder.payload_hash, holder.target_hash)
    THEN
        verdict := 'outcome_unknown';
        act := NULL;
    END IF;
END $$;

-- The value leads to the record from now on.
CREATE OR REPLACE FUNCTION pawl.hold_value(INOUT r pawl.record, asked pawl.asked)
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE pawl.record k SET once_name = NULL, version = nextval('pawl.token')
        WHERE k.once_name = asked.once_hash AND k.id <> r.id;
    r.once_name := asked.once_hash;
    r.once := asked.once;
    r.once_template := 0;
END $$;

-- The key leads to the holder from now on; settled: for as long as a record of its own would live,
-- else as long as the holder.
CREATE OR REPLACE FUNCTION pawl.bind_key(asked pawl.asked, own pawl.record, holder bigint,
    settled boolean, now bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pawl.free_key(asked.hash, own, now);
    INSERT INTO pawl.bound(id, holder, expires_at, acknowledges, key_hash, key, recipe,
        payload_hash, target_hash)
    VALUES (pawl.new_token(now), holder, CASE WHEN settled THEN pawl.after(now,
            pawl.after(asked.ttl_us, asked.tombstone_us)) ELSE @NEVER@ END,
        (settled AND asked.duplicate = 'ack')::int, asked.hash, asked.key, '2 all', asked.payload,
        asked.target);
END $$;

-- The holder's response is told under another key: it lasts as long as that one asks for.
CREATE OR REPLACE FUNCTION pawl.lengthen(holder pawl.record, asked pawl.asked, now bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r pawl.record := holder;
BEGIN
    r.version := pawl.new_token(now);
    IF holder.provisional = 1 THEN
        r.provisional := 0;
        r.lease_until := 0;
        r := pawl.set_times(r, now);
    END IF;
    r.kept := CASE WHEN now < pawl.body_until(r) THEN r.kept ELSE 0 END;
    r.expires_at := greatest(r.expires_at, pawl.after(now, asked.ttl_us));
    r.gone_at := greatest(r.gone_at, pawl.after(r.expires_at, asked.tombstone_us));
    PERFORM pawl.keep(holder, r);
END $$;

-- decision NULL: look again.
CREATE OR REPLACE FUNCTION pawl.begin_once(asked pawl.asked, own pawl.record, wait interval,
    now bigint, OUT decision text, OUT id bigint) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    holder pawl.record := pawl.find_holder(asked, now);
    act text;
    row_held boolean := true;
BEGIN
    id := holder.id;
    SELECT d.verdict, d.act INTO decision, act FROM pawl.decide_once(holder, asked, now) d;
    IF act IS NOT NULL AND holder.id IS NOT NULL THEN
        row_held := pawl.hold_row(holder, wait);
    END IF;
    IF row_held IS NOT TRUE THEN
        decision := CASE WHEN row_held IS NULL THEN 'in_progress' END;
    ELSIF act IN ('take', 'replace') THEN
        IF act = 'replace' THEN
            PERFORM pawl.end_life(holder);
        END IF;
        PERFORM pawl.free_key(asked.hash, own, now);
        UPDATE pawl.record k SET once_name = NULL, version = nextval('pawl.token')
            WHERE k.once_name = asked.once_hash;
        id := pawl.start_life(asked, now);
        decision := CASE WHEN id IS NOT NULL THEN 'proceed' END;
    ELSIF act = 'bind' THEN
        PERFORM pawl.bind_key(asked, own, holder.id, true, now),
            pawl.lengthen(holder, asked, now);
    ELSIF act = 'doubt' THEN
        PERFORM pawl.act(holder, asked, act, now);
    ELSIF act IS NOT NULL THEN
        PERFORM pawl.bind_key(asked, own, holder.id, false, now);
        IF holder.once = '' THEN
            holder := pawl.hold_value(holder, asked);
        END IF;
        PERFORM pawl.act(holder, asked, act, now);
    END IF;
END $$;

-- A record that never had this value is about to proceed: the value must be free for it.
CREATE OR REPLACE FUNCTION pawl.take_once(asked pawl.asked, own pawl.record, act text,
    wait interval, now bigint, INOUT decision text, OUT id bigint, OUT by_once boolean)
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    holder pawl.record := pawl.find_holder(asked, now);
    verdict text;
    to_do text := 'take';
    row_held boolean := true;
BEGIN
    IF holder.id <> own.id THEN
        SELECT d.verdict, d.act INTO verdict, to_do FROM pawl.decide_once(holder, asked, now) d;
        row_held := pawl.hold_row(holder, wait);
    END IF;
    id := own.id;
    by_once := false;
    IF row_held IS NOT TRUE THEN
        decision := CASE WHEN row_held IS NULL THEN 'in_progress' END;
    ELSIF to_do IN ('take', 'replace') THEN
        IF to_do = 'replace' THEN
            PERFORM pawl.end_life(holder);
        END IF;
        PERFORM pawl.act(pawl.hold_value(own, asked), asked, act, now);
    ELSE
        id := holder.id;
        by_once := true;
        decision := CASE WHEN to_do IS NULL THEN verdict ELSE 'outcome_unknown' END;
    END IF;
END $$;

-- Before it proceeds in a stricter isolation: what leads to a record may have come after its
-- snapshot, which no look-up finds. A unique index does: 40001. Their locks are held, so that
-- nobody waits for a row that is there for this moment.
CREATE OR REPLACE FUNCTION pawl.refuse_unseen(asked pawl.asked, now bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    unseen pawl.asked := asked;
    number bigint := pawl.new_token(now);
BEGIN
    INSERT INTO pawl.bound(id, holder, expires_at, acknowledges, key_hash, key, recipe,
        payload_hash, target_hash) VALUES (number, 0, 0, 0, asked.hash, '', '', '', '')
        ON CONFLICT DO NOTHING;
    DELETE FROM pawl.bound b WHERE b.id = number;
    IF asked.once <> '' THEN
        unseen.hash := asked.as_key;
        unseen.once_hash := NULL;
        number := pawl.start_life(unseen, now);
        DELETE FROM pawl.record k WHERE k.id = number;
    END IF;
END $$;
