/* Options of the joint CTC/attention search as requests and the configuration name them:
 * ctc_weight, lm_weight, penalty, maxlenratio, minlenratio, pre_beam (struct steno_search_options).
 * Pure. */
#ifndef STENO_PROTOCOL_SEARCH_H
#define STENO_PROTOCOL_SEARCH_H

#include "steno.h"

#define STENO_SEARCH_NAMES "ctc_weight, lm_weight, penalty, maxlenratio, minlenratio, pre_beam"

bool steno_search_is_option(const char *name);
/* STENO_ERR_INVAL: no such option, or a value out of its range; both are named. */
STENO_MUST steno_status steno_search_set(struct steno_search_options *s, const char *name,
                                         double value, steno_err *err);
/* The same from text, a decimal number. */
STENO_MUST steno_status steno_search_set_text(struct steno_search_options *s, const char *name,
                                              const char *value, steno_err *err);
/* "NAME=VALUE, NAME=VALUE": also beam=N. beam is left alone when it is not named. */
STENO_MUST steno_status steno_search_read_list(struct steno_search_options *s, int *beam,
                                               const char *list, steno_err *err);
/* What io does not set is taken from defaults. */
void steno_search_complete(struct steno_search_options *io,
                           const struct steno_search_options *defaults);

#endif
