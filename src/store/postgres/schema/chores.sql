-- SPDX-License-Identifier: Apache-2.0
-- What is due beside operations: beat, sweep, gauges.

-- This process lives. Whether it holds leases; and since when its row says so, 0: a stranger holds
-- that row, for whom nobody waits.
CREATE OR REPLACE FUNCTION pawl.beat(self bigint, at bigint, OUT now bigint, OUT holds boolean)
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    now := pawl.clock(at);
    holds := (SELECT coalesce(sum(leases), 0) > 0 FROM pawl.tally WHERE owner = self);
    IF holds THEN
        PERFORM FROM pawl.owner o WHERE o.incarnation = self FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE pawl.owner o SET beat_at = CASE WHEN pawl.is_beat(o.beat_at, now)
                THEN greatest(o.beat_at, now) ELSE now END WHERE o.incarnation = self;
        ELSE
            INSERT INTO pawl.owner (incarnation, beat_at) VALUES (self, now)
            ON CONFLICT (incarnation) DO NOTHING;
            now := CASE WHEN FOUND THEN now ELSE 0 END;
        END IF;
    END IF;
END $$;

-- Takes at most so many steps towards what is past its time: outcomes are dropped, then records,
-- released records, bound keys. Several processes may sweep together. What somebody else holds, or
-- no pawl wrote, is looked at again in a minute, so that it does not keep its place at the head.
CREATE OR REPLACE FUNCTION pawl.sweep(self bigint, at bigint, most bigint, OUT steps bigint)
    LANGUAGE plpgsql VOLATILE SET lock_timeout = '20ms' AS $$
DECLARE
    t bigint := pawl.clock(at);
    again bigint := t + 60000000;
    due bigint[];
    held bigint[];
    untils bigint[]; -- of the records held: when they go
    bodies bigint[]; -- and when what is kept of their responses does
    touched bigint;
BEGIN
    BEGIN
        due := ARRAY(SELECT c.id FROM pawl.outcome c WHERE c.sweep_at <= t ORDER BY c.sweep_at
            LIMIT most FOR UPDATE SKIP LOCKED);
        steps := cardinality(due);
        IF steps > 0 THEN
            SELECT array_agg(h.id), array_agg(h.until), array_agg(h.body_until)
            INTO held, untils, bodies
            FROM (SELECT r.id, pawl.body_until(r) AS body_until,
                    greatest(r.gone_at, r.once_until, pawl.after(r.completed_at, @ROW_LEAST_US@))
                        AS until
                FROM pawl.record r WHERE r.id = ANY (due) AND r.status IN (@COMPLETE@, @FAILED@)
                    AND pawl.is_sound(r) FOR UPDATE SKIP LOCKED) h;
            touched := pawl.sweep_records(self, ARRAY(SELECT h.id
                FROM unnest(held, untils) h(id, until) WHERE h.until <= t));
            IF touched < steps THEN
                DELETE FROM pawl.outcome c WHERE c.id = ANY (due)
                    AND (SELECT r.id FROM pawl.record r WHERE r.id = c.id) IS NULL;
                UPDATE pawl.outcome c SET
                    headers = CASE WHEN h.body_until <= t THEN NULL ELSE c.headers END,
                    body = CASE WHEN h.body_until <= t THEN NULL ELSE c.body END,
                    sweep_at = CASE WHEN h.until <= t OR h.id IS NULL THEN again
                        WHEN h.body_until <= t THEN h.until ELSE least(h.body_until, h.until) END
                FROM unnest(due) d(id)
                LEFT JOIN unnest(held, untils, bodies) h(id, until, body_until) ON h.id = d.id
                CROSS JOIN LATERAL (SELECT k.ctid AS place FROM pawl.outcome k
                    WHERE k.id = d.id OFFSET 0) k
                WHERE c.ctid = k.place;
            END IF;
        END IF;
        due := ARRAY(SELECT u.id FROM pawl.unheld u WHERE u.status = @PENDING@ AND u.at <= t
            ORDER BY u.at LIMIT most - steps FOR UPDATE SKIP LOCKED);
        steps := steps + cardinality(due);
        touched := pawl.sweep_records(self, ARRAY(SELECT r.id FROM pawl.record r
            WHERE r.id = ANY (due) AND r.status = @PENDING@ AND r.lease_until = 0
                AND r.expires_at <= t AND pawl.is_sound(r) FOR UPDATE SKIP LOCKED));
        IF touched < cardinality(due) THEN
            DELETE FROM pawl.unheld u WHERE u.id = ANY (due)
                AND (SELECT r.id FROM pawl.record r WHERE r.id = u.id) IS NULL;
            UPDATE pawl.unheld u SET at = again WHERE u.id = ANY (due);
        END IF;
        due := ARRAY(SELECT b.id FROM pawl.bound b WHERE b.expires_at BETWEEN 0 AND t
            ORDER BY b.expires_at LIMIT most - steps FOR UPDATE SKIP LOCKED);
        IF cardinality(due) > 0 THEN
            PERFORM pawl.note_removal((SELECT max(d) FROM unnest(due) d));
        END IF;
        DELETE FROM pawl.bound b WHERE b.id = ANY (due);
        GET DIAGNOSTICS touched = ROW_COUNT;
        steps := steps + touched + pawl.sweep_messages(at, most - steps - touched);
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        steps := 0; -- a stranger holds a whole table, or what this process counts: another time
    END;
