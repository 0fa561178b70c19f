/* Framing of the Wyoming protocol on the server's side. An event is one line of JSON, then
 * `data_length` bytes of JSON that extend its "data", then `payload_length` bytes. Incremental: any
 * split of the input gives the same events. Pure; confined.
 *
 * Source: github.com/OHF-Voice/wyoming, "Protocol" of its README. */
#ifndef STENO_PROTOCOL_WYOMING_FRAME_H
#define STENO_PROTOCOL_WYOMING_FRAME_H

#include "base/buf.h"

struct steno_wyoming_reader {
    /* limits, set by init */
    size_t max_text;      /* bytes of the line and of the data, each */
    uint64_t max_payload; /* bytes */
    /* the current event */
    enum { STENO_WYOMING_LINE, STENO_WYOMING_DATA, STENO_WYOMING_PAYLOAD } at;
    struct steno_buf line, data; /* as far as they were read */
    struct json_t *head;         /* the line, once it is complete */
    char *event;                 /* the last event, for the item */
    uint64_t data_bytes, payload_bytes;
    uint64_t left; /* bytes of the payload that are still to come */
    bool audio;    /* the payload is audio */
};

struct steno_wyoming_item {
    bool is_event;    /* the whole event: {"type":"...","data":{...}}; otherwise a part of the
                       * payload of an "audio-chunk" */
    bool first, last; /* of the payload */
    const char *data; /* [n], in the reader or in the input */
    size_t n;
};

void steno_wyoming_reader_init(struct steno_wyoming_reader *r, size_t max_text,
                               uint64_t max_payload);
void steno_wyoming_reader_free(struct steno_wyoming_reader *r);
/* Read from p [n]; *used: bytes that were read. STENO_OK: *item is the next item, valid until the
 * next call. STENO_NEED_MORE: everything was read and no item is complete. After other errors the
 * connection can only be closed: STENO_ERR_FORMAT: no JSON object; STENO_ERR_INVAL: a length that
 * is no length; STENO_ERR_LIMIT: more than the limits allow; STENO_ERR_NOMEM. Payloads of events
 * other than "audio-chunk" are read and dropped. */
STENO_MUST steno_status steno_wyoming_reader_next(struct steno_wyoming_reader *r, const char *p,
                                                  size_t n, size_t *used,
                                                  struct steno_wyoming_item *item, steno_err *err);

/* Append an event without a payload. data: a JSON object. */
STENO_MUST steno_status steno_wyoming_write(struct steno_buf *out, const char *type,
                                            const struct steno_buf *data);
/* Append an error event. code: its stable name. */
STENO_MUST steno_status steno_wyoming_write_error(struct steno_buf *out, const char *code,
                                                  const char *message);

#endif
