/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of commands (its rows: commands.c; look-ups: command_find.c) and of their options.
 * From it come the parsing of command lines, `-h`, `pawl help`, the man page and the completion of
 * bash; nothing of it is written a second time.
 *
 * A new command is a line of COMMANDS, a row of commands.c and a command_run, which gets what
 * follows its name (at.at[0] is its last word) and returns an exit code of core/errors.h.
 * Help goes to stdout, complaints to stderr.
 *
 * The commands, a room for what belongs together: src/cli/keys/keys.c, src/cli/keys/store.c and
 * src/cli/keys/store_restored.c (records), src/cli/tasks/queue.c (`stats`, too) and
 * src/cli/tasks/webhook.c (what is kept to be sent), src/cli/jobs/run.c and src/cli/jobs/each.c;
 * alone are src/cli/backoff.c, src/cli/config_explain.c, src/cli/demo.c, src/cli/errors.c,
 * src/cli/hash.c, src/cli/schema.c, src/cli/send.c, src/cli/serve.c and src/cli/main.c. What
 * commands of several rooms use is in src/cli/lib.
 */
#ifndef PAWL_CLI_COMMAND_H
#define PAWL_CLI_COMMAND_H

#include "base/buf.h"
#include "base/headers.h"
#include "core/errors.h"

/* COMMAND(name, run), GROUP(name): a group comes before its commands. */
#define COMMANDS(COMMAND, GROUP)                                                                   \
    COMMAND(serve, command_serve)                                                                  \
    COMMAND(send, command_send)                                                                    \
    GROUP(queue)                                                                                   \
    COMMAND(queue_add, command_queue)                                                              \
    COMMAND(queue_list, command_queue)                                                             \
    COMMAND(queue_show, command_queue)                                                             \
    COMMAND(queue_edit, command_queue)                                                             \
    COMMAND(queue_retry, command_queue)                                                            \
    COMMAND(queue_drop, command_queue)                                                             \
    COMMAND(queue_settle, command_queue)                                                           \
    COMMAND(queue_pause, command_queue)                                                            \
    COMMAND(queue_resume, command_queue)                                                           \
    COMMAND(queue_drain, command_queue)                                                            \
    COMMAND(queue_audit, command_queue)                                                            \
    COMMAND(run, command_run_job)                                                                  \
    COMMAND(each, command_each)                                                                    \
    GROUP(keys)                                                                                    \
    COMMAND(keys_list, command_keys)                                                               \
    COMMAND(keys_show, command_keys)                                                               \
    COMMAND(keys_resolve, command_keys)                                                            \
    COMMAND(keys_release, command_keys)                                                            \
    COMMAND(keys_forget, command_keys)                                                             \
    COMMAND(keys_succeeded, command_keys)                                                          \
    COMMAND(keys_stats, command_keys)                                                              \
    COMMAND(keys_audit, command_keys)                                                              \
    COMMAND(stats, command_queue)                                                                  \
    GROUP(webhook)                                                                                 \
    COMMAND(webhook_publish, command_queue)                                                        \
    COMMAND(webhook_list, command_queue)                                                           \
    COMMAND(webhook_show, command_queue)                                                           \
    COMMAND(webhook_replay, command_queue)                                                         \
    COMMAND(webhook_drop, command_queue)                                                           \
    COMMAND(webhook_audit, command_queue)                                                          \
    COMMAND(webhook_endpoint, command_queue)                                                       \
    COMMAND(webhook_sign, command_webhook)                                                         \
    COMMAND(webhook_verify, command_webhook)                                                       \
    COMMAND(webhook_listen, command_webhook)                                                       \
    GROUP(inbox)                                                                                   \
    COMMAND(inbox_list, command_queue)                                                             \
    COMMAND(inbox_show, command_queue)                                                             \
    COMMAND(inbox_replay, command_queue)                                                           \
    COMMAND(inbox_drop, command_queue)                                                             \
    COMMAND(inbox_remove, command_queue)                                                           \
    COMMAND(inbox_audit, command_queue)                                                            \
    GROUP(store)                                                                                   \
    COMMAND(store_freeze, command_store)                                                           \
    COMMAND(store_thaw, command_store)                                                             \
    COMMAND(store_restored, command_store_restored)                                                \
    COMMAND(store_show, command_store)                                                             \
    COMMAND(store_audit, command_queue)                                                            \
    COMMAND(hash, command_hash)                                                                    \
    GROUP(config)                                                                                  \
    COMMAND(config_explain, command_config_explain)                                                \
    COMMAND(schema, command_schema)                                                                \
    COMMAND(errors, command_errors)                                                                \
    COMMAND(backoff, command_backoff)                                                              \
    COMMAND(demo, command_demo)                                                                    \
    COMMAND(help, command_help)                                                                    \
    COMMAND(version, command_version)

