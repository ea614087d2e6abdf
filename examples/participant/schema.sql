-- SPDX-License-Identifier: Apache-2.0
CREATE TABLE IF NOT EXISTS payments(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account text NOT NULL,
    amount bigint NOT NULL,
    client_key text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now());
