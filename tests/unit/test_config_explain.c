/* SPDX-License-Identifier: Apache-2.0 */
/* What `config explain` tells. */
#include "config_texts.h"

#include "base/clock.h"
#include "base/time/duration.h"
#include "config/explain.h"
#include "config/option.h"
#include "config/reader.h"
#include "core/retry/retry.h"

#define ROOM ((size_t)1 << 20)

static const char text[] = "upstream: http://127.0.0.1:9000\n"
                           "store: sqlite:a/../b.db\n"
                           "tenant: \"{header:X-Merchant-Id}\"\n"
                           "trust_tenant: true\n"
                           "defaults: {ttl: 72h, key_format: {regex: '^[\"\\\\ ]+$'}}\n"
                           "rules:\n"
                           "  - name: a\n"
                           "    match: POST /a\n"
                           "    payload: {include: [/a, '/b: c', \"/\\L\\N\\P\\uFEFF\"]}\n"
                           "  - {name: b, match: PUT /b, query: ['~', 'null', \"\\u00FC\"]}\n";

static bool tell(const char *config, bool json, struct buf *to)
{
    char *complaints MEM_AUTO = NULL;
    struct explain explain = {.json = json, .to = to};
    return explain_text(&explain, "pawl.yaml", slice_of(config), &complaints);
}

static void every_kind_of_text_comes_back_as_it_was(void **state)
{
    BUF_AUTO struct buf first = buf_make(ROOM);
    BUF_AUTO struct buf before = buf_make(ROOM);
    BUF_AUTO struct buf after = buf_make(ROOM);
    (void)state;
    assert_true(tell(text, false, &first));
    buf_add_char(&first, '\0');
    assert_true(tell(text, true, &before) && tell(first.at, true, &after));
    static const char *const values[] = {
        "[\"/a\", \"/b: c\", \"/\\u2028\\u0085\\u2029\xef\xbb\xbf\"]",
        "[\"~\", \"null\", \"\xc3\xbc\"]", "{\"regex\": \"^[\\\"\\\\\\\\ ]+$\"}"};
    buf_add_char(&before, '\0');
    buf_add_char(&after, '\0');
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_non_null(strstr(before.at, values[i]));
        assert_non_null(strstr(after.at, values[i]));
    }
}

static void the_short_lease_of_a_participant_names_what_it_comes_from(void **state)
{
    BUF_AUTO struct buf told = buf_make(ROOM);
    (void)state;
    assert_true(tell("upstream: http://127.0.0.1:9000\nstore: postgres://db/app\ntenant: none\n"
                     "rules:\n  - name: a\n    match: POST /a\n    unknown: participant\n",
                     false, &told));
    buf_add_char(&told, '\0');
    const char *lease = strstr(told.at, "\n    lease: ");
    assert_non_null(lease);
    assert_memory_equal(lease, "\n    lease: 5s ", 15);
    assert_non_null(strstr(lease, "# unknown, line 7\n"));
}

static void an_option_is_found_by_its_name_or_by_a_near_one(void **state)
{
    const struct config_sections none = {0};
    struct slice nearest = {NULL, 0};
    (void)state;
    assert_ptr_equal(explain_find(&none, SLICE("ttl"), &nearest), option_at(OPTION_ttl));
    assert_null(explain_find(&none, SLICE("tlt"), &nearest));
    assert_true(slice_eq(nearest, SLICE("ttl")));
    assert_null(explain_find(&none, SLICE("something_else"), &nearest));
    assert_null(nearest.at);
}

static void related_options_exist_and_are_in_one_group(void **state)
{
    static const char *const groups[] = {
#define X(names) names,
        CONFIG_GROUPS(X)
#undef X
    };
    unsigned seen[OPTION_COUNT] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct slice rest = slice_of(groups[i]), name, nearest;
        while (slice_next(&rest, '|', &name)) {
            const struct option *option =
                explain_find(&(struct config_sections){0}, name, &nearest);
            if (!option || seen[option - option_at((enum option_id)0)]++)
                fail_msg("'%.*s' is no option, or in two groups", SLICE_ARG(name));
        }
    }
}

