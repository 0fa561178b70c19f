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

#include "base/array.h"
#include "base/path.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/precision.h"
#include "speech/families/entries.h"
#include "speech/families/llm/model.h"
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

enum { FRONT, ENCODER, PARTS };
static const char *const stems[PARTS] = {"conv_frontend", "encoder"};

/* Frozen after open. */
struct model {
    struct steno_llm_model base;
    int32_t mark[STENO_QWEN_MARKS];
};

struct worker {
    struct steno_llm_worker base;
    bool *valid; /* [cap_valid] mask of the encoder */
    size_t cap_valid;
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_any(const steno_onnx_head *h)
{
    return h != NULL;
}

static bool probe_qwen_asr(const char *dir)
{
    return steno_path_readable(dir, "tokenizer/vocab.json") &&
           steno_network_file_is(dir, stems[FRONT], is_any);
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    steno_qwen_languages(out->languages, sizeof out->languages);
    return *dir;
}

static steno_status open_networks_qwen_asr(struct model *m, const struct steno_family_open *o,
                                           steno_err *err)
{
    const struct steno_part_file *part = m->base.base.part;
    bool int8 = false;
    steno_status st = steno_prefers_int8_files(o->precision, o->cpu, &int8, err);
    if (!st)
        st = steno_shell_open_parts(&m->base.base, o, stems, PARTS, err);
    if (!st)
        st = steno_llm_open(&m->base.llm, o, "decoder", NULL, int8, err);
    if (!st && (steno_network_n_inputs(part[FRONT].net) != 1 ||
                steno_network_n_outputs(part[FRONT].net) != 1 ||
                steno_network_n_inputs(part[ENCODER].net) != 2 ||
                steno_network_n_outputs(part[ENCODER].net) != 1))
        st = steno_fail(err, STENO_ERR_FORMAT, "expected %s with one input, %s with two",
                        part[FRONT].name, part[ENCODER].name);
    return st;
}

static steno_status open_vocabulary(struct model *m, const char *dir, steno_err *err)
{
    struct steno_llm_vocabulary *v = &m->base.vocabulary;
    steno_status st = steno_llm_vocabulary_open(v, dir, FOLDER, err);
    if (!st)
        st = steno_qwen_find_marks(m->mark, v, FOLDER, err);
    m->base.llm.audio = m->mark[STENO_QWEN_AUDIO];
    return steno_llm_model_take(&m->base, st);
}

static steno_status open_model_qwen_asr(void *model, const struct steno_family_open *o,
                                        steno_err *err)
{
    struct steno_shell_model *base = model;
    struct model *m = model;
    const struct steno_fbank_options front = steno_logmel_whisper(BINS);
    double full;
    steno_status st = open_networks_qwen_asr(m, o, err);
    if (!st)
        st = open_vocabulary(m, o->dir, err);
    if (!st)
        st = steno_fbank_open(&base->front, &front, err);
    if (st)
        return steno_fail_in(err, st, "%s", o->dir);
    steno_qwen_languages(m->base.languages, sizeof m->base.languages);
    full = steno_llm_seconds(&m->base.llm, (double)BLOCK_ROWS * 100 / BLOCK_FRAMES,
                             STENO_LLM_TOKENS_A_SECOND, SCAFFOLD + STENO_LLM_TOKENS_BESIDE);
    steno_shell_set_cuts(base, RATE, fmin(FULL, full), RATE / 100 * BLOCK_FRAMES / BLOCK_ROWS,
                         SLACK);
    return steno_shell_try_piece(base, err);
}

static steno_status open_stream_qwen_asr(void *stream, const void *model,
                                         struct steno_family_stream *o, steno_err *err)
{
    const struct model *m = model;
    o->beam = o->n_best = 1;
    return steno_qwen_prompt_make(&((struct steno_llm_stream *)stream)->prompt, &m->base.vocabulary,
                                  m->mark, o, steno_llm_context(&m->base), err);
}

/* ---- audio ----------------------------------------------------------------------------------- */

/* Rows of the front end for n frames: three halvings of each block. */
static size_t rows_of_frames(size_t n)
{
    const size_t rest = n % BLOCK_FRAMES;
    return n / BLOCK_FRAMES * BLOCK_ROWS + (rest + 7) / 8;
}

/* The encoder's mask: the rows of the recording, and none of what pads the last block. */
static bool make_mask(struct worker *w, size_t rows, size_t valid)
{
    if (STENO_RESERVE(&w->valid, &w->cap_valid, rows))
        return false;
    for (size_t i = 0; i < rows; i++)
        w->valid[i] = i < valid;
    return true;
}

static bool is_silent(const float *row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fabsf(row[i]) > SILENT)
            return false;
    return true;
}

