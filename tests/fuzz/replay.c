/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over every file of the directory its only argument names. Fails when there is
 * none: a corpus that was lost would else pass for ever. */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_MAX (4U << 20)

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(INPUT_MAX);
    if (!file || !bytes) {
        perror(path);
        exit(1);
    }
    size_t n = fread(bytes, 1, INPUT_MAX, file);
    fclose(file);
    /* An own block of exactly n bytes, so that a sanitizer sees a read behind its end. */
    uint8_t *exact = realloc(bytes, n ? n : 1);
    LLVMFuzzerTestOneInput(exact ? exact : bytes, n);
    free(exact ? exact : bytes);
    return 1;
}

int main(int argc, char **argv)
{
    DIR *directory = argc == 2 ? opendir(argv[1]) : NULL;
    int replayed = 0;
    if (!directory) {
        fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        char path[PATH_MAX];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        replayed += replay(path);
    }
    closedir(directory);
    printf("%d inputs\n", replayed);
    return replayed > 0 ? 0 : 1;
}
