# SPDX-License-Identifier: Apache-2.0
"""The usual hand-written tables and statements, verbatim as contracts for idempotency publish them:
sql/test_handwritten.py runs them on PostgreSQL, fault/test_handwritten_sqlite.py on SQLite."""

KEYS = """
CREATE TABLE idempotency_keys (
  key TEXT PRIMARY KEY,
  payload_hash TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending','complete','failed')),
  result_ref TEXT,            -- e.g., refund id or serialized response
  http_code INT,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  expires_at TIMESTAMPTZ NOT NULL,
  UNIQUE (key)
);
"""

INBOX = """
CREATE TABLE inbox_events (
  event_id TEXT PRIMARY KEY,
  source TEXT NOT NULL,
  payload_hash TEXT NOT NULL,
  received_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  processed_at TIMESTAMPTZ,
  result TEXT
);
"""

JOB = """
INSERT INTO matchmaking_jobs (batch_date, timezone, user_id, job_type, status, offers, \
idempotency_key)
VALUES ('2026-02-19', 'America/New_York', 'user-123', 'daily_offers', 'running', NULL, \
'2026-02-19:America/New_York:user-123:daily_offers')
ON CONFLICT (batch_date, timezone, user_id, job_type) DO
  UPDATE SET status = 'running', attempt_count = matchmaking_jobs.attempt_count + 1
  WHERE matchmaking_jobs.status != 'completed';
"""

PREFERENCE = """
INSERT INTO user_preferences (user_id, preference, value)
VALUES ('user-123', 'notifications', true)
ON CONFLICT (user_id, preference)
DO UPDATE SET value = EXCLUDED.value, updated_at = NOW();
"""

ACCEPT = """
UPDATE match_offers
SET status = 'accepted', accepted_at = NOW()
WHERE id = 'offer-123'
  AND status = 'offered';  -- Condition prevents re-execution
"""

SEEK = """
SELECT id FROM messages
WHERE client_message_id = 'client-uuid'
  AND created_at > NOW() - INTERVAL '24 hours';
"""

SAY = """
INSERT INTO messages (id, match_id, sender_id, content, client_message_id)
VALUES (gen_random_uuid(), 'match-123', 'user-123', 'Hello!', 'client-uuid')
ON CONFLICT (client_message_id) DO NOTHING
RETURNING id;
"""
