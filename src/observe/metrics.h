/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics: what a gateway counts, and how Prometheus reads it (text format 0.0.4).
 *
 * One table of series: code, docs/metrics.md and the tests come from it. Whoever serves requests
 * counts with a few relaxed atomic additions: no lock, no allocation. Counters are kept by the
 * rule's name, so they survive a reload; the first METRICS_RULES_MAX names have series of their
 * own, all later ones share rule="(other)". What passes without a rule is rule="".
 *
 * Gauges are not kept here: whoever knows their value writes them on the page (page.h).
 */
#ifndef PAWL_OBSERVE_METRICS_H
#define PAWL_OBSERVE_METRICS_H

#include "base/buf.h"
#include "core/retry/retry_profiles.h"

#define METRICS_RULES_MAX 256 /* names with series of their own */

/* X(NAME, series, type, labels, help) */
#define METRICS(X)                                                                                 \
    X(REQUESTS, "pawl_requests_total", COUNTER, "rule,outcome",                                    \
      "Responses to clients, each counted once, by rule and outcome.")                             \
    X(REQUEST_DURATION, "pawl_request_duration_seconds", HISTOGRAM, "rule",                        \
      "Time from a request's headers to its response's headers, waiting included.")                \
    X(UPSTREAM_DURATION, "pawl_upstream_duration_seconds", HISTOGRAM, "rule",                      \
      "Duration of exchanges with the upstream, probes included.")                                 \
    X(PARTICIPANT_MISSING, "pawl_participant_missing_total", COUNTER, "rule",                      \
      "2xx responses under `unknown: participant` whose operation the service had not completed.") \
    X(HOLDS_ENDED, "pawl_holds_ended_total", COUNTER, "rule",                                      \
      "Holds of records in doubt that ended by `unknown: {hold: DURATION}`.")                      \
    X(UNPROVED, "pawl_unproved_total", COUNTER, "rule",                                            \
      "Operations begun without asking the service, while the store may lack records of them.")    \
    X(SQL_DECISIONS, "pawl_sql_decisions_total", COUNTER, "rule,decision",                         \
      "Decisions of the SQL functions for applications, as the store counts them.")                \
    X(PROBES, "pawl_background_probes_total", COUNTER, "result",                                   \
      "Probes in the background, for records whose outcome is unknown, by result.")                \
    X(RETRY_OPERATIONS, "pawl_retry_operations_total", COUNTER, "profile",                         \
      "Operations sent under a retry profile.")                                                    \
    X(RETRY_ATTEMPTS, "pawl_retry_attempts_total", COUNTER, "profile",                             \
      "Attempts after the first of an operation, by retry profile.")                               \
    X(RETRY_EXHAUSTED, "pawl_retry_exhausted_total", COUNTER, "profile",                           \
      "Operations that failed with no attempts, time or budget left to retry them.")               \
    X(JOBS, "pawl_jobs_total", COUNTER, "result",                                                  \
      "Jobs of `pawl run` and `pawl each`, by how they ended.")                                    \
    X(RETRY_DELAY, "pawl_retry_delay_seconds", HISTOGRAM, "",                                      \
      "Waits before attempts after the first.")                                                    \
    X(UPSTREAM_RESPONSES, "pawl_upstream_responses_total", COUNTER, "class",                       \
      "Responses of the upstream, on ruled and other routes, by status class.")                    \
    X(UPSTREAM_ERRORS, "pawl_upstream_errors_total", COUNTER, "reason",                            \
      "Requests to which the upstream gave no complete response, by reason.")                      \
    X(LIMITED, "pawl_limited_total", COUNTER, "reason",                                            \
      "Requests and connections refused by a limit of the gateway, by limit.")                     \
    X(IN_FLIGHT, "pawl_in_flight", GAUGE, "",                                                      \
      "Ruled requests that own an operation or wait for the store's decision.")                    \
    X(WAITING, "pawl_waiting", GAUGE, "", "Duplicates that wait for a first attempt.")             \
    X(CONNECTIONS, "pawl_connections", GAUGE, "", "Client connections.")                           \
    X(BUFFERED, "pawl_buffered_bytes", GAUGE, "", "Memory reserved for bodies of ruled requests.") \
    X(RECORDS, "pawl_records", GAUGE, "status", "Records in the store, by status.")                \
    X(STALE, "pawl_stale_records", GAUGE, "",                                                      \
      "Pending records whose lease has lapsed because their owner died.")                          \
    X(EXPIRED, "pawl_expired_records", GAUGE, "",                                                  \
      "Expired records that are not deleted yet, counted up to a bound.")                          \
    X(ROWS_HELD, "pawl_rows_held", GAUGE, "table",                                                 \
      "Rows that no pawl wrote, by table; of each at most 1,000 are counted.")                     \
    X(TASKS, "pawl_tasks", GAUGE, "kind,state",                                                    \
      "Tasks in the store, by state; of each at most 10,000 are counted.")                         \
    X(TASK_OLDEST, "pawl_task_oldest_seconds", GAUGE, "kind",                                      \
      "Age of the oldest task that is still to be delivered; 0 if there is none.")                 \
    X(TASK_WAIT, "pawl_task_wait_seconds", HISTOGRAM, "",                                          \
      "Waits of tasks, from when an attempt was due to its first byte.")                           \
    X(BREAKER_OPEN, "pawl_breaker_open", GAUGE, "lane",                                            \
      "Breakers of the courier that are not closed, by lane.")                                     \
    X(WEBHOOK_DELIVERIES, "pawl_webhook_deliveries_total", COUNTER, "endpoint,result",             \
      "Ends of attempts to send an event to an endpoint: done, failed (tried again) or dead.")     \
    X(ROSTER_UNSERVED, "pawl_roster_unserved", GAUGE, "name",                                      \
      "1 for an endpoint or source that no living process has, while something is for it.")        \
    X(IDENTITY_MOVED, "pawl_identity_moved", GAUGE, "rule",                                        \
      "1 for a rule that is refused here, as another gateway on the store moved its keys.")        \
    X(PROBE_FINDS_ALL, "pawl_probe_finds_all", GAUGE, "rule",                                      \
      "1 for a rule whose probe finds a key that cannot exist: nothing it finds is believed.")     \
    X(UNKNOWN_OLDEST, "pawl_unknown_oldest_seconds", GAUGE, "",                                    \
      "Age of the oldest record whose outcome is unknown; 0 if there is none.")                    \
    X(STORE_UP, "pawl_store_up", GAUGE, "",                                                        \
      "1 while the store takes new operations and responds in time.")                              \
    X(STORE_WEAKER, "pawl_store_weaker", GAUGE, "",                                                \
      "1 while a crash or failover could lose what the store acknowledged.")                       \
    X(STORE_WENT_BACK, "pawl_store_went_back_total", COUNTER, "",                                  \
      "Times this process noticed that the store lacks what it had acknowledged.")                 \
    X(STORE_QUEUED, "pawl_store_queued", GAUGE, "", "Operations that wait for the store.")         \
    X(STORE_FREE, "pawl_store_free_bytes", GAUGE, "",                                              \
      "Free space on the store's file system; NaN if unknown.")                                    \
    X(STORE_RESERVE, "pawl_store_reserve_bytes", GAUGE, "",                                        \
      "Free space below which no new operation begins; 0 if unknown.")                             \
    X(STORE_INFO, "pawl_store_info", GAUGE, "store",                                               \
      "Always 1; gateways on one store have the same label.")                                      \
    X(STORE_BATCHES, "pawl_store_batches_total", COUNTER, "",                                      \
      "Transactions that wrote; each is one sync of the disk.")                                    \
    X(STORE_OPERATIONS, "pawl_store_operations_total", COUNTER, "kind",                            \
      "Operations of the store, by whether their transaction wrote.")                              \
    X(STORE_COMMIT, "pawl_store_commit_duration_seconds", HISTOGRAM, "",                           \
      "Duration of transactions that wrote, from the first try to begin to the commit's return.")  \
    X(STORE_BATCH, "pawl_store_batch_operations", HISTOGRAM, "",                                   \
      "Operations in a transaction that wrote.")                                                   \
    X(STORE_CHECKPOINTS, "pawl_store_checkpoints_total", COUNTER, "", "Checkpoints of the WAL.")   \
    X(STORE_RETRIES, "pawl_store_retries_total", COUNTER, "reason",                                \
      "Transactions rolled back and tried again: disk full, or store locked by another process.")  \
    X(LOG_DROPPED, "pawl_log_lines_dropped_total", COUNTER, "",                                    \
      "Log lines dropped because whatever reads the log was too slow.")                            \
    X(ADMIN_REFUSED, "pawl_admin_refused_total", COUNTER, "status",                                \
      "Requests that the admin listener refused because of their sender.")                         \
    X(RELOAD_OK, "pawl_config_last_reload_successful", GAUGE, "",                                  \
      "1 if the last reload of the config succeeded.")                                             \
    X(RELOADS, "pawl_config_reloads_total", COUNTER, "result", "Reloads of the config.")           \
    X(BUILD_INFO, "pawl_build_info", GAUGE, "version,commit", "Always 1.")                         \
    X(CPU, "process_cpu_seconds_total", COUNTER, "", "User and system CPU time.")                  \
    X(RESIDENT, "process_resident_memory_bytes", GAUGE, "", "Resident memory.")                    \
    X(VIRTUAL, "process_virtual_memory_bytes", GAUGE, "", "Virtual memory.")                       \
    X(OPEN_FDS, "process_open_fds", GAUGE, "", "Open file descriptors.")                           \
    X(MAX_FDS, "process_max_fds", GAUGE, "", "File descriptors that may be open.")                 \
    X(START_TIME, "process_start_time_seconds", GAUGE, "", "Start of the process, Unix time.")     \
    X(MEMORY_LIMIT, "pawl_memory_limit_bytes", GAUGE, "",                                          \
      "Memory that the container of the process may use; 0: no limit below the machine's.")

