/* ONNX models made in memory, for tests that read or run them. Out of memory ends the test. */
#ifndef STENO_TESTS_ONNX_MAKE_H
#define STENO_TESTS_ONNX_MAKE_H

#include "nn/graph/tensor.h"
#include "onnx.pb-c.h"

struct mk_graph;

struct mk_graph *mk_new(int opset);              /* the main graph of a new model, IR version 8 */
struct mk_graph *mk_body(struct mk_graph *main); /* a graph for mk_attr_graph */
void mk_free(struct mk_graph *main);

/* dims: "2,?,n,??" (a number, unknown, a symbol, the symbol "?"), "" for a scalar, NULL for an
 * unknown rank. */
void mk_input(struct mk_graph *g, const char *name, steno_dtype t, const char *dims);
void mk_output(struct mk_graph *g, const char *name, steno_dtype t, const char *dims);
void mk_f32(struct mk_graph *g, const char *name, const char *dims, const float *data, size_t n);
void mk_i64(struct mk_graph *g, const char *name, const char *dims, const int64_t *data, size_t n);
/* An initializer that the caller fills. */
Onnx__Tensor *mk_tensor(struct mk_graph *g, const char *name, steno_dtype t, const char *dims);
/* in, out: comma-separated names, which may be empty. The mk_attr_* functions act on the last
 * node. */
Onnx__Node *mk_node(struct mk_graph *g, const char *op, const char *in, const char *out);
void mk_attr_int(struct mk_graph *g, const char *name, int64_t v);
void mk_attr_ints(struct mk_graph *g, const char *name, const int64_t *v, size_t n);
void mk_attr_float(struct mk_graph *g, const char *name, float v);
void mk_attr_str(struct mk_graph *g, const char *name, const char *v);
void mk_attr_graph(struct mk_graph *g, const char *name, struct mk_graph *body);
/* An If with its two branches. */
void mk_if(struct mk_graph *g, const char *cond, const char *out, struct mk_graph *then_branch,
           struct mk_graph *else_branch);
/* A model-local function. mk_node on the result adds its nodes. */
struct mk_graph *mk_function(struct mk_graph *main, const char *domain, const char *name,
                             const char *in, const char *out);
void mk_import(struct mk_graph *main, const char *domain, int version);
Onnx__Model *mk_message(struct mk_graph *main);

/* The file's bytes. The caller frees them. */
uint8_t *mk_bytes(struct mk_graph *main, size_t *n);
/* Write the model to a new file in a new temporary folder. Returns the path; the caller frees it
 * or calls mk_unlink. */
char *mk_file(struct mk_graph *main);
void mk_unlink(char *path); /* removes file and folder, frees path */

#endif
