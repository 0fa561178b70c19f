#include "speech/families/llm/decoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/metadata.h"
#include "speech/families/common/scores.h"
#include "speech/families/llm/repetition.h"

#define POSITIONS_OPEN 1024 /* of caches, where the file leaves their number open */
#define POSITIONS_MAX 65536
#define HEADS_MAX 1024
#define WIDTH_MAX 4096

enum with_ids { IDS, ROWS, MASK, POSITIONS, CACHES };
enum with_embeddings { EMBEDDINGS, ALL_MASK, ALL_POSITIONS, ALL_CACHES };

/* ---- opening --------------------------------------------------------------------------------- */

/* Dimension `axis` of a cache is what all have; *all 0: this is the first. False: it is not. */
static bool same_size(const struct steno_value *v, int axis, int64_t *all)
{
    if (!*all)
        *all = v->shape.dim[axis];
    return *all > 0 && (v->shape.dim[axis] == *all || v->shape.dim[axis] < 0);
}

/* Type and sizes of the caches; heads and width may be known already. */
static steno_status bind_caches(struct steno_llm *m, steno_err *err)
{
    const steno_network *net = m->decoder.net;
    const struct steno_value *first = steno_network_input(net, m->in[0]);
    for (int i = 0; i < 2 * m->layers; i++) {
        const struct steno_value *v = steno_network_input(net, m->in[i]);
        if (v->shape.rank != 4 || (v->dtype != STENO_F32 && v->dtype != STENO_F16) ||
            v->dtype != first->dtype || (!m->whole && v->shape.dim[1] != first->shape.dim[1]) ||
            !same_size(v, m->whole ? 1 : 2, &m->heads) || !same_size(v, 3, &m->width))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: input %s: expected keys and values %s of one type, f32 or f16, "
                              "and one number of heads and width",
                              m->decoder.name, v->name,
                              m->whole ? "[1,heads,P,width]" : "[1,C,heads,width]");
    }
    m->cache_type = first->dtype;
    return STENO_OK;
}

static steno_status check_positions(const struct steno_llm *m, steno_err *err)
{
    if (m->positions < STENO_LLM_POSITIONS_MIN || m->positions > POSITIONS_MAX ||
        m->heads > HEADS_MAX || m->width > WIDTH_MAX)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "%s: caches of %lld positions, expected %d to %d, of %lld heads, at most "
                          "%d, of %lld values, at most %d",
                          m->decoder.name, (long long)m->positions, STENO_LLM_POSITIONS_MIN,
                          POSITIONS_MAX, (long long)m->heads, HEADS_MAX, (long long)m->width,
                          WIDTH_MAX);
    return STENO_OK;
}

static bool takes(const steno_network *net, int i, steno_dtype type, int rank)
{
    const struct steno_value *v = steno_network_input(net, i);
    return v->dtype == type && v->shape.rank == rank;
}

static bool is_embedding(const struct steno_part_file *p)
{
    return steno_network_n_inputs(p->net) == 1 && steno_network_n_outputs(p->net) == 1 &&
           takes(p->net, 0, STENO_I64, 2);
}

static steno_status bind_llm(struct steno_llm *m, steno_err *err)
{
    const steno_network *net = m->decoder.net;
    const bool embeds = m->embedding.net != NULL;
    const int inputs = steno_network_n_inputs(net), outputs = steno_network_n_outputs(net);
    const int first = embeds ? ALL_CACHES : CACHES;
    const char *said = steno_network_meta(net, "max_total_len");
    steno_status st;
    m->mask = first - 2;
    m->numbers = first - 1;
    m->keep = -1;
    m->layers = (inputs - first) / 2;
    if (embeds && !is_embedding(&m->embedding))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected one input, ids i64 [1,n]",
                          m->embedding.name);
    if (inputs <= first || (inputs - first) % 2 || outputs != 1 + inputs - first ||
        m->layers > STENO_LLM_LAYERS_MAX ||
        !(embeds ? takes(net, EMBEDDINGS, STENO_F32, 3)
                 : takes(net, IDS, STENO_I64, 2) && takes(net, ROWS, STENO_F32, 3)) ||
        !takes(net, m->mask, STENO_I64, 2) || !takes(net, m->numbers, STENO_I64, 1))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected %s, mask, positions, and keys and values of each layer; "
                          "logits, and keys and values, from it",
                          m->decoder.name, embeds ? "embeddings" : "ids, rows of audio");
    m->row = steno_network_input(net, embeds ? EMBEDDINGS : ROWS)->shape.dim[2];
    for (int i = 0; i < 2 * m->layers; i++) {
        m->in[i] = first + i;
        m->out[i] = 1 + i;
    }
    st = bind_caches(m, err);
    if (st)
        return st;
    m->positions = steno_network_input(net, first)->shape.dim[1];
    if (m->positions <= 0)
        m->positions = said ? strtol(said, NULL, 10) : POSITIONS_OPEN;
    return check_positions(m, err);
}