enum metric {
#define X(name, ...) METRIC_##name,
    METRICS(X)
#undef X
        METRIC_COUNT
};

/* How an answer ended for its client (contract section 10; docs/decisions/0007 says what counts as
 * what). */
#define METRICS_OUTCOMES(X)                                                                        \
    X(CREATED, "created")         /* first attempt, done */                                        \
    X(REPLAYED, "replayed")       /* the kept outcome again */                                     \
    X(MISMATCH, "mismatch")       /* the key of another request */                                 \
    X(IN_PROGRESS, "in_progress") /* the first still runs */                                       \
    X(REJECTED, "rejected")       /* a duplicate under `duplicate: reject` */                      \
    X(ACKED, "acked")             /* a duplicate under `duplicate: ack` */                         \
    X(RELEASED, "released")       /* surely not done: the key is free again */                     \
    X(UNKNOWN, "unknown")         /* nobody knows whether it was done */                           \
    X(EXPIRED, "expired")         /* done, and the answer is no longer, or was not, kept */        \
    X(LIMITED, "limited")         /* too much at once, or shutting down */                         \
    X(STORE_DOWN, "store_down")   /* the store did not decide, or did not take the outcome */      \
    X(INVALID, "invalid")         /* refused for what the request is */                            \
    X(BYPASSED, "bypassed")       /* unsafe or with a key, and no rule protected it */             \
    X(PASSED, "passed")           /* safe and without a rule, or let by as its rule says */

