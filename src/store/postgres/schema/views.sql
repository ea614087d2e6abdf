-- SPDX-License-Identifier: Apache-2.0
-- For people and programs: the records, as idempotency_keys of an SQLite store shows them.
-- Whoever reads it holds it: it is tried for half a minute.
DO $$
BEGIN
    FOR try IN REVERSE 30..1 LOOP
        BEGIN
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
        FROM pawl.record r WHERE r.status IN (@PENDING@, @UNKNOWN@)
            OR r.gone_at > (extract(epoch FROM now()) * 1000000)::bigint;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF try = 1 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END $$;

INSERT INTO pawl.store AS s (format, revision, secret) VALUES (
    current_setting('pawl.format')::integer, current_setting('pawl.revision')::integer,
    sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text,
    'UTF8')))
ON CONFLICT (single) DO UPDATE SET format = excluded.format, revision = excluded.revision
    WHERE (s.format, s.revision) <> (excluded.format, excluded.revision);
COMMIT;