/* Input i as the next cache, *n so far, with the output of its name. False: it is none. */
static bool add_cache(struct steno_llm *m, int i, int *n)
{
    static const char past[] = "past_key_values.";
    const char *name = steno_network_input(m->decoder.net, i)->name;
    char present[128];
    if (*n == 2 * STENO_LLM_LAYERS_MAX || strncmp(name, past, sizeof past - 1) != 0)
        return false;
    snprintf(present, sizeof present, "present.%s", name + sizeof past - 1);
    m->in[*n] = i;
    m->out[*n] = steno_network_find_output(m->decoder.net, present);
    return m->out[(*n)++] >= 0;
}

static steno_status find_caches(struct steno_llm *m, steno_err *err)
{
    int n = 0;
    for (int i = 0; i < steno_network_n_inputs(m->decoder.net); i++)
        if (i != m->embeds && i != m->mask && i != m->numbers && i != m->keep &&
            !add_cache(m, i, &n))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: input %s: expected past_key_values.i.key or .value, of at most "
                              "%d layers, with an output present.i.key or .value",
                              m->decoder.name, steno_network_input(m->decoder.net, i)->name,
                              STENO_LLM_LAYERS_MAX);
    m->layers = n / 2;
    return n && n % 2 == 0 ? STENO_OK
                           : steno_fail(err, STENO_ERR_FORMAT, "%s: %d caches, expected pairs",
                                        m->decoder.name, n);
}

static steno_status bind_named(struct steno_llm *m, const struct steno_llm_sizes *sizes,
                               steno_err *err)
{
    const steno_network *net = m->decoder.net;
    steno_status st;
    m->whole = true;
    m->embeds = steno_network_find_input(net, "inputs_embeds");
    m->mask = steno_network_find_input(net, "attention_mask");
    m->numbers = steno_network_find_input(net, "position_ids");
    m->keep = steno_network_find_input(net, "num_logits_to_keep");
    m->positions = sizes->positions;
    m->heads = sizes->heads;
    m->width = sizes->width;
    if (!is_embedding(&m->embedding))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected one input, ids i64 [1,n]",
                          m->embedding.name);
    if (m->embeds < 0 || !takes(net, m->embeds, STENO_F32, 3) || m->mask < 0 ||
        !takes(net, m->mask, STENO_I64, 2) ||
        (m->numbers >= 0 && !takes(net, m->numbers, STENO_I64, 2)) ||
        (m->keep >= 0 && !takes(net, m->keep, STENO_I64, 0)) ||
        strcmp(steno_network_output(net, 0)->name, "logits") != 0)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected inputs_embeds f32 [1,n,D], attention_mask i64, caches, and "
                          "perhaps position_ids and num_logits_to_keep; logits first",
                          m->decoder.name);
    m->row = steno_network_input(net, m->embeds)->shape.dim[2];
    st = find_caches(m, err);
    if (!st)
        st = bind_caches(m, err);
    return st ? st : check_positions(m, err);
}

static steno_status open_networks_llm(struct steno_llm *m, const struct steno_family_open *o,
                                      const char *stem, const char *embedding, bool int8,
                                      steno_err *err)
{
    const steno_status st = steno_part_decoder_open(&m->decoder, o, stem, int8, err);
    return st || !embedding ? st : steno_part_file_open(&m->embedding, o, embedding, int8, err);
}

steno_status steno_llm_open(struct steno_llm *m, const struct steno_family_open *o,
                            const char *stem, const char *embedding, bool int8, steno_err *err)
{
    const steno_status st = open_networks_llm(m, o, stem, embedding, int8, err);
    return st ? st : bind_llm(m, err);
}

steno_status steno_llm_open_named(struct steno_llm *m, const struct steno_family_open *o,
                                  const char *stem, const char *embedding,
                                  const struct steno_llm_sizes *sizes, bool int8, steno_err *err)
{
    const steno_status st = open_networks_llm(m, o, stem, embedding, int8, err);
    return st ? st : bind_named(m, sizes, err);
}

void steno_llm_close(struct steno_llm *m)
{
    steno_part_file_close(&m->decoder);
    steno_part_file_close(&m->embedding);
}

