#include "speech/recognizer/vad.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/audio/resample.h"
#include "nn/network/run.h"
#include "speech/features/activity.h"

#define RULE_SECONDS 0.01   /* a frame of the energy rule */
#define RULE_ONSET_FRAMES 3 /* loud frames until the rule says speech */
#define NET_RATE 16000
#define NET_FRAME 512
#define NET_CONTEXT 64
#define NET_STATE 256 /* [2, 1, 128] */
#define BEGIN                                                                                      \
    0.5f /* probabilities at which speech begins and ends, as in silero-vad's utilities            \
          */
#define END 0.35f
#define BLOCK 256 /* samples to resample at once */

/* A session that no stream uses. */
struct idle {
    struct idle *next;
    steno_session *session;
};

struct steno_vad {
    steno_network *net; /* NULL: the energy rule */
    int x, state, sr;   /* inputs; sr: -1 if there is none */
    int y, next;        /* outputs */
    pthread_mutex_t lock;
    struct idle *idle; /* locked */
};

const steno_vad steno_vad_energy; /* no network, so its lock is not used */

struct steno_vad_state {
    const steno_vad *vad;
    int rate;
    size_t frame;   /* samples per frame at the rate of the rule or the network */
    int64_t frames; /* classified */
    size_t have;    /* samples of the frame and, for the network, of its context */
    struct steno_activity rule;
    double sum; /* of the squares of the frame's samples, for the rule */
    /* network */
    steno_resampler *resampler;
    float *made; /* [cap] resampled; [at, len) are not in a frame yet */
    size_t cap, at, len;
    float *state; /* [NET_STATE] */
    float *buf;   /* [context + frame], `have` of them filled */
    size_t context;
    bool speech;
};

/* ---- what streams share ---------------------------------------------------------------------- */

static const char *const names[] = {"silero_vad_16k_op15.onnx", "silero_vad.onnx"};

static bool find_file(const char *dir, char *path, size_t size)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int n = snprintf(path, size, "%s/%s", dir, names[i]);
        if (n > 0 && (size_t)n < size && !access(path, F_OK))
            return true;
    }
    return false;
}

bool steno_vad_is_dir(const char *dir)
{
    char path[4096];
    return find_file(dir, path, sizeof path);
}

static steno_status bind_vad(steno_vad *v, const char *path, steno_err *err)
{
    v->x = steno_network_find_input(v->net, "input");
    v->state = steno_network_find_input(v->net, "state");
    v->sr = steno_network_find_input(v->net, "sr");
    v->y = steno_network_find_output(v->net, "output");
    v->next = steno_network_find_output(v->net, "stateN");
    if (v->x < 0 || v->state < 0 || v->y < 0 || v->next < 0 ||
        steno_network_n_inputs(v->net) != 2 + (v->sr >= 0))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "vad: %s is no silero-vad of release 5 or later: inputs input, state, sr "
                          "and outputs output, stateN expected",
                          path);
    return STENO_OK;
}

/* Run one frame of silence, so that errors that only a run shows come at open. */
static steno_status try_silence(steno_vad *v, steno_err *err)
{
    steno_vad_state *state;
    float silence[NET_FRAME] = {0};
    size_t used;
    bool speech;
    steno_status st = steno_vad_state_open(&state, v, NET_RATE, err);
    if (st)
        return st;
    st = steno_vad_state_push(state, silence, NET_FRAME, &used, &speech, err);
    steno_vad_state_close(state);
    return st;
}

