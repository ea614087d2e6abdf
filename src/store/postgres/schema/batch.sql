-- SPDX-License-Identifier: Apache-2.0
-- What a batch calls: load, draw, save. In PL/pgSQL, as PostgreSQL keeps no plan of a function in
-- SQL; and no statement in them is begun for nothing, as each costs as much as some rows.
DROP FUNCTION IF EXISTS pawl.counts();

-- Store time in microseconds; `at`: as a test says, 0: as the clock says.
CREATE OR REPLACE FUNCTION pawl.clock(at bigint) RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT CASE WHEN at <> 0 THEN at
               ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint END $$;

-- The plans of the functions below are made once, perhaps while tables are empty: each look-up is
-- written so that no plan reads a whole table (LATERAL .. OFFSET 0, = ANY, a subquery that IS NULL:
-- for EXISTS it may hash the table), and the client sets enable_seqscan = off.

-- One that is a day ahead of the clock is none.
CREATE OR REPLACE FUNCTION pawl.is_beat(beat_at bigint, now bigint) RETURNS boolean LANGUAGE sql
    IMMUTABLE AS $$ SELECT beat_at BETWEEN 1 AND now + @BEAT_AHEAD_MOST_US@ $$;

-- Whether a pawl may have written it: record_is_sound, and what fits its fields (load.c).
CREATE OR REPLACE FUNCTION pawl.is_sound(r pawl.record) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    final boolean := r.status IN (@COMPLETE@, @FAILED@);
    leased boolean := r.lease_until <> 0;
BEGIN
    RETURN r.status BETWEEN @PENDING@ AND @UNKNOWN@ AND r.token BETWEEN 1 AND @TIME_MOST@
        AND r.attempts > 0 AND r.unknown BETWEEN @UNKNOWN_HOLD@ AND @UNKNOWN_PARTICIPANT@
        AND r.cause >= 0 AND r.http_code BETWEEN 0 AND 999
        AND least(r.lease_us, r.hold_us, r.settle_us, r.quiet_at, r.ttl_us, r.least_us,
            r.doubted_us, r.tombstone_us, r.once_ttl_us, r.once_until, r.created_at, r.started_at,
            r.lease_until, r.completed_at, r.expires_at, r.gone_at) >= 0
        AND least(r.probing, r.windowed, r.doubt, r.provisional, r.once_window, r.once_replay,
            r.kept) >= 0
        AND greatest(r.probing, r.windowed, r.doubt, r.provisional, r.once_window, r.once_replay,
            r.kept) <= 1
        AND (NOT leased OR r.status = @PENDING@ OR r.provisional = 1)
        AND (r.provisional = 0 OR (final AND leased AND r.expires_at = @NEVER@
            AND r.gone_at = @NEVER@))
        AND (r.probing = 0 OR (leased AND r.doubt = 1))
        AND (NOT final OR (r.gone_at >= r.expires_at AND r.doubt = 0))
        AND (r.status <> @UNKNOWN@ OR r.unknown NOT IN (@UNKNOWN_RETRY@, @UNKNOWN_PARTICIPANT@))
        AND r.asking BETWEEN 0 AND r.token
        AND (r.once <> '' OR (r.once_ttl_us = 0 AND r.once_until = 0))
        AND octet_length(r.key_hash) = 32 AND octet_length(r.payload_hash) IN (0, 32)
        AND octet_length(r.target_hash) IN (0, 32) AND octet_length(r.attempt_id) IN (0, 16);
END $$;

-- What names lead to, a row for each find. hints: 0, or a row whose key may be that name; it is
-- found too. Where that row has its key still, no further one is looked for. It takes no lock.
CREATE OR REPLACE FUNCTION pawl.load(hashes bytea[], hints bigint[], onces bytea[], most bigint)
    RETURNS SETOF pawl.loaded LANGUAGE plpgsql STABLE ROWS 100 AS $$
