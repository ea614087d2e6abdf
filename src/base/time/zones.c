/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time/zones.h"
#include "base/buf.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)64 * 1024)
#define PATH_SIZE (sizeof ZONE_FOLDER + 1 + ZONE_NAME_MAX)

/* Where the name stands, or would. */
static size_t index_of(const struct zones *zones, struct slice name)
{
    size_t low = 0, high = zones->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_compare(zones->at[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct zone *zones_find(const struct zones *zones, struct slice name)
{
    if (name.len == 0)
        return NULL;
    size_t index = index_of(zones, name);
    bool found = index < zones->n && slice_eq(zones->at[index]->name, name);
    return found ? zones->at[index] : NULL;
}

static void path_of(struct slice name, char path[PATH_SIZE])
{
    (void)snprintf(path, PATH_SIZE, "%s/%.*s", ZONE_FOLDER, SLICE_ARG(name));
}

/* A regular file, as far as a zone may be long. */
static bool read_zone_file(const char *path, struct buf *buf)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    bool good = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size < (off_t)FILE_MAX;
    char *room = good ? buf_room(buf, FILE_MAX) : NULL;
    ssize_t n = room ? read(fd, room, FILE_MAX) : -1;
    if (n > 0)
        buf_added(buf, (size_t)n);
    close(fd);
    return n > 0;
}

bool zones_add(struct zones *zones, struct slice name, struct arena *arena)
{
    BUF_AUTO struct buf bytes = buf_make(FILE_MAX);
    char path[PATH_SIZE];
    if (!zone_name_valid(name))
        return false;
    size_t index = index_of(zones, name);
    if (index < zones->n && slice_eq(zones->at[index]->name, name))
        return true;
    path_of(name, path);
    bool read = zones->n < ZONES_MAX && read_zone_file(path, &bytes);
    arena->failed |= !buf_ok(&bytes);
    if (!read)
        return false;
    struct zone *zone = arena_alloc(arena, sizeof *zone);
    if (!zone || !zone_read(buf_slice(&bytes), arena, zone))
        return false;
    zone->name = arena_copy(arena, name);
    memmove(&zones->at[index + 1], &zones->at[index], (zones->n - index) * sizeof zones->at[0]);
    zones->at[index] = zone;
    zones->n++;
    return zone->name.at;
}

static void add_folder(struct zones *zones, struct slice folder, struct arena *arena);

/* A folder below, or a zone. */
static void add_zone_entry(struct zones *zones, struct slice folder, const struct dirent *entry,
                           struct arena *arena)
{
    char name[ZONE_NAME_MAX + 1];
    char path[PATH_SIZE];
    struct stat about;
    int length = snprintf(name, sizeof name, "%.*s%s%s", SLICE_ARG(folder),
                          folder.len > 0 ? "/" : "", entry->d_name);
    struct slice text = slice_make(name, (size_t)length);
    if (length >= (int)sizeof name || !zone_name_valid(text))
        return;
    path_of(text, path);
    if (lstat(path, &about) != 0)
        return;
    if (S_ISDIR(about.st_mode))
        add_folder(zones, text, arena);
    else
        (void)zones_add(zones, text, arena);
}

/* Folders lie in one another as deep as a name is long, at most. */
static void add_folder(struct zones *zones, struct slice folder, struct arena *arena)
{
    char path[PATH_SIZE];
    const struct dirent *entry;
    path_of(folder, path);
    DIR *files = opendir(path);
    while (files && !arena->failed && (entry = readdir(files)))
        if (entry->d_name[0] != '.')
            add_zone_entry(zones, folder, entry, arena);
    if (files)
        closedir(files);
}

void zones_add_all(struct zones *zones, struct arena *arena)
{
    add_folder(zones, SLICE(""), arena);
}
