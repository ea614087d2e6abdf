/* SPDX-License-Identifier: Apache-2.0 */
/* container */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compress/container.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1024 * 1024)

/* A machine's files, in the order in which they are made; `name` ends with NULL. */
struct file {
    const char *name;
    const char *text;
};

static void make_path(char *path, const char *root, const char *name)
{
    snprintf(path, 256, "%s/%s", root, name);
}

/* Folders of `name` under the root are made, and left behind empty. */
static void make(const char *root, const struct file *file)
{
    char path[256];
    make_path(path, root, file->name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(path, 0700);
    }
    FILE *to = fopen(path, "we");
    assert_non_null(to);
    assert_true(fputs(file->text, to) >= 0);
    assert_int_equal(fclose(to), 0);
}

static void discard(const char *root, const struct file *file)
{
    char path[256];
    make_path(path, root, file->name);
    unlink(path);
    for (char *slash; (slash = strrchr(path, '/')) > path + strlen(root) - 1;) {
        *slash = '\0';
        rmdir(path);
    }
}

static struct container read_of(const struct file *files)
{
    char root[] = "/tmp/pawl-test-container-XXXXXX";
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; files[i].name; i++)
        make(root, &files[i]);
    setenv("PAWL_TEST_ROOT", root, true);
    struct container container = container_read();
    unsetenv("PAWL_TEST_ROOT");
    for (size_t i = 0; files[i].name; i++)
        discard(root, &files[i]);
    rmdir(root);
    return container;
}

/* found: Q2 */
static void the_lowest_limit_of_version_2_counts(void **state)
{
    (void)state;
    const struct file files[] = {
        {"proc/self/cgroup", "0::/pod/box\n"},
        {"sys/fs/cgroup/pod/box/cpu.max", "max 100000\n"},
        {"sys/fs/cgroup/pod/cpu.max", "50000 100000\n"},
        {"sys/fs/cgroup/cpu.max", "200000 100000\n"},
        {"sys/fs/cgroup/pod/box/memory.max", "134217728\n"},
        {"sys/fs/cgroup/pod/memory.max", "max\n"},
        {NULL, NULL},
    };
    struct container container = read_of(files);
    assert_true(container.quota > 0.49 && container.quota < 0.51);
    assert_int_equal(container.processors, 1);
    assert_int_equal(container.memory, 128 * MIB);
}

/* found: Q2 */
static void the_limits_of_version_1_count(void **state)
{
    (void)state;
    const struct file files[] = {
        {"proc/self/cgroup", "7:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/\n"},
        {"sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "100000\n"},
        {"sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n"},
        {"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "67108864\n"},
        {NULL, NULL},
    };
    struct container container = read_of(files);
    assert_true(container.quota > 0.99 && container.quota < 1.01);
    assert_int_equal(container.processors, 1);
    assert_int_equal(container.memory, 64 * MIB);
}

/* The path that /proc shows is the host's, and the container sees its own group at the top. */
static void a_group_that_is_mounted_elsewhere_is_the_topmost(void **state)
{
    (void)state;
    const struct file files[] = {
        {"proc/self/cgroup", "7:memory:/docker/x\n0::/../../elsewhere\n"},
        {"sys/fs/cgroup/cpu.max", "100000 100000\n"},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n"},
        {NULL, NULL},
    };
    struct container container = read_of(files);
    assert_true(container.quota > 0.99 && container.quota < 1.01);
    assert_int_equal(container.memory, 64 * MIB);
}

static void what_is_no_limit_or_cannot_be_read_limits_nothing(void **state)
{
    (void)state;
    const struct file files[] = {
        {"proc/self/cgroup", "7:memory:/\n3:cpu:/\n0::/\nno line\n"},
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
        {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
        {"sys/fs/cgroup/cpu.max", "soon 0\n"},
        {NULL, NULL},
    };
    const struct file none[] = {{NULL, NULL}};
    struct container container = read_of(files), bare = read_of(none);
    assert_true(container.quota <= 0 && bare.quota <= 0);
    assert_int_equal(container.memory, 0);
    assert_int_equal(bare.memory, 0);
    assert_int_equal(container.processors, container.affine);
    assert_true(bare.processors >= 1 && bare.processors <= bare.online);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_limit_of_version_2_counts),
        cmocka_unit_test(the_limits_of_version_1_count),
        cmocka_unit_test(a_group_that_is_mounted_elsewhere_is_the_topmost),
        cmocka_unit_test(what_is_no_limit_or_cannot_be_read_limits_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
