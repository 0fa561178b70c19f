/* Models of ../shared/zoo/tiny against what sherpa-onnx recorded of them (decode.json there). */
#ifndef STENO_TESTS_ZOO_H
#define STENO_TESTS_ZOO_H

#include "steno.h"

struct zoo_run {
    const char *dir; /* of ../shared/zoo/tiny, or a path with a slash at its begin */
    const char *of;  /* directory whose decode.json it is; NULL: dir */
    const char *set; /* of decode.json's sets */
    const struct steno_option *options;
    size_t n_options;
    const char *language;
    enum steno_precision precision; /* 0: STENO_FP32, as the file and its runtime have it */
    double silence; /* s of zeros after the recording, as the recording program put them */
    size_t piece;   /* samples in one push; 0: all */
    bool unended;   /* compare what is there before the stream's end flushes the networks */
    /* A piece that the recording program leaves out: numbers are compared, and in rows without them
     * pieces. */
    const char *left_out;
    bool marks; /* the recorded texts have marks, "<...>", which ours leave out */
    bool times; /* compare the times of tokens, to one frame */
    /* Tokens at the begin of a row that the recording program may have dropped: a row that has them
     * and then all that is recorded is equal. */
    size_t dropped;
};

struct zoo_count {
    size_t rows, equal, more; /* more: of the equal ones, those that have dropped tokens */
    size_t tokens, edits;     /* recorded tokens, and edit distance, of all rows */
};

/* Run every recording of the set and compare tokens, text, times, language and labels with what is
 * recorded; there is a row at least. Differences are printed. The test is skipped where ../shared
 * is not there, and the reason is printed. */
struct zoo_count zoo_check(const struct zoo_run *r);
/* What the recording programs do to audio of another rate: Kaldi's LinearResample with 6 zeros and
 * a cutoff at 0.99 of the lower Nyquist frequency. *n: samples at 16 kHz. The caller frees. */
float *zoo_resample(const float *x, size_t n_in, int rate, size_t *n);
/* The first seconds (0: all) of channel 1 of the recording of that name in ../shared/audio, then
 * `silence` s of zeros, at 16 kHz. NULL: it is not there. The caller frees. */
float *zoo_recording(const char *name, double seconds, double silence, size_t *n);

#endif
