/* Which files a grammar has. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "speech/itn/internal.h"

#define TAGGER "_itn_tagger.fst"
#define VERBALIZER "_itn_verbalizer.fst"
#define MAX_PATH 4096

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Read dir/tagger and dir/verbalizer. */
static steno_status read_pair(steno_itn *g, const char *dir, const char *tagger,
                              const char *verbalizer, steno_err *err)
{
    const char *names[] = {tagger, verbalizer};
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < 2; i++) {
        char *path = steno_path_join(dir, names[i]);
        const size_t n = g->stage.n;
        st = path ? steno_fst_read(&g->stage, path, err)
                  : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
        if (!st && g->stage.n != n + 1)
            st = steno_fail(err, STENO_ERR_FORMAT, "%s: more than one transducer", path);
        free(path);
    }
    g->tagged = true;
    return st;
}

/* Names made of a language and an ending, if there is such a file. */
static bool find_pair(const char *dir, const char *form_tagger, const char *form_verbalizer,
                      const char *language, char (*name)[MAX_PATH])
{
    const int n = (int)strcspn(language, "/"); /* no path of its own */
    snprintf(name[0], MAX_PATH, "%.*s%s", n < 32 ? n : 32, language, form_tagger);
    snprintf(name[1], MAX_PATH, "%.*s%s", n < 32 ? n : 32, language, form_verbalizer);
    return steno_path_readable(dir, name[0]);
}

/* ---- folders --------------------------------------------------------------------------------- */

struct listing {
    struct dirent **entry;
    int n;
};

static steno_status list_folder(const char *dir, struct listing *l, steno_err *err)
{
    l->n = scandir(dir, &l->entry, NULL, alphasort);
    return l->n >= 0 ? STENO_OK : steno_fail(err, STENO_ERR_IO, "%s: %s", dir, strerror(errno));
}

static void free_listing(struct listing *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->entry[i]);
    free(l->entry);
}

/* The language of the folder's only tagger. False: it has none, or several. */
static bool find_tagger(const struct listing *l, char (*name)[MAX_PATH])
{
    const char *found = NULL;
    for (int i = 0; i < l->n; i++)
        if (steno_path_ends(l->entry[i]->d_name, TAGGER)) {
            if (found)
                return false;
            found = l->entry[i]->d_name;
        }
    if (!found)
        return false;
    snprintf(name[0], MAX_PATH, "%s", found);
    snprintf(name[1], MAX_PATH, "%.*s%s", (int)(strlen(found) - strlen(TAGGER)), found, VERBALIZER);
    return true;
}

static bool is_fst(const char *name)
{
    return steno_path_ends(name, ".fst");
}

static bool is_far(const char *name)
{
    return steno_path_ends(name, ".far");
}

/* In a model's folder other transducers may lie, such as graphs of words. */
static bool is_rule(const char *name)
{
    return is_fst(name) && (!strncmp(name, "itn", 3) || !strncmp(name, "rule", 4));
}

static steno_status read_all(steno_itn *g, const char *dir, const struct listing *l,
                             bool (*wanted)(const char *name), steno_err *err)
{
    steno_status st = STENO_OK;
    for (int i = 0; !st && i < l->n; i++) {
        char *path = NULL;
        if (!wanted(l->entry[i]->d_name))
            continue;
        path = steno_path_join(dir, l->entry[i]->d_name);
        st = path ? steno_fst_read(&g->stage, path, err)
                  : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
        free(path);
    }
    return st;
}

/* A chain of the folder's transducers and archives, by name. */
static steno_status read_chain(steno_itn *g, const char *dir, const struct listing *l,
                               bool (*wanted)(const char *name), steno_err *err)
{
    steno_status st = read_all(g, dir, l, wanted, err);
    return st ? st : read_all(g, dir, l, is_far, err);
}

/* What a folder has where no name of a pair is known. */
static steno_status read_folder(steno_itn *g, const char *dir, char (*name)[MAX_PATH],
                                steno_err *err)
{
    struct listing l = {0};
    steno_status st = list_folder(dir, &l, err);
    if (st)
        return st;
    if (find_tagger(&l, name))
        st = read_pair(g, dir, name[0], name[1], err);
    else
        st = read_chain(g, dir, &l, is_fst, err);
    if (!st && !g->stage.n)
        st = steno_fail(err, STENO_ERR_IO, "%s: there is no grammar: no .fst or .far file", dir);
    free_listing(&l);
    return st;
}

static steno_status read_grammar(steno_itn *g, const char *dir, const char *language,
                                 steno_err *err)
{
    char name[2][MAX_PATH];
    const bool by_language = language && *language;
    if ((by_language && (find_pair(dir, "/itn/tagger.fst", "/itn/verbalizer.fst", language, name) ||
                         find_pair(dir, TAGGER, VERBALIZER, language, name))) ||
        find_pair(dir, "tagger.fst", "verbalizer.fst", "", name))
        return read_pair(g, dir, name[0], name[1], err);
    return read_folder(g, dir, name, err);
}

bool steno_itn_is_dir(const char *dir)
{
    return steno_path_readable(dir, "tagger.fst") && steno_path_readable(dir, "verbalizer.fst");
}

static steno_status finish_grammar(steno_itn **out, steno_itn *g, steno_status st)
{
    if (st)
        steno_itn_close(g);
    else
        *out = g;
    return st;
}

steno_status steno_itn_open(steno_itn **out, const char *dir, const char *language, steno_err *err)
{
    steno_itn *g = calloc(1, sizeof *g);
    return finish_grammar(out, g,
                          g ? read_grammar(g, dir, language, err)
                            : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir));
}

/* Read the rules of a model's folder, if it has any. */
static steno_status read_rules(steno_itn *g, const char *dir, steno_err *err)
{
    struct listing l = {0};
    steno_status st = list_folder(dir, &l, err);
    if (!st)
        st = read_chain(g, dir, &l, is_rule, err);
    free_listing(&l);
    return st;
}

steno_status steno_itn_open_of_model(steno_itn **out, const char *dir, steno_err *err)
{
    char *own = steno_path_join(dir, "itn");
    steno_itn *g = calloc(1, sizeof *g);
    steno_status st = own && g ? STENO_OK : STENO_ERR_NOMEM;
    if (st)
        (void)steno_fail(err, st, "%s: out of memory", dir);
    else if (steno_path_is_dir(own))
        st = read_grammar(g, own, NULL, err);
    else if (steno_path_is_dir(dir))
        st = read_rules(g, dir, err);
    free(own);
    if (st || !g->stage.n) {
        steno_itn_close(g);
        *out = NULL;
        return st;
    }
    *out = g;
    return STENO_OK;
}
