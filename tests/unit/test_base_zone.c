/* SPDX-License-Identifier: Apache-2.0 */
/* Time zones: files of this machine against what Python's zoneinfo said of them, and bytes that are
 * no such file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/time/zones.h"

#include <stdio.h>

#define ARENA_MAX (16 * 1024 * 1024)

struct expected {
    const char *zone;
    int64_t at_s;
    int32_t offset_s;
};

/* The first of January, and both sides of each change of these years. */
/* clang-format off */
static const struct expected expected[] = {
    {"America/New_York", 1735689600, -18000},
    {"America/New_York", 1741503599, -18000},
    {"America/New_York", 1741503600, -14400},
    {"America/New_York", 1762063199, -14400},
    {"America/New_York", 1762063200, -18000},
    {"America/New_York", 1767225600, -18000},
    {"America/New_York", 1772953199, -18000},
    {"America/New_York", 1772953200, -14400},
    {"America/New_York", 1793512799, -14400},
    {"America/New_York", 1793512800, -18000},
    {"America/New_York", 2177452800, -18000},
    {"America/New_York", 2183612399, -18000},
    {"America/New_York", 2183612400, -14400},
    {"America/New_York", 2204171999, -14400},
    {"America/New_York", 2204172000, -18000},
    {"America/New_York", 4102444800, -18000},
    {"America/New_York", 4108690799, -18000},
    {"America/New_York", 4108690800, -14400},
    {"America/New_York", 4129250399, -14400},
    {"America/New_York", 4129250400, -18000},
    {"Europe/Berlin", 820454400, 3600},
    {"Europe/Berlin", 828233999, 3600},
    {"Europe/Berlin", 828234000, 7200},
    {"Europe/Berlin", 846377999, 7200},
    {"Europe/Berlin", 846378000, 3600},
    {"Europe/Berlin", 1767225600, 3600},
    {"Europe/Berlin", 1774745999, 3600},
    {"Europe/Berlin", 1774746000, 7200},
    {"Europe/Berlin", 1792889999, 7200},
    {"Europe/Berlin", 1792890000, 3600},
    {"Europe/Berlin", 2208988800, 3600},
    {"Europe/Berlin", 2216249999, 3600},
    {"Europe/Berlin", 2216250000, 7200},
    {"Europe/Berlin", 2234998799, 7200},
    {"Europe/Berlin", 2234998800, 3600},
    {"Europe/Dublin", 1767225600, 0},
    {"Europe/Dublin", 1774745999, 0},
    {"Europe/Dublin", 1774746000, 3600},
    {"Europe/Dublin", 1792889999, 3600},
    {"Europe/Dublin", 1792890000, 0},
    {"Europe/Dublin", 2240611200, 0},
    {"Europe/Dublin", 2248304399, 0},
    {"Europe/Dublin", 2248304400, 3600},
    {"Europe/Dublin", 2266448399, 3600},
    {"Europe/Dublin", 2266448400, 0},
    {"Australia/Lord_Howe", 1767225600, 39600},
    {"Australia/Lord_Howe", 1775314799, 39600},
    {"Australia/Lord_Howe", 1775314800, 37800},
    {"Australia/Lord_Howe", 1791041399, 37800},
    {"Australia/Lord_Howe", 1791041400, 39600},
    {"Australia/Lord_Howe", 2208988800, 39600},
    {"Australia/Lord_Howe", 2216818799, 39600},
    {"Australia/Lord_Howe", 2216818800, 37800},
    {"Australia/Lord_Howe", 2233150199, 37800},
    {"Australia/Lord_Howe", 2233150200, 39600},
    {"America/Santiago", 1704067200, -10800},
    {"America/Santiago", 1712458799, -10800},
    {"America/Santiago", 1712458800, -14400},
    {"America/Santiago", 1725767999, -14400},
    {"America/Santiago", 1725768000, -10800},
    {"America/Santiago", 1735689600, -10800},
    {"America/Santiago", 1743908399, -10800},
    {"America/Santiago", 1743908400, -14400},
    {"America/Santiago", 1757217599, -14400},
    {"America/Santiago", 1757217600, -10800},
    {"Africa/Cairo", 1704067200, 7200},
    {"Africa/Cairo", 1714082399, 7200},
    {"Africa/Cairo", 1714082400, 10800},
    {"Africa/Cairo", 1730408399, 10800},
    {"Africa/Cairo", 1730408400, 7200},
    {"America/Sao_Paulo", 1514764800, -7200},
    {"America/Sao_Paulo", 1518919199, -7200},
    {"America/Sao_Paulo", 1518919200, -10800},
    {"America/Sao_Paulo", 1541300399, -10800},
    {"America/Sao_Paulo", 1541300400, -7200},
    {"America/Sao_Paulo", 1546300800, -7200},
    {"America/Sao_Paulo", 1550368799, -7200},
    {"America/Sao_Paulo", 1550368800, -10800},
    {"Pacific/Chatham", 1767225600, 49500},
    {"Pacific/Chatham", 1775311199, 49500},
    {"Pacific/Chatham", 1775311200, 45900},
    {"Pacific/Chatham", 1790431199, 45900},
    {"Pacific/Chatham", 1790431200, 49500},
    {"Pacific/Chatham", 2208988800, 49500},
    {"Pacific/Chatham", 2216815199, 49500},
    {"Pacific/Chatham", 2216815200, 45900},
    {"Pacific/Chatham", 2232539999, 45900},
    {"Pacific/Chatham", 2232540000, 49500},
    {"Antarctica/Troll", 1735689600, 0},
    {"Antarctica/Troll", 1743296399, 0},
    {"Antarctica/Troll", 1743296400, 7200},
    {"Antarctica/Troll", 1761440399, 7200},
    {"Antarctica/Troll", 1761440400, 0},
    {"America/St_Johns", 1262304000, -12600},
    {"America/St_Johns", 1268537459, -12600},
    {"America/St_Johns", 1268537460, -9000},
    {"America/St_Johns", 1289097059, -9000},
    {"America/St_Johns", 1289097060, -12600},
    {"America/St_Johns", 1767225600, -12600},
    {"America/St_Johns", 1772947799, -12600},
    {"America/St_Johns", 1772947800, -9000},
    {"America/St_Johns", 1793507399, -9000},
    {"America/St_Johns", 1793507400, -12600},
    {"Pacific/Apia", 1293840000, -36000},
    {"Pacific/Apia", 1301752799, -36000},
    {"Pacific/Apia", 1301752800, -39600},
    {"Pacific/Apia", 1316872799, -39600},
    {"Pacific/Apia", 1316872800, -36000},
    {"Pacific/Apia", 1325239199, -36000},
    {"Pacific/Apia", 1325239200, 50400},
    {"Africa/Casablanca", 1704067200, 3600},
    {"Africa/Casablanca", 1710035999, 3600},
    {"Africa/Casablanca", 1710036000, 0},
    {"Africa/Casablanca", 1713059999, 0},
    {"Africa/Casablanca", 1713060000, 3600},
    {"Asia/Tokyo", 1767225600, 32400},
    {"Asia/Kathmandu", 315532800, 19800},
    {"Asia/Kathmandu", 1767225600, 20700},
    {"UTC", 1767225600, 0},
    {"Etc/GMT+5", 1767225600, -18000},
    {"Asia/Kolkata", 1767225600, 19800},
    {"America/Argentina/Buenos_Aires", 1767225600, -10800},
};
/* clang-format on */

