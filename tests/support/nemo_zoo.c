#include "tests/support/nemo_zoo.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/zoo.h"

/* ---- runs ------------------------------------------------------------------------------------ */

struct audio nemo_audio(const char *name, double seconds, double silence)
{
    struct audio a = {0};
    a.pcm = zoo_recording(name, seconds, silence, &a.n);
    return a;
}

static char *path_of(const struct set *s, const char *file)
{
    const char *base = getenv("STENO_SHARED");
    static char path[1024];
    snprintf(path, sizeof path, "%s/zoo/tiny/%s%s%s%s%s", base ? base : "../shared", s->dir,
             *s->part ? "/" : "", s->part, *file ? "/" : "", file);
    return path;
}

static char *join(const char *dir, const char *file)
{
    const size_t n = strlen(dir) + strlen(file) + 2;
    char *p = malloc(n);
    assert_non_null(p);
    snprintf(p, n, "%s/%s", dir, file);
    return p;
}

const struct steno_option *nemo_options(const struct set *s, size_t *n)
{
    static struct steno_option o[4];
    *n = 0;
    o[(*n)++] = (struct steno_option){"frontend", s->sherpa ? "sherpa" : "model"};
    if (s->penalty)
        o[(*n)++] = (struct steno_option){"blank_penalty", s->penalty};
    return o;
}

steno_model *nemo_open_model(const struct set *s, const char *dir)
{
    struct steno_model_options o = {.threads = 1,
                                    .precision = s->automatic ? STENO_AUTO_WEIGHTS : STENO_FP32};
    steno_model *m = NULL;
    steno_err err;
    o.options = nemo_options(s, &o.n_options);
    if (steno_model_open(&m, dir, &o, &err))
        fail_msg("%s", err.msg);
    return m;
}

steno_stream *nemo_open_stream(steno_model *m, const struct set *s)
{
    struct steno_option options[3];
    struct steno_stream_options o = {.sample_rate = RATE,
                                     .no_endpointing = true,
                                     .no_partials = true,
                                     .beam = s->beam,
                                     .hints = {.language = s->source, .hotwords = s->hotwords},
                                     .options = options};
    steno_stream *t = NULL;
    steno_err err;
    if (s->target)
        options[o.n_options++] = (struct steno_option){"target_language", s->target};
    if (s->modified)
        options[o.n_options++] = (struct steno_option){"modified_beam", "yes"};
    if (s->hotwords_score)
        options[o.n_options++] = (struct steno_option){"hotwords_score", s->hotwords_score};
    if (steno_stream_open(&t, m, &o, &err))
        fail_msg("%s", err.msg);
    return t;
}

void nemo_take_finals(steno_stream *s, struct result *r)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev)) {
        if (ev.kind != STENO_FINAL)
            continue;
        for (size_t i = 0; i < ev.n_tokens && r->n < MAX_TOKENS; i++)
            r->t[r->n++] = (struct token){ev.tokens[i].id, ev.tokens[i].start, ev.tokens[i].end};
        snprintf(r->text + strlen(r->text), sizeof r->text - strlen(r->text), "%s", ev.text);
    }
}

