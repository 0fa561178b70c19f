#include "protocol/ws_frame.h"

#include <string.h>

void steno_ws_reader_init(struct steno_ws_reader *r, uint64_t max_text, uint64_t max_binary)
{
    memset(r, 0, sizeof *r);
    r->max_text = max_text;
    r->max_binary = max_binary;
}

/* ---- heads ----------------------------------------------------------------------------------- */

static bool is_control(unsigned opcode)
{
    return opcode & 8;
}

/* Length of the head that begins with these two bytes (RFC 6455, 5.2; clients mask). */
static unsigned head_bytes(const unsigned char *head)
{
    unsigned length = head[1] & 0x7f;
    return 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + 4;
}

/* Check the first two bytes. */
static steno_status check_start(const struct steno_ws_reader *r, steno_err *err)
{
    unsigned opcode = r->head[0] & 0x0f, length = r->head[1] & 0x7f;
    bool fin = r->head[0] & 0x80;
    if (r->head[0] & 0x70)
        return steno_fail(err, STENO_ERR_INVAL,
                          "frame: reserved bits 0x%02x are set, but no extension was negotiated",
                          r->head[0] & 0x70);
    if ((opcode > STENO_WS_BINARY && opcode < STENO_WS_CLOSE) || opcode > STENO_WS_PONG)
        return steno_fail(err, STENO_ERR_INVAL, "frame: opcode %u is reserved", opcode);
    if (!(r->head[1] & 0x80))
        return steno_fail(err, STENO_ERR_INVAL,
                          "frame: not masked, but a client must mask its frames (RFC 6455, 5.1)");
    if (is_control(opcode) && !fin)
        return steno_fail(err, STENO_ERR_INVAL, "frame: a control frame is fragmented");
    if (is_control(opcode) && length > STENO_WS_CONTROL_BYTES)
        return steno_fail(err, STENO_ERR_INVAL, "frame: a control frame has more than 125 bytes");
    if (opcode == STENO_WS_CONTINUATION && r->message == STENO_WS_CONTINUATION)
        return steno_fail(err, STENO_ERR_INVAL, "frame: continuation of no message");
    if (!is_control(opcode) && opcode != STENO_WS_CONTINUATION &&
        r->message != STENO_WS_CONTINUATION)
        return steno_fail(err, STENO_ERR_INVAL, "frame: a new message within a fragmented one");
    return STENO_OK;
}

static steno_status read_length(struct steno_ws_reader *r, steno_err *err)
{
    unsigned length = r->head[1] & 0x7f, bytes = length == 126 ? 2 : length == 127 ? 8 : 0;
    uint64_t v = bytes ? 0 : length;
    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | r->head[2 + i];
    if ((bytes == 2 && v < 126) || (bytes == 8 && v < 65536))
        return steno_fail(err, STENO_ERR_INVAL,
                          "frame: length %llu is not in its shortest form (RFC 6455, 5.2)",
                          (unsigned long long)v);
    if (v >> 63)
        return steno_fail(err, STENO_ERR_INVAL, "frame: length of 2^63 or more");
    r->left = v;
    return STENO_OK;
}

/* Add the frame to its message and check the message's length. */
static steno_status add_to_message(struct steno_ws_reader *r, steno_err *err)
{
    uint64_t max;
    if (r->opcode != STENO_WS_CONTINUATION) {
        r->message = r->opcode;
        r->message_bytes = 0;
    }
    max = r->message == STENO_WS_TEXT ? r->max_text : r->max_binary;
    if (r->left > max || r->message_bytes > max - r->left)
        return steno_fail(err, STENO_ERR_LIMIT, "message: more than %llu bytes of %s",
                          (unsigned long long)max, r->message == STENO_WS_TEXT ? "text" : "audio");
    return STENO_OK;
}

static steno_status begin_frame(struct steno_ws_reader *r, steno_err *err)
{
    steno_status st = read_length(r, err);
    r->fin = r->head[0] & 0x80;
    r->opcode = (enum steno_ws_opcode)(r->head[0] & 0x0f);
    memcpy(r->mask, r->head + r->n_head - 4, 4);
    r->mask_at = 0;
    r->n_control = 0;
    r->in_payload = true;
    if (!st && !is_control(r->opcode))
        st = add_to_message(r, err);
    return st;
}

/* Read the head. STENO_NEED_MORE when the input ends before the head does. */
static steno_status read_head(struct steno_ws_reader *r, const char *p, size_t n, size_t *at,
                              steno_err *err)
{
    while (*at < n) {
        r->head[r->n_head++] = (unsigned char)p[(*at)++];
        if (r->n_head == 2) {
            steno_status st = check_start(r, err);
            if (st)
                return st;
        }
        if (r->n_head >= 2 && r->n_head == head_bytes(r->head))
            return begin_frame(r, err);
    }
    return STENO_NEED_MORE;
}

/* ---- payload --------------------------------------------------------------------------------- */

void steno_ws_mask(char *p, size_t n, const char mask[4], unsigned at)
{
    char key[8];
    uint64_t word, x;
    size_t i = 0;
    for (unsigned k = 0; k < sizeof key; k++)
        key[k] = mask[(at + k) & 3];
    memcpy(&word, key, sizeof word);
    for (; n - i >= sizeof x; i += sizeof x) {
        memcpy(&x, p + i, sizeof x);
        x ^= word;
        memcpy(p + i, &x, sizeof x);
    }
    for (; i < n; i++)
        p[i] = (char)(p[i] ^ key[i & 7]);
}

static void unmask(struct steno_ws_reader *r, char *p, size_t n)
{
    steno_ws_mask(p, n, r->mask, r->mask_at);
    r->mask_at = (unsigned)((r->mask_at + n) & 3);
}

