/* whisper.cpp's files of Parakeet (ggml-org/whisper.cpp, src/parakeet.cpp). In order:
 *
 *     u32 magic
 *     i32 vocab without the blank, ctx, state, head, layer, mels, ftype, n_fft, subsampling, its
 *         channels, kernel, pred, pred layers, durations, most tokens of a frame
 *     i32 n_mel, n_fb, then f32 filters[n_mel * n_fb]; i32 n, then f32 window[n]
 *     u32 durations; i32 n, then n x {i32 length; bytes}: pieces
 *     to the end: tensors (families/common/ggml_file.h)
 *
 * Names are NeMo's. The two biases of an LSTM are summed, and its gates stand as i, f, o, g.
 * Filters and window are those of NeMo, and computed here. */
#include "speech/families/nemo/file_internal.h"

#include <stdio.h>
#include <string.h>

#include "speech/families/common/ggml_file.h"

#define LSTM "decoder.prediction.dec_rnn.lstm."

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
    struct steno_cursor at;
    uint32_t header[N_HEADER];
    steno_err *err;
};

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
    if (r->header[FTYPE] / 1000 && r->header[FTYPE] / 1000 != STENO_GGML_QUANT_VERSION)
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: blocks of version %u, version %d is read", r->f->base.name,
                          (unsigned)r->header[FTYPE] / 1000, STENO_GGML_QUANT_VERSION);
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
    if (!steno_cursor_u32(&r->at, &magic) || magic != STENO_GGML_MAGIC)
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: does not begin with 0x%08x",
                          r->f->base.name, STENO_GGML_MAGIC);
    for (int i = 0; i < N_HEADER; i++)
        if (!steno_cursor_u32(&r->at, &r->header[i]))
            return cut_short(r, "the header");
    st = check_header(r);
    if (st)
        return st;
    use_header(r);
    if (!steno_cursor_u32(&r->at, &rows) || !steno_cursor_u32(&r->at, &cols) || cols > 65536 ||
        !steno_cursor_skip(&r->at, (uint64_t)rows * cols * 4) || !steno_cursor_u32(&r->at, &n) ||
        !steno_cursor_skip(&r->at, (uint64_t)n * 4))
        return cut_short(r, "its filters or its window");
    for (uint32_t i = 0, v; i < r->header[DURATIONS]; i++)
        if (!steno_cursor_u32(&r->at, &v) || v != i)
            return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                              "%s: durations: known: 0, 1, 2, .. in this order", r->f->base.name);
    return STENO_OK;
}

static steno_status read_pieces(struct reader *r)
{
    uint32_t n, length = 0;
    steno_status st = STENO_OK;
    if (!steno_cursor_u32(&r->at, &n))
        return cut_short(r, "the vocabulary");
    if (n != r->header[VOCAB])
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: %u pieces, the header has %u",
                          r->f->base.name, (unsigned)n, (unsigned)r->header[VOCAB]);
    for (uint32_t i = 0; i < n && !st; i++) {
        const unsigned char *p = NULL;
        if (!steno_cursor_u32(&r->at, &length) || !(p = steno_cursor_skip(&r->at, length)))
            return cut_short(r, "the vocabulary");
        st = steno_ggml_file_piece(&r->f->base, (const char *)p, length, r->err);
    }
    return st;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static steno_status read_tensor(struct reader *r)
{
    struct steno_ggml_record record;
    struct steno_ggml_tensor t = {0};
    char full[STENO_GGML_NAME + 2];
    steno_status st = steno_ggml_record_read(&r->at, &record, r->f->base.name, r->err);
    if (st)
        return st;
    t.t.rank = record.rank;
    memcpy(t.t.dim, record.dim, sizeof record.dim);
    t.type = record.type;
    t.data = record.data;
    t.ifog = strncmp(record.name, LSTM, strlen(LSTM)) == 0;
    if (strncmp(record.name, LSTM "bias_h_l", strlen(LSTM "bias_h_l")) == 0)
        snprintf(full, sizeof full, LSTM "bias_ih_l%.40s", record.name + strlen(LSTM "bias_h_l"));
    else
        snprintf(full, sizeof full, "%s", record.name);
    return steno_ggml_file_add(&r->f->base, full, &t, r->err);
}

steno_status steno_nemo_read_ggml(steno_nemo_file *f, steno_err *err)
{
    struct reader r = {.f = f, .at = {f->base.bytes, f->base.bytes + f->base.size}, .err = err};
    steno_status st = read_header(&r);
    if (!st)
        st = read_pieces(&r);
    while (!st && steno_cursor_left(&r.at))
        st = read_tensor(&r);
    if (!st)
        f->info.arch.joint = steno_ggml_file_extent(&f->base, "joint.enc.weight", 0);
    return st;
}
