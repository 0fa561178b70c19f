#include "nn/network/cache.h"

#include "base/atomic_file.h"
#include "base/buf.h"
#include "nn/network/cache_key.h"
#include "nn/onnx/private_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HEAD 4096
#define MAX_GRAPH ((size_t)1 << 30)
#define MAX_KEY ((size_t)64 << 10)

struct head {
    char magic[8];
    struct steno_content key;
    struct steno_content model; /* content of the model file */
    uint64_t size;              /* of the file */
    uint64_t table, n_blocks, graph, graph_bytes, facts;
    uint64_t blobs_sum, rest_sum; /* XXH3 of [HEAD, table), of [table, size) */
    uint64_t head_sum;            /* of all fields above */
};

struct place { /* of a packed block */
    uint64_t offset, bytes, overflowed;
};

struct cache_facts {
    struct steno_onnx_info info;
    struct steno_pass_counts counts;
    struct steno_precision_report precision;
    uint64_t nodes_in_file, rare, packed_bytes;
    struct steno_stamp stamp[4]; /* of the files of info.external */
    struct steno_content external[4];
};

struct steno_cache {
    struct steno_map file;
    const char *map;
    size_t size;
    struct steno_packed_block *blocks;
    int n_blocks;
};

struct refusal { /* same layout as a head at the start */
    char magic[8];
    struct steno_content key, model;
    char why[sizeof((steno_err *)NULL)->msg];
    uint64_t sum; /* of all fields above */
};
_Static_assert(sizeof(struct refusal) >= sizeof(struct head) && sizeof(struct refusal) <= HEAD,
               "a refusal can be read as a head and is no cache");

static const char magic[8] = "stnpak4", refused_magic[8] = "stnref1";

/* ---- reading ---- */

void steno_cache_unmap(struct steno_cache *c)
{
    if (!c)
        return;
    steno_map_close(&c->file);
    free(c->blocks);
    free(c);
}

static struct steno_cache *map_file(const char *file)
{
    struct steno_cache *c = calloc(1, sizeof *c);
    int fd = c ? open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    struct stat sb;
    bool mapped = fd >= 0 && !fstat(fd, &sb) && steno_cache_trusted(&sb) && sb.st_size > HEAD &&
                  !steno_map_take(&c->file, fd, true, file, NULL);
    if (fd >= 0 && !mapped)
        close(fd);
    if (!mapped || c->file.n <= HEAD) {
        steno_cache_unmap(c);
        return NULL;
    }
    c->map = c->file.p;
    c->size = c->file.n;
    return c;
}

static bool sound(const struct steno_cache *c, const struct steno_cache_id *id, struct head *h)
{
    memcpy(h, c->map, sizeof *h);
    return !memcmp(h->magic, magic, sizeof magic) && steno_content_equal(&h->key, &id->key) &&
           h->size == c->size && h->head_sum == XXH3_64bits(h, offsetof(struct head, head_sum)) &&
           h->table >= HEAD && h->table <= h->graph &&
           h->n_blocks <= (h->graph - h->table) / sizeof(struct place) && h->graph <= h->facts &&
           h->graph_bytes <= h->facts - h->graph &&
           h->facts + sizeof(struct cache_facts) == c->size && h->n_blocks <= INT_MAX &&
           h->rest_sum == XXH3_64bits(c->map + h->table, c->size - h->table) &&
           h->blobs_sum == XXH3_64bits(c->map + HEAD, h->table - HEAD);
}

static bool read_table(struct steno_cache *c, const struct head *h)
{
    c->n_blocks = (int)h->n_blocks;
    c->blocks = calloc((size_t)h->n_blocks + 1, sizeof *c->blocks);
    for (int i = 0; c->blocks && i < c->n_blocks; i++) {
        struct place p;
        memcpy(&p, c->map + h->table + (size_t)i * sizeof p, sizeof p);
        if (p.offset < HEAD || p.offset % 64 || p.offset > h->table ||
            p.bytes > h->table - p.offset || p.overflowed > 1)
            return false;
        c->blocks[i].data = (void *)(uintptr_t)(c->map + p.offset);
        c->blocks[i].bytes = p.bytes;
        c->blocks[i].overflowed = p.overflowed;
    }
    return c->blocks != NULL;
}

static bool take_facts(steno_network *n, const struct steno_cache *c, const struct head *h,
                       const char *path)
{
    struct cache_facts f;
    memcpy(&f, c->map + h->facts, sizeof f);
    if (!steno_cache_external_same(path, &f.info, f.stamp, f.external) ||
        (f.rare && !steno_op_has_rare())) /* even if none is left in the graph */
        return false;
    n->facts->info = f.info;
    n->facts->counts = f.counts;
    n->precision = f.precision;
    n->facts->nodes_in_file = f.nodes_in_file;
    n->facts->rare = f.rare != 0;
    return true;
}

