-- SPDX-License-Identifier: Apache-2.0
-- Of a schema of today's, what revision 6 had in its place: each mark alone, without those of the
-- other sessions of its gateway.
DROP FUNCTION pawl.see_other_marks;
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
        USING ERRCODE = 'PW011', DETAIL = since::text;
END $$;

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
        PERFORM pawl.see_mark(mark[9:11] || mark[4:7] || 0::bigint);
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

CREATE OR REPLACE FUNCTION pawl.see_mark(mark bigint[]) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
$$
DECLARE
    found bigint := (SELECT m.value FROM pawl.mark m WHERE m.by = mark[1]);
BEGIN
    IF cardinality(mark) > 8 THEN
        PERFORM pawl.see_mark(mark[9:11] || mark[4:7] || 0::bigint);
    END IF;
    IF found NOT BETWEEN mark[2] AND mark[3] OR (found IS NULL AND mark[8] <> 1) THEN
        PERFORM pawl.went_back(mark);
    END IF;
    RETURN coalesce(found, 0);
END $$;

CREATE OR REPLACE FUNCTION pawl.pairs(self bigint, counted_as bigint, at bigint, identity bytea,
    terms bigint[], longest bigint, beats bigint, mark bigint[], claims pawl.claim[],
    ends pawl.ended[],
    OUT base bigint, OUT now bigint, OUT beaten bigint, OUT claimed text, OUT done text,
    OUT pending bigint, OUT complete bigint, OUT failed bigint, OUT unknown bigint,
    OUT released bigint, OUT forgets bigint, OUT frozen bigint, OUT frozen_at bigint,
    OUT epoch bigint, OUT roster bigint, OUT went_back_at bigint, OUT restored_since bigint,
    OUT restored_at bigint, OUT restored_until bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    SET jit = off SET plan_cache_mode = force_generic_plan SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    locked bigint[] := '{}';
    made bigint[];
    ended bigint[];
    counted bigint[];
    n_made bigint := 0;
    n_ended bigint := 0;
    n_failed bigint := 0;
    other boolean;
    moved boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed'
            OR current_setting('transaction_read_only') = 'on' THEN
        RAISE EXCEPTION 'the session''s transactions are not those of a batch'
            USING ERRCODE = 'PW010';
    END IF;
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('client_min_messages') = 'error' THEN
        PERFORM set_config('client_min_messages', 'warning', true);
    END IF;
    now := pawl.clock(at);
    IF cardinality(claims) > 0 THEN
        WITH held AS (UPDATE pawl.store SET single = true WHERE false) -- pawl.hold_terms
        SELECT coalesce(array_agg(u.at), '{}') INTO locked
        FROM unnest(claims) WITH ORDINALITY u(place, lock, key_hash, tenant, rule, key, recipe,
        fingerprint, payload_hash, target_hash, attempt_id, lease_us, windowed, unknown, settle_us,
        ttl_us, least_us, doubted_us, tombstone_us, origin, hold_us, at)
        WHERE NOT pg_try_advisory_xact_lock(u.lock);
    END IF;
    SELECT pawl.is_other(s, identity), pawl.terms(s) <> terms, s.frozen::integer, s.frozen_at,
        s.epoch, s.roster, s.went_back_at, s.restored_since, s.restored_at, s.restored_until, k.*
    INTO other, moved, frozen, frozen_at, epoch, roster, went_back_at, restored_since, restored_at,
        restored_until, pending, complete, failed, unknown, released, forgets
    FROM pawl.store s, (SELECT coalesce(sum(k.pending), 0), coalesce(sum(k.complete), 0),
        coalesce(sum(k.failed), 0), coalesce(sum(k.unknown), 0), coalesce(sum(k.released), 0),
        coalesce(sum(k.forgets), 0) FROM pawl.tally k) k;
    IF other IS NOT FALSE THEN
        PERFORM pawl.refuse_other();
    END IF;
    IF cardinality(claims) > 0 AND NOT moved THEN
        WITH drawn AS MATERIALIZED (SELECT pawl.new_token(pawl.clock(0)) - 1 AS base),
        fresh AS (
            INSERT INTO pawl.record(id, version, named, token, status, attempts, created_at,
                started_at, lease_until, owner, probing, quiet_at, doubt, cause, provisional, once,
                once_template, once_ttl_us, once_window, once_replay, once_until, completed_at,
                expires_at, gone_at, kept, http_code, result_ref,
                key_hash, tenant, rule, key, recipe, fingerprint, payload_hash, target_hash,
                attempt_id, lease_us, windowed, unknown, settle_us, ttl_us, least_us, doubted_us,
                tombstone_us, origin, hold_us)
            SELECT d.base + u.place, d.base + 1, true, d.base + u.place, 1, 1, now,
                now, pawl.after(now, u.lease_us), self, 0, 0, 0, 0, 0, '',
                0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, '',
                u.key_hash, u.tenant, u.rule, u.key, u.recipe, u.fingerprint, u.payload_hash,
                u.target_hash, u.attempt_id, u.lease_us, u.windowed, u.unknown, u.settle_us,
                u.ttl_us, u.least_us, u.doubted_us, u.tombstone_us, u.origin, u.hold_us
            FROM drawn d, unnest(claims) WITH ORDINALITY u(place, lock,
                key_hash, tenant, rule, key, recipe, fingerprint, payload_hash, target_hash,
                attempt_id, lease_us, windowed, unknown, settle_us, ttl_us, least_us, doubted_us,
                tombstone_us, origin, hold_us, at)
            WHERE u.at <> ALL (locked)
                AND (SELECT k.id FROM pawl.record k
                    WHERE k.key_hash = u.key_hash AND k.named) IS NULL
                AND (SELECT b.id FROM pawl.bound b WHERE b.key_hash = u.key_hash) IS NULL
            ON CONFLICT DO NOTHING RETURNING id)
        SELECT (SELECT d.base FROM drawn d), array_agg(id), count(*) INTO base, made, n_made
        FROM fresh;
    ELSE
        base := pawl.new_token(pawl.clock(0)) - 1;
    END IF;
    IF cardinality(ends) > 0 THEN
        WITH final AS ( -- by the place of a row, which is locked: see pawl.save
            UPDATE pawl.record r SET version = base + 1, lease_until = 0, probing = 0, doubt = 0,
                cause = 0, status = e.status, completed_at = e.completed_at, expires_at =
                e.expires_at, gone_at = e.gone_at, kept = e.kept, http_code = e.http_code,
                result_ref = e.result_ref
            FROM unnest(ends) e
            CROSS JOIN LATERAL (SELECT k.ctid AS place FROM pawl.record k
                WHERE k.id = e.id AND k.version = e.version AND k.token = e.token
                    AND k.status = 1 AND k.owner = self AND k.lease_until <> 0
                    AND k.asking = 0 AND k.once_ttl_us = 0
                FOR UPDATE SKIP LOCKED) k
            WHERE r.ctid = k.place
            RETURNING r.id, r.status, e.sweep_at, e.packed, e.headers, e.body),
        kept AS (
            INSERT INTO pawl.outcome AS c (id, sweep_at, packed, headers, body)
            SELECT f.id, f.sweep_at, f.packed, f.headers, f.body FROM final f
            ON CONFLICT (id) DO UPDATE SET sweep_at = excluded.sweep_at, packed = excluded.packed,
                headers = excluded.headers, body = excluded.body)
        SELECT array_agg(id), count(*), count(*) FILTER (WHERE status = 3)
        INTO ended, n_ended, n_failed FROM final;
    END IF;
    IF n_made + n_ended > 0 THEN -- as pawl.count
        WITH updated AS (
            UPDATE pawl.tally t SET
                leases = t.leases + CASE t.owner WHEN 0 THEN 0 ELSE n_made - n_ended END,
                lease_us = greatest(t.lease_us, CASE t.owner WHEN 0 THEN 0 ELSE longest END),
                pending = t.pending + CASE t.owner WHEN 0 THEN n_made - n_ended ELSE 0 END,
                complete = t.complete + CASE t.owner WHEN 0 THEN n_ended - n_failed ELSE 0 END,
                failed = t.failed + CASE t.owner WHEN 0 THEN n_failed ELSE 0 END
            WHERE t.by = counted_as AND t.owner IN (0, self) RETURNING owner)
        SELECT array_agg(owner) INTO counted FROM updated;
        IF counted IS NULL OR cardinality(counted) < 2 THEN
            PERFORM pawl.count(counted_as, ARRAY(SELECT t FROM unnest(ARRAY[
                ROW(0, 0, 0, 0, n_made - n_ended, n_ended - n_failed, n_failed, 0, 0, 0),
                ROW(0, self, n_made - n_ended, longest, 0, 0, 0, 0, 0, 0)]::pawl.saved_tally[]) t
                WHERE counted IS NULL OR t.owner <> ALL (counted)));
        END IF;
    END IF;
    UPDATE pawl.mark m SET value = mark[4], at = greatest(m.at, now)
    WHERE m.by = mark[1] AND m.value BETWEEN mark[2] AND mark[3] AND mark[5] = 0
        AND cardinality(mark) = 8; -- the common case of pawl.keep_mark
    IF NOT FOUND AND cardinality(mark) > 0 THEN
        PERFORM pawl.keep_mark(mark, at);
    END IF;
    IF beats = 1 AND n_made > 0 THEN
        SELECT CASE WHEN b.holds THEN b.now END INTO beaten FROM pawl.beat(self, at) b;
    END IF;
    claimed := repeat('0', cardinality(claims));
    IF n_made < cardinality(claims) THEN
        SELECT string_agg(CASE WHEN base + (claims[g]).place = ANY (made) THEN '0' ELSE '1' END, ''
            ORDER BY g)
        INTO claimed FROM generate_series(1, cardinality(claims)) g;
    END IF;
    done := repeat('0', cardinality(ends));
    IF n_ended < cardinality(ends) THEN
        SELECT string_agg(CASE WHEN (ends[g]).id = ANY (ended) THEN '0' ELSE '1' END, ''
            ORDER BY g)
        INTO done FROM generate_series(1, cardinality(ends)) g;
    END IF;
END $$;

UPDATE pawl.store SET revision = 6;