double steno_llm_seconds(const struct steno_llm *m, double rows, double tokens, double beside)
{
    return (double)(m->positions - m->positions / STENO_LLM_CONTEXT_SHARE - (int64_t)beside) /
           (rows + tokens);
}

size_t steno_llm_weight_bytes(const struct steno_llm *m)
{
    return steno_network_weight_bytes(m->decoder.net) +
           (m->embedding.net ? steno_network_weight_bytes(m->embedding.net) : 0);
}

void steno_llm_describe(const struct steno_llm *m, const struct steno_model_info *i, FILE *out)
{
    fprintf(out, "decoder    %zu tokens, %d layers, %lld positions of %lld heads of %lld\n",
            i->vocab_size, m->layers, (long long)m->positions, (long long)m->heads,
            (long long)m->width);
    fprintf(out, "times      estimates: the networks give none\n");
}

static size_t position_bytes(const struct steno_llm *m)
{
    return (size_t)(m->heads * m->width) * steno_dtype_size(m->cache_type);
}

/* Whole caches have a second place, where they come back. */
static size_t cache_bytes(const struct steno_llm *m)
{
    return (m->whole ? 4 : 2) * (size_t)m->layers * (size_t)m->positions * position_bytes(m);
}

void steno_llm_describe_caches(const struct steno_llm *m, FILE *out)
{
    fprintf(out, "           %s%.1f MiB of caches for each thread\n", m->whole ? "up to " : "",
            (double)cache_bytes(m) / 1048576);
}

/* ---- memory of a worker ---------------------------------------------------------------------- */

steno_status steno_llm_run_open(struct steno_llm_run *r, const struct steno_llm *m,
                                const struct steno_shell_model *shell, steno_err *err)
{
    steno_status st = steno_greedy_text_open(&r->text, m->vocab, err);
    r->m = m;
    r->cache = malloc(m->whole ? 1 : cache_bytes(m));
    r->ids = malloc((size_t)m->positions * sizeof *r->ids);
    r->numbers = malloc((size_t)m->positions * sizeof *r->numbers);
    r->first = malloc((size_t)m->vocab * sizeof *r->first);
    if (!st && (!r->cache || !r->ids || !r->numbers || !r->first))
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory for caches of %zu bytes",
                        cache_bytes(m));
    for (int64_t i = 0; i < m->positions && !st; i++)
        r->numbers[i] = i;
    if (!st && m->embedding.net)
        st = steno_shell_session_open(&r->embedding, shell, m->embedding.net, err);
    return st ? st : steno_shell_session_open(&r->decoder, shell, m->decoder.net, err);
}

void steno_llm_run_close(struct steno_llm_run *r)
{
    steno_session_close(r->decoder);
    steno_session_close(r->embedding);
    steno_greedy_text_close(&r->text);
    free(r->cache);
    free(r->ids);
    free(r->numbers);
    free(r->mask.data);
    free(r->first);
    steno_aligned_free(r->rows);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void set_caches(struct steno_llm_run *r, struct steno_run *run)
{
    const struct steno_llm *m = r->m;
    const int64_t all[] = {1, m->positions, m->heads, m->width},
                  none[] = {1, m->heads, 0, m->width};
    const size_t each = m->whole ? 0 : (size_t)m->positions * position_bytes(m);
    for (int i = 0; i < 2 * m->layers; i++)
        steno_run_set(run, m->in[i], m->cache_type, m->whole ? none : all, 4,
                      r->cache + (size_t)i * each);
}

/* Hand the caches that came back to the next run; they have n positions. */
static steno_status turn_caches(struct steno_llm_run *r, size_t n, steno_err *err)
{
    const struct steno_llm *m = r->m;
    steno_status st = STENO_OK;
    for (int i = 0; i < 2 * m->layers && !st; i++) {
        const struct steno_tensor *y = steno_session_get(r->decoder, m->out[i]);
        if (y->dtype != m->cache_type || y->shape.rank != 4 || y->shape.dim[2] != (int64_t)n)
            return steno_fail(err, STENO_ERR_FORMAT, "expected keys and values of %zu positions",
                              n);
        st = steno_session_set(r->decoder, m->in[i], y, err);
    }
    return st;
}

/* Copy the keys and values of n new positions into the caches, from position `at` on. */
static steno_status keep_keys(struct steno_llm_run *r, size_t at, size_t n, steno_err *err)
{
    const struct steno_llm *m = r->m;
    const size_t bytes = position_bytes(m);
    for (int i = 0; i < 2 * m->layers; i++) {
        const struct steno_tensor *y = steno_session_get(r->decoder, m->out[i]);
        if (y->dtype != m->cache_type || steno_numel(y) != n * (size_t)(m->heads * m->width))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "expected keys and values of the %zu new positions alone", n);
        memcpy(r->cache + ((size_t)i * (size_t)m->positions + at) * bytes, y->data, n * bytes);
    }
    return STENO_OK;
}

