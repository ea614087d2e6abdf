/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/certificates.h"

#include "base/headers.h"

#define TRIES 8 /* places that are looked at for a mark */
#define NAME_SHOWN 64

/* `*` at the end stands for anything. */
static const struct slice families[] = {
    {"Client-Cert", 11},
    {"Client-Cert-Chain", 17},
    {"X-Client-Cert", 13},
    {"X-Client-Verify", 15},
    {"X-SSL-*", 7},
    {"SSL-Client-*", 12},
    {"X-ARR-ClientCert", 16},
    {"X-Amzn-Mtls-*", 13},
    {"Cf-Client-Cert-*", 16},
    {"X-Forwarded-Client-Cert", 23},
    {"X-Forwarded-Tls-Client-Cert*", 28},
};
#define N_FAMILIES (sizeof families / sizeof *families)

static bool is_of_family(struct slice name, struct slice family)
{
    bool open = family.at[family.len - 1] == '*';
    size_t len = open ? family.len - 1 : family.len;
    if (name.len < len || (!open && name.len > len))
        return false;
    return headers_is_dashed(slice_first(name, len), slice_first(family, len));
}

static size_t family_of(struct slice name)
{
    size_t i = 0;
    while (i < N_FAMILIES && !is_of_family(name, families[i]))
        i++;
    return i;
}

bool certificates_names(struct slice name)
{
    return family_of(name) < N_FAMILIES;
}

/* FNV-1a of the peer and the family; never 0. */
static unsigned long long mark_of(struct slice peer, size_t family)
{
    unsigned long long mark = 14695981039346656037ULL ^ family;
    for (size_t i = 0; i < peer.len; i++)
        mark = (mark ^ (unsigned char)peer.at[i]) * 1099511628211ULL;
    return mark ? mark : 1;
}

/* True: it was not told before, and there is room to know that it is now. */
static bool tell_of_certificate(struct certificates_logged *told, unsigned long long mark)
{
    for (size_t i = 0; i < TRIES; i++) {
        unsigned long long was = 0;
        if (atomic_compare_exchange_strong(&told->at[(mark + i) % CERTIFICATES_LOGGED], &was, mark))
            return true;
        if (was == mark)
            return false;
    }
    return false;
}

void certificates_removed(struct certificates_logged *told, struct log *log, struct slice peer,
                          struct slice name)
{
    struct log_line line;
    if (!log || !tell_of_certificate(told, mark_of(peer, family_of(name))))
        return;
    log_line_start(&line, LOG_LEVEL_WARN, "certificate_header_removed");
    log_line_str(&line, "client", peer);
    log_line_str(&line, "header", slice_first(name, NAME_SHOWN));
    log_line_str(&line, "hint",
                 SLICE("if this peer is a proxy of yours, add it to trust_forwarded"));
    log_line_end(log, &line);
}
