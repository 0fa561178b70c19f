/* What every test of a pass compares: a graph with all passes, without one of them, and with
 * that one alone, against the graph as it is in the file. */
#ifndef STENO_TESTS_PASS_CHECK_H
#define STENO_TESTS_PASS_CHECK_H

#include "nn/network/network.h"
#include "tests/support/onnx_make.h"

enum { PC_N = 4 }; /* size of open dimensions in a run */

/* Numbers for inputs and constants. They are the same in every test, and neither zero nor
 * sorted. */
struct pc_data {
    float x[4096]; /* inputs of f32, in [-1.2, 1.3] */
    float w[1024]; /* for constants, in [-0.3, 0.5] */
    uint8_t mask[4096];
    int64_t index[4096]; /* inputs of i64: 0, 1, 2, 0, ... */
    const char *context; /* printed with a failure; NULL: nothing */
};
extern struct pc_data pc;

/* A model of this opset with an f32 input x. dims: as in mk_input; open dimensions are PC_N in a
 * run. */
struct mk_graph *pc_start(int opset, const char *dims);
/* Adds what `text` says, statements separated by ';':
 *   half = 0.5             a constant of f32, a scalar
 *   axes = [1,-1]          a constant vector of i64
 *   w : 3,2,3              a constant of f32 with numbers from pc.w, another stretch for each
 *   Conv x,w,b c pads=[1,1] group=2 beta=0.5 mode='edge'      operator (domain before a colon, if
 *                          any), inputs, outputs, attributes: [] a list of integers, with a point a
 *                          float, '' a string, else an integer
 *   -> y                   a graph output of f32 */
void pc_graph(struct mk_graph *m, const char *text);
/* The file's network. On an error the test fails with the engine's message. disabled NULL: no
 * pass is disabled. only NULL: all passes. */
steno_network *pc_open(const uint8_t *file, size_t size, int level, const char *disabled,
                       const char *only);
/* A session that has run twice on pc's numbers without wrong plans. */
steno_session *pc_run(steno_network *n);
/* Fails unless both have the same names, types and shapes, and elements within tolerance * (1 +
 * |a|). */
void pc_same(steno_network *a, steno_network *b, float tolerance);
/* The number of nodes of this operator. */
int pc_count(const steno_network *n, const char *type);
/* The number of rewrites by `pass`, summed over its rows. */
int pc_found(const steno_network *n, const char *pass);
/* At every level, without `pass` and with it alone (besides folding), the outputs must equal
 * those of the plain graph. The pass rewrites something exactly when `hits`, and then `left`
 * nodes remain (-1: any number). */
void pc_check(struct mk_graph *m, const char *pass, bool hits, int left, float tolerance);

#endif
