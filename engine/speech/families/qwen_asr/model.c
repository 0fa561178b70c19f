/* Family qwen3_asr: Qwen3-ASR from sherpa-onnx's directories, a piece of audio at once.
 *
 *     conv_frontend   log-mel frames [1,T,128] -> [1,A,H], 13 rows for each 100 frames
 *     encoder         [1,A,H], mask bool [1,A] -> rows of audio [1,A,D]
 *     decoder         ids i64 [1,n], rows [1,a,D], mask i64 [1,n], positions i64 [n], then keys and
 *                     values of each layer [1,C,heads,width] -> logits [1,n,V], and the keys and
 *                     values [1,n,heads,width] of the new positions
 *
 * The decoder is a language model. It reads a prompt in which a mark stands for each row of audio,
 * and writes "language English<asr_text>" and the text; a language that is given ends the prompt.
 * Greedy, as sherpa-onnx (offline-recognizer-qwen3-asr-impl.cc, 1.13.4). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/path.h"
#include "speech/families/common/greedy_text.h"
#include "speech/families/common/network_file.h"
#include "speech/families/common/part.h"
#include "speech/families/common/precision.h"
#include "speech/families/common/scores.h"
#include "speech/families/common/shell.h"
#include "speech/families/qwen_asr/family.h"
#include "speech/families/qwen_asr/prompt.h"
#include "speech/features/logmel.h"

#define RATE 16000
#define BINS 128
#define BLOCK_FRAMES 100 /* log-mel frames that the front end takes together */
#define BLOCK_ROWS 13    /* its rows for those */
#define FULL 30.0        /* s: of a chunk, unless the caches have no room for it */
#define SLACK 13         /* rows: tokens have no times of their own */
#define TOKENS_A_SECOND 8
#define TOKENS_BESIDE 16    /* the language, and the end */
#define SCAFFOLD 32         /* tokens of a prompt without context and audio, at most */
#define CONTEXT_SHARE 8     /* of the positions a prompt's context has one in so many */
#define POSITIONS_OPEN 1024 /* of caches, where the file leaves their number open */
#define POSITIONS_MAX 65536
#define LANGUAGE_WITHIN 16 /* first tokens among which the end of the language is looked for */
#define SILENT 1e-6f       /* rows behind the recording's have no larger value */

enum decoder_input { IDS, ROWS, MASK, POSITIONS, CACHES };

/* Frozen after open. */
struct model {
    struct steno_shell_model base;
    struct steno_part_file front, encoder, decoder;
    struct steno_qwen_vocabulary vocabulary; /* its tokens are base's */
    int layers;
    int64_t positions, heads, width; /* of a cache */
    steno_dtype cache_type;
    char languages[256];
};

struct stream {
    struct steno_shell_stream base;
    struct steno_qwen_prompt prompt;
};

