#include "exec/cache.h"

#include "base/buf.h"
#include "onnx/write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HEAD 4096
#define MAX_GRAPH ((size_t)1 << 30)
#define MAX_KEY ((size_t)64 << 10)

struct head {
    char magic[8];
    uint64_t key[2];
    uint64_t size; /* of the file */
    uint64_t table, n_blocks, graph, graph_bytes, facts;
    uint64_t blobs_sum, rest_sum; /* XXH3 of [HEAD, table), of [table, size) */
    uint64_t head_sum;            /* of all above */
};

struct place {
    uint64_t offset, bytes;
};

struct cache_facts {
    struct steno_onnx_info info;
    struct steno_pass_counts counts;
    struct steno_precision_report precision;
    uint64_t nodes_in_file, packed_bytes;
    struct steno_stamp {
        uint64_t v[7];
    } external[4]; /* files of info.external */
};

struct steno_cache {
    const char *map;
    size_t size;
    struct steno_packed_block *blocks;
    int n_blocks;
};

static const char magic[8] = "stnpak1";

/* ---- what a cache is of ---- */

static bool stamp(const char *path, struct steno_stamp *s)
{
    struct stat sb;
    if (stat(path, &sb))
        return false;
    *s = (struct steno_stamp){{(uint64_t)sb.st_dev, sb.st_ino, (uint64_t)sb.st_size,
                               (uint64_t)sb.st_mtim.tv_sec, (uint64_t)sb.st_mtim.tv_nsec,
                               (uint64_t)sb.st_ctim.tv_sec, (uint64_t)sb.st_ctim.tv_nsec}};
    return true;
}

static bool external_path(const char *model, const char *name, char *out, size_t size)
{
    const char *slash = strrchr(model, '/');
    int n = slash ? (int)(slash - model + 1) : 0;
    return snprintf(out, size, "%.*s%s", n, model, name) < (int)size;
}

static bool external_stamps(const char *model, const struct steno_onnx_info *info,
                            struct steno_stamp *out)
{
    char path[PATH_MAX];
    if (info->n_external > 4 || info->n_external < 0)
        return false;
    for (int i = 0; i < info->n_external; i++)
        if (!external_path(model, info->external[i], path, sizeof path) || !stamp(path, &out[i]))
            return false;
    return true;
}

struct identity {
    char file[PATH_MAX];
    XXH128_hash_t key;
};

/* The file's name is of the model's place and the settings, the key also of its stamp and the
 * program's: a new model takes the place of the old one's cache. */
static bool identify(struct identity *id, const char *path, const steno_network *n,
                     const struct steno_network_options *o)
{
    char real[PATH_MAX];
    const char *base;
    struct steno_stamp s = {{0}}, program = {{0}};
    struct steno_buf b;
    bool ok;
    uint64_t name;
    if (!realpath(path, real) || !stamp(real, &s))
        return false;
    (void)stamp("/proc/self/exe", &program);
    base = strrchr(real, '/') + 1;
    steno_buf_init(&b, MAX_KEY);
    ok = !steno_buf_printf(&b, "%s|%u|%d|%d|%d|%d|%s|%s|%zu", real, n->cpu, o->opt_level,
                           (int)o->precision, (int)o->part, o->any_length,
                           o->disable_passes ? o->disable_passes : "",
                           o->only_passes ? o->only_passes : "*", o->max_bytes);
    name = ok ? XXH3_64bits(b.data, b.len) : 0;
    ok = ok && !steno_buf_printf(&b, "|%s|", STENO_VERSION) && !steno_buf_add(&b, &s, sizeof s) &&
         !steno_buf_add(&b, &program, sizeof program);
    id->key = XXH3_128bits(ok ? b.data : "", ok ? b.len : 0);
    steno_buf_free(&b);
    return ok && snprintf(id->file, sizeof id->file, "%s/%.100s-%016llx.stenopack", o->cache_dir,
                          base, (unsigned long long)name) < (int)sizeof id->file;
}

/* ---- reading ---- */

void steno_cache_unmap(struct steno_cache *c)
{
    if (!c)
        return;
    if (c->map)
        munmap((void *)(uintptr_t)c->map, c->size);
    free(c->blocks);
    free(c);
}

/* Ours alone to write: what lies there is run. */
static bool trusted(const struct stat *sb)
{
    return S_ISREG(sb->st_mode) && (sb->st_uid == geteuid() || sb->st_uid == 0) &&
           !(sb->st_mode & (S_IWGRP | S_IWOTH)) && sb->st_size > HEAD;
}

static struct steno_cache *map_file(const char *file)
{
    struct steno_cache *c = calloc(1, sizeof *c);
    int fd = c ? open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    struct stat sb;
    void *p = MAP_FAILED;
    if (fd >= 0 && !fstat(fd, &sb) && trusted(&sb))
        p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (p == MAP_FAILED) {
        free(c);
        return NULL;
    }
    c->map = p;
    c->size = (size_t)sb.st_size;
    return c;
}

static bool sound(const struct steno_cache *c, const struct identity *id, struct head *h)
{
    memcpy(h, c->map, sizeof *h);
    return !memcmp(h->magic, magic, sizeof magic) && h->key[0] == id->key.low64 &&
           h->key[1] == id->key.high64 && h->size == c->size &&
           h->head_sum == XXH3_64bits(h, offsetof(struct head, head_sum)) && h->table >= HEAD &&
           h->table <= h->graph && h->n_blocks <= (h->graph - h->table) / sizeof(struct place) &&
           h->graph <= h->facts && h->graph_bytes <= h->facts - h->graph &&
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
            p.bytes > h->table - p.offset)
            return false;
        c->blocks[i].data = (void *)(uintptr_t)(c->map + p.offset);
        c->blocks[i].bytes = p.bytes;
    }
    return c->blocks != NULL;
}

