/* Parts that the files of NeMo's encoders share. Confined. */
#ifndef STENO_FAMILIES_NEMO_BUILD_PARTS_H
#define STENO_FAMILIES_NEMO_BUILD_PARTS_H

#include "speech/families/nemo/build.h"

#define STENO_NEMO_EPSILON 1e-5f

/* What all layers share. */
struct steno_nemo_frame {
    const struct steno_nemo_arch *a;
    steno_value_id hidden;    /* [B,1,T or 1,keys] bool: not to be seen by attention */
    steno_value_id padding;   /* [B,1,T] bool: behind the end */
    steno_value_id positions; /* [1,2 keys - 1,d], or [1,left + 1 + right,d] of local attention */
    steno_value_id cosine, sine; /* of rotated frames: [T,1,d / heads] */
    steno_value_id windows; /* local attention: [blocks, window] i64, the frames of each block */
    steno_value_id rows;    /* local attention: [1] i64, the frames of all blocks */
    steno_value_id channel,
        time; /* caches [B,left,d], [B,d,before] of a layer, then its next ones */
};

/* ---- values (nemo_parts.c) ---- */
steno_value_id steno_nemo_zero(struct steno_make *m); /* [1] i64 */
/* n [1] frames of zeros at the end of axis 1 of x [B,T,F]. */
steno_value_id steno_nemo_pad(struct steno_make *m, steno_value_id x, steno_value_id n);

/* ---- subsampling (nemo_subsample.c) ---- */
/* [B,bands,T] -> [B,T',d]; *length [B] follows. */
steno_value_id steno_nemo_subsample(struct steno_make *m, steno_value_id x, steno_value_id *length,
                                    const struct steno_nemo_arch *a);

/* ---- layers (build_encoder.c) ---- */
/* The layers of an encoder of whole utterances on subsampled frames x [B,T,d], of which `length`
 * [B] are there: [B,T,out]. */
steno_value_id steno_nemo_encode_frames(struct steno_make *m, steno_value_id x,
                                        steno_value_id length, const struct steno_nemo_arch *a);

/* ---- attention (nemo_attention.c) ---- */
/* Scale x [B,T,d] and give it its positions, or set f->positions. */
steno_value_id steno_nemo_place(struct steno_make *m, struct steno_nemo_frame *f, steno_value_id x);
/* Set f->hidden and f->padding for x [B,T,d] with `length` frames; filled: the frames of the cache
 * that are there, [B], or STENO_NONE. */
void steno_nemo_see(struct steno_make *m, struct steno_nemo_frame *f, steno_value_id x,
                    steno_value_id length, steno_value_id filled);
/* self_attn.* of the layer at m->prefix. */
steno_value_id steno_nemo_attend(struct steno_make *m, steno_value_id x,
                                 struct steno_nemo_frame *f);

#endif
