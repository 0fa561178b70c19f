/* Family moonshine_streaming: chunks of audio that are recognized as they grow, at the cost of what
 * is new. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "speech/families/entries.h"
#include "speech/families/moonshine/live.h"
#include "speech/families/moonshine/vocabulary.h"

#define FAMILY "moonshine_streaming"
#define CONFIG "streaming_config.json"
#define RATE 16000
#define FULL 30.0     /* s: maximum length of a chunk */
#define LONGEST 600.0 /* s: maximum length of an utterance */
#define SLACK 100     /* frames: times of tokens are estimates */

static const char *const parts[STENO_LIVE_PARTS] = {"frontend", "encoder", "adapter", "cross_kv",
                                                    "decoder_kv"};

struct stream {
    struct steno_shell_stream base;
    struct steno_moonshine_live live;
    uint64_t chunk; /* that it is of */
};

struct worker {
    struct steno_shell_worker base;
    struct steno_greedy_text text;
};

/* ---- opening --------------------------------------------------------------------------------- */

static bool probe_moonshine_streaming(const char *dir)
{
    return steno_path_readable(dir, CONFIG);
}

static bool languages(const char *dir, struct steno_model_languages *out)
{
    snprintf(out->languages, sizeof out->languages, "en");
    return *dir;
}

static steno_status open_conf(struct steno_moonshine_live_model *m, steno_err *err)
{
    char *path = steno_path_join(m->base.dir, CONFIG);
    steno_json *j = NULL;
    steno_status st =
        path ? steno_json_open(&j, path, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = steno_moonshine_live_conf_read(&m->conf, steno_json_root(j), path, err);
    steno_json_close(j);
    free(path);
    return st;
}

static steno_status open_tokens_moonshine_streaming(struct steno_moonshine_live_model *m,
                                                    steno_err *err)
{
    const bool binary = steno_path_readable(m->base.dir, "tokenizer.bin");
    char *path = steno_path_join(m->base.dir, binary ? "tokenizer.bin" : "tokens.txt");
    char *bytes = NULL;
    size_t n = 0;
    steno_status st = path ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st && !binary)
        st = steno_moonshine_tokens_open(&m->base.tokens, path, err);
    else if (!st)
        st = steno_file_read(path, STENO_TOKENS_MAX_FILE, &bytes, &n, err);
    if (!st && binary)
        st = steno_moonshine_tokenizer_parse(&m->base.tokens, bytes, n, path, err);
    if (!st && steno_tokens_count(m->base.tokens) != m->conf.vocab)
        st =
            steno_fail(err, STENO_ERR_FORMAT, "%s: %d tokens, but vocab_size in " CONFIG " is %lld",
                       path, (int)steno_tokens_count(m->base.tokens), (long long)m->conf.vocab);
    free(bytes);
    free(path);
    return st;
}

static steno_status open_model_moonshine_streaming(void *model, const struct steno_family_open *o,
                                                   steno_err *err)
{
    struct steno_moonshine_live_model *m = model;
    steno_status st = open_conf(m, err);
    for (int i = 0; i < STENO_LIVE_PARTS && !st; i++)
        st = steno_part_file_open(&m->base.part[i], o, parts[i], false, err);
    if (!st)
        st = steno_moonshine_live_bind(m, err);
    if (!st)
        st = open_tokens_moonshine_streaming(m, err);
    if (st)
        return steno_fail_in(err, st, "%s", o->dir);
    steno_shell_set_cuts(&m->base, RATE, FULL, STENO_MOONSHINE_LIVE_FRAME, SLACK);
    m->base.offline.resumes = true;
    return steno_shell_try_piece(&m->base, err);
}

/* ---- a chunk --------------------------------------------------------------------------------- */

