/* WebSocket framing (RFC 6455, section 5) on the server's side: bytes of a client become parts of
 * its messages, and messages become bytes of frames. Incremental: any split of the input gives the
 * same messages. A frame is checked by its head, before its payload has come. Pure; confined; no
 * allocation.
 *
 * Refused: unmasked frames (5.1), reserved bits (no extension is negotiated), unknown opcodes,
 * lengths not in their shortest form (5.2), control frames that are fragmented or longer than 125
 * bytes (5.5), new data frames within a message and continuations outside one (5.4), close codes
 * that may not be sent (7.4), text that is not UTF-8 (5.6, 8.1), messages over the limit. */
#ifndef STENO_PROTOCOL_WS_FRAME_H
#define STENO_PROTOCOL_WS_FRAME_H

#include "base/status.h"

enum steno_ws_opcode {
    STENO_WS_CONTINUATION = 0,
    STENO_WS_TEXT = 1,
    STENO_WS_BINARY = 2,
    STENO_WS_CLOSE = 8,
    STENO_WS_PING = 9,
    STENO_WS_PONG = 10
};

#define STENO_WS_CONTROL_BYTES 125 /* longest payload of a control frame */
#define STENO_WS_HEAD_BYTES 10     /* longest head of an unmasked frame */

struct steno_ws_reader {
    /* limits, set by init */
    uint64_t max_text, max_binary; /* bytes of one message */
    /* the current frame */
    unsigned char head[14];
    unsigned n_head;
    bool in_payload, fin;
    enum steno_ws_opcode opcode;
    uint64_t left;    /* payload bytes to come */
    unsigned mask_at; /* 0..3 */
    char mask[4];
    /* the current message */
    enum steno_ws_opcode message; /* TEXT or BINARY; CONTINUATION: none has begun */
    uint64_t message_bytes;
    uint32_t code_point; /* of the text: the bits read so far */
    unsigned code_left;  /* bytes that are still missing */
    uint32_t code_min;   /* below this the sequence is overlong */
    /* a control frame's payload */
    unsigned n_control;
    char control[STENO_WS_CONTROL_BYTES + 1];
};

struct steno_ws_item {
    enum steno_ws_opcode kind; /* TEXT, BINARY: a part of a message; CLOSE, PING, PONG: whole */
    bool first, last;          /* of the message */
    const char *data;          /* [n], in the input or in the reader; a close's reason */
    size_t n;
    int close_code; /* of CLOSE; 1005 when it has none */
};

void steno_ws_reader_init(struct steno_ws_reader *r, uint64_t max_text, uint64_t max_binary);
/* Mask or unmask p [n] in place, starting with byte `at` of the mask (5.3). */
void steno_ws_mask(char *p, size_t n, const char mask[4], unsigned at);
/* Read from p [n], which is unmasked in place; *used: bytes that were read. STENO_OK: *item is the
 * next item. STENO_NEED_MORE: everything was read and no item is complete. After other errors the
 * connection can only be closed: STENO_ERR_INVAL: against the protocol (close code 1002).
 * STENO_ERR_FORMAT: text that is not UTF-8 (1007). STENO_ERR_LIMIT: a message over the limit,
 * detected from the frame's head (1009). */
STENO_MUST steno_status steno_ws_reader_next(struct steno_ws_reader *r, char *p, size_t n,
                                             size_t *used, struct steno_ws_item *item,
                                             steno_err *err);

/* Write the head of an unfragmented frame of n bytes; returns its length, at most
 * STENO_WS_HEAD_BYTES. */
size_t steno_ws_frame_head(unsigned char *out, enum steno_ws_opcode opcode, uint64_t n);
/* Write a whole close frame: the code and as much of the reason as fits. out:
 * STENO_WS_CONTROL_BYTES + 2 bytes. Returns its length. */
size_t steno_ws_close_frame(unsigned char *out, int code, const char *reason);

#endif