END $$;

-- Removes records that the caller holds, but none whose bound key is held by somebody else. How
-- many it removed.
CREATE OR REPLACE FUNCTION pawl.sweep_records(self bigint, gone bigint[]) RETURNS bigint
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    free bigint[];
    stuck bigint[];
BEGIN
    IF cardinality(gone) = 0 THEN
        RETURN 0;
    END IF;
    free := ARRAY(SELECT b.id FROM pawl.bound b WHERE b.holder = ANY (gone)
        FOR UPDATE SKIP LOCKED);
    stuck := ARRAY(SELECT b.holder FROM pawl.bound b WHERE b.holder = ANY (gone)
        AND b.id <> ALL (free));
    gone := ARRAY(SELECT g FROM unnest(gone) g WHERE g <> ALL (stuck));
    PERFORM pawl.count(self, ARRAY(SELECT ROW(0, 0, 0, 0, -(r.status = @PENDING@)::int,
        -(r.status = @COMPLETE@)::int, -(r.status = @FAILED@)::int, -(r.status = @UNKNOWN@)::int,
        -(r.status = @PENDING@)::int, 0)::pawl.saved_tally
        FROM pawl.record r WHERE r.id = ANY (gone)));
    PERFORM pawl.remove(gone);
    RETURN cardinality(gone);
END $$;
DROP FUNCTION IF EXISTS pawl.sweep_rows(bigint, bigint[]); -- of format 1

-- Gauges; and what dead processes counted becomes part of what nobody (0) did.
CREATE OR REPLACE FUNCTION pawl.gauge(self bigint, at bigint, most bigint, OUT stale bigint,
    OUT unknown_oldest bigint, OUT expired bigint, OUT expired_oldest bigint)
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    t bigint := pawl.clock(at);
BEGIN
    stale := (SELECT least(coalesce(sum(l.leases), 0), 9007199254740991)
        FROM (SELECT owner, sum(leases) AS leases,
            max(lease_us) AS lease_us FROM pawl.tally WHERE owner NOT IN (0, self) GROUP BY owner) l
        LEFT JOIN pawl.owner o ON o.incarnation = l.owner AND pawl.is_beat(o.beat_at, t)
        WHERE pawl.after(coalesce(o.beat_at, 0), l.lease_us) <= t);
    unknown_oldest := (SELECT coalesce(min(u.at), 0) FROM pawl.unheld u
        WHERE u.status = @UNKNOWN@ AND u.at >= 0);
    SELECT count(*), coalesce(min(due), 0) INTO expired, expired_oldest FROM (
        (SELECT c.sweep_at AS due FROM pawl.outcome c WHERE c.sweep_at <= t ORDER BY 1 LIMIT most)
        UNION ALL
        (SELECT u.at FROM pawl.unheld u WHERE u.status = @PENDING@ AND u.at <= t
            ORDER BY 1 LIMIT most)
        LIMIT most) d;
    IF pg_try_advisory_xact_lock(hashtext('pawl fold')) THEN
        PERFORM pawl.fold_entries(self, 10000);
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
    DELETE FROM pawl.mark m WHERE m.by IN (SELECT o.by FROM pawl.mark o
        WHERE o.at < silent_since - 604800000000 FOR UPDATE SKIP LOCKED);
    DELETE FROM pawl.owner o WHERE o.beat_at < silent_since AND o.incarnation <> self
        AND NOT EXISTS (SELECT FROM pawl.tally t WHERE t.owner = o.incarnation) $$;