static void the_values_that_are_described_are_those_that_the_help_names(void **state)
{
    static const char *const values[][2] = {
#define X(option, value, text) {#option, value},
        CONFIG_VALUES(X)
#undef X
    };
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        BUF_AUTO struct buf told = buf_make(ROOM);
        struct slice nearest;
        struct explain explain = {.to = &told};
        explain.option = explain_find(&explain.sections, slice_of(values[i][0]), &nearest);
        explain_reference(&explain);
        buf_add_char(&told, '\0');
        assert_non_null(strstr(strstr(told.at, ": ") + 2, values[i][1]));
        assert_non_null(strstr(strstr(told.at, "\n  values\n"), values[i][1]));
    }
}

static void an_option_that_takes_a_map_or_a_list_says_so_in_its_type(void **state)
{
    (void)state;
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option *option = option_at((enum option_id)id);
        if (!strpbrk(option->help, "{["))
            continue;
        assert_string_not_equal(option_type(option), "word");
        assert_string_not_equal(option_type(option), "duration");
    }
}

static void the_profiles_that_are_described_are_those_of_the_engine(void **state)
{
    BUF_AUTO struct buf told = buf_make(ROOM);
    struct slice nearest;
    struct explain explain = {.to = &told};
    (void)state;
    explain.option = explain_find(&explain.sections, SLICE("retry"), &nearest);
    explain_reference(&explain);
    buf_add_char(&told, '\0');
    for (int i = 0; i < RETRY_PROFILE_queue; i++) {
        const struct retry_schedule *schedule = retry_profile_schedule((enum retry_profile)i);
        BUF_AUTO struct buf row = buf_make(ROOM);
        buf_printf(&row, "%-11.*s %d attempts in ",
                   SLICE_ARG(retry_profile_name((enum retry_profile)i)), schedule->attempts);
        duration_print(&row, schedule->total_us);
        buf_add_char(&row, '\0');
        assert_non_null(strstr(told.at, row.at));
    }
}

/* ---- what needs a restart ---- */

static const struct option of_start[] = {
    CONFIG_MEMBER(drain, config, drain_us, duration, 0, HOUR, "25s", "a duration"),
    CONFIG_MEMBER(cache, config, cache, cache, 0, GIB, "auto", "a size"),
    CONFIG_MEMBER(threads, config, gateway.threads, count, 0, 256, "0", "a number"),
    CONFIG_MEMBER(accept_weaker, config, accept_weaker, bool, 0, 0, "false", "a flag"),
    CONFIG_MEMBER(listen, config, listen, listen, 0, 0, "127.0.0.1:8080", "an address"),
    CONFIG_MEMBER(store, config, store, store, 0, 0, "(none)", "a text"),
};
static const char *const of_others[] = {
    HEAD "drain: 26s\n",          HEAD "cache: 1MiB\n",         HEAD "threads: 3\n",
    HEAD "accept_weaker: true\n", HEAD "listen: 127.0.0.1:1\n", HEAD "store: sqlite:other.db\n"};

static void a_restart_is_needed_for_an_option_of_any_type_that_differs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof of_start / sizeof *of_start; i++) {
        struct option option = of_start[i];
        struct config *old = good(HEAD), *same = good(HEAD), *new = good(of_others[i]);
        option.where = OPTION_RESTART;
        assert_false(option_needs_restart(&option, old, same));
        assert_true(option_needs_restart(&option, old, new));
        config_free(old);
        config_free(same);
        config_free(new);
    }
}

#ifdef PAWL_HOOKS
static void every_failed_allocation_is_noticed(void **state)
{
    bool fired = true;
    (void)state;
    for (long n = 1; fired; n++) {
        BUF_AUTO struct buf told = buf_make(ROOM);
        mem_fail_nth(n);
        bool good = tell(text, n % 2 == 0, &told);
        fired = mem_fail_fired();
        mem_fail_nth(0);
        assert_int_equal(good && buf_ok(&told), !fired);
        assert_true(n < 100000);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_text_comes_back_as_it_was),
        cmocka_unit_test(the_short_lease_of_a_participant_names_what_it_comes_from),
        cmocka_unit_test(an_option_is_found_by_its_name_or_by_a_near_one),
        cmocka_unit_test(related_options_exist_and_are_in_one_group),
        cmocka_unit_test(the_values_that_are_described_are_those_that_the_help_names),
        cmocka_unit_test(an_option_that_takes_a_map_or_a_list_says_so_in_its_type),
        cmocka_unit_test(the_profiles_that_are_described_are_those_of_the_engine),
        cmocka_unit_test(a_restart_is_needed_for_an_option_of_any_type_that_differs),
#ifdef PAWL_HOOKS
        cmocka_unit_test(every_failed_allocation_is_noticed),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
