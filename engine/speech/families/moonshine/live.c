#include "speech/families/moonshine/live.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "speech/families/common/scores.h"

#define LEAST ((size_t)80)    /* samples that the front end takes: a frame of 5 ms */
#define REACH 16              /* features to the left of a row, for each layer */
#define FRAME_SECONDS 0.02    /* of a row of the memory */
#define TOKENS_PER_SECOND 6.5 /* at most */
#define POSITIONS 448         /* where the configuration does not say */
#define LOOKAHEAD 16          /* likewise */

static const char *const states[STENO_LIVE_STATES] = {"sample_buffer", "sample_len", "conv1_buffer",
                                                      "conv2_buffer", "frame_count"};

/* ---- configuration --------------------------------------------------------------------------- */

steno_status steno_moonshine_live_conf_read(struct steno_moonshine_live_conf *c,
                                            const struct steno_json_node *root, const char *name,
                                            steno_err *err)
{
    const struct {
        const char *key;
        int64_t min, max, *to;
    } want[] = {{"depth", 1, 256, &c->depth},
                {"total_lookahead", 0, 4096, &c->lookahead},
                {"bos_id", 0, STENO_TOKENS_MAX - 1, &c->begin},
                {"eos_id", 0, STENO_TOKENS_MAX - 1, &c->end},
                {"vocab_size", 2, STENO_TOKENS_MAX, &c->vocab},
                {"max_seq_len", 1, 65536, &c->most}};
    *c = (struct steno_moonshine_live_conf){
        .lookahead = LOOKAHEAD, .begin = 1, .end = 2, .most = POSITIONS};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct steno_json_node *n = steno_json_get(root, want[i].key);
        if ((n || !*want[i].to) && !steno_json_int(n, want[i].min, want[i].max, want[i].to))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is '%.40s', expected %lld to %lld",
                              name, want[i].key, n && n->text ? n->text : "missing",
                              (long long)want[i].min, (long long)want[i].max);
    }
    return c->begin < c->vocab && c->end < c->vocab
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT,
                            "%s: bos_id %lld and eos_id %lld of a vocabulary of %lld", name,
                            (long long)c->begin, (long long)c->end, (long long)c->vocab);
}

/* ---- binding --------------------------------------------------------------------------------- */

static steno_status refuse(const struct steno_moonshine_live_model *m,
                           enum steno_moonshine_part part, const char *what, steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: expected %s", m->base.part[part].name, what);
}

static int moonshine_live_input(const struct steno_moonshine_live_model *m,
                                enum steno_moonshine_part part, const char *name)
{
    return steno_network_find_input(m->base.part[part].net, name);
}

static int output(const struct steno_moonshine_live_model *m, enum steno_moonshine_part part,
                  const char *name)
{
    return steno_network_find_output(m->base.part[part].net, name);
}

static steno_status bind_states(struct steno_moonshine_live_model *m, steno_err *err)
{
    for (int i = 0; i < STENO_LIVE_STATES; i++) {
        char next[32];
        size_t bytes;
        const struct steno_value *v;
        snprintf(next, sizeof next, "%s_out", states[i]);
        m->state_in[i] = moonshine_live_input(m, STENO_LIVE_FRONTEND, states[i]);
        m->state_out[i] = output(m, STENO_LIVE_FRONTEND, next);
        if (m->state_in[i] < 0 || m->state_out[i] < 0)
            return refuse(m, STENO_LIVE_FRONTEND,
                          "sample_buffer, sample_len, conv1_buffer, conv2_buffer, "
                          "frame_count and their ..._out",
                          err);
        v = steno_network_input(m->base.part[STENO_LIVE_FRONTEND].net, m->state_in[i]);
        m->state[i] = (struct steno_tensor){.dtype = v->dtype, .shape = v->shape};
        for (int k = 0; k < v->shape.rank; k++)
            if (v->shape.dim[k] < 1 || v->shape.dim[k] > 65536)
                return refuse(m, STENO_LIVE_FRONTEND, "states of known extents", err);
        if (!steno_dtype_size(v->dtype) || steno_shape_bytes(&v->shape, v->dtype, &bytes) ||
            bytes > (1 << 24))
            return refuse(m, STENO_LIVE_FRONTEND, "states of at most 16 MiB", err);
    }
    return STENO_OK;
}

static bool has_rows(const steno_network *net, int value, bool in, int64_t *width)
{
    const struct steno_value *v = value < 0 ? NULL
                                  : in      ? steno_network_input(net, value)
                                            : steno_network_output(net, value);
    if (!v || v->dtype != STENO_F32 || v->shape.rank != 3 || v->shape.dim[2] < 1 ||
        v->shape.dim[2] > 65536)
        return false;
    *width = v->shape.dim[2];
    return true;
}

