/* Family qwen3_asr: Qwen3-ASR from sherpa-onnx's directories, a piece of audio at once.
 *
 *     conv_frontend   log-mel frames [1,T,128] -> [1,A,H], 13 rows for each 100 frames
 *     encoder         [1,A,H], mask bool [1,A] -> rows of audio [1,A,D]
 *     decoder         families/llm/decoder.h, with ids
 *
 * The decoder is a language model. It reads a prompt in which a mark stands for each row of audio,
 * and writes "language English<asr_text>" and the text; a language that is given ends the prompt.
 * Greedy, as sherpa-onnx (offline-recognizer-qwen3-asr-impl.cc, 1.13.4). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/precision.h"
#include "speech/families/llm/decoder.h"
#include "speech/families/qwen_asr/family.h"
#include "speech/families/qwen_asr/prompt.h"
#include "speech/features/logmel.h"

#define FOLDER "tokenizer"
#define RATE 16000
#define BINS 128
#define BLOCK_FRAMES 100   /* log-mel frames that the front end takes together */
#define BLOCK_ROWS 13      /* its rows for those */
#define FULL 30.0          /* s: of a chunk, unless the caches have no room for it */
#define SLACK 13           /* rows: tokens have no times of their own */
#define SCAFFOLD 32        /* tokens of a prompt without context and audio, at most */
#define LANGUAGE_WITHIN 16 /* first tokens among which the end of the language is looked for */
#define SILENT 1e-6f       /* rows behind the recording's have no larger value */

/* Frozen after open. */
struct model {
    struct steno_shell_model base;
    struct steno_part_file front, encoder;
    struct steno_llm llm;
    struct steno_llm_vocabulary vocabulary; /* its tokens are base's, too */
    int32_t mark[STENO_QWEN_MARKS];
    char languages[256];
};

struct stream {
    struct steno_shell_stream base;
    struct steno_qwen_prompt prompt;
};

struct worker {
    struct steno_shell_worker base;
    steno_session *front, *encoder;
    struct steno_llm_run llm;
    bool *valid; /* [cap_valid] mask of the encoder */
    size_t cap_valid;
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool probe_qwen_asr(const char *dir)
{
    steno_onnx_head *h = steno_path_readable(dir, "tokenizer/vocab.json")
                             ? steno_network_file_peek(dir, "conv_frontend")
                             : NULL;
    const bool is = h != NULL;
    steno_onnx_head_close(h);
    return is;
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    steno_qwen_languages(out->languages, sizeof out->languages);
    return *dir;
}

static steno_status open_networks_qwen_asr(struct model *m, const struct steno_family_open *o,
                                           steno_err *err)
{
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    if (!st)
        st = steno_part_file_open(&m->front, o, "conv_frontend", int8, err);
    if (!st)
        st = steno_part_file_open(&m->encoder, o, "encoder", int8, err);
    if (!st)
        st = steno_llm_open(&m->llm, o, "decoder", NULL, int8, err);
    if (!st &&
        (steno_network_n_inputs(m->front.net) != 1 || steno_network_n_outputs(m->front.net) != 1 ||
         steno_network_n_inputs(m->encoder.net) != 2 ||
         steno_network_n_outputs(m->encoder.net) != 1))
        st = steno_fail(err, STENO_ERR_FORMAT, "expected %s with one input, %s with two",
                        m->front.name, m->encoder.name);
    return st;
}

static steno_status open_vocabulary(struct model *m, const char *dir, steno_err *err)
{
    steno_status st = steno_llm_vocabulary_open(&m->vocabulary, dir, FOLDER, err);
    if (!st)
        st = steno_qwen_find_marks(m->mark, &m->vocabulary, FOLDER, err);
    m->base.tokens = m->vocabulary.tokens;
    m->llm.vocab = st ? 0 : steno_tokens_count(m->base.tokens);
    m->llm.audio = m->mark[STENO_QWEN_AUDIO];
    return st;
}

static steno_status open_model_qwen_asr(void *model, const struct steno_family_open *o,
                                        steno_err *err)
{
    struct model *m = model;
    const struct steno_fbank_options front = steno_logmel_whisper(BINS);
    double full;
    steno_status st = open_networks_qwen_asr(m, o, err);
    if (!st)
        st = open_vocabulary(m, o->dir, err);
    if (!st)
        st = steno_fbank_open(&m->base.front, &front, err);
    if (st)
        return steno_fail_in(err, st, "%s", o->dir);
    steno_qwen_languages(m->languages, sizeof m->languages);
    full = steno_llm_seconds(&m->llm, (double)BLOCK_ROWS * 100 / BLOCK_FRAMES,
                             STENO_LLM_TOKENS_A_SECOND, SCAFFOLD + STENO_LLM_TOKENS_BESIDE);
    steno_shell_set_cuts(&m->base, RATE, fmin(FULL, full), RATE / 100 * BLOCK_FRAMES / BLOCK_ROWS,
                         SLACK);
    return steno_shell_try_piece(&m->base, err);
}

static void close_model_qwen_asr(void *model)
{
    struct model *m = model;
    steno_part_file_close(&m->front);
    steno_part_file_close(&m->encoder);
    steno_llm_close(&m->llm);
    m->vocabulary.tokens = NULL; /* the shell closes them */
    steno_llm_vocabulary_close(&m->vocabulary);
}

static steno_status open_stream_qwen_asr(void *stream, const void *model,
                                         struct steno_family_stream *o, steno_err *err)
{
    const struct model *m = model;
    o->beam = o->n_best = 1;
    return steno_qwen_prompt_make(&((struct stream *)stream)->prompt, &m->vocabulary, m->mark, o,
                                  (size_t)m->llm.positions / STENO_LLM_CONTEXT_SHARE, err);
}

static void close_stream_qwen_asr(void *stream)
{
    steno_qwen_prompt_close(&((struct stream *)stream)->prompt);
}

/* ---- audio ----------------------------------------------------------------------------------- */

/* Rows of the front end for n frames: three halvings of each block. */
static size_t rows_of_frames(size_t n)
{
    const size_t rest = n % BLOCK_FRAMES;
    return n / BLOCK_FRAMES * BLOCK_ROWS + (rest + 7) / 8;
}

/* The encoder's mask: the rows of the recording, and none of what pads the last block. */
static steno_status set_encoder_mask(struct worker *w, size_t rows, size_t valid, steno_err *err)
{
    const int64_t dim[] = {1, (int64_t)rows};
    if (rows > w->cap_valid) {
        bool *p = realloc(w->valid, rows * sizeof *p);
        if (!p)
            return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
        w->valid = p;
        w->cap_valid = rows;
    }
    for (size_t i = 0; i < rows; i++)
        w->valid[i] = i < valid;
    return steno_part_set(w->encoder, 1, STENO_BOOL, dim, 2, w->valid, err);
}

static bool is_silent(const float *row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fabsf(row[i]) > SILENT)
            return false;
    return true;
}

