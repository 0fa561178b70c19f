/* Interface between optimize/quantize.c, which finds products, and optimize/quantize_forms.c, which
 * rewrites them. */
#ifndef STENO_OPTIMIZE_QUANTIZE_FORMS_H
#define STENO_OPTIMIZE_QUANTIZE_FORMS_H

#include "tools/optimize/quantize.h"

struct steno_quantize_job {
    const struct steno_quantize_options *opt;
    struct steno_graph *g;
    int *changed;
    steno_err *err;
};

/* Add a constant of zeros; the caller fills it through *data. STENO_NONE: err is set. */
steno_value_id steno_quantize_const(struct steno_quantize_job *j, const char *name, steno_dtype t,
                                    int rank, const int64_t *dims, void **data);
/* Replace the product of node `at` with w [rows, columns], its input 1; dynamic and static also
 * a Conv of one group with w [channels, taps...]. The new nodes compute its
 * output. steno_quantize_sixteen instead replaces the weights at input `in`. p gets the relative
 * rounding error of w and the number of weights that become 0. STENO_ERR_NOMEM. */
steno_status steno_quantize_dynamic(struct steno_quantize_job *j, int32_t at,
                                    const struct steno_tensor *w, struct steno_quantize_product *p);
/* p->lo, p->hi: the range of its activations in calibration. */
steno_status steno_quantize_static(struct steno_quantize_job *j, int32_t at,
                                   const struct steno_tensor *w, struct steno_quantize_product *p);
steno_status steno_quantize_blocks(struct steno_quantize_job *j, int32_t at,
                                   const struct steno_tensor *w, struct steno_quantize_product *p);
steno_status steno_quantize_sixteen(struct steno_quantize_job *j, int32_t at, int in,
                                    const struct steno_tensor *w, struct steno_quantize_product *p);
/* Count the weights that `kind` does not hold, but for underflow with 8 and 4 bits. Returns why w
 * has to stay in f32, or NULL. */
const char *steno_quantize_count(enum steno_quantize_kind kind, const struct steno_tensor *w,
                                 struct steno_quantize_counts *c);

#endif
