#include "speech/store/catalogue.h"

#include "base/arena.h"
#include "base/list.h"
#include "formats/json.h"
#include "speech/store/places.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_MEMORY ((size_t)16 << 20)
#define MAX_BYTES ((int64_t)1 << 40) /* of a file */

struct client_name {
    const char *client, *name;
};

struct steno_catalogue {
    steno_json *json; /* owner of all strings */
    steno_arena *arena;
    struct steno_catalogue_model *models;
    size_t n_models;
    struct client_name *clients;
    size_t n_clients;
};

/* What a function of the reader needs to know. */
struct reader {
    const char *file; /* for messages */
    steno_arena *arena;
    steno_err *err;
};

/* ---- members --------------------------------------------------------------------------------- */

static steno_status fault(const struct reader *r, const struct steno_json_node *at,
                          const char *what)
{
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s: line %zu: %s", r->file, at->line, what);
}

/* Check that an object has no member that is not listed (a NULL ends the list). */
static steno_status known(const struct reader *r, const struct steno_json_node *object,
                          const char *const *names)
{
    if (object->kind != STENO_JSON_OBJECT)
        return fault(r, object, "an object is expected");
    for (const struct steno_json_node *m = object->first; m; m = m->next) {
        int i = 0;
        while (names[i] && strcmp(names[i], m->key))
            i++;
        if (!names[i])
            return steno_fail(r->err, STENO_ERR_FORMAT, "%s: line %zu: unknown member '%.60s'",
                              r->file, m->line, m->key);
    }
    return STENO_OK;
}

static steno_status text(const struct reader *r, const struct steno_json_node *object,
                         const char *key, const char **out)
{
    const struct steno_json_node *m = steno_json_get(object, key);
    if (!m || m->kind != STENO_JSON_STRING || !*m->text)
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: line %zu: '%s' must be a text", r->file,
                          m ? m->line : object->line, key);
    *out = m->text;
    return STENO_OK;
}

/* Names become names of files and directories, and parts of addresses: nothing may leave its
 * place. slashes: how many '/' there are; -1: it is no such name. */
static int slashes_of(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._+-";
    size_t n = 0;
    for (int slashes = 0;; slashes++, s += n + 1) {
        n = strspn(s, letters);
        if (!n || n >= STENO_CATALOGUE_NAME || *s == '.' || *s == '-' || (s[n] && s[n] != '/'))
            return -1;
        if (!s[n])
            return slashes;
    }
}

bool steno_catalogue_harmless(const char *s)
{
    return slashes_of(s) == 0;
}

bool steno_catalogue_harmless_path(const char *s)
{
    const int folders = strlen(s) < STENO_CATALOGUE_NAME ? slashes_of(s) : -1;
    return folders >= 0 && folders <= STENO_CATALOGUE_DEPTH;
}

static steno_status name(const struct reader *r, const struct steno_json_node *object,
                         const char *key, int slashes, const char **out)
{
    const char *s = NULL;
    steno_status st = text(r, object, key, &s);
    if (st)
        return st;
    if (slashes_of(s) != slashes)
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: line %zu: '%s' is not a name: letters, digits and ._+- %s", r->file,
                          object->line, key, slashes ? "with one '/'" : "only");
    *out = s;
    return STENO_OK;
}

/* Get a list or object with 1 to `most` children and room for them in the arena. */
static steno_status children(const struct reader *r, const struct steno_json_node *object,
                             const char *key, enum steno_json_kind kind, size_t most,
                             size_t element, const struct steno_json_node **out, void **room)
{
    const struct steno_json_node *list = steno_json_get(object, key);
    if (!list || list->kind != kind || !list->n)
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: line %zu: '%s' must be %s with content",
                          r->file, list ? list->line : object->line, key,
                          kind == STENO_JSON_LIST ? "a list" : "an object");
    if (list->n > most)
        return steno_fail(r->err, STENO_ERR_LIMIT, "%s: line %zu: '%s' has more than %zu entries",
                          r->file, list->line, key, most);
    *room = steno_arena_calloc(r->arena, list->n, element);
    if (!*room)
        return steno_fail(r->err, steno_arena_failure(r->arena), "%s: out of memory", r->file);
    *out = list->first;
    return STENO_OK;
}

