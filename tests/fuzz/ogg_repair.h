/* For fuzz targets that read Ogg. */
#ifndef STENO_TESTS_OGG_REPAIR_H
#define STENO_TESTS_OGG_REPAIR_H

#include <ogg/ogg.h>
#include <stdint.h>
#include <string.h>

/* Write the correct checksum into every page. Without it a changed byte would only drop its
 * page, and the code after the check would see nothing new. */
static inline void ogg_repair(uint8_t *data, size_t n)
{
    for (size_t at = 0; at + 27 <= n; at++) {
        size_t header, body = 0;
        ogg_page page;
        if (memcmp(data + at, "OggS", 4))
            continue;
        header = 27 + (size_t)data[at + 26];
        if (at + header > n)
            return;
        for (size_t i = 27; i < header; i++)
            body += data[at + i];
        if (at + header + body > n)
            return;
        page = (ogg_page){data + at, (long)header, data + at + header, (long)body};
        ogg_page_checksum_set(&page);
        at += header + body - 1;
    }
}

#endif