/*
 * X(id, name, letter, argument, type, help)
 *   letter: of the short form; 0: there is none
 *   argument: what the help calls it; NULL: takes none. FILE and PATH are completed as such; [=D]:
 *     one may follow, as `--wait=D`
 *   type: what it takes (enum flag_form), with what bounds
 *     ANY                 a text, or nothing
 *     LIST(most)          a text each time; it may be repeated, `most` times or (0) at will
 *     WORDS(words)        one of them, divided by '|'
 *     INT(least, most)
 *     SPAN(least, most)   a duration in microseconds; FOREVER: CLOCK_NEVER, also where the value
 *                         of one that may be left out is
 *     SPAN_OR(word, least, most)  the same, where the word means forever
 *     SECONDS             a time-out: seconds as curl takes them, or a duration
 *     TIME                a point in time, after 1970
 *     PROFILE             the name of a retry profile
 */
#define FLAGS(X)                                                                                   \
    X(CONFIG, "config", 'c', "FILE", ANY, "the config, YAML")                                      \
    X(TEST, "test", 't', NULL, ANY,                                                                \
      "check the config, print its warnings, and exit; the store and ports are not tested")        \
    X(TEST_STRICT, "strict", 0, NULL, ANY, "with --test: exit with 1 if there are warnings")       \
    X(SERVE_STORE, "store", 0, "PATH", ANY,                                                        \
      "the SQLite file of the records, or postgres://USER@HOST/DATABASE (default: store: of the "  \
      "config, $PAWL_STORE, "                                                                      \
      "$XDG_STATE_HOME/pawl/pawl.db)")                                                             \
    X(DEMO, "demo", 0, NULL, ANY,                                                                  \
      "also start `pawl demo` at the config's upstream address; it outlives the gateway, and "     \
      "the next start uses it")                                                                    \
    X(STORE, "store", 0, "PATH", ANY,                                                              \
      "the store, a file or a URL (default: $PAWL_STORE, $XDG_STATE_HOME/pawl/pawl.db)")           \
    X(STATUS, "status", 0, "S", WORDS(KEYS_STATUS_NAMES), "only records of this status")           \
    X(LAPSED, "lapsed", 0, NULL, ANY,                                                              \
      "only pending records whose lease has expired: the owner stopped renewing it")               \
    X(UNKNOWN, "unknown", 0, NULL, ANY,                                                            \
      "all records of --rule in doubt: unknown, lapsed, or released in doubt")                     \
    X(BEFORE, "before", 0, "T", TIME,                                                              \
      "with --unknown: last tried or probed before T (2026-01-31T12:00:00Z)")                      \
    X(TENANT, "tenant", 0, "T", ANY,                                                               \
      "only records of this tenant, or of the tenant with this tenant_hash in the log (\"\": no "  \
      "tenant)")                                                                                   \
    X(RULE, "rule", 0, "R", ANY, "only records of this rule")                                      \
    X(KEY, "key", 0, "K", ANY, "only records with this key")                                       \
    X(ONCE, "once", 0, "VALUE", ANY,                                                               \
      "only records with this once value, as the log shows it or as the client sent it")           \
    X(LIMIT, "limit", 0, "N", INT(1, 1000000), "at most N rows (default 1000)")                    \
    X(JSON, "json", 0, NULL, ANY, "print JSON")                                                    \
    X(PRINT_BODY, "body", 0, NULL, ANY, "print only the stored response body")                     \
    X(TOKEN, "token", 0, "N", INT(1, KEYS_TOKEN_MOST),                                             \
      "the record's token, from `pawl keys show`; a stale one changes nothing")                    \
    X(FORCE, "force", 0, NULL, ANY,                                                                \
      "even if the record is in use; only if you are certain that its owner is dead")              \
    X(FORGET_FORCE, "force", 0, NULL, ANY,                                                         \
      "delete it even without --token, before its `quiet at`, or while it is in use")              \
    X(EXIT_CODE, "exit-code", 0, "N", INT(0, 255),                                                 \
      "of a job: it was run, and ended with exit code N; --body is what it wrote")                 \
    X(HTTP_STATUS, "status", 0, "CODE", INT(200, 599), "it happened, with this HTTP status")       \
    X(HEADER, "header", 'H', "H", LIST(0),                                                         \
      "a header, `Name: value`, of the response, or with --probe of the request")                  \
    X(BODY, "body", 0, "@FILE|TEXT", ANY,                                                          \
      "the response body; @FILE reads it from a file, @- from standard input")                     \
    X(PROBE, "probe", 0, NULL, ANY,                                                                \
      "query the service by the probe of the record's rule in --config")                           \
    X(RELEASED, "released", 0, NULL, ANY, "it did not happen")                                     \
    X(CANONICAL, "canonical", 'c', NULL, ANY, "print the bytes that are hashed")                   \
    X(CONTENT_TYPE, "content-type", 't', "TYPE", ANY,                                              \
      "Content-Type of the body (default application/json)")                                       \
    X(HEADER_KEY, "key", 'k', "VALUE", ANY,                                                        \
      "print the key in this value of an Idempotency-Key header")                                  \
    X(STRICT, "strict", 0, NULL, ANY,                                                              \
      "accept only a quoted string as a key (`key_syntax: strict`)")                               \
    X(LISTEN, "listen", 0, "ADDRESS", ANY, "HOST:PORT (default 127.0.0.1:9000)")                   \
    X(LEDGER, "ledger", 0, "FILE", ANY, "default ledger.jsonl")                                    \
    X(FAULTS, "faults", 0, "LIST", ANY,                                                            \
      "faults of every POST, as in the Demo-Fault header: delay=MS, status=CODE, lose, "           \
      "lose-before, half")                                                                         \
    X(SEED, "seed", 0, "N", INT(0, INT64_C(9007199254740991)),                                     \
      "the same delays each time (default: other ones)")                                           \
    X(METHOD, "request", 'X', "METHOD", ANY, "the method (default POST with a body, else GET)")    \
    X(REQUEST_HEADER, "header", 'H', "H", LIST(0),                                                 \
      "a header, `Name: value`; `Name:` without a value removes the header that pawl would send; " \
      "@FILE: such lines")                                                                         \
    X(DATA, "data", 'd', "DATA", LIST(0),                                                          \
      "the body; @FILE reads it from a file without its line ends, @- from standard input; "       \
      "several are joined with &")                                                                 \
    X(DATA_BINARY, "data-binary", 0, "DATA", LIST(0), "the same, but a file is sent as it is")     \
    X(DATA_JSON, "json", 0, "DATA", LIST(0),                                                       \
      "the same, as application/json; several are sent one behind the other")                      \
    X(USER, "user", 'u', "USER:PASSWORD", ANY, "Basic authentication")                             \
    X(REQUEST_KEY, "key", 0, "K", ANY,                                                             \
      "the idempotency key (default: a new UUID, which is printed)")                               \
    X(KEY_VERSION, "key-version", 0, "V", WORDS("4|7"),                                            \
      "the version of a new UUID; 7 says when it was made, for `key_format: uuid7` (default 4)")   \
    X(DONE, "done", 0, "CODES", ANY,                                                               \
      "statuses (409 or 409,410) by which this service says that it was done before")              \
    X(LATER, "later", 0, "CODES", ANY,                                                             \
      "statuses (423 or 409,423) by which this service says: later")                               \
    X(EDIT_TO, "to", 0, "PREFIX", ANY,                                                             \
      "all that wait to be sent to this URL, or below it (with -H alone)")                         \
    X(NOT_DONE, "not-done", 0, "CONDITION", LIST(0),                                               \
      "what says that it was not done, and is sent again, whatever the status: "                   \
      "`/errors/0/code=THROTTLED` of a JSON body, or `Name: value`; may be repeated")              \
    X(WAIT_ON, "wait-on", 0, "CODES", ANY,                                                         \
      "statuses (403 or 403,423) that wait for other credentials, as 401 and 407 do")              \
    X(FINAL_ON, "final-on", 0, "CODES", ANY, "statuses (401) that do not, and are final")          \
    X(PROFILE, "profile", 0, "P", PROFILE,                                                         \
      "the retry profile (default user_facing; see `pawl backoff`)")                               \
    X(DEADLINE, "deadline", 0, "D", SECONDS,                                                       \
      "no attempt goes on after D (30s, 5m), nor after the profile's total time")                  \
    X(MAX_TIME, "max-time", 'm', "SECONDS", SECONDS, "for one attempt (default 30)")               \
    X(CONNECT_TIMEOUT, "connect-timeout", 0, "SECONDS", SECONDS, "for one connection (default 5)") \
    X(REMEMBER, "remember", 0, "D", SPAN(1, FOREVER),                                              \
      "how long a success is remembered (default 7d)")                                             \
    X(AGAIN, "again", 0, NULL, ANY, "send it again even if a success is remembered")               \
    X(ATTEMPTS, "attempts", 0, "FILE", ANY,                                                        \
      "write a line for each attempt: attempt,delay_ms,status,code,notes")                         \
    X(OUTPUT, "output", 'o', "FILE", ANY, "write the response to FILE")                            \
    X(INCLUDE, "include", 'i', NULL, ANY, "print the response's headers, too")                     \
    X(SILENT, "silent", 's', NULL, ANY, "print no progress and no reason of a failure")            \
    X(VERBOSE, "verbose", 'v', NULL, ANY, "print each request's and response's headers")           \
    X(INSECURE, "insecure", 'k', NULL, ANY, "accept any certificate of the server")                \
    X(CACERT, "cacert", 0, "FILE", ANY,                                                            \
      "the CA certificates to trust, PEM (default: the system's)")                                 \
    X(CERT, "cert", 'E', "FILE", ANY, "the client certificate, PEM")                               \
    X(CERT_KEY, "cert-key", 0, "FILE", ANY,                                                        \
      "its private key, PEM (default: in the same file; curl calls it --key)")                     \
    X(UNIX_SOCKET, "unix-socket", 0, "PATH", ANY, "connect to this socket")                        \
    X(LINKED, "linked", 0, "FILE", ANY,                                                            \
      "add the lines of FILE (`-`: standard input) as the steps of a list, all or nothing")        \
    X(SCHEME, "scheme", 0, "NAME", WORDS("standard|stripe|github|slack|shopify"),                  \
      "whose signatures they are (default standard: Standard Webhooks)")                           \
    X(SECRET, "secret", 0, "SECRET", LIST(SIGNATURE_SECRETS_MAX),                                  \
      "the secret as the sender shows it, or file:PATH; may be repeated while secrets rotate")     \
    X(EVENT_ID, "id", 0, "ID", ANY,                                                                \
      "the event's id, which `--scheme standard` signs and requires; the others ignore it")        \
    X(TIMESTAMP, "timestamp", 0, "T", INT(1, 253402300799),                                        \
      "the timestamp to sign, in seconds since 1970 (default: now)")                               \
    X(VERIFY_AT, "timestamp", 0, "T", INT(1, 253402300799),                                        \
      "verify as of this time, in seconds since 1970 (default: now)")                              \
    X(ALL_HEADERS, "headers", 0, NULL, ANY, "print whole header lines")                            \
    X(RECEIVED_HEADER, "header", 'H', "H", LIST(0),                                                \
      "a header of the request, `Name: value`; repeat it for each")                                \
    X(TOLERANCE, "tolerance", 0, "D", SPAN(0, FOREVER),                                            \
      "how far the request's timestamp may be from --timestamp, in either direction (default 5m)") \
    X(LISTEN_TOLERANCE, "tolerance", 0, "D", SPAN(0, FOREVER),                                     \
      "how far a request's timestamp may be from now, in either direction (default 5m)")           \
    X(RECEIVE_AT, "listen", 0, "ADDRESS", ANY, "loopback HOST:PORT (default 127.0.0.1:9001)")      \
    X(RESPOND, "status", 0, "CODE", INT(200, 599),                                                 \
      "the status of the response to what is signed (default 200)")                                \
    X(GROUP, "group", 0, "G", ANY, "operations of one group are sent in order")                    \
    X(LISTED_GROUP, "group", 0, "G", ANY, "only operations of this group")                         \
    X(PAUSED_GROUP, "group", 0, "G", ANY, "this group, instead of a target")                       \
    X(ON_FAILURE, "on-failure", 0, "A", WORDS("park|skip"),                                        \
      "after a final failure its group waits for a person, or goes on (default park)")             \
    X(QUEUE_DEADLINE, "deadline", 0, "D", SPAN_OR("none", 1, FOREVER - 1),                         \
      "no attempt begins later than D (30m, 30d) from now on; none: whenever (default: 7d from "   \
      "the first attempt that reached the service)")                                               \
    X(QUEUE_ATTEMPTS, "attempts", 0, "N", INT(1, 1000000),                                         \
      "at most N attempts (default: any number)")                                                  \
    X(MOST, "most", 0, "N", INT(1, 100000000),                                                     \
      "refuse an operation if more than N would then be waiting; concurrent adds count each "      \
      "other only if all use --most")                                                              \
    X(DEDUPE, "dedupe-payload", 0, "D", SPAN(1, FOREVER - 1),                                      \
      "add nothing where the same was added so within D (10m), or waits: print that one")          \
    X(EDIT_FORCE, "force", 0, NULL, ANY, "even if an attempt may have taken effect")               \
    X(EDIT_URL, "url", 0, "URL", ANY,                                                              \
      "of an undo, or of a step that has not begun: send it there")                                \
    X(DROP_LIST, "list", 0, "NAME", ANY, "a whole list, by its number or its name")                \
    X(KEEP_DONE, "keep", 0, NULL, ANY, "with --list: leave what is done as it is")                 \
    X(SETTLE_RESPONSE, "response", 0, "BODY", ANY,                                                 \
      "with --done: the body of its response: shown, replayed under its key, and what fills in "   \
      "its undo; @FILE, @- from stdin")                                                            \
    X(PROMETHEUS, "prometheus", 0, NULL, ANY, "print the text format of Prometheus")               \
    X(DRAIN_ONCE, "once", 0, NULL, ANY, "until nothing is due now")                                \
    X(DRAIN_NEW, "new", 0, NULL, ANY,                                                              \
      "the exit code says nothing of what had failed finally before")                              \
    X(FOLLOW, "follow", 0, NULL, ANY, "until it is stopped by a signal")                           \
    X(IN_FLIGHT, "jobs", 'j', "N", INT(1, 256),                                                    \
      "at most N operations at a time (default 4 to one target, 256 in all)")                      \
    X(STATE, "state", 0, "S", WORDS(TASKS_STATE_NAMES), "only those in this state")                \
    X(DEAD, "dead", 0, NULL, ANY, "only those that failed finally, as `--state dead`")             \
    X(REPLAY_DEAD, "dead", 0, NULL, ANY, "all that have failed finally")                           \
    X(ALL_DEAD, "dead", 0, NULL, ANY, "all that failed finally")                                   \
    X(ALL_PARKED, "parked", 0, NULL, ANY, "all that wait behind one that failed finally")          \
    X(ALL_HOLDING, "parked", 0, NULL, ANY,                                                         \
      "all that failed finally and hold their group: what is parked behind them follows")          \
    X(ALL_SINCE, "since", 0, "T", TIME,                                                            \
      "only those that ended (parked: were added) at T (2026-01-31T12:00:00Z) or later")           \
    X(ALL_UNTIL, "until", 0, "T", TIME, "the same, at T or earlier")                               \
    X(ALL_TO, "to", 0, "PREFIX", ANY, "of these only those for this URL or one below it")          \
    X(ALL_DRY_RUN, "dry-run", 0, NULL, ANY, "count them, and change nothing")                      \
    X(SETTLE_DONE, "done", 0, NULL, ANY, "it was done")                                            \
    X(SETTLE_NOT, "not-done", 0, NULL, ANY, "it was not done")                                     \
    X(PUBLISH_ID, "id", 0, "ID", ANY,                                                              \
      "the event's id, 1 to 255 of A-Za-z0-9_- (default: a new one, which is printed)")            \
    X(EVENT_DATA, "data", 'd', "DATA", ANY,                                                        \
      "the event's data, JSON; @FILE reads it from a file, @- from standard input (default: "      \
      "null)")                                                                                     \
    X(EVENT_TENANT, "tenant", 0, "T", ANY,                                                         \
      "the tenant whose event it is, where endpoints select by `tenants`")                         \
    X(EVENT_TIME, "time", 0, "TIME", ANY, "when it happened, RFC 3339 (default: now)")             \
    X(ENDPOINT, "endpoint", 0, "NAME", ANY, "only deliveries to this endpoint")                    \
    X(SOURCE, "source", 0, "NAME", ANY, "only events of this source")                              \
    X(ENDPOINT_NAME, "name", 0, "NAME", ANY, "add: what it is called")                             \
    X(ENDPOINT_URL, "url", 0, "URL", ANY, "add: where events are sent")                            \
    X(ENDPOINT_TYPES, "types", 0, "A,B", ANY,                                                      \
      "add: types of events that it wants, such as refund.*")                                      \
    X(ENDPOINT_OPTION, "option", 0, "NAME=VALUE", LIST(FLAG_TEXTS_MAX),                            \
      "add: another option of an endpoint (ordered=true, timeout=5s, tenants=[\"m1\"]); may be "   \
      "repeated")                                                                                  \
    X(ENDPOINT_SECRET, "secret", 0, "SECRET", LIST(SIGNATURE_SECRETS_MAX),                         \
      "add, rotate: the secret to sign with, or file:PATH (default: a new one, which is shown "    \
      "once); add takes several")                                                                  \
    X(OVERLAP, "overlap", 0, "D", SPAN(0, FOREVER - 1),                                            \
      "rotate: how long the secrets before still sign (default 24h)")                              \
    X(FORGET_ENDPOINT, "force", 0, NULL, ANY,                                                      \
      "remove: forget the name and state of one that no config has any more")                      \
    X(REPLAY_DISABLED, "force", 0, NULL, ANY, "also to an endpoint that is disabled")              \
    X(REPLAY_LATE, "force", 0, NULL, ANY,                                                          \
      "also 7 days after the first attempt, when its handler may know the key no more")            \
    X(SINCE, "since", 0, "T", TIME,                                                                \
      "with --dead: only those that ended at T (2026-01-31T12:00:00Z) or later")                   \
    X(RESTORED_SINCE, "since", 0, "T", TIME,                                                       \
      "what was acknowledged at T (2026-01-31T12:00:00Z) or later may be missing")                 \
    X(RESTORED_UNTIL, "until", 0, "U", TIME,                                                       \
      "when the mark ends (default: when no rule can miss anything any more)")                     \
    X(ABOVE, "above", 0, "N", INT(1, KEYS_TOKEN_MOST),                                             \
      "the highest token that is known; those given out from now on are above it")                 \
    X(LIVE, "live", 0, NULL, ANY, "go on even though gateways have the store open")                \
    X(CLEAR, "clear", 0, NULL, ANY, "take the mark back")                                          \
    X(RATE, "rate", 0, "N", INT(1, 1000000), "with --dead: N a second (default 10)")               \
    X(JOB_KEY, "key", 0, "TEMPLATE", ANY,                                                          \
      "the name of the job: text with sources such as {date:Area/City}, {week:Area/City}, "        \
      "{month:Area/City}, {hour} and {env:NAME}")                                                  \
    X(ITEM_KEY, "key", 0, "TEMPLATE", ANY,                                                         \
      "the name of an item's job: text with {}, {name} or {/pointer}, and sources such as "        \
      "{date:Area/City}")                                                                          \
    X(JOB_NAME, "name", 0, "NAME", ANY, "jobs of different names never share a key (default job)") \
    X(AT, "at", 0, "TIME", ANY,                                                                    \
      "make the key as at TIME, 2026-02-19T22:00:00-05:00 (default: now)")                         \
    X(TTL, "ttl", 0, "D", SPAN(1, FOREVER),                                                        \
      "remember it for D after its end, or forever (default 24h; with {date} in the key 2d, with " \
      "{week} 8d, with {month} 32d)")                                                              \
    X(ITEM_TTL, "ttl", 0, "D", SPAN(1, FOREVER),                                                   \
      "remember an item for D after its end, or forever (default 7d; with {week} in the key 8d, "  \
      "with {month} 32d)")                                                                         \
    X(RETRY, "retry", 0, "PROFILE", PROFILE,                                                       \
      "try again after a failure, by this profile (see `pawl backoff`; default: one attempt)")     \
    X(WAIT, "wait", 0, "D", SPAN(0, FOREVER),                                                      \
      "how long to wait for an attempt in progress elsewhere (default 0: exit 75 at once)")        \
    X(FREEZE_WAIT, "wait", 0, "[=D]", SPAN(0, FOREVER),                                            \
      "wait until nothing is in flight, for D at most (default: for as long as it takes)")         \
    X(JOB_UNKNOWN, "unknown", 0, "POLICY", ANY,                                                    \
      "what to do if an earlier run may have done it, because pawl or its machine died before "    \
      "it ended: retry (default); hold, until somebody settles it; probe:CMD, which exits with "   \
      "0 if it was done, with 1 if it was not")                                                    \
    X(ITEM_UNKNOWN, "unknown", 0, "POLICY", ANY,                                                   \
      "what to do with an item that an earlier run may have done, because pawl or its machine "    \
      "died before it ended, or a request got no response, 500, 502 or 504: retry (default); "     \
      "hold, until somebody settles it; of a CMD probe:CMD, which exits with 0 if it was done, "   \
      "with 1 if it was not")                                                                      \
    X(FINAL, "final", 0, "CODES", ANY,                                                             \
      "exit codes after which trying again is useless, such as 2,64-78, or all: the failure is "   \
      "stored and replayed (default: none)")                                                       \
    X(TIMEOUT, "timeout", 0, "D", SPAN(1, FOREVER),                                                \
      "kill an attempt of CMD after D, with all that it started")                                  \
    X(PAYLOAD, "payload", 0, "FILE|-|ignore", ANY,                                                 \
      "what must be the same under one key: what is in FILE, or on standard input (-), which "     \
      "CMD then reads; ignore: nothing (default: the command line)")                               \
    X(KEEP_OUTPUT, "keep-output", 0, "SIZE", ANY,                                                  \
      "keep at most SIZE of standard output, and of standard error (default 1MiB)")                \
    X(EACH_JOBS, "jobs", 'j', "N", INT(1, 1024), "run at most N items at a time (default 1)")      \
    X(EACH_INPUT, "input", 'a', "FILE", ANY, "read items from FILE (default: standard input)")     \
    X(EACH_NUL, "null", '0', NULL, ANY,                                                            \
      "items end with a NUL byte, as `find -print0` writes them")                                  \
    X(EACH_CSV, "csv", 0, NULL, ANY, "items are records of CSV; its first line names the columns") \
    X(EACH_JSONL, "jsonl", 0, NULL, ANY, "items are values of JSON, one a line")                   \
    X(EACH_GROUP, "group", 0, "TEMPLATE", ANY, "items of one group are run one after the other")   \
    X(EACH_RATE, "rate", 0, "N", ANY, "start at most N a second; N/m: a minute; N/h: an hour")     \
    X(EACH_PAYLOAD, "payload", 0, "ignore", ANY,                                                   \
      "compare no command line or request: an item that was done is skipped")                      \
    X(KEEP_GOING, "keep-going", 0, NULL, ANY,                                                      \
      "after a failure, run the other items (the default)")                                        \
    X(FAIL_FAST, "fail-fast", 0, NULL, ANY, "after a failure, start nothing more")                 \
    X(DRY_RUN, "dry-run", 'n', NULL, ANY, "print what would be run, and run nothing")              \
    X(FAILED_TO, "failed-to", 0, "FILE", ANY,                                                      \
      "write the items that failed to FILE, as they were read")                                    \
    X(JOBLOG, "joblog", 0, "FILE", ANY,                                                            \
      "write a line for each item that was run, as GNU parallel does")                             \
    X(SEND, "send", 0, "'METHOD URL'", ANY, "send a request for each item, in place of CMD")       \
    X(EACH_DATA, "data", 'd', "TEMPLATE|@FILE", ANY,                                               \
      "with --send: the body, a template or a file that holds one")                                \
    X(EACH_HEADER, "header", 'H', "TEMPLATE", LIST(0),                                             \
      "with --send: a header, `Name: value`; `Name:` without a value removes the header that "     \
      "pawl would send; @FILE: such lines")                                                        \
    X(EACH_MAX_TIME, "max-time", 'm', "SECONDS", SECONDS,                                          \
      "with --send: for one attempt (default 30)")                                                 \
    X(EACH_CACERT, "cacert", 0, "FILE", ANY,                                                       \
      "with --send: the CA certificates to trust, PEM (default: the system's)")                    \
    X(EACH_JSON, "json", 0, NULL, ANY,                                                             \
      "print a line of JSON for each item, instead of what CMD writes, and a last one with the "   \
      "totals")                                                                                    \
    X(EACH_SILENT, "silent", 's', NULL, ANY, "print no progress and no summary")                   \
    X(RUN_AGAIN, "again", 0, NULL, ANY,                                                            \
      "run it although it was done, or has failed for good (--final)")                             \
    X(REASON, "reason", 0, "TEXT", ANY, "why, for the audit (`pawl keys audit`)")                  \
    X(ACT_REASON, "reason", 0, "TEXT", ANY, "why, for the audit")                                  \
    X(RUN_VERBOSE, "verbose", 'v', NULL, ANY,                                                      \
      "say so when the output is that of an earlier run (at a terminal it always does)")           \
    X(CSV, "csv", 0, NULL, ANY, "print CSV: attempt,delay_ms")                                     \
    X(HELP, "help", 'h', NULL, ANY, "this text")