static bool take_facts(steno_network *n, const struct steno_cache *c, const struct head *h,
                       const char *path)
{
    struct cache_facts f;
    struct steno_stamp now[4] = {{{0}}};
    memcpy(&f, c->map + h->facts, sizeof f);
    if (!external_stamps(path, &f.info, now) ||
        memcmp(now, f.external, (size_t)f.info.n_external * sizeof now[0]))
        return false;
    n->info = f.info;
    n->counts = f.counts;
    n->precision = f.precision;
    n->nodes_in_file = f.nodes_in_file;
    return true;
}

static bool build(steno_network *n, const struct steno_cache *c, const struct head *h,
                  const struct steno_network_options *opt)
{
    struct steno_onnx_options lo = {
        .max_bytes = opt->max_bytes, .stowed = c->map, .n_stowed = h->table};
    if (steno_onnx_parse(&n->g, c->map + h->graph, h->graph_bytes, NULL, &lo, NULL, NULL) ||
        steno_network_settle(n->g, NULL))
        return false;
    n->store.cached = c->blocks;
    n->store.n_cached = c->n_blocks;
    return !steno_prepare_graph(n->g, &n->k, opt->precision, NULL, &n->store, &n->packed_bytes,
                                NULL) &&
           n->store.n == c->n_blocks;
}

bool steno_cache_load(steno_network *n, const char *path, const struct steno_network_options *opt)
{
    struct identity id;
    struct head h;
    struct steno_cache *c = identify(&id, path, n, opt) ? map_file(id.file) : NULL;
    if (!c)
        return false;
    if (sound(c, &id, &h) && read_table(c, &h) && take_facts(n, c, &h, path) &&
        build(n, c, &h, opt)) {
        n->cache = c;
        return true;
    }
    if (n->g)
        steno_release_graph(n->g);
    steno_packed_store_free(&n->store);
    steno_graph_free(n->g);
    n->g = NULL;
    n->packed_bytes = 0;
    memset(&n->counts, 0, sizeof n->counts);
    memset(&n->info, 0, sizeof n->info);
    memset(&n->precision, 0, sizeof n->precision);
    steno_cache_unmap(c);
    return false;
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

/* Elements at a multiple of 64 with readable bytes behind them; where they are. */
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

static steno_status stow(void *arg, const struct steno_value *v, int64_t *offset, steno_err *err)
{
    size_t bytes;
    *offset = -1;
    if (v->stowed)
        return STENO_OK;
    if (!v->constant->data || steno_shape_bytes(&v->shape, v->dtype, &bytes))
        return steno_fail(err, STENO_ERR_INTERNAL, "constant '%s' is gone", v->name);
    *offset = (int64_t)put_blob(arg, v->constant->data, bytes);
    return STENO_OK;
}

static bool write_graph(const steno_network *n, struct out *o, struct place *table, struct head *h)
{
    struct steno_onnx_write_options wo = {
        .opset = 21, .ir_version = 10, .stow = stow, .stow_arg = o};
    struct steno_buf graph;
    bool ok;
    steno_buf_init(&graph, MAX_GRAPH);
    for (int i = 0; i < n->store.n; i++) {
        const struct steno_packed_block *b = &n->store.block[i];
        table[i] = (struct place){put_blob(o, b->data, b->bytes), b->bytes};
    }
    ok = !steno_onnx_serialize(n->g, &graph, &wo, NULL);
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

static bool write_all(const steno_network *n, const char *path, const struct identity *id,
                      struct out *o)
{
    struct cache_facts f;
    struct head h = {.key = {id->key.low64, id->key.high64}};
    struct place *table = calloc((size_t)n->store.n + 1, sizeof *table);
    char head[HEAD] = {0};
    bool ok = table && fwrite(head, 1, HEAD, o->f) == HEAD;
    memset(&f, 0, sizeof f);
    f.info = n->info;
    f.counts = n->counts;
    f.precision = n->precision;
    f.nodes_in_file = n->nodes_in_file;
    o->at = HEAD;
    XXH3_64bits_reset(o->sum);
    ok = ok && external_stamps(path, &n->info, f.external) && write_graph(n, o, table, &h);
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
           !fflush(o->f) && !fsync(fileno(o->f));
}

void steno_cache_store(const steno_network *n, const char *path,
                       const struct steno_network_options *opt)
{
    char temp[PATH_MAX + 8];
    struct identity id;
    struct out o = {.sum = XXH3_createState()};
    int fd = -1;
    bool ok =
        o.sum && identify(&id, path, n, opt) && (!mkdir(opt->cache_dir, 0700) || errno == EEXIST);
    if (ok) {
        snprintf(temp, sizeof temp, "%s.XXXXXX", id.file);
        fd = mkstemp(temp); /* a name of its own for each process that gets here at once */
        o.f = fd >= 0 ? fdopen(fd, "wb") : NULL;
        if (fd >= 0 && !o.f)
            close(fd);
        ok = o.f && write_all(n, path, &id, &o);
        if (o.f && fclose(o.f))
            ok = false;
        if (fd >= 0 && (!ok || rename(temp, id.file)))
            unlink(temp);
    }
    XXH3_freeState(o.sum);
}