static bool build(steno_network *n, const struct steno_cache *c, const struct head *h,
                  const struct steno_network_options *opt)
{
    struct steno_onnx_options lo = {
        .max_bytes = opt->max_bytes, .stored = c->map, .n_stored = h->table};
    if (steno_onnx_parse(&n->g, c->map + h->graph, h->graph_bytes, NULL, &lo, NULL, NULL) ||
        steno_network_resolve(n->g, NULL))
        return false;
    n->store.cached = c->blocks;
    n->store.n_cached = c->n_blocks;
    return !steno_prepare_graph(n->g, &n->k, n->precision.kept, NULL, &n->store, &n->packed_bytes,
                                NULL) &&
           n->store.n == c->n_blocks;
}

bool steno_cache_load(steno_network *n, const char *path, const struct steno_network_options *opt,
                      struct steno_cache_id *id)
{
    struct head h;
    struct steno_cache *c = steno_cache_identify(id, path, n->cpu, opt) ? map_file(id->file) : NULL;
    if (!c)
        return false;
    if (sound(c, id, &h) && read_table(c, &h) && take_facts(n, c, &h, path) &&
        build(n, c, &h, opt)) {
        n->cache = c;
        n->mapped = &c->file;
        steno_cache_remember(id, opt->cache_dir);
        return true;
    }
    if (n->g)
        steno_release_graph(n->g);
    steno_packed_store_free(&n->store);
    steno_graph_free(n->g);
    n->g = NULL;
    n->packed_bytes = 0;
    memset(n->facts, 0, sizeof *n->facts);
    memset(&n->precision, 0, sizeof n->precision);
    steno_cache_unmap(c);
    return false;
}

/* ---- refusals ---- */

static uint64_t refusal_sum(const struct refusal *r)
{
    return XXH3_64bits(r, offsetof(struct refusal, sum));
}

