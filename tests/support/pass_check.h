/* A graph with all passes, without one of them, and with that one alone, against the graph as the
 * file has it: what every test of a pass asks. */
#ifndef STENO_TESTS_PASS_CHECK_H
#define STENO_TESTS_PASS_CHECK_H

#include "nn/network/network.h"
#include "tests/support/onnx_make.h"

enum { PC_N = 4 }; /* dimensions that the graph leaves open, when it runs */

/* Numbers for inputs and constants: the same in every test, neither zero nor in order. */
struct pc_data {
    float x[4096]; /* inputs of f32, in [-1.2, 1.3] */
    float w[1024]; /* for constants, in [-0.3, 0.5] */
    uint8_t mask[4096];
    int64_t index[4096]; /* inputs of i64: 0, 1, 2, 0, ... */
    const char *context; /* printed when something fails; NULL: nothing */
};
extern struct pc_data pc;

/* A model of this opset with input x of f32. dims: as mk_input; open ones are PC_N in a run. */
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
/* The file's network. Fails the test with the engine's message. disabled, only: NULL = none, all.
 */
steno_network *pc_open(const uint8_t *file, size_t size, int level, const char *disabled,
                       const char *only);
/* A session that has run twice on pc's numbers and planned well. */
steno_session *pc_run(steno_network *n);
/* The same names, types, shapes, and elements within tolerance * (1 + |a|). */
void pc_same(steno_network *a, steno_network *b, float tolerance);
/* Nodes of this operator. */
int pc_count(const steno_network *n, const char *type);
/* What `pass` found, over its rows. */
int pc_found(const steno_network *n, const char *pass);
/* The outputs of m are those of the plain graph at every level, without `pass` and with it alone
 * (beside folding); it finds something exactly when `hits`, and `left` nodes remain (-1: any). */
void pc_check(struct mk_graph *m, const char *pass, bool hits, int left, float tolerance);

#endif
