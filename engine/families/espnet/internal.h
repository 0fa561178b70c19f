/* An open directory of espnet_onnx. */
#ifndef STENO_FAMILIES_ESPNET_INTERNAL_H
#define STENO_FAMILIES_ESPNET_INTERNAL_H

#include "families/espnet/net.h"
#include "families/family.h"

/* Frozen after open, but for what struct steno_espnet locks. */
struct steno_espnet_model {
    struct steno_espnet net;
    bool opened; /* net is to be closed */
    steno_tokens *tokens;
    char name[64], network[128];
    struct steno_espnet_search defaults; /* what a stream gets that asks for nothing else */
};

/* Apply options of streams to *s. */
void steno_espnet_apply_options(struct steno_espnet_search *s, const struct steno_option *options,
                                size_t n);

#endif
