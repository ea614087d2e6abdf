/* SPDX-License-Identifier: Apache-2.0 */
/* One log line an exchange, with its identity and how it ended (contract section 10). */
#include "gateway/exchange.h"

#define TENANT_HASH_BYTES 8

static enum log_level level_of(const struct exchange *x)
{
    if (x->status >= 500)
        return LOG_LEVEL_WARN;
    return LOG_LEVEL_INFO;
}

void exchange_log(const struct exchange *x)
{
    struct log *log = x->server->config->log;
    if (!log)
        return;
    struct log_line line;
    log_line_start(&line, level_of(x), "request");
    log_line_str(&line, "rule", x->rule->name);
    if (x->tenant.len > 0) {
        struct slice tenant = buf_slice(&x->tenant);
        struct digest digest = digest_keyed(store_secret(x->server->config->store), &tenant, 1);
        log_line_hex(&line, "tenant_hash", digest.bytes, TENANT_HASH_BYTES);
    }
    if (x->key.len > 0)
        log_line_str(&line, "idempotency_key", buf_slice(&x->key));
    if (x->payload_hex[0])
        log_line_str(&line, "payload_hash", slice_of(x->payload_hex));
    log_line_i64(&line, "status", x->status);
    if (x->outcome)
        log_line_str(&line, "idempotency_status", slice_of(x->outcome));
    if (x->attempt.op.record.attempts > 0) {
        log_line_i64(&line, "attempt", x->attempt.op.record.attempts);
        log_line_str(&line, "to_state", slice_of(record_status_name(x->attempt.op.record.status)));
    }
    if (x->error != ERROR_NONE)
        log_line_str(&line, "error_code", slice_of(error_row(x->error)->code));
    log_line_i64(&line, "duration_us", clock_boot_us() - x->started);
    log_line_end(log, &line);
}
