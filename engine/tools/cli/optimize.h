/* The parts of steno optimize. */
#ifndef STENO_CLI_OPTIMIZE_H
#define STENO_CLI_OPTIMIZE_H

#include "tools/cli/samples.h"
#include "tools/cli/tally.h"
#include "tools/optimize/calibrate.h"
#include "tools/optimize/save.h"
#include "tools/optimize/quantize.h"

#include <jansson.h>

enum { LEVEL_BASIC, LEVEL_EXTENDED, LEVEL_LAYER, LEVEL_ALL };
enum { OPTIMIZE_TEXT, OPTIMIZE_JSON };                     /* --report */
enum { KEEP_FP32, TO_FP16, TO_BF16, TO_INT8 };             /* --precision */
enum { QUANTIZE_NONE, QUANTIZE_DYNAMIC, QUANTIZE_STATIC }; /* --quantize */

struct optimize_result {
    struct tally t;
    struct steno_onnx_written written;
    size_t bytes_in;
};

struct optimize {
    const char *in, *out;
    int level, report, external, type;
    long heads, hidden; /* 0: not given */
    bool directory;
    int fitting; /* networks that fit the type */
    bool verbose, input_int32, freeze_inputs;
    bool in_place; /* out is in, and a line for each network takes the place of the report */
    bool quiet;    /* not even that */
    int networks;  /* rewritten */
    struct cli_network n;
    struct steno_save_options save;
    json_t *refused;
    int precision, form;
    struct steno_quantize_options quantize;
    long bits, block;
    struct cli_list calibrate;
    int method; /* enum steno_range_method */
    double percentile;
    bool layer_errors;
    struct recorded_inputs *recorded_inputs;
    struct optimize_result *result; /* of the current file */
    json_t *products;               /* of the quantizer; empty without it */
    json_t *notes;                  /* sentences for the report */
};

/* Names of --model-type, "auto|...". */
extern const char optimize_types[];

/* Open the network after passes, quantized where that is wanted (optimize_quantize.c). */
STENO_MUST steno_status optimize_open(struct optimize *o, const char *in, steno_network **out,
                                      steno_err *err);
/* Check --model-type, --num-heads and --hidden-size against the passes' findings. STENO_ERR_INVAL
 * names the findings. In a directory one network must be of the type. */
STENO_MUST steno_status optimize_check_type(struct optimize *o, const steno_network *n,
                                            const char *in, steno_err *err);
/* When --calibrate names recordings: run the model on them and record the inputs of its networks in
 * o->recorded_inputs. */
STENO_MUST steno_status optimize_record_inputs(struct optimize *o, steno_err *err);
/* Rewrite all networks of a directory in their places, with weights of a precision (TO_...). *n:
 * how many. Returns an exit code. */
int optimize_in_place(const char *dir, int precision, bool quiet, int *n);
void optimize_report(const struct optimize *o, const struct optimize_result *r,
                     const steno_network *n, const char *in, const char *out);

#endif
