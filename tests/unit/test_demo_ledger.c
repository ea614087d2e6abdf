/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "demo/faults.h"
#include "demo/ledger.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define AT_US INT64_C(1795168800123000) /* 2026-11-20T10:00:00.123Z */

struct place {
    char folder[64];
    char path[80];
};

static int setup(void **state)
{
    struct place *place = test_malloc(sizeof *place);
    snprintf(place->folder, sizeof place->folder, "/tmp/pawl-ledger-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->path, sizeof place->path, "%s/ledger", place->folder);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    unlink(place->path);
    rmdir(place->folder);
    test_free(place);
    return 0;
}

static struct ledger *reopen(const struct place *place, struct ledger *open)
{
    BUF_AUTO struct buf problem = buf_make(1000);
    ledger_close(open);
    struct ledger *ledger = ledger_open(place->path, &problem);
    assert_non_null(ledger);
    assert_int_equal(problem.len, 0);
    return ledger;
}

static const struct ledger_entry *refund(struct ledger *ledger, struct slice key, uint64_t amount)
{
    struct ledger_order order = {.kind = LEDGER_REFUND,
                                 .key = key,
                                 .subject = SLICE("ch_1"),
                                 .amount = amount,
                                 .at_us = AT_US};
    return ledger_append(ledger, &order);
}

static size_t count(const struct ledger *ledger)
{
    size_t n = 0;
    for (const struct ledger_entry *entry = ledger_first(ledger); entry; entry = entry->next)
        n++;
    return n;
}

static void write_file(const struct place *place, const char *text)
{
    FILE *file = fopen(place->path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_file(const struct place *place, const char *text)
{
    char got[2000] = "";
    FILE *file = fopen(place->path, "r");
    assert_non_null(file);
    got[fread(got, 1, sizeof got - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(got, text);
}

#define LINE_1                                                                                     \
    "{\"id\":\"rf_000001\",\"kind\":\"refund\",\"key\":\"k 1\",\"charge_id\":\"ch_1\","            \
    "\"amount\":5,\"at\":\"2026-11-20T10:00:00.123Z\"}\n"
#define LINE_2                                                                                     \
    "{\"id\":\"rf_000002\",\"kind\":\"refund\",\"key\":null,\"charge_id\":\"ch_1\","               \
    "\"amount\":6,\"at\":\"2026-11-20T10:00:00.123Z\"}\n"

static void each_effect_is_one_line_in_the_file(void **state)
{
    struct ledger *ledger = reopen(*state, NULL);
    const struct ledger_entry *first = refund(ledger, SLICE("k 1"), 5);
    assert_non_null(first);
    assert_non_null(refund(ledger, slice_make(NULL, 0), 6));
    assert_true(ledger_sync(ledger));
    assert_file(*state, LINE_1 LINE_2);
    assert_true(slice_eq(first->line, slice_make(LINE_1, sizeof LINE_1 - 2)));
    ledger_close(ledger);
}

static void two_effects_under_one_key_are_two_entries(void **state)
{
    struct ledger *ledger = reopen(*state, NULL);
    const struct ledger_entry *first = refund(ledger, SLICE("k"), 5);
    const struct ledger_entry *second = refund(ledger, SLICE("k"), 5);
    assert_int_equal(first->number, 1);
    assert_int_equal(second->number, 2);
    assert_int_equal(count(ledger), 2);
    assert_ptr_equal(ledger_by_key(ledger, LEDGER_REFUND, SLICE("k")), first);
    assert_ptr_equal(ledger_first(ledger)->next, second);
    ledger_close(ledger);
}

static void entries_are_found_by_key_and_number_of_their_kind_only(void **state)
{
    struct ledger *ledger = reopen(*state, NULL);
    const struct ledger_entry *entry = refund(ledger, SLICE(""), 5);
    assert_non_null(refund(ledger, slice_make(NULL, 0), 5));
    assert_ptr_equal(ledger_by_key(ledger, LEDGER_REFUND, SLICE("")), entry);
    assert_ptr_equal(ledger_by_number(ledger, LEDGER_REFUND, 1), entry);
    assert_null(ledger_by_key(ledger, LEDGER_PAYMENT, SLICE("")));
    assert_null(ledger_by_number(ledger, LEDGER_PAYMENT, 1));
    assert_null(ledger_by_number(ledger, LEDGER_REFUND, 3));
    assert_null(ledger_by_key(ledger, LEDGER_REFUND, SLICE("x")));
    ledger_close(ledger);
}

static void ids_and_entries_go_on_after_a_restart(void **state)
{
    struct ledger *ledger = reopen(*state, NULL);
    assert_non_null(refund(ledger, SLICE("q\"\\\n\t"), 5));
    struct ledger_order payment = {.kind = LEDGER_PAYMENT,
                                   .key = SLICE("p"),
                                   .subject = SLICE("o"),
                                   .amount = LEDGER_AMOUNT_MAX,
                                   .at_us = AT_US};
    assert_int_equal(ledger_append(ledger, &payment)->number, 1);
    ledger = reopen(*state, ledger);
    assert_int_equal(count(ledger), 2);
    assert_int_equal(ledger_by_key(ledger, LEDGER_REFUND, SLICE("q\"\\\n\t"))->number, 1);
    assert_int_equal(ledger_by_number(ledger, LEDGER_PAYMENT, 1)->kind, LEDGER_PAYMENT);
    assert_int_equal(refund(ledger, SLICE("n"), 5)->number, 2);
    assert_int_equal(ledger_append(ledger, &payment)->number, 2);
    for (uint64_t n = 3; n <= 200; n++)
        assert_int_equal(refund(ledger, SLICE("n"), n)->number, n);
    ledger = reopen(*state, ledger);
    assert_int_equal(count(ledger), 202);
    ledger_close(ledger);
}

static void unfinished_last_line_is_cut_off(void **state)
{
    write_file(*state, LINE_1 "{\"id\":\"rf_000002\",\"ki");
    struct ledger *ledger = reopen(*state, NULL);
    assert_int_equal(count(ledger), 1);
    assert_non_null(refund(ledger, slice_make(NULL, 0), 6));
    assert_file(*state, LINE_1 LINE_2);
    ledger_close(ledger);
}

static void file_that_is_no_ledger_is_refused_and_left_alone(void **state)
{
    static const char *const texts[] = {
        "hello\n",
        "{}\n",
        LINE_1 "\n",
        "{\"id\":\"rf_000001\",\"kind\":\"payment\",\"key\":null}\n",
        "{\"id\":\"rf_1\",\"kind\":\"refund\",\"key\":null}\n",
        "{\"id\":\"rf_00000x\",\"kind\":\"refund\",\"key\":null}\n",
        "{\"id\":\"rf_000001\",\"kind\":\"refund\",\"key\":1}\n",
        "{\"id\":\"rf_000001\",\"kind\":\"refund\"}\n",
        "{\"id\":\"xx_000001\",\"kind\":\"gift\",\"key\":null}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct place *place = *state;
        BUF_AUTO struct buf problem = buf_make(1000);
        write_file(place, texts[i]);
        assert_null(ledger_open(place->path, &problem));
        assert_true(problem.len > 0);
        assert_file(place, texts[i]);
    }
}

static void second_process_is_refused_the_file(void **state)
{
    struct place *place = *state;
    BUF_AUTO struct buf problem = buf_make(1000);
    struct ledger *ledger = reopen(place, NULL);
    assert_null(ledger_open(place->path, &problem));
    assert_true(slice_eq(buf_slice(&problem), SLICE("another process holds it")));
    ledger_close(ledger);
    buf_clear(&problem);
    assert_null(ledger_open(place->folder, &problem));
    assert_true(problem.len > 0);
}

/* A file size limit in the middle of the line. */
static void effect_that_cannot_be_written_whole_is_none(void **state)
{
    struct ledger *ledger = reopen(*state, NULL);
    assert_non_null(refund(ledger, SLICE("k 1"), 5));
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){sizeof LINE_1 - 1 + 20, before.rlim_max};
    void (*action)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct ledger_entry *failed = refund(ledger, slice_make(NULL, 0), 6);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, action);
    assert_null(failed);
    assert_int_equal(count(ledger), 1);
    assert_non_null(refund(ledger, slice_make(NULL, 0), 6));
    assert_file(*state, LINE_1 LINE_2);
    ledger_close(ledger);
}

#ifdef PAWL_HOOKS
static void effect_without_memory_is_none(void **state)
{
    struct ledger *ledger = reopen(*state, NULL);
    const struct ledger_entry *entry = NULL;
    long failures = 0;
    while (entry == NULL) {
        mem_fail_nth(failures + 1);
        entry = refund(ledger, SLICE("k 1"), 5);
        failures += mem_fail_fired() != 0;
        mem_fail_nth(0);
    }
    assert_true(failures >= 2);
    assert_int_equal(count(ledger), 1);
    assert_file(*state, LINE_1);
    ledger_close(ledger);
}
#endif

static void faults_are_read_as_a_list(void **state)
{
    (void)state;
    struct demo_faults faults = {.status = 1};
    assert_true(demo_faults_read(SLICE(""), &faults));
    assert_int_equal(faults.status, 0);
    assert_true(demo_faults_read(SLICE("delay=2000, lose"), &faults));
    assert_int_equal(faults.delay_ms, 2000);
    assert_true(faults.lose && !faults.half && !faults.lose_before);
    assert_true(demo_faults_read(SLICE("status=503,half ,lose-before"), &faults));
    assert_int_equal(faults.status, 503);
    assert_true(!faults.lose && faults.half && faults.lose_before && faults.delay_ms == 0);
}

static void unknown_faults_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"los",        "delay",      "delay=x",    "delay=600001",
                                        "status=200", "status=600", "lose,,half", "lose=1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct demo_faults faults = {.delay_ms = 7};
        assert_false(demo_faults_read(slice_of(texts[i]), &faults));
        assert_int_equal(faults.delay_ms, 7);
    }
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FILE(each_effect_is_one_line_in_the_file),
        WITH_FILE(two_effects_under_one_key_are_two_entries),
        WITH_FILE(entries_are_found_by_key_and_number_of_their_kind_only),
        WITH_FILE(ids_and_entries_go_on_after_a_restart),
        WITH_FILE(unfinished_last_line_is_cut_off),
        WITH_FILE(file_that_is_no_ledger_is_refused_and_left_alone),
        WITH_FILE(second_process_is_refused_the_file),
        WITH_FILE(effect_that_cannot_be_written_whole_is_none),
#ifdef PAWL_HOOKS
        WITH_FILE(effect_without_memory_is_none),
#endif
        cmocka_unit_test(faults_are_read_as_a_list),
        cmocka_unit_test(unknown_faults_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
