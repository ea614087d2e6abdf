-- SPDX-License-Identifier: Apache-2.0
-- Inside an application's own transaction: record and effect commit together.
--
--     SELECT * FROM pawl.begin(tenant, rule, key, ...)  -> decision, token, ...
--     ... the effect, in the same transaction ...
--     SELECT pawl.complete(token, 201, '{"id": 7}')     or pawl.release(token)
--
--     (absent) --begin--> pending --complete--> complete | failed (4xx)      at COMMIT, or nothing
--                            '-----release--> released
--
-- Decisions (core/record.h, the same table): proceed (do it, then complete or release), replay,
-- mismatch, in_progress, outcome_unknown, result_expired, result_not_kept, duplicate (with
-- `duplicate => 'reject'`), begun_here (this transaction has begun it and not completed it).
--
-- Errors: PW001 stale token: another attempt has taken over, or the record is gone; PW002 COMMIT
-- without complete or release; PW003 the schema is of another version; PW004 malformed key, tenant
-- or rule; PW005 the store is frozen; 22023 another argument; 40001, 40P01 come through.
--
-- A transaction has no lease: its row is pending and owned by it (owner: less its number) until it
-- commits, and by then it must not be pending any more. It holds the advisory lock of the key's
-- name, for which other transactions wait, and a gateway does not: it says in progress. What a
-- gateway holds is in progress at once. A replay takes no lock. A begin brings the policy
-- `participant`: what was meant to be repeated goes on, what is held or probed is outcome_unknown.
--
-- The schema's owner runs `SELECT pawl.admit('role')` for an application: it gets these functions,
-- which act with the owner's rights, and no table.
--
-- A table's scan is priced out, as plans may be made while it is empty; what is priced so would be
-- compiled at every call, so nothing is.
--
-- Columns are microseconds, arguments intervals. A hash that one side did not bring is not
-- compared: ''. Source: contract section 8, docs/decisions/0024-sql-functions.md.

-- ---- what is counted: each call appends, pawl.fold_entries adds up ----

CREATE TABLE IF NOT EXISTS pawl.tally_entry(
    rule bytea, decision text, owner bigint NOT NULL DEFAULT 0, leases smallint NOT NULL DEFAULT 0,
    pending smallint NOT NULL DEFAULT 0, complete smallint NOT NULL DEFAULT 0,
    failed smallint NOT NULL DEFAULT 0, unknown smallint NOT NULL DEFAULT 0,
    released smallint NOT NULL DEFAULT 0);
-- How often each decision was returned; proceed: and completed in that transaction.
CREATE TABLE IF NOT EXISTS pawl.decisions(
    rule bytea, decision text, times bigint NOT NULL, PRIMARY KEY (rule, decision));
-- A primary key would cost each call something; replicas need to know what was deleted, though.
DO $$ BEGIN
IF (SELECT c.relreplident <> 'f' FROM pg_class c WHERE c.oid = 'pawl.tally_entry'::regclass) THEN
    ALTER TABLE pawl.tally_entry REPLICA IDENTITY FULL;
END IF;
END $$;