static steno_status size_and_sum(const struct reader *r, const struct steno_json_node *object,
                                 struct steno_catalogue_file *out)
{
    const char *sum = NULL;
    steno_status st = text(r, object, "sha256", &sum);
    if (st)
        return st;
    if (!steno_sha256_parse(sum, out->sha256))
        return fault(r, object, "'sha256' must be 64 hexadecimal digits");
    if (!steno_json_int(steno_json_get(object, "bytes"), 1, MAX_BYTES, &out->bytes))
        return fault(r, object, "'bytes' must be a number above 0");
    return STENO_OK;
}

/* A list of texts; what: one of them, for messages. */
static steno_status texts(const struct reader *r, const struct steno_json_node *object,
                          const char *key, size_t most, const char *what, const char *const **out,
                          size_t *count)
{
    const struct steno_json_node *n = NULL;
    const char **to;
    void *room = NULL;
    steno_status st = children(r, object, key, STENO_JSON_LIST, most, sizeof *to, &n, &room);
    to = room;
    *out = (const char *const *)to;
    for (; !st && n; n = n->next) {
        if (n->kind != STENO_JSON_STRING || !*n->text)
            return steno_fail(r->err, STENO_ERR_FORMAT, "%s: line %zu: %s is a text", r->file,
                              n->line, what);
        to[(*count)++] = n->text;
    }
    return st;
}

/* ---- sources --------------------------------------------------------------------------------- */

static steno_status read_packages(const struct reader *r, const struct steno_json_node *object,
                                  struct steno_catalogue_source *out)
{
    static const char *const members[] = {"name", "file", "bytes", "sha256", NULL};
    const struct steno_json_node *n = NULL;
    struct steno_catalogue_package *to = NULL;
    void *room = NULL;
    steno_status st = children(r, object, "packages", STENO_JSON_LIST, STENO_CATALOGUE_SOURCES,
                               sizeof *to, &n, &room);
    out->packages = to = room;
    for (; !st && n; n = n->next, to++) {
        st = known(r, n, members);
        if (!st)
            st = name(r, n, "name", 0, &to->name);
        if (!st)
            st = name(r, n, "file", 0, &to->file.name);
        if (!st)
            st = size_and_sum(r, n, &to->file);
        out->n_packages++;
    }
    return st;
}

bool steno_catalogue_has_file(const struct steno_catalogue_model *m, const char *file)
{
    for (size_t i = 0; i < m->n_files; i++)
        if (!strcmp(m->files[i].name, file))
            return true;
    return false;
}

static bool has_part(const struct steno_catalogue_source *s, const char *file)
{
    for (size_t i = 0; i < s->n_parts; i++)
        if (!strcmp(s->parts[i].file, file))
            return true;
    return false;
}

/* "unpack": {"model.bin": ["a/model.1", "b/model.2"]} */
static steno_status read_parts(const struct reader *r, const struct steno_json_node *object,
                               const struct steno_catalogue_model *model,
                               struct steno_catalogue_source *out)
{
    const struct steno_json_node *files = steno_json_get(object, "unpack");
    struct steno_catalogue_part *to;
    size_t n = 0;
    if (!files || files->kind != STENO_JSON_OBJECT)
        return fault(r, object, "'unpack' must be an object");
    for (const struct steno_json_node *f = files->first; f; f = f->next) {
        if (f->kind != STENO_JSON_LIST || !f->n || !steno_catalogue_has_file(model, f->key))
            return fault(r, f, "'unpack' needs a list of members for each file of the model");
        n += f->n;
    }
    if (n > STENO_CATALOGUE_MAX)
        return steno_fail(r->err, STENO_ERR_LIMIT, "%s: line %zu: 'unpack' has too many members",
                          r->file, files->line);
    out->parts = to = steno_arena_calloc(r->arena, n + 1, sizeof *to);
    if (!to)
        return steno_fail(r->err, steno_arena_failure(r->arena), "%s: out of memory", r->file);
    for (const struct steno_json_node *f = files->first; f; f = f->next)
        for (const struct steno_json_node *m = f->first; m; m = m->next) {
            if (m->kind != STENO_JSON_STRING || !*m->text)
                return fault(r, m, "a member is a text");
            *to++ = (struct steno_catalogue_part){f->key, m->text};
            out->n_parts++;
        }
    for (size_t i = 0; i < model->n_files; i++)
        if (!has_part(out, model->files[i].name))
            return steno_fail(r->err, STENO_ERR_FORMAT, "%s: line %zu: 'unpack' lacks %s", r->file,
                              files->line, model->files[i].name);
    return STENO_OK;
}

