/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include <stddef.h>

#define OPERATION "($1::json ->> 'operation')::bigint"
#define LIVE                                                                                       \
    "SELECT status, greatest(0, round(extract(epoch FROM closes_at - now())))::int"                \
    " FROM operations WHERE id = " OPERATION

/* Applies a grant: its row, a lot and an entry; nothing where the grant is there. */
#define GRANT(kind)                                                                                \
    "WITH made AS (INSERT INTO grants(merchant, kind, ref, user_id, credits)"                      \
    "  VALUES ($1, '" kind "', $2, $3, $4::bigint) ON CONFLICT DO NOTHING RETURNING *),"           \
    " lot AS (INSERT INTO lots(merchant, user_id, source, credits, expires_at)"                    \
    "  SELECT merchant, user_id, kind, credits, now() + interval '90 days' FROM made),"            \
    " entry AS (INSERT INTO entries(merchant, user_id, amount, kind, ref)"                         \
    "  SELECT merchant, user_id, credits, kind || ' grant', ref FROM made)"                        \
    " SELECT row_to_json(made) FROM made"
#define GRANTED(kind)                                                                              \
    "SELECT row_to_json(g) FROM grants g WHERE merchant = $1 AND kind = '" kind "' AND ref = $2"

/* An adjustment by that sign. */
#define ADJUST(sign)                                                                               \
    "WITH made AS (INSERT INTO adjustments(merchant, ref, user_id, amount)"                        \
    "  VALUES ($1, $2, $3, " sign "$4::bigint) ON CONFLICT DO NOTHING RETURNING *),"               \
    " entry AS (INSERT INTO entries(merchant, user_id, amount, kind, ref)"                         \
    "  SELECT merchant, user_id, amount, 'adjustment', ref FROM made)"                             \
    " SELECT row_to_json(made) FROM made"
#define ADJUSTED "SELECT row_to_json(a) FROM adjustments a WHERE merchant = $1 AND ref = $2"

/* Money of a receipt goes back, by a compensating entry. */
#define RETURN(kind)                                                                               \
    "WITH paid AS (SELECT id, user_id FROM receipts"                                               \
    "  WHERE merchant = $1 AND external_ref = $3),"                                                \
    " made AS (INSERT INTO returns(merchant, kind, external_ref, receipt, amount)"                 \
    "  SELECT $1, '" kind "', $2, id, $4::bigint FROM paid ON CONFLICT DO NOTHING RETURNING *),"   \
    " entry AS (INSERT INTO entries(merchant, user_id, amount, kind, ref)"                         \
    "  SELECT $1, paid.user_id, -made.amount, made.kind, made.external_ref FROM made, paid)"       \
    " SELECT row_to_json(made) FROM made"
#define RETURNED(kind)                                                                             \
    "SELECT row_to_json(r) FROM returns r WHERE merchant = $1 AND kind = '" kind "'"               \
    " AND external_ref = $2"