void nemo_decode(steno_model *m, const struct set *set, const struct audio *a, size_t piece,
                 struct result *r)
{
    steno_stream *s = nemo_open_stream(m, set);
    const size_t each = piece ? piece : a->n;
    steno_err err;
    memset(r, 0, sizeof *r);
    for (size_t at = 0; at < a->n; at += each) {
        if (steno_stream_push(s, a->pcm + at, a->n - at < each ? a->n - at : each, &err))
            fail_msg("%s", err.msg);
        nemo_take_finals(s, r);
    }
    if (steno_stream_end(s, &err))
        fail_msg("%s", err.msg);
    nemo_take_finals(s, r);
    steno_stream_close(s);
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* sherpa-onnx shows SentencePiece's mark as a space. */
static const char *spell(const steno_tokens *t, int32_t id)
{
    static char out[STENO_TOKENS_MAX_PIECE + 1];
    size_t n = 0;
    for (const char *p = steno_tokens_piece(t, id); *p; n++) {
        const bool mark = strncmp(p, "\xE2\x96\x81", 3) == 0;
        out[n] = mark ? ' ' : *p;
        p += mark ? 3 : 1;
    }
    out[n] = '\0';
    return out;
}

/* An entry of a list of pieces, or of ids. */
static bool is_token(const steno_tokens *t, int32_t id, const struct steno_json_node *e)
{
    return e->kind == STENO_JSON_NUMBER ? atoi(e->text) == id : strcmp(spell(t, id), e->text) == 0;
}

/* Levenshtein's distance between the tokens and a list of pieces or ids. sherpa-onnx leaves out the
 * piece `unknown`. */
static size_t distance(const steno_tokens *t, const struct result *r, int32_t unknown,
                       const struct steno_json_node *list)
{
    static size_t d[MAX_TOKENS + 1];
    const struct steno_json_node *row[MAX_TOKENS];
    size_t n = 0;
    for (const struct steno_json_node *e = list->first; e && n < MAX_TOKENS; e = e->next)
        row[n++] = e;
    for (size_t k = 0; k <= n; k++)
        d[k] = k;
    for (size_t i = 0; i < r->n; i++) {
        size_t diagonal = d[0];
        if (r->t[i].id == unknown)
            continue;
        d[0]++;
        for (size_t k = 1; k <= n; k++) {
            const size_t up = d[k];
            size_t best = diagonal + (!is_token(t, r->t[i].id, row[k - 1]));
            best = up + 1 < best ? up + 1 : best;
            best = d[k - 1] + 1 < best ? d[k - 1] + 1 : best;
            d[k] = best;
            diagonal = up;
        }
    }
    return d[n];
}

/* Times within a frame. Ours do not reach over the end of the audio. */
static bool same_times(const struct result *r, const struct steno_json_node *row, double end,
                       double frame, double scale)
{
    const struct steno_json_node *starts = steno_json_get(row, "timestamps");
    const struct steno_json_node *lasting = steno_json_get(row, "durations"), *d;
    size_t i = 0;
    if (!starts->n)
        return true;
    d = lasting ? lasting->first : NULL;
    for (const struct steno_json_node *e = starts->first; e; e = e->next, i++) {
        const double start = strtod(e->text, NULL) * scale;
        const double last = start + (d ? strtod(d->text, NULL) : 0);
        if (i >= r->n || fabs(r->t[i].start - start) > frame + 1e-3 ||
            (d && fabs(r->t[i].end - fmin(last, end)) > frame + 1e-3))
            return false;
        d = d ? d->next : NULL;
    }
    return i == r->n;
}

/* Leave out spaces, and <unk>, which we do not write. */
static void no_spaces(char *s)
{
    char *to = s;
    while (*s) {
        const bool unknown = strncmp(s, "<unk>", 5) == 0;
        if (*s != ' ' && !unknown)
            *to++ = *s;
        s += unknown ? 5 : 1;
    }
    *to = '\0';
}

static bool same_text(const struct result *r, const struct steno_json_node *row)
{
    char a[8192], b[8192];
    snprintf(a, sizeof a, "%s", r->text);
    snprintf(b, sizeof b, "%s", steno_json_get(row, "text")->text);
    no_spaces(a);
    no_spaces(b);
    return strcmp(a, b) == 0;
}

/* What ONNX Runtime gives for a row on a CPU like ours; NULL: not recorded. */
static const struct steno_json_node *own_row(const struct set *s, const char *name)
{
    static steno_json *j;
    char key[128];
    if (!j)
        assert_int_equal(steno_json_open(&j, "tests/data/nemo/int8.json", NULL), STENO_OK);
    snprintf(key, sizeof key, "%s%s%s", s->dir, *s->part ? "/" : "", s->part);
    return steno_json_get(steno_json_get(steno_json_root(j), key), name);
}

void nemo_compare(const struct set *s, const steno_tokens *t, struct result *r,
                  const struct steno_json_node *row, double end, struct count *c)
{
    const struct steno_json_node *list = steno_json_get(row, s->ids ? "ids" : "tokens");
    const int32_t unknown = s->writes_unknown || s->ids ? -1 : steno_tokens_find(t, "<unk>");
    const struct steno_json_node *own = s->int8 && row->key ? own_row(s, row->key) : NULL;
    size_t far = distance(t, r, unknown, list);
    const double frame = s->frame > 0 ? s->frame : 0.08;
    const bool times = same_times(r, row, end, frame, s->step > 0 ? frame / s->step : 1);
    c->rows++;
    if (far && own && distance(t, r, -1, own) < far) {
        print_message("# %s, %s, %s: %zu edits against ONNX Runtime on another CPU\n", s->dir,
                      s->name, row->key, far);
        far = distance(t, r, -1, own);
        c->own += !far;
        if (!far) {
            c->tokens += own->n;
            return;
        }
    }
    if (!s->int8 || s->calm || own || steno_json_get(row, "ids")) {
        c->tokens += list->n;
        c->edits += far;
    }
    if (!far && times && same_text(r, row))
        c->equal++;
    else
        print_message("# %s, %s, %s: %zu edits in %zu tokens%s\n#   is   %.120s\n#   want %.120s\n",
                      s->dir, s->name, row->key ? row->key : "a segment", far, list->n,
                      times ? "" : ", other times", r->text, steno_json_get(row, "text")->text);
}

void nemo_spell_text(const steno_tokens *t, struct result *r)
{
    r->text[0] = '\0';
    for (size_t i = 0; i < r->n; i++)
        if (!(steno_tokens_flags(t, r->t[i].id) & STENO_TOKEN_DROP) &&
            strcmp(steno_tokens_piece(t, r->t[i].id), "<unk>") != 0)
            snprintf(r->text + strlen(r->text), sizeof r->text - strlen(r->text), "%s",
                     spell(t, r->t[i].id));
}

bool nemo_open_rows(const struct set *s, steno_json **j, steno_tokens **t,
                    const struct steno_json_node **rows)
{
    char *path = path_of(&(struct set){.dir = s->dir, .part = ""}, "decode.json");
    if (access(path, R_OK)) {
        print_message("# %s is not there\n", path);
        return false;
    }
    assert_int_equal(steno_json_open(j, path, NULL), STENO_OK);
    path = path_of(&(struct set){.dir = s->dir, .part = ""}, "tokens.txt");
    if (access(path, R_OK))
        path = path_of(&(struct set){.dir = s->dir, .part = ""}, "vocab.txt");
    assert_int_equal(steno_tokens_open(t, path, NULL), STENO_OK);
    *rows = steno_json_get(steno_json_root(*j), s->group ? s->group : "sets");
    *rows = steno_json_get(*rows, s->name);
    assert_non_null(*rows);
    return true;
}

static char links[] = "/tmp/steno-nemo-zoo-XXXXXX";

static void link_file(const char *dir, const struct set *s, const char *file, const char *name)
{
    char *to = join(dir, name), *from = realpath(path_of(s, file), NULL);
    assert_non_null(from);
    assert_int_equal(symlink(from, to), 0);
    free(from);
    free(to);
}

/* Whether the folder has this network in 8 bits too. */
static bool in_8_bits(const struct set *s, const char *file)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s.int8.onnx", (int)(strstr(file, ".onnx") - file), file);
    return access(path_of(s, name), R_OK) == 0;
}