enum metrics_outcome {
#define X(name, text) METRICS_##name,
    METRICS_OUTCOMES(X)
#undef X
        METRICS_OUTCOME_COUNT
};

/* Why the upstream gave no complete response. */
#define METRICS_FAILURES(X)                                                                        \
    X(REFUSED, "refused")         /* it refused the connection */                                  \
    X(UNREACHABLE, "unreachable") /* no connection for another cause: no route, no descriptor */   \
    X(TLS, "tls")                 /* no TLS handshake, so nothing was sent */                      \
    X(TIMEOUT, "timeout")         /* no connection, or no response, in time */                     \
    X(RESET, "reset")         /* it closed or reset the connection before its response ended */    \
    X(MALFORMED, "malformed") /* what it sent is not HTTP */

enum metrics_failure {
#define X(name, text) METRICS_FAILURE_##name,
    METRICS_FAILURES(X)
#undef X
        METRICS_FAILURE_COUNT
};

/* Which limit of the gateway refused. */
#define METRICS_LIMITS(X)                                                                          \
    X(IN_FLIGHT, "in_flight")     /* max_in_flight */                                              \
    X(TENANT, "tenant")           /* max_in_flight_per_tenant */                                   \
    X(WAITING, "waiting")         /* max_waiting, max_waiting_per_key, the store's queue */        \
    X(MEMORY, "memory")           /* max_buffered */                                               \
    X(CONNECTIONS, "connections") /* max_connections */                                            \
    X(ADDRESS, "address")         /* max_connections_per_address */