static steno_status bind_decoder_moonshine_live(struct steno_moonshine_live_model *m,
                                                steno_err *err)
{
    static const char *const in[] = {"token", "k_self", "v_self", "out_k_cross", "out_v_cross"};
    static const char *const out[] = {"logits", "out_k_self", "out_v_self"};
    const struct steno_value *k;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        if (moonshine_live_input(m, STENO_LIVE_DECODER_KV, in[i]) < 0)
            return refuse(m, STENO_LIVE_DECODER_KV,
                          "token, k_self, v_self, out_k_cross, out_v_cross", err);
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        if (output(m, STENO_LIVE_DECODER_KV, out[i]) < 0)
            return refuse(m, STENO_LIVE_DECODER_KV, "outputs logits, out_k_self, out_v_self", err);
    k = steno_network_input(m->base.part[STENO_LIVE_DECODER_KV].net,
                            moonshine_live_input(m, STENO_LIVE_DECODER_KV, "k_self"));
    if (k->dtype != STENO_F32 || k->shape.rank != 5 || k->shape.dim[0] != m->conf.depth ||
        k->shape.dim[2] < 1 || k->shape.dim[4] < 1)
        return refuse(m, STENO_LIVE_DECODER_KV,
                      "k_self [depth,1,heads,n,width] as the configuration says", err);
    m->heads = k->shape.dim[2];
    m->head = k->shape.dim[4];
    return STENO_OK;
}

steno_status steno_moonshine_live_bind(struct steno_moonshine_live_model *m, steno_err *err)
{
    steno_status st = bind_states(m, err);
    if (st)
        return st;
    if (moonshine_live_input(m, STENO_LIVE_FRONTEND, "audio_chunk") < 0 ||
        output(m, STENO_LIVE_FRONTEND, "features") < 0)
        return refuse(m, STENO_LIVE_FRONTEND, "an input audio_chunk and an output features", err);
    if (!has_rows(m->base.part[STENO_LIVE_ENCODER].net,
                  moonshine_live_input(m, STENO_LIVE_ENCODER, "features"), true, &m->width))
        return refuse(m, STENO_LIVE_ENCODER, "an input features [1,T,d]", err);
    if (!has_rows(m->base.part[STENO_LIVE_ADAPTER].net,
                  moonshine_live_input(m, STENO_LIVE_ADAPTER, "encoded"), true, &m->encoded) ||
        moonshine_live_input(m, STENO_LIVE_ADAPTER, "pos_offset") < 0)
        return refuse(m, STENO_LIVE_ADAPTER, "encoded [1,T,d] and pos_offset [1]", err);
    if (!has_rows(m->base.part[STENO_LIVE_CROSS_KV].net,
                  moonshine_live_input(m, STENO_LIVE_CROSS_KV, "memory"), true, &m->memory) ||
        output(m, STENO_LIVE_CROSS_KV, "k_cross") < 0 ||
        output(m, STENO_LIVE_CROSS_KV, "v_cross") < 0)
        return refuse(m, STENO_LIVE_CROSS_KV, "memory [1,T,D], and k_cross and v_cross", err);
    return bind_decoder_moonshine_live(m, err);
}

/* ---- a chunk --------------------------------------------------------------------------------- */

void steno_moonshine_live_reset(struct steno_moonshine_live *l)
{
    l->fed = l->n_features = l->n_memory = 0;
    for (int i = 0; i < STENO_LIVE_STATES; i++)
        if (l->state[i])
            memset(l->state[i], 0, l->state_bytes[i]);
}

void steno_moonshine_live_free(struct steno_moonshine_live *l)
{
    for (int i = 0; i < STENO_LIVE_STATES; i++)
        steno_aligned_free(l->state[i]);
    free(l->features);
    free(l->memory);
    *l = (struct steno_moonshine_live){.fed = 0};
}

static steno_status append_moonshine_live(float **to, size_t *n, size_t *cap, const float *rows,
                                          size_t more, size_t width, steno_err *err)
{
    if (STENO_RESERVE(to, cap, (*n + more) * width))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (more)
        memcpy(*to + *n * width, rows, more * width * sizeof *rows);
    *n += more;
    return STENO_OK;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* End a run: an output [1,n,width] f32 of it. */
static steno_status run_rows(struct steno_run *r, int out, int64_t width, const float **rows,
                             size_t *n)
{
    const struct steno_tensor *t;
    char shape[96];
    steno_status st = steno_run_end(r);
    if (st)
        return st;
    t = steno_session_get(r->session, out);
    if (t && t->dtype == STENO_F32 && t->shape.rank == 3 && t->shape.dim[0] == 1 &&
        t->shape.dim[2] == width) {
        *rows = t->data;
        *n = (size_t)t->shape.dim[1];
        return STENO_OK;
    }
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s: an output of %s, expected f32 [1,n,%lld]",
                      r->name, t ? steno_shape_str(&t->shape, shape, sizeof shape) : "no shape",
                      (long long)width);
}

