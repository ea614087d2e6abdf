/* SPDX-License-Identifier: Apache-2.0 */
/* What a sweep of the SQLite store costs: it reads no row that is to be kept. */
#include "store_bed.h"

#include "base/mem.h"
#include "store/tables/tasks.h"
#include <stdio.h>

#define KEPT 20000 /* rows: an index of them takes some 400 KB */

/* By this process, from files and the like. */
static long bytes_read(void)
{
    long bytes = -1;
    FILE *file = fopen("/proc/self/io", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "rchar: %ld", &bytes), 1);
    fclose(file);
    return bytes;
}

/* Done, and to be kept for a day. */
static void add_kept(struct bed *bed, size_t n)
{
    static struct store_task tasks[TABLE_BRINGS_MAX];
    static struct table_change changes[TABLE_BRINGS_MAX];
    static char keys[TABLE_BRINGS_MAX][16];
    int64_t now = store_now(bed->store);
    for (size_t first = 0; first < n; first += TABLE_BRINGS_MAX) {
        for (size_t i = 0; i < TABLE_BRINGS_MAX; i++) {
            snprintf(keys[i], sizeof keys[i], "k%zu", first + i);
            tasks[i] = (struct store_task){
                .kind = SLICE("test"), .lane = SLICE("lane"), .key = slice_of(keys[i])};
            tasks[i].task.state = TASK_DONE;
            tasks[i].task.ended_at = now;
            tasks[i].task.gone_at = now + 86400 * CLOCK_US_PER_S;
            store_task_derive(&tasks[i]);
            changes[i] = (struct table_change){.table = &task_table, .row = &tasks[i].row};
        }
        struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = TABLE_BRINGS_MAX};
        run(bed, &op);
        assert_int_equal(op.result.status, STORE_DONE);
    }
}

static void a_sweep_reads_nothing_of_what_is_to_be_kept(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    add_kept(bed, KEPT);
    bed_close(bed);
    long before = bytes_read();
    bed->config.no_thread = true;
    bed_open(bed);
    while (store_step(bed->store))
        ;
    bed_close(bed);
    assert_in_range(bytes_read() - before, 1, 200 * 1024);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST_AFTER(a_sweep_reads_nothing_of_what_is_to_be_kept, bed_set_up_closed),
    };
    return bed_run_on(BED_SQLITE, tests, sizeof tests / sizeof *tests);
}