enum command_id {
#define X(name, ...) COMMAND_##name,
    COMMANDS(X, X)
#undef X
        COMMAND_COUNT
};

enum flag_id {
    FLAG_NONE,
#define X(id, ...) FLAG_##id,
    FLAGS(X)
#undef X
        FLAG_COUNT
};

enum flag_form {
    TAKES_ANY,
    TAKES_LIST, /* `most`: of them */
    TAKES_WORD,
    TAKES_INT,
    TAKES_SPAN, /* `words`: that means forever; NULL: none */
    TAKES_SECONDS,
    TAKES_TIME,
    TAKES_PROFILE,
};

struct flag {
    const char *name;
    char letter;
    const char *argument;
    enum flag_form form;
    const char *words;
    int64_t least;
    int64_t most;
    const char *help;
};

struct command_exit {
    enum exit_code code;
    const char *when;
};

#define COMMAND_FLAGS_MAX 36
#define COMMAND_EXITS_MAX 9

struct command {
    const char *name;     /* all its words, such as "keys list" */
    const char *summary;  /* half a line */
    const char *synopsis; /* what follows the name; a line for each form */
    const char *about;    /* paragraphs, divided by an empty line; not wrapped */
    bool is_group;
    bool runs_other; /* behind the first operand everything belongs to the command that it runs */
    const char *operand; /* what the help calls it; NULL: there is none */
    int operands_least;
    int operands_most;
    enum flag_id needs; /* a flag without which nothing can be done, or FLAG_NONE */
    enum flag_id flags[COMMAND_FLAGS_MAX]; /* up to FLAG_NONE; FLAG_HELP goes without saying */
    struct command_exit exits[COMMAND_EXITS_MAX]; /* up to one without words */
};