static void set_states_moonshine_live(const struct steno_moonshine_live_model *m,
                                      struct steno_moonshine_live *l, struct steno_run *r)
{
    for (int i = 0; i < STENO_LIVE_STATES && !r->st; i++) {
        struct steno_tensor t = m->state[i];
        if (!l->state[i]) {
            (void)!steno_shape_bytes(&t.shape, t.dtype, &l->state_bytes[i]); /* bind_states */
            l->state[i] = steno_aligned_zeroed(l->state_bytes[i]);
            if (!l->state[i])
                r->st = steno_fail(r->err, STENO_ERR_NOMEM, "stream: out of memory");
        }
        t.data = l->state[i];
        steno_run_set_tensor(r, m->state_in[i], &t);
    }
}

static steno_status take_states(const struct steno_moonshine_live_model *m,
                                struct steno_moonshine_live *l, const struct steno_run *r)
{
    for (int i = 0; i < STENO_LIVE_STATES; i++) {
        const struct steno_tensor *t = steno_session_get(r->session, m->state_out[i]);
        size_t bytes = 0;
        if (!t || t->dtype != m->state[i].dtype || steno_shape_bytes(&t->shape, t->dtype, &bytes) ||
            bytes != l->state_bytes[i])
            return steno_fail(r->err, STENO_ERR_FORMAT, "%s: %s has another size after a step",
                              r->name, states[i]);
        memcpy(l->state[i], t->data, bytes);
    }
    return STENO_OK;
}

static steno_status run_frontend(struct steno_shell_worker *w, struct steno_moonshine_live *l,
                                 const float *pcm, size_t n, steno_err *err)
{
    const struct steno_moonshine_live_model *m = w->model;
    const int64_t dim[] = {1, (int64_t)n};
    struct steno_run r = steno_shell_run(w, STENO_LIVE_FRONTEND, err);
    const float *rows = NULL;
    size_t more = 0;
    steno_status st;
    steno_run_set(&r, moonshine_live_input(m, STENO_LIVE_FRONTEND, "audio_chunk"), STENO_F32, dim,
                  2, pcm);
    set_states_moonshine_live(m, l, &r);
    st = run_rows(&r, output(m, STENO_LIVE_FRONTEND, "features"), m->width, &rows, &more);
    if (!st)
        st = append_moonshine_live(&l->features, &l->n_features, &l->cap_features, rows, more,
                                   (size_t)m->width, err);
    return st ? st : take_states(m, l, &r);
}

/* Rows [from, n_features) of the encoder: *rows [.., encoded]. */
static steno_status run_encoder(struct steno_shell_worker *w, const struct steno_moonshine_live *l,
                                size_t from, const float **rows, steno_err *err)
{
    const struct steno_moonshine_live_model *m = w->model;
    const int64_t dim[] = {1, (int64_t)(l->n_features - from), m->width};
    struct steno_run r = steno_shell_run(w, STENO_LIVE_ENCODER, err);
    size_t n = 0;
    steno_status st;
    steno_run_set(&r, moonshine_live_input(m, STENO_LIVE_ENCODER, "features"), STENO_F32, dim, 3,
                  l->features + from * (size_t)m->width);
    st = run_rows(&r, 0, m->encoded, rows, &n);
    if (!st && n != l->n_features - from)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %zu rows for %zu features", r.name, n,
                        l->n_features - from);
    return st;
}

/* Rows [n_memory, stable) of the memory. */
static steno_status extend_memory(struct steno_shell_worker *w, struct steno_moonshine_live *l,
                                  size_t stable, steno_err *err)
{
    const struct steno_moonshine_live_model *m = w->model;
    const size_t reach = (size_t)(REACH * m->conf.depth);
    const size_t from = l->n_memory > reach ? l->n_memory - reach : 0;
    const int64_t one = 1, offset = (int64_t)l->n_memory;
    const int64_t dim[] = {1, (int64_t)(stable - l->n_memory), m->encoded};
    struct steno_run r = steno_shell_run(w, STENO_LIVE_ADAPTER, err);
    const float *rows = NULL;
    size_t n = 0;
    steno_status st = run_encoder(w, l, from, &rows, err);
    if (st)
        return st;
    steno_run_set(&r, moonshine_live_input(m, STENO_LIVE_ADAPTER, "encoded"), STENO_F32, dim, 3,
                  rows + (l->n_memory - from) * (size_t)m->encoded);
    steno_run_set(&r, moonshine_live_input(m, STENO_LIVE_ADAPTER, "pos_offset"), STENO_I64, &one, 1,
                  &offset);
    st = run_rows(&r, 0, m->memory, &rows, &n);
    if (!st && n != stable - l->n_memory)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %zu rows, expected %zu", r.name, n,
                        stable - l->n_memory);
    return st ? st
              : append_moonshine_live(&l->memory, &l->n_memory, &l->cap_memory, rows, n,
                                      (size_t)m->memory, err);
}

