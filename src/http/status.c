/* SPDX-License-Identifier: Apache-2.0 */
/* The two tables of numbers and phrases: refusals, and statuses (RFC 9110 15, RFC 6585, others of
 * IANA's registry). */
#include "http/message.h"

struct refusal {
    int status;
    const char *text;
};

static const struct refusal refusals[] = {[HTTP_REFUSAL_NONE] = {0, ""},
#define X(name, number, phrase) [HTTP_REFUSAL_##name] = {number, phrase},
                                          HTTP_REFUSALS(X)
#undef X
};

struct phrase {
    int status;
    const char *text;
};

static const struct phrase phrases[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {103, "Early Hints"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {207, "Multi-Status"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
    {511, "Network Authentication Required"},
};

int http_refusal_status(enum http_refusal refusal)
{
    return refusals[refusal].status;
}

const char *http_refusal_text(enum http_refusal refusal)
{
    return refusals[refusal].text;
}

const char *http_reason(int status)
{
    for (size_t i = 0; i < COUNT_OF(phrases); i++)
        if (phrases[i].status == status)
            return phrases[i].text;
    return "";
}
