/* steno model calibrate: how far a model's confidences are from the truth, and the map that brings
 * them there (speech/text/confidence_map.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <utf8proc.h>

#include "base/arena.h"
#include "base/english.h"
#include "base/file.h"
#include "speech/recognizer/model.h"
#include "tools/cli/confidence_fit.h"
#include "tools/cli/options.h"
#include "tools/cli/recordings.h"
#include "tools/cli/store.h"
#include "tools/cli/word_match.h"

#define MAX_LIST ((size_t)64 << 20)

static const char usage[] =
    "Usage: steno model calibrate [OPTION]... MODEL LIST\n"
    "Compares the confidences of a model's words with the words that are right. Each line of the\n"
    "file LIST is a recording, a tab and what is said in it.\n";

struct calibration {
    const char *language, *cpu;
    long threads;
    int precision;
    bool write;
    steno_model *m;
    struct confidence_sample *sample;
    size_t n, cap;
    long recordings, words, edits; /* words: of the known texts */
};

/* ---- words ----------------------------------------------------------------------------------- */

/* A text as words that can be compared: small letters, without marks, digits one by one. */
struct said {
    steno_arena *arena;
    size_t n;
    char *word[WORD_MATCH_MOST];
    float confidence[WORD_MATCH_MOST];
};

static bool is_in_word(utf8proc_int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NO;
}

static steno_status put_word(struct said *s, const char *word, size_t *n, float confidence,
                             steno_err *err)
{
    if (!*n)
        return STENO_OK;
    if (s->n == WORD_MATCH_MOST)
        return steno_fail(err, STENO_ERR_LIMIT, "there are more than %d words", WORD_MATCH_MOST);
    s->word[s->n] = steno_arena_strndup(s->arena, word, *n);
    s->confidence[s->n] = confidence;
    *n = 0;
    return s->word[s->n++] ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

static steno_status put_text(struct said *s, const char *text, float confidence, steno_err *err)
{
    char *word = steno_arena_alloc(s->arena, 2 * strlen(text) + STENO_EN_WORD);
    size_t n = 0;
    steno_status st = word ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    while (!st && *text) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &c);
        const bool inner = k > 0 && is_in_word(c), digit = inner && c >= '0' && c <= '9';
        const bool alone = digit || (inner && steno_tokens_apart(c));
        text += k > 0 ? k : 1;
        if (c == '\'' || c == 0x2019) /* "it's" is "its" */
            continue;
        if (!inner || alone)
            st = put_word(s, word, &n, confidence, err);
        if (digit)
            n = (size_t)snprintf(word, STENO_EN_WORD, "%s", steno_english_digit(c - '0'));
        else if (inner)
            n += (size_t)utf8proc_encode_char(utf8proc_tolower(c), (utf8proc_uint8_t *)word + n);
        if (alone && !st)
            st = put_word(s, word, &n, confidence, err);
    }
    return st ? st : put_word(s, word, &n, confidence, err);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static steno_status take_finals(steno_stream *s, struct said *out, steno_err *err)
{
    struct steno_event ev;
    steno_status st = STENO_OK;
    while (!st && steno_stream_next(s, &ev))
        for (size_t i = 0; !st && ev.kind == STENO_FINAL && i < ev.n_words; i++)
            st = put_text(out, ev.words[i].text, ev.words[i].confidence, err);
    return st;
}

static steno_status recognize(struct calibration *c, const char *path, struct said *out,
                              steno_err *err)
{
    struct steno_stream_options so = steno_stream_options_default();
    struct steno_recording_info info;
    steno_recording *r = NULL;
    steno_stream *s = NULL;
    steno_status st = steno_recording_open(&r, path, 0, err);
    const bool named = st != STENO_OK;
    if (!st) {
        steno_recording_get_info(r, &info);
        so.sample_rate = info.sample_rate;
        so.no_partials = true;
        so.hints.language = c->language;
        st = steno_stream_open(&s, c->m, &so, err);
    }
    if (!st)
        st = recordings_push(r, s, err);
    if (!st)
        st = take_finals(s, out, err);
    steno_stream_close(s);
    steno_recording_close(r);
    return st && !named ? steno_fail_in(err, st, "%s", path) : st;
}

