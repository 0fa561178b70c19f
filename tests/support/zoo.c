#include "tests/support/zoo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/families/moonshine/vocabulary.h"
#include "formats/json.h"
#include "speech/audio/file.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"
#include "speech/text/tokens.h"

#define RATE 16000
#define PI 3.14159265358979323846
#define MAX_TOKENS 512

/* ---- audio ----------------------------------------------------------------------------------- */

float *zoo_resample(const float *x, size_t n_in, int rate, size_t *n)
{
    const double cutoff = 0.99 * 0.5 * (rate < RATE ? rate : RATE), zeros = 6;
    const double half = zeros / (2 * cutoff);
    float *out;
    *n = (size_t)ceil((double)n_in * RATE / rate);
    out = malloc((*n + 1) * sizeof *out);
    for (size_t i = 0; out && i < *n; i++) {
        const double t = (double)i / RATE;
        double sum = 0;
        for (int64_t k = (int64_t)ceil((t - half) * rate); k <= (int64_t)floor((t + half) * rate);
             k++) {
            const double d = (double)k / rate - t;
            const double window = fabs(d) < half ? 0.5 * (1 + cos(2 * PI * cutoff / zeros * d)) : 0;
            const double filter = d != 0 ? sin(2 * PI * cutoff * d) / (PI * d) : 2 * cutoff;
            if (k >= 0 && k < (int64_t)n_in)
                sum += (double)x[k] * (double)(float)(filter * window / rate);
        }
        out[i] = (float)sum;
    }
    return out;
}

static char *shared_path(const char *rel)
{
    const char *base = getenv("STENO_SHARED");
    char *p = malloc(4096);
    if (p)
        snprintf(p, 4096, "%s/%s", base ? base : "../shared", rel);
    return p;
}

float *zoo_recording(const char *name, double seconds, double silence, size_t *n)
{
    static const char *const places[][2] = {
        {"librispeech", "flac"}, {"speech", "wav"}, {"speech", "flac"}};
    struct steno_audio_info info;
    steno_audio *a = NULL;
    float *x = NULL, *y;
    size_t len = 0, got = 1, zeros, bytes;
    void *file = NULL;
    for (size_t i = 0; i < 3 && !file; i++) {
        char rel[256], *path;
        snprintf(rel, sizeof rel, "audio/%s/%s.%s", places[i][0], name, places[i][1]);
        path = shared_path(rel);
        file = steno_test_slurp(path, &bytes);
        free(path);
    }
    if (!file)
        return NULL;
    assert_int_equal(
        steno_audio_open_mem(&a, file, bytes, &(struct steno_audio_options){.channel = 1}, NULL),
        STENO_OK);
    while (got) {
        x = realloc(x, (len + 65536) * sizeof *x);
        assert_non_null(x);
        assert_int_equal(steno_audio_read(a, x + len, 65536, &got, NULL), STENO_OK);
        len += got;
    }
    steno_audio_get_info(a, &info);
    steno_audio_close(a);
    free(file);
    if (seconds > 0 && len > (size_t)(seconds * info.sample_rate))
        len = (size_t)(seconds * info.sample_rate);
    zeros = (size_t)(silence * info.sample_rate);
    x = realloc(x, (len + zeros + 1) * sizeof *x);
    assert_non_null(x);
    memset(x + len, 0, zeros * sizeof *x);
    *n = len + zeros;
    if (info.sample_rate == RATE)
        return x;
    y = zoo_resample(x, *n, info.sample_rate, n);
    assert_non_null(y);
    free(x);
    return y;
}

/* ---- one recording --------------------------------------------------------------------------- */

struct result {
    int32_t ids[MAX_TOKENS];
    double starts[MAX_TOKENS];
    size_t n;
    char text[8192], language[16], emotion[32], sound[32];
};

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static void take_events(steno_stream *s, bool partials, struct result *r)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev)) {
        if (ev.kind != (partials ? STENO_PARTIAL : STENO_FINAL))
            continue;
        if (partials)
            r->n = 0;
        for (size_t i = 0; i < ev.n_tokens && r->n < MAX_TOKENS; i++, r->n++) {
            r->ids[r->n] = ev.tokens[i].id;
            r->starts[r->n] = ev.tokens[i].start;
        }
        copy(r->text, sizeof r->text, ev.text);
        copy(r->language, sizeof r->language, ev.language);
        copy(r->emotion, sizeof r->emotion, ev.labels.emotion);
        copy(r->sound, sizeof r->sound, ev.labels.sound);
    }
}

