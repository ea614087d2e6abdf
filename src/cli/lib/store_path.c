/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/store_path.h"

#include "base/buf.h"
#include "base/mem.h"
#include "store/store.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PATH_TEXT_MAX ((size_t)8192)
#define SQLITE "sqlite:"
#define IN_FILE "file:"

/* Makes the folders of an absolute path, as `mkdir -p` does, for this user alone. */
static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
}

/* What the first line of a file names, as with `store: file:PATH` in a config. */
static char *read_name(const char *path)
{
    char line[PATH_MAX];
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, sizeof line, file);
    if (!read)
        fprintf(stderr, "pawl: %s, which should name the store: %s\n", path,
                file ? "it is empty" : strerrordesc_np(errno));
    if (file)
        fclose(file);
    if (!read)
        return NULL;
    line[strcspn(line, "\r\n")] = '\0';
    if (store_is_url(line) || strncmp(line, SQLITE, sizeof SQLITE - 1) == 0)
        return mem_copy(line, strlen(line));
    fprintf(stderr, "pawl: the first line of %s is no store (postgres://... or sqlite:PATH)\n",
            path);
    return NULL;
}

char *store_path_find(const char *option, bool create)
{
    struct buf path = buf_make(PATH_TEXT_MAX);
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (!option)
        option = getenv("PAWL_STORE");
    bool in_file = option && strncmp(option, IN_FILE, sizeof IN_FILE - 1) == 0;
    char *read MEM_AUTO = in_file ? read_name(option + sizeof IN_FILE - 1) : NULL;
    if (in_file && !read)
        return NULL;
    if (option && *option) {
        const char *name = in_file ? read : option;
        bool prefixed = strncmp(name, SQLITE, sizeof SQLITE - 1) == 0;
        buf_add_str(&path, prefixed ? name + sizeof SQLITE - 1 : name);
        return buf_take(&path);
    }
    if (state && *state == '/') {
        buf_add_str(&path, state);
    } else if (home && *home == '/') {
        buf_add_str(&path, home);
        buf_add_str(&path, "/.local/state");
    } else {
        return NULL;
    }
    buf_add_str(&path, "/pawl/pawl.db");
    char *text = buf_take(&path);
    if (text && create)
        make_folders(text);
    return text;
}

char *store_path_real(const char *path)
{
    if (store_is_url(path))
        return mem_copy(path, strlen(path));
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char *folder MEM_AUTO = slash ? mem_copy(path, (size_t)(slash - path) + 1) : mem_copy(".", 1);
    char real[PATH_MAX];
    if (!folder || !realpath(folder, real))
        return mem_copy(path, strlen(path));
    struct buf whole = buf_make(PATH_TEXT_MAX);
    buf_printf(&whole, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name);
    return buf_take(&whole);
}