static steno_status add_samples(struct calibration *c, const struct said *heard,
                                const struct said *known, steno_err *err)
{
    bool right[WORD_MATCH_MOST];
    const long edits = word_match(heard->word, heard->n, known->word, known->n, right);
    void *more = c->sample;
    if (edits >= 0 && c->n + heard->n > c->cap) {
        c->cap = 2 * (c->n + heard->n);
        more = realloc(c->sample, c->cap * sizeof *c->sample);
    }
    if (edits < 0 || (!more && heard->n))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    c->sample = more;
    for (size_t i = 0; i < heard->n; i++)
        c->sample[c->n++] =
            (struct confidence_sample){heard->confidence[i], right[i], c->recordings % 2};
    c->recordings++;
    c->words += (long)known->n;
    c->edits += edits;
    return STENO_OK;
}

static steno_status compare_recording(struct calibration *c, const char *path, const char *text,
                                      steno_err *err)
{
    struct said *two = calloc(2, sizeof *two);
    steno_status st = STENO_OK;
    for (int k = 0; two && k < 2; k++)
        two[k].arena = steno_arena_new(0);
    if (!two || !two[0].arena || !two[1].arena)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = put_text(&two[1], text, 0, err);
    if (!st)
        st = recognize(c, path, &two[0], err);
    if (!st)
        st = add_samples(c, &two[0], &two[1], err);
    for (int k = 0; two && k < 2; k++)
        steno_arena_free(two[k].arena);
    free(two);
    return st;
}

static steno_status compare_list(struct calibration *c, const char *name, steno_err *err)
{
    char *list = NULL, *save = NULL;
    size_t n = 0;
    steno_status st = steno_file_read(name, MAX_LIST, &list, &n, err);
    for (char *line = st ? NULL : strtok_r(list, "\r\n", &save); line && !st;
         line = strtok_r(NULL, "\r\n", &save)) {
        char *tab = strchr(line, '\t');
        if (!tab)
            st =
                steno_fail(err, STENO_ERR_FORMAT,
                           "%s: a line has no tab between recording and text: '%.60s'", name, line);
        else
            *tab = '\0';
        if (!st)
            st = compare_recording(c, line, tab + 1, err);
    }
    free(list);
    return !st && !c->recordings ? steno_fail(err, STENO_ERR_FORMAT, "%s: it has no line", name)
                                 : st;
}

/* ---- the report ------------------------------------------------------------------------------ */

/* The error of each half of the recordings with the map of the other one. */
static steno_status crosswise_error(const struct calibration *c, double *out, steno_err *err)
{
    struct confidence_sample *half[2] = {calloc(c->n + 1, sizeof **half),
                                         calloc(c->n + 1, sizeof **half)};
    struct steno_confidence_map map;
    size_t n[2] = {0};
    steno_status st =
        half[0] && half[1] ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    *out = 0;
    for (size_t i = 0; i < c->n && !st; i++)
        half[c->sample[i].second][n[c->sample[i].second]++] = c->sample[i];
    for (int k = 0; k < 2 && !st; k++) {
        st = confidence_fit(half[!k], n[!k], &map, err);
        if (!st)
            *out += confidence_error(half[k], n[k], &map) * (double)n[k] / (double)c->n;
    }
    free(half[0]);
    free(half[1]);
    return st;
}

static void print_measures(const struct calibration *c, double error)
{
    double confidence = 0, right = 0;
    const double n = fmax(1, (double)c->n);
    for (size_t i = 0; i < c->n; i++) {
        confidence += (double)c->sample[i].confidence;
        right += c->sample[i].right;
    }
    printf("%ld recordings, %zu words, %.1f %% of them right, mean confidence %.3f\n",
           c->recordings, c->n, 100 * right / n, confidence / n);
    printf("word error rate %.2f %% of %ld\n", 100 * (double)c->edits / fmax(1, (double)c->words),
           c->words);
    printf("calibration error %.3f, area under the curve ", error);
    if (right > 0 && right < (double)c->n)
        printf("%.3f\n", confidence_area(c->sample, c->n));
    else
        puts("none: all words are right, or all are wrong");
}

