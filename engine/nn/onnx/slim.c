/* Copies a model's message without its large byte strings, which stay in the mapped file. Unpacked
 * by protobuf-c, a model of 350 MB then takes a few hundred KB. A tensor's raw_data is replaced by
 * its place in the file and data_location IN_PLACE. No file can claim that itself: values other
 * than ONNX's own two are refused. Lengths around a cut are written as varints of five bytes and
 * filled in afterwards. steno_onnx_check_wire has checked the input. */
#include "base/pages.h"
#include "base/protobuf.h"
#include "nn/onnx/internal.h"

#include <stdlib.h>
#include <string.h>

enum { DATA_LOCATION = 14 }; /* field of Tensor */

struct slim {
    const uint8_t *base;
    const struct steno_onnx_large *large;
    struct steno_buf out;
    steno_err *err;
};

/* The wire has been checked, so there is an end. */
static uint64_t varint(const uint8_t **p)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t b = *(*p)++;
        v |= shift < 64 ? (uint64_t)(b & 0x7f) << shift : 0;
        if (!(b & 0x80))
            return v;
    }
}

static steno_status put_slim(struct slim *s, const void *p, size_t n)
{
    return steno_buf_add(&s->out, p, n)
               ? steno_fail(s->err, STENO_ERR_NOMEM, "out of memory for the model's message")
               : STENO_OK;
}

static steno_status put_location(struct slim *s, uint8_t value)
{
    const uint8_t field[2] = {DATA_LOCATION << 3, value};
    return put_slim(s, field, sizeof field);
}

static steno_status put_place(struct slim *s, const uint8_t *p, uint64_t n)
{
    const uint8_t head[2] = {STENO_ONNX_RAW_DATA << 3 | 2, 16};
    const uint64_t place[2] = {(uint64_t)(p - s->base), n};
    steno_status st = put_slim(s, head, sizeof head);
    if (!st)
        st = put_slim(s, place, sizeof place);
    return st ? st : put_location(s, STENO_ONNX_IN_PLACE);
}

static steno_status copy_message(struct slim *s, const uint8_t *p, const uint8_t *end,
                                 const ProtobufCMessageDescriptor *d);

static steno_status copy_sub(struct slim *s, const uint8_t *key, size_t key_bytes, const uint8_t *p,
                             uint64_t n, const ProtobufCMessageDescriptor *d)
{
    static const uint8_t later[STENO_PROTOBUF_LENGTH];
    steno_status st = put_slim(s, key, key_bytes);
    size_t at = s->out.len;
    if (!st)
        st = put_slim(s, later, sizeof later);
    if (!st)
        st = copy_message(s, p, p + n, d);
    if (st)
        return st;
    steno_protobuf_put_length(s->out.data + at, s->out.len - at - sizeof later);
    return STENO_OK;
}

/* Handle raw_data and data_location of a tensor; *done false: copy the field. */
static steno_status tensor_field(struct slim *s, uint64_t key, const uint8_t *p, uint64_t n,
                                 bool *done)
{
    const uint8_t *at = p;
    *done = true;
    if (key == (STENO_ONNX_RAW_DATA << 3 | 2) && n >= s->large->from) {
        if (s->large->mapped)
            steno_pages_rest(s->base, (size_t)(p - s->base));
        return put_place(s, p, n);
    }
    *done = false;
    if (key == (STENO_ONNX_RAW_DATA << 3 | 2)) /* the last one counts */
        return put_location(s, 0);
    if (key == (DATA_LOCATION << 3)) {
        uint64_t value = varint(&at);
        *done = !value; /* IN_PLACE is written, or the default holds */
        if (value > 1)
            return steno_fail(s->err, STENO_ERR_FORMAT, "a tensor's data_location is %llu",
                              (unsigned long long)value);
    }
    return STENO_OK;
}

static steno_status copy_message(struct slim *s, const uint8_t *p, const uint8_t *end,
                                 const ProtobufCMessageDescriptor *d)
{
    while (p < end) {
        const uint8_t *at = p, *body;
        uint64_t key = varint(&p), n = 0;
        const ProtobufCMessageDescriptor *sub = NULL;
        size_t key_bytes = (size_t)(p - at);
        bool done = false;
        steno_status st = STENO_OK;
        body = p;
        if ((key & 7) == 0)
            (void)varint(&p);
        else if ((key & 7) != 2)
            p += (key & 7) == 1 ? 8 : 4;
        else {
            n = varint(&p);
            body = p;
            p += n;
            sub = steno_onnx_submessage(d, key >> 3);
        }
        if (d == &onnx__tensor__descriptor)
            st = tensor_field(s, key, body, n, &done);
        if (!st && !done)
            st = sub ? copy_sub(s, at, key_bytes, body, n, sub) : put_slim(s, at, (size_t)(p - at));
        if (st)
            return st;
    }
    return STENO_OK;
}

steno_status steno_onnx_slim(const void *data, size_t size, const struct steno_onnx_large *large,
                             void **out, size_t *n, steno_err *err)
{
    struct slim s = {.base = data, .large = large, .err = err};
    steno_status st;
    steno_buf_init(&s.out, SIZE_MAX / 4);
    st = copy_message(&s, data, (const uint8_t *)data + size, &onnx__model__descriptor);
    if (st) {
        steno_buf_free(&s.out);
        return st;
    }
    *out = s.out.data;
    *n = s.out.len;
    return STENO_OK;
}