/* Encode log-mel frames x [n, BINS] and hand the decoder the rows, of which *rows are given. */
static steno_status encode_qwen_asr(struct worker *w, const float *x, size_t n, size_t *rows,
                                    steno_err *err)
{
    const struct model *m = w->base.model;
    const int64_t dim[] = {1, (int64_t)n, BINS};
    const struct steno_tensor *y = NULL;
    steno_status st = steno_part_set(w->front, 0, STENO_F32, dim, 3, x, err);
    if (!st)
        st = steno_session_run(w->front, err);
    if (st)
        return steno_fail_in(err, st, "%s", m->front.name);
    y = steno_session_get(w->front, 0);
    if (y->shape.rank != 3 || y->shape.dim[0] != 1 || y->shape.dim[1] < 1)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected an output [1,A,H]", m->front.name);
    *rows = rows_of_frames(n);
    if (*rows > (size_t)y->shape.dim[1])
        *rows = (size_t)y->shape.dim[1];
    st = steno_session_set(w->encoder, 0, y, err);
    if (!st)
        st = set_encoder_mask(w, (size_t)y->shape.dim[1], *rows, err);
    if (!st)
        st = steno_session_run(w->encoder, err);
    y = st ? NULL : steno_session_get(w->encoder, 0);
    if (!st && (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[0] != 1 ||
                y->shape.dim[1] < 1))
        st = steno_fail(err, STENO_ERR_FORMAT, "expected an output [1,A,D] of f32");
    return st ? steno_fail_in(err, st, "%s", m->encoder.name) : STENO_OK;
}

