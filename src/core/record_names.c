/* SPDX-License-Identifier: Apache-2.0 */
/* What a record's status and policy are called, and what a response makes of it. */
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
