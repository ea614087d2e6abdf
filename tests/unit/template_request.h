/* SPDX-License-Identifier: Apache-2.0 */
/* One request, and templates evaluated over it. */
#ifndef TESTS_UNIT_TEMPLATE_REQUEST_H
#define TESTS_UNIT_TEMPLATE_REQUEST_H

#include "core/template/template.h"

#define ARENA_MAX (1024 * 1024)

/* ---- one request under test ---- */

struct request {
    struct arena arena;
    struct headers headers;
    struct payload payload;
    struct template_facts facts;
};

static inline void request_init(struct request *request)
{
    memset(request, 0, sizeof(*request));
    request->arena = arena_make(ARENA_MAX);
    request->facts.headers = &request->headers;
    request->facts.method = SLICE("POST");
    request->facts.route = SLICE("refunds.create");
    request->facts.tenant = SLICE("m1");
    request->facts.key = SLICE("k 1/2");
    request->facts.payload_hex = SLICE("00ff");
}

static inline void request_fini(struct request *request)
{
    arena_fini(&request->arena);
}
#define REQUEST_AUTO __attribute__((cleanup(request_fini)))

static inline void set_body(struct request *request, const char *type, const char *body)
{
    assert_int_equal(payload_read(&request->arena,
                                  &(struct payload_input){slice_of(body), slice_of(type),
                                                          slice_make(NULL, 0), 1 << 20},
                                  &request->payload),
                     PAYLOAD_OK);
    request->facts.payload = &request->payload;
}

static inline void compile(struct request *request, enum template_use use, const char *text,
                           struct template *ret_template)
{
    struct slice problem;
    if (!template_compile(slice_of(text), use, &request->arena, ret_template, &problem))
        fail_msg("%s: %.*s", text, SLICE_ARG(problem));
}

static inline enum template_result evaluate(struct request *request, enum template_use use,
                                            const char *text, struct buf *buf,
                                            struct slice *ret_missing)
{
    struct template template;
    compile(request, use, text, &template);
    if (use == TEMPLATE_FOR_TENANT)
        return template_tenant(&template, &request->facts, &request->arena, buf, ret_missing);
    struct template_output output = {.arena = &request->arena, .buf = buf};
    if (use == TEMPLATE_FOR_PROBE)
        return template_probe(&template, &request->facts, &output, ret_missing);
    return template_key(&template, &request->facts, &request->arena, buf, ret_missing);
}

static inline void gives(struct request *request, enum template_use use, const char *text,
                         const char *expected)
{
    BUF_AUTO struct buf buf = buf_make(1 << 20);
    struct slice missing = {NULL, 0};
    enum template_result result = evaluate(request, use, text, &buf, &missing);
    if (result != TEMPLATE_OK || !slice_eq(buf_slice(&buf), slice_of(expected)))
        fail_msg("%s: result %d, <%.*s>, missing %.*s", text, result, SLICE_ARG(buf_slice(&buf)),
                 SLICE_ARG(missing));
}

/* Nothing is made, and the source `expected` is to blame. */
static inline void makes_none(struct request *request, enum template_use use,
                              enum template_result because, const char *text, const char *expected)
{
    BUF_AUTO struct buf buf = buf_make(1 << 20);
    struct slice missing = {NULL, 0};
    enum template_result result = evaluate(request, use, text, &buf, &missing);
    if (result != because || !slice_eq(missing, slice_of(expected)) || buf.len != 0)
        fail_msg("%s: result %d, <%.*s>, missing %.*s", text, result, SLICE_ARG(buf_slice(&buf)),
                 SLICE_ARG(missing));
}

static inline void lacks(struct request *request, enum template_use use, const char *text,
                         const char *expected)
{
    makes_none(request, use, TEMPLATE_MISSING, text, expected);
}

static inline void set_pair(struct request *request, const char *a, const char *b)
{
    request->facts.n_params = 2;
    request->facts.params[0] = (struct template_path_param){SLICE("a"), slice_of(a)};
    request->facts.params[1] = (struct template_path_param){SLICE("b"), slice_of(b)};
}

#endif