struct worker {
    struct steno_shell_worker base;
    steno_session *front, *encoder, *decoder;
    struct steno_greedy_text text;
    unsigned char *cache; /* [2 * layers, positions, heads, width], keys and values in turn */
    int64_t *ids;         /* [positions] of the prompt; then the numbers of positions */
    int64_t *numbers;     /* [positions] 0, 1, ... */
    struct steno_ones mask;
    bool *valid; /* [cap_valid] mask of the encoder */
    size_t cap_valid;
    float *first; /* [vocabulary] scores of the first token, without the end */
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

static steno_status bind_caches(struct model *m, steno_err *err)
{
    const steno_network *net = m->decoder.net;
    const struct steno_value *first = steno_network_input(net, CACHES);
    for (int i = 0; i < 2 * m->layers; i++) {
        const struct steno_value *v = steno_network_input(net, CACHES + i);
        if (v->shape.rank != 4 || (v->dtype != STENO_F32 && v->dtype != STENO_F16) ||
            v->dtype != first->dtype || v->shape.dim[1] != first->shape.dim[1] ||
            v->shape.dim[2] < 1 || v->shape.dim[2] != first->shape.dim[2] || v->shape.dim[3] < 1 ||
            v->shape.dim[3] != first->shape.dim[3])
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: input %s: expected keys and values [1,C,heads,width] of one "
                              "type, f32 or f16, and known heads and width",
                              m->decoder.name, v->name);
    }
    m->cache_type = first->dtype;
    m->positions = first->shape.dim[1] > 0 ? first->shape.dim[1] : POSITIONS_OPEN;
    m->heads = first->shape.dim[2];
    m->width = first->shape.dim[3];
    if (m->positions < 2 * SCAFFOLD || m->positions > POSITIONS_MAX || m->heads > 1024 ||
        m->width > 4096)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "%s: caches of %lld positions, expected %d to %d, of %lld heads, at most "
                          "1024, of %lld values, at most 4096",
                          m->decoder.name, (long long)m->positions, 2 * SCAFFOLD, POSITIONS_MAX,
                          (long long)m->heads, (long long)m->width);
    return STENO_OK;
}

static steno_status bind_decoder_qwen_asr(struct model *m, steno_err *err)
{
    static const struct {
        steno_dtype type;
        int rank;
    } want[CACHES] = {{STENO_I64, 2}, {STENO_F32, 3}, {STENO_I64, 2}, {STENO_I64, 1}};
    const steno_network *net = m->decoder.net;
    const int inputs = steno_network_n_inputs(net), outputs = steno_network_n_outputs(net);
    bool fits = inputs > CACHES && (inputs - CACHES) % 2 == 0 && outputs == 1 + inputs - CACHES &&
                steno_network_n_inputs(m->encoder.net) == 2 &&
                steno_network_n_outputs(m->encoder.net) == 1 &&
                steno_network_n_inputs(m->front.net) == 1 &&
                steno_network_n_outputs(m->front.net) == 1;
    for (int i = 0; i < CACHES && fits; i++) {
        const struct steno_value *v = steno_network_input(net, i);
        fits = v->dtype == want[i].type && v->shape.rank == want[i].rank;
    }
    if (!fits)
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "%s: expected ids, rows of audio, mask, positions, and keys and values of "
            "each layer; logits, and keys and values, from it; %s with one input, %s "
            "with two",
            m->decoder.name, m->front.name, m->encoder.name);
    m->layers = (inputs - CACHES) / 2;
    return bind_caches(m, err);
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
        st = steno_part_decoder_open(&m->decoder, o, "decoder", int8, err);
    return st ? st : bind_decoder_qwen_asr(m, err);
}

/* The longest chunk for which caches have room: prompt and context, rows, and tokens. */
static double longest_chunk(const struct model *m)
{
    const double room =
        (double)(m->positions - m->positions / CONTEXT_SHARE - SCAFFOLD - TOKENS_BESIDE);
    const double rows_a_second = (double)BLOCK_ROWS * 100 / BLOCK_FRAMES;
    return fmin(FULL, room / (rows_a_second + TOKENS_A_SECOND));
}

static steno_status open_model_qwen_asr(void *model, const struct steno_family_open *o,
                                        steno_err *err)
{
    struct model *m = model;
    const struct steno_fbank_options front = steno_logmel_whisper(BINS);
    steno_status st = open_networks_qwen_asr(m, o, err);
    if (!st)
        st = steno_qwen_vocabulary_open(&m->vocabulary, o->dir, err);
    m->base.tokens = m->vocabulary.tokens; /* closed by the shell */
    m->vocabulary.tokens = NULL;
    if (!st)
        st = steno_fbank_open(&m->base.front, &front, err);
    if (st)
        return steno_fail_in(err, st, "%s", o->dir);
    steno_qwen_languages(m->languages, sizeof m->languages);
    steno_shell_set_cuts(&m->base, RATE, longest_chunk(m), RATE / 100 * BLOCK_FRAMES / BLOCK_ROWS,
                         SLACK);
    return steno_shell_try_piece(&m->base, err);
}