BEGIN
RETURN QUERY
    SELECT n.name, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea, NULL::bytea,
        false, true, o.beat_at, c.packed, c.headers, c.body, r.id, r.version, @READ(r)@
    FROM unnest(hashes, hints) WITH ORDINALITY n(hash, hint, name)
    CROSS JOIN LATERAL (SELECT * FROM pawl.record k
        WHERE k.key_hash = n.hash AND k.named OFFSET 0) r
    LEFT JOIN LATERAL (SELECT * FROM pawl.owner k
        WHERE k.incarnation = r.owner AND r.lease_until > 0 OFFSET 0) o ON true
    LEFT JOIN LATERAL (SELECT * FROM pawl.outcome k WHERE k.id = r.id AND r.kept = 1
        AND n.hint = 0 AND octet_length(k.headers) + octet_length(k.body) <= most
        OFFSET 0) c ON true
    WHERE n.hint = 0 OR (SELECT h.id FROM pawl.record h
        WHERE h.id = n.hint AND h.key_hash = n.hash AND h.named) IS NULL;
IF EXISTS (SELECT FROM pawl.bound) THEN
    RETURN QUERY
    SELECT n.name, b.id, b.expires_at, b.acknowledges::bigint, b.recipe, b.payload_hash,
        b.target_hash, false, true, o.beat_at, c.packed, c.headers, c.body, r.id, r.version,
        @READ(r)@
    FROM unnest(hashes) WITH ORDINALITY n(hash, name)
    CROSS JOIN LATERAL (SELECT * FROM pawl.bound k WHERE k.key_hash = n.hash OFFSET 0) b
    CROSS JOIN LATERAL (SELECT * FROM pawl.record k WHERE k.id = b.holder OFFSET 0) r
    LEFT JOIN LATERAL (SELECT * FROM pawl.owner k
        WHERE k.incarnation = r.owner AND r.lease_until > 0 OFFSET 0) o ON true
    LEFT JOIN LATERAL (SELECT * FROM pawl.outcome k WHERE k.id = r.id AND r.kept = 1
        AND octet_length(k.headers) + octet_length(k.body) <= most OFFSET 0) c ON true;
END IF;
IF 0 <> ANY (hints) THEN
    RETURN QUERY
    SELECT n.name, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea, NULL::bytea,
        true, r.named, o.beat_at, NULL::smallint, NULL::bytea, NULL::bytea, r.id, r.version,
        @READ(r)@
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
        r.version, @READ(r)@
    FROM unnest(onces) WITH ORDINALITY n(hash, name)
    CROSS JOIN LATERAL (SELECT * FROM pawl.record k
        WHERE k.once_name = n.hash OFFSET 0) r
    LEFT JOIN LATERAL (SELECT * FROM pawl.owner k
        WHERE k.incarnation = r.owner AND r.lease_until > 0 OFFSET 0) o ON true
    LEFT JOIN LATERAL (SELECT * FROM pawl.outcome k WHERE k.id = r.id AND r.kept = 1
        AND octet_length(k.headers) + octet_length(k.body) <= most OFFSET 0) c ON true;
END IF;
END $$;

-- A connection may lead to another store than it did: one that was made anew, or a pooler's. Keys
-- hash to something else there, and nothing of what this process knows is true of it.
DROP FUNCTION IF EXISTS pawl.refuse_other(bytea);
CREATE OR REPLACE FUNCTION pawl.refuse_other() RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE EXCEPTION 'another store, or a newer format of it, is there now'
        USING ERRCODE = 'PW006';
END $$;

-- Whether the store is another one than a pawl knows that sends this; NULL: one that sends none. In
-- a later format it is another one to all that know this format: a pawl of that one has to send
-- what is computed here, and none of these writes to what it does not know.
CREATE OR REPLACE FUNCTION pawl.is_other(s pawl.store, identity bytea) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
SELECT sha256(CASE s.format WHEN 2 THEN s.secret ELSE s.secret || int4send(s.format) END)
    <> coalesce(identity, sha256(s.secret)) $$;

-- What src/store/tables/terms.h lists, in that order.
CREATE OR REPLACE FUNCTION pawl.terms(s pawl.store) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS
$$ SELECT ARRAY[s.frozen::integer, s.frozen_at, s.epoch, s.roster, s.went_back_at,
    s.restored_since, s.restored_at, s.restored_until] $$;

