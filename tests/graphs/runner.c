/* Runs many small networks in one process, for the Python programs beside it.
 *
 * Requests come on stdin and answers go to stdout, both as little-endian numbers:
 *   request: u32 bytes of the model, the model; u32 levels; u32 sets of inputs, u32 inputs per set;
 *            for each input of each set: u32 length of its name, the name, a tensor
 *   levels:  bit i: run level i; bit 8 + i: write level i; bits 16, 17: kernels: the best, scalar,
 *            avx2, avx512; bit 18: constants are copied when the model is read, not when they are
 *            needed; bits 19 to 23: opset to write, 0: that of the model
 *   answer:  for each level to run, in rising order, a status; if that is 0, for each set a status,
 *            and if that is 0: u32 outputs, for each a tensor; then for each level to write a
 *            status, and if that is 0: u32 bytes, the model
 *   tensor:  u32 type (as in ONNX), u32 rank, i64 extents, u32 bytes, elements
 *   status:  u32 (steno_status), u32 length, message
 * A value that was planned with a wrong shape counts as STENO_ERR_INTERNAL. */
#include "base/arena.h"
#include "nn/network/network.h"
#include "nn/rare_ops/rare_ops.h"
#include "tools/optimize/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((size_t)64 << 20)
#define MAX_INPUTS 64

struct input {
    char name[256];
    struct steno_tensor t;
};

struct request {
    char *model;
    uint32_t size, levels, sets, inputs;
    struct input *input; /* [sets * inputs] */
};

static void get(void *to, size_t n)
{
    if (n && fread(to, 1, n, stdin) != n)
        exit(0); /* the end of the requests */
}

static void put(const void *p, size_t n)
{
    if (n && fwrite(p, 1, n, stdout) != n)
        exit(1);
}

static uint32_t get_u32(void)
{
    uint32_t v = 0;
    get(&v, sizeof v);
    return v;
}

static void put_u32(uint32_t v)
{
    put(&v, sizeof v);
}

static void put_status(steno_status st, const steno_err *err)
{
    uint32_t n = st ? (uint32_t)strlen(err->msg) : 0;
    put_u32((uint32_t)st);
    put_u32(n);
    put(err->msg, n);
}

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "runner: %s\n", what);
    exit(2);
}

static void get_input(struct input *in)
{
    uint32_t n = get_u32(), bytes;
    must(n < sizeof in->name, "a name is too long");
    get(in->name, n);
    in->name[n] = '\0';
    in->t.dtype = (steno_dtype)get_u32();
    n = get_u32();
    must(n <= STENO_MAX_RANK, "a rank is too large");
    in->t.shape.rank = (int)n;
    get(in->t.shape.dim, n * sizeof *in->t.shape.dim);
    bytes = get_u32();
    must(bytes <= MAX_BYTES, "a tensor is too large");
    in->t.data = steno_aligned_alloc(bytes + 1);
    must(in->t.data, "out of memory");
    get(in->t.data, bytes);
}

static void get_request(struct request *r)
{
    size_t n;
    r->size = get_u32();
    must(r->size <= MAX_BYTES, "a model is too large");
    r->model = malloc((size_t)r->size + 1);
    must(r->model, "out of memory");
    get(r->model, r->size);
    r->levels = get_u32();
    r->sets = get_u32();
    r->inputs = get_u32();
    must(r->sets <= 64 && r->inputs <= MAX_INPUTS, "too many inputs");
    n = (size_t)r->sets * r->inputs;
    r->input = calloc(n + 1, sizeof *r->input);
    must(r->input, "out of memory");
    for (size_t i = 0; i < n; i++)
        get_input(&r->input[i]);
}

static void free_request(struct request *r)
{
    for (size_t i = 0; i < (size_t)r->sets * r->inputs; i++)
        steno_aligned_free(r->input[i].t.data);
    free(r->input);
    free(r->model);
}

static void put_tensor(const struct steno_tensor *t)
{
    size_t bytes = steno_numel(t) * steno_dtype_size(t->dtype);
    put_u32((uint32_t)t->dtype);
    put_u32((uint32_t)t->shape.rank);
    put(t->shape.dim, (size_t)t->shape.rank * sizeof *t->shape.dim);
    put_u32((uint32_t)bytes);
    put(t->data, bytes);
}

static steno_status run_set(steno_network *n, steno_session *s, const struct input *in,
                            uint32_t count, steno_err *err)
{
    size_t before = steno_session_misplans(s);
    steno_status st = STENO_OK;
    for (uint32_t i = 0; !st && i < count; i++) {
        int k = steno_network_find_input(n, in[i].name);
        st = k < 0 ? steno_fail(err, STENO_ERR_INTERNAL, "input '%s' is lost", in[i].name)
                   : steno_session_set(s, k, &in[i].t, err);
    }
    if (!st)
        st = steno_session_run(s, err);
    if (!st && steno_session_misplans(s) != before)
        st = steno_fail(err, STENO_ERR_INTERNAL, "%zu values were planned wrongly",
                        steno_session_misplans(s) - before);
    return st;
}

static void run_level(const struct request *r, int level)
{
    static const char *const cpus[] = {NULL, "scalar", "avx2", "avx512"};
    struct steno_network_options opt = {.opt_level = level,
                                        .borrow_from = !(r->levels >> 18 & 1),
                                        .cpu = cpus[r->levels >> 16 & 3]};
    steno_network *n = NULL;
    steno_session *s = NULL;
    steno_err err = {0};
    steno_status st = steno_network_open_memory(&n, r->model, r->size, "model", &opt, &err);
    if (!st)
        st = steno_session_open(&s, n, NULL, &err);
    put_status(st, &err);
    for (uint32_t i = 0; !st && i < r->sets; i++) {
        steno_status ran = run_set(n, s, r->input + (size_t)i * r->inputs, r->inputs, &err);
        put_status(ran, &err);
        if (ran)
            continue;
        put_u32((uint32_t)steno_network_n_outputs(n));
        for (int k = 0; k < steno_network_n_outputs(n); k++)
            put_tensor(steno_session_get(s, k));
    }
    steno_session_close(s);
    steno_network_close(n);
}

static void write_level(const struct request *r, int level)
{
    const int opset = (int)(r->levels >> 19 & 31);
    struct steno_network_options opt = {
        .opt_level = level, .borrow_from = 1, .rewrite_only = true, .write_opset = opset};
    struct steno_save_options save = {.external = STENO_EXTERNAL_NEVER, .opset = opset};
    struct steno_buf out;
    steno_network *n = NULL;
    steno_err err = {0};
    steno_status st = steno_network_open_memory(&n, r->model, r->size, "model", &opt, &err);
    steno_buf_init(&out, MAX_BYTES);
    if (!st)
        st = steno_network_serialize(n, &save, &out, &err);
    put_status(st, &err);
    if (!st) {
        put_u32((uint32_t)out.len);
        put(out.data, out.len);
    }
    steno_buf_free(&out);
    steno_network_close(n);
}

int main(void)
{
    steno_rare_ops_add();
    for (;;) {
        struct request r = {0};
        get_request(&r);
        for (int i = 0; i <= 3; i++)
            if (r.levels >> i & 1)
                run_level(&r, i);
        for (int i = 0; i <= 3; i++)
            if (r.levels >> (8 + i) & 1)
                write_level(&r, i);
        fflush(stdout);
        free_request(&r);
    }
}