static void close_model_qwen_asr(void *model)
{
    struct model *m = model;
    steno_part_file_close(&m->front);
    steno_part_file_close(&m->encoder);
    steno_part_file_close(&m->decoder);
    steno_qwen_vocabulary_close(&m->vocabulary);
}

static steno_status open_stream_qwen_asr(void *stream, const void *model,
                                         struct steno_family_stream *o, steno_err *err)
{
    const struct model *m = model;
    o->beam = o->n_best = 1;
    return steno_qwen_prompt_make(&((struct stream *)stream)->prompt, &m->vocabulary, o,
                                  (size_t)m->positions / CONTEXT_SHARE, err);
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

/* Give the decoder the encoder's output, without rows of zeros at its end. */
static steno_status set_rows(struct worker *w, size_t *rows, steno_err *err)
{
    const struct steno_tensor *y = steno_session_get(w->encoder, 0);
    const size_t width = (size_t)y->shape.dim[2];
    size_t n = (size_t)y->shape.dim[1];
    int64_t dim[] = {1, 0, y->shape.dim[2]};
    while (n > 1 && is_silent((const float *)y->data + (n - 1) * width, width))
        n--;
    *rows = n < *rows ? n : *rows;
    dim[1] = (int64_t)n;
    return steno_part_set(w->decoder, ROWS, STENO_F32, dim, 3, y->data, err);
}

/* ---- the decoder ----------------------------------------------------------------------------- */

static size_t position_bytes(const struct model *m)
{
    return (size_t)(m->heads * m->width) * steno_dtype_size(m->cache_type);
}

static steno_status set_caches_qwen_asr(struct worker *w, steno_err *err)
{
    const struct model *m = w->base.model;
    const int64_t dim[] = {1, m->positions, m->heads, m->width};
    const size_t each = (size_t)m->positions * position_bytes(m);
    steno_status st = STENO_OK;
    for (int i = 0; i < 2 * m->layers && !st; i++)
        st = steno_part_set(w->decoder, CACHES + i, m->cache_type, dim, 4,
                            w->cache + (size_t)i * each, err);
    return st;
}

/* Copy the keys and values of n new positions into the caches, from position `at` on. */
static steno_status keep_keys(struct worker *w, size_t at, size_t n, steno_err *err)
{
    const struct model *m = w->base.model;
    const size_t bytes = position_bytes(m);
    for (int i = 0; i < 2 * m->layers; i++) {
        const struct steno_tensor *y = steno_session_get(w->decoder, 1 + i);
        if (y->dtype != m->cache_type || steno_numel(y) != n * (size_t)(m->heads * m->width))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "expected keys and values of the %zu new positions alone", n);
        memcpy(w->cache + ((size_t)i * (size_t)m->positions + at) * bytes, y->data, n * bytes);
    }
    return STENO_OK;
}

/* Read n ids at position `at`: the scores of what follows the last. */
static steno_status read_ids(struct worker *w, const int64_t *ids, size_t n, size_t at,
                             const float **scores, steno_err *err)
{
    const struct model *m = w->base.model;
    const int64_t dim[] = {1, (int64_t)n}, length = (int64_t)n;
    const size_t vocab = (size_t)steno_tokens_count(m->base.tokens);
    const struct steno_tensor *y = NULL;
    steno_status st = steno_part_set(w->decoder, IDS, STENO_I64, dim, 2, ids, err);
    if (!st)
        st = steno_part_set_ones(w->decoder, MASK, STENO_I64, n, &w->mask, err);
    if (!st)
        st = steno_part_set(w->decoder, POSITIONS, STENO_I64, &length, 1, w->numbers + at, err);
    if (!st)
        st = set_caches_qwen_asr(w, err);
    if (!st)
        st = steno_session_run(w->decoder, err);
    if (!st)
        st = keep_keys(w, at, n, err);
    y = st ? NULL : steno_session_get(w->decoder, 0);
    if (!st && (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[1] != 1 ||
                y->shape.dim[2] < (int64_t)vocab))
        st = steno_fail(err, STENO_ERR_FORMAT, "expected logits [1,n,%zu or more] of f32", vocab);
    if (st)
        return steno_fail_in(err, st, "%s", m->decoder.name);
    *scores = y->data;
    return steno_scores_check(*scores, vocab, m->decoder.name, err);
}