static void offsets_are_those_of_pythons_zoneinfo(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    static struct zones zones;
    (void)state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct slice name = slice_of(expected[i].zone);
        assert_true(zones_add(&zones, name, &arena));
        int32_t offset_s = zone_offset_s(zones_find(&zones, name), expected[i].at_s);
        if (offset_s != expected[i].offset_s)
            fail_msg("%s at %lld: %d, not %d", expected[i].zone, (long long)expected[i].at_s,
                     offset_s, expected[i].offset_s);
    }
}

static void all_zones_of_the_machine_are_found_by_name(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    static struct zones zones;
    (void)state;
    zones_add_all(&zones, &arena);
    assert_false(arena.failed);
    assert_true(zones.n > 300);
    for (size_t i = 0; i < zones.n; i++)
        assert_ptr_equal(zones_find(&zones, zones.at[i]->name), zones.at[i]);
    assert_non_null(zones_find(&zones, SLICE("America/Argentina/Buenos_Aires")));
    assert_null(zones_find(&zones, SLICE("posix/Europe/Berlin")));
    assert_null(zones_find(&zones, SLICE("localtime")));
    assert_null(zones_find(&zones, SLICE("Europe/Berlin/")));
    assert_null(zones_find(&zones, SLICE("europe/berlin")));
    assert_null(zones_find(&zones, SLICE("")));
}

