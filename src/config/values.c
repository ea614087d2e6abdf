/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of plain values: durations, sizes, numbers, choices. */
#include "base/check.h"
#include "base/compress/container.h"
#include "base/time/duration.h"
#include "config/meant.h"
#include "config/option.h"
#include "config/reader.h"
#include "core/identity.h"
#include <assert.h>

#define BODIES_MOST ((uint64_t)256 * 1024 * 1024) /* bytes, and of a container's memory */
#define BODIES_PERCENT 40
#define CACHE_MOST ((uint64_t)32 * 1024 * 1024)
#define CACHE_PERCENT 5
static_assert(BODIES_PERCENT + CACHE_PERCENT < 100, "a container has memory for more than both");

#define A_DURATION "a duration with its unit, such as 150ms, 10s, 24h or 7d"
#define A_NUMBER "a number in digits, such as 100"
#define A_SIZE "a size such as 512, 64KiB or 1MiB"

static void add_size_text(struct buf *buf, uint64_t bytes)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    while (unit < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    buf_printf(buf, "%ju%s", (uintmax_t)bytes, units[unit]);
}

static void add_plain_number(struct buf *buf, uint64_t value)
{
    buf_add_u64(buf, value);
}

static void add_duration(struct buf *buf, uint64_t us)
{
    duration_print(buf, (int64_t)us);
}

/* What has bounds: how it is written, and how people write its units. */
static const struct quantity {
    void (*add)(struct buf *buf, uint64_t value);
    const struct unit_words *units;
} durations = {add_duration, duration_words}, sizes = {add_size_text, size_words},
  numbers = {add_plain_number, number_words};

/* What the values of a reader are. The others read one of several words; some of them also a map
 * or a list, which their help shows. */
static const struct type {
    option_reader *read;
    const char *name;
    const struct quantity *quantity; /* NULL: it has no bounds */
    enum option_kind field;          /* OPTION_IS_OTHER: not looked at */
} types[] = {
    {read_duration, "duration", &durations, OPTION_IS_I64},
    {read_tombstone, "duration", &durations, OPTION_IS_I64},
    {read_in_progress, "word or map", &durations, OPTION_IS_I64},
    {read_size, "size", &sizes, OPTION_IS_SIZE},
    {read_disk_reserve, "size", &sizes, OPTION_IS_SIZE},
    {read_bodies, "size", &sizes, OPTION_IS_SIZE},
    {read_cache, "size", &sizes, OPTION_IS_SIZE},
    {read_count, "number", &numbers, OPTION_IS_SIZE},
    {read_sessions, "number", &numbers, OPTION_IS_SIZE},
    {read_probe_status, "number", &numbers},
    {read_bool, "boolean", NULL, OPTION_IS_BOOL},
    {read_listen, "address", NULL, OPTION_IS_ADDRESS},
    {read_authority, "address", NULL, OPTION_IS_SLICE},
    {read_server_name, "address", NULL, OPTION_IS_SLICE},
    {read_upstream, "URL", NULL, OPTION_IS_ADDRESS},
    {read_public_url, "URL", NULL, OPTION_IS_SLICE},
    {read_store, "URL", NULL, OPTION_IS_SLICE},
    {read_token, "secret", NULL, OPTION_IS_SLICE},
    {read_pem_file, "file", NULL},
    {read_name, "name", NULL, OPTION_IS_SLICE},
    {read_match, "pattern", NULL},
    {read_tenant, "template", NULL},
    {read_key, "template", NULL},
    {read_once_key, "template", NULL},
    {read_authorize, "request", NULL},
    {read_networks, "list", NULL},
    {read_allow, "list", NULL},
    {read_rules, "list", NULL},
    {read_formerly, "list", NULL},
    {read_probe_headers, "map", NULL},
    {read_answers, "list", NULL},
    {read_headers, "list", NULL},
    {read_origins, "list", NULL},
    {read_key_format, "word or map", NULL},
    {read_unknown, "word or map", &durations},
    {read_duplicate, "word or map", NULL},
    {read_once_duplicate, "word or map", NULL},
    {read_payload, "word or map", NULL},
    {read_copied, "list", NULL},
    {read_query, "word or list", NULL},
    {read_mismatch, "number", NULL},
    {read_upstream_tls, "map", NULL},
    {read_cors, "map", NULL},
    {read_once, "map", NULL},
    {read_replay, "map", NULL},
    {read_retry, "word or map", NULL},
    {read_webhooks, "map", NULL},
    {read_event_source, "URL", NULL, OPTION_IS_SLICE},
    {read_endpoints, "list", NULL},
    {read_emit, "map", NULL},
    {read_errors, "map", NULL},
    {read_json_type, "word", NULL, OPTION_IS_SLICE},
    {read_error_templates, "map", NULL},
    {read_event_type, "name", NULL, OPTION_IS_SLICE},
    {read_inbox, "list", NULL},
    {read_delays, "list", &durations},
    {read_schedule, "word or list", &durations},
    {read_defaults, "map", NULL},
};