/* Read the prompt of a recording with `rows` rows. *n: its tokens. The first token is not the end:
 * a recording in which nothing is said has a language, "None", too. */
static steno_status read_prompt(struct worker *w, const struct steno_qwen_prompt *prompt,
                                size_t rows, size_t *n, const float **scores, steno_err *err)
{
    const struct model *m = w->base.model;
    const size_t vocab = (size_t)steno_tokens_count(m->base.tokens);
    steno_status st;
    *n = prompt->n + rows;
    if (*n >= (size_t)m->positions)
        return steno_fail(err, STENO_ERR_LIMIT, "a prompt of %zu tokens in %lld positions", *n,
                          (long long)m->positions);
    memcpy(w->ids, prompt->ids, prompt->n_before * sizeof *w->ids);
    for (size_t i = 0; i < rows; i++)
        w->ids[prompt->n_before + i] = m->vocabulary.mark[STENO_QWEN_AUDIO];
    memcpy(w->ids + prompt->n_before + rows, prompt->ids + prompt->n_before,
           (prompt->n - prompt->n_before) * sizeof *w->ids);
    memset(w->cache, 0, 2 * (size_t)m->layers * (size_t)m->positions * position_bytes(m));
    st = read_ids(w, w->ids, *n, 0, scores, err);
    if (st)
        return st;
    memcpy(w->first, *scores, vocab * sizeof *w->first);
    w->first[m->vocabulary.mark[STENO_QWEN_END]] = -HUGE_VALF;
    *scores = w->first;
    return STENO_OK;
}

static steno_status write_text(struct worker *w, const struct steno_qwen_prompt *prompt,
                               size_t rows, size_t most, steno_err *err)
{
    const struct model *m = w->base.model;
    const int32_t end = m->vocabulary.mark[STENO_QWEN_END];
    const float *scores = NULL;
    size_t at = 0;
    steno_status st = steno_greedy_text_begin(&w->text, most, err);
    if (!st)
        st = read_prompt(w, prompt, rows, &at, &scores, err);
    for (size_t i = 0; i < most && !st; i++) {
        const int64_t token = steno_greedy_text_add(&w->text, scores, end);
        if (token == end || at == (size_t)m->positions || i + 1 == most)
            break;
        st = read_ids(w, &token, 1, at++, &scores, err);
    }
    return st;
}