static bool run(const struct zoo_run *z, steno_model *m, const float *pcm, size_t n,
                struct result *r)
{
    const struct steno_stream_options o = {.no_endpointing = true,
                                           .hints.language = z->language,
                                           .options = z->options,
                                           .n_options = z->n_options};
    const size_t piece = z->piece ? z->piece : n;
    steno_stream *s = NULL;
    steno_err err = {0};
    steno_status st = steno_stream_open(&s, m, &o, &err);
    memset(r, 0, sizeof *r);
    for (size_t at = 0; at < n && !st; at += piece) {
        st = steno_stream_push(s, pcm + at, n - at < piece ? n - at : piece, &err);
        take_events(s, z->unended, r);
    }
    if (!st && !z->unended)
        st = steno_stream_end(s, &err);
    take_events(s, z->unended, r);
    steno_stream_close(s);
    if (st)
        fprintf(stderr, "# %s: %s\n", z->dir, err.msg);
    return !st;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static const char *text_of(const struct steno_json_node *row, const char *key)
{
    const struct steno_json_node *n = steno_json_get(row, key);
    return n && n->text ? n->text : NULL;
}

/* sherpa-onnx shows SentencePiece's mark as a blank. */
static bool same_piece(const char *piece, const char *recorded)
{
    char own[1024];
    size_t n = 0;
    for (const char *p = piece; *p && n < sizeof own - 1; n++) {
        const bool mark = strncmp(p, "\xE2\x96\x81", 3) == 0;
        own[n] = mark ? ' ' : *p;
        p += mark ? 3 : 1;
    }
    own[n] = '\0';
    return strcmp(own, recorded) == 0;
}

/* Levenshtein's distance of the pieces, or numbers. */
static size_t distance(const steno_tokens *t, const struct result *r,
                       const struct steno_json_node *list)
{
    size_t row[MAX_TOKENS + 1], n = 0;
    const struct steno_json_node *e = list->first;
    for (size_t i = 0; i <= r->n; i++)
        row[i] = i;
    for (; e; e = e->next) {
        size_t left_up = n++;
        row[0] = n;
        for (size_t i = 1; i <= r->n; i++) {
            const bool same = e->kind == STENO_JSON_NUMBER
                                  ? atoi(e->text) == r->ids[i - 1]
                                  : same_piece(steno_tokens_piece(t, r->ids[i - 1]), e->text);
            size_t best = left_up + !same;
            if (row[i] + 1 < best)
                best = row[i] + 1;
            if (row[i - 1] + 1 < best)
                best = row[i - 1] + 1;
            left_up = row[i];
            row[i] = best;
        }
    }
    return row[r->n];
}

/* "<|NEUTRAL|>" of the recording is "neutral" here. */
static bool same_tag(const char *own, const char *recorded)
{
    const size_t n = strlen(own);
    return strlen(recorded) == n + 4 && strncmp(recorded, "<|", 2) == 0 &&
           strncasecmp(recorded + 2, own, n) == 0;
}

/* list: of times in units of `unit` s. */
static bool same_times(const struct result *r, const struct steno_json_node *list, double unit,
                       double frame)
{
    size_t i = 0;
    for (const struct steno_json_node *e = list->first; e; e = e->next, i++)
        if (i >= r->n || fabs(r->starts[i] - unit * strtod(e->text, NULL)) > frame + 1e-3)
            return false;
    return i == r->n;
}

/* Drop the first k tokens of a result. */
static void drop(struct result *r, size_t k)
{
    memmove(r->ids, r->ids + k, (r->n - k) * sizeof *r->ids);
    memmove(r->starts, r->starts + k, (r->n - k) * sizeof *r->starts);
    r->n -= k;
}

/* Leave every token of that piece out. */
static void leave_out(const steno_tokens *t, const char *piece, struct result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(steno_tokens_piece(t, r->ids[i]), piece) != 0)
            r->ids[n++] = r->ids[i];
    r->n = n;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The text without marks, and with one blank where there are several. The caller frees it. */
static char *without_marks(const char *text)
{
    char *out = strdup(text + strspn(text, " ")), *to = out;
    assert_non_null(out);
    for (const char *p = out; *p;) {
        const char *end = *p == '<' ? strchr(p, '>') : NULL;
        if (end && end > p + 1 && strcspn(p + 1, "< ") > (size_t)(end - p - 1))
            p = end + 1;
        else if (*p == ' ' && to > out && to[-1] == ' ')
            p++;
        else
            *to++ = *p++;
    }
    *to = '\0';
    while (to > out && to[-1] == ' ')
        *--to = '\0';
    memmove(out, out + strspn(out, " "), strlen(out + strspn(out, " ")) + 1);
    return out;
}

static bool same_text(const struct zoo_run *z, const char *own, const char *recorded)
{
    char *text = without_marks(recorded);
    const bool same = strcmp(own, z->marks ? text : recorded) == 0;
    free(text);
    return same;
}

static bool check_row(const struct zoo_run *z, const steno_tokens *t, double frame,
                      struct result *r, const struct steno_json_node *row, struct zoo_count *out)
{
    const struct steno_json_node *ids = z->left_out ? steno_json_get(row, "ids") : NULL;
    const struct steno_json_node *tokens = ids ? ids : steno_json_get(row, "tokens");
    const bool times = z->times && (ids || !z->left_out);
    const char *text = text_of(row, "text"), *lang = text_of(row, "lang");
    size_t more, far;
    if (z->left_out && !ids)
        leave_out(t, z->left_out, r);
    more = r->n > tokens->n ? r->n - tokens->n : 0;
    far = distance(t, r, tokens);
    text += strspn(text, " ");
    out->tokens += tokens->n;
    if (far && more && more == far && more <= z->dropped) {
        drop(r, more);
        far = distance(t, r, tokens);
        out->more += !far;
        lang = NULL; /* the tags moved too */
    }
    out->edits += far;
    if (far)
        fprintf(stderr, "# %s, %s, %s: %zu edits in %zu tokens\n#   %s\n#   %s\n", z->dir, z->set,
                row->key, far, tokens->n, r->text, text);
    else if (more && !z->marks ? !ends_with(r->text, text) : !same_text(z, r->text, text))
        fprintf(stderr, "# %s, %s: text '%s'\n#   expected '%s'\n", z->dir, row->key, r->text,
                text);
    else if (times && !same_times(r, steno_json_get(row, ids ? "frames" : "timestamps"),
                                  ids ? frame : 1, frame))
        fprintf(stderr, "# %s, %s: times differ\n", z->dir, row->key);
    else if (lang && ((z->language ? strcmp(r->language, z->language) != 0
                                   : !same_tag(r->language, lang)) ||
                      !same_tag(r->emotion, text_of(row, "emotion")) ||
                      !same_tag(r->sound, text_of(row, "event"))))
        fprintf(stderr, "# %s, %s: tags %s %s %s\n", z->dir, row->key, r->language, r->emotion,
                r->sound);
    else
        return true;
    return false;
}

static void check_rows(const struct zoo_run *z, steno_model *m, const steno_tokens *t,
                       const struct steno_json_node *set, struct zoo_count *out)
{
    struct steno_model_info info;
    steno_model_get_info(m, &info);
    for (const struct steno_json_node *row = set->first; row; row = row->next) {
        static struct result r;
        size_t n = 0;
        float *pcm = zoo_recording(row->key, 0, z->silence, &n);
        out->rows++;
        if (!pcm)
            fprintf(stderr, "# %s: no recording\n", row->key);
        else if (run(z, m, pcm, n, &r))
            out->equal += check_row(z, t, info.frame_seconds, &r, row, out);
        free(pcm);
    }
}

struct zoo_count zoo_check(const struct zoo_run *z)
{
    struct zoo_count out = {0};
    char rel[512], *dir, *json, *tokens;
    steno_json *j = NULL;
    steno_tokens *t = NULL;
    steno_model *m = NULL;
    steno_err err = {0};
    steno_status st;
    const struct steno_model_options o = {
        .threads = 1, .precision = z->precision, .options = z->options, .n_options = z->n_options};
    snprintf(rel, sizeof rel, "zoo/tiny/%s", z->dir);
    dir = z->dir[0] == '/' ? strdup(z->dir) : shared_path(rel);
    snprintf(rel, sizeof rel, "zoo/tiny/%s/decode.json", z->of ? z->of : z->dir);
    json = shared_path(rel);
    snprintf(rel, sizeof rel, "zoo/tiny/%s/tokens.txt", z->of ? z->of : z->dir);
    tokens = shared_path(rel);
    if (access(json, R_OK)) {
        fprintf(stderr, "# %s is not there\n", json);
        free(dir);
        free(json);
        free(tokens);
        skip();
    }
    st = steno_json_open(&j, json, &err);
    if (!st)
        st = steno_moonshine_tokens_open(&t, tokens, &err);
    if (!st)
        st = steno_model_open(&m, dir, &o, &err);
    if (st) {
        fprintf(stderr, "# %s\n", err.msg);
        out.rows = out.edits = 1;
    } else {
        check_rows(z, m, t, steno_json_get(steno_json_get(steno_json_root(j), "sets"), z->set),
                   &out);
    }
    fprintf(stderr,
            "# %s, %s: %zu of %zu rows equal (%zu with dropped tokens), %zu edits in %zu tokens\n",
            z->dir, z->set, out.equal, out.rows, out.more, out.edits, out.tokens);
    steno_model_close(m);
    steno_tokens_close(t);
    steno_json_close(j);
    free(dir);
    free(json);
    free(tokens);
    assert_true(out.rows > 0);
    return out;
}
