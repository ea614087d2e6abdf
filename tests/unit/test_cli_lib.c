/* SPDX-License-Identifier: Apache-2.0 */
/* What commands share: which exit code a store in which state means, and what people read. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/lib/opener.h"
#include "cli/lib/print.h"
#include "cli/lib/store_path.h"
#include "core/errors.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- opener ---- */

struct place {
    char folder[32];
    char path[64];
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    snprintf(place->folder, sizeof place->folder, "/tmp/pawl-cli-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->path, sizeof place->path, "%s/pawl.db", place->folder);
    setenv("PAWL_ACCEPT_WEAKER", "true", 1);
    *state = place;
    return 0;
}

static int remove_one(const char *path, const struct stat *stat, int flag, struct FTW *at)
{
    (void)stat, (void)flag, (void)at;
    return remove(path);
}

static int remove_place(void **state)
{
    struct place *place = *state;
    int code = nftw(place->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(place);
    return code;
}

static int try_store(const char *path, enum store_role role, bool create, struct store **ret_store)
{
    char *problem MEM_AUTO = NULL;
    struct store_config config = store_config_default();
    config.path = path;
    config.role = role;
    config.read_only_file = !create;
    int code = opener_try_store("try", config, ret_store, &problem);
    assert_int_equal(code != EXIT_DONE && code != EXIT_USAGE, problem != NULL);
    return code;
}

static void a_store_that_is_not_there_is_made_or_unavailable(void **state)
{
    const struct place *place = *state;
    struct store *store = NULL;
    assert_int_equal(try_store(place->path, STORE_COMMAND, false, &store), EXIT_UNAVAILABLE);
    assert_null(store);
    assert_int_equal(access(place->path, F_OK), -1);
    assert_int_equal(try_store(place->path, STORE_COMMAND, true, &store), EXIT_DONE);
    store_close(store);
    assert_int_equal(try_store(place->path, STORE_COMMAND, false, &store), EXIT_DONE);
    store_close(store);
}

static void a_second_drain_is_to_try_again(void **state)
{
    const struct place *place = *state;
    struct store *store, *other = NULL;
    assert_int_equal(try_store(place->path, STORE_DRAINER, true, &store), EXIT_DONE);
    assert_int_equal(try_store(place->path, STORE_DRAINER, true, &other), EXIT_TRY_AGAIN);
    assert_null(other);
    assert_int_equal(try_store(place->path, STORE_COMMAND, false, &other), EXIT_DONE);
    store_close(other);
    store_close(store);
}

static void a_folder_is_no_store(void **state)
{
    const struct place *place = *state;
    struct store *store = NULL;
    assert_int_equal(try_store(place->folder, STORE_COMMAND, true, &store), EXIT_UNAVAILABLE);
}

static void what_the_store_says_is_an_exit_code(void **state)
{
    static const struct {
        enum store_status status;
        int code;
    } rows[] = {
        {STORE_DONE, EXIT_DONE},
        {STORE_DOWN, EXIT_UNAVAILABLE},
        {STORE_FULL, EXIT_UNAVAILABLE},
        {STORE_FROZEN, EXIT_TRY_AGAIN},
        {STORE_LIMITED, EXIT_UNAVAILABLE},
        {STORE_NO_MEMORY, EXIT_UNAVAILABLE},
        {STORE_WENT_BACK, EXIT_UNAVAILABLE},
    };
    const struct place *place = *state;
    struct store *store;
    assert_int_equal(try_store(place->path, STORE_COMMAND, true, &store), EXIT_DONE);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(opener_complain("try", store, rows[i].status), rows[i].code);
    store_close(store);
}

/* ---- where the store is ---- */

static void assert_path(const char *option, const char *want)
{
    char *path MEM_AUTO = store_path_find(option, false);
    if (want)
        assert_string_equal(path, want);
    else
        assert_null(path);
}

static void the_option_comes_before_the_variable_before_the_home(void **state)
{
    (void)state;
    setenv("HOME", "/home/x", 1);
    setenv("XDG_STATE_HOME", "/state", 1);
    setenv("PAWL_STORE", "sqlite:b.db", 1);
    assert_path("a.db", "a.db");
    assert_path("sqlite:a.db", "a.db");
    assert_path(NULL, "b.db");
    unsetenv("PAWL_STORE");
    assert_path(NULL, "/state/pawl/pawl.db");
    setenv("XDG_STATE_HOME", "not absolute", 1);
    assert_path(NULL, "/home/x/.local/state/pawl/pawl.db");
    unsetenv("HOME");
    assert_path(NULL, NULL);
    assert_path("file:/nowhere/at/all", NULL);
}

/* ---- print ---- */

static void nothing_from_outside_steers_a_terminal(void **state)
{
    static const struct {
        const char *text, *printed;
    } rows[] = {
        {"plain text", "plain text"},
        {"a\\b", "a\\\\b"},
        {"\x1b[31m", "\\x1b[31m"},
        {"two\nlines\t", "two\\x0alines\\x09"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xc3", "\\xc3"},
        {"a\xe2\x80\xae"
         "b",
         "a\\xe2\\x80\\xaeb"},
        {"\x7f", "\\x7f"},
        {"", "-"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        BUF_AUTO struct buf buf = buf_make(SIZE_MAX);
        print_text(&buf, slice_of(rows[i].text));
        assert_true(slice_eq(buf_slice(&buf), slice_of(rows[i].printed)));
    }
}

static void a_fact_is_a_line_with_a_label(void **state)
{
    BUF_AUTO struct buf buf = buf_make(SIZE_MAX);
    (void)state;
    print_fact(&buf, "key:", SLICE("k 1"));
    print_fact(&buf, "tenant:", SLICE(""));
    print_fact_number(&buf, "token:", -7);
    print_fact_moment(&buf, "until:", CLOCK_NEVER);
    print_fact_moment(&buf, "ended:", 0);
    print_fact_moment(&buf, "at:", INT64_C(1000000));
    print_fields(&buf, SLICE("A: 1\r\nB: 2\r\n"));
    assert_true(slice_eq(buf_slice(&buf), SLICE("key:          k 1\n"
                                                "tenant:       -\n"
                                                "token:        -7\n"
                                                "until:        forever\n"
                                                "ended:        -\n"
                                                "at:           1970-01-01T00:00:01.000Z\n"
                                                "              A: 1\n"
                                                "              B: 2\n")));
}

int main(void)
{
#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)
    const struct CMUnitTest tests[] = {
        IN_PLACE(a_store_that_is_not_there_is_made_or_unavailable),
        IN_PLACE(a_second_drain_is_to_try_again),
        IN_PLACE(a_folder_is_no_store),
        IN_PLACE(what_the_store_says_is_an_exit_code),
        cmocka_unit_test(the_option_comes_before_the_variable_before_the_home),
        cmocka_unit_test(nothing_from_outside_steers_a_terminal),
        cmocka_unit_test(a_fact_is_a_line_with_a_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
