/* The wire format of Protocol Buffers (protobuf.dev, "Encoding"). The bytes may be untrusted. */
#ifndef STENO_BASE_PROTOBUF_H
#define STENO_BASE_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>

/* Read a varint at *p, and move *p behind it. False: it is cut short, or has more than ten bytes.
 */
static inline bool steno_protobuf_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70 && *p < end; shift += 7) {
        uint8_t b = *(*p)++;
        v |= shift < 64 ? (uint64_t)(b & 0x7f) << shift : 0;
        if (!(b & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

/* Read the head of a field at *p, and move *p to its body of *n bytes, which lie before end. *key:
 * number << 3 | wire type. A varint has been read, so its *n is 0. False: there is no field. */
static inline bool steno_protobuf_field(const uint8_t **p, const uint8_t *end, uint64_t *key,
                                        uint64_t *n)
{
    bool ok = steno_protobuf_varint(p, end, key) && *key >> 3;
    *n = 0;
    switch (ok ? (int)(*key & 7) : -1) {
    case 0:
        return steno_protobuf_varint(p, end, &(uint64_t){0});
    case 1:
        *n = 8;
        break;
    case 2:
        ok = steno_protobuf_varint(p, end, n);
        break;
    case 5:
        *n = 4;
        break;
    default:
        ok = false;
    }
    return ok && *n <= (uint64_t)(end - *p);
}

/* Bytes of a length that is written when the end of the message is known. Protobuf allows a varint
 * to have bytes that add nothing. */
enum { STENO_PROTOBUF_LENGTH = 5 };

/* Write n < 2^35 to the STENO_PROTOBUF_LENGTH bytes at `to`. */
static inline void steno_protobuf_put_length(char *to, uint64_t n)
{
    for (int i = 0; i < STENO_PROTOBUF_LENGTH; i++)
        to[i] = (char)(uint8_t)((n >> 7 * i & 0x7f) | (i + 1 < STENO_PROTOBUF_LENGTH ? 0x80 : 0));
}

#endif
