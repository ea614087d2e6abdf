/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/faults.h"

static bool read_fault_number(struct slice text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
    uint64_t value;
    if (!slice_to_u64(text, max, &value) || value < min)
        return false;
    *ret_value = value;
    return true;
}

static bool read_fault(struct slice text, struct demo_faults *faults)
{
    struct slice name;
    struct slice value = slice_cut(text, '=', &name);
    uint64_t number;
    if (slice_eq(name, SLICE("delay")) && read_fault_number(value, 0, DEMO_DELAY_MAX_MS, &number))
        faults->delay_ms = (int64_t)number;
    else if (slice_eq(name, SLICE("status")) && read_fault_number(value, 400, 599, &number))
        faults->status = (int)number;
    else if (slice_eq(text, SLICE("lose")))
        faults->lose = true;
    else if (slice_eq(text, SLICE("lose-before")))
        faults->lose_before = true;
    else if (slice_eq(text, SLICE("half")))
        faults->half = true;
    else
        return false;
    return true;
}

bool demo_faults_read(struct slice text, struct demo_faults *ret_faults)
{
    struct demo_faults faults = {0};
    while (text.len > 0) {
        struct slice item;
        text = slice_cut(text, ',', &item);
        if (!read_fault(slice_trim(item), &faults))
            return false;
    }
    *ret_faults = faults;
    return true;
}