static steno_status recognize_moonshine_streaming(void *worker, struct steno_offline_piece *p)
{
    struct worker *w = worker;
    struct stream *s = p->settings;
    steno_status st;
    if (s->chunk != p->chunk || p->n < s->live.fed)
        steno_moonshine_live_reset(&s->live);
    s->chunk = p->chunk;
    st = steno_moonshine_live_feed(&w->base, &s->live, p->pcm, p->n, !p->partial, p->err);
    if (!st)
        st = steno_moonshine_live_decode(&w->base, &s->live, &w->text, p->err);
    if (st) {
        steno_moonshine_live_reset(&s->live);
        return st;
    }
    steno_greedy_text_share(&w->text, s->live.n_memory);
    st = steno_greedy_text_list(&w->text, p);
    if (!p->partial)
        steno_moonshine_live_free(&s->live);
    return st;
}

static steno_status open_stream_moonshine_streaming(void *stream, const void *model,
                                                    struct steno_family_stream *o, steno_err *err)
{
    (void)stream;
    (void)model;
    if (o->beam > 1 || o->n_best > 1)
        return steno_fail(err, STENO_ERR_INVAL,
                          "beam: Moonshine is decoded greedily, with one hypothesis");
    o->beam = o->n_best = 1;
    return STENO_OK;
}

static void close_stream_moonshine_streaming(void *stream)
{
    steno_moonshine_live_free(&((struct stream *)stream)->live);
}

static steno_status open_worker_moonshine_streaming(void *worker, const void *model, int max,
                                                    steno_err *err)
{
    const struct steno_moonshine_live_model *m = model;
    (void)max;
    return steno_greedy_text_open(&((struct worker *)worker)->text, (int)m->conf.vocab, err);
}

static void close_worker_moonshine_streaming(void *worker)
{
    steno_greedy_text_close(&((struct worker *)worker)->text);
}

/* ---- information ----------------------------------------------------------------------------- */

static void get_info_moonshine_streaming(const void *model, struct steno_family_info *out)
{
    const struct steno_moonshine_live_model *m = model;
    out->network = m->base.part[STENO_LIVE_ENCODER].name;
    out->language = out->languages = "en";
    out->hop = RATE / 100;
    out->endpoint.longest = LONGEST;
    out->stream_bytes += (size_t)(FULL * RATE) / STENO_MOONSHINE_LIVE_FRAME *
                         (size_t)(m->width + m->memory) * sizeof(float);
}

static void describe_moonshine_streaming(const void *model, const struct steno_model_info *i,
                                         FILE *out)
{
    const struct steno_moonshine_live_model *m = model;
    const struct steno_part_file *part = m->base.part;
    steno_shell_describe_head(i, "", out);
    fprintf(out, "networks   %s, %s, %s, %s, %s\n", part[0].name, part[1].name, part[2].name,
            part[3].name, part[4].name);
    fprintf(out, "decoder    %lld pieces, %lld layers, no hot words\n", (long long)m->conf.vocab,
            (long long)m->conf.depth);
    fprintf(out, "times      estimates: the networks give none\n");
    fprintf(
        out,
        "streaming  chunks of at most %.0f s, partials every %.1f s at the cost of what is new\n",
        FULL, STENO_OFFLINE_FIRST_PARTIAL);
    steno_shell_describe_limits(i, out);
}

static const struct steno_shell shell = {.model_bytes = sizeof(struct steno_moonshine_live_model),
                                         .stream_bytes = sizeof(struct stream),
                                         .worker_bytes = sizeof(struct worker),
                                         .sessions = STENO_LIVE_PARTS,
                                         .open = open_model_moonshine_streaming,
                                         .info = get_info_moonshine_streaming,
                                         .describe = describe_moonshine_streaming,
                                         .stream_open = open_stream_moonshine_streaming,
                                         .stream_close = close_stream_moonshine_streaming,
                                         .worker_open = open_worker_moonshine_streaming,
                                         .worker_close = close_worker_moonshine_streaming,
                                         .recognize = recognize_moonshine_streaming};

const struct steno_family steno_family_moonshine_streaming = {.name = FAMILY,
                                                              .probe = probe_moonshine_streaming,
                                                              .languages = languages,
                                                              .shell = &shell,
                                                              STENO_OFFLINE_SHELL};