/* Take "language English<asr_text>" off the text, and report it. */
static void take_language(struct worker *w, struct steno_offline_piece *p)
{
    static const char head[] = "language ";
    const struct model *m = w->base.model;
    struct steno_greedy_text *t = &w->text;
    char text[64] = "";
    size_t n = 0, i = 0;
    for (; i < t->n && i < LANGUAGE_WITHIN; i++) {
        struct steno_bpe_piece piece;
        if (t->spans[i].token == m->vocabulary.mark[STENO_QWEN_TEXT])
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
    size_t n, rows = 0, most, room;
    steno_status st = steno_piece_features_compute(f, p->pcm, p->n, &n, p->err);
    if (st || n < 3)
        return st;
    n--; /* Whisper's front end has one more */
    steno_logmel_whisper_scale(f->frames, n, BINS);
    st = encode_qwen_asr(w, f->frames, n, &rows, p->err);
    if (!st)
        st = set_rows(w, &rows, p->err);
    room = (size_t)m->positions > prompt->n + rows ? (size_t)m->positions - prompt->n - rows : 0;
    most = n * TOKENS_A_SECOND / 100 + TOKENS_BESIDE;
    if (!st)
        st = write_text(w, prompt, rows, most < room ? most : room, p->err);
    if (st)
        return st;
    if (prompt->language) {
        p->language = prompt->language;
        p->language_probability = 1;
    } else {
        take_language(w, p);
    }
    steno_greedy_text_share(&w->text, rows);
    return steno_greedy_text_list(&w->text, p);
}

static steno_status open_worker_qwen_asr(void *worker, const void *model, int max, steno_err *err)
{
    const struct model *m = model;
    struct worker *w = worker;
    const int32_t vocab = steno_tokens_count(m->base.tokens);
    const size_t bytes = 2 * (size_t)m->layers * (size_t)m->positions * position_bytes(m);
    steno_status st = steno_greedy_text_open(&w->text, vocab, err);
    (void)max;
    w->cache = malloc(bytes);
    w->ids = malloc((size_t)m->positions * sizeof *w->ids);
    w->numbers = malloc((size_t)m->positions * sizeof *w->numbers);
    w->first = malloc((size_t)vocab * sizeof *w->first);
    if (!st && (!w->cache || !w->ids || !w->numbers || !w->first))
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory for caches of %zu bytes", bytes);
    for (int64_t i = 0; i < m->positions && !st; i++)
        w->numbers[i] = i;
    if (!st)
        st = steno_shell_session_open(&w->front, &m->base, m->front.net, err);
    if (!st)
        st = steno_shell_session_open(&w->encoder, &m->base, m->encoder.net, err);
    return st ? st : steno_shell_session_open(&w->decoder, &m->base, m->decoder.net, err);
}

static void close_worker_qwen_asr(void *worker)
{
    struct worker *w = worker;
    steno_session_close(w->decoder); /* which borrows from the encoder's */
    steno_session_close(w->encoder); /* which borrows from the front end's */
    steno_session_close(w->front);
    steno_greedy_text_close(&w->text);
    free(w->cache);
    free(w->ids);
    free(w->numbers);
    free(w->mask.data);
    free(w->valid);
    free(w->first);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_qwen_asr(const void *model, struct steno_family_info *out)
{
    const struct model *m = model;
    out->network = m->decoder.name;
    out->languages = m->languages;
    out->detects_language = out->takes_prompt = out->takes_hotwords = out->writes = true;
    out->weight_bytes = steno_network_weight_bytes(m->front.net) +
                        steno_network_weight_bytes(m->encoder.net) +
                        steno_network_weight_bytes(m->decoder.net);
}

static void describe_qwen_asr(const void *model, const struct steno_model_info *i, FILE *out)
{
    const struct model *m = model;
    fprintf(out, "model      %s, %s, language model with audio, Qwen3-ASR\n", i->name, i->family);
    fprintf(out, "directory  %s\n", m->base.dir);
    fprintf(out, "languages  %s\n", i->languages);
    fprintf(out, "features   %d mel bins, %d Hz, Whisper's\n", i->feature_bins, i->sample_rate);
    fprintf(out, "networks   %s, %s, %s%s\n", m->front.name, m->encoder.name, m->decoder.name,
            m->decoder.quantized ? ", 8 bits" : "");
    fprintf(out, "decoder    %zu tokens, %d layers, %lld positions of %lld heads of %lld\n",
            i->vocab_size, m->layers, (long long)m->positions, (long long)m->heads,
            (long long)m->width);
    fprintf(out, "times      estimates: the networks give none\n");
    steno_offline_describe(&m->base.offline, i, out);
    fprintf(out, "           %.1f MiB of caches for each thread\n",
            2.0 * m->layers * (double)m->positions * (double)position_bytes(m) / 1048576);
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