const char *nemo_link(const struct set *s)
{
    static char dir[sizeof links];
    DIR *d = opendir(path_of(s, ""));
    const struct dirent *e;
    if (!d) /* the recorded data are not there */
        skip();
    memcpy(dir, links, sizeof links);
    assert_non_null(mkdtemp(dir));
    while ((e = readdir(d))) {
        const bool network = strstr(e->d_name, ".onnx"), int8 = strstr(e->d_name, ".int8.");
        if (e->d_name[0] == '.' ||
            (network && int8 != s->int8 && (int8 || in_8_bits(s, e->d_name))))
            continue;
        link_file(dir, s, e->d_name, e->d_name);
    }
    closedir(d);
    if (*s->part) { /* README there: some networks are those of the folder above */
        const struct set above = {.dir = s->dir, .part = ""};
        if (!s->above[0][0])
            link_file(dir, &above, s->int8 ? "encoder.int8.onnx" : "encoder.onnx",
                      s->int8 ? "encoder-model.int8.onnx" : "encoder-model.onnx");
        for (size_t i = 0; i < 2 && s->above[i][0]; i++)
            link_file(dir, &above, s->above[i][0], s->above[i][1]);
    }
    return dir;
}

void nemo_unlink(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    assert_non_null(d);
    while ((e = readdir(d)))
        if (e->d_name[0] != '.') {
            char *path = join(dir, e->d_name);
            assert_int_equal(unlink(path), 0);
            free(path);
        }
    closedir(d);
    assert_int_equal(rmdir(dir), 0);
}
