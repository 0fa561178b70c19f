/* whisper.cpp's ggml files (ggml-org/whisper.cpp, src/whisper.cpp, whisper_model_load). In order:
 *
 *     u32 magic
 *     i32 vocab, audio ctx, state, head, layer, text ctx, state, head, layer, mels, ftype
 *     i32 n_mel, n_fft, then f32 filters[n_mel * n_fft]
 *     i32 n, then n x {u32 length; bytes}: regular tokens, raw bytes
 *     to the end: tensors (families/common/ggml_file.h)
 *
 * Names are OpenAI's. The special tokens behind the regular ones are not in the file (tokens.h). */
#include "speech/families/whisper/weights_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/ggml_kind.h"
#include "speech/families/common/ggml_file.h"

#define MAX_MELS 512

enum {
    VOCAB,
    AUDIO_CTX,
    AUDIO_STATE,
    AUDIO_HEAD,
    AUDIO_LAYER,
    TEXT_CTX,
    TEXT_STATE,
    TEXT_HEAD,
    TEXT_LAYER,
    MELS,
    FTYPE,
    N_HEADER
};

struct file {
    steno_whisper_weights *w;
    struct steno_cursor at;
    const char *name;
    steno_err *err;
    uint32_t header[N_HEADER];
};

static steno_status cut_short(const struct file *f, const char *what)
{
    return steno_fail(f->err, STENO_ERR_FORMAT, "%s: the file ends in %s", f->name, what);
}

/* Other programs of whisper.cpp's project begin their files alike. */
static const char *other_kind(const void *bytes, size_t n)
{
    switch (steno_ggml_kind_of(bytes, n)) {
    case STENO_GGML_SILERO:
        return "silero's VAD, which is no model (steno model fetch silero-vad has a file that is "
               "read)";
    case STENO_GGML_PARAKEET:
        return "a Parakeet, which is opened by its own name (docs/nemo.md)";
    default:
        return NULL;
    }
}

static steno_status read_header(struct file *f)
{
    uint32_t magic, rows, cols;
    size_t bytes;
    if (!steno_cursor_u32(&f->at, &magic))
        return cut_short(f, "the header");
    if (magic != STENO_GGML_MAGIC)
        return steno_fail(f->err, STENO_ERR_FORMAT, "%s: begins with 0x%08x, expected 0x%08x",
                          f->name, (unsigned)magic, STENO_GGML_MAGIC);
    for (int i = 0; i < N_HEADER; i++)
        if (!steno_cursor_u32(&f->at, &f->header[i]))
            return cut_short(f, "the header");
    if (f->header[VOCAB] > STENO_BPE_MAX_PIECES || f->header[MELS] > MAX_MELS)
        return steno_fail(f->err, STENO_ERR_FORMAT,
                          "%s: a ggml file of another model than Whisper: its header has %u as "
                          "number of pieces and %u of mel bands",
                          f->name, (unsigned)f->header[VOCAB], (unsigned)f->header[MELS]);
    if (f->header[FTYPE] / 1000 && f->header[FTYPE] / 1000 != STENO_GGML_QUANT_VERSION)
        return steno_fail(f->err, STENO_ERR_UNSUPPORTED,
                          "%s: blocks of version %u, version %d is read", f->name,
                          (unsigned)f->header[FTYPE] / 1000, STENO_GGML_QUANT_VERSION);
    if (!steno_cursor_u32(&f->at, &rows) || !steno_cursor_u32(&f->at, &cols))
        return cut_short(f, "the header");
    /* computed here for every format, to 4e-9 of these */
    if (!steno_mul_size(rows, cols, &bytes) || !steno_mul_size(bytes, 4, &bytes) ||
        !steno_cursor_skip(&f->at, bytes))
        return cut_short(f, "the mel filters");
    f->w->audio_heads = (int64_t)f->header[AUDIO_HEAD];
    f->w->text_heads = (int64_t)f->header[TEXT_HEAD];
    return STENO_OK;
}

static steno_status read_pieces(struct file *f)
{
    struct steno_bpe_piece *all;
    uint32_t n, length = 0;
    steno_status st = STENO_OK;
    if (!steno_cursor_u32(&f->at, &n))
        return cut_short(f, "the vocabulary");
    if (n > STENO_BPE_MAX_PIECES || n > f->header[VOCAB])
        return steno_fail(f->err, STENO_ERR_FORMAT,
                          "%s: %u pieces in the vocabulary, expected at most %u", f->name,
                          (unsigned)n, (unsigned)f->header[VOCAB]);
    all = calloc((size_t)n + 1, sizeof *all);
    if (!all)
        return steno_fail(f->err, STENO_ERR_NOMEM, "%s: out of memory", f->name);
    for (uint32_t i = 0; i < n && !st; i++) {
        const unsigned char *p = NULL;
        if (!steno_cursor_u32(&f->at, &length) || !(p = steno_cursor_skip(&f->at, length)))
            st = cut_short(f, "the vocabulary");
        all[i] = (struct steno_bpe_piece){(const char *)p, length};
    }
    if (!st)
        st = steno_bpe_new(&f->w->bpe, all, n, f->name, f->err);
    free(all);
    return st;
}

static steno_status read_tensor(struct file *f)
{
    struct steno_whisper_tensor t = {.file = f->name, .type = STENO_WHISPER_GGML};
    struct steno_ggml_record r;
    steno_status st = steno_ggml_record_read(&f->at, &r, f->name, f->err);
    if (st)
        return st;
    snprintf(t.name, sizeof t.name, "%s", r.name);
    t.ggml = r.type;
    t.rank = r.rank;
    memcpy(t.dim, r.dim, sizeof t.dim);
    t.data = r.data;
    while (t.rank > 1 && t.dim[t.rank - 1] == 1) /* biases of convolutions are [d, 1] */
        t.rank--;
    return steno_whisper_add(f->w, &t, f->err);
}

steno_status steno_whisper_read_ggml(steno_whisper_weights *w, const void *bytes, size_t n,
                                     const char *name, steno_err *err)
{
    struct file f = {
        .w = w, .at = {bytes, (const unsigned char *)bytes + n}, .name = name, .err = err};
    const char *other = other_kind(bytes, n);
    steno_status st =
        other ? steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: a ggml file of %s", name, other)
              : read_header(&f);
    if (!st)
        st = read_pieces(&f);
    while (!st && steno_cursor_left(&f.at))
        st = read_tensor(&f);
    return st;
}
