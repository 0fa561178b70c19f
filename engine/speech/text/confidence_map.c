#include "speech/text/confidence_map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/path.h"

#define MAX_FILE 65536

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_share(const struct steno_json_node *n, float *out)
{
    if (!n || n->kind != STENO_JSON_NUMBER)
        return false;
    *out = strtof(n->text, NULL);
    return *out >= 0 && *out <= 1;
}

/* Read a knot, behind the last one. What is wrong with it; NULL: nothing. */
static const char *read_knot(struct steno_confidence_map *m, const struct steno_json_node *n)
{
    struct steno_confidence_knot k, last = {-1, STENO_CONFIDENCE_LEAST};
    if (m->n == STENO_CONFIDENCE_KNOTS)
        return "there are more than 16 knots";
    if (n->kind != STENO_JSON_LIST || n->n != 2 || !read_share(n->first, &k.from) ||
        !read_share(n->first->next, &k.to))
        return "a knot is two numbers of 0 to 1";
    if (m->n)
        last = m->knot[m->n - 1];
    if (!(k.from > last.from))
        return "the first numbers of the knots must rise";
    if (!(k.to >= last.to))
        return m->n ? "the second numbers of the knots must not fall"
                    : "the second number of a knot is 0.001 at least";
    m->knot[m->n++] = k;
    return NULL;
}

steno_status steno_confidence_map_read(struct steno_confidence_map *m,
                                       const struct steno_json_node *root, const char *name,
                                       steno_err *err)
{
    const struct steno_json_node *knots = steno_json_get(root, "knots"), *at = knots ? knots : root;
    const struct steno_json_node *language = steno_json_get(root, "language");
    const char *wrong = NULL;
    *m = (struct steno_confidence_map){0};
    if (!knots || knots->kind != STENO_JSON_LIST || !knots->n || root->n != 1 + (language != NULL))
        wrong = "an object with the list 'knots' and perhaps 'language' is expected";
    else if (language &&
             (language->kind != STENO_JSON_STRING || strlen(language->text) >= sizeof m->language))
        wrong = "'language' is a code such as \"en\"";
    else if (language)
        snprintf(m->language, sizeof m->language, "%s", language->text);
    for (const struct steno_json_node *n = wrong ? NULL : knots->first; n && !wrong; n = n->next) {
        at = n;
        wrong = read_knot(m, n);
    }
    return wrong ? steno_fail(err, STENO_ERR_FORMAT, "%s: line %zu: %s", name, at->line, wrong)
                 : STENO_OK;
}

steno_status steno_confidence_map_parse(struct steno_confidence_map *out, const char *bytes,
                                        size_t n, const char *name, steno_err *err)
{
    steno_json *json = NULL;
    steno_status st = steno_json_parse(&json, bytes, n, name, err);
    if (st)
        return st;
    st = steno_confidence_map_read(out, steno_json_root(json), name, err);
    steno_json_close(json);
    return st;
}

steno_status steno_confidence_map_open(struct steno_confidence_map *out, const char *dir,
                                       steno_err *err)
{
    char *path, *bytes = NULL;
    size_t n = 0;
    steno_status st;
    *out = (struct steno_confidence_map){0};
    if (!steno_path_readable(dir, STENO_CONFIDENCE_FILE))
        return STENO_OK;
    path = steno_path_join(dir, STENO_CONFIDENCE_FILE);
    st = path ? steno_file_read(path, MAX_FILE, &bytes, &n, err)
              : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    if (!st)
        st = steno_confidence_map_parse(out, bytes, n, path, err);
    free(bytes);
    free(path);
    return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

static steno_status write_map(const struct steno_confidence_map *m, struct steno_buf *out)
{
    steno_status st = steno_buf_puts(out, "{\"knots\": [");
    for (size_t i = 0; i < m->n && !st; i++)
        st = steno_buf_printf(out, "%s[%.9g, %.4f]", i ? ", " : "", (double)m->knot[i].from,
                              (double)m->knot[i].to);
    if (!st && *m->language)
        return steno_buf_printf(out, "], \"language\": \"%s\"}\n", m->language);
    return st ? st : steno_buf_puts(out, "]}\n");
}

steno_status steno_confidence_map_store(const struct steno_confidence_map *m, const char *dir,
                                        steno_err *err)
{
    char *path = steno_path_join(dir, STENO_CONFIDENCE_FILE);
    struct steno_buf text;
    steno_status st;
    steno_buf_init(&text, MAX_FILE);
    st = !path || write_map(m, &text)
             ? steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir)
             : steno_atomic_file_write(path, text.data, text.len, 0644, true, err);
    steno_buf_free(&text);
    free(path);
    return st;
}

/* ---- mapping --------------------------------------------------------------------------------- */

float steno_confidence_map_of(const struct steno_confidence_map *m, float confidence)
{
    const struct steno_confidence_knot *a, *b;
    size_t i = 0;
    if (!m || !m->n)
        return confidence;
    while (i < m->n && m->knot[i].from < confidence)
        i++;
    if (!i || i == m->n)
        return m->knot[i ? i - 1 : 0].to;
    a = &m->knot[i - 1];
    b = &m->knot[i];
    return fminf(b->to, a->to + (b->to - a->to) * (confidence - a->from) / (b->from - a->from));
}
