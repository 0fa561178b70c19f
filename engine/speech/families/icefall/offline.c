/* Family icefall_offline: models that take a piece of audio at once. */
#include "speech/families/entries.h"
#include "speech/families/icefall/internal.h"

#define FAMILY "icefall_offline"
/* s: of a chunk. Zipformer's tables of positions stop at 40 s in its recipe (2,000 frames of 50 a
 * second), and its attention takes memory by the square. */
#define LONGEST 30.0
#define LEAST 9         /* feature frames: fewer give the convolutions no frame */
#define TRIAL_FRAMES 24 /* of 10 ms */
#define SLACK 2         /* frames: how far the time of a token may differ between two chunks */

static bool probe_icefall_offline(const char *dir)
{
    bool streaming;
    return steno_icefall_probe(dir, &streaming) && !streaming;
}

static steno_status open_stream_icefall_offline(void *stream, const void *model,
                                                struct steno_family_stream *o, steno_err *err)
{
    return steno_icefall_search_open(&((struct steno_shell_stream *)stream)->search, model, o, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static struct steno_token_search *search_of(const struct steno_piece *p)
{
    return &((struct steno_shell_stream *)p->of->settings)->search;
}

/* Search the pieces of a transducer together: those that still have a frame share a run of the
 * networks. */
static void search_together(void *worker, struct steno_piece *p, size_t n)
{
    struct steno_icefall_worker *w = worker;
    const struct steno_icefall_model *m = w->base.model;
    const size_t width = (size_t)m->width;
    struct steno_token_search *s[STENO_BATCH_MAX];
    const float *frame[STENO_BATCH_MAX];
    steno_status st[STENO_BATCH_MAX];
    steno_err *err[STENO_BATCH_MAX];
    size_t of[STENO_BATCH_MAX], k = !m->ctc;
    for (size_t i = 0; i < n && k; i++)
        if (steno_token_search_restart(search_of(&p[i]), 0))
            p[i].of->st = steno_fail(p[i].of->err, STENO_ERR_NOMEM, "stream: out of memory");
    for (size_t t = 0; k; t++) {
        k = 0;
        for (size_t i = 0; i < n; i++) {
            if (p[i].of->st || t >= p[i].n)
                continue;
            s[k] = search_of(&p[i]);
            frame[k] = p[i].rows + t * width;
            st[k] = STENO_OK;
            err[k] = p[i].of->err;
            of[k++] = i;
        }
        if (k)
            steno_icefall_search_frame(m, w->scorer, s, frame, k, st, err);
        for (size_t i = 0; i < k; i++)
            p[of[i]].of->st = st[i];
    }
}

static steno_status search(void *worker, const struct steno_piece *p)
{
    const struct steno_icefall_model *m = ((struct steno_icefall_worker *)worker)->base.model;
    steno_status st = STENO_OK;
    if (m->ctc)
        st = steno_shell_search_scores(p->of, p->rows, p->n, m->network);
    else
        steno_token_search_finish(search_of(p));
    return st ? st : steno_shell_list(p->of);
}

/* ---- opening --------------------------------------------------------------------------------- */

static steno_status bind_icefall_offline(struct steno_icefall_model *m, steno_err *err)
{
    steno_network *net = steno_icefall_encoder(m);
    const int x = steno_network_find_input(net, "x"),
              x_lens = steno_network_find_input(net, "x_lens");
    const int y = steno_network_find_output(net, m->ctc ? "log_probs" : "encoder_out");
    const int y_lens =
        steno_network_find_output(net, m->ctc ? "log_probs_len" : "encoder_out_lens");
    if (x < 0 || x_lens < 0 || y < 0 || y_lens < 0 || steno_network_n_inputs(net) != 2)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: expected inputs x and x_lens, and outputs %s and their number",
                          m->files.encoder, m->ctc ? "log_probs" : "encoder_out");
    m->base.pieces = (struct steno_piece_encoder){.net = net,
                                                  .name = m->files.encoder,
                                                  .x = x,
                                                  .length = x_lens,
                                                  .y = y,
                                                  .lengths = y_lens,
                                                  .ahead = -1,
                                                  .bins = (size_t)m->bins,
                                                  .dim = (size_t)m->width,
                                                  .least = LEAST,
                                                  .trial_frames = TRIAL_FRAMES};
    return steno_piece_encoder_try(&m->base.pieces, m->base.threads, m->files.quantized, err);
}

static steno_status open_model_icefall_offline(void *model, const struct steno_family_open *o,
                                               steno_err *err)
{
    struct steno_icefall_model *m = model;
    steno_status st = steno_icefall_open(m, o, err);
    if (!st)
        st = bind_icefall_offline(m, err);
    if (st)
        return st;
    steno_shell_set_cuts(&m->base, STENO_ICEFALL_RATE, LONGEST, m->hop * STENO_ICEFALL_SUBSAMPLING,
                         SLACK);
    return steno_shell_try_piece(&m->base, err);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct steno_icefall_model),
                                         .stream_bytes = sizeof(struct steno_shell_stream),
                                         .worker_bytes = sizeof(struct steno_icefall_worker),
                                         .open = open_model_icefall_offline,
                                         .close = steno_icefall_close,
                                         .info = steno_icefall_info,
                                         .describe = steno_icefall_describe,
                                         .stream_open = open_stream_icefall_offline,
                                         .worker_open = steno_icefall_worker_open,
                                         .worker_close = steno_icefall_worker_close,
                                         .search_together = search_together,
                                         .search = search};

static const struct steno_option_info options[] = {STENO_SEARCH_OPTIONS(FAMILY)};

const struct steno_family steno_family_icefall_offline = {.name = FAMILY,
                                                          .options = options,
                                                          .n_options =
                                                              sizeof options / sizeof *options,
                                                          .probe = probe_icefall_offline,
                                                          .shell = &shell,
                                                          STENO_OFFLINE_SHELL};
