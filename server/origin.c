#include "server/origin.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/list.h"

#define ORIGIN_BYTES 256 /* of an origin that is written */

bool steno_origin_allowed(const char *allowed, const char *origin)
{
    const size_t n = strlen(origin);
    struct steno_list_item it = steno_list_next(allowed);
    for (; it.n; it = steno_list_next(it.p + it.n))
        if (steno_list_is(it, "*") || (it.n == n && !strncasecmp(it.p, origin, n)))
            return true;
    return false;
}

void steno_origin_lines(const char *allowed, const char *origin, size_t n,
                        char out[STENO_ORIGIN_LINES])
{
    char text[ORIGIN_BYTES] = "";
    bool good = n && n < sizeof text;
    for (size_t i = 0; good && i < n; i++)
        good = origin[i] > ' ' && origin[i] <= '~';
    if (good)
        memcpy(text, origin, n);
    good = good && steno_origin_allowed(allowed, text);
    snprintf(out, STENO_ORIGIN_LINES, "%s%s%s%s", *allowed ? "Vary: Origin\r\n" : "",
             good ? "Access-Control-Allow-Origin: " : "", good ? text : "",
             good ? "\r\nAccess-Control-Expose-Headers: " STENO_ORIGIN_EXPOSED "\r\n" : "");
}
