/* The part of `steno verify` with hard inputs (cli/hard_inputs.h). */
#ifndef STENO_CLI_VERIFY_HARD_H
#define STENO_CLI_VERIFY_HARD_H

#include "tools/cli/hard_inputs.h"
#include "tools/cli/onnxruntime.h"

/* Two networks with the same outputs. */
struct verify_pair {
    steno_network *n[2];
    steno_session *s[2];
    onnxruntime *ort;  /* runs B in place of s[1]; NULL: none */
    const char **name; /* of each output of A */
    int *other;        /* index in B's session of each output of A */
    int n_out;
};

struct verify_tolerance {
    double rtol, atol;
    bool coarse; /* some values have 8 bits: a change that is tiny there is a whole step or none */
};

struct verify_hard {
    bool ran;                 /* false: no input to change, or A refuses it */
    double judged, differing; /* elements of all outputs */
    int output;               /* of A: the first that differs; at: its element */
    size_t at;
    double a, b;
};

/* Run B on A's inputs, by name; 64-bit integers become 32-bit ones, in place, where B wants that.
 */
STENO_MUST steno_status verify_run_b(struct verify_pair *p, const struct cli_inputs *in,
                                     steno_err *err);
/* B's output of the name of A's output i, after that. */
const struct steno_tensor *verify_output_b(const struct verify_pair *p, int i);
double verify_element(const struct steno_tensor *t, size_t i);

/* Run both on hard inputs of one kind. The allowed difference is the sum of rtol times the element
 * of A, atol times the largest element of its row, and four times what A itself changes when each
 * input changes by a relative 1e-6 (coarse: the largest such change of the output, for 1e-3). B
 * must be finite where A always is, and not where A never is. */
STENO_MUST steno_status verify_hard_run(struct verify_pair *p, const struct cli_inputs_options *o,
                                        enum hard_kind kind,
                                        const struct verify_tolerance *tolerance,
                                        struct verify_hard *out, steno_err *err);

#endif
