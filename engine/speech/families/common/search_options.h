/* Rows of option tables (struct steno_option_info) that families share: the front end of exported
 * models, what a search over tokens takes, and digits of models that are asked for them. */
#ifndef STENO_FAMILIES_COMMON_SEARCH_OPTIONS_H
#define STENO_FAMILIES_COMMON_SEARCH_OPTIONS_H

#include "speech/families/option.h"
#include "steno.h"

/* clang-format off */
#define STENO_FRONTEND_OPTION(family) \
    {family, "frontend", STENO_OPTION_CHOICE, STENO_OPTION_OF_MODEL, 0, 0, "model|sherpa", \
     "model", "features as in the model's training, or as sherpa-onnx computes them"}

#define STENO_SEARCH_OPTIONS(family) \
    {family, "blank_penalty", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 20, NULL, "0", \
     "subtracted from the score of the blank: with more, fewer words are missed"}, \
    {family, "hotwords_score", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 100, NULL, "1.5", \
     "log-probability that each token of a hotword adds"}, \
    {family, "lm_weight", STENO_OPTION_NUMBER, STENO_OPTION_OF_STREAM, 0, 100, NULL, "", \
     "weight of the n-gram model; 0: none"}

#define STENO_ITN_OPTION(family) \
    {family, STENO_OPTION_ITN, STENO_OPTION_CHOICE, STENO_OPTION_OF_STREAM, 0, 0, "auto|on|off", \
     "auto", "write numbers in digits: auto and on do"}
/* clang-format on */

#endif
