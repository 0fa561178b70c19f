/* Parts of a graph that only move, scale, add and multiply elements, computed on numbers of a
 * caller's choice. Used by pass_local.c. */
#ifndef STENO_NN_PASSES_LOCAL_H
#define STENO_NN_PASSES_LOCAL_H

#include "base/buf.h"
#include "nn/passes/passes.h"

enum { STENO_MOVED_LEAVES = 4 };

/* The nodes between some leaves and one value. Every output is a polynomial of the elements of the
 * leaves (of bool leaves: of their indicators), since only these operators take part: moves of
 * elements, sums, products, quotients by constants, Where by a leaf or a constant. Confined. */
struct steno_moved {
    struct steno_graph *g;
    const bool *fixed; /* [n_values]: the value depends on constants and shapes alone */
    bool by_condition; /* Where may take a leaf as its condition */
    bool whole;        /* masks are computed, too; else they are leaves */
    steno_value_id end;
    /* set by steno_moved_find */
    int32_t *node; /* [n], each after those that it reads */
    int n, room;
    steno_value_id leaf[STENO_MOVED_LEAVES];
    int n_leaf;
    /* Operators, attributes, constants, and what reads what: parts with equal text compute the same
     * of their leaves. Empty: too long, or an attribute has no text. */
    struct steno_buf text;
    int64_t symbol[8]; /* open dimensions of the text, by their numbers there */
    int n_symbols;
};

/* Tell which values of g depend on constants, shapes and value `also` (or STENO_NONE) alone: fixed
 * [n_values]. */
void steno_moved_fixed(const struct steno_graph *g, steno_value_id also, bool *fixed);
/* True if n may take part. */
bool steno_moved_takes(const struct steno_graph *g, const bool *fixed, bool by_condition,
                       const struct steno_node *n);
/* Find the part that ends at p->end. stop: a value that is a leaf in any case, or STENO_NONE.
 * False: it has more leaves or nodes than a part can have, or there is no memory. The caller calls
 * steno_moved_free in any case. */
bool steno_moved_find(struct steno_moved *p, steno_value_id stop);
void steno_moved_free(struct steno_moved *p);

/* The extents that stand for symbols; 0: no symbol. */
enum { STENO_MOVED_SYMBOLS = 5 };
struct steno_moved_sizes {
    int64_t symbol[STENO_MOVED_SYMBOLS], extent[STENO_MOVED_SYMBOLS];
};
/* Return the extent of dimension d, -1 if it is not known. */
int64_t steno_moved_extent(const struct steno_moved_sizes *s, int64_t d);
/* Compute p->end from leaf [n_leaf]. *out: its elements, in `mem`. False: it cannot be computed. */
bool steno_moved_run(const struct steno_moved *p, const struct steno_pass_env *env,
                     const struct steno_moved_sizes *sizes, const struct steno_tensor *leaf,
                     struct steno_tensor *out, steno_arena *mem);

#endif
