/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/nearest.h"
#include "base/text/ascii.h"

#define NAME_MAX_LETTERS 32 /* longer ones are near to nothing */

static size_t least_of_three(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

static bool is_same_letter(char a, char b)
{
    return ascii_lower(a) == ascii_lower(b);
}

/* How many letters differ, in whatever case. Optimal string alignment: three rows of the edit
 * matrix are enough to see swapped neighbours. */
static size_t distance_of(struct slice a, struct slice b)
{
    size_t rows[3][NAME_MAX_LETTERS + 1];
    if (a.len > NAME_MAX_LETTERS || b.len > NAME_MAX_LETTERS)
        return NAME_MAX_LETTERS;
    for (size_t j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *higher = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            bool same = is_same_letter(a.at[i - 1], b.at[j - 1]);
            row[j] = least_of_three(above[j] + 1, row[j - 1] + 1, above[j - 1] + !same);
            if (i > 1 && j > 1 && is_same_letter(a.at[i - 1], b.at[j - 2]) &&
                is_same_letter(a.at[i - 2], b.at[j - 1]) && higher[j - 2] + 1 < row[j])
                row[j] = higher[j - 2] + 1;
        }
    }
    return rows[a.len % 3][b.len];
}

/* Whether a name that differs in so many letters is worth a question. */
static bool is_near(struct slice given, size_t distance)
{
    size_t allowed = given.len < 4 ? 1 : given.len < 8 ? 2 : 3;
    return distance <= allowed && distance < given.len;
}

void nearest_try(struct nearest *nearest, struct slice name)
{
    size_t distance = distance_of(nearest->given, name);
    if (nearest->best.at && distance >= nearest->distance)
        return;
    nearest->best = name;
    nearest->distance = distance;
}

struct slice nearest_name(const struct nearest *nearest)
{
    bool near = nearest->best.at && is_near(nearest->given, nearest->distance);
    return near ? nearest->best : slice_make(NULL, 0);
}
