/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places where a test may kill the process, in the order one exchange passes them. A name
 * belongs here when a CRASH_POINT(name) stands in the code and a test dies there.
 */
#ifndef PAWL_BASE_CRASH_POINTS_H
#define PAWL_BASE_CRASH_POINTS_H

#define CRASH_POINTS(X)                                                                            \
    X(request_headers_read)                                                                        \
    X(inside_body)                                                                                 \
    X(request_body_read)                                                                           \
    X(before_begin)                                                                                \
    X(after_claim_commit)                                                                          \
    X(before_connect)                                                                              \
    X(before_request_write)                                                                        \
    X(between_request_writes)                                                                      \
    X(after_request_write)                                                                         \
    X(after_response_headers)                                                                      \
    X(after_response_body)                                                                         \
    X(before_outcome_commit)                                                                       \
    X(after_outcome_commit)                                                                        \
    X(before_response_write)                                                                       \
    X(between_response_writes)                                                                     \
    X(after_response_write)                                                                        \
    X(inside_batch)                                                                                \
    X(before_commit)                                                                               \
    X(inside_commit)                                                                               \
    X(before_commit_sync)                                                                          \
    X(after_commit)                                                                                \
    X(after_wake_up)                                                                               \
    X(before_checkpoint)                                                                           \
    X(inside_checkpoint)                                                                           \
    X(before_checkpoint_sync)                                                                      \
    X(after_checkpoint)                                                                            \
    X(inside_merge)                                                                                \
    X(inside_sweep)                                                                                \
    X(before_probe)                                                                                \
    X(after_probe_response)                                                                        \
    X(before_release_commit)                                                                       \
    X(before_doubt_commit)                                                                         \
    X(inside_fan_out)                                                                              \
    X(between_acts)                                                                                \
    X(inside_look_up)                                                                              \
    X(before_reload)                                                                               \
    X(inside_reload)                                                                               \
    X(after_reload)                                                                                \
    X(before_drain)                                                                                \
    X(after_drain)

#endif
