/* whisper.cpp's files of Parakeet (ggml-org/whisper.cpp, src/parakeet.cpp). In order:
 *
 *     u32 magic
 *     i32 vocab without the blank, ctx, state, head, layer, mels, ftype, n_fft, subsampling, its
 *         channels, kernel, pred, pred layers, durations, most tokens of a frame
 *     i32 n_mel, n_fb, then f32 filters[n_mel * n_fb]; i32 n, then f32 window[n]
 *     u32 durations; i32 n, then n x {i32 length; bytes}: pieces
 *     to the end: {i32 axes, name length, type; i32 ne[axes]; name; elements}
 *
 * Names are NeMo's. The two biases of an LSTM are summed, and its gates stand as i, f, o, g.
 * Filters and window are those of NeMo, and computed here. */
#include "speech/families/nemo/file_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/little_endian.h"
#include "speech/families/common/ggml_kind.h"

#define QUANT_VERSION 2 /* of ggml's blocks; ftype / 1000, 0 in files without any */
#define LSTM "decoder.prediction.dec_rnn.lstm."
#define MAX_NAME 200

enum {
    VOCAB,
    CTX,
    STATE,
    HEAD,
    LAYER,
    MELS,
    FTYPE,
    FFT,
    FACTOR,
    CHANNELS,
    KERNEL,
    PRED,
    PRED_LAYERS,
    DURATIONS,
    MOST_TOKENS,
    N_HEADER
};

struct reader {
    steno_nemo_file *f;
    const unsigned char *p, *end;
    uint32_t header[N_HEADER];
    steno_err *err;
};

static const unsigned char *skip(struct reader *r, uint64_t n)
{
    const unsigned char *p = r->p;
    if (n > (size_t)(r->end - r->p))
        return NULL;
    r->p += n;
    return p;
}

static bool take(struct reader *r, uint32_t *out)
{
    const unsigned char *p = skip(r, 4);
    if (p)
        *out = steno_le32(p);
    return p;
}

static steno_status cut_short(const struct reader *r, const char *what)
{
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s: the file ends in %s", r->f->base.name, what);
}

/* ---- the header ---------------------------------------------------------------------------- */

static steno_status check_header(const struct reader *r)
{
    static const struct {
        const char *what;
        uint32_t min, max;
    } all[N_HEADER] = {[VOCAB] = {"pieces", 1, 1 << 20},
                       [CTX] = {"positions", 1, 100000},
                       [STATE] = {"columns", 2, 65536},
                       [HEAD] = {"heads", 1, 1024},
                       [LAYER] = {"layers", 1, 256},
                       [MELS] = {"mel bands", 1, 512},
                       [FTYPE] = {"as ftype", 0, 99999},
                       [FFT] = {"samples of an FFT", 512, 512},
                       [FACTOR] = {"as subsampling", 2, 64},
                       [CHANNELS] = {"channels", 1, 65536},
                       [KERNEL] = {"taps", 1, 1024},
                       [PRED] = {"columns of the predictor", 1, 65536},
                       [PRED_LAYERS] = {"LSTM layers", 1, 64},
                       [DURATIONS] = {"durations", 0, 1000},
                       [MOST_TOKENS] = {"tokens of a frame", 0, 1000}};
    for (int i = 0; i < N_HEADER; i++)
        if (r->header[i] < all[i].min || r->header[i] > all[i].max)
            return steno_fail(r->err, STENO_ERR_FORMAT,
                              "%s: %u %s in the header of a Parakeet, expected %u to %u",
                              r->f->base.name, (unsigned)r->header[i], all[i].what,
                              (unsigned)all[i].min, (unsigned)all[i].max);
    if (r->header[FTYPE] / 1000 && r->header[FTYPE] / 1000 != QUANT_VERSION)
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: blocks of version %u, version %d is read", r->f->base.name,
                          (unsigned)r->header[FTYPE] / 1000, QUANT_VERSION);
    return STENO_OK;
}

static void use_header(struct reader *r)
{
    struct steno_nemo_file_info *i = &r->f->info;
    const uint32_t *h = r->header;
    i->format = "ggml";
    r->f->one_bias = true;
    i->per_feature = true;
    i->max_tokens = h[MOST_TOKENS];
    i->arch = (struct steno_nemo_arch){.in = h[MELS],
                                       .d = h[STATE],
                                       .out = h[STATE],
                                       .heads = h[HEAD],
                                       .ff = 4 * (int64_t)h[STATE],
                                       .layers = h[LAYER],
                                       .factor = h[FACTOR],
                                       .channels = h[CHANNELS],
                                       .positions = h[CTX],
                                       .kernel = h[KERNEL],
                                       .before = (h[KERNEL] - 1) / 2,
                                       .left = -1,
                                       .right = -1,
                                       .durations = h[DURATIONS],
                                       .pred = h[PRED],
                                       .pred_layers = h[PRED_LAYERS],
                                       .joint_activation = "relu",
                                       .model_type = "EncDecRNNTBPEModel"};
}

