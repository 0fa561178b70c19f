/* An open directory of espnet_onnx. */
#ifndef STENO_FAMILIES_ESPNET_INTERNAL_H
#define STENO_FAMILIES_ESPNET_INTERNAL_H

#include "speech/families/espnet/net.h"
#include "speech/families/family.h"

/* Frozen after open, except for what struct steno_espnet locks. */
struct steno_espnet_model {
    struct steno_espnet net;
    bool opened; /* net must be closed */
    steno_tokens *tokens;
    char name[64], network[128];
    struct steno_espnet_search defaults; /* of streams that set no options */
};

/* Store options of streams in *s; others are ignored. */
void steno_espnet_apply_options(struct steno_espnet_search *s, const struct steno_option *options,
                                size_t n);

#endif
