/* Finite-state transducers over bytes, in OpenFst's binary files: "vector" and "const", arcs of
 * type "standard" (tropical weights), and archives of them (.far, as STTable). Symbol tables are
 * skipped: labels are the bytes of UTF-8, and 0 reads or writes nothing. Frozen.
 *
 * OpenFst: openfst.org; Mohri, Weighted automata algorithms (2009). */
#ifndef STENO_ITN_FST_H
#define STENO_ITN_FST_H

#include "base/status.h"

#define STENO_FST_MAX_FILE ((size_t)256 << 20)
#define STENO_FST_MAX_STATES (1u << 24)
#define STENO_FST_MAX_ENTRIES 256 /* of an archive */

struct steno_fst_arc {
    float weight;
    uint32_t next : 24, out : 8;
};

/* A set of bytes. That of a state has the bytes that can be read next, perhaps after arcs that read
 * nothing, and 0 if the text may end there. */
struct steno_fst_set {
    uint64_t bits[4];
};

/* A chain: arcs that read nothing, through states that have no other arcs, neither out nor in. */
struct steno_fst_chain {
    uint32_t end; /* the state itself: there is none */
    float weight; /* of all its arcs, at most one of which weighs anything */
};

/* Arcs of state s: [first[s], first[s + 1]), ordered by input label; equal ones as in the file. */
struct steno_fst {
    uint32_t start, n_states, n_arcs, n_sets;
    float *final; /* by state; infinite: not final */
    uint32_t *first;
    uint8_t *in; /* input labels, by arc */
    struct steno_fst_arc *arc;
    uint32_t *ahead; /* by state: its set */
    struct steno_fst_set *set;
    struct steno_fst_chain *chain; /* by state */
};

/* Whether a path from state s may read byte c next; 0: end here. */
static inline bool steno_fst_reads(const struct steno_fst *f, uint32_t s, uint8_t c)
{
    return f->set[f->ahead[s]].bits[c / 64] >> c % 64 & 1;
}

/* Some transducers: those of one archive, or one. */
struct steno_fst_list {
    struct steno_fst *fst;
    size_t n;
};

/* Read the bytes of a file, or a file; name is used in messages. Adds to the list what is in it.
 * STENO_ERR_FORMAT: damaged, cut short, or of no such kind. STENO_ERR_UNSUPPORTED: types of arcs
 * and files that are not read, labels that are not bytes, a cycle that reads nothing.
 * STENO_ERR_LIMIT, STENO_ERR_IO, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_fst_parse(struct steno_fst_list *l, const void *bytes, size_t n,
                                        const char *name, steno_err *err);
STENO_MUST steno_status steno_fst_read(struct steno_fst_list *l, const char *path, steno_err *err);
void steno_fst_list_free(struct steno_fst_list *l);

#endif