static steno_status read_header(struct reader *r)
{
    uint32_t magic, rows, cols, n;
    steno_status st;
    if (!take(r, &magic) || magic != STENO_GGML_MAGIC)
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: does not begin with 0x%08x",
                          r->f->base.name, STENO_GGML_MAGIC);
    for (int i = 0; i < N_HEADER; i++)
        if (!take(r, &r->header[i]))
            return cut_short(r, "the header");
    st = check_header(r);
    if (st)
        return st;
    use_header(r);
    if (!take(r, &rows) || !take(r, &cols) || cols > 65536 || !skip(r, (uint64_t)rows * cols * 4) ||
        !take(r, &n) || !skip(r, (uint64_t)n * 4))
        return cut_short(r, "its filters or its window");
    for (uint32_t i = 0, v; i < r->header[DURATIONS]; i++)
        if (!take(r, &v) || v != i)
            return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                              "%s: durations: known: 0, 1, 2, .. in this order", r->f->base.name);
    return STENO_OK;
}

static steno_status read_pieces(struct reader *r)
{
    uint32_t n, length = 0;
    steno_status st = STENO_OK;
    if (!take(r, &n))
        return cut_short(r, "the vocabulary");
    if (n != r->header[VOCAB])
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: %u pieces, the header has %u",
                          r->f->base.name, (unsigned)n, (unsigned)r->header[VOCAB]);
    for (uint32_t i = 0; i < n && !st; i++) {
        const unsigned char *p = NULL;
        if (!take(r, &length) || !(p = skip(r, length)))
            return cut_short(r, "the vocabulary");
        st = steno_ggml_file_piece(&r->f->base, (const char *)p, length, r->err);
    }
    return st;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static steno_status read_head(struct reader *r, char name[MAX_NAME], struct steno_ggml_tensor *t)
{
    uint32_t axes, length, type, dim;
    const unsigned char *p;
    if (!take(r, &axes) || !take(r, &length) || !take(r, &type))
        return cut_short(r, "a tensor's header");
    if (axes > 4 || length >= MAX_NAME)
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: a tensor of %u axes with a name of %u bytes, at most 4 and %d",
                          r->f->base.name, (unsigned)axes, (unsigned)length, MAX_NAME - 1);
    t->t.rank = (int)axes;
    for (uint32_t i = axes; i-- > 0; t->t.dim[i] = dim)
        if (!take(r, &dim) || !dim)
            return cut_short(r, "a tensor's sizes, or they are 0");
    p = skip(r, length);
    if (!p)
        return cut_short(r, "a tensor's name");
    memcpy(name, p, length);
    name[length] = '\0';
    t->type = steno_ggml_type(type);
    if (!t->type)
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: tensor '%s' has type %u, " STENO_GGML_TYPES " are read",
                          r->f->base.name, name, (unsigned)type);
    return STENO_OK;
}

static steno_status read_tensor(struct reader *r)
{
    struct steno_ggml_tensor t = {0};
    char name[MAX_NAME], full[MAX_NAME + 8];
    size_t count = 1, bytes;
    steno_status st = read_head(r, name, &t);
    bool fits = true;
    if (st)
        return st;
    for (int i = 0; i < t.t.rank; i++)
        fits = fits && steno_mul_size(count, (size_t)t.t.dim[i], &count);
    if (!fits ||
        !steno_ggml_bytes(t.type, t.t.rank ? (size_t)t.t.dim[t.t.rank - 1] : 1, count, &bytes) ||
        !(t.data = skip(r, bytes)))
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: tensor '%s' does not fit: %zu bytes are left of the file",
                          r->f->base.name, name, (size_t)(r->end - r->p));
    t.ifog = strncmp(name, LSTM, strlen(LSTM)) == 0;
    if (strncmp(name, LSTM "bias_h_l", strlen(LSTM "bias_h_l")) == 0)
        snprintf(full, sizeof full, LSTM "bias_ih_l%s", name + strlen(LSTM "bias_h_l"));
    else
        snprintf(full, sizeof full, "%s", name);
    return steno_ggml_file_add(&r->f->base, full, &t, r->err);
}

steno_status steno_nemo_read_ggml(steno_nemo_file *f, steno_err *err)
{
    struct reader r = {.f = f, .p = f->base.bytes, .end = f->base.bytes + f->base.size, .err = err};
    steno_status st = read_header(&r);
    if (!st)
        st = read_pieces(&r);
    while (!st && r.p < r.end)
        st = read_tensor(&r);
    if (!st)
        f->info.arch.joint = steno_ggml_file_extent(&f->base, "joint.enc.weight", 0);
    return st;
}
