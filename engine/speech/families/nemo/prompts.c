#include "speech/families/nemo/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "formats/json.h"
#include "speech/families/common/metadata.h"

#define KEY 16        /* bytes of a normalised language, with the NUL */
#define AUTOMATIC 101 /* the number where the metadata has none, as in sherpa-onnx */

struct steno_nemo_prompt {
    char key[KEY]; /* "de-de" */
    int64_t number;
};

/* In small letters, with '-' before the region. False: too long for a language. */
static bool normalise(const char *language, char out[KEY])
{
    const size_t n = strlen(language);
    if (n >= KEY)
        return false;
    for (size_t i = 0; i <= n; i++) {
        const char c = language[i];
        out[i] = c == '_' ? '-' : steno_to_small(c);
    }
    return true;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct steno_nemo_prompt *)a)->key,
                  ((const struct steno_nemo_prompt *)b)->key);
}

static bool is_code(const char *key, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (key[i] < 'a' || key[i] > 'z')
            return false;
    return n == 2 || n == 3;
}

/* The codes of a sorted list, each once. */
static void list_languages(struct steno_nemo_prompts *p)
{
    size_t len = 0, last = 0;
    for (size_t i = 0; i < p->n; i++) {
        const char *key = p->list[i].key;
        const size_t n = strcspn(key, "-");
        if (!is_code(key, n) || len + n + 2 > sizeof p->languages ||
            (len && len - last == n && memcmp(p->languages + last, key, n) == 0))
            continue;
        if (len)
            p->languages[len++] = ' ';
        last = len;
        memcpy(p->languages + len, key, n);
        len += n;
    }
}

static steno_status read_dictionary(struct steno_nemo_prompts *p, const struct steno_json_node *o,
                                    const char *file, steno_err *err)
{
    if (o->kind != STENO_JSON_OBJECT)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: metadata prompt_dictionary is no object",
                          file);
    p->list = calloc(o->n + 1, sizeof *p->list);
    if (!p->list)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", file);
    for (const struct steno_json_node *e = o->first; e; e = e->next) {
        struct steno_nemo_prompt *to = &p->list[p->n];
        if (!normalise(e->key, to->key) ||
            !steno_json_int(e, 0, STENO_NEMO_PROMPTS - 1, &to->number))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: metadata prompt_dictionary: '%.40s' is '%.20s', expected a "
                              "language and a number below %d",
                              file, e->key, e->text ? e->text : "", STENO_NEMO_PROMPTS);
        if (strcmp(to->key, "auto") == 0)
            p->automatic = to->number;
        p->highest = to->number > p->highest ? to->number : p->highest;
        p->n++;
    }
    qsort(p->list, p->n, sizeof *p->list, by_key);
    list_languages(p);
    return STENO_OK;
}

steno_status steno_nemo_prompts_parse(struct steno_nemo_prompts *p, const char *dictionary,
                                      int64_t automatic, const char *file, steno_err *err)
{
    steno_json *j = NULL;
    steno_status st = STENO_OK;
    *p = (struct steno_nemo_prompts){.automatic = automatic};
    if (dictionary)
        st = steno_json_parse(&j, dictionary, strlen(dictionary), file, err);
    if (!st && j)
        st = read_dictionary(p, steno_json_root(j), file, err);
    steno_json_close(j);
    if (!st && p->automatic > p->highest)
        p->highest = p->automatic;
    return st;
}

steno_status steno_nemo_prompts_read(struct steno_nemo_prompts *p, const steno_onnx_head *h,
                                     const char *file, steno_err *err)
{
    int64_t automatic = AUTOMATIC;
    const struct steno_metadata_number want = {"auto_prompt_id", 0, STENO_NEMO_PROMPTS - 1,
                                               &automatic, false};
    steno_status st;
    *p = (struct steno_nemo_prompts){0};
    st = steno_metadata_read(h, &want, 1, file, err);
    return st ? st
              : steno_nemo_prompts_parse(p, steno_onnx_head_meta(h, "prompt_dictionary"), automatic,
                                         file, err);
}

void steno_nemo_prompts_free(struct steno_nemo_prompts *p)
{
    free(p->list);
    *p = (struct steno_nemo_prompts){0};
}

int64_t steno_nemo_prompts_find(const struct steno_nemo_prompts *p, const char *language)
{
    char key[KEY];
    const struct steno_nemo_prompt *first = NULL;
    size_t n;
    if (!language || !normalise(language, key))
        return p->automatic;
    n = strlen(key);
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->list[i].key, key) == 0)
            return p->list[i].number;
        if (!first && n && strncmp(p->list[i].key, key, n) == 0 && p->list[i].key[n] == '-')
            first = &p->list[i];
    }
    return first ? first->number : p->automatic;
}

bool steno_nemo_prompts_is_mark(const char *piece)
{
    size_t n = 1;
    if (*piece != '<')
        return false;
    while (piece[n] >= 'a' && piece[n] <= 'z')
        n++;
    if (n < 3 || n > 4)
        return false;
    if (piece[n] == '-' && piece[n + 1] >= 'A' && piece[n + 1] <= 'Z' && piece[n + 2] >= 'A' &&
        piece[n + 2] <= 'Z')
        n += 3;
    return strcmp(piece + n, ">") == 0;
}
