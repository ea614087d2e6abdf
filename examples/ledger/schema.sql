-- SPDX-License-Identifier: Apache-2.0
-- The tables of the credit ledger. Run it as their owner, after `pawl schema postgres | psql`; then
-- admit the service's role: SELECT pawl.admit('ledger').
BEGIN;
SET LOCAL search_path = public;

CREATE TABLE receipts(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, merchant text NOT NULL,
    external_ref text NOT NULL, user_id text NOT NULL, amount bigint NOT NULL CHECK (amount > 0),
    created_at timestamptz NOT NULL DEFAULT now(), UNIQUE (merchant, external_ref));

CREATE TABLE lots(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, merchant text NOT NULL,
    user_id text NOT NULL, source text NOT NULL, credits bigint NOT NULL CHECK (credits > 0),
    expires_at timestamptz NOT NULL, expired_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now());

CREATE TABLE operations(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, merchant text NOT NULL,
    user_id text NOT NULL, code text NOT NULL, cost bigint,
    status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'recorded', 'closed', 'expired')),
    opened_at timestamptz NOT NULL DEFAULT now(), closes_at timestamptz NOT NULL,
    closed_at timestamptz);

CREATE TABLE grants(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, merchant text NOT NULL, kind text NOT NULL,
    ref text NOT NULL, user_id text NOT NULL, credits bigint NOT NULL CHECK (credits > 0),
    created_at timestamptz NOT NULL DEFAULT now(), UNIQUE (merchant, kind, ref));

CREATE TABLE adjustments(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, merchant text NOT NULL, ref text NOT NULL,
    user_id text NOT NULL, amount bigint NOT NULL CHECK (amount <> 0),
    created_at timestamptz NOT NULL DEFAULT now(), UNIQUE (merchant, ref));

CREATE TABLE products(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, merchant text NOT NULL,
    product_code text NOT NULL, price bigint NOT NULL CHECK (price >= 0), archived_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(), UNIQUE (merchant, product_code));

CREATE TABLE operation_types(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, merchant text NOT NULL,
    operation_code text NOT NULL, rate bigint NOT NULL CHECK (rate >= 0),
    effective_at timestamptz NOT NULL, archived_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(), UNIQUE (merchant, operation_code, effective_at));

-- Money that goes back: refunds by the merchant, chargebacks by the bank.
CREATE TABLE returns(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, merchant text NOT NULL, kind text NOT NULL,
    external_ref text NOT NULL, receipt bigint NOT NULL REFERENCES receipts(id),
    amount bigint NOT NULL CHECK (amount > 0), created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (merchant, kind, external_ref));

-- What counts: an account's balance is the sum of its entries. A correction is another entry.
CREATE TABLE entries(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, merchant text NOT NULL,
    user_id text NOT NULL, amount bigint NOT NULL CHECK (amount <> 0), kind text NOT NULL,
    ref text NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE INDEX entries_account ON entries(merchant, user_id);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is only added to: correct it by another row', TG_TABLE_NAME;
END $$;
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Each command, in its transaction, with what came of it: new, replay, duplicate, mismatch ...
CREATE TABLE audit(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(),
    merchant text NOT NULL, command text NOT NULL, result text NOT NULL, body jsonb NOT NULL);
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

COMMIT;