steno_status steno_vad_open(steno_vad **out, const char *dir, steno_err *err)
{
    char path[4096];
    steno_vad *v = calloc(1, sizeof *v);
    steno_status st = STENO_OK;
    if (!v || pthread_mutex_init(&v->lock, NULL)) {
        free(v);
        return steno_fail(err, STENO_ERR_NOMEM, "vad: out of memory");
    }
    if (dir) {
        if (!find_file(dir, path, sizeof path))
            st = steno_fail(err, STENO_ERR_IO, "vad: %s has neither %s nor %s", dir, names[0],
                            names[1]);
        if (!st)
            st = steno_network_open(&v->net, path, NULL, err);
        if (!st)
            st = bind_vad(v, path, err);
        if (!st)
            st = try_silence(v, err);
    }
    if (st) {
        steno_vad_close(v);
        return st;
    }
    *out = v;
    return STENO_OK;
}

void steno_vad_close(steno_vad *v)
{
    if (!v)
        return;
    for (struct idle *i = v->idle, *next; i; i = next) {
        next = i->next;
        steno_session_close(i->session);
        free(i);
    }
    steno_network_close(v->net);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

/* Get a session for exclusive use until release. There are as many sessions as run at once. */
static steno_status acquire(steno_vad *v, struct idle **out, steno_err *err)
{
    struct idle *i;
    steno_status st;
    pthread_mutex_lock(&v->lock);
    i = v->idle;
    if (i)
        v->idle = i->next;
    pthread_mutex_unlock(&v->lock);
    if (!i) {
        i = calloc(1, sizeof *i);
        st = i ? steno_session_open(&i->session, v->net, NULL, err)
               : steno_fail(err, STENO_ERR_NOMEM, "vad: out of memory");
        if (st) {
            free(i);
            return st;
        }
    }
    *out = i;
    return STENO_OK;
}

static void release_vad(steno_vad *v, struct idle *i)
{
    pthread_mutex_lock(&v->lock);
    i->next = v->idle;
    v->idle = i;
    pthread_mutex_unlock(&v->lock);
}

/* ---- one stream's ---------------------------------------------------------------------------- */

static steno_status open_network_vad(steno_vad_state *v, steno_err *err)
{
    steno_status st = steno_resampler_open(&v->resampler, v->rate, NET_RATE, err);
    if (st)
        return st;
    v->cap = steno_resampler_max_out(v->resampler, BLOCK);
    if (v->cap < BLOCK)
        v->cap = BLOCK;
    v->made = malloc(v->cap * sizeof *v->made);
    v->state = malloc(NET_STATE * sizeof *v->state);
    v->frame = NET_FRAME;
    v->context = NET_CONTEXT;
    v->buf = malloc((v->context + v->frame) * sizeof *v->buf);
    return v->made && v->state && v->buf ? STENO_OK
                                         : steno_fail(err, STENO_ERR_NOMEM, "vad: out of memory");
}

static void begin_vad(steno_vad_state *v)
{
    v->frames = 0;
    v->have = v->context;
    v->at = v->len = 0;
    v->speech = false;
    v->sum = 0;
    if (!v->buf)
        return;
    memset(v->buf, 0, (v->context + v->frame) * sizeof *v->buf);
    memset(v->state, 0, NET_STATE * sizeof *v->state);
}

steno_status steno_vad_state_open(steno_vad_state **out, const steno_vad *vad, int rate,
                                  steno_err *err)
{
    steno_vad_state *v = calloc(1, sizeof *v);
    steno_status st = STENO_OK;
    if (!v)
        return steno_fail(err, STENO_ERR_NOMEM, "vad: out of memory");
    v->vad = vad;
    v->rate = rate;
    v->frame = (size_t)(rate * RULE_SECONDS);
    steno_activity_init(&v->rule, RULE_SECONDS);
    if (vad->net)
        st = open_network_vad(v, err);
    if (st) {
        steno_vad_state_close(v);
        return st;
    }
    begin_vad(v);
    *out = v;
    return STENO_OK;
}

void steno_vad_state_close(steno_vad_state *v)
{
    if (!v)
        return;
    steno_resampler_close(v->resampler);
    free(v->made);
    free(v->state);
    free(v->buf);
    free(v);
}

int64_t steno_vad_state_classified(const steno_vad_state *v)
{
    int64_t samples = v->frames * (int64_t)v->frame;
    return v->vad->net ? samples * v->rate / NET_RATE : samples;
}

int64_t steno_vad_state_latency(const steno_vad_state *v)
{
    int64_t frames = v->vad->net ? 1 : RULE_ONSET_FRAMES, samples = frames * (int64_t)v->frame;
    return v->vad->net ? (samples * v->rate + NET_RATE - 1) / NET_RATE : samples;
}

steno_status steno_vad_state_reset(steno_vad_state *v, steno_err *err)
{
    begin_vad(v); /* the rule keeps its noise floor */
    return v->resampler ? steno_resampler_reset(v->resampler, err) : STENO_OK;
}

static steno_status run_network(steno_vad_state *v, struct idle *i, float *probability,
                                steno_err *err)
{
    const steno_vad *vad = v->vad;
    const int64_t rate = NET_RATE;
    const float *y, *next;
    struct steno_run r = steno_run_begin(i->session, NULL, err);
    steno_status st;
    steno_run_set(&r, vad->x, STENO_F32, (const int64_t[]){1, NET_CONTEXT + NET_FRAME}, 2, v->buf);
    steno_run_set(&r, vad->state, STENO_F32, (const int64_t[]){2, 1, NET_STATE / 2}, 3, v->state);
    steno_run_set(&r, vad->sr, STENO_I64, NULL, 0, &rate);
    st = steno_run_end(&r);
    if (st)
        return st;
    if (steno_run_floats(i->session, vad->y, &y) != 1 ||
        steno_run_floats(i->session, vad->next, &next) != NET_STATE)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "vad: the network gave no probability and state of [2,1,128]");
    *probability = *y;
    memcpy(v->state, next, NET_STATE * sizeof *v->state);
    return STENO_OK;
}

