/* SPDX-License-Identifier: Apache-2.0 */
/* A record in every state it can be found in at NOW. */
#ifndef PAWL_TESTS_RECORD_STATES_H
#define PAWL_TESTS_RECORD_STATES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/record.h"

#define NOW (INT64_C(1000) * CLOCK_US_PER_S)
#define SECOND CLOCK_US_PER_S
#define LEASE (30 * SECOND)
#define TTL (3600 * SECOND)
#define SETTLE (20 * SECOND)
#define TOKEN 500
#define NEXT 501
#define SELF 7
#define OTHER 8

enum state {
    ABSENT,
    RELEASED,
    LIVE,   /* of another process */
    OWN,    /* of this process, its lease long past by the clock */
    LAPSED, /* of another process */
    UNKNOWN,
    COMPLETE,
    FAILED,
    NOT_KEPT,
    TOMBSTONE,
    GONE_FINAL,
    GONE_RELEASED,
    OWN_PROBE,
    LAPSED_PROBE,
    RELEASED_IN_DOUBT,
    PROVISIONAL,     /* of another process */
    OWN_PROVISIONAL, /* of this process, its lease long past by the clock */
    LAPSED_PROVISIONAL,
    STATES,
};

static inline const char *state_name(enum state state)
{
    static const char *const names[STATES] = {
        "absent",      "released",        "live",
        "own",         "lapsed",          "unknown",
        "complete",    "failed",          "not kept",
        "tombstone",   "gone final",      "gone released",
        "own probe",   "lapsed probe",    "released in doubt",
        "provisional", "own provisional", "lapsed provisional",
    };
    return names[state];
}

static inline struct record_world world_now(int64_t now)
{
    return (struct record_world){.now = now, .self = SELF};
}

static inline struct digest hash_of(unsigned char byte)
{
    struct digest digest;
    memset(digest.bytes, byte, sizeof digest.bytes);
    return digest;
}

static inline struct record_begin a_begin(enum record_unknown unknown)
{
    struct record_begin begin = {.payload_hash = hash_of(1),
                                 .target_hash = hash_of(2),
                                 .lease_us = LEASE,
                                 .ttl_us = TTL,
                                 .unknown = unknown};
    memset(begin.attempt_id, 0x22, sizeof begin.attempt_id);
    return begin;
}

static inline void make_pending(struct record *record, int64_t owner, int64_t lease_until)
{
    record->status = RECORD_PENDING;
    record->owner = owner;
    record->lease_until = lease_until;
}

static inline void make_final(struct record *record, enum record_status status, int64_t expires_at,
                              int64_t gone_at)
{
    record->status = status;
    record->kept = true;
    record->http_status = status == RECORD_FAILED ? 422 : 201;
    record->expires_at = expires_at;
    record->gone_at = gone_at;
}

static inline void make_settled(struct record *record, enum state state)
{
    switch (state) {
    case COMPLETE:
    case NOT_KEPT:
        make_final(record, RECORD_COMPLETE, NOW + 1, NOW + 1);
        record->kept = state == COMPLETE;
        return;
    case FAILED:
        make_final(record, RECORD_FAILED, NOW + 1, NOW + 1);
        return;
    case TOMBSTONE:
        make_final(record, RECORD_COMPLETE, NOW, NOW + 1);
        return;
    case GONE_FINAL:
        make_final(record, RECORD_COMPLETE, NOW - 1, NOW);
        return;
    case RELEASED:
    case RELEASED_IN_DOUBT:
    case GONE_RELEASED:
        make_pending(record, SELF, 0);
        record->expires_at = state == GONE_RELEASED ? NOW : NOW + 1;
        return;
    default:
        fail();
    }
}

/* What a participant stored while its owner's lease lived. */
static inline void make_provisional(struct record *record, int64_t owner, int64_t lease_until)
{
    make_final(record, RECORD_COMPLETE, CLOCK_NEVER, CLOCK_NEVER);
    record->provisional = true;
    record->owner = owner;
    record->lease_until = lease_until;
    record->lapsed_at = lease_until <= NOW ? lease_until : 0;
}

static inline struct record make(enum state state, enum record_unknown unknown)
{
    struct record record = {0};
    record.payload_hash = hash_of(1);
    record.target_hash = hash_of(2);
    record.token = TOKEN;
    memset(record.attempt_id, 0x11, sizeof record.attempt_id);
    record.attempts = 3;
    record.created_at = NOW - 50 * SECOND;
    record.started_at = NOW - 40 * SECOND;
    record.lease_us = LEASE;
    record.unknown = unknown;
    record.ttl_us = TTL;
    record.probing = state == OWN_PROBE || state == LAPSED_PROBE;
    record.doubt = record.probing || state == UNKNOWN || state == RELEASED_IN_DOUBT;
    switch (state) {
    case ABSENT:
        return (struct record){.status = RECORD_ABSENT};
    case LIVE:
        make_pending(&record, OTHER, NOW + 1);
        break;
    case OWN:
    case OWN_PROBE:
        make_pending(&record, SELF, NOW - 5 * SECOND);
        break;
    case LAPSED:
    case LAPSED_PROBE:
        make_pending(&record, OTHER, NOW);
        record.lapsed_at = NOW;
        break;
    case UNKNOWN:
        record.status = RECORD_UNKNOWN;
        break;
    case PROVISIONAL:
        make_provisional(&record, OTHER, NOW + 1);
        break;
    case OWN_PROVISIONAL:
        make_provisional(&record, SELF, NOW - 5 * SECOND);
        break;
    case LAPSED_PROVISIONAL:
        make_provisional(&record, OTHER, NOW);
        break;
    default:
        make_settled(&record, state);
    }
    return record;
}

static inline bool same_bytes(const struct record *a, const struct record *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

#endif