/* The front end's output for log-mel frames x [n, BINS]. */
static steno_status run_front(struct worker *w, const float *x, size_t n,
                              const struct steno_tensor **y, steno_err *err)
{
    const int64_t dim[] = {1, (int64_t)n, BINS};
    struct steno_run r = steno_shell_run(w, FRONT, err);
    steno_status st;
    steno_run_set(&r, 0, STENO_F32, dim, 3, x);
    st = steno_run_end(&r);
    if (st)
        return st;
    *y = steno_session_get(r.session, 0);
    if ((*y)->shape.rank != 3 || (*y)->shape.dim[0] != 1 || (*y)->shape.dim[1] < 1)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected an output [1,A,H]", r.name);
    return STENO_OK;
}

/* Encode log-mel frames x [n, BINS]: the rows *out, of which *rows are of the recording. */
static steno_status encode_qwen_asr(struct worker *w, const float *x, size_t n,
                                    const struct steno_tensor **out, size_t *rows, steno_err *err)
{
    struct steno_run r = steno_shell_run(w, ENCODER, err);
    const struct steno_tensor *y = NULL;
    int64_t dim[] = {1, 0};
    steno_status st = run_front(w, x, n, &y, err);
    if (st)
        return st;
    dim[1] = y->shape.dim[1];
    *rows = rows_of_frames(n);
    if (*rows > (size_t)dim[1])
        *rows = (size_t)dim[1];
    if (!make_mask(w, (size_t)dim[1], *rows))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    steno_run_set_tensor(&r, 0, y);
    steno_run_set(&r, 1, STENO_BOOL, dim, 2, w->valid);
    st = steno_run_end(&r);
    if (st)
        return st;
    *out = y = steno_session_get(r.session, 0);
    return y->dtype == STENO_F32 && y->shape.rank == 3 && y->shape.dim[0] == 1 &&
                   y->shape.dim[1] >= 1
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT, "%s: expected an output [1,A,D] of f32", r.name);
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
    const struct model *m = w->base.base.model;
    const steno_bpe *bpe = m->base.vocabulary.bpe;
    struct steno_greedy_text *t = &w->base.run.text;
    char text[64] = "";
    size_t n = 0, i = 0;
    for (; i < t->n && i < LANGUAGE_WITHIN; i++) {
        struct steno_bpe_piece piece;
        if (t->spans[i].token == m->mark[STENO_QWEN_TEXT])
            break;
        if (t->spans[i].token >= steno_bpe_count(bpe))
            return;
        piece = steno_bpe_piece(bpe, t->spans[i].token);
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
    const struct model *m = w->base.base.model;
    struct steno_piece_features *f = &w->base.base.features;
    struct steno_llm_limits limits = {.end = {m->mark[STENO_QWEN_END]}, .n_ends = 1};
    const struct steno_tensor *y = NULL;
    size_t n, rows = 0;
    steno_status st = steno_piece_features_compute(f, p->pcm, p->n, &n, p->err);
    if (st || n < 3)
        return st;
    n--; /* Whisper's front end has one more */
    steno_logmel_whisper_scale(f->frames, n, BINS);
    st = encode_qwen_asr(w, f->frames, n, &y, &rows, p->err);
    if (st)
        return st;
    rows = rows_that_sound(y, rows);
    limits.seconds = (double)n / 100;
    limits.speaks = true; /* where nothing is said the language is "None" */
    st = steno_llm_write(&w->base.run, steno_llm_prompt_of(p), y, rows, &limits, p->err);
    if (st)
        return st;
    if (!steno_llm_prompt_of(p)->language)
        take_language(w, p);
    return steno_llm_list(&w->base, p, rows);
}

static void close_worker_qwen_asr(void *worker)
{
    steno_llm_worker_close(worker);
    free(((struct worker *)worker)->valid);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_qwen_asr(const void *model, struct steno_family_info *out)
{
    steno_llm_model_info(model, out);
    out->takes_prompt = out->takes_hotwords = true;
}

static void describe_qwen_asr(const void *model, const struct steno_model_info *i, FILE *out)
{
    steno_shell_describe_head(i, "language model with audio, Qwen3-ASR", out);
    fprintf(out, "features   %d mel bins, %d Hz, Whisper's\n", i->feature_bins, i->sample_rate);
    steno_llm_model_describe(model, i, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct model),
                                         .stream_bytes = sizeof(struct steno_llm_stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .sessions = PARTS,
                                         .open = open_model_qwen_asr,
                                         .close = steno_llm_model_close,
                                         .info = get_info_qwen_asr,
                                         .describe = describe_qwen_asr,
                                         .stream_open = open_stream_qwen_asr,
                                         .stream_close = steno_llm_stream_close,
                                         .worker_open = steno_llm_worker_open,
                                         .worker_close = close_worker_qwen_asr,
                                         .recognize = recognize_qwen_asr};

const struct steno_family steno_family_qwen3_asr = {.name = "qwen3_asr",
                                                    .probe = probe_qwen_asr,
                                                    .languages = languages,
                                                    .shell = &shell,
                                                    STENO_OFFLINE_SHELL};