-- Nobody changes them until this transaction ends; `sets`: nobody but this one, and nobody reads
-- them to write by them. A table's lock, of a statement that changes no row: nothing is written.
-- False: other sessions hold them. Ends wait in the same batch, so it waits for a moment only.
CREATE OR REPLACE FUNCTION pawl.hold_terms(sets boolean) RETURNS boolean LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    usual text := current_setting('lock_timeout');
BEGIN
    IF sets THEN
        PERFORM set_config('lock_timeout', '50ms', true);
        LOCK TABLE pawl.store IN SHARE ROW EXCLUSIVE MODE;
    ELSE
        PERFORM set_config('lock_timeout', '20ms', true);
        UPDATE pawl.store SET single = true WHERE false;
    END IF;
    PERFORM set_config('lock_timeout', usual, true);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- A key that a claim found absent may have had a life between the claim's load and its save, whose
-- tokens were above the claim's. So what goes is counted before it has gone, and a claim, whose
-- load read that count before it drew its tokens, compares it behind its locks
-- (docs/model/tokens.pml). Only young tokens are counted, as sweeps would disturb all claims; a
-- claim is to be as young.
CREATE OR REPLACE FUNCTION pawl.is_young(token bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS
$$
BEGIN
    RETURN token > (SELECT t.last_value FROM pawl.token t) - 60000000;
END $$;

CREATE OR REPLACE FUNCTION pawl.removals() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT r.last_value + r.is_called::integer FROM pawl.removal r);
END $$;

-- newest: of what goes.
CREATE OR REPLACE FUNCTION pawl.note_removal(newest bigint) RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF pawl.is_young(newest) THEN
        PERFORM nextval('pawl.removal');
    END IF;
END $$;

