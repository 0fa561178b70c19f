/* Inputs that a network is run with to see what its values are: random, from files, or what a model
 * gave it while it listened. */
#ifndef STENO_CLI_SAMPLES_H
#define STENO_CLI_SAMPLES_H

#include "cli/inputs.h"

#define SAMPLES_MAX                                                                                \
    96 /* of one network that recordings give; of more, every second, fourth, ...                  \
        */

struct samples {
    struct cli_inputs *v;
    int n;
};
void samples_free(struct samples *s);

/* `count` random ones of different lengths (cli/inputs.h). */
STENO_MUST steno_status samples_random(struct samples *s, const steno_network *n, int count,
                                       uint64_t seed, steno_err *err);
/* One from a .npz with an array for every input, by name. */
STENO_MUST steno_status samples_npz(struct samples *s, const steno_network *n, const char *path,
                                    steno_err *err);

/* What the networks of a model directory are given while the model, as its files are, hears
 * recordings. */
struct recorded_inputs;
STENO_MUST steno_status recorded_inputs_open(struct recorded_inputs **out, const char *dir,
                                             const struct cli_list *audio, steno_err *err);
void recorded_inputs_close(struct recorded_inputs *h); /* accepts NULL */
/* Those of the network at path; none when it was not run with the inputs that n has. */
STENO_MUST steno_status recorded_inputs_samples(const struct recorded_inputs *h, const char *path,
                                                const steno_network *n, struct samples *s,
                                                steno_err *err);

#endif
