/* SPDX-License-Identifier: Apache-2.0 */
/* What a record's status, policy and cause are called, and what a response makes of it. */
#include "base/check.h"
#include "core/record.h"

enum record_status record_status_of(int http_status)
{
    return http_status >= 400 && http_status < 500 ? RECORD_FAILED : RECORD_COMPLETE;
}

void record_note_cause(struct record *record, int cause)
{
    if (record->doubt && cause != RECORD_CAUSE_NONE)
        record->cause = cause;
}

void record_cause_write(int cause, struct buf *buf)
{
    static const char *const names[] = {
        [RECORD_CAUSE_NONE] = "",           [RECORD_CAUSE_RESET] = "reset",
        [RECORD_CAUSE_TIMEOUT] = "timeout", [RECORD_CAUSE_MALFORMED] = "malformed",
        [RECORD_CAUSE_LAPSED] = "lapsed",   [RECORD_CAUSE_REFUSED] = "token_stale",
        [RECORD_CAUSE_ODD] = "odd_row",     [RECORD_CAUSE_HOLD_ENDED] = "hold_ended",
    };
    if (cause >= 100)
        buf_printf(buf, "status %d", cause);
    else if (cause >= 0 && (size_t)cause < sizeof names / sizeof *names)
        buf_add_str(buf, names[cause]);
}

const char *record_unknown_name(enum record_unknown policy)
{
    static const char *const names[] = {"hold", "retry", "probe", "participant"};
    CHECK(policy <= RECORD_UNKNOWN_PARTICIPANT);
    return names[policy];
}

const char *record_status_name(enum record_status status)
{
    static const char *const names[] = {"absent", "pending", "complete", "failed", "unknown"};
    CHECK(status <= RECORD_UNKNOWN);
    return names[status];
}
