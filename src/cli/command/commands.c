/* SPDX-License-Identifier: Apache-2.0 */
/* The commands: a row each. */
#include "cli/command/command.h"
#include "cli/command/commands_inbox.h"
#include "cli/command/commands_jobs.h"
#include "cli/command/commands_store.h"
#include "operator/keys.h"
#include "operator/tasks.h"

#define WHICH FLAG_TENANT, FLAG_RULE, FLAG_ONCE
#define NO_RECORD EXIT_FINAL_ERROR, "no such record"
#define NOT_SETTLED                                                                                \
    EXIT_FINAL_ERROR, "no such record, a stale token, or settled differently in the meantime"
#define WHICH_RECORD EXIT_USAGE, "usage, or several records match"
#define WHICH_ONE " If several records match, --tenant and --rule select one."
#define NO_OPERATION EXIT_FINAL_ERROR, "no such operation, or its state does not allow it"
#define NO_EVENT EXIT_FINAL_ERROR, "no such event, or its state does not allow it"
#define NO_DELIVERY EXIT_FINAL_ERROR, "no such delivery, or its state does not allow it"
#define NO_STORE EXIT_UNAVAILABLE, "the store cannot be used"
#define SOME_LEFT EXIT_TRY_AGAIN, "it is being sent; of many: some were left, run it again"
#define ABOUT_MANY                                                                                 \
    "With --dead or --parked it does so to all of them, one after the other, each as by its ID, "  \
    "and counts; steps of lists are left out."
#define NOT_YET EXIT_TRY_AGAIN, "too early, or the record is in use"
#define DATA_FLAGS FLAG_DATA, FLAG_DATA_BINARY, FLAG_DATA_JSON
#define ANSWER_FLAGS FLAG_DONE, FLAG_LATER, FLAG_NOT_DONE

