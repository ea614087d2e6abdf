/* SPDX-License-Identifier: Apache-2.0 */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

enum library_result library_load(const char *name, const struct library_function *functions,
                                 size_t n, void *table)
{
    enum library_result result = LIBRARY_LOADED;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return LIBRARY_ABSENT;
    for (size_t i = 0; i < n; i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            result = LIBRARY_LACKS;
        memcpy((char *)table + functions[i].offset, &function, sizeof function);
    }
    return result;
}