extern const struct command command_rows[]; /* of commands.c, by enum command_id */

/* The rows. */
const struct command *command_at(enum command_id id);
const struct flag *flag_at(enum flag_id id);

/* The words that a flag takes, divided by '|'; NULL: it takes any. */
const char *flag_words(const struct flag *flag);

/* Appends them as "a, b or c". */
void flag_add_words(const struct flag *flag, struct buf *buf);

/* Whether its value may be left out. */
bool flag_is_optional(const struct flag *flag);

/* Appends its help, and the words that it takes. */
void flag_add_help(const struct flag *flag, struct buf *buf);

/* The command of which `words` begins with all words; `*ret_words` says with how many. A group, if
 * what follows names none of its commands. NULL: there is none. */
const struct command *command_find(char *const *words, size_t n, size_t *ret_words);

/* Whether `command` belongs to the group (NULL: is at the top). */
bool command_is_in(const struct command *command, const struct command *group);

/* Its last word. */
const char *command_word(const struct command *command);

struct operands {
    int n;
    char **at;
};

#define COMMAND_ENDED (-1)

/* Runs a command; an exit code, or COMMAND_ENDED: help was printed. */
typedef int command_run(enum command_id id, struct operands at);

#define X(name, run) command_run run;
#define GROUP(name)
COMMANDS(X, GROUP)
#undef GROUP
#undef X

