/* The two networks of a directory. Frozen. */
#ifndef STENO_SPEAKERS_NETWORKS_H
#define STENO_SPEAKERS_NETWORKS_H

#include "speech/speakers/embedding.h"
#include "speech/speakers/segmentation.h"
#include "steno.h"

struct steno_speakers {
    struct steno_segmentation segmentation;
    struct steno_embedding embedding;
    int threads; /* of a session */
};

#endif