static int report(struct calibration *c, const struct steno_confidence_map *stored, steno_err *err)
{
    const char *language = c->language ? steno_language_code(c->language) : NULL;
    struct steno_confidence_map map;
    double before, crosswise;
    confidence_sort(c->sample, c->n);
    before = confidence_error(c->sample, c->n, NULL);
    print_measures(c, before);
    if (stored->n)
        printf("with the stored map %.3f\n", confidence_error(c->sample, c->n, stored));
    if (confidence_fit(c->sample, c->n, &map, err) || crosswise_error(c, &crosswise, err))
        return cli_fail(err);
    printf("with a map of the other half of the recordings %.3f, of all %.3f\n", crosswise,
           confidence_error(c->sample, c->n, &map));
    for (size_t i = 0; i < map.n; i++)
        printf("  %.3f -> %.3f\n", (double)map.knot[i].from, (double)map.knot[i].to);
    if (!c->write)
        return EX_OK;
    if (crosswise >= before) {
        fputs("steno: nothing was written: a map does not help the other half\n", stderr);
        return EX_DATAERR;
    }
    if (language)
        snprintf(map.language, sizeof map.language, "%s", language);
    return steno_confidence_map_store(&map, c->m->dir, err) ? cli_fail(err) : EX_OK;
}

static int calibrate(struct calibration *c, const char *model, const char *list)
{
    struct steno_model_options mo = steno_model_options_default();
    struct steno_confidence_map stored = {0};
    steno_err err = {0};
    steno_status st = STENO_OK;
    int rc = cli_readable(list);
    mo.threads = (int)c->threads;
    mo.cpu = c->cpu;
    mo.precision = (enum steno_precision)c->precision;
    if (rc == EX_OK)
        rc = cli_open_model(&c->m, NULL, model, &mo);
    if (rc == EX_OK) { /* words and confidences as the network has them */
        stored = c->m->confidence;
        c->m->confidence.n = 0;
        st = steno_model_use_grammars(c->m, "none", &err);
    }
    if (rc == EX_OK && !st)
        st = steno_model_use_punctuators(c->m, "none", &err);
    if (rc == EX_OK && !st)
        st = compare_list(c, list, &err);
    if (rc == EX_OK)
        rc = st ? cli_fail(&err) : report(c, &stored, &err);
    free(c->sample);
    steno_model_close(c->m);
    return rc;
}

int cli_calibrate(int argc, char **argv)
{
    struct calibration c = {.threads = 1, .precision = STENO_AUTO_WEIGHTS};
    const struct cli_option options[] = {
        {"--write", CLI_FLAG, NULL, &c.write, 0, 0,
         "write the map of all recordings into the model's directory, if maps of one half help "
         "the other"},
        {"--language", CLI_TEXT, "CODE", &c.language, 0, 0,
         "language of the recordings; a map that is written is for it alone"},
        {"--precision", CLI_CHOICE, CLI_PRECISIONS, &c.precision, 0, 0,
         "precision of the weights, auto by default"},
        {"--threads", CLI_NUMBER, "N", &c.threads, 1, 256, "threads of the engine (default 1)"},
        {"--cpu", CLI_TEXT, "LEVEL", &c.cpu, 0, 0, CLI_CPU_LEVELS},
        {0}};
    const char *args[2] = {NULL, NULL};
    int n = 0;
    const int rc = cli_parse(argc, argv, usage, options, args, 2, &n);
    if (rc)
        return rc;
    if (n < 2)
        return cli_usage("model calibrate: a model and a list are needed");
    return calibrate(&c, args[0], args[1]);
}