static void a_name_is_words_with_slashes_between_them(void **state)
{
    static const char *const bad[] = {"",          "/",         "/etc/passwd", "Europe/",
                                      "../UTC",    "A//B",      "a/../b",      "Europe/Berlin\n",
                                      "Eur ope",   "A.B",       "right/UTC",   "posix/UTC",
                                      "localtime", "posixrules"};
    char of_65[66] = {0};
    (void)state;
    memset(of_65, 'a', 65);
    assert_false(zone_name_valid(slice_of(of_65)));
    assert_true(zone_name_valid(slice_make(of_65, 64)));
    assert_false(zone_name_valid(slice_make("a\0b", 3)));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(zone_name_valid(slice_of(bad[i])));
    assert_true(zone_name_valid(SLICE("America/Port-au-Prince")));
    assert_true(zone_name_valid(SLICE("Etc/GMT+5")));
}

/* ---- bytes ---- */

struct file {
    char bytes[256];
    size_t len;
};

static void put(struct file *file, const void *bytes, size_t len)
{
    memcpy(file->bytes + file->len, bytes, len);
    file->len += len;
}

static void put_header(struct file *file, unsigned char leaps, unsigned char changes)
{
    put(file, "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 27);
    put(file, (unsigned char[]){0, 0, 0, 0, leaps, 0, 0, 0, changes, 0, 0, 0, 2, 0, 0, 0, 4}, 17);
}

#define KINDS "\0\0\0\0\0\0\0\0\x0e\x10\1\0ABC"

/* A zone that goes an hour ahead at 100 s and back at 200 s, and ends in this line. */
static struct file file_of(const char *footer)
{
    struct file file = {.len = 0};
    put_header(&file, 0, 0);
    put(&file, KINDS, 16);
    put_header(&file, 0, 2);
    put(&file, "\0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0\xc8\1\0", 18);
    put(&file, KINDS, 16);
    put(&file, footer, strlen(footer));
    return file;
}

static bool reads(const struct file *file, struct arena *arena, struct zone *ret_zone)
{
    return zone_read(slice_make(file->bytes, file->len), arena, ret_zone);
}

static void the_line_at_the_end_rules_what_comes_after_the_last_change(void **state)
{
    static const struct {
        const char *footer;
        int64_t at_s;
        int32_t offset_s;
    } rows[] = {
        {"\n\n", 1000000000, 0},
        {"\nABC-1\n", 1000000000, 3600},
        {"\n<-0330>3:30\n", 1000000000, -12600},
        {"\nABC0DEF,J60/0,J61/0\n", 951868800 - 1, 0}, /* 2000-03-01, after 29 February */
        {"\nABC0DEF,J60/0,J61/0\n", 951868800, 3600},
        {"\nABC0DEF,59/0,60/0\n", 951782400, 3600},              /* 2000-02-29 */
        {"\nABC0DEF,M12.5.0/-24,M12.5.0/24\n", 978220800, 3600}, /* 2000-12-31 */
        {"\nABC3DEF,0/0,J365/25\n", 946695600, -7200},           /* summer all year */
        {"\nABC3DEF,0/0,J365/25\n", 978317999, -7200},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct file file = file_of(rows[i].footer);
        struct zone zone;
        if (!reads(&file, &arena, &zone))
            fail_msg("%s: not read", rows[i].footer);
        int32_t offset_s = zone_offset_s(&zone, rows[i].at_s);
        if (offset_s != rows[i].offset_s)
            fail_msg("%s at %lld: %d", rows[i].footer, (long long)rows[i].at_s, offset_s);
        assert_int_equal(zone_offset_s(&zone, 99), 0);
        assert_int_equal(zone_offset_s(&zone, 100), 3600);
        assert_int_equal(zone_offset_s(&zone, 199), 3600);
    }
}

static void what_is_not_exactly_such_a_file_is_refused(void **state)
{
    static const char *const footers[] = {"",
                                          "\n",
                                          "\nABC-1",
                                          "\nABC-1\n\n",
                                          "\nAB-1\n",
                                          "\nABC\n",
                                          "\nABC-25\n",
                                          "\nABC0DEF\n",
                                          "\nABC0DEF,J1\n",
                                          "\nABC0DEF,J0,J1\n",
                                          "\nABC0:60\n",
                                          "\nABC0DEF,M13.1.0,J1\n",
                                          "\nABC0DEF,M1.6.0,J1\n",
                                          "\nABC0DEF,J1/168,J2\n",
                                          "\n<A>0\n",
                                          "\n<ABC0\n",
                                          "\nABC0DEF,J1,J2x\n"};
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct zone zone;
    (void)state;
    for (size_t i = 0; i < sizeof(footers) / sizeof(footers[0]); i++) {
        struct file file = file_of(footers[i]);
        if (reads(&file, &arena, &zone))
            fail_msg("<%s> was read", footers[i]);
    }
    static const struct {
        size_t at;
        char byte;
    } changes[] = {{0, 'X'},         {4, 1},          {60 + 31, 1},      {60 + 32, 1},
                   {60 + 39, 0},     {60 + 44, 1},    {60 + 44 + 16, 2}, {60 + 62, 1},
                   {60 + 62 + 4, 2}, {60 + 62 + 5, 4}};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct file file = file_of("\nABC-1\n");
        file.bytes[changes[i].at] = changes[i].byte;
        if (reads(&file, &arena, &zone))
            fail_msg("byte %zu was not judged", changes[i].at);
    }
}