-- Numbers of the tokens that are drawn from now on are above that one. What waits is the lock of
-- pawl.new_token; others may draw beside it, so that it is lifted by as many as they cannot draw.
CREATE OR REPLACE FUNCTION pawl.lift_tokens(above bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS
$$
BEGIN
    IF (SELECT t.last_value FROM pawl.token t) > above + 1000000 THEN
        RETURN;
    END IF;
    LOCK TABLE pawl.store IN SHARE UPDATE EXCLUSIVE MODE;
    IF nextval('pawl.token') <= above + 1000000 THEN
        PERFORM setval('pawl.token', above + 2000000);
    END IF;
END $$;

-- Where the row of a mark is not what its gateway saw committed, the store lost what that one had
-- acknowledged. The time from which on something may be missing goes along: when the row was
-- written, or, without one, when the newest record was begun that is older than the mark.
CREATE OR REPLACE FUNCTION pawl.went_back(mark bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE AS
$$
DECLARE
    since bigint := (SELECT m.at FROM pawl.mark m WHERE m.by = mark[1]);
BEGIN
    IF since IS NULL THEN
        since := coalesce((SELECT r.created_at FROM pawl.record r WHERE r.id < mark[6]
            ORDER BY r.id DESC LIMIT 1), 0);
        since := greatest(since, (SELECT max(m.at) FROM pawl.mark m WHERE m.at < mark[7]));
    END IF;
    RAISE EXCEPTION 'the store lacks what it had acknowledged'
        USING ERRCODE = 'PW011', DETAIL = since::text, TABLE = 'mark',
            CONSTRAINT = mark[1]::text; -- whose it is
END $$;

-- mark: whose it is (0: nobody's, only tokens are lifted), the lowest and the highest value that
-- may be there, the one that is from now on, above which token those that are drawn from now on
-- are, the first token and the first time of its gateway, whether the row may be missing; and of a
-- mark whose place it takes, since somebody holds that: whose it is (0: nobody's), its lowest and
-- highest value; and of each other session of its gateway: whose it is, its lowest value, the first
-- token and the first time.
CREATE OR REPLACE FUNCTION pawl.keep_mark(mark bigint[], at bigint) RETURNS void LANGUAGE plpgsql
    VOLATILE AS $$
DECLARE
    t bigint := pawl.clock(at);
BEGIN
    IF mark[5] > 0 THEN
        PERFORM pawl.lift_tokens(mark[5]);
    END IF;
    IF mark[1] = 0 THEN
        RETURN;
    END IF;
    IF cardinality(mark) > 8 THEN
        PERFORM pawl.see_other_marks(mark);
    END IF;
    UPDATE pawl.mark m SET value = mark[4], at = greatest(m.at, t)
    WHERE m.by = mark[1] AND m.value BETWEEN mark[2] AND mark[3];
    IF NOT FOUND AND mark[8] = 1 THEN
        INSERT INTO pawl.mark (by, value, at) VALUES (mark[1], mark[4], t)
        ON CONFLICT (by) DO NOTHING;
    END IF;
    IF NOT FOUND THEN
        PERFORM pawl.went_back(mark);
    END IF;
END $$;

-- The same for a transaction that only waits for the commit of an earlier one: what its row says.
CREATE OR REPLACE FUNCTION pawl.see_mark(mark bigint[]) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
$$
DECLARE
    found bigint := (SELECT m.value FROM pawl.mark m WHERE m.by = mark[1]);
BEGIN
    IF cardinality(mark) > 8 THEN
        PERFORM pawl.see_other_marks(mark);
    END IF;
    IF found NOT BETWEEN mark[2] AND mark[3] OR (found IS NULL AND mark[8] <> 1) THEN
        PERFORM pawl.went_back(mark);
    END IF;
    RETURN coalesce(found, 0);
END $$;

-- Those behind the eighth number of a mark.
CREATE OR REPLACE FUNCTION pawl.see_other_marks(mark bigint[]) RETURNS void LANGUAGE plpgsql
    VOLATILE AS $$
BEGIN
    IF mark[9] <> 0 THEN
        PERFORM pawl.see_mark(mark[9:11] || mark[4:7] || 0::bigint);
    END IF;
    FOR g IN 12..cardinality(mark) BY 4 LOOP
        PERFORM pawl.see_mark(ARRAY[mark[g], mark[g + 1], 9223372036854775807, 0, 0, mark[g + 2],
            mark[g + 3], 0]);
    END LOOP;
END $$;

-- A block of tokens, and the time.
DROP FUNCTION IF EXISTS pawl.draw(bigint);
DO $$ BEGIN
IF (SELECT 'removals' <> ALL (p.proargnames) FROM pg_proc p
        WHERE p.oid = to_regprocedure('pawl.draw(bigint, bytea)')) THEN
    DROP FUNCTION pawl.draw(bigint, bytea);
END IF;
END $$;
CREATE OR REPLACE FUNCTION pawl.draw(at bigint, identity bytea DEFAULT NULL,
    OUT now bigint, OUT token bigint,
    OUT pending bigint, OUT complete bigint, OUT failed bigint, OUT unknown bigint,
    OUT released bigint, OUT forgets bigint, OUT frozen bigint, OUT frozen_at bigint,
    OUT epoch bigint, OUT roster bigint, OUT went_back_at bigint, OUT restored_since bigint,
    OUT restored_at bigint, OUT restored_until bigint, OUT removals bigint)
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    other boolean;
BEGIN
    removals := pawl.removals();
    SELECT pawl.is_other(s, identity), s.frozen::integer, s.frozen_at, s.epoch, s.roster,
        s.went_back_at, s.restored_since, s.restored_at, s.restored_until INTO other, frozen,
        frozen_at, epoch, roster, went_back_at, restored_since, restored_at, restored_until
        FROM pawl.store s;
    IF other IS NOT FALSE THEN
        PERFORM pawl.refuse_other();
    END IF;
    token := pawl.new_token(pawl.clock(0)) + 255;
    now := pawl.clock(at);
    SELECT coalesce(sum(t.pending), 0), coalesce(sum(t.complete), 0), coalesce(sum(t.failed), 0),
        coalesce(sum(t.unknown), 0), coalesce(sum(t.released), 0), coalesce(sum(t.forgets), 0)
    INTO pending, complete, failed, unknown, released, forgets FROM pawl.tally t;
END $$;

-- Saves the groups of a batch, each whole or not at all, and waits for nobody: what another
-- transaction holds is locked. results: a digit for each group, 0 saved, 1 conflict, 2 locked,
-- 3 a begin whose terms are held: what has ended is saved beside it; stale: one for each row
-- brought, 1: it did not fit. begins: groups that are saved only under those terms; sets: what
-- they are from now on, if group 0 is saved; removals: as the load found them, NULL: an older
-- pawl's; mark: pawl.keep_mark's, NULL: the same; holds: of saved rows, how long a hold of theirs
-- lasts, where it has an end. What is acquired without being among them has none.
CREATE OR REPLACE FUNCTION pawl.save(self bigint, at bigint, new_version bigint, groups bigint,
    names pawl.seen_name[], seen pawl.seen_row[], saved pawl.saved_row[],
    outcomes pawl.saved_outcome[], bounds pawl.saved_bound[], unhelds pawl.saved_unheld[],
    brought pawl.saved_brought[], vals pawl.saved_value[], tallies pawl.saved_tally[],
    identity bytea DEFAULT NULL, begins bigint[] DEFAULT '{}', terms bigint[] DEFAULT '{}',
    sets bigint[] DEFAULT '{}', removals bigint DEFAULT NULL, mark bigint[] DEFAULT NULL,
    holds pawl.saved_hold[] DEFAULT '{}', askings pawl.saved_asking[] DEFAULT '{}',
    OUT results text, OUT stale text, OUT now bigint, OUT pending bigint, OUT complete bigint,
    OUT failed bigint, OUT unknown bigint, OUT released bigint, OUT forgets bigint)
    LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    locked bigint[] := '{}';
    held bigint[] := '{}';
    conflict bigint[] := '{}';
    bad bigint[] := '{}';
    ids bigint[] := '{}';
    gone bigint[];
    stales bigint[] := '{}';
    all_values bytea[];
    one record;
    written bigint := 0;
    touched bigint;
    other boolean;
    now_terms bigint[];
BEGIN
    IF cardinality(names) > 0 THEN
        locked := ARRAY(SELECT n.grp FROM unnest(names) n WHERE NOT CASE n.is_claimed
            WHEN 1 THEN pg_try_advisory_xact_lock(n.lock)
            ELSE pg_try_advisory_xact_lock_shared(n.lock) END);
    END IF;
    IF cardinality(begins) > 0 AND NOT pawl.hold_terms(cardinality(sets) > 0) THEN
        held := begins;
    END IF;
    SELECT pawl.is_other(s, identity), pawl.terms(s) INTO other, now_terms FROM pawl.store s;
    IF other IS NOT FALSE THEN
        PERFORM pawl.refuse_other();
    ELSIF cardinality(begins) > 0 AND now_terms <> terms THEN
        conflict := begins;
    END IF;
    IF cardinality(seen) > 0 THEN
        ids := ARRAY(SELECT DISTINCT s.id FROM unnest(seen) s);
        WITH held AS MATERIALIZED (
            SELECT r.id, r.version FROM pawl.record r
            WHERE r.id = ANY (ids) FOR UPDATE SKIP LOCKED),
        judged AS (
            SELECT s.grp, h.version IS NULL AND
                (SELECT r.id FROM pawl.record r WHERE r.id = s.id) IS NOT NULL AS is_locked
            FROM unnest(seen) s LEFT JOIN held h ON h.id = s.id
            WHERE h.version IS NULL OR (s.version <> 0 AND s.version <> h.version))
        SELECT locked || coalesce(array_agg(grp) FILTER (WHERE is_locked), '{}'),
            coalesce(array_agg(grp) FILTER (WHERE NOT is_locked), '{}')
        INTO locked, bad FROM judged;
    END IF;
    conflict := conflict || bad;
    IF cardinality(names) > 0 THEN
        conflict := conflict || ARRAY(SELECT n.grp FROM unnest(names) n
            WHERE n.leads_to >= 0 AND n.leads_to <> coalesce(
            CASE WHEN n.is_once = 1 THEN
                (SELECT r.id FROM pawl.record r WHERE r.once_name = n.hash)
            ELSE coalesce((SELECT r.id FROM pawl.record r WHERE r.key_hash = n.hash AND r.named),
                (SELECT b.id FROM pawl.bound b WHERE b.key_hash = n.hash)) END, 0));
        -- In a statement behind that: what it found absent went before, and was counted by then.
        IF pawl.removals() <> removals OR NOT pawl.is_young(new_version) THEN
            conflict := conflict || ARRAY(SELECT n.grp FROM unnest(names) n
                WHERE n.is_claimed = 1 AND removals IS NOT NULL);
        END IF;
    END IF;
    bad := conflict || locked || held;

    IF cardinality(brought) > 0 THEN
        all_values := ARRAY(SELECT v.value FROM unnest(vals) WITH ORDINALITY v(place, value, at)
            ORDER BY v.at);
        FOR one IN
            SELECT b.grp, array_agg(b.place ORDER BY b.place) AS places,
                array_agg(b.may_miss ORDER BY b.place) AS may_miss,
                array_agg(b.statement ORDER BY b.place) AS statements,
                array_agg(v.first ORDER BY b.place) AS firsts,
                array_agg(v.last ORDER BY b.place) AS lasts
            FROM unnest(brought) b JOIN (
                SELECT u.place, min(u.at) AS first, max(u.at) AS last
                FROM unnest(vals) WITH ORDINALITY u(place, value, at) GROUP BY u.place) v
                ON v.place = b.place
            WHERE b.grp <> ALL (bad) GROUP BY b.grp
        LOOP
            DECLARE
                at_row integer;
                touched bigint;
            BEGIN
                FOR i IN 1 .. cardinality(one.places) LOOP
                    at_row := i;
                    EXECUTE one.statements[i] INTO touched
                    USING all_values[one.firsts[i]:one.lasts[i]];
                    IF touched = 0 AND one.may_miss[i] = 0 THEN
                        RAISE EXCEPTION 'stale' USING ERRCODE = 'PW099';
                    END IF;
                END LOOP;
            EXCEPTION WHEN SQLSTATE 'PW099' OR unique_violation THEN
                stales := stales || one.places[at_row];
                conflict := conflict || one.grp;
                bad := bad || one.grp;
            END;
        END LOOP;
    END IF;

    IF cardinality(ids) > 0 THEN
        gone := ARRAY(SELECT w.id FROM unnest(saved) w
            WHERE w.status = @ABSENT@ AND w.grp <> ALL (bad));
        IF cardinality(gone) > 0 THEN
            PERFORM pawl.remove(gone);
        END IF;
    END IF;

    IF cardinality(names) > 0 THEN -- whoever is new has one
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
        INSERT INTO pawl.record(id, version, named, once_name,
            @RECORD@)
        SELECT w.id, new_version, true, w.once_name,
            @RECORD(w)@
        FROM unnest(saved) w WHERE w.is_new = 1 AND w.grp <> ALL (bad);
        GET DIAGNOSTICS written = ROW_COUNT;
    END IF;

    -- By the place of a row, which is locked. For id = ANY (ids) beside id = w.id an index tries
    -- all ids at each row; for id = w.id alone a plan made on an empty table reads a whole one.
    IF cardinality(ids) > 0 THEN
        UPDATE pawl.record r SET version = new_version,
            once_name = coalesce(w.once_name, r.once_name), @STATE_SET(w)@,
            hold_us = CASE WHEN r.token = w.token AND r.hold_us > 0 THEN r.hold_us ELSE 0 END,
            asking = CASE WHEN r.token = w.token AND r.asking > 0 THEN r.asking ELSE 0 END
        FROM unnest(saved) w
        CROSS JOIN LATERAL (SELECT k.ctid AS place FROM pawl.record k WHERE k.id = w.id OFFSET 0) k
        WHERE r.ctid = k.place AND w.is_new = 0 AND w.status <> @ABSENT@ AND w.grp <> ALL (bad);
        GET DIAGNOSTICS touched = ROW_COUNT;
        written := written + touched;
    END IF;
    IF written < cardinality(saved) AND written < (SELECT count(*) FROM unnest(saved) w
            WHERE (w.is_new = 1 OR w.status <> @ABSENT@) AND w.grp <> ALL (bad)) THEN
        RAISE EXCEPTION 'a trigger or rule on pawl.record keeps a row from being written';
    END IF;

    IF cardinality(holds) > 0 THEN
        UPDATE pawl.record r SET hold_us = h.hold_us FROM unnest(holds) h
        WHERE r.id = h.id AND r.hold_us <> h.hold_us AND h.grp <> ALL (bad);
    END IF;

    IF cardinality(askings) > 0 THEN
        UPDATE pawl.record r SET asking = a.asking FROM unnest(askings) a
        WHERE r.id = a.id AND r.asking <> a.asking AND a.grp <> ALL (bad);
    END IF;

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
            WHERE c.status = @ABSENT@ AND c.grp <> ALL (bad)));
        INSERT INTO pawl.unheld(id, status, at)
        SELECT c.id, c.status, c.at FROM unnest(unhelds) c
        WHERE c.status <> @ABSENT@ AND c.grp <> ALL (bad)
        ON CONFLICT (id) DO UPDATE SET status = excluded.status, at = excluded.at;
    END IF;
    IF cardinality(bad) > 0 THEN
        tallies := ARRAY(SELECT t FROM unnest(tallies) t WHERE t.grp <> ALL (bad));
    END IF;
    IF cardinality(tallies) > 0 THEN
        PERFORM pawl.count(self, tallies);
    END IF;
    IF cardinality(mark) > 0 THEN
        PERFORM pawl.keep_mark(mark, at);
    END IF;
    IF cardinality(sets) > 0 AND 0 <> ALL (bad) THEN
        UPDATE pawl.store s SET frozen = sets[1] <> 0, frozen_at = sets[2], epoch = sets[3],
            roster = sets[4], went_back_at = sets[5], restored_since = sets[6],
            restored_at = sets[7], restored_until = sets[8];
    END IF;

    results := repeat('0', groups::integer);
    IF cardinality(bad) > 0 THEN
        SELECT string_agg(CASE WHEN g = ANY (conflict) THEN '1' WHEN g = ANY (locked) THEN '2'
            WHEN g = ANY (held) THEN '3' ELSE '0' END, '' ORDER BY g)
        INTO results FROM generate_series(0, groups - 1) g;
    END IF;
    stale := repeat('0', cardinality(brought));
    IF cardinality(stales) > 0 THEN
        SELECT string_agg(CASE WHEN g = ANY (stales) THEN '1' ELSE '0' END, '' ORDER BY g)
        INTO stale FROM generate_series(0, cardinality(brought) - 1) g;
    END IF;
    SELECT coalesce(sum(t.pending), 0), coalesce(sum(t.complete), 0), coalesce(sum(t.failed), 0),
        coalesce(sum(t.unknown), 0), coalesce(sum(t.released), 0), coalesce(sum(t.forgets), 0)
    INTO pending, complete, failed, unknown, released, forgets FROM pawl.tally t;
    now := pawl.clock(at);
END $$;

-- Those of older pawls, which now call the one above, with its defaults.
DO $$
DECLARE
    older regprocedure;
BEGIN
    FOR older IN SELECT p.oid::regprocedure FROM pg_proc p
            WHERE p.pronamespace = 'pawl'::regnamespace AND p.proname = 'save'
            AND p.pronargs < (SELECT max(m.pronargs) FROM pg_proc m
                WHERE m.pronamespace = p.pronamespace AND m.proname = 'save') LOOP
        EXECUTE 'DROP FUNCTION ' || older;
    END LOOP;
END $$;

-- Rows with all that leads to them. Noted once nothing is waited for any more: what is rolled
-- back for a row that a stranger holds would be counted all the same, and each try conflict.
CREATE OR REPLACE FUNCTION pawl.remove(gone bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    newest bigint;
BEGIN
    IF cardinality(gone) = 0 THEN
        RETURN;
    END IF;
    newest := greatest((SELECT max(r.token) FROM pawl.record r WHERE r.id = ANY (gone)),
        (SELECT max(b.id) FROM pawl.bound b WHERE b.holder = ANY (gone)));
    DELETE FROM pawl.bound WHERE holder = ANY (gone);
    DELETE FROM pawl.outcome WHERE id = ANY (gone);
    DELETE FROM pawl.unheld WHERE id = ANY (gone);
    DELETE FROM pawl.record WHERE id = ANY (gone);
    PERFORM pawl.note_removal(newest);
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