static steno_status read_source(const struct reader *r, const struct steno_json_node *object,
                                const struct steno_catalogue_model *model,
                                struct steno_catalogue_source *out)
{
    static const char *const of_hub[] = {"hub", "revision", NULL};
    static const char *const of_packages[] = {"packages", "unpack", NULL};
    steno_status st;
    if (steno_json_get(object, "hub")) {
        st = known(r, object, of_hub);
        if (!st)
            st = name(r, object, "hub", 1, &out->hub);
        return st ? st : name(r, object, "revision", 0, &out->revision);
    }
    st = known(r, object, of_packages);
    if (!st)
        st = read_packages(r, object, out);
    return st ? st : read_parts(r, object, model, out);
}

static steno_status read_sources(const struct reader *r, const struct steno_json_node *object,
                                 struct steno_catalogue_model *model)
{
    const struct steno_json_node *n = NULL;
    struct steno_catalogue_source *to = NULL;
    void *room = NULL;
    steno_status st = children(r, object, "sources", STENO_JSON_LIST, STENO_CATALOGUE_SOURCES,
                               sizeof *to, &n, &room);
    model->sources = to = room;
    for (; !st && n; n = n->next, to++) {
        st = read_source(r, n, model, to);
        model->n_sources++;
    }
    return st;
}

/* ---- models ---------------------------------------------------------------------------------- */

static steno_status read_files(const struct reader *r, const struct steno_json_node *object,
                               struct steno_catalogue_model *model)
{
    static const char *const members[] = {"bytes", "sha256", NULL};
    const struct steno_json_node *n = NULL;
    struct steno_catalogue_file *to = NULL;
    void *room = NULL;
    steno_status st = children(r, object, "files", STENO_JSON_OBJECT, STENO_CATALOGUE_FILES,
                               sizeof *to, &n, &room);
    model->files = to = room;
    for (; !st && n; n = n->next, to++) {
        if (!steno_catalogue_harmless_path(n->key))
            return fault(r, n,
                         "a file's name has letters, digits and ._+- only, below folders too");
        st = known(r, n, members);
        to->name = n->key;
        if (!st)
            st = size_and_sum(r, n, to);
        model->bytes += to->bytes;
        model->n_files++;
    }
    return st;
}

/* "pick": ["*.int8.onnx", "tokens.txt"], "bytes": 70000000, "known": {"a.int8.onnx": "SHA-256"} */
static steno_status read_picks(const struct reader *r, const struct steno_json_node *object,
                               struct steno_catalogue_model *model)
{
    const struct steno_json_node *n = NULL;
    struct steno_catalogue_file *file = NULL;
    void *room = NULL;
    steno_status st = texts(r, object, "pick", STENO_CATALOGUE_FILES, "a pattern", &model->picks,
                            &model->n_picks);
    if (!st && !steno_json_int(steno_json_get(object, "bytes"), 1, MAX_BYTES, &model->bytes))
        return fault(r, object, "'bytes' must be a number above 0");
    if (st || !steno_json_get(object, "known"))
        return st;
    st = children(r, object, "known", STENO_JSON_OBJECT, STENO_CATALOGUE_FILES, sizeof *file, &n,
                  &room);
    model->files = file = room;
    for (; !st && n; n = n->next, file++) {
        if (n->kind != STENO_JSON_STRING || !steno_catalogue_harmless_path(n->key) ||
            !steno_sha256_parse(n->text, file->sha256))
            return fault(r, n, "'known' has names of files and 64 hexadecimal digits");
        file->name = n->key;
        model->n_files++;
    }
    return st;
}