static const struct type *type_of_option(const struct option *option)
{
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (types[i].read == option->read)
            return &types[i];
    return NULL;
}

const char *option_type(const struct option *option)
{
    const struct type *type = type_of_option(option);
    return type ? type->name : option->members ? "map" : "word";
}

bool option_fits_reader(const struct option *option)
{
    const struct type *type = type_of_option(option);
    return !type || type->field == OPTION_IS_OTHER || type->field == option->kind;
}

bool option_add_range(const struct option *option, struct buf *buf)
{
    const struct type *type = type_of_option(option);
    if (option->highest == 0)
        return false;
    CHECK(type && type->quantity);
    type->quantity->add(buf, (uint64_t)option->lowest);
    bool is_byte = type->quantity == &sizes && option->lowest == 1;
    buf_add_str(buf, is_byte ? " byte to " : " to ");
    type->quantity->add(buf, (uint64_t)option->highest);
    return true;
}

static bool in_range(const struct option *option, uint64_t value)
{
    CHECK(option->lowest >= 0 && option->lowest <= option->highest);
    return value >= (uint64_t)option->lowest && value <= (uint64_t)option->highest;
}

/* A number that lacks its unit may be hours, minutes or seconds. */
static void add_units(const struct option *option, struct slice digits, struct buf *meant)
{
    static const char units[] = "hms";
    for (size_t i = 0; units[i]; i++) {
        BUF_AUTO struct buf text = buf_make(64);
        int64_t us;
        buf_printf(&text, "%.*s%c", SLICE_ARG(digits), units[i]);
        if (!buf_ok(&text) || !duration_parse(buf_slice(&text), &us) ||
            !in_range(option, (uint64_t)us))
            continue;
        buf_add_str(meant, meant->len > 0 ? "' or '" : "");
        buf_add_slice(meant, buf_slice(&text));
    }
}

/* Complains of a value that is not written as `quantity` is. */
static void refuse_quantity(struct reader *reader, const struct option *option,
                            const struct quantity *quantity, const struct node *node,
                            const char *expected)
{
    BUF_AUTO struct buf meant = buf_make(64);
    uint64_t value;
    if (quantity == &durations && slice_digits(node->text) == node->text.len)
        add_units(option, node->text, &meant);
    else if (meant_quantity(node->text, quantity->units, &value) && in_range(option, value))
        quantity->add(&meant, value);
    reader_expected_near(reader, node, expected, &meant);
}

/* `KEY: '2h' is out of range (expected 1ms to 1h)`, by the option's bounds. */
static void out_of_range(struct reader *reader, const struct option *option,
                         const struct node *node)
{
    BUF_AUTO struct buf range = buf_make(64);
    (void)option_add_range(option, &range);
    if (!buf_ok(&range))
        reader->scratch->failed = true;
    reader_complain(reader, node, "'%.*s' is out of range (expected %.*s)",
                    SLICE_ARG(node->written), SLICE_ARG(buf_slice(&range)));
}

OPTION_READER(duration)
{
    struct slice text;
    int64_t us;
    if (!reader_scalar(reader, node, A_DURATION, &text))
        return;
    if (!duration_parse(text, &us))
        refuse_quantity(reader, option, &durations, node, A_DURATION);
    else if (us < option->lowest || us > option->highest)
        out_of_range(reader, option, node);
    else
        *(int64_t *)field = us;
}

OPTION_READER(tombstone)
{
    if (node->kind == NODE_SCALAR && slice_eq(node->text, SLICE("none")))
        *(int64_t *)field = 0;
    else
        read_duration(reader, option, node, field);
}

OPTION_READER(size)
{
    struct slice text;
    uint64_t bytes;
    if (!reader_scalar(reader, node, A_SIZE, &text))
        return;
    if (!size_parse(text, &bytes))
        refuse_quantity(reader, option, &sizes, node, A_SIZE);
    else if (!in_range(option, bytes))
        out_of_range(reader, option, node);
    else
        *(uint64_t *)field = bytes;
}

OPTION_READER(disk_reserve)
{
    if (node->kind == NODE_SCALAR && slice_eq(node->text, SLICE("auto")))
        *(uint64_t *)field = 0;
    else
        read_size(reader, option, node, field);
}

/* `auto`: so much, or a share of the memory that the container may use. */
static void read_memory_size(struct reader *reader, const struct option *option,
                             const struct node *node, void *field, uint64_t most, unsigned percent)
{
    if (node->kind != NODE_SCALAR || !slice_eq(node->text, SLICE("auto"))) {
        read_size(reader, option, node, field);
        return;
    }
    uint64_t limit = container_read().memory;
    uint64_t share = limit / 100 * percent;
    *(uint64_t *)field = limit > 0 && share < most ? share : most;
}

