/* What tests of the ONNX writer share. */
#ifndef STENO_TESTS_WRITE_CHECK_H
#define STENO_TESTS_WRITE_CHECK_H

#include "nn/network/network.h"
#include "tests/support/onnx_make.h"

#define WC_MAX_FILE ((size_t)1 << 24)

const float *wc_numbers(void);   /* 4,096 numbers in [-2, 2], for inputs and constants */
struct mk_graph *wc_swish(void); /* x * Sigmoid(x), x [2, 8] */
/* The file's network. On an error the test fails with the engine's message. */
steno_network *wc_open(const void *file, size_t size, int level, bool rewrite);
/* Run both on the numbers, with open dimensions of 3. They must have the same names and shapes,
 * and elements within tolerance. */
void wc_same(steno_network *a, steno_network *b, double tolerance);
/* Optimize, write, and read back, as fused nodes and as their bodies. The result must have the
 * operator `type`. Frees m. */
void wc_round_trip(struct mk_graph *m, const char *type, int opset);

#endif