/* "convert": "int8" */
static steno_status read_convert(const struct reader *r, const struct steno_json_node *object,
                                 struct steno_catalogue_model *m)
{
    static const char *const weights[] = {"fp32", "int8", "bf16"};
    const struct steno_json_node *n = steno_json_get(object, "convert");
    for (size_t i = 0; n && i < sizeof weights / sizeof *weights; i++)
        if (n->kind == STENO_JSON_STRING && !strcmp(n->text, weights[i]))
            m->convert = weights[i];
    if (n && !m->convert)
        return fault(r, n, "'convert' is \"fp32\", \"int8\" or \"bf16\"");
    return STENO_OK;
}

static steno_status read_model(const struct reader *r, const struct steno_json_node *object,
                               struct steno_catalogue_model *m)
{
    static const char *const members[] = {
        "name",  "family", "about",   "languages", "license", "files",      "pick",
        "bytes", "known",  "sources", "aliases",   "convert", "confidence", NULL};
    const struct steno_json_node *confidence = steno_json_get(object, "confidence");
    bool picks = steno_json_get(object, "pick");
    steno_status st = known(r, object, members);
    if (!st)
        st = name(r, object, "name", 0, &m->name);
    if (!st)
        st = text(r, object, "family", &m->family);
    if (!st)
        st = text(r, object, "about", &m->about);
    if (!st)
        st = text(r, object, "languages", &m->languages);
    if (!st)
        st = text(r, object, "license", &m->license);
    if (!st)
        st = picks ? read_picks(r, object, m) : read_files(r, object, m);
    if (!st)
        st = read_sources(r, object, m);
    for (size_t i = 0; !st && picks && i < m->n_sources; i++)
        if (!m->sources[i].hub)
            st = fault(r, object, "'pick' needs sources on a hub");
    if (!st)
        st = read_convert(r, object, m);
    if (!st && confidence)
        st = steno_confidence_map_read(&m->confidence, confidence, r->file, r->err);
    return st || !steno_json_get(object, "aliases")
               ? st
               : texts(r, object, "aliases", STENO_CATALOGUE_MAX, "an alias", &m->aliases,
                       &m->n_aliases);
}

static steno_status read_models(const struct reader *r, const struct steno_json_node *root,
                                steno_catalogue *c)
{
    const struct steno_json_node *n = NULL;
    void *room = NULL;
    steno_status st = children(r, root, "models", STENO_JSON_LIST, STENO_CATALOGUE_MAX,
                               sizeof *c->models, &n, &room);
    c->models = room;
    for (; !st && n; n = n->next) {
        st = read_model(r, n, &c->models[c->n_models]);
        if (!st && steno_catalogue_find(c, c->models[c->n_models].name))
            return fault(r, n, "another model has this name or alias");
        c->n_models++;
    }
    return st;
}