OPTION_READER(bodies)
{
    read_memory_size(reader, option, node, field, BODIES_MOST, BODIES_PERCENT);
}

OPTION_READER(cache)
{
    read_memory_size(reader, option, node, field, CACHE_MOST, CACHE_PERCENT);
}

static bool number_of(struct reader *reader, const struct option *option, const struct node *node,
                      uint64_t *ret_value)
{
    struct slice text;
    if (!reader_scalar(reader, node, A_NUMBER, &text))
        return false;
    if (!slice_to_u64(text, INT64_MAX, ret_value)) {
        refuse_quantity(reader, option, &numbers, node, A_NUMBER);
        return false;
    }
    if (in_range(option, *ret_value))
        return true;
    out_of_range(reader, option, node);
    return false;
}

OPTION_READER(count)
{
    uint64_t value;
    if (number_of(reader, option, node, &value))
        *(size_t *)field = (size_t)value;
}

OPTION_READER(sessions)
{
    if (node->kind == NODE_SCALAR && slice_eq(node->text, SLICE("auto")))
        *(size_t *)field = 0;
    else
        read_count(reader, option, node, field);
}

OPTION_READER(probe_status)
{
    uint64_t value;
    if (number_of(reader, option, node, &value))
        *(int *)field = (int)value;
}

/* X(reader, type of the field, words, what each of them puts there). YAML 1.1's yes, no, on and off
 * read like words; `bool` takes only these two. */
#define CHOICES(X)                                                                                 \
    X(bool, bool, "false|true", false, true)                                                       \
    X(unmatched, bool, "pass|refuse", false, true)                                                 \
    X(store_down, bool, "refuse|pass", false, true)                                                \
    X(policy, bool, "publish|off", false, true)                                                    \
    X(log_keys, bool, "plain|hashed", false, true)                                                 \
    X(body, bool, "auto|json", false, true)                                                        \
    X(on_failure, bool, "park|skip", false, true)                                                  \
    X(once_payload, bool, "ignore", true)                                                          \
    X(key_syntax, enum key_syntax, "lenient|strict", KEY_SYNTAX_LENIENT, KEY_SYNTAX_STRICT)        \
    X(forward_key, enum key_forward, "bare|quoted", KEY_FORWARD_BARE, KEY_FORWARD_QUOTED)          \
    X(mismatch, int, "409|422|400", 409, 422, 400)                                                 \
    X(inbox_mismatch, int, "409|200", 409, 200)                                                    \
    X(remember, enum remember, "final|success|all", REMEMBER_FINAL, REMEMBER_SUCCESS,              \
      REMEMBER_ALL)                                                                                \
    X(first, enum record_first, "off|restored|always", RECORD_FIRST_OFF, RECORD_FIRST_RESTORED,    \
      RECORD_FIRST_ALWAYS)                                                                         \
    X(emit_data, enum emit_data, EMIT_DATA_NAMES, EMIT_RESPONSE, EMIT_REQUEST, EMIT_NONE)          \
    X(hash, enum mac_hash, "sha256|sha512|sha1", MAC_SHA256, MAC_SHA512, MAC_SHA1)                 \
    X(encoding, enum signature_encoding, "hex|base64", SIGNATURE_HEX, SIGNATURE_BASE64)

#define X(name, type, words, ...)                                                                  \
    READER_NAMED(read_##name)                                                                      \
    {                                                                                              \
        static const type values[] = {__VA_ARGS__};                                                \
        size_t index;                                                                              \
        if (!reader_choice(reader, node, words, &index))                                           \
            return;                                                                                \
        CHECK(index < COUNT_OF(values));                                                           \
        *(type *)field = values[index];                                                            \
    }
CHOICES(X)
#undef X

OPTION_READER(name)
{
    static const struct reader_text wanted = {reader_is_name, "a name such as refunds.create",
                                              "1 to 100 letters, digits, '.', '_' and '-'"};
    reader_text(reader, node, &wanted, field);
}

OPTION_READER(moved)
{
    static const struct reader_text wanted = {
        identity_is_digest, "the 8 digits that the message names",
        "8 digits 0-9 and a-f, as the message that refuses a change names them"};
    reader_text(reader, node, &wanted, field);
}

OPTION_READER(formerly)
{
    struct rule *rule = &reader->draft->rule;
    struct reader_texts texts = {.max = RULE_FORMERLY_MAX, .at = field};
    if (reader_list(reader, node, reader_is_name, "an earlier name of the rule", &texts))
        rule->n_formerly = texts.n;
}
