-- SPDX-License-Identifier: Apache-2.0
-- pawl.complete, pawl.release: the token alone names the record, which a process may hold, too: its
-- upstream is a participant then, and what it stores is provisional (core/record.h).

-- An object of headers as lines: a value is a string, a number, or an array of them. What a
-- response says about its own delivery is left out, as a gateway leaves it out.
CREATE OR REPLACE FUNCTION pawl.header_lines(headers jsonb) RETURNS bytea
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    name text;
    value text;
    lines text := '';
BEGIN
    IF jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'headers must be a JSON object' USING ERRCODE = '22023';
    END IF;
    FOR name, value IN SELECT h.key, v.value FROM jsonb_each(headers) h, jsonb_array_elements_text(
            CASE jsonb_typeof(h.value) WHEN 'array' THEN h.value
                ELSE jsonb_build_array(h.value) END) v LOOP
        IF name !~ '^[!#$%&''*+.^_`|~0-9A-Za-z-]+$' OR value IS NULL OR value ~ '[[:cntrl:]]' THEN
            RAISE EXCEPTION '% is not a header', name USING ERRCODE = '22023';
        END IF;
        CONTINUE WHEN name ~* ('^((proxy|access-control)-.*|date|content-length|www-authenticate'
            || '|trailer|idempotency-status|idempotent-replayed|authorization|authentication-info'
            || '|set-cookie|connection|keep-alive|te|transfer-encoding|upgrade)$')
            OR (lower(name) = 'error-code' AND value <> 'PROVIDER.duplicate');
        lines := lines || name || ': ' || btrim(value, ' ') || chr(13) || chr(10);
    END LOOP;
    RETURN convert_to(lines, 'UTF8');
END $$;

-- The record of which this is the last token, and locked; none, where another transaction began it:
-- what that one completed or released is settled, and its token is dead.
CREATE OR REPLACE FUNCTION pawl.find_token(token bigint) RETURNS pawl.record
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r pawl.record;
BEGIN
    SELECT k.* INTO r FROM pawl.record k WHERE k.id = find_token.token FOR UPDATE;
    IF r.token IS DISTINCT FROM find_token.token THEN
        SELECT k.* INTO r FROM pawl.record k
            WHERE k.token = find_token.token AND k.token <> k.id FOR UPDATE;
    END IF;
    IF r.owner < 0 AND r.owner IS DISTINCT FROM -(pg_current_xact_id_if_assigned()::text::bigint)
    THEN
        RETURN NULL;
    ELSIF NOT pawl.is_sound(r) THEN
        RAISE EXCEPTION 'no pawl wrote the row of the token %: it is held', token
            USING ERRCODE = 'XX001',
            HINT = 'Roll back. `pawl keys resolve` or `pawl keys forget` mends it.';
    END IF;
    RETURN r;
END $$;

CREATE OR REPLACE FUNCTION pawl.refuse_stale(token bigint) RETURNS void
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE EXCEPTION 'the token % is stale: another attempt has the operation, the transaction that '
        'began it has ended, or it is forgotten', coalesce(token::text, 'NULL')
        USING ERRCODE = 'PW001', HINT = 'Roll back.';
END $$;

-- A participant may come twice under one token: a proxy sends its request again, or the service
-- repeats a commit whose result was lost. The transaction that is not the first must not commit;
-- what this one has completed it remembers until its end, savepoints included.
CREATE OR REPLACE FUNCTION pawl.check_own(token bigint) RETURNS void
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF token::text <> ALL (string_to_array(coalesce(current_setting('pawl.completed', true), ''),
            ' ')) THEN
        RAISE EXCEPTION 'another transaction has completed the operation of the token %', token
            USING ERRCODE = 'PW001', HINT = 'Roll back.';
    END IF;
END $$;

