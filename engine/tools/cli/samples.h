/* Inputs with which a network is run to see its values: random ones, ones from files, or ones
 * recorded while a model transcribes. */
#ifndef STENO_CLI_SAMPLES_H
#define STENO_CLI_SAMPLES_H

#include "tools/cli/inputs.h"

/* Per network from recordings; beyond it only every second, fourth, ... sample is kept. */
#define SAMPLES_MAX 96

struct samples {
    struct cli_inputs *v;
    int n;
};
void samples_free(struct samples *s);

/* Make `count` random samples of different lengths (cli/inputs.h). */
STENO_MUST steno_status samples_random(struct samples *s, const steno_network *n, int count,
                                       uint64_t seed, steno_err *err);
/* Read one sample from a .npz file with an array for every input, by name. */
STENO_MUST steno_status samples_npz(struct samples *s, const steno_network *n, const char *path,
                                    steno_err *err);

/* Inputs of the networks of a model directory, recorded while the unchanged model transcribes
 * recordings. */
struct recorded_inputs;
STENO_MUST steno_status recorded_inputs_open(struct recorded_inputs **out, const char *dir,
                                             const struct cli_list *audio, steno_err *err);
void recorded_inputs_close(struct recorded_inputs *h); /* accepts NULL */
/* Get the inputs of the network at path; none when it was not run with the inputs that n has. */
STENO_MUST steno_status recorded_inputs_samples(const struct recorded_inputs *h, const char *path,
                                                const steno_network *n, struct samples *s,
                                                steno_err *err);

#endif
