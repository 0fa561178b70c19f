/* Labels that stay: the speakers of each new window are clustered with those of before, and get the
 * labels that their clusters were told with. Pure. */
#ifndef STENO_SPEAKERS_STABLE_H
#define STENO_SPEAKERS_STABLE_H

#include "speech/speakers/group.h"
#include "speech/speakers/powerset.h"
#include "steno.h"

#define STENO_STABLE_ITEMS 512 /* kept for clustering: 17 minutes and more of one talker */

struct steno_stable_rules {
    double threshold;   /* cosine distance up to which voices are one speaker */
    double apart;       /* the same for a new label: from its nearest one on the mean */
    double first;       /* s of clean speech that a new label needs, unless it is the first */
    double merge_after; /* s of clean speech after which a label can be merged */
    double share;       /* as of struct steno_group_rules */
    int max_speakers;   /* 1..STENO_LIVE_SPEAKERS */
};

/* A speaker of the window. */
struct steno_stable_voice {
    double seconds;                  /* of clean speech behind its item; 0: it has none */
    size_t fresh;                    /* frames to be labelled in which it talks, alone or not */
    size_t had[STENO_LIVE_SPEAKERS]; /* frames before them with each label */
    int label;                       /* -1: none */
};

/* Confined. Zeros: empty. */
struct steno_stable {
    struct steno_stable_rules rules;
    struct steno_group_items items;                          /* STENO_STABLE_ITEMS and a window's */
    int shown[STENO_STABLE_ITEMS + STENO_POWERSET_SPEAKERS]; /* [items.n] their labels, -1: none */
    int n;
    int is[STENO_LIVE_SPEAKERS]; /* [n] the label that it was merged into, or itself */
    struct steno_live_merge merges[STENO_LIVE_SPEAKERS]; /* [n_merges] */
    int n_merges;
};

/* l must be zeros, and is freed after a failure too. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_stable_init(struct steno_stable *l, size_t dim,
                                          const struct steno_stable_rules *rules, steno_err *err);
void steno_stable_free(struct steno_stable *l);
/* What a label is after all merges. */
int steno_stable_resolve(const struct steno_stable *l, int label);
/* The voice of a label after all merges, of unit length: out [items.dim]. Returns the seconds of
 * clean speech behind it; 0: none. */
double steno_stable_voice(const struct steno_stable *l, int label, float *out);
/* The label that a voice had for most of its frames, if it is not taken. -1: none. taken:
 * [STENO_LIVE_SPEAKERS]. */
int steno_stable_before(const struct steno_stable *l, const struct steno_stable_voice *v,
                        const bool *taken);
/* Cluster the items. Those from `first` on are of the voices v of a window, at most one each, which
 * get labels if they are fresh; after a failure they are gone. Old items are averaged in pairs
 * where they are too many. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_stable_take(struct steno_stable *l, struct steno_stable_voice *v,
                                          size_t first, steno_err *err);

#endif