/* Classify the complete frame in buf. */
static steno_status classify(steno_vad_state *v, bool *speech, steno_err *err)
{
    steno_vad *vad =
        (steno_vad *)(uintptr_t)v->vad; /* not const: the list of sessions, which has a lock */
    struct idle *i;
    float p = 0;
    steno_status st;
    if (!vad->net) {
        *speech = steno_activity_push_sum(&v->rule, v->sum, v->frame);
        v->sum = 0;
    } else {
        st = acquire(vad, &i, err);
        if (st)
            return st;
        st = run_network(v, i, &p, err);
        release_vad(vad, i);
        if (st)
            return st;
        v->speech = p >= (v->speech ? END : BEGIN);
        *speech = v->speech;
        memmove(v->buf, v->buf + v->frame, v->context * sizeof *v->buf);
    }
    v->have = v->context;
    v->frames++;
    return STENO_OK;
}

static size_t fill_vad(steno_vad_state *v, const float *p, size_t n)
{
    size_t room = v->context + v->frame - v->have;
    n = n < room ? n : room;
    if (v->buf)
        memcpy(v->buf + v->have, p, n * sizeof *p);
    else
        for (size_t i = 0; i < n; i++)
            v->sum += (double)p[i] * (double)p[i];
    v->have += n;
    return n;
}

steno_status steno_vad_state_push(steno_vad_state *v, const float *pcm, size_t n, size_t *used,
                                  bool *speech, steno_err *err)
{
    *used = 0;
    for (;;) {
        size_t k = n - *used;
        steno_status st;
        if (v->resampler)
            v->at += fill_vad(v, v->made + v->at, v->len - v->at);
        else
            *used += fill_vad(v, pcm + *used, k);
        if (v->have == v->context + v->frame)
            return classify(v, speech, err);
        if (*used == n)
            return STENO_NEED_MORE;
        v->at = v->len = 0;
        st = steno_resampler_push(v->resampler, pcm + *used, k < BLOCK ? k : BLOCK, &k, v->made,
                                  v->cap, &v->len, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        *used += k;
    }
}