bool steno_cache_refused(const struct steno_cache_id *id, steno_err *why)
{
    struct refusal r;
    struct stat sb;
    int fd = *id->file ? open(id->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool ok = fd >= 0 && !fstat(fd, &sb) && steno_cache_trusted(&sb) &&
              read(fd, &r, sizeof r) == (ssize_t)sizeof r &&
              !memcmp(r.magic, refused_magic, sizeof r.magic) &&
              steno_content_equal(&r.key, &id->key) && r.sum == refusal_sum(&r) &&
              memchr(r.why, '\0', sizeof r.why);
    if (fd >= 0)
        close(fd);
    if (ok)
        (void)steno_fail(why, STENO_ERR_UNSUPPORTED, "%s", r.why);
    return ok;
}

void steno_cache_refuse(const steno_network *n, const char *path,
                        const struct steno_network_options *opt, const struct steno_cache_id *id,
                        const steno_err *why)
{
    struct steno_atomic_file file;
    struct refusal r;
    if (n->facts->info.n_external || !steno_cache_current(id, path) ||
        (mkdir(opt->cache_dir, 0700) && errno != EEXIST) ||
        steno_atomic_file_open(&file, id->file, NULL))
        return;
    memset(&r, 0, sizeof r);
    memcpy(r.magic, refused_magic, sizeof r.magic);
    r.key = id->key;
    r.model = id->model;
    snprintf(r.why, sizeof r.why, "%s", why->msg);
    r.sum = refusal_sum(&r);
    if (!steno_write_whole(file.fd, &r, sizeof r))
        steno_atomic_file_discard(&file);
    else if (!steno_atomic_file_commit(&file, false, NULL))
        steno_cache_remember(id, opt->cache_dir);
}

/* ---- writing ---- */

struct out {
    FILE *f;
    uint64_t at;
    XXH3_state_t *sum;
    bool failed;
};

static void put(struct out *o, const void *p, size_t n)
{
    if (!n)
        return;
    o->failed = o->failed || fwrite(p, 1, n, o->f) != n || XXH3_64bits_update(o->sum, p, n);
    o->at += n;
}

/* Write n bytes at a multiple of 64, followed by readable bytes. Returns their offset. */
static uint64_t put_blob(struct out *o, const void *p, size_t n)
{
    static const char zeros[64 + STENO_OVERREAD];
    uint64_t at;
    put(o, zeros, (64 - o->at % 64) % 64);
    at = o->at;
    put(o, p, n);
    put(o, zeros, STENO_OVERREAD);
    return at;
}

/* Constants that are in the file; several graphs may share one. */
struct stored_elements {
    struct out *o;
    struct stored_constant {
        const struct steno_tensor *constant;
        int64_t offset;
    } * of;
    size_t n, cap;
};

/* Note where a constant is. Without memory it may be written twice. */
static void note_elements(struct stored_elements *e, const struct steno_tensor *constant,
                          int64_t offset)
{
    if (e->n == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 64;
        struct stored_constant *more = realloc(e->of, cap * sizeof *more);
        if (!more)
            return;
        e->of = more;
        e->cap = cap;
    }
    e->of[e->n++] = (struct stored_constant){constant, offset};
}

static steno_status store_elements(void *arg, const struct steno_value *v, int64_t *offset,
                                   steno_err *err)
{
    struct stored_elements *e = arg;
    const void *data;
    size_t bytes;
    for (size_t i = 0; i < e->n; i++)
        if (e->of[i].constant == v->constant) {
            *offset = e->of[i].offset;
            return STENO_OK;
        }
    *offset = -1;
    if (v->cached)
        return STENO_OK;
    data = steno_constant_bytes(v->constant);
    if (!data || steno_shape_bytes(&v->shape, v->dtype, &bytes))
        return steno_fail(err, STENO_ERR_INTERNAL, "constant '%s' is gone", v->name);
    *offset = (int64_t)put_blob(e->o, data, bytes);
    note_elements(e, v->constant, *offset);
    return STENO_OK;
}

/* Write packed block i, unless an earlier request has the same block. */
static struct place put_block(const struct steno_packed_store *s, int i, const struct place *table,
                              struct out *o)
{
    const struct steno_packed_block *b = &s->block[i];
    for (int k = 0; k < i; k++)
        if (s->block[k].data == b->data)
            return table[k];
    return (struct place){put_blob(o, b->data, b->bytes), b->bytes, b->overflowed};
}

static bool write_graph(const steno_network *n, struct out *o, struct place *table, struct head *h)
{
    struct stored_elements e = {.o = o};
    struct steno_buf graph;
    bool ok;
    steno_buf_init(&graph, MAX_GRAPH);
    for (int i = 0; i < n->store.n; i++)
        table[i] = put_block(&n->store, i, table, o);
    ok = !steno_onnx_write_private(n->g, store_elements, &e, &graph, NULL);
    free(e.of);
    h->table = o->at;
    h->blobs_sum = XXH3_64bits_digest(o->sum);
    XXH3_64bits_reset(o->sum);
    h->n_blocks = (uint64_t)n->store.n;
    put(o, table, (size_t)n->store.n * sizeof *table);
    h->graph = o->at;
    h->graph_bytes = graph.len;
    put(o, graph.data, graph.len);
    steno_buf_free(&graph);
    return ok && !o->failed;
}

static bool write_all(const steno_network *n, const char *path, const struct steno_cache_id *id,
                      struct out *o)
{
    struct cache_facts f;
    struct head h = {.key = id->key, .model = id->model};
    struct place *table = calloc((size_t)n->store.n + 1, sizeof *table);
    char head[HEAD] = {0};
    bool ok = table && fwrite(head, 1, HEAD, o->f) == HEAD;
    memset(&f, 0, sizeof f);
    f.info = n->facts->info;
    f.counts = n->facts->counts;
    f.precision = n->precision;
    f.nodes_in_file = n->facts->nodes_in_file;
    f.rare = n->facts->rare;
    o->at = HEAD;
    XXH3_64bits_reset(o->sum);
    ok = ok && steno_cache_external(path, &n->facts->info, f.stamp, f.external) &&
         write_graph(n, o, table, &h);
    free(table);
    if (!ok)
        return false;
    h.facts = o->at;
    put(o, &f, sizeof f);
    h.size = o->at;
    h.rest_sum = XXH3_64bits_digest(o->sum);
    memcpy(h.magic, magic, sizeof magic);
    h.head_sum = XXH3_64bits(&h, offsetof(struct head, head_sum));
    return !o->failed && !fseek(o->f, 0, SEEK_SET) && fwrite(&h, 1, sizeof h, o->f) == sizeof h &&
           !fflush(o->f);
}

bool steno_cache_model(const char *file, struct steno_content *out)
{
    struct head h;
    FILE *f = fopen(file, "rb");
    bool ok = f && fread(&h, sizeof h, 1, f) == 1 &&
              (!memcmp(h.magic, magic, sizeof "stnpak" - 1) || /* of any version */
               !memcmp(h.magic, refused_magic, sizeof refused_magic));
    if (f)
        fclose(f);
    *out = h.model;
    return ok;
}

void steno_cache_store(const steno_network *n, const char *path,
                       const struct steno_network_options *opt, const struct steno_cache_id *id)
{
    struct steno_atomic_file file = {.fd = -1};
    struct out o = {.sum = XXH3_createState()};
    bool ok = o.sum && steno_cache_current(id, path) &&
              (!mkdir(opt->cache_dir, 0700) || errno == EEXIST) &&
              !steno_atomic_file_open(&file, id->file, NULL);
    if (ok) {
        int fd = fcntl(file.fd, F_DUPFD_CLOEXEC, 0);
        o.f = fd >= 0 ? fdopen(fd, "wb") : NULL;
        if (fd >= 0 && !o.f)
            close(fd);
        ok = o.f && write_all(n, path, id, &o);
        if (o.f && fclose(o.f))
            ok = false;
        if (!ok)
            steno_atomic_file_discard(&file);
        ok = ok && !steno_atomic_file_commit(&file, true, NULL);
    }
    if (ok)
        steno_cache_remember(id, opt->cache_dir);
    XXH3_freeState(o.sum);
}
