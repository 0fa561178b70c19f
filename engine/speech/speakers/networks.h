/* The networks of a directory. Frozen. */
#ifndef STENO_SPEAKERS_NETWORKS_H
#define STENO_SPEAKERS_NETWORKS_H

#include "speech/speakers/embedding.h"
#include "speech/speakers/segmentation.h"
#include "speech/speakers/sortformer.h"
#include "steno.h"

struct steno_speakers {
    /* With a Sortformer there is no segmentation, and perhaps no embedding: dim 0. */
    struct steno_sortformer sortformer;
    struct steno_segmentation segmentation;
    struct steno_embedding embedding;
    int rate;    /* Hz */
    int threads; /* of a session */
};

#endif
