/* SPDX-License-Identifier: Apache-2.0 */
/* An event of `inbox:`: what is stored of it, and what its sender is told. Whether it is signed,
 * and what the store has of it, is a script. */
#include "exchange_play.h"

#include "gateway/receive/receive.h"
#include "webhook/receipt.h"

static struct {
    const char *body;
    enum signature_verdict verdict;
    enum store_status status;
    enum receipt_end end;
    int n_taken;
    char taken[256]; /* id, order and fields of the last one */
} script;

bool __wrap_identify_read_request(struct exchange *x);
enum signature_verdict __wrap_signature_verify(const struct signature_scheme *scheme,
                                               const struct signature_keys *keys,
                                               const struct signature_received *received);
enum store_status __wrap_receipt_take(struct store *store, struct parker *parker,
                                      const struct receipt *receipt, enum receipt_end *ret_end);

bool __wrap_identify_read_request(struct exchange *x)
{
    buf_add_str(&x->body, script.body);
    x->has_body = true;
    return true;
}

enum signature_verdict __wrap_signature_verify(const struct signature_scheme *scheme,
                                               const struct signature_keys *keys,
                                               const struct signature_received *received)
{
    (void)keys;
    assert_ptr_equal(scheme, &play->rule.inbox->verify.scheme);
    assert_true(slice_eq(received->body, slice_of(script.body)));
    return script.verdict;
}

enum store_status __wrap_receipt_take(struct store *store, struct parker *parker,
                                      const struct receipt *receipt, enum receipt_end *ret_end)
{
    assert_true(store == play->config.store && parker == &play->parker);
    assert_true(slice_eq(receipt->body, slice_of(script.body)));
    script.n_taken++;
    snprintf(script.taken, sizeof script.taken, "%.*s|%.*s|%.*s", SLICE_ARG(receipt->event_id),
             SLICE_ARG(receipt->order), SLICE_ARG(receipt->fields));
    *ret_end = script.end;
    return script.status;
}

/* ---- the stage ---- */

static struct inbox_source source;

static void compile_template(const char *text, struct template *ret_template)
{
    struct slice problem;
    if (!template_compile(slice_of(text), TEMPLATE_FOR_KEY, &play->arena, ret_template, &problem))
        fail_msg("%s: %.*s", text, SLICE_ARG(problem));
}

static int set_source(void **state)
{
    set_stage(state);
    memset(&script, 0, sizeof script);
    script.body = "{\"id\":\"ev_1\",\"about\":\"o7\"}";
    script.verdict = SIGNATURE_GOOD;
    source = (struct inbox_source){.name = SLICE("shop"), .source = SLICE("shop")};
    compile_template("{body:/id}", &play->rule.key);
    play->rule.inbox = &source;
    play->request.headers.at[play->request.headers.n++] =
        (struct header){SLICE("Content-Type"), SLICE("application/json")};
    return 0;
}

static bool receive(void)
{
    const struct rule_found found = {.rule = &play->rule};
    bool goes_on = receive_event(&play->client, &play->request, &found);
    assert_int_equal(play->n_responses, 1);
    assert_true(atomic_load(&play->shared.buffered) == 0);
    return goes_on;
}

static void expect_status(const char *line, const char *mark)
{
    if (strncmp(play->sent, line, strlen(line)) != 0 || (mark && !strstr(play->sent, mark)))
        fail_msg("no %s with %s in\n%s", line, mark ? mark : "", play->sent);
}

/* ---- what is told ---- */

struct row {
    const char *name;
    enum store_status status;
    enum receipt_end end;
    int mismatch_status;
    const char *line;
    const char *mark;
    int n_events;
};

static const struct row rows[] = {
    {"stored", STORE_DONE, RECEIPT_STORED, 409, "HTTP/1.1 200 ", "Idempotency-Status: stored\r\n",
     1},
    {"known", STORE_DONE, RECEIPT_REPLAYED, 409, "HTTP/1.1 200 ",
     "Idempotency-Status: replayed\r\n", 0},
    {"another body", STORE_DONE, RECEIPT_MISMATCH, 409, "HTTP/1.1 409 ", "payload_mismatch", 0},
    {"another body, acknowledged", STORE_DONE, RECEIPT_MISMATCH, 200, "HTTP/1.1 200 ", NULL, 0},
    {"down", STORE_DOWN, RECEIPT_STORED, 409, "HTTP/1.1 503 ", "the event was not stored", 0},
    {"frozen", STORE_FROZEN, RECEIPT_STORED, 409, "HTTP/1.1 503 ", "an operator froze", 0},
    {"too many", STORE_LIMITED, RECEIPT_STORED, 409, "HTTP/1.1 429 ", "the event was not stored",
     0},
};

static void its_sender_is_told_what_the_store_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        play->n_responses = play->n_events = 0;
        play->rule.mismatch_status = rows[i].mismatch_status;
        script.status = rows[i].status;
        script.end = rows[i].end;
        assert_true(receive());
        expect_status(rows[i].line, rows[i].mark);
        assert_int_equal(play->n_events, rows[i].n_events);
    }
    assert_int_equal(script.n_taken, sizeof rows / sizeof *rows);
}

static void what_is_not_signed_is_not_stored(void **state)
{
    (void)state;
    for (int verdict = 0; verdict < SIGNATURE_VERDICT_COUNT; verdict++) {
        if (verdict == SIGNATURE_GOOD)
            continue;
        play->n_responses = 0;
        script.verdict = (enum signature_verdict)verdict;
        assert_true(receive());
        expect_status(verdict == SIGNATURE_NO_MEMORY ? "HTTP/1.1 429 " : "HTTP/1.1 401 ", NULL);
    }
    assert_int_equal(script.n_taken, 0);
}

static void its_id_its_order_and_how_to_read_it_are_stored(void **state)
{
    (void)state;
    compile_template("{body:/about}", &source.order);
    source.has_order = true;
    assert_true(receive());
    assert_string_equal(script.taken, "ev_1|o7|Content-Type: application/json\r\n");
    play->n_responses = 0;
    script.body = "{\"id\":\"ev_2\"}";
    assert_true(receive());
    assert_string_equal(script.taken, "ev_2||Content-Type: application/json\r\n");
}

static void one_without_an_id_is_refused(void **state)
{
    (void)state;
    script.body = "{}";
    assert_true(receive());
    expect_status("HTTP/1.1 400 ", "key_source_missing");
    assert_int_equal(script.n_taken, 0);
}

static void a_challenge_is_answered_and_not_stored(void **state)
{
    (void)state;
    source.verify.scheme.name = SLICE("slack");
    script.body = "{\"type\":\"url_verification\",\"challenge\":\"c7\"}";
    assert_true(receive());
    expect_status("HTTP/1.1 200 ", "\r\n\r\nc7");
    assert_int_equal(script.n_taken, 0);
}

#define EVENT_TEST(name) cmocka_unit_test_setup_teardown(name, set_source, clear_stage)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVENT_TEST(its_sender_is_told_what_the_store_says),
        EVENT_TEST(what_is_not_signed_is_not_stored),
        EVENT_TEST(its_id_its_order_and_how_to_read_it_are_stored),
        EVENT_TEST(one_without_an_id_is_refused),
        EVENT_TEST(a_challenge_is_answered_and_not_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
