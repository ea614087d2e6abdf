/* SPDX-License-Identifier: Apache-2.0 */
#include "core/retry/cause.h"

void record_cause_write(int cause, struct buf *buf)
{
    static const struct {
        int number;
        const char *text;
    } names[] = {
#define X(name, number, text) {number, text},
        RECORD_CAUSES(X)
#undef X
    };
    if (cause >= 100)
        buf_printf(buf, "status %d", cause);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == cause)
            buf_add_str(buf, names[i].text);
}
