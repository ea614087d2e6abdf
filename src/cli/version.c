/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crypto/openssl.h"
#include "base/json/json.h"
#include "cli/command/command.h"
#include "cli/lib/print.h"
#include "daemon/build.h"
#include "store/postgres/libpq.h"
#include <gnu/libc-version.h>
#include <nettle/version.h>
#include <sqlite3.h>
#include <stdio.h>
#include <yaml.h>
#include <zlib.h>
#include <zstd.h>

struct version_options {
    bool json;
    bool verbose;
};

#ifdef PAWL_HOOKS
#define HAS_HOOKS true
#else
#define HAS_HOOKS false
#endif

/* The library says no more while a process runs. */
static const char *nettle_version(void)
{
    static char text[16];
    snprintf(text, sizeof text, "%d.%d", NETTLE_VERSION_MAJOR, NETTLE_VERSION_MINOR);
    return text;
}

static const char *openssl_version(void)
{
    return openssl_load() ? NULL : OpenSSL_version(OPENSSL_VERSION_STRING);
}

static const char *libpq_version(void)
{
    static char text[24];
    if (libpq_load())
        return NULL;
    snprintf(text, sizeof text, "%d.%d", PQlibVersion() / 10000, PQlibVersion() % 10000);
    return text;
}

static const struct {
    const char *name;
    const char *(*version)(void); /* NULL: it is not there */
} libraries[] = {
    {"glibc", gnu_get_libc_version},
    {"libpq", libpq_version},
    {"libyaml", yaml_get_version_string},
    {"nettle", nettle_version},
    {"openssl", openssl_version},
    {"sqlite", sqlite3_libversion},
    {"zlib", zlibVersion},
    {"zstd", ZSTD_versionString},
};

#define LIBRARY_COUNT (sizeof libraries / sizeof *libraries)

static void add_libraries_json(struct buf *to)
{
    json_add_name(to, "libraries");
    buf_add_char(to, '{');
    for (size_t i = 0; i < LIBRARY_COUNT; i++) {
        const char *version = libraries[i].version();
        if (version)
            json_add_text(to, libraries[i].name, slice_of(version));
        else
            json_add_null(to, libraries[i].name);
    }
    buf_add_char(to, '}');
}

static void add_version_json(struct buf *to, bool verbose)
{
    buf_add_char(to, '{');
    json_add_text(to, "version", slice_of(this_build.version));
    json_add_text(to, "commit", slice_of(this_build.commit));
    json_add_bool(to, "hooks", HAS_HOOKS);
    if (verbose)
        add_libraries_json(to);
    buf_add_str(to, "}\n");
}

/* The version of what is no release names the commit by itself. */
static void add_version(struct buf *to, bool verbose)
{
    buf_printf(to, "pawl %s", this_build.version);
    if (!strchr(this_build.version, '+'))
        buf_printf(to, " (%.12s)", this_build.commit);
    buf_add_str(to, HAS_HOOKS ? " +hooks\n" : "\n");
    if (!verbose)
        return;
    buf_printf(to, "%-8s %s\n", "commit", this_build.commit);
    for (size_t i = 0; i < LIBRARY_COUNT; i++) {
        const char *version = libraries[i].version();
        buf_printf(to, "%-8s %s\n", libraries[i].name, version ? version : "not installed");
    }
}

static int run_version(const struct command *command, struct operands at)
{
    struct version_options options = {.json = false};
    struct buf text BUF_AUTO = buf_make(SIZE_MAX);
    int code = command_read(command, &at, &options);
    if (code != EXIT_DONE)
        return code;
    if (options.json)
        add_version_json(&text, options.verbose);
    else
        add_version(&text, options.verbose);
    return print_buf("version", &text);
}

#define OPTIONS struct version_options
const struct command command_version = {
    .name = "version",
    .summary = "print the version",
    .synopsis = "[-v] [--json]",
    .about = "Prints the version. Between releases it is that of the next one with -dev and the "
             "commit of the source behind it; that of a release has the commit in brackets.",
    .flags = FLAGS(SWITCH(verbose, "verbose", 'v', "also print the libraries that are used"),
                   FLAG_JSON(json)),
    .exits = {{EXIT_USAGE, NULL}},
    .run = run_version,
};