steno_status steno_moonshine_live_feed(struct steno_shell_worker *w, struct steno_moonshine_live *l,
                                       const float *pcm, size_t n, bool final, steno_err *err)
{
    const struct steno_moonshine_live_model *m = w->model;
    const size_t lookahead = final ? 0 : (size_t)m->conf.lookahead;
    const size_t new_samples = n - l->fed;
    const size_t whole = new_samples / LEAST * LEAST;
    const size_t take =
        final ? (whole ? new_samples : 0) : (new_samples < STENO_MOONSHINE_LIVE_FRAME ? 0 : whole);
    steno_status st = take ? run_frontend(w, l, pcm + l->fed, take, err) : STENO_OK;
    if (st)
        return st;
    l->fed += take;
    if (l->n_features <= lookahead || l->n_features - lookahead <= l->n_memory)
        return STENO_OK;
    return extend_memory(w, l, l->n_features - lookahead, err);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Hand the decoder keys and values of the memory. */
static steno_status set_memory(struct steno_shell_worker *w, const struct steno_moonshine_live *l,
                               steno_err *err)
{
    const struct steno_moonshine_live_model *m = w->model;
    const int64_t dim[] = {1, (int64_t)l->n_memory, m->memory};
    struct steno_run r = steno_shell_run(w, STENO_LIVE_CROSS_KV, err);
    steno_status st;
    steno_run_set(&r, moonshine_live_input(m, STENO_LIVE_CROSS_KV, "memory"), STENO_F32, dim, 3,
                  l->memory);
    st = steno_run_end(&r);
    for (int i = 0; i < 2 && !st; i++)
        st = steno_session_set(
            w->session[STENO_LIVE_DECODER_KV],
            moonshine_live_input(m, STENO_LIVE_DECODER_KV, i ? "out_v_cross" : "out_k_cross"),
            steno_session_get(r.session, output(m, STENO_LIVE_CROSS_KV, i ? "v_cross" : "k_cross")),
            err);
    return st;
}

/* Keys and values of the text so far: none, then those that the last run gave. */
static void set_text_moonshine_live(const struct steno_moonshine_live_model *m, bool first,
                                    struct steno_run *r)
{
    static const float nothing[4];
    const int64_t dim[] = {m->conf.depth, 1, m->heads, 0, m->head};
    for (int i = 0; i < 2; i++) {
        const int in = moonshine_live_input(m, STENO_LIVE_DECODER_KV, i ? "v_self" : "k_self");
        const int out = output(m, STENO_LIVE_DECODER_KV, i ? "out_v_self" : "out_k_self");
        if (first)
            steno_run_set(r, in, STENO_F32, dim, 5, nothing);
        else
            steno_run_set_tensor(r, in, steno_session_get(r->session, out));
    }
}

static steno_status read_token_moonshine_live(struct steno_shell_worker *w, int64_t token,
                                              bool first, const float **scores, steno_err *err)
{
    static const int64_t ones[] = {1, 1};
    const struct steno_moonshine_live_model *m = w->model;
    struct steno_run r = steno_shell_run(w, STENO_LIVE_DECODER_KV, err);
    size_t n = 0;
    steno_status st;
    set_text_moonshine_live(m, first, &r);
    steno_run_set(&r, moonshine_live_input(m, STENO_LIVE_DECODER_KV, "token"), STENO_I64, ones, 2,
                  &token);
    st = run_rows(&r, output(m, STENO_LIVE_DECODER_KV, "logits"), m->conf.vocab, scores, &n);
    if (!st && n != 1)
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: %zu rows of scores for a token", r.name, n);
    return st ? st : steno_scores_check(*scores, (size_t)m->conf.vocab, r.name, err);
}

steno_status steno_moonshine_live_decode(struct steno_shell_worker *w,
                                         const struct steno_moonshine_live *l,
                                         struct steno_greedy_text *t, steno_err *err)
{
    const struct steno_moonshine_live_conf *c =
        &((const struct steno_moonshine_live_model *)w->model)->conf;
    const double most =
        fmin(ceil((double)l->n_memory * FRAME_SECONDS * TOKENS_PER_SECOND), (double)c->most);
    int64_t token = c->begin;
    steno_status st = steno_greedy_text_begin(t, (size_t)most, err);
    if (!st && l->n_memory)
        st = set_memory(w, l, err);
    for (size_t i = 0; i < (size_t)most && !st && token != c->end; i++) {
        const float *scores = NULL;
        st = read_token_moonshine_live(w, token, i == 0, &scores, err);
        if (!st)
            token = steno_greedy_text_add(t, scores, (int32_t)c->end);
    }
    return st;
}
