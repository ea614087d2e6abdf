/* SPDX-License-Identifier: Apache-2.0 */
/* The generator of what is built from the tables: `pages PAGE` prints one of them. It is a program
 * of the build and is not installed. `pages PAGE FILE` prints FILE before it. */
#include "cli/command/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAGE_MAX ((size_t)1024 * 1024)
#define FILE_MOST ((size_t)64 * 1024)
#define DATE_SIZE sizeof "YYYY-MM-DD"

/* Of $SOURCE_DATE_EPOCH where a build is to be the same again, else today's. */
static void find_date(char ret_date[DATE_SIZE])
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    uint64_t seconds = 0;
    struct tm tm = {0};
    bool given = epoch && slice_to_u64(slice_of(epoch), INT32_MAX, &seconds);
    time_t now = given ? (time_t)seconds : time(NULL);
    gmtime_r(&now, &tm);
    strftime(ret_date, DATE_SIZE, "%Y-%m-%d", &tm);
}

static void add_page_file(struct buf *page, const char *path)
{
    FILE *file = fopen(path, "re");
    char *room = file ? buf_room(page, FILE_MOST) : NULL;
    size_t n = room ? fread(room, 1, FILE_MOST, file) : 0;
    page->failed |= n == 0 || n == FILE_MOST;
    if (buf_ok(page))
        buf_added(page, n);
    if (file)
        (void)fclose(file);
}

int main(int argc, char **argv)
{
    BUF_AUTO struct buf page = buf_make(PAGE_MAX);
    char date[DATE_SIZE];
    const char *wanted = argc >= 2 ? argv[1] : "";
    if (argc == 3)
        add_page_file(&page, argv[2]);
    find_date(date);
    if (strcmp(wanted, "pawl.1") == 0)
        pages_commands(&page, date);
    else if (strcmp(wanted, "pawl.yaml.5") == 0)
        pages_config(&page, date);
    else if (strcmp(wanted, "pawl.bash") == 0)
        pages_completion(&page);
    else
        return 2;
    bool written = buf_ok(&page) && fwrite(page.at, 1, page.len, stdout) == page.len;
    return written && fflush(stdout) == 0 ? 0 : 1;
}