/* "clients": {"OpenAI": ["whisper-1", ...]} */
static steno_status read_clients(const struct reader *r, const struct steno_json_node *root,
                                 steno_catalogue *c)
{
    const struct steno_json_node *clients = steno_json_get(root, "clients");
    size_t n = 0;
    if (!clients)
        return STENO_OK;
    if (clients->kind != STENO_JSON_OBJECT)
        return fault(r, clients, "'clients' must be an object");
    for (const struct steno_json_node *i = clients->first; i; i = i->next) {
        if (i->kind != STENO_JSON_LIST)
            return fault(r, i, "a client has a list of names");
        n += i->n;
    }
    if (n > STENO_CATALOGUE_MAX)
        return steno_fail(r->err, STENO_ERR_LIMIT, "%s: 'clients' has too many names", r->file);
    c->clients = steno_arena_calloc(r->arena, n + 1, sizeof *c->clients);
    if (!c->clients)
        return steno_fail(r->err, steno_arena_failure(r->arena), "%s: out of memory", r->file);
    for (const struct steno_json_node *i = clients->first; i; i = i->next)
        for (const struct steno_json_node *s = i->first; s; s = s->next) {
            if (s->kind != STENO_JSON_STRING || !*s->text)
                return fault(r, s, "a name is a text");
            c->clients[c->n_clients++] = (struct client_name){i->key, s->text};
        }
    return STENO_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Takes json in any case. */
static steno_status read_catalogue(steno_catalogue **out, steno_json *json, const char *file,
                                   steno_err *err)
{
    static const char *const members[] = {"models", "clients", NULL};
    steno_catalogue *c = calloc(1, sizeof *c);
    struct reader r = {.file = file, .arena = steno_arena_new(MAX_MEMORY), .err = err};
    steno_status st;
    if (!c || !r.arena) {
        steno_json_close(json);
        steno_arena_free(r.arena);
        free(c);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", file);
    }
    c->json = json;
    c->arena = r.arena;
    st = known(&r, steno_json_root(json), members);
    if (!st)
        st = read_models(&r, steno_json_root(json), c);
    if (!st)
        st = read_clients(&r, steno_json_root(json), c);
    if (st) {
        steno_catalogue_close(c);
        return st;
    }
    *out = c;
    return STENO_OK;
}

steno_status steno_catalogue_parse(steno_catalogue **out, const void *bytes, size_t n,
                                   const char *file, steno_err *err)
{
    steno_json *json = NULL;
    steno_status st = steno_json_parse(&json, bytes, n, file, err);
    return st ? st : read_catalogue(out, json, file, err);
}

steno_status steno_catalogue_open(steno_catalogue **out, const char *path, steno_err *err)
{
    char shipped[STENO_PLACE_MAX];
    steno_json *json = NULL;
    steno_status st;
    if (!path)
        path = getenv("STENO_CATALOGUE");
    if (!path || !*path) {
        steno_place_shipped(shipped, "catalogue.json");
        path = shipped;
    }
    st = steno_json_open(&json, path, err);
    return st ? st : read_catalogue(out, json, path, err);
}

void steno_catalogue_close(steno_catalogue *c)
{
    if (!c)
        return;
    steno_json_close(c->json);
    steno_arena_free(c->arena);
    free(c);
}

/* ---- names ----------------------------------------------------------------------------------- */

const struct steno_catalogue_model *steno_catalogue_at(const steno_catalogue *c, size_t i)
{
    return c && i < c->n_models ? &c->models[i] : NULL;
}

static bool has_name(const struct steno_catalogue_model *m, const char *wanted)
{
    if (!strcasecmp(m->name, wanted))
        return true;
    for (size_t i = 0; i < m->n_aliases; i++)
        if (!strcasecmp(m->aliases[i], wanted))
            return true;
    return false;
}

const struct steno_catalogue_model *steno_catalogue_find(const steno_catalogue *c,
                                                         const char *wanted)
{
    for (size_t i = 0; c && i < c->n_models; i++)
        if (has_name(&c->models[i], wanted))
            return &c->models[i];
    return NULL;
}

const struct steno_catalogue_model *steno_catalogue_similar(const steno_catalogue *c,
                                                            const char *wanted)
{
    const struct steno_catalogue_model *best = NULL;
    size_t most = STENO_LIST_ALIKE - 1;
    for (size_t i = 0; c && i < c->n_models; i++) {
        const size_t alike = steno_list_likeness_percent(c->models[i].name, wanted);
        best = alike > most ? &c->models[i] : best;
        most = alike > most ? alike : most;
    }
    return best;
}

const char *steno_catalogue_client(const steno_catalogue *c, const char *wanted)
{
    for (size_t i = 0; c && i < c->n_clients; i++) {
        const char *s = c->clients[i].name;
        size_t n = strlen(s);
        if (s[n - 1] == '*' ? !strncasecmp(s, wanted, n - 1) : !strcasecmp(s, wanted))
            return c->clients[i].client;
    }
    return NULL;
}