const struct command command_rows[COMMAND_COUNT] = {
    [COMMAND_serve] =
        {.name = "serve",
         .summary = "run the gateway, a reverse proxy that makes retried requests happen once",
         .synopsis = "-c FILE [-t [--strict]] [--store PATH] [--demo]",
         .about =
             "Runs the gateway. SIGTERM or SIGINT ends it once its running requests have ended, a "
             "second one at once. SIGHUP reloads the config; an invalid one changes nothing.",
         .needs = FLAG_CONFIG,
         .flags = {FLAG_CONFIG, FLAG_TEST, FLAG_TEST_STRICT, FLAG_SERVE_STORE, FLAG_DEMO},
         .exits = {{EXIT_FINAL_ERROR, "a warning (--test --strict)"},
                   {EXIT_USAGE, NULL},
                   {EXIT_UNAVAILABLE, "the store or an address is not available"},
                   {EXIT_FAIL_STOP, NULL}}},
    [COMMAND_send] =
        {.name = "send",
         .summary = "send one request, retried under one key until it is done, and done once",
         .synopsis = "[-X METHOD] [-d DATA] [-H H]... [--key K] [OPTIONS] URL",
         .about =
             "Sends a request with an Idempotency-Key, and sends it again by a retry profile as "
             "long as the failure may pass by itself, always under the same key. The response "
             "goes to standard output, all else to standard error. Flags are curl's where they "
             "overlap; redirects are not followed.\n\n"
             "The key is stored before the first byte leaves. A success is remembered: the same "
             "key sends nothing again, and prints the kept response. Another request is refused.",
         .operand = "URL",
         .operands_least = 1,
         .operands_most = 1,
         .flags = {FLAG_METHOD,          DATA_FLAGS,    FLAG_REQUEST_HEADER, FLAG_USER,
                   FLAG_REQUEST_KEY,     FLAG_PROFILE,  FLAG_DEADLINE,       FLAG_MAX_TIME,
                   FLAG_CONNECT_TIMEOUT, FLAG_REMEMBER, FLAG_AGAIN,          FLAG_ATTEMPTS,
                   FLAG_OUTPUT,          FLAG_INCLUDE,  FLAG_SILENT,         FLAG_VERBOSE,
                   FLAG_CACERT,          FLAG_CERT,     FLAG_CERT_KEY,       FLAG_INSECURE,
                   FLAG_UNIX_SOCKET,     ANSWER_FLAGS,  FLAG_KEY_VERSION,    FLAG_STORE},
         .exits = {{EXIT_FINAL_ERROR, "the service refused it, or redirects it"},
                   {EXIT_USAGE, NULL},
                   {EXIT_BAD_DATA, "the key was used for another request"},
                   {EXIT_UNAVAILABLE, "no attempt reached the service, or the store is down"},
                   {EXIT_FAIL_STOP, NULL},
                   {EXIT_TRY_AGAIN, "no attempt is left, or in progress elsewhere"},
                   {EXIT_OUTCOME_UNKNOWN,
                    "an attempt may have taken effect: repeat it under its key"},
                   {EXIT_DEADLINE, NULL}}},
    [COMMAND_queue] = {.name = "queue",
                       .summary = "keep operations on disk until they can be sent",
                       .synopsis = "SUBCOMMAND [OPTIONS]",
                       .about = "Keeps operations on disk, each under a key of its own, until they "
                                "can be sent; see what became of them, and settle what failed.",
                       .is_group = true},
    [COMMAND_queue_add] =
        {.name = "queue add",
         .summary = "put an operation on disk, to be sent later",
         .synopsis = "[-X METHOD] [-d DATA] [-H H]... [--group G] [OPTIONS] URL\n"
                     "[OPTIONS] - < OPERATIONS\n"
                     "[OPTIONS] --linked FILE",
         .about =
             "Stores an operation with its key before it returns, and prints its ID and key. "
             "The same operation under the same --key is stored once. A header given as "
             "-H @FILE is read from that file at each attempt.\n\n"
             "With `-` it reads operations from standard input, an object of JSON on each line: "
             "url, method, headers, header_files, json or data, key, group, on_failure, deadline, "
             "attempts. What a line omits is as the options say. After a bad line, which is named, "
             "it stops; the operations before it are stored.\n\n"
             "With --linked the operations are the steps of a list, sent one after the other, all "
             "or nothing. A step may have an \"undo\": an object with method, url, headers, and "
             "json or data, in which {response:/POINTER} and {location} stand for what its step's "
             "response said. If a step fails finally, those that are done are undone, the last "
             "one first. If one ends in doubt, the list is parked: retry, drop or settle that "
             "step. After a first line {\"dedupes\": true} a refusal behind a doubt is undone, "
             "too: the services of the list answer a known key as they did first.",
         .operand = "URL",
         .operands_most = 1,
         .flags = {FLAG_METHOD, DATA_FLAGS, FLAG_REQUEST_HEADER, FLAG_USER, FLAG_REQUEST_KEY,
                   FLAG_LINKED, FLAG_GROUP, FLAG_ON_FAILURE, FLAG_QUEUE_DEADLINE,
                   FLAG_QUEUE_ATTEMPTS, FLAG_REMEMBER, ANSWER_FLAGS, FLAG_WAIT_ON, FLAG_FINAL_ON,
                   FLAG_DEDUPE, FLAG_MOST, FLAG_KEY_VERSION, FLAG_STORE},
         .exits = {{EXIT_FINAL_ERROR, "it was added before, and is dead or dropped"},
                   {EXIT_USAGE, NULL},
                   {EXIT_BAD_DATA,
                    "a bad line, no JSON behind --json, or the key of another operation"},
                   {NO_STORE},
                   {EXIT_TRY_AGAIN, "the queue is full (--most)"}}},
    [COMMAND_queue_list] =
        {.name = "queue list",
         .summary = "list operations, oldest first",
         .synopsis = "[OPTIONS]",
         .about = "Lists the operations of the queue, oldest first. What waits in its group behind "
                  "one that is tried again is listed with that one's ID and since when; behind one "
                  "that failed finally it is `parked`. With --json each one is an object on a line "
                  "of its own.",
         .flags = {FLAG_STATE, FLAG_DEAD, FLAG_LISTED_GROUP, FLAG_LIMIT, FLAG_JSON, FLAG_STORE},
         .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_queue_show] = {.name = "queue show",
                            .summary = "print one operation with its attempts",
                            .synopsis = "ID [OPTIONS]",
                            .about = "Prints everything about one operation: what is sent, and "
                                     "how its attempts ended.",
                            .operand = "ID",
                            .operands_least = 1,
                            .operands_most = 1,
                            .flags = {FLAG_JSON, FLAG_STORE},
                            .exits = {{EXIT_FINAL_ERROR, "no such operation"},
                                      {EXIT_USAGE, NULL},
                                      {NO_STORE}}},
    [COMMAND_queue_edit] =
        {.name = "queue edit",
         .summary = "change what an operation sends; it gets a new key",
         .synopsis =
             "ID -d DATA [--force] [--reason TEXT]\n{ID | --to PREFIX} -H H [--reason TEXT]\n"
             "ID --url URL [-X METHOD] [-d DATA | -H H] [--force] [--reason TEXT]",
         .about =
             "Gives an operation another body and a new key, which it prints; its attempts "
             "count from the start. If one may have taken effect, that needs --force. With -H it "
             "stays what it was, under its key, and is sent with these credentials. With --url an "
             "undo becomes what is given, and a step of a list that has not begun goes elsewhere.",
         .operand = "ID",
         .operands_most = 1,
         .flags = {FLAG_METHOD, DATA_FLAGS, FLAG_REQUEST_HEADER, FLAG_EDIT_TO, FLAG_EDIT_URL,
                   FLAG_EDIT_FORCE, FLAG_ACT_REASON, FLAG_STORE},
         .exits = {{NO_OPERATION},
                   {EXIT_USAGE, NULL},
                   {NO_STORE},
                   {EXIT_TRY_AGAIN, "it is being sent"},
                   {EXIT_OUTCOME_UNKNOWN, "an attempt may have taken effect"}}},
    [COMMAND_queue_retry] =
        {.name = "queue retry",
         .summary = "send an operation that failed finally again, under its key",
         .synopsis = "ID [--reason TEXT]\n--dead | --parked [OPTIONS]",
         .about = "Makes an operation that is dead or dropped wait again, under the same key; its "
                  "attempts count from the start.\n\n" ABOUT_MANY
                  " They are sent again at most ten a second to each target.",
         .operand = "ID",
         .operands_most = 1,
         .flags = {FLAG_ALL_DEAD, FLAG_ALL_HOLDING, FLAG_ALL_SINCE, FLAG_ALL_UNTIL,
                   FLAG_LISTED_GROUP, FLAG_ALL_TO, FLAG_ALL_DRY_RUN, FLAG_ACT_REASON, FLAG_STORE},
         .exits = {{NO_OPERATION}, {EXIT_USAGE, NULL}, {NO_STORE}, {SOME_LEFT}}},
    [COMMAND_queue_drop] =
        {.name = "queue drop",
         .summary = "give an operation up; its group goes on",
         .synopsis = "ID [--force] [--reason TEXT]\n--dead | --parked [OPTIONS]\n"
                     "--list NAME [--keep] [--force] [--reason TEXT]",
         .about = "Drops an operation that waits or is dead. It is kept in the list as dropped; "
                  "what waited behind it in its group goes on.\n\n" ABOUT_MANY "\n\n"
                  "The list that a step parked is undone; in doubt that needs --force, and it is "
                  "partial. An "
                  "undo is given up, and its list partial. With --list what is done of a list is "
                  "undone, or with --keep stays; one that is being undone stops, and is partial.",
         .operand = "ID",
         .operands_most = 1,
         .flags = {FLAG_DROP_LIST, FLAG_KEEP_DONE, FLAG_EDIT_FORCE, FLAG_ALL_DEAD, FLAG_ALL_PARKED,
                   FLAG_ALL_SINCE, FLAG_ALL_UNTIL, FLAG_LISTED_GROUP, FLAG_ALL_TO, FLAG_ALL_DRY_RUN,
                   FLAG_ACT_REASON, FLAG_STORE},
         .exits = {{NO_OPERATION},
                   {EXIT_USAGE, NULL},
                   {NO_STORE},
                   {SOME_LEFT},
                   {EXIT_OUTCOME_UNKNOWN, "an attempt may have taken effect"}}},
    [COMMAND_queue_settle] =
        {.name = "queue settle",
         .summary = "say whether an operation was done",
         .synopsis = "ID --done [--response @FILE] [--reason TEXT]\nID --not-done [--reason TEXT]",
         .about =
             "Says what a person found out of an operation that waits, is dead or dropped. With "
             "--done it is done, its key is that of a success, and its group goes on. With "
             "--not-done it is in doubt no more: it stays, and may be sent, edited or dropped.\n\n"
             "Of the step that parked a list: the list goes on, with its undo filled in from the "
             "response, or is undone. Of an undo: it was done by hand, or is given up.",
         .operand = "ID",
         .operands_least = 1,
         .operands_most = 1,
         .flags = {FLAG_SETTLE_DONE, FLAG_SETTLE_NOT, FLAG_SETTLE_RESPONSE, FLAG_ACT_REASON,
                   FLAG_STORE},
         .exits = {{NO_OPERATION},
                   {EXIT_USAGE, NULL},
                   {NO_STORE},
                   {EXIT_TRY_AGAIN, "it is being sent, or may still be on its way"}}},
    [COMMAND_queue_pause] =
        {.name = "queue pause",
         .summary = "send nothing more to a target, or of a group",
         .synopsis = "URL [--reason TEXT]\n--group G [--reason TEXT]",
         .about = "Sends nothing more to the target of URL (scheme, host and port), or of a "
                  "group, until `pawl queue resume`. What is being sent goes on.",
         .operand = "URL",
         .operands_most = 1,
         .flags = {FLAG_PAUSED_GROUP, FLAG_ACT_REASON, FLAG_STORE},
         .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_queue_resume] = {.name = "queue resume",
                              .summary = "send again to a target, or of a group",
                              .synopsis = "URL [--reason TEXT]\n--group G [--reason TEXT]",
                              .about = "Ends a `pawl queue pause`.",
                              .operand = "URL",
                              .operands_most = 1,
                              .flags = {FLAG_PAUSED_GROUP, FLAG_ACT_REASON, FLAG_STORE},
                              .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_queue_drain] =
        {.name = "queue drain",
         .summary = "send what is queued, until nothing waits",
         .synopsis = "[--once | --follow] [-j N] [OPTIONS]",
         .about =
             "Sends the operations of the queue, each under its key, those of a group in order, "
             "and tries again what may yet be done, by the profile `queue` (see `pawl backoff "
             "queue`). Without a network it costs no attempt. SIGTERM or SIGINT lets what is "
             "being sent end; on a second signal it exits at once. It may be killed at any moment: "
             "the next drain goes on under the same keys. On a file there is one drain at a time, "
             "on PostgreSQL they share the work.",
         .flags = {FLAG_DRAIN_ONCE, FLAG_FOLLOW, FLAG_DRAIN_NEW, FLAG_IN_FLIGHT, FLAG_MAX_TIME,
                   FLAG_CACERT, FLAG_CERT, FLAG_CERT_KEY, FLAG_INSECURE, FLAG_UNIX_SOCKET,
                   FLAG_STORE},
         .exits = {{EXIT_FINAL_ERROR,
                    "some are dead, also from before (--new): `pawl queue list --dead`"},
                   {EXIT_USAGE, NULL},
                   {NO_STORE},
                   {EXIT_FAIL_STOP, NULL},
                   {EXIT_TRY_AGAIN, "some are left, or another drain runs"}}},
    [COMMAND_queue_audit] =
        {.name = "queue audit",
         .summary = "list who acted on queued operations by hand",
         .synopsis = "[OPTIONS]",
         .about = "Prints who did what to queued operations, targets and groups, oldest first; if "
                  "there are more acts than --limit, the last ones. Acts are kept for 400 days. "
                  "With --json each act is an object on a line of its own.",
         .flags = {FLAG_LIMIT, FLAG_JSON, FLAG_STORE},
         .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    COMMANDS_OF_JOBS,
    [COMMAND_keys] = {.name = "keys",
                      .summary = "inspect a store, and settle records whose outcome is unknown",
                      .synopsis = "SUBCOMMAND [OPTIONS]",
                      .about =
                          "Inspects a store, even while a gateway runs on it, and settles records.",
                      .is_group = true},
    [COMMAND_keys_list] = {.name = "keys list",
                           .summary = "list records, by status, tenant, rule or key",
                           .synopsis = "[OPTIONS]",
                           .about = "Lists the records of a store, oldest first. With --json each "
                                    "record is an object on a line of its own.",
                           .flags = {FLAG_STATUS, FLAG_LAPSED, WHICH, FLAG_KEY, FLAG_LIMIT,
                                     FLAG_JSON, FLAG_STORE},
                           .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_keys_show] =
        {.name = "keys show",
         .summary = "print one record with its token",
         .synopsis = "KEY [OPTIONS]\n--once VALUE [OPTIONS]",
         .about = "Prints everything about one record, which is found by its key or its once "
                  "value." WHICH_ONE,
         .operand = "KEY",
         .operands_most = 1,
         .flags = {WHICH, FLAG_PRINT_BODY, FLAG_JSON, FLAG_STORE},
         .exits = {{NO_RECORD}, {WHICH_RECORD}, {NO_STORE}}},
    [COMMAND_keys_resolve] =
        {.name = "keys resolve",
         .summary = "settle a record, with the response or as not done",
         .synopsis = "KEY --token N --status CODE [--header H]... [--body @FILE|TEXT]\n"
                     "KEY --token N --exit-code N [--body @FILE|TEXT]\n"
                     "KEY --token N --released\n"
                     "KEY --token N --probe -c FILE [-H 'Authorization: ...']\n"
                     "--rule R --unknown --before T (--status CODE | --exit-code N | --released)",
         .about =
             "Settles a record whose outcome is unknown: either with the response that "
             "duplicates will get (of a job: its exit code and output), or as not done, so that "
             "the next attempt runs the operation." WHICH_ONE "\n\n"
             "--probe queries the service as the gateway would: a 2xx becomes "
             "the response, a 404 means that it did not happen, anything else leaves the record "
             "unknown.",
         .operand = "KEY",
         .operands_most = 1,
         .flags = {FLAG_TOKEN, FLAG_UNKNOWN, FLAG_BEFORE, FLAG_HTTP_STATUS, FLAG_EXIT_CODE,
                   FLAG_HEADER, FLAG_BODY, FLAG_RELEASED, FLAG_PROBE, FLAG_CONFIG, FLAG_FORCE,
                   FLAG_REASON, WHICH, FLAG_JSON, FLAG_STORE},
         .exits = {{NOT_SETTLED},
                   {WHICH_RECORD},
                   {NO_STORE},
                   {NOT_YET},
                   {EXIT_OUTCOME_UNKNOWN, "the probe was inconclusive"}}},
    [COMMAND_keys_release] =
        {.name = "keys release",
         .summary = "settle a record as not done",
         .synopsis = "KEY --token N [OPTIONS]\n--rule R --unknown --before T [OPTIONS]",
         .about = "Settles a record as not done, as `pawl keys resolve --released` does: the next "
                  "attempt runs the operation. No record is released before its `quiet at`. With "
                  "--unknown it releases all records of a rule that are in doubt, and prints how "
                  "many." WHICH_ONE,
         .operand = "KEY",
         .operands_most = 1,
         .flags = {FLAG_TOKEN, FLAG_UNKNOWN, FLAG_BEFORE, FLAG_FORCE, FLAG_REASON, WHICH, FLAG_JSON,
                   FLAG_STORE},
         .exits = {{NOT_SETTLED}, {WHICH_RECORD}, {NO_STORE}, {NOT_YET}}},
    [COMMAND_keys_forget] =
        {.name = "keys forget",
         .summary = "delete a record",
         .synopsis = "KEY [OPTIONS]",
         .about =
             "Deletes a record: the next request under its key is a new operation. A record "
             "whose outcome is not settled (pending or unknown) needs its --token, and is not "
             "deleted before its `quiet at`. --force deletes it anyway; its operation may then "
             "happen twice." WHICH_ONE,
         .operand = "KEY",
         .operands_most = 1,
         .flags = {FLAG_TOKEN, FLAG_FORGET_FORCE, FLAG_REASON, WHICH, FLAG_JSON, FLAG_STORE},
         .exits = {{NOT_SETTLED}, {WHICH_RECORD}, {NO_STORE}, {NOT_YET}}},
    [COMMAND_keys_succeeded] =
        {.name = "keys succeeded",
         .summary = "tell by the exit code whether an operation is remembered as done",
         .synopsis = "KEY [--rule RULE] [OPTIONS]",
         .about = "Looks whether the success of an operation is remembered: of `pawl send`, `pawl "
                  "queue` and the library, unless --rule names a rule of a gateway. What is not "
                  "remembered may have been done, and forgotten since." WHICH_ONE,
         .operand = "KEY",
         .operands_least = 1,
         .operands_most = 1,
         .flags = {FLAG_RULE, FLAG_TENANT, FLAG_STORE},
         .exits = {{EXIT_FINAL_ERROR, "no success is remembered"},
                   {WHICH_RECORD},
                   {NO_STORE},
                   {EXIT_TRY_AGAIN, "it is being sent, or waits in the queue"},
                   {EXIT_OUTCOME_UNKNOWN, "it is in doubt whether it was done"}}},
    [COMMAND_keys_stats] = {.name = "keys stats",
                            .summary = "count records by status",
                            .synopsis = "[OPTIONS]",
                            .about = "Prints the number of records, by status.",
                            .flags = {FLAG_JSON, FLAG_STORE},
                            .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_keys_audit] =
        {.name = "keys audit",
         .summary = "list who settled or deleted records by hand",
         .synopsis = "[OPTIONS]",
         .about =
             "Prints who resolved, released or forgot which record, oldest first; if there are "
             "more acts than --limit, the last ones. Acts are kept for 400 days. With --json "
             "each act is an object on a line of its own.",
         .flags = {FLAG_LIMIT, FLAG_JSON, FLAG_STORE},
         .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_stats] = {.name = "stats",
                       .summary = "print what commands counted in a store",
                       .synopsis = "[--prometheus | --json] [--store PATH]",
                       .about = "Prints the counters that commands keep in the store, where no "
                                "gateway counts: operations, retries and what was given up, by "
                                "retry profile. With --json each is an object on a line of its "
                                "own.",
                       .flags = {FLAG_PROMETHEUS, FLAG_JSON, FLAG_STORE},
                       .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_webhook] = {.name = "webhook",
                         .summary = "publish events, see their deliveries; sign and verify",
                         .synopsis = "SUBCOMMAND [OPTIONS]",
                         .about = "Publishes events for the endpoints of `webhooks:`, shows what "
                                  "became of their deliveries, and sends them again. Signs a "
                                  "webhook as its sender does, and verifies one as its receiver "
                                  "does.",
                         .is_group = true},
    [COMMAND_webhook_publish] =
        {.name = "webhook publish",
         .summary = "publish an event, which `pawl serve` sends to the endpoints",
         .synopsis = "TYPE [-d DATA] [--id ID] [--tenant T] [--time TIME]",
         .about =
             "Publishes an event of a type such as refund.created, with JSON as its data, "
             "and prints its id. It is on disk then, and a `pawl serve` on the same store "
             "delivers it. The same id again, with the same type, tenant and data, is the same "
             "event.",
         .operand = "TYPE",
         .operands_least = 1,
         .operands_most = 1,
         .flags = {FLAG_EVENT_DATA, FLAG_PUBLISH_ID, FLAG_EVENT_TENANT, FLAG_EVENT_TIME,
                   FLAG_STORE},
         .exits = {{EXIT_USAGE, NULL},
                   {EXIT_BAD_DATA, "no event, or its id has another event"},
                   {NO_STORE}}},
    [COMMAND_webhook_list] =
        {.name = "webhook list",
         .summary = "list deliveries, oldest first",
         .synopsis = "[OPTIONS]",
         .about = "Lists deliveries, one for each event and endpoint, oldest first. With --json "
                  "each one is an object on a line of its own.",
         .flags = {FLAG_STATE, FLAG_DEAD, FLAG_ENDPOINT, FLAG_LIMIT, FLAG_JSON, FLAG_STORE},
         .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_webhook_show] = {.name = "webhook show",
                              .summary = "print one delivery with its attempts",
                              .synopsis = "ID [OPTIONS]",
                              .about = "Prints everything about one delivery: its event, its "
                                       "endpoint, and how its attempts ended.",
                              .operand = "ID",
                              .operands_least = 1,
                              .operands_most = 1,
                              .flags = {FLAG_JSON, FLAG_STORE},
                              .exits = {{EXIT_FINAL_ERROR, "no such delivery"},
                                        {EXIT_USAGE, NULL},
                                        {NO_STORE}}},
    [COMMAND_webhook_replay] =
        {.name = "webhook replay",
         .summary = "deliver again, under the same event id",
         .synopsis = "ID... [--force]\n--dead [--since T] [--endpoint NAME] [--rate N] [--force]",
         .about = "Makes deliveries wait again, under the event's id, with a new timestamp and "
                  "the secrets of that moment; their attempts count from the start, and do not "
                  "count for the breaker. With --dead it does so with all that have failed "
                  "finally, --rate of them a second.",
         .operand = "ID",
         .operands_most = 1000,
         .flags = {FLAG_REPLAY_DEAD, FLAG_SINCE, FLAG_ENDPOINT, FLAG_RATE, FLAG_REPLAY_DISABLED,
                   FLAG_ACT_REASON, FLAG_STORE},
         .exits =
             {{NO_DELIVERY}, {EXIT_USAGE, NULL}, {NO_STORE}, {EXIT_TRY_AGAIN, "it is being sent"}}},
    [COMMAND_webhook_drop] =
        {.name = "webhook drop",
         .summary = "give a delivery up",
         .synopsis = "ID [--reason TEXT]\n--dead | --parked [OPTIONS]",
         .about = "Drops a delivery that waits or is dead. It is kept in the list as dropped; "
                  "what waited behind it at an ordered endpoint goes on.\n\n" ABOUT_MANY,
         .operand = "ID",
         .operands_most = 1,
         .flags = {FLAG_ALL_DEAD, FLAG_ALL_PARKED, FLAG_ALL_SINCE, FLAG_ALL_UNTIL, FLAG_ENDPOINT,
                   FLAG_ALL_DRY_RUN, FLAG_ACT_REASON, FLAG_STORE},
         .exits = {{NO_DELIVERY}, {EXIT_USAGE, NULL}, {NO_STORE}, {SOME_LEFT}}},
    [COMMAND_webhook_audit] =
        {.name = "webhook audit",
         .summary = "list who acted on deliveries and endpoints by hand",
         .synopsis = "[OPTIONS]",
         .about = "Prints who did what to deliveries and endpoints, oldest first; if there are "
                  "more acts than --limit, the last ones. Acts are kept for 400 days. With --json "
                  "each act is an object on a line of its own.",
         .flags = {FLAG_LIMIT, FLAG_JSON, FLAG_STORE},
         .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_webhook_endpoint] =
        {.name = "webhook endpoint",
         .summary = "list, add, remove, enable or disable endpoints",
         .synopsis = "add --name NAME --url URL --types A,B [--secret SECRET]... [--option "
                     "NAME=VALUE]...\nlist [--json]\nshow NAME [--json]\nenable NAME\ndisable "
                     "NAME\nrotate NAME [--secret SECRET] [--overlap D]\nremove NAME [--force]",
         .about =
             "Endpoints are those of `webhooks:` in the config, and those that `add` puts "
             "into the store; a running `pawl serve` starts to send to these within a second. "
             "Without --secret a new one is made, and shown once. Deliveries to an endpoint that "
             "is disabled (by an operator, by a 410, or as it failed for 7 days) or removed are "
             "dead; once it is enabled, `pawl webhook replay --dead --endpoint NAME` sends them.",
         .operand = "add|list|show|enable|disable|rotate|remove",
         .operands_least = 1,
         .operands_most = 2,
         .flags = {FLAG_ACT_REASON, FLAG_ENDPOINT_NAME, FLAG_ENDPOINT_URL, FLAG_ENDPOINT_TYPES,
                   FLAG_ENDPOINT_SECRET, FLAG_ENDPOINT_OPTION, FLAG_OVERLAP, FLAG_FORGET_ENDPOINT,
                   FLAG_JSON, FLAG_STORE},
         .exits = {{EXIT_FINAL_ERROR, "there is no such endpoint"},
                   {EXIT_USAGE, NULL},
                   {EXIT_BAD_DATA, "an invalid endpoint, or the name is taken"},
                   {NO_STORE}}},
    [COMMAND_webhook_sign] =
        {.name = "webhook sign",
         .summary = "print the signature of a body",
         .synopsis = "--secret SECRET... --id ID [--timestamp T] [--scheme NAME] [--headers]",
         .about = "Reads the body from standard input and prints the value of its signature "
                  "header. With several secrets it has a signature of each, where the scheme has "
                  "room for them. `whsec_` secrets sign with HMAC-SHA256 (v1), `whsk_` ones with "
                  "Ed25519 (v1a).",
         .flags = {FLAG_SECRET, FLAG_EVENT_ID, FLAG_TIMESTAMP, FLAG_SCHEME, FLAG_ALL_HEADERS},
         .exits = {{EXIT_USAGE, NULL}, {EXIT_BAD_DATA, "the secret cannot be read"}}},
    [COMMAND_webhook_verify] =
        {.name = "webhook verify",
         .summary = "say whether a body was signed with a secret, and if not why",
         .synopsis = "--secret SECRET... -H H... [--timestamp T] [--tolerance D] [--scheme NAME]",
         .about = "Reads the body from standard input, byte for byte as it was received, and "
                  "prints `good`; or says what is wrong: a header that is missing, a timestamp "
                  "beyond the tolerance, no signature that matches.",
         .flags = {FLAG_SECRET, FLAG_RECEIVED_HEADER, FLAG_VERIFY_AT, FLAG_TOLERANCE, FLAG_SCHEME},
         .exits = {{EXIT_FINAL_ERROR, "no valid signature, or a timestamp beyond the tolerance"},
                   {EXIT_USAGE, NULL},
                   {EXIT_BAD_DATA, "the secret cannot be read"}}},
    [COMMAND_webhook_listen] =
        {.name = "webhook listen",
         .summary = "receive webhooks while you develop: verify and print them",
         .synopsis = "[--listen ADDRESS] [--secret SECRET]... [--scheme NAME] [--status CODE]",
         .about = "Receives webhooks on loopback until SIGINT or SIGTERM, and prints each as a "
                  "line of JSON. With --secret it verifies them and responds 401 to what is not "
                  "signed. --status tries what a sender does when its receiver fails.",
         .flags = {FLAG_RECEIVE_AT, FLAG_SECRET, FLAG_SCHEME, FLAG_LISTEN_TOLERANCE, FLAG_RESPOND},
         .exits = {{EXIT_FINAL_ERROR, "the address cannot be used"},
                   {EXIT_USAGE, NULL},
                   {EXIT_BAD_DATA, "the secret cannot be read"}}},
    COMMANDS_OF_INBOX,
    [COMMAND_hash] =
        {.name = "hash",
         .summary = "print the payload hash of a body, or the key in a header value",
         .synopsis = "[--canonical] [--content-type TYPE] [--json] [FILE]\n"
                     "--key VALUE [--strict] [--json]",
         .about = "Prints the payload hash of a body: SHA-256 of its canonical form, as 64 hex "
                  "digits. Reads FILE, or standard input if FILE is missing or `-`; at most 64 "
                  "MiB.",
         .operand = "FILE",
         .operands_most = 1,
         .flags = {FLAG_CANONICAL, FLAG_CONTENT_TYPE, FLAG_HEADER_KEY, FLAG_STRICT, FLAG_JSON},
         .exits = {{EXIT_FINAL_ERROR, "cannot write"},
                   {EXIT_USAGE, "usage, or FILE cannot be read"},
                   {EXIT_BAD_DATA, "not JSON, no key, or too large"}}},
    COMMANDS_OF_STORE,
    [COMMAND_config] =
        {.name = "config",
         .summary = "describe options, or print the effective configuration",
         .synopsis = "SUBCOMMAND [OPTIONS]",
         .about = "Describes the options of the config, or prints the effective configuration.",
         .is_group = true},
    [COMMAND_config_explain] =
        {.name = "config explain",
         .summary = "describe options, or print the effective configuration",
         .synopsis = "[-c FILE] [--json] [OPTION]",
         .about = "Without FILE: prints every option with its default and description, as YAML, "
                  "or everything about one OPTION.\n\n"
                  "With FILE: prints the effective value of "
                  "every option, for each rule, and the line that sets it, as YAML that means "
                  "the same as FILE; with OPTION, of that option alone. Environment variables are "
                  "printed unexpanded, as "
                  "${NAME}.",
         .operand = "OPTION",
         .operands_most = 1,
         .flags = {FLAG_CONFIG, FLAG_JSON},
         .exits = {{EXIT_USAGE, NULL}}},
    [COMMAND_schema] =
        {.name = "schema",
         .summary = "print the SQL that prepares a database for records",
         .synopsis = "postgres",
         .about = "Prints the SQL that turns a PostgreSQL database into a store; run it as the "
                  "database's owner: `pawl schema postgres | psql`. It may be run again. The first "
                  "`pawl serve` also runs it, if its role has the privilege.",
         .operand = "STORE",
         .operands_most = 1,
         .exits = {{EXIT_USAGE, NULL}}},
    [COMMAND_errors] =
        {.name = "errors",
         .summary = "list the errors that pawl responds with, and what to do about them",
         .synopsis = "[--json] [CODE]",
         .about = "Prints every `error_code`: its HTTP status, whether a retry under the same "
                  "key can end differently, whether a new key is safe, the exit code of "
                  "commands, and what the caller can do. A code that ends in `.*` stands for the "
                  "codes of its family that have no row of their own. With --json each error is "
                  "an object on a line of its own.",
         .operand = "CODE",
         .operands_most = 1,
         .flags = {FLAG_JSON},
         .exits = {{EXIT_FINAL_ERROR, "no such error"}, {EXIT_USAGE, NULL}}},
    [COMMAND_backoff] =
        {.name = "backoff",
         .summary = "print how long a retry profile waits before each attempt",
         .synopsis = "PROFILE [--seed N] [--csv | --json]",
         .about = "Prints each attempt of a profile and how long after the end of the one before "
                  "it begins, in milliseconds. Delays are partly random, so that clients that "
                  "failed together do not retry together; the same seed gives the same delays. "
                  "The profiles are user_facing, api, background, scheduled, webhook and queue. "
                  "With --json each attempt is an object on a line of its own.",
         .operand = "PROFILE",
         .operands_least = 1,
         .operands_most = 1,
         .flags = {FLAG_SEED, FLAG_CSV, FLAG_JSON},
         .exits = {{EXIT_USAGE, NULL}}},
    [COMMAND_demo] =
        {.name = "demo",
         .summary = "run a small refund service to try the gateway with",
         .synopsis = "[--listen ADDRESS] [--ledger FILE] [--faults LIST]",
         .about = "Runs a small refund and payment service on loopback, to try the gateway with. "
                  "It does not deduplicate: its ledger counts how often something really "
                  "happened.",
         .flags = {FLAG_LISTEN, FLAG_LEDGER, FLAG_FAULTS},
         .exits = {{EXIT_FINAL_ERROR, "the ledger or the address cannot be used"},
                   {EXIT_USAGE, NULL}}},
    [COMMAND_help] = {.name = "help",
                      .summary = "describe a command and its options",
                      .synopsis = "[COMMAND [SUBCOMMAND]]",
                      .about = "Prints the help of a command, as its --help does; without "
                               "COMMAND, the list of commands.",
                      .operand = "COMMAND",
                      .operands_most = 2,
                      .exits = {{EXIT_USAGE, NULL}}},
    [COMMAND_version] = {.name = "version",
                         .summary = "print the version",
                         .synopsis = "[--json]",
                         .about = "Prints the version.",
                         .flags = {FLAG_JSON},
                         .exits = {{EXIT_USAGE, NULL}}},
};
