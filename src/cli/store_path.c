/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/store_path.h"

#include "base/buf.h"
#include "base/mem.h"
#include "store/store.h"
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PATH_TEXT_MAX ((size_t)8192)

/* Makes the folders of an absolute path, as `mkdir -p` does, for this user alone. */
static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
}

char *store_path_find(const char *option, bool create)
{
    struct buf path = buf_make(PATH_TEXT_MAX);
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (!option)
        option = getenv("PAWL_STORE");
    if (option && *option) {
        bool prefixed = strncmp(option, "sqlite:", sizeof "sqlite:" - 1) == 0;
        buf_add_str(&path, prefixed ? option + sizeof "sqlite:" - 1 : option);
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