/* End the decoder's run of n positions, whose ids or embeddings are set, at position `at`: the
 * scores of what follows the last. */
static steno_status run_decoder(struct steno_llm_run *r, struct steno_run *run, size_t n, size_t at,
                                const float **scores)
{
    static const int64_t one = 1;
    const struct steno_llm *m = r->m;
    const int64_t length[] = {1, (int64_t)n};
    const size_t vocab = (size_t)m->vocab;
    const struct steno_tensor *y = NULL;
    steno_status st;
    steno_run_set_ones(run, m->mask, STENO_I64, m->embedding.net ? at + n : n, &r->mask);
    steno_run_set(run, m->numbers, STENO_I64, length + !m->whole, 1 + m->whole, r->numbers + at);
    steno_run_set(run, m->keep, STENO_I64, NULL, 0, &one);
    if (!m->whole || !at)
        set_caches(r, run);
    st = steno_run_end(run);
    if (st)
        return st;
    st = m->whole ? turn_caches(r, at + n, run->err) : keep_keys(r, at, n, run->err);
    y = steno_session_get(r->decoder, 0);
    if (!st && (y->dtype != STENO_F32 || y->shape.rank != 3 || y->shape.dim[1] != 1 ||
                y->shape.dim[2] < (int64_t)vocab))
        st = steno_fail(run->err, STENO_ERR_FORMAT, "expected logits [1,n,%zu or more] of f32",
                        vocab);
    if (st)
        return steno_fail_in(run->err, st, "%s", m->decoder.name);
    *scores = y->data;
    return steno_scores_check(*scores, vocab, m->decoder.name, run->err);
}

static struct steno_run begin_decoder(struct steno_llm_run *r, steno_err *err)
{
    return steno_run_begin(r->decoder, r->m->decoder.name, err);
}

/* The embeddings of n ids: *y, of the session. */
static steno_status embed(struct steno_llm_run *r, const int64_t *ids, size_t n,
                          const struct steno_tensor **y, steno_err *err)
{
    const int64_t dim[] = {1, (int64_t)n};
    struct steno_run run = steno_run_begin(r->embedding, r->m->embedding.name, err);
    steno_status st;
    steno_run_set(&run, 0, STENO_I64, dim, 2, ids);
    st = steno_run_end(&run);
    if (st)
        return st;
    *y = steno_session_get(r->embedding, 0);
    if ((*y)->dtype != STENO_F32 || (*y)->shape.rank != 3 || (*y)->shape.dim[1] != (int64_t)n ||
        (*y)->shape.dim[2] < 1)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: expected embeddings [1,n,D] of f32",
                          run.name);
    return STENO_OK;
}

/* Read one token at position `at`. */
static steno_status read_token_llm(struct steno_llm_run *r, const int64_t *token, size_t at,
                                   const float **scores, steno_err *err)
{
    static const int64_t one[] = {1, 1};
    struct steno_run run = begin_decoder(r, err);
    const struct steno_tensor *y;
    steno_status st = r->embedding ? embed(r, token, 1, &y, err) : STENO_OK;
    if (st)
        return st;
    if (r->embedding)
        steno_run_set_tensor(&run, r->m->embeds, y);
    else
        steno_run_set(&run, IDS, STENO_I64, one, 2, token);
    return run_decoder(r, &run, 1, at, scores);
}

/* ---- the prompt ------------------------------------------------------------------------------ */

static steno_status set_prompt_ids(struct steno_llm_run *r, const struct steno_llm_prompt *p,
                                   const struct steno_tensor *y, size_t rows, struct steno_run *run)
{
    const int64_t dim[] = {1, (int64_t)(p->n + rows)}, some[] = {1, (int64_t)rows, y->shape.dim[2]};
    memcpy(r->ids, p->ids, p->n_before * sizeof *r->ids);
    for (size_t i = 0; i < rows; i++)
        r->ids[p->n_before + i] = r->m->audio;
    memcpy(r->ids + p->n_before + rows, p->ids + p->n_before,
           (p->n - p->n_before) * sizeof *r->ids);
    steno_run_set(run, ROWS, STENO_F32, some, 3, y->data);
    steno_run_set(run, IDS, STENO_I64, dim, 2, r->ids);
    return STENO_OK;
}