-- The event that tells of its success, where its claim said so (core/web/origin.h, core/emit.h).
CREATE OR REPLACE FUNCTION pawl.emit(r pawl.record, http_code integer, body bytea, now bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    told text[] := string_to_array(split_part(encode(r.origin, 'escape'), E'\n', 1), E'\t');
    data bytea := 'null';
    token bigint;
BEGIN
    IF coalesce(told[2], '') = '' OR http_code NOT BETWEEN 200 AND 299 THEN
        RETURN;
    END IF;
    BEGIN
        IF told[3] IS NULL AND octet_length(body) BETWEEN 1 AND 1048576 THEN
            PERFORM convert_from(body, 'UTF8')::json;
            data := body;
        END IF;
    EXCEPTION WHEN data_exception OR character_not_in_repertoire OR untranslatable_character THEN
        data := 'null';
    END;
    token := pawl.new_token(now);
    INSERT INTO pawl.event AS e (id, version, event_id, tenant, type, time, data, created_at,
            is_new, fanned_at, gone_at)
        VALUES (token, token, convert_to('evt_' || left(encode(sha256(r.key_hash
            || int8send(r.created_at)), 'hex'), 32), 'UTF8'), r.tenant, convert_to(told[2], 'UTF8'),
            convert_to(to_char(to_timestamp(now / 1e6) AT TIME ZONE 'UTC',
            'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'UTF8'), data, now, 1, 0, @NEVER@)
        ON CONFLICT DO NOTHING;
END $$;

-- stored; already: this token stored one before, and it stays.
CREATE OR REPLACE FUNCTION pawl.finish_any(token bigint, http_code integer, body bytea,
    lines bytea, location bytea, now bigint) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    was pawl.record;
    r pawl.record;
BEGIN
    PERFORM pawl.refuse_version();
    was := pawl.find_token(token);
    r := was;
    IF r.id IS NOT NULL AND r.status IN (@COMPLETE@, @FAILED@) THEN
        IF r.owner > 0 THEN
            PERFORM pawl.check_own(token);
        END IF;
        RETURN 'already';
    ELSIF pawl.is_gone(r, now) THEN
        PERFORM pawl.refuse_stale(token);
    END IF;
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF r.owner > 0 THEN
        PERFORM set_config('pawl.completed', concat_ws(' ',
            nullif(current_setting('pawl.completed', true), ''), token), true);
    END IF;
    r.version := pawl.new_token(now);
    r.status := CASE WHEN http_code BETWEEN 400 AND 499 THEN @FAILED@ ELSE @COMPLETE@ END;
    r.http_code := http_code;
    r.kept := 1;
    r.probing := 0;
    r.doubt := 0;
    r.cause := @CAUSE_NONE@;
    r.completed_at := now;
    r.result_ref := location;
    r := pawl.set_times(r, now);
    IF r.owner > 0 AND r.lease_until > 0 THEN
        r.provisional := 1;
        r.expires_at := @NEVER@;
        r.gone_at := @NEVER@;
        r.once_until := CASE WHEN r.once_until > 0 THEN @NEVER@ ELSE 0 END;
    ELSE
        r.lease_until := 0;
    END IF;
    PERFORM pawl.keep(was, r), pawl.emit(was, http_code, body, now);
    IF r.owner < 0 THEN
        INSERT INTO pawl.tally_entry(rule, decision) VALUES (r.rule, 'proceed');
    END IF;
    INSERT INTO pawl.outcome(id, sweep_at, packed, headers, body)
        VALUES (r.id, pawl.sweep_at(r), 0, lines, coalesce(body, ''));
    RETURN 'stored';
END $$;

-- What most completes are: of a record that this transaction made. Through pawl.finish_any, which
-- says the same, a begin and its complete take half as much CPU again. pawl.after is spelled out
-- for times above 0: it is four functions there, each of which is looked up at every call.
@@ FINISH_OPEN
WITH done AS (
    UPDATE pawl.record k SET version = token + 1, status = @COMPLETE@ + failed, lease_until = 0,
        completed_at = now, kept = 1, http_code = http_code, result_ref = location,
        expires_at = now + least(greatest(k.ttl_us, k.least_us), @NEVER@ - now),
        gone_at = now + least(greatest(k.ttl_us, k.least_us), @NEVER@ - now)
            + least(k.tombstone_us, @NEVER@ - now - least(greatest(k.ttl_us, k.least_us),
                @NEVER@ - now)),
        once_until = CASE WHEN k.once_ttl_us > 0 AND failed = 0
            THEN now + least(greatest(k.once_ttl_us, k.least_us), @NEVER@ - now) ELSE 0 END
    WHERE k.id = token AND k.token = token AND k.status = @PENDING@ AND k.lease_until > 0
        AND k.owner = -(pg_current_xact_id_if_assigned()::text::bigint)
    RETURNING k.id, k.rule, k.gone_at, k.once_until,
        CASE WHEN k.once_replay = 1 THEN greatest(k.expires_at, k.once_until)
            ELSE k.expires_at END AS body_until),
counted AS (
    INSERT INTO pawl.tally_entry(rule, decision, complete, failed)
        SELECT d.rule, 'proceed', 1 - failed, failed FROM done d)
INSERT INTO pawl.outcome(id, sweep_at, packed, headers, body)
    SELECT d.id, least(d.body_until, greatest(now + @ROW_LEAST_US@, d.gone_at, d.once_until)), 0,
        lines, coalesce(bytes, '') FROM done d;
@@

CREATE OR REPLACE FUNCTION pawl.finish(token bigint, http_code integer, body bytea, headers jsonb,
    result_ref text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    bytes ALIAS FOR body;
    lines bytea := '';
    location bytea := '';
    now bigint := pawl.clock(0);
    failed integer := (http_code BETWEEN 400 AND 499)::int;
BEGIN
    IF http_code IS NULL OR http_code NOT BETWEEN 200 AND 599 THEN
        RAISE EXCEPTION 'http_code must be between 200 and 599' USING ERRCODE = '22023';
    ELSIF http_code IN (204, 304) AND octet_length(body) > 0 THEN
        RAISE EXCEPTION 'a response % has no body', http_code USING ERRCODE = '22023';
    ELSIF headers IS NOT NULL OR result_ref IS NOT NULL THEN
        lines := CASE WHEN headers IS NULL THEN '' ELSE pawl.header_lines(headers) END;
        location := convert_to(coalesce(result_ref, (SELECT h.value #>> '{}'
            FROM jsonb_each(headers) h WHERE lower(h.key) = 'location' LIMIT 1), ''), 'UTF8');
    END IF;
    @FINISH_OPEN@
    IF FOUND THEN
        RETURN 'stored';
    END IF;
    RETURN pawl.finish_any(token, http_code, body, lines, location, now);
END $$;

CREATE OR REPLACE FUNCTION pawl.complete(token bigint, http_code integer DEFAULT 200,
    body text DEFAULT NULL, headers jsonb DEFAULT NULL, result_ref text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    lines bytea := '';
    location bytea := '';
    bytes bytea := convert_to(body, 'UTF8');
    now bigint := pawl.clock(0);
    failed integer := (http_code BETWEEN 400 AND 499)::int;
BEGIN
    IF headers IS NULL AND result_ref IS NULL AND http_code BETWEEN 200 AND 599
            AND http_code NOT IN (204, 304) THEN
        @FINISH_OPEN@
        IF FOUND THEN
            RETURN 'stored';
        END IF;
        RETURN pawl.finish_any(token, http_code, bytes, lines, location, now);
    END IF;
    RETURN pawl.finish(token, http_code, bytes, headers, result_ref);
END $$;

CREATE OR REPLACE FUNCTION pawl.complete_bytes(token bigint, http_code integer DEFAULT 200,
    body bytea DEFAULT NULL, headers jsonb DEFAULT NULL, result_ref text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN pawl.finish(token, http_code, body, headers, result_ref);
END $$;

-- Surely not done: the next begin proceeds. released; already: it was, or it is final.
CREATE OR REPLACE FUNCTION pawl.release(token bigint) RETURNS text LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    was pawl.record;
    r pawl.record;
    now bigint := pawl.clock(0);
BEGIN
    PERFORM pawl.refuse_version();
    was := pawl.find_token(token);
    IF pawl.is_gone(was, now) THEN
        PERFORM pawl.refuse_stale(token);
    END IF;
    r := was;
    IF was.status IN (@COMPLETE@, @FAILED@) THEN
        IF was.provisional = 1 THEN
            r.version := pawl.new_token(now);
            r.provisional := 0;
            r.lease_until := 0;
            r := pawl.set_times(r, now);
            PERFORM pawl.keep(was, r);
        END IF;
        RETURN 'already';
    ELSIF was.status = @PENDING@ AND was.lease_until = 0 THEN
        RETURN 'already';
    END IF;
    r.version := pawl.new_token(now);
    r.lease_until := 0;
    r.probing := 0;
    IF was.probing = 1 THEN
        r.status := @UNKNOWN@;
        r.expires_at := 0;
    ELSE
        r.status := @PENDING@;
        r.expires_at := pawl.end_of(CASE WHEN r.windowed = 1 THEN r.created_at ELSE now END,
            r.ttl_us, r, now);
        IF r.doubt = 1 THEN
            r.expires_at := CASE WHEN r.once_ttl_us > 0 THEN @NEVER@
                ELSE greatest(r.expires_at, pawl.after(now, r.doubted_us)) END;
        END IF;
    END IF;
    PERFORM pawl.keep(was, r);
    RETURN 'released';
END $$;

-- ---- rights ----

-- Lets a role call what applications call. It may then read every tenant's responses.
CREATE OR REPLACE FUNCTION pawl.admit(role regrole) RETURNS void LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f regprocedure;
BEGIN
    EXECUTE 'GRANT USAGE ON SCHEMA pawl TO ' || role;
    FOR f IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'pawl'::regnamespace
            AND p.prosecdef AND p.prorettype <> 'trigger'::regtype LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO ' || role;
    END LOOP;
END $$;

-- Lets a role be a gateway's: what there is, and what later versions add. It may be run again.
CREATE OR REPLACE FUNCTION pawl.admit_gateway(role regrole) RETURNS void LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner regrole := (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'pawl');
    later text := 'ALTER DEFAULT PRIVILEGES FOR ROLE ' || owner || ' IN SCHEMA pawl GRANT ';
BEGIN
    EXECUTE 'GRANT USAGE ON SCHEMA pawl TO ' || role;
    EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pawl TO ' || role;
    EXECUTE 'REVOKE INSERT, DELETE ON pawl.store FROM ' || role;
    EXECUTE 'GRANT SELECT, USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA pawl TO ' || role;
    EXECUTE 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl TO ' || role;
    EXECUTE later || 'SELECT, INSERT, UPDATE, DELETE ON TABLES TO ' || role;
    EXECUTE later || 'SELECT, USAGE, UPDATE ON SEQUENCES TO ' || role;
    EXECUTE later || 'EXECUTE ON FUNCTIONS TO ' || role;
END $$;

-- At the end of each installation: nobody calls a function who was not let to, and roles that were
-- a gateway's are one for what was added.
CREATE OR REPLACE FUNCTION pawl.set_rights() RETURNS void LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role regrole;
BEGIN
    REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl FROM PUBLIC;
    FOR role IN SELECT DISTINCT a.grantee FROM pg_class c, aclexplode(c.relacl) a
            WHERE c.oid = 'pawl.record'::regclass AND a.privilege_type = 'INSERT'
            AND a.grantee NOT IN (0, c.relowner) LOOP
        PERFORM pawl.admit_gateway(role);
    END LOOP;
END $$;