/* ---- command lines ---- */

#define FLAG_TEXTS_MAX 16
struct flag_texts {
    size_t n;
    const char *at[FLAG_TEXTS_MAX];
};

/* What a member that takes a flag's value is. */
enum flag_kind {
    FLAG_IS_NOWHERE, /* the command has no such flag */
    FLAG_IS_TAKEN,   /* by a function, which gets the member */
    FLAG_IS_SET,     /* bool */
    FLAG_IS_TEXT,    /* const char * */
    FLAG_IS_SLICE,   /* struct slice */
    FLAG_IS_TEXTS,   /* struct flag_texts: of a LIST */
    FLAG_IS_HEADERS, /* struct headers: `Name: value` of a LIST */
    FLAG_IS_INT,     /* int; of a flag that takes a number or a time, as the next two */
    FLAG_IS_I64,     /* int64_t */
    FLAG_IS_SIZE,    /* size_t */
    FLAG_IS_CHOICE,  /* enum: of WORDS which one, from 1; of PROFILE that profile */
};
#define FLAG_KIND(member)                                                                          \
    _Generic((member),                                                                             \
        bool: FLAG_IS_SET,                                                                         \
        const char *: FLAG_IS_TEXT,                                                                \
        struct slice: FLAG_IS_SLICE,                                                               \
        struct flag_texts: FLAG_IS_TEXTS,                                                          \
        struct headers: FLAG_IS_HEADERS,                                                           \
        int: FLAG_IS_INT,                                                                          \
        int64_t: FLAG_IS_I64,                                                                      \
        size_t: FLAG_IS_SIZE,                                                                      \
        unsigned: FLAG_IS_CHOICE)

/* Which member of a command's options takes the value of a flag. */
struct flag_place {
    enum flag_kind kind;
    size_t offset;
    /* With FLAG_IS_TAKEN; an exit code, anything but 0 was explained. */
    int (*take)(void *member, const char *text);
};
#define FLAG_PLACE(options, member)                                                                \
    {                                                                                              \
        FLAG_KIND(((options *)0)->member), offsetof(options, member), NULL                         \
    }
#define FLAG_TAKEN(options, member, take)                                                          \
    {                                                                                              \
        FLAG_IS_TAKEN, offsetof(options, member), take                                             \
    }

/* Reads the command line of a command by the table into its `options`, in order; `places` is an
 * array by flag, or NULL where it has none. `at` gets what is no flag. An exit code, anything but 0
 * was explained; COMMAND_ENDED: help was printed. */
int command_read(enum command_id id, struct operands *at, const struct flag_place *places,
                 void *options);

/* Prints `pawl COMMAND: what` to stderr; returns `code`. */
int command_failed(const char *command, enum exit_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints `pawl COMMAND: what` and a hint at -h to stderr; returns exit code 2. */
int command_misused(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
