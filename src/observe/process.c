/* SPDX-License-Identifier: Apache-2.0 */
/* The process_* series that every Prometheus client library has. /proc is memory: no read waits. */
#include "observe/page.h"

#include "base/compress/container.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define STAT_MAX 1024
#define FIELDS_BEFORE 2     /* proc(5): pid and (comm); comm may hold spaces and parentheses */
#define FIELD_START_TIME 22 /* clock ticks after boot */
#define FIELD_VIRTUAL 23    /* bytes */
#define FIELD_RESIDENT 24   /* pages */

/* Fields of /proc/self/stat by their number in proc(5), the first two left out. False: unread. */
static bool read_stat(unsigned long long ret_fields[FIELD_RESIDENT + 1])
{
    char text[STAT_MAX];
    FILE *file = fopen("/proc/self/stat", "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    char *at = strrchr(text, ')');
    int field = FIELDS_BEFORE;
    while (at && field < FIELD_RESIDENT && (at = strchr(at, ' '))) {
        struct slice word;
        uint64_t value = 0;
        slice_cut(slice_of(++at), ' ', &word);
        /* The state is a letter and some priorities are negative; nobody asks for those. */
        (void)slice_to_u64(word, INT64_MAX, &value);
        ret_fields[++field] = value;
    }
    return field == FIELD_RESIDENT;
}

/* Unix time of this machine's start; 0: unread. */
static double boot_time(void)
{
    char line[STAT_MAX];
    unsigned long long seconds = 0;
    FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "btime %llu", &seconds) == 1)
            break;
    if (file)
        fclose(file);
    return (double)seconds;
}

static double count_descriptors(void)
{
    size_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return (double)(n > 0 ? n - 1 : 0); /* one is the folder's own */
}

static double seconds_of_timeval(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

void page_process(struct buf *page)
{
    unsigned long long stat[FIELD_RESIDENT + 1] = {0};
    struct rusage usage = {0};
    struct rlimit limit = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    bool read = read_stat(stat);
    double started = (double)stat[FIELD_START_TIME] / (double)sysconf(_SC_CLK_TCK);
    page_value(page, SERIES(CPU),
               seconds_of_timeval(usage.ru_utime) + seconds_of_timeval(usage.ru_stime));
    page_value(page, SERIES(RESIDENT),
               (double)stat[FIELD_RESIDENT] * (double)sysconf(_SC_PAGESIZE));
    page_value(page, SERIES(VIRTUAL), (double)stat[FIELD_VIRTUAL]);
    page_value(page, SERIES(OPEN_FDS), count_descriptors());
    page_value(page, SERIES(MAX_FDS), (double)limit.rlim_cur);
    page_value(page, SERIES(START_TIME), read ? boot_time() + started : 0);
    page_value(page, SERIES(MEMORY_LIMIT), (double)container_read().memory);
}