static steno_status set_prompt_rows(struct steno_llm_run *r, const struct steno_llm_prompt *p,
                                    const struct steno_tensor *y, size_t rows,
                                    struct steno_run *run)
{
    const size_t n = p->n + rows, width = (size_t)y->shape.dim[2], after = p->n - p->n_before;
    const int64_t dim[] = {1, (int64_t)n, y->shape.dim[2]};
    const struct steno_tensor *text;
    const float *x;
    steno_status st = embed(r, p->ids, p->n, &text, run->err);
    if (st)
        return st;
    if (text->shape.dim[2] != y->shape.dim[2])
        return steno_fail(run->err, STENO_ERR_FORMAT,
                          "%s: embeddings of %lld values, but rows of %lld", r->m->embedding.name,
                          (long long)text->shape.dim[2], (long long)y->shape.dim[2]);
    if (!steno_floats_reserve(&r->rows, &r->cap_rows, n * width))
        return steno_fail(run->err, STENO_ERR_NOMEM, "stream: out of memory");
    x = text->data;
    memcpy(r->rows, x, p->n_before * width * sizeof *x);
    memcpy(r->rows + p->n_before * width, y->data, rows * width * sizeof *x);
    memcpy(r->rows + (p->n_before + rows) * width, x + p->n_before * width,
           after * width * sizeof *x);
    steno_run_set(run, r->m->embeds, STENO_F32, dim, 3, r->rows);
    return STENO_OK;
}

static bool is_end(const struct steno_llm_limits *l, int32_t token)
{
    return token == l->end[0] || (l->n_ends > 1 && token == l->end[1]);
}

static steno_status read_prompt(struct steno_llm_run *r, const struct steno_llm_prompt *p,
                                const struct steno_tensor *y, size_t rows,
                                const struct steno_llm_limits *l, const float **scores,
                                steno_err *err)
{
    const struct steno_llm *m = r->m;
    const size_t n = p->n + rows;
    struct steno_run run = begin_decoder(r, err);
    steno_status st;
    if (n >= (size_t)m->positions)
        return steno_fail(err, STENO_ERR_LIMIT, "a prompt of %zu tokens in %lld positions", n,
                          (long long)m->positions);
    if (!m->whole)
        memset(r->cache, 0, cache_bytes(m));
    st = r->embedding ? set_prompt_rows(r, p, y, rows, &run) : set_prompt_ids(r, p, y, rows, &run);
    if (!st)
        st = run_decoder(r, &run, n, 0, scores);
    if (st || !l->speaks)
        return st;
    memcpy(r->first, *scores, (size_t)m->vocab * sizeof *r->first);
    for (int i = 0; i < l->n_ends; i++)
        r->first[l->end[i]] = -HUGE_VALF;
    *scores = r->first;
    return STENO_OK;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void drop_tokens(struct steno_greedy_text *t, size_t n)
{
    while (n--)
        t->score -= (double)t->spans[--t->n].peak;
}

/* Append the likeliest token; an end is not appended. */
static int64_t add_token(struct steno_greedy_text *t, const float *scores,
                         const struct steno_llm_limits *l)
{
    const int32_t token = steno_greedy_text_add(t, scores, l->end[0]);
    if (token != l->end[0] && is_end(l, token))
        drop_tokens(t, 1);
    return token;
}

/* Tokens that a text may have: by the audio, and by the positions that the prompt leaves. */
static size_t longest_text(const struct steno_llm *m, size_t prompt, double seconds)
{
    const size_t room = (size_t)m->positions > prompt ? (size_t)m->positions - prompt : 0;
    const size_t most = (size_t)(seconds * STENO_LLM_TOKENS_A_SECOND) + STENO_LLM_TOKENS_BESIDE;
    return most < room ? most : room;
}

steno_status steno_llm_write(struct steno_llm_run *r, const struct steno_llm_prompt *p,
                             const struct steno_tensor *y, size_t rows,
                             const struct steno_llm_limits *limits, steno_err *err)
{
    const float *scores = NULL;
    size_t at = p->n + rows;
    const size_t most = longest_text(r->m, at, limits->seconds);
    steno_status st = steno_greedy_text_begin(&r->text, most, err);
    if (!st)
        st = read_prompt(r, p, y, rows, limits, &scores, err);
    for (size_t i = 0; i < most && !st; i++) {
        const int64_t token = add_token(&r->text, scores, limits);
        if (is_end(limits, (int32_t)token))
            return STENO_OK;
        if (at == (size_t)r->m->positions || i + 1 == most)
            break;
        st = read_token_llm(r, &token, at++, &scores, err);
    }
    if (!st)
        drop_tokens(&r->text, steno_llm_repeated(r->text.spans, r->text.n));
    return st;
}
