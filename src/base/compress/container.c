/* SPDX-License-Identifier: Apache-2.0 */
#include "base/compress/container.h"

#include "base/slice.h"
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATH_MOST 1024
#define LINE_MOST 1024
#define TEXT_MOST 64

/* The numbers of a small file in `folder`; how many there are before the first other word. */
static int read_numbers(const char *folder, const char *name, long long ret_numbers[2])
{
    char path[PATH_MOST + TEXT_MOST], text[TEXT_MOST] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    return sscanf(text, "%lld %lld", &ret_numbers[0], &ret_numbers[1]);
}

/* ---- what one group says ---- */

static void limit_quota(struct container *container, long long quota, long long period)
{
    double share = period > 0 ? (double)quota / (double)period : 0;
    if (share > 0 && (container->quota <= 0 || share < container->quota))
        container->quota = share;
}

static void limit_memory(struct container *container, long long bytes)
{
    if (bytes > 0 && (container->memory == 0 || (uint64_t)bytes < container->memory))
        container->memory = (uint64_t)bytes;
}

static void read_unified(const char *folder, struct container *container)
{
    long long numbers[2] = {0};
    if (read_numbers(folder, "cpu.max", numbers) == 2)
        limit_quota(container, numbers[0], numbers[1]);
    if (read_numbers(folder, "memory.max", numbers) == 1)
        limit_memory(container, numbers[0]);
}

static void read_cpu(const char *folder, struct container *container)
{
    long long quota[2] = {0}, period[2] = {0};
    if (read_numbers(folder, "cpu.cfs_quota_us", quota) == 1 &&
        read_numbers(folder, "cpu.cfs_period_us", period) == 1)
        limit_quota(container, quota[0], period[0]);
}

static void read_memory(const char *folder, struct container *container)
{
    long long numbers[2] = {0};
    if (read_numbers(folder, "memory.limit_in_bytes", numbers) == 1)
        limit_memory(container, numbers[0]);
}

/* ---- the groups around this process ---- */

static const struct hierarchy {
    const char *controller; /* as /proc/self/cgroup has it; "": version 2 */
    const char *mount;
    void (*read)(const char *folder, struct container *container);
} hierarchies[] = {
    {"", "/sys/fs/cgroup", read_unified},
    {"", "/sys/fs/cgroup/unified", read_unified},
    {"cpu", "/sys/fs/cgroup/cpu", read_cpu},
    {"memory", "/sys/fs/cgroup/memory", read_memory},
};

/* From the process's own group to the topmost that is mounted, which in a container is the
 * container's own, whatever /proc calls it. */
static void read_upwards(const struct hierarchy *hierarchy, const char *root, const char *path,
                         struct container *container)
{
    char folder[PATH_MOST];
    size_t top = (size_t)snprintf(folder, sizeof folder, "%s%s", root, hierarchy->mount);
    int n = snprintf(folder, sizeof folder, "%s%s%s", root, hierarchy->mount, path);
    char *slash = folder + top;
    if ((size_t)n >= sizeof folder)
        *slash = '\0';
    while (slash && slash >= folder + top) {
        hierarchy->read(folder, container);
        slash = strrchr(folder, '/');
        if (slash)
            *slash = '\0';
    }
}

/* A line of /proc/self/cgroup: ID:CONTROLLERS:PATH. */
static void read_group_line(const char *root, char *line, struct container *container)
{
    struct slice id, controllers;
    line[strcspn(line, "\n")] = '\0';
    struct slice rest = slice_cut(slice_of(line), ':', &id);
    struct slice path = slice_cut(rest, ':', &controllers);
    for (size_t i = 0; path.at && i < COUNT_OF(hierarchies); i++)
        if (slice_item(controllers, ',', slice_of(hierarchies[i].controller)) >= 0)
            read_upwards(&hierarchies[i], root, path.at, container);
}

static void read_groups(const char *root, struct container *container)
{
    char path[PATH_MOST], line[LINE_MOST];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file))
        read_group_line(root, line, container);
    fclose(file);
}

/* ---- the process ---- */

static void count_processors(struct container *container)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    container->online = online > 0 ? (size_t)online : 1;
    bool known = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0;
    container->affine = known ? (size_t)CPU_COUNT(&set) : container->online;
    container->processors = container->affine;
    if (container->quota <= 0 || container->quota >= (double)container->affine)
        return;
    container->processors = (size_t)container->quota;
    container->processors += (double)container->processors < container->quota;
}

/* Before all paths; "" but in tests. */
static const char *find_root(void)
{
    const char *root = NULL;
#ifdef PAWL_HOOKS
    root = getenv("PAWL_TEST_ROOT");
#endif
    return root ? root : "";
}

struct container container_read(void)
{
    struct container container = {0};
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    read_groups(find_root(), &container);
    count_processors(&container);
    if (pages > 0 && page > 0 && container.memory >= (uint64_t)pages * (uint64_t)page)
        container.memory = 0;
    return container;
}
