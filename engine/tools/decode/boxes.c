#include "tools/decode/boxes.h"

#include <string.h>

/* Boxes of other names are allowed by the standard (4.2: unrecognised types are skipped). A large
 * one is more likely damage. */
#define MAX_UNKNOWN (1u << 20)

static uint64_t big_endian(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static bool is_known(const unsigned char type[4])
{
    static const char known[][5] = {"ftyp", "styp", "moov", "moof", "mdat", "free", "skip",
                                    "wide", "uuid", "meta", "meco", "mfra", "sidx", "ssix",
                                    "prft", "emsg", "pdin", "pnot", "udta", "imda"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!memcmp(type, known[i], 4))
            return true;
    return false;
}

static bool is_printable(const unsigned char type[4])
{
    for (int i = 0; i < 4; i++)
        if (type[i] < ' ' || type[i] > '~')
            return false;
    return true;
}

/* Bytes that the head of the box in b->head needs: 8, or 16 with a large size. */
static unsigned head_bytes(const struct steno_boxes *b)
{
    return b->n_head >= 4 && big_endian(b->head, 4) == 1 ? 16 : 8;
}

static void fail(struct steno_boxes *b, uint64_t begin, const char *why, steno_err *err)
{
    b->damaged = true;
    (void)!steno_fail(err, STENO_ERR_FORMAT, "the MP4 is damaged at byte %llu: %s",
                      (unsigned long long)begin, why);
}

/* The head is whole. */
static void begin_box(struct steno_boxes *b, steno_err *err)
{
    const unsigned char *type = b->head + 4;
    const uint64_t begin = b->at - b->n_head, size = big_endian(b->head, 4);
    const uint64_t length = size == 1 ? big_endian(b->head + 8, 8) : size;
    if (!begin && memcmp(type, "ftyp", 4) && memcmp(type, "styp", 4)) {
        b->foreign = true;
        return;
    }
    if (!is_printable(type))
        fail(b, begin, "no box begins there", err);
    else if (size && length < b->n_head)
        fail(b, begin, "a box is shorter than its head", err);
    else if (!is_known(type) && (!size || length > MAX_UNKNOWN))
        fail(b, begin, "a large box has a name that is not known", err);
    else if (!size || __builtin_add_overflow(begin, length, &b->next))
        b->next = UINT64_MAX; /* to the end of the file */
    b->n_head = 0;
}

size_t steno_boxes_take(struct steno_boxes *b, const unsigned char *p, size_t n, steno_err *err)
{
    size_t i = 0;
    while (i < n && !b->foreign && !b->damaged) {
        if (b->at < b->next) {
            uint64_t k = b->next - b->at < n - i ? b->next - b->at : n - i;
            b->at += k;
            i += (size_t)k;
            continue;
        }
        b->head[b->n_head++] = p[i++];
        b->at++;
        b->next = b->at;
        if (b->n_head == head_bytes(b))
            begin_box(b, err);
    }
    if (b->damaged)
        return i > 8 ? i - 8 : 0; /* without the damaged head, as far as it is here */
    return n;
}
