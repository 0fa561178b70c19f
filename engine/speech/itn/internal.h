/* Shared by itn.c (texts) and files.c (which files a grammar has). */
#ifndef STENO_ITN_INTERNAL_H
#define STENO_ITN_INTERNAL_H

#include "speech/itn/fst.h"
#include "speech/itn/itn.h"

struct steno_itn {
    bool tagged; /* stage 0 is a tagger, stage 1 its verbalizer */
    struct steno_fst_list stage;
};

#endif
