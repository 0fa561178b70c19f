/* A model of unknown origin through the passes: at each level, without each single pass, and
 * with some of them; then one run of the last network on tiny inputs, under limits. A model that
 * loads at level 0 may be refused at another level (a pass finds a broken attribute), but it
 * must never crash, hang or write out of bounds. */
#include "base/arena.h"
#include "nn/network/network.h"
#include "nn/passes/passes.h"
#include "nn/rare_ops/rare_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUT ((size_t)1 << 14)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Zeros and ones; free dimensions are 1 or 2. */
static void *set_input(steno_session *s, int i, const struct steno_value *v, unsigned sum)
{
    struct steno_tensor t = {.dtype = v->dtype, .shape = v->shape};
    size_t bytes;
    if (t.shape.rank < 0)
        t.shape.rank = 0;
    for (int d = 0; d < t.shape.rank; d++)
        if (t.shape.dim[d] < 0)
            t.shape.dim[d] = 1 + (int64_t)(sum >> 7 & 1);
    if (!t.dtype)
        t.dtype = STENO_F32;
    if (steno_shape_bytes(&t.shape, t.dtype, &bytes) || bytes > MAX_INPUT)
        return NULL;
    t.data = steno_aligned_alloc(bytes);
    if (!t.data)
        return NULL;
    for (size_t k = 0; k < bytes; k += 3)
        ((uint8_t *)t.data)[k] = 1;
    if (steno_session_set(s, i, &t, NULL)) {
        steno_aligned_free(t.data);
        return NULL;
    }
    return t.data;
}

static void run(steno_network *n, unsigned sum)
{
    struct steno_session_options opt = {.max_bytes = (size_t)16 << 20, .max_steps = 2000};
    steno_session *s = NULL;
    int inputs = steno_network_n_inputs(n), set = 0;
    void **mem = calloc((size_t)inputs + 1, sizeof *mem);
    if (mem && !steno_session_open(&s, n, &opt, NULL)) {
        while (set < inputs && (mem[set] = set_input(s, set, steno_network_input(n, set), sum)))
            set++;
        if (set == inputs) {
            steno_status st = steno_session_run(s, NULL);
            (void)st; /* a refused run is fine too */
        }
    }
    steno_session_close(s);
    for (int i = 0; mem && i < set; i++)
        steno_aligned_free(mem[i]);
    free(mem);
}

/* The names of about half of the passes, selected by the bits of `sum`. */
static void some(char *list, size_t size, unsigned sum)
{
    size_t n = 0;
    list[0] = '\0';
    for (int i = 0; steno_passes[i].name; i++) {
        sum = sum * 1664525 + 1013904223; /* Numerical Recipes, ch. 7.1 */
        if (sum >> 31 && n < size)
            n += (size_t)snprintf(list + n, size - n, "%s%s", n ? "," : "", steno_passes[i].name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_network_options opt = {
        .max_bytes = (size_t)8 << 20, .cpu = "scalar", .rewrite_only = true};
    steno_network *n = NULL;
    char list[1024];
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    steno_rare_ops_add();
    for (opt.opt_level = 0; opt.opt_level <= 3; opt.opt_level++) {
        steno_status st = steno_network_open_memory(&n, data, size, "fuzz", &opt, NULL);
        steno_network_close(n);
        n = NULL;
        if (st && !opt.opt_level)
            return 0;
    }
    some(list, sizeof list, sum);
    opt.opt_level = 3;
    opt.only_passes = sum & 1 ? list : NULL;
    opt.disable_passes = sum & 1 ? NULL : list;
    opt.rewrite_only = false;
    if (!steno_network_open_memory(&n, data, size, "fuzz", &opt, NULL))
        run(n, sum);
    steno_network_close(n);
    return 0;
}
