/* What readers of icefall's architectures share: extents of weights, options that are read or
 * compared with them. The first failure sticks (r->st); later calls return a value within bounds.
 */
#ifndef STENO_CONVERT_ICEFALL_READER_H
#define STENO_CONVERT_ICEFALL_READER_H

#include "tools/convert/icefall_arch.h"

/* Larger than any model; they bound what is computed here. */
#define STENO_ICEFALL_MAX_COLUMNS 16384
#define STENO_ICEFALL_MAX_KERNEL 1023

struct steno_icefall_reader {
    const struct steno_make_weights *w;
    const struct steno_convert_options *o;
    struct steno_icefall_arch *a;
    steno_err *err;
    steno_status st;
};

/* ---- weights ---- */
bool steno_icefall_has(const struct steno_icefall_reader *r, const char *fmt, ...)
    STENO_PRINTF(2, 3);
/* Extent `axis` of a weight, which must be there and have it. */
int64_t steno_icefall_extent(struct steno_icefall_reader *r, int axis, const char *fmt, ...)
    STENO_PRINTF(3, 4);
/* STENO_ERR_LIMIT if there are more: "17 columns". */
void steno_icefall_at_most(struct steno_icefall_reader *r, const char *what, int64_t is,
                           int64_t most);

/* ---- options ---- */
/* The numbers of an option, "2,2,3"; 0: it is not given. */
int64_t steno_icefall_numbers(struct steno_icefall_reader *r, const char *name, int64_t min,
                              int64_t out[STENO_ZIPFORMER_STACKS]);
/* A number of each stack, which the option may give once for all; false: it is not given. */
bool steno_icefall_per_stack(struct steno_icefall_reader *r, const char *name,
                             int64_t out[STENO_ZIPFORMER_STACKS]);
/* One number of an option that lists several for the training; -1: the whole recording. */
int64_t steno_icefall_one_number(struct steno_icefall_reader *r, const char *name,
                                 int64_t otherwise);
/* An option must say what the weights say. stack -1: of all. */
void steno_icefall_agree(struct steno_icefall_reader *r, const char *name, int64_t stack,
                         int64_t said, int64_t is);
void steno_icefall_compare(struct steno_icefall_reader *r, const char *name, int64_t is);
/* Layers, downsampling, columns, hidden columns and taps of each stack, where options say them. */
void steno_icefall_compare_stacks(struct steno_icefall_reader *r);
/* Every option that is given must be one of known, "a, b"; what: "a Conformer". */
void steno_icefall_only(struct steno_icefall_reader *r, const char *known, const char *what);

/* ---- outputs ---- */
/* Prediction network and joiner. */
void steno_icefall_read_transducer(struct steno_icefall_reader *r);
/* The transducer or CTC, of which a checkpoint may have both. */
void steno_icefall_read_outputs(struct steno_icefall_reader *r);

/* ---- architectures ---- */
STENO_MUST steno_status steno_icefall_read_conformer(struct steno_icefall_reader *r);
STENO_MUST steno_status steno_icefall_read_lstm(struct steno_icefall_reader *r);
STENO_MUST steno_status steno_icefall_read_zipformer1(struct steno_icefall_reader *r);

#endif
