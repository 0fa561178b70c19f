/* Small parts that several networks of icefall have. */
#ifndef STENO_CONVERT_ICEFALL_PARTS_H
#define STENO_CONVERT_ICEFALL_PARTS_H

#include "tools/convert/icefall_graphs.h"

/* x sigmoid(x - 1) */
steno_value_id steno_icefall_double_swish(struct steno_make *m, steno_value_id x);
/* x / sqrt(mean(x^2) + e^NAME.eps) over the last axis. */
steno_value_id steno_icefall_basic_norm(struct steno_make *m, steno_value_id x, const char *name);
/* (x - minus) / 2 of whole numbers. */
steno_value_id steno_icefall_half(struct steno_make *m, steno_value_id x, int64_t minus);
/* Relative positions T - 1 down to 1 - T, [1, 2 T - 1, d], for a T that the graph does not know.
 * *table, STENO_NONE at first, is the table of all positions with these columns. */
steno_value_id steno_icefall_positions(struct steno_make *m, steno_value_id *table,
                                       steno_value_id frames, int64_t d);

/* Layer i of a state, [n, ...] -> [...]. */
steno_value_id steno_icefall_layer_of(struct steno_make *m, steno_value_id state, int64_t i);
/* One state out of those of its n <= STENO_ZIPFORMER_LAYERS layers, [...] -> [n, ...]. */
steno_value_id steno_icefall_state_of(struct steno_make *m, int64_t n,
                                      const steno_value_id *of_layer);

/* The encoder's output x [batch, rows, a->out] becomes that of the network: the joiner's input, or
 * logarithms of probabilities (a->ctc). rows 0: as many as the input gives, "T_out". */
void steno_icefall_end(struct steno_make *m, const struct steno_icefall_arch *a, steno_value_id x,
                       int64_t batch, int64_t rows);
/* The lengths of those outputs, for whole recordings. */
void steno_icefall_end_lengths(struct steno_make *m, const struct steno_icefall_arch *a,
                               steno_value_id lengths, int64_t batch);

/* Metadata: model_type, version, model_author. */
void steno_icefall_about(struct steno_make *m, const char *type);
/* Metadata of a number of each stack, "2,2,3". */
void steno_icefall_list(struct steno_make *m, const char *key, int64_t n, const int64_t *numbers);
/* Metadata that streaming Zipformers of both versions have. more: frames that a call takes beside
 * those of the chunk. */
void steno_icefall_about_chunks(struct steno_make *m, const struct steno_icefall_arch *a,
                                int64_t more);

#endif
