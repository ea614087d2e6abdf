/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/medium.h"
#include "base/mem.h"
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#define CIFS 0xFF534D42 /* and SMB2: linux/magic.h of Debian 12 has them, an older one need not */
#define SMB2 0xFE534D42

enum medium { MEDIUM_REMOTE, MEDIUM_MEMORY, MEDIUM_IMAGE };

struct weakness sqlite_medium_judge(uint32_t type)
{
    static const struct {
        uint32_t type;
        enum medium medium;
        const char *name;
    } known[] = {
        {NFS_SUPER_MAGIC, MEDIUM_REMOTE, "nfs"},
        {SMB_SUPER_MAGIC, MEDIUM_REMOTE, "smb"},
        {CIFS, MEDIUM_REMOTE, "cifs"},
        {SMB2, MEDIUM_REMOTE, "smb"},
        {FUSE_SUPER_MAGIC, MEDIUM_REMOTE, "fuse"},
        {V9FS_MAGIC, MEDIUM_REMOTE, "9p"},
        {TMPFS_MAGIC, MEDIUM_MEMORY, "tmpfs"},
        {RAMFS_MAGIC, MEDIUM_MEMORY, "ramfs"},
        {OVERLAYFS_SUPER_MAGIC, MEDIUM_IMAGE, "overlay"},
    };
    static const struct {
        enum weakness_kind kind;
        const char *why;
    } mediums[] = {
        [MEDIUM_REMOTE] = {WEAKNESS_LOSES, "where locks and fsync cannot be trusted; use a block "
                                           "volume, or PostgreSQL"},
        [MEDIUM_MEMORY] = {WEAKNESS_LOSES, "which is in memory and ends with the machine; use a "
                                           "disk"},
        [MEDIUM_IMAGE] = {WEAKNESS_IMAGE, "in a container its own layer, which ends with it; use a "
                                          "volume"},
    };
    struct weakness weakness = {.kind = WEAKNESS_NONE};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].type != type)
            continue;
        weakness.kind = mediums[known[i].medium].kind;
        snprintf(weakness.why, sizeof weakness.why, "it is on %s, %s", known[i].name,
                 mediums[known[i].medium].why);
    }
    return weakness;
}

/* 0: of none that is known here. */
static uint32_t file_system_type(const char *path)
{
    struct statfs info;
    if (statfs(path, &info) == 0)
        return (uint32_t)info.f_type;
    const char *slash = strrchr(path, '/');
    char *folder MEM_AUTO = slash ? mem_copy(path, (size_t)(slash - path) + 1) : mem_copy(".", 1);
    return folder && statfs(folder, &info) == 0 ? (uint32_t)info.f_type : 0;
}

struct weakness sqlite_medium_look(const char *path)
{
#ifdef PAWL_HOOKS
    const char *said = getenv("PAWL_TEST_FILE_SYSTEM");
    if (!said || strcmp(said, "real") != 0)
        return sqlite_medium_judge(said ? (uint32_t)strtoul(said, NULL, 16) : 0);
#endif
    return sqlite_medium_judge(file_system_type(path));
}
