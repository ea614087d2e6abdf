/* SPDX-License-Identifier: Apache-2.0 */
/* What test_went_back.c reaches by rare chance, by hand, one process and its mark; and its
 * sessions. */
#include "base/arena.h"
#include "toy/marked.h"
#include "toy/toy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define DAY (86400 * CLOCK_US_PER_S)
#define ARENA_MAX ((size_t)4096)

static struct marks marks;

static struct backend *open_marked(void)
{
    marks = (struct marks){.n = 0};
    clock_test_set(DAY, DAY);
    return marked_over(hostile_over(toy_open(NULL), 0, false), &marks);
}

static void close_marked(struct backend *backend)
{
    backend->ops->close(backend);
    clock_test_set(0, 0);
}

/* A save that writes, or one that waits for what was unsure. */
static enum backend_status save(struct backend *backend, bool writes)
{
    struct arena arena ARENA_AUTO = arena_make(ARENA_MAX);
    struct backend_read read;
    struct backend_group group = {.begins = true};
    assert_int_equal(backend->ops->load(backend, NULL, 0, &arena, &read), BACKEND_OK);
    struct backend_save save = {.groups = writes ? &group : NULL, .terms = read.terms};
    return backend->ops->save(backend, &save);
}

/* As its committer does once the store says what it noticed. */
static void say(struct backend *backend)
{
    assert_true(backend->back.untold);
    backend->back.untold = false;
}

static void a_mark_that_is_only_seen_is_as_old_as_it_was(void **state)
{
    struct backend_chores chores = {.sweep_most = 1};
    struct backend *backend = open_marked();
    (void)state;
    assert_int_equal(save(backend, true), BACKEND_OK);
    clock_test_set(6 * DAY, 6 * DAY);
    ((struct marked *)backend)->loses = true;
    assert_int_equal(save(backend, true), BACKEND_UNSURE);
    assert_int_equal(save(backend, false), BACKEND_OK);
    clock_test_set(9 * DAY, 9 * DAY);
    assert_int_equal(save(backend, false), BACKEND_OK);
    assert_int_equal(backend->ops->maintain(backend, &chores), BACKEND_OK);
    assert_int_equal(marks.n, 0);
    assert_int_equal(save(backend, true), BACKEND_OK);
    assert_int_equal(backend->back.times, 0);
    assert_int_equal(backend->back.blanks, 1);
    close_marked(backend);
}

/* No other mark takes its place: what is acknowledged then is missed there. */
static void what_was_unsure_under_a_held_mark_is_missed_once_it_was_acknowledged(void **state)
{
    struct backend *backend = open_marked();
    struct marked *marked = (struct marked *)backend;
    atomic_int *next_save = &hostile_faults(marked->behind)->next_save;
    (void)state;
    atomic_store(next_save, BACKEND_UNSURE);
    assert_int_equal(save(backend, true), BACKEND_UNSURE);
    marked->held = true;
    atomic_store(next_save, BACKEND_BUSY);
    assert_int_equal(save(backend, true), BACKEND_BUSY);
    atomic_store(next_save, BACKEND_OK);
    assert_int_equal(save(backend, false), BACKEND_OK);
    assert_int_equal(marked->acked, 1);
    marks.n = 0;
    assert_int_equal(save(backend, true), BACKEND_BUSY);
    assert_int_equal(backend->back.times, 1);
    close_marked(backend);
}

/* What a session lost, another one notices by its own next save. */
static void a_session_notices_what_another_one_lost(void **state)
{
    struct backend *first = open_marked(), *second = marked_beside(first, 2);
    (void)state;
    assert_int_equal(save(first, true), BACKEND_OK);
    marks.n = 0;
    assert_int_equal(save(second, true), BACKEND_BUSY);
    assert_int_equal(second->back.times, 1);
    assert_int_equal(first->back.times, 0);
    close_marked(second);
    close_marked(first);
}

/* Once, however long that one has nothing to save; it notices for itself, too, and both again what
 * is lost after that. */
static void what_a_session_said_of_another_one_it_says_once(void **state)
{
    struct backend *first = open_marked(), *second = marked_beside(first, 2);
    (void)state;
    assert_int_equal(save(first, true), BACKEND_OK);
    marks.n = 0;
    assert_int_equal(save(second, true), BACKEND_BUSY);
    assert_int_equal(save(second, true), BACKEND_OK);
    say(second);
    assert_int_equal(save(second, true), BACKEND_OK);
    assert_int_equal(second->back.times, 1);
    assert_int_equal(save(first, true), BACKEND_BUSY);
    say(first);
    assert_int_equal(save(first, true), BACKEND_OK);
    assert_int_equal(first->back.times, 1);
    assert_int_equal(second->back.incidents + first->back.incidents, 1);
    marks.n = 0;
    assert_int_equal(save(second, true), BACKEND_BUSY);
    assert_int_equal(second->back.times, 2);
    assert_int_equal(second->back.incidents + first->back.incidents, 2);
    close_marked(second);
    close_marked(first);
}

/* Found: a finish made its own mark anew before the store said what was lost; the other one saw
 * nothing missing then, and went on. */
static void a_session_that_cannot_say_what_was_lost_lets_no_other_go_on(void **state)
{
    struct backend *first = open_marked(), *second = marked_beside(first, 2);
    (void)state;
    assert_int_equal(save(first, true), BACKEND_OK);
    marks.n = 0;
    assert_int_equal(save(first, true), BACKEND_BUSY);
    assert_int_equal(save(first, true), BACKEND_OK);
    assert_true(first->back.untold);
    assert_int_equal(save(second, true), BACKEND_BUSY);
    assert_int_equal(second->back.times, 1);
    say(first);
    say(second);
    assert_int_equal(save(first, true), BACKEND_OK);
    assert_int_equal(save(second, true), BACKEND_OK);
    close_marked(second);
    close_marked(first);
}

static void the_mark_of_a_session_that_was_away_is_not_missed(void **state)
{
    struct backend *first = open_marked(), *second = marked_beside(first, 2);
    (void)state;
    assert_int_equal(save(first, true), BACKEND_OK);
    marks.n = 0;
    clock_test_set(8 * DAY, 8 * DAY);
    assert_int_equal(save(second, true), BACKEND_OK);
    assert_int_equal(second->back.times, 0);
    close_marked(second);
    close_marked(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_that_is_only_seen_is_as_old_as_it_was),
        cmocka_unit_test(what_was_unsure_under_a_held_mark_is_missed_once_it_was_acknowledged),
        cmocka_unit_test(a_session_notices_what_another_one_lost),
        cmocka_unit_test(what_a_session_said_of_another_one_it_says_once),
        cmocka_unit_test(a_session_that_cannot_say_what_was_lost_lets_no_other_go_on),
        cmocka_unit_test(the_mark_of_a_session_that_was_away_is_not_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
