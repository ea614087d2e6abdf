/* SPDX-License-Identifier: Apache-2.0 */
#include "store/postgres/params.h"

#include "base/check.h"

#define TEXT_TYPE ((Oid)25)

struct postgres_params postgres_params_make(size_t max)
{
    return (struct postgres_params){.bytes = buf_make(max)};
}

void postgres_params_fini(struct postgres_params *params)
{
    buf_fini(&params->bytes);
}

void postgres_params_clear(struct postgres_params *params)
{
    buf_clear(&params->bytes);
    params->n = 0;
}

/* ---- bytes on the wire: big-endian ---- */

static void put_u32(struct buf *buf, uint32_t value)
{
    uint32_t wire = __builtin_bswap32(value);
    buf_add(buf, &wire, sizeof wire);
}

static void put_u64(struct buf *buf, int64_t value)
{
    uint64_t wire = __builtin_bswap64((uint64_t)value);
    buf_add(buf, &wire, sizeof wire);
}

static void set_u32(struct buf *buf, size_t at, uint32_t value)
{
    uint32_t wire = __builtin_bswap32(value);
    if (buf_ok(buf))
        memcpy(buf->at + at, &wire, sizeof wire);
}

static void put_sized(struct buf *buf, struct slice bytes)
{
    put_u32(buf, (uint32_t)bytes.len);
    buf_add_slice(buf, bytes);
}

static void put_sized_number(struct buf *buf, int64_t number)
{
    put_u32(buf, sizeof number);
    put_u64(buf, number);
}

/* ---- parameters ---- */

static void begin_param(struct postgres_params *params, Oid type)
{
    CHECK(params->n < POSTGRES_PARAMS_MAX);
    params->types[params->n] = type;
    params->is_null[params->n] = false;
    params->at[params->n++] = params->bytes.len;
}

void postgres_add_number(struct postgres_params *params, int64_t number)
{
    begin_param(params, POSTGRES_INT8);
    put_u64(&params->bytes, number);
}

void postgres_add_bytes(struct postgres_params *params, struct slice bytes)
{
    begin_param(params, POSTGRES_BYTEA);
    buf_add_slice(&params->bytes, bytes);
}

void postgres_add_filter(struct postgres_params *params, struct slice bytes)
{
    postgres_add_bytes(params, bytes);
    params->is_null[params->n - 1] = !bytes.at;
}

/* Dimensions, whether there are NULLs, type of the elements; how many, and from which number. */
void postgres_array_begin(struct postgres_params *params, Oid element)
{
    struct buf *bytes = &params->bytes;
    begin_param(params, 0);
    params->array = bytes->len;
    params->elements = 0;
    put_u32(bytes, 1);
    put_u32(bytes, 1);
    put_u32(bytes, element);
    put_u32(bytes, 0);
    put_u32(bytes, 1);
}

void postgres_array_end(struct postgres_params *params)
{
    set_u32(&params->bytes, params->array + 12, (uint32_t)params->elements);
    if (params->elements > 0 || !buf_ok(&params->bytes))
        return;
    set_u32(&params->bytes, params->array, 0);
    buf_cut(&params->bytes, params->array + 12);
}

void postgres_item_number(struct postgres_params *params, int64_t number)
{
    params->elements++;
    put_sized_number(&params->bytes, number);
}

void postgres_item_bytes(struct postgres_params *params, struct slice bytes)
{
    params->elements++;
    put_sized(&params->bytes, bytes);
}

void postgres_row_begin(struct postgres_params *params)
{
    params->elements++;
    params->row = params->bytes.len;
    params->columns = 0;
    put_u32(&params->bytes, 0);
    put_u32(&params->bytes, 0);
}

void postgres_row_end(struct postgres_params *params)
{
    size_t size = params->bytes.len - params->row - 4;
    set_u32(&params->bytes, params->row, (uint32_t)size);
    set_u32(&params->bytes, params->row + 4, (uint32_t)params->columns);
}

void postgres_column_number(struct postgres_params *params, int64_t number)
{
    params->columns++;
    put_u32(&params->bytes, POSTGRES_INT8);
    put_sized_number(&params->bytes, number);
}

void postgres_column_bytes(struct postgres_params *params, struct slice bytes)
{
    params->columns++;
    put_u32(&params->bytes, POSTGRES_BYTEA);
    put_sized(&params->bytes, bytes);
}

void postgres_column_text(struct postgres_params *params, struct slice text)
{
    params->columns++;
    put_u32(&params->bytes, TEXT_TYPE);
    put_sized(&params->bytes, text);
}

void postgres_column_null(struct postgres_params *params, Oid type)
{
    params->columns++;
    put_u32(&params->bytes, type);
    put_u32(&params->bytes, UINT32_MAX);
}

bool postgres_params_send(const struct postgres_params *params, PGconn *conn, const char *sql,
                          const char *name)
{
    const char *values[POSTGRES_PARAMS_MAX];
    int lengths[POSTGRES_PARAMS_MAX], formats[POSTGRES_PARAMS_MAX];
    if (!buf_ok(&params->bytes))
        return false;
    for (size_t i = 0; i < params->n; i++) {
        size_t end = i + 1 < params->n ? params->at[i + 1] : params->bytes.len;
        const char *at = params->bytes.at ? params->bytes.at + params->at[i] : "";
        values[i] = params->is_null[i] ? NULL : at;
        lengths[i] = (int)(end - params->at[i]);
        formats[i] = 1;
    }
    int n = (int)params->n;
    if (!sql)
        return PQsendQueryPrepared(conn, name, n, values, lengths, formats, 1) == 1;
    return PQsendQueryParams(conn, sql, n, params->types, values, lengths, formats, 1) == 1;
}

/* ---- results ---- */

int64_t postgres_number(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column))
        return 0;
    const unsigned char *at = (const unsigned char *)PQgetvalue(result, row, column);
    int size = PQgetlength(result, row, column);
    if (size < 1 || size > 8)
        return 0;
    bool negative = size > 1 && at[0] >= 0x80;
    uint64_t value = negative ? UINT64_MAX : 0;
    for (int i = 0; i < size; i++)
        value = value << 8 | at[i];
    return (int64_t)value;
}

struct slice postgres_bytes(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column))
        return (struct slice){0};
    return slice_make(PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
}