static void no_cut_and_no_changed_byte_leads_astray(void **state)
{
    static const unsigned char bytes[] = {0, 1, 0x7f, 0x80, 0xff, ','};
    const struct file good = file_of("\nABC0DEF,M3.5.0/-1,M10.5.0/0\n");
    (void)state;
    for (size_t i = 0; i < good.len * sizeof(bytes); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct zone zone;
        size_t at = i / sizeof(bytes);
        char *copy MEM_AUTO = mem_copy(good.bytes, good.len);
        char *cut MEM_AUTO = mem_copy(good.bytes, at);
        assert_false(zone_read(slice_make(cut, at), &arena, &zone));
        copy[at] = (char)bytes[i % sizeof(bytes)];
        if (zone_read(slice_make(copy, good.len), &arena, &zone))
            for (int64_t t = -100; t < 4102444800; t += 86400000)
                assert_in_range(zone_offset_s(&zone, t) + 26 * 3600, 0, 52 * 3600);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_those_of_pythons_zoneinfo),
        cmocka_unit_test(all_zones_of_the_machine_are_found_by_name),
        cmocka_unit_test(a_name_is_words_with_slashes_between_them),
        cmocka_unit_test(the_line_at_the_end_rules_what_comes_after_the_last_change),
        cmocka_unit_test(what_is_not_exactly_such_a_file_is_refused),
        cmocka_unit_test(no_cut_and_no_changed_byte_leads_astray),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