const struct command commands[] = {
    /* ---- tier 1: what applications send; a duplicate gets the first response ---- */
    {
        .name = "Purchase.Settled",
        .pattern = NATURAL_KEY,
        .key = "external_ref",
        .fields = {"external_ref", "user_id", "amount"},
        .sql = "WITH lot AS (INSERT INTO lots(merchant, user_id, source, credits, expires_at)"
               "  VALUES ($1, $3, 'purchase', $4::bigint, now() + interval '1 year') RETURNING id),"
               " receipt AS (INSERT INTO receipts(merchant, external_ref, user_id, amount)"
               "  VALUES ($1, $2, $3, $4::bigint) RETURNING id),"
               " entry AS (INSERT INTO entries(merchant, user_id, amount, kind, ref)"
               "  VALUES ($1, $3, $4::bigint, 'purchase', $2))"
               " SELECT json_build_object('lot', lot.id, 'receipt', receipt.id, 'credits',"
               "  $4::bigint) FROM lot, receipt",
    },
    {
        .name = "Operation.Open",
        .pattern = EXPLICIT_KEY,
        .fields = {"user_id", "code", "timeout_s"},
        .sql = "INSERT INTO operations(merchant, user_id, code, closes_at)"
               " VALUES ($1, $2, $3, now() + make_interval(secs => $4::int))"
               " RETURNING json_build_object('operation', id, 'status', status,"
               "  'opened_at', opened_at, 'timeout_s', $4::int)",
        .live = LIVE,
    },
    {
        .name = "Operation.RecordAndClose",
        .pattern = EXPLICIT_KEY,
        .fields = {"operation", "cost"},
        .sql = "WITH op AS (UPDATE operations SET status = 'recorded', cost = $3::bigint"
               "  WHERE merchant = $1 AND id = $2::bigint AND status = 'open' RETURNING *),"
               " entry AS (INSERT INTO entries(merchant, user_id, amount, kind, ref)"
               "  SELECT merchant, user_id, -cost, 'operation', id::text FROM op RETURNING id)"
               " SELECT json_build_object('operation', op.id, 'debited', op.cost,"
               "  'entry', entry.id) FROM op, entry",
        .existing =
            "SELECT row_to_json(o) FROM operations o WHERE merchant = $1 AND id = $2::bigint",
        .after = "UPDATE operations SET status = 'closed', closed_at = now()"
                 " WHERE id = " OPERATION " AND status = 'recorded'",
        .live = LIVE,
    },
    {
        .name = "Grant.Apply.welcome",
        .pattern = NATURAL_KEY,
        .key = "user_id",
        .fields = {"user_id", "user_id", "credits"}, /* one a user: the user is its ref */
        .sql = GRANT("welcome"),
    },

    /* ---- tier 2: what people and jobs do; a duplicate is an error that shows the row ---- */
    {
        .name = "Grant.Apply.promo",
        .pattern = CONSTRAINT,
        .fields = {"ref", "user_id", "credits"},
        .sql = GRANT("promo"),
        .existing = GRANTED("promo"),
    },
    {
        .name = "Grant.Apply.admin",
        .pattern = CONSTRAINT,
        .fields = {"ref", "user_id", "credits"},
        .sql = GRANT("admin"),
        .existing = GRANTED("admin"),
    },
    {
        .name = "CreditAdjustment.Apply",
        .pattern = CONSTRAINT,
        .fields = {"ref", "user_id", "amount"},
        .sql = ADJUST(""),
        .existing = ADJUSTED,
    },
    {
        .name = "DebitAdjustment.Apply",
        .pattern = CONSTRAINT,
        .fields = {"ref", "user_id", "amount"},
        .sql = ADJUST("-"),
        .existing = ADJUSTED,
    },
    {
        .name = "Product.Create",
        .pattern = CONSTRAINT,
        .fields = {"product_code", "price"},
        .sql = "WITH made AS (INSERT INTO products(merchant, product_code, price)"
               "  VALUES ($1, $2, $3::bigint) ON CONFLICT DO NOTHING RETURNING *)"
               " SELECT row_to_json(made) FROM made",
        .existing = "SELECT row_to_json(p) FROM products p WHERE merchant = $1"
                    " AND product_code = $2",
    },
    {
        .name = "Product.Archive",
        .pattern = REPEATABLE,
        .fields = {"product_code"},
        .sql = "WITH made AS (UPDATE products SET archived_at = now() WHERE merchant = $1"
               "  AND product_code = $2 AND archived_at IS NULL RETURNING *)"
               " SELECT row_to_json(made) FROM made",
        .existing = "SELECT row_to_json(p) FROM products p WHERE merchant = $1"
                    " AND product_code = $2",
    },
    {
        .name = "OperationType.CreateWithArchival",
        .pattern = CONSTRAINT,
        .fields = {"operation_code", "effective_at", "rate"},
        .sql = "WITH made AS (INSERT INTO operation_types(merchant, operation_code, effective_at,"
               "   rate) VALUES ($1, $2, $3::timestamptz, $4::bigint)"
               "  ON CONFLICT DO NOTHING RETURNING *),"
               " former AS (UPDATE operation_types t SET archived_at = made.effective_at FROM made"
               "  WHERE t.merchant = made.merchant AND t.operation_code = made.operation_code"
               "  AND t.archived_at IS NULL AND t.effective_at < made.effective_at)"
               " SELECT row_to_json(made) FROM made",
        .existing = "SELECT row_to_json(t) FROM operation_types t WHERE merchant = $1"
                    " AND operation_code = $2 AND effective_at = $3::timestamptz",
    },
    {
        .name = "Refund.Apply",
        .pattern = CONSTRAINT,
        .fields = {"external_ref", "purchase_ref", "amount"},
        .sql = RETURN("refund"),
        .existing = RETURNED("refund"),
    },
    {
        .name = "Chargeback.Apply",
        .pattern = CONSTRAINT,
        .fields = {"external_ref", "purchase_ref", "amount"},
        .sql = RETURN("chargeback"),
        .existing = RETURNED("chargeback"),
    },
    {
        .name = "Operation.Cleanup",
        .pattern = REPEATABLE,
        .sql = "WITH closed AS (UPDATE operations SET status = 'closed', closed_at = now()"
               "  WHERE merchant = $1 AND status = 'recorded' RETURNING id),"
               " expired AS (UPDATE operations SET status = 'expired'"
               "  WHERE merchant = $1 AND status = 'open' AND closes_at <= now() RETURNING id)"
               " SELECT json_build_object('closed', (SELECT count(*) FROM closed),"
               "  'expired', (SELECT count(*) FROM expired))",
    },
    {
        .name = "Lot.Expire", /* what is left of a lot is at most the balance */
        .pattern = REPEATABLE,
        .sql = "WITH due AS (UPDATE lots SET expired_at = now() WHERE merchant = $1"
               "  AND expired_at IS NULL AND expires_at <= now() RETURNING user_id, credits),"
               " expired AS (SELECT user_id, sum(credits) AS credits FROM due GROUP BY user_id),"
               " entry AS (INSERT INTO entries(merchant, user_id, amount, kind, ref)"
               "  SELECT $1, x.user_id, -least(x.credits, b.credits), 'expiry', 'lots'"
               "  FROM expired x JOIN (SELECT user_id, sum(amount) AS credits FROM entries"
               "   WHERE merchant = $1 GROUP BY user_id) b USING (user_id) WHERE b.credits > 0)"
               " SELECT json_build_object('lots', (SELECT count(*) FROM due))",
    },
    {.name = NULL},
};
