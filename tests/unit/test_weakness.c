/* SPDX-License-Identifier: Apache-2.0 */
/* What may lose acknowledged commits, by what a server or a file system says of itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/postgres/durability.h"
#include "store/sqlite/medium.h"

#define OFF SETTING_OFF
#define ON SETTING_ON
#define UNREAD SETTING_UNREAD

/* found: F1, F2 */
static void test_a_server_is_judged_by_its_settings(void **state)
{
    static const struct {
        struct durability seen; /* fsync, full_page_writes, synchronous, follows, n_standbys */
        enum weakness_kind kind;
        const char *named;
    } cases[] = {
        {{ON, ON, OFF, false, 0}, WEAKNESS_NONE, ""},
        {{ON, ON, ON, true, 2}, WEAKNESS_NONE, ""},
        {{ON, ON, ON, false, -1}, WEAKNESS_NONE, ""},
        {{OFF, ON, ON, false, 1}, WEAKNESS_LOSES, "fsync = off"},
        {{OFF, UNREAD, UNREAD, false, -1}, WEAKNESS_LOSES, "fsync = off"},
        {{ON, OFF, ON, false, 1}, WEAKNESS_LOSES, "full_page_writes = off"},
        {{ON, ON, OFF, true, 0}, WEAKNESS_LOSES, "synchronous_standby_names"},
        {{ON, ON, OFF, true, -1}, WEAKNESS_LOSES, "synchronous_standby_names"},
        {{UNREAD, ON, OFF, true, 1}, WEAKNESS_LOSES, "synchronous_standby_names"},
        {{ON, ON, OFF, false, 1}, WEAKNESS_STANDBY, "none is synchronous"},
        {{ON, ON, OFF, false, -1}, WEAKNESS_UNREAD, "pg_monitor"},
        {{UNREAD, ON, ON, false, 0}, WEAKNESS_UNREAD, "pg_monitor"},
        {{ON, UNREAD, ON, false, 0}, WEAKNESS_UNREAD, "pg_monitor"},
        {{ON, ON, UNREAD, true, 0}, WEAKNESS_UNREAD, "pg_monitor"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weakness judged = durability_judge(&cases[i].seen);
        assert_int_equal(judged.kind, cases[i].kind);
        assert_non_null(strstr(judged.why, cases[i].named));
    }
}

/* found: F4 */
static void test_a_file_is_judged_by_its_file_system(void **state)
{
    static const struct {
        uint32_t type;
        enum weakness_kind kind;
        const char *named;
    } cases[] = {
        {0x6969, WEAKNESS_LOSES, "on nfs, where locks and fsync"},
        {0x517B, WEAKNESS_LOSES, "on smb,"},
        {0xFF534D42, WEAKNESS_LOSES, "on cifs,"},
        {0xFE534D42, WEAKNESS_LOSES, "on smb,"},
        {0x65735546, WEAKNESS_LOSES, "on fuse,"},
        {0x01021997, WEAKNESS_LOSES, "on 9p,"},
        {0x01021994, WEAKNESS_LOSES, "on tmpfs, which is in memory"},
        {0x858458f6, WEAKNESS_LOSES, "on ramfs, which is in memory"},
        {0x794c7630, WEAKNESS_IMAGE, "on overlay, in a container"},
        {0xEF53, WEAKNESS_NONE, ""},     /* ext4 */
        {0x58465342, WEAKNESS_NONE, ""}, /* xfs */
        {0x9123683E, WEAKNESS_NONE, ""}, /* btrfs */
        {0x2FC12FC1, WEAKNESS_NONE, ""}, /* zfs */
        {0, WEAKNESS_NONE, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weakness judged = sqlite_medium_judge(cases[i].type);
        assert_int_equal(judged.kind, cases[i].kind);
        assert_non_null(strstr(judged.why, cases[i].named));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_is_judged_by_its_settings),
        cmocka_unit_test(test_a_file_is_judged_by_its_file_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