/* Rows of the output y without those of zeros at its end, at most `rows`. */
static size_t rows_that_sound(const struct steno_tensor *y, size_t rows)
{
    const size_t width = (size_t)y->shape.dim[2];
    size_t n = (size_t)y->shape.dim[1];
    while (n > 1 && is_silent((const float *)y->data + (n - 1) * width, width))
        n--;
    return n < rows ? n : rows;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Take "language English<asr_text>" off the text, and report it. */
static void take_language(struct worker *w, struct steno_offline_piece *p)
{
    static const char head[] = "language ";
    const struct model *m = w->base.model;
    struct steno_greedy_text *t = &w->llm.text;
    char text[64] = "";
    size_t n = 0, i = 0;
    for (; i < t->n && i < LANGUAGE_WITHIN; i++) {
        struct steno_bpe_piece piece;
        if (t->spans[i].token == m->mark[STENO_QWEN_TEXT])
            break;
        if (t->spans[i].token >= steno_bpe_count(m->vocabulary.bpe))
            return;
        piece = steno_bpe_piece(m->vocabulary.bpe, t->spans[i].token);
        if (piece.n >= sizeof text - n)
            return;
        memcpy(text + n, piece.p, piece.n);
        n += piece.n;
    }
    if (i == t->n || i == LANGUAGE_WITHIN || n < sizeof head ||
        memcmp(text, head, sizeof head - 1) != 0)
        return;
    p->language = steno_qwen_language(text + sizeof head - 1, n - (sizeof head - 1));
    p->language_probability = 1;
    for (size_t k = 0; k <= i; k++) {
        p->language_probability *= expf(t->spans[k].peak);
        t->score -= (double)t->spans[k].peak;
    }
    t->n -= i + 1;
    memmove(t->spans, t->spans + i + 1, t->n * sizeof *t->spans);
}

static steno_status recognize_qwen_asr(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    const struct model *m = w->base.model;
    const struct steno_qwen_prompt *prompt = &((const struct stream *)p->settings)->prompt;
    struct steno_piece_features *f = &w->base.features;
    struct steno_llm_limits limits = {.end = {m->mark[STENO_QWEN_END]}, .n_ends = 1};
    const struct steno_tensor *y;
    size_t n, rows = 0;
    steno_status st = steno_piece_features_compute(f, p->pcm, p->n, &n, p->err);
    if (st || n < 3)
        return st;
    n--; /* Whisper's front end has one more */
    steno_logmel_whisper_scale(f->frames, n, BINS);
    st = encode_qwen_asr(w, f->frames, n, &rows, p->err);
    if (st)
        return st;
    y = steno_session_get(w->encoder, 0);
    rows = rows_that_sound(y, rows);
    limits.seconds = (double)n / 100;
    limits.speaks = true; /* where nothing is said the language is "None" */
    st = steno_llm_write(&w->llm, &prompt->text, y, rows, &limits, p->err);
    if (st)
        return st;
    if (prompt->language) {
        p->language = prompt->language;
        p->language_probability = 1;
    } else {
        take_language(w, p);
    }
    steno_greedy_text_share(&w->llm.text, rows);
    return steno_greedy_text_list(&w->llm.text, p);
}

static steno_status open_worker_qwen_asr(void *worker, const void *model, int max, steno_err *err)
{
    const struct model *m = model;
    struct worker *w = worker;
    steno_status st = steno_shell_session_open(&w->front, &m->base, m->front.net, err);
    (void)max;
    if (!st)
        st = steno_shell_session_open(&w->encoder, &m->base, m->encoder.net, err);
    return st ? st : steno_llm_run_open(&w->llm, &m->llm, &m->base, err);
}

static void close_worker_qwen_asr(void *worker)
{
    struct worker *w = worker;
    steno_llm_run_close(&w->llm);    /* which borrows from the encoder's */
    steno_session_close(w->encoder); /* which borrows from the front end's */
    steno_session_close(w->front);
    free(w->valid);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_qwen_asr(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    out->network = m->llm.decoder.name;
    out->languages = m->languages;
    out->detects_language = out->takes_prompt = out->takes_hotwords = out->writes = true;
    out->weight_bytes = steno_network_weight_bytes(m->front.net) +
                        steno_network_weight_bytes(m->encoder.net) +
                        steno_llm_weight_bytes(&m->llm);
}

static void describe_qwen_asr(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    fprintf(out, "model      %s, %s, language model with audio, Qwen3-ASR\n", i->name, i->family);
    fprintf(out, "directory  %s\n", m->base.dir);
    fprintf(out, "languages  %s\n", i->languages);
    fprintf(out, "features   %d mel bins, %d Hz, Whisper's\n", i->feature_bins, i->sample_rate);
    fprintf(out, "networks   %s, %s, %s%s\n", m->front.name, m->encoder.name, m->llm.decoder.name,
            m->llm.decoder.quantized ? ", 8 bits" : "");
    steno_llm_describe(&m->llm, i, out);
    steno_offline_describe(&m->base.offline, i, out);
    steno_llm_describe_caches(&m->llm, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .open = open_model_qwen_asr,
                                         .close = close_model_qwen_asr,
                                         .info = get_info_qwen_asr,
                                         .describe = describe_qwen_asr,
                                         .stream_open = open_stream_qwen_asr,
                                         .stream_close = close_stream_qwen_asr,
                                         .worker_open = open_worker_qwen_asr,
                                         .worker_close = close_worker_qwen_asr,
                                         .recognize = recognize_qwen_asr};

const struct steno_family steno_family_qwen3_asr = {.name = "qwen3_asr",
                                                    .probe = probe_qwen_asr,
                                                    .languages = languages,
                                                    .shell = &shell,
                                                    STENO_OFFLINE_SHELL};
