/* The options of icefall's scripts. */
#ifndef STENO_CONVERT_ICEFALL_H
#define STENO_CONVERT_ICEFALL_H

/* Options of icefall's train.py and export scripts that are understood, besides --chunk-size. */
struct steno_icefall_option {
    const char *name, *arg, *about; /* "--chunk-size" */
};
#define STENO_ICEFALL_OPTIONS 26
extern const struct steno_icefall_option steno_icefall_options[STENO_ICEFALL_OPTIONS];

#endif