CREATE OR REPLACE FUNCTION pawl.fold_entries(self bigint, most bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    entries pawl.tally_entry[];
BEGIN
    WITH taken AS (DELETE FROM pawl.tally_entry e WHERE e.ctid = ANY (ARRAY(
            SELECT f.ctid FROM pawl.tally_entry f LIMIT most FOR UPDATE SKIP LOCKED)) RETURNING e)
        SELECT array_agg(t.e) INTO entries FROM taken t;
    IF entries IS NULL THEN
        RETURN;
    END IF;
    PERFORM pawl.count(self, ARRAY(SELECT ROW(0, e.owner, sum(e.leases), 0, sum(e.pending),
        sum(e.complete), sum(e.failed), sum(e.unknown), sum(e.released), 0)::pawl.saved_tally
        FROM unnest(entries) e GROUP BY e.owner));
    INSERT INTO pawl.decisions AS d (rule, decision, times)
        SELECT e.rule, e.decision, count(*) FROM unnest(entries) e
        WHERE e.decision IS NOT NULL GROUP BY e.rule, e.decision
        ON CONFLICT (rule, decision) DO UPDATE SET times = d.times + excluded.times;
END $$;

-- Sweeps and counts where no gateway serves the store: for cron. How many steps it took.
CREATE OR REPLACE FUNCTION pawl.maintain(most bigint DEFAULT 10000) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off AS $$
DECLARE
    steps bigint;
BEGIN
    IF most IS NULL OR most NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'most must be between 1 and 1000000' USING ERRCODE = '22023';
    END IF;
    SELECT s.steps INTO steps FROM pawl.sweep(0, 0, most) s;
    IF pg_try_advisory_xact_lock(hashtext('pawl fold')) THEN
        PERFORM pawl.fold_entries(0, most);
    END IF;
    RETURN steps;
END $$;

-- ---- names ----

-- A block of HMAC: the secret's 32 bytes, filled up with zeros, each XORed with `byte`.
CREATE OR REPLACE FUNCTION pawl.pad(secret bytea, byte integer) RETURNS bytea
    LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    block bytea := decode(repeat(lpad(to_hex(byte), 2, '0'), 64), 'hex');
BEGIN
    FOR i IN 0..31 LOOP
        block := set_byte(block, i, get_byte(secret, i) # byte);
    END LOOP;
    RETURN block;
END $$;

DO $$ BEGIN
-- Computing them takes longer than hashing.
IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pawl.store'::regclass
        AND a.attname = 'inner_pad') THEN
    ALTER TABLE pawl.store
        ADD COLUMN inner_pad bytea GENERATED ALWAYS AS (pawl.pad(secret, 54)) STORED,
        ADD COLUMN outer_pad bytea GENERATED ALWAYS AS (pawl.pad(secret, 92)) STORED;
END IF;
END $$;

CREATE OR REPLACE FUNCTION pawl.is_open(format integer, frozen boolean) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$ SELECT format = @FORMAT@ AND NOT frozen $$;

CREATE OR REPLACE FUNCTION pawl.refuse_version() RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    format integer := (SELECT s.format FROM pawl.store s WHERE s.single);
BEGIN
    IF NOT pawl.is_open(format, false) THEN
        RAISE EXCEPTION 'the schema of the pawl store is of version %, these functions are of %',
            format, @FORMAT@ USING ERRCODE = 'PW003', HINT = 'Run `pawl schema postgres | psql`.';
    END IF;
END $$;

-- Before what begins or adds something: what has begun may end.
CREATE OR REPLACE FUNCTION pawl.refuse_closed() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM pawl.refuse_version();
    IF (SELECT s.frozen FROM pawl.store s WHERE s.single) THEN
        RAISE EXCEPTION 'the pawl store is frozen' USING ERRCODE = 'PW005',
            HINT = '`pawl store thaw` ends that.';
    END IF;
END $$;

-- The text after its length: parts of a message can never run together.
CREATE OR REPLACE FUNCTION pawl.sized(text bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT int8send(octet_length(text)::bigint) || text $$;

-- HMAC-SHA-256, by the two pads of the store's secret.
CREATE OR REPLACE FUNCTION pawl.hmac(inner_pad bytea, outer_pad bytea, message bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE AS $$ SELECT sha256(outer_pad || sha256(inner_pad || message)) $$;

CREATE OR REPLACE FUNCTION pawl.hash_parts(VARIADIC parts text[]) RETURNS bytea
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    message bytea := '';
    part text;
BEGIN
    FOREACH part IN ARRAY parts LOOP
        message := message || pawl.sized(convert_to(part, 'UTF8'));
    END LOOP;
    PERFORM pawl.refuse_closed();
    RETURN (SELECT pawl.hmac(s.inner_pad, s.outer_pad, message) FROM pawl.store s WHERE s.single);
END $$;

-- Whether nothing but these is in it; the usual ones first, as each byte is looked for in turn.
CREATE OR REPLACE FUNCTION pawl.is_word(bytes bytea) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT btrim(bytes, '0123456789abcdefghijklmnopqrstuvwxyz.-_ABCDEFGHIJKLMNOPQRSTUVWXYZ'::bytea)
    = '' $$;

CREATE OR REPLACE FUNCTION pawl.is_printable(bytes bytea) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT btrim(bytes, ('0123456789abcdefghijklmnopqrstuvwxyz-_.:/ABCDEFGHIJKLMNOPQRSTUVWXYZ'
    || ' !"#$%&''()*+,;<=>?@[\\]^`{|}~')::bytea) = '' $$;

-- tenant NULL or '': none. A key is what a gateway's could be: 1 to 255 printable ASCII characters.
-- NULL: nothing is wrong.
CREATE OR REPLACE FUNCTION pawl.name_error(tenant text, rule text, key text) RETURNS text
    LANGUAGE sql STABLE AS $$
SELECT CASE WHEN coalesce(length(key), 0) NOT BETWEEN 1 AND 255
            OR NOT pawl.is_printable(convert_to(key, 'SQL_ASCII'))
        THEN 'the key must be 1 to 255 printable ASCII characters'
    WHEN coalesce(length(rule), 0) NOT BETWEEN 1 AND 100
            OR NOT pawl.is_word(convert_to(rule, 'SQL_ASCII'))
        THEN 'the rule must be 1 to 100 of A-Z a-z 0-9 . _ -'
    WHEN length(tenant) > 1024 OR NOT pawl.is_printable(convert_to(tenant, 'SQL_ASCII'))
        THEN 'the tenant must be at most 1024 printable ASCII characters'
    WHEN starts_with(tenant, 'credential:')
        THEN 'the tenant must not begin with ''credential:'', which marks one that a gateway stores'
            || ' as a hash' END $$;

CREATE OR REPLACE FUNCTION pawl.check_names(tenant text, rule text, key text) RETURNS void
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    error text := pawl.name_error(tenant, rule, key);
BEGIN
    IF error IS NOT NULL THEN
        RAISE EXCEPTION '%', error
            USING ERRCODE = 'PW004', HINT = 'Percent-encode what is not, or hash it.';
    END IF;
END $$;

-- The name of a record, as a gateway computes it.
CREATE OR REPLACE FUNCTION pawl.key_hash(tenant text, rule text, key text) RETURNS bytea
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pawl.check_names(tenant, rule, key);
    RETURN pawl.hash_parts(coalesce(tenant, ''), rule, key);
END $$;

-- The advisory lock of a name: the first 8 bytes of its hash.
CREATE OR REPLACE FUNCTION pawl.lock_number(hash bytea) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT ('x' || encode(substr(hash, 1, 8), 'hex'))::bit(64)::bigint $$;

-- ---- arguments ----

-- forever: NULL.
CREATE OR REPLACE FUNCTION pawl.microseconds(span interval, what text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF span IS NULL THEN
        RETURN @NEVER@;
    ELSIF span < '0' OR span > '100000 days' THEN
        RAISE EXCEPTION '% must be between 0 and 100000 days, or NULL: forever', what
            USING ERRCODE = '22023';
    END IF;
    RETURN (date_part('epoch', span) * 1000000)::bigint;
END $$;

-- The same in an expression; NULL: pawl.microseconds has something to say.
CREATE OR REPLACE FUNCTION pawl.common_span(span interval, shortest interval, without bigint)
    RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
SELECT CASE WHEN span IS NULL THEN without
    WHEN span >= shortest AND span <= '100000 days'
        THEN (date_part('epoch', span) * 1000000)::bigint END $$;

CREATE OR REPLACE FUNCTION pawl.after(at bigint, span bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN at > 0 AND span > @NEVER@ - at THEN @NEVER@
                  ELSE at + span END $$;

CREATE OR REPLACE FUNCTION pawl.is_digest(hex text) RETURNS boolean LANGUAGE sql STABLE AS
$$ SELECT octet_length(hex) = 64
    AND btrim(convert_to(hex, 'SQL_ASCII'), '0123456789abcdefABCDEF'::bytea) = '' $$;

-- 64 hex digits as `pawl hash` prints them; NULL: not brought.
CREATE OR REPLACE FUNCTION pawl.digest(hex text, what text) RETURNS bytea
    LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    IF NOT pawl.is_digest(hex) THEN
        RAISE EXCEPTION '% must be 64 hex digits', what USING ERRCODE = '22023';
    END IF;
    RETURN decode(hex, 'hex');
END $$;

-- ---- locks ----

-- In their order, each for the rest of `wait` (NULL: for ever), or for the application's own
-- lock_timeout where that is smaller. held; busy: none is held; free: none is held, as the record
-- became final meanwhile, and whoever waits behind goes on at once.
CREATE OR REPLACE FUNCTION pawl.hold(locks bigint[], hash bytea, wait interval) RETURNS text
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own text := current_setting('lock_timeout');
    until timestamptz := clock_timestamp() + wait;
    rest interval;
    number bigint;
BEGIN
    FOREACH number IN ARRAY locks LOOP
        CONTINUE WHEN pg_try_advisory_xact_lock(number);
        rest := least(until - clock_timestamp(), nullif(own, '0')::interval);
        IF rest < '1ms' THEN
            RAISE lock_not_available;
        END IF;
        PERFORM set_config('lock_timeout', coalesce(ceil(extract(epoch FROM rest) * 1000), 0)::text,
            true);
        PERFORM pg_advisory_xact_lock(number);
    END LOOP;
    PERFORM set_config('lock_timeout', own, true);
    IF EXISTS (SELECT FROM pawl.record r WHERE r.key_hash = hash AND r.named
            AND r.status IN (@COMPLETE@, @FAILED@) AND r.provisional = 0
            AND r.gone_at > pawl.clock(0)) THEN
        RAISE SQLSTATE 'PW098';
    END IF;
    RETURN 'held';
EXCEPTION
    WHEN lock_not_available THEN RETURN 'busy';
    WHEN SQLSTATE 'PW098' THEN RETURN 'free';
END $$;

-- Locks several keys in an order that all transactions share: before their begins, so that none of
-- them waits in a circle. Waits as the application's lock_timeout says. All sessions share the room
-- for locks.
CREATE OR REPLACE FUNCTION pawl.lock(tenant text, rule text, keys text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number bigint;
BEGIN
    IF cardinality(keys) > 1000 THEN
        RAISE EXCEPTION 'one call locks at most 1000 keys, not %', cardinality(keys)
            USING ERRCODE = '22023';
    END IF;
    FOR number IN SELECT DISTINCT pawl.lock_number(pawl.key_hash(tenant, rule, k))
            FROM unnest(keys) k ORDER BY 1 LOOP
        PERFORM pg_advisory_xact_lock(number);
    END LOOP;
END $$;

-- The first token of a block. Who finds that they lag behind the clock (a restore, a failover, a
-- quiet night) lifts them, and the others wait for it: an old one might come again. Under a lock
-- for which one needs a right to write to that table, and which goes at once, not with the caller's
-- transaction. Not of its row, which a transaction with an older snapshot could not lock.
CREATE OR REPLACE FUNCTION pawl.new_token(now bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    token bigint := nextval('pawl.token');
BEGIN
    FOR i IN 1..1000 LOOP
        IF token + 1000000 >= now THEN
            RETURN token - 255;
        END IF;
        BEGIN
            LOCK TABLE pawl.store IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
            IF nextval('pawl.token') + 1000000 < now THEN
                PERFORM setval('pawl.token', now);
            END IF;
            RAISE SQLSTATE 'PW098';
        EXCEPTION
            WHEN SQLSTATE 'PW098' THEN NULL;
            WHEN lock_not_available THEN PERFORM pg_sleep(0.001);
        END;
        token := nextval('pawl.token');
    END LOOP;
    RAISE EXCEPTION 'another session lifts the tokens, and does not end' USING ERRCODE = '55P03';
END $$;

-- Deferred to COMMIT, savepoint or not: what this transaction began it has completed or released.
CREATE OR REPLACE FUNCTION pawl.refuse_open() RETURNS trigger LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    -- Each version of the row that is open has a trigger of its own: is this one the last?
    IF EXISTS (SELECT FROM pawl.record r WHERE r.ctid = NEW.ctid) THEN
        RAISE EXCEPTION
            'this transaction began key % of rule % and neither completed nor released it',
            encode(NEW.key, 'escape'), encode(NEW.rule, 'escape') USING ERRCODE = 'PW002',
            HINT = 'Call pawl.complete(token, ...) or pawl.release(token) before COMMIT.';
    END IF;
    RETURN NULL;
END $$;

DO $$ BEGIN
IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'pawl.record'::regclass
        AND t.tgname = 'record_open') THEN
    CREATE CONSTRAINT TRIGGER record_open AFTER INSERT OR UPDATE ON pawl.record
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (NEW.owner < 0 AND NEW.status = @PENDING@ AND NEW.lease_until > 0)
        EXECUTE FUNCTION pawl.refuse_open();
END IF;
-- Whatever session_replication_role is. What a replica applies has none at COMMIT that is open.
IF (SELECT t.tgenabled <> 'A' FROM pg_trigger t WHERE t.tgrelid = 'pawl.record'::regclass
        AND t.tgname = 'record_open') THEN
    ALTER TABLE pawl.record ENABLE ALWAYS TRIGGER record_open;
END IF;
END $$;