/* Check UTF-8 (RFC 3629) across any split: shortest form, no surrogates, up to U+10FFFF. */
static bool check_text(struct steno_ws_reader *r, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (r->code_left) {
            if ((c & 0xc0) != 0x80)
                return false;
            r->code_point = r->code_point << 6 | (c & 0x3f);
            if (--r->code_left)
                continue;
            if (r->code_point < r->code_min || r->code_point > 0x10ffff ||
                (r->code_point >= 0xd800 && r->code_point < 0xe000))
                return false;
        } else if (c >= 0x80) {
            r->code_left = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
            if (c < 0xc2 || c > 0xf4)
                return false;
            r->code_min = r->code_left == 3 ? 0x10000 : r->code_left == 2 ? 0x800 : 0x80;
            r->code_point = c & (0x3fu >> r->code_left);
        }
    }
    return true;
}

static steno_status bad_text(steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "text: not UTF-8");
}

/* Close codes a peer may send (RFC 6455, 7.4; 1012-1014: IANA's registry). */
static bool good_close_code(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

static steno_status end_close(struct steno_ws_reader *r, struct steno_ws_item *item, steno_err *err)
{
    struct steno_ws_reader text = {.code_left = 0};
    unsigned code;
    item->close_code = 1005;
    if (!r->n_control)
        return STENO_OK;
    if (r->n_control == 1)
        return steno_fail(err, STENO_ERR_INVAL, "close: a code has two bytes");
    code = (unsigned)(unsigned char)r->control[0] << 8 | (unsigned char)r->control[1];
    if (!good_close_code(code))
        return steno_fail(err, STENO_ERR_INVAL, "close: code %u may not be sent", code);
    if (!check_text(&text, r->control + 2, r->n_control - 2) || text.code_left)
        return steno_fail(err, STENO_ERR_FORMAT, "close: the reason is not UTF-8");
    item->close_code = (int)code;
    item->data = r->control + 2;
    item->n = r->n_control - 2;
    return STENO_OK;
}

static void end_frame(struct steno_ws_reader *r)
{
    r->n_head = 0;
    r->in_payload = false;
}

static steno_status read_control(struct steno_ws_reader *r, char *p, size_t n, size_t *at,
                                 struct steno_ws_item *item, steno_err *err)
{
    size_t k = n - *at < r->left ? n - *at : (size_t)r->left;
    memcpy(r->control + r->n_control, p + *at, k);
    unmask(r, r->control + r->n_control, k);
    r->n_control += (unsigned)k;
    r->left -= k;
    *at += k;
    if (r->left)
        return STENO_NEED_MORE;
    end_frame(r);
    *item = (struct steno_ws_item){
        .kind = r->opcode, .first = true, .last = true, .data = r->control, .n = r->n_control};
    return r->opcode == STENO_WS_CLOSE ? end_close(r, item, err) : STENO_OK;
}

static steno_status read_data(struct steno_ws_reader *r, char *p, size_t n, size_t *at,
                              struct steno_ws_item *item, steno_err *err)
{
    size_t k = n - *at < r->left ? n - *at : (size_t)r->left;
    char *data = p + *at;
    if (r->left && !k)
        return STENO_NEED_MORE;
    unmask(r, data, k);
    r->left -= k;
    *at += k;
    *item = (struct steno_ws_item){.kind = r->message,
                                   .first = !r->message_bytes && r->opcode != STENO_WS_CONTINUATION,
                                   .last = !r->left && r->fin,
                                   .data = data,
                                   .n = k};
    r->message_bytes += k;
    if (r->message == STENO_WS_TEXT && !check_text(r, data, k))
        return bad_text(err);
    if (item->last && r->code_left)
        return bad_text(err);
    if (!r->left)
        end_frame(r);
    if (item->last)
        r->message = STENO_WS_CONTINUATION;
    return STENO_OK;
}

steno_status steno_ws_reader_next(struct steno_ws_reader *r, char *p, size_t n, size_t *used,
                                  struct steno_ws_item *item, steno_err *err)
{
    size_t at = 0;
    steno_status st = r->in_payload ? STENO_OK : read_head(r, p, n, &at, err);
    if (!st && is_control(r->opcode))
        st = read_control(r, p, n, &at, item, err);
    else if (!st)
        st = read_data(r, p, n, &at, item, err);
    *used = at;
    return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

size_t steno_ws_frame_head(unsigned char *out, enum steno_ws_opcode opcode, uint64_t n)
{
    unsigned bytes = n < 126 ? 0 : n < 65536 ? 2 : 8;
    out[0] = (unsigned char)(0x80 | opcode);
    out[1] = (unsigned char)(bytes == 0 ? n : bytes == 2 ? 126 : 127);
    for (unsigned i = 0; i < bytes; i++)
        out[2 + i] = (unsigned char)(n >> 8 * (bytes - 1 - i));
    return 2 + bytes;
}

size_t steno_ws_close_frame(unsigned char *out, int code, const char *reason)
{
    size_t n = strlen(reason), head;
    if (n > STENO_WS_CONTROL_BYTES - 2) {
        n = STENO_WS_CONTROL_BYTES - 2;
        while (n && ((unsigned char)reason[n] & 0xc0) == 0x80) /* do not cut a character */
            n--;
    }
    head = steno_ws_frame_head(out, STENO_WS_CLOSE, n + 2);
    out[head] = (unsigned char)(code >> 8);
    out[head + 1] = (unsigned char)code;
    memcpy(out + head + 2, reason, n);
    return head + 2 + n;
}