enum metrics_limit {
#define X(name, text) METRICS_LIMIT_##name,
    METRICS_LIMITS(X)
#undef X
        METRICS_LIMIT_COUNT
};

/* What a probe in the background came to. */
#define METRICS_PROBES(X)                                                                          \
    X(DONE, "done")                 /* it happened: the record is complete */                      \
    X(NOT_DONE, "not_done")         /* it did not: released */                                     \
    X(INCONCLUSIVE, "inconclusive") /* still unknown: no 2xx, and no 404 that counts yet */

enum metrics_probe {
#define X(name, text) METRICS_PROBE_##name,
    METRICS_PROBES(X)
#undef X
        METRICS_PROBE_COUNT
};

/* Upper bounds of the histograms' buckets: microseconds, and the same as the label `le`. */
#define METRICS_BUCKETS(X)                                                                         \
    X(1000, "0.001")                                                                               \
    X(2500, "0.0025")                                                                              \
    X(5000, "0.005")                                                                               \
    X(10000, "0.01")                                                                               \
    X(25000, "0.025")                                                                              \
    X(50000, "0.05")                                                                               \
    X(100000, "0.1")                                                                               \
    X(250000, "0.25")                                                                              \
    X(500000, "0.5")                                                                               \
    X(1000000, "1")                                                                                \
    X(2500000, "2.5")                                                                              \
    X(5000000, "5")                                                                                \
    X(10000000, "10")                                                                              \
    X(30000000, "30")

struct metrics;
struct metrics_rule;

/* No rule has been counted yet. NULL: no memory. */
struct metrics *metrics_new(void);
/* Accepts NULL. Nobody may count any more. */
void metrics_free(struct metrics *metrics);

/* Where requests of a rule are counted; "": of none. Never NULL; stays valid as long as metrics.
 * From any thread. A name that was never asked for before takes a lock and memory: ask for every
 * rule when a config comes into force, which also gives its series their zeros. */
struct metrics_rule *metrics_rule(struct metrics *metrics, struct slice name);

/* Counts one answer. From any thread. */
void metrics_count(struct metrics_rule *rule, enum metrics_outcome outcome);

/* Counts a duration in microseconds (below 0 counts as 0). From any thread. */
void metrics_request_took(struct metrics_rule *rule, int64_t span_us);
void metrics_upstream_took(struct metrics_rule *rule, int64_t span_us);

/* Counts an operation that its participant had not completed. From any thread. */
void metrics_participant_missed(struct metrics_rule *rule);

/* Counts a hold that ended by its rule. From any thread. */
void metrics_hold_ended(struct metrics_rule *rule);

/* Counts an operation that began while its record may be missing. From any thread. */
void metrics_begin_unproved(struct metrics_rule *rule);

/* Counts an operation under a profile, one more attempt and the wait before it, and the end of an
 * operation that could not be retried any more. From any thread. */
void metrics_retry_began(struct metrics *metrics, enum retry_profile profile);
void metrics_retried(struct metrics *metrics, enum retry_profile profile, int64_t wait_us);
void metrics_retry_exhausted(struct metrics *metrics, enum retry_profile profile);

/* What the store counts of a series: lines of samples, kept until the next ones, and shown behind
 * those of this process. Series of RETRY_* only. From any thread. */
void metrics_stored(struct metrics *metrics, enum metric metric, struct slice samples);

/* Counts a response of the upstream (100 to 999; 600 and above as 5xx), or why there was none. From
 * any thread. */
void metrics_upstream_responded(struct metrics *metrics, int status);
void metrics_upstream_failed(struct metrics *metrics, enum metrics_failure failure);

/* Counts a refusal by a limit. From any thread. */
void metrics_limited(struct metrics *metrics, enum metrics_limit limit);

/* Counts a probe in the background. From any thread. */
void metrics_probed(struct metrics *metrics, enum metrics_probe result);

/* Counts a caller whom the admin listener refused with 401 or 403. From any thread. */
void metrics_admin_refused(struct metrics *metrics, int status);

/* Counts a reload of the config. From any thread. */
void metrics_reloaded(struct metrics *metrics, bool successful);

#endif
