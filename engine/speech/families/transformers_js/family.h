/* Family transformers_js: Granite Speech and Voxtral. */
#ifndef STENO_FAMILIES_TRANSFORMERS_JS_FAMILY_H
#define STENO_FAMILIES_TRANSFORMERS_JS_FAMILY_H

#include "speech/families/family.h"

extern const struct steno_family steno_family_transformers_js;

#endif
