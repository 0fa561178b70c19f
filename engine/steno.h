/* libsteno: audio in, text out.
 *
 *     steno_model *m; steno_stream *s; struct steno_event ev; steno_err err;
 *     steno_model_open(&m, "conf/models/digits-en", NULL, &err);
 *     steno_stream_open(&s, m, NULL, &err);
 *     steno_stream_push(s, pcm, n, &err);          as often as there is audio
 *     while (steno_stream_next(s, &ev)) ...        partials and finals so far
 *     steno_stream_end(s, &err);                   flush: the last word comes now
 *     while (steno_stream_next(s, &ev)) ...
 *     steno_stream_close(s); steno_model_close(m);
 *
 * engine/examples has whole programs in C and C++.
 *
 * Languages: C11 and C++11 or later. `make install` makes one file of this header and those that it
 * includes; nothing else is needed.
 * Errors: a function that can fail returns a steno_status, and on failure fills in err (which may
 * be NULL) and leaves its outputs as they were. Bad input never ends the process.
 * Threads: a model and a vad are frozen after open: any number of threads may use one at the same
 * time. A stream or recording is confined: one thread at a time, any thread. Functions without such
 * an object may be called from any thread. The library calls no function of its user. Kernels keep
 * blocks of matrices on the stack of their caller: a thread that runs a model needs 2 MiB of it.
 * Ownership: what an open function hands out belongs to the caller, who closes it. Strings and
 * arrays inside structs belong to the object that filled them in. "Borrowed" arguments must stay
 * valid for the stated time; the library never frees them. Close functions accept NULL.
 * Times are seconds on one clock: samples since the stream began, divided by the input rate.
 * Texts are UTF-8. Structs of options: start from zeros or from the _default function; both mean
 * all defaults. */
#ifndef STENO_H
#define STENO_H

#include <stdio.h>

#include "base/precision.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The N of libsteno.so.N. It grows when a struct, an enumeration or a function changes so that
 * programs must be compiled again. New functions alone do not change it. */
#define STENO_ABI_VERSION 0
/* STENO_ABI_VERSION of the library that runs. A program that loads the library by name (dlopen)
 * compares the two before its first other call; for others the linker sees to it. */
STENO_API int steno_abi_version(void);
/* "0.1.0". Static; never NULL. */
STENO_API const char *steno_version(void);

/* Free a string that the library handed over (steno_model_find). NULL is accepted. */
STENO_API void steno_free(void *p);

typedef struct steno_model steno_model;
typedef struct steno_stream steno_stream;

/* ---- options of model families --------------------------------------------------------------- */

/* An option that only some model families have is a name and a value, such as "ctc_weight" and
 * "0.3". Each family declares its options in a table; the functions below read the tables. */
struct steno_option {
    const char *name, *value;
};

enum steno_option_kind {
    STENO_OPTION_FLAG,   /* "yes", "true", "on", "1" or "no", "false", "off", "0" */
    STENO_OPTION_NUMBER, /* decimal, min..max */
    STENO_OPTION_CHOICE, /* one of the words in `choices`; with on and off also a flag's */
    STENO_OPTION_LIST    /* whole numbers min..max, with commas or blanks between; "": none */
};

enum steno_option_scope {
    STENO_OPTION_OF_MODEL, /* set when the model is opened; decides what is loaded */
    STENO_OPTION_OF_STREAM /* each stream may set it; set for a model: the default of its streams */
};

struct steno_option_info {
    const char *family; /* the family that declares it; "all": models of every family have it */
    const char *name;
    enum steno_option_kind kind;
    enum steno_option_scope scope;
    double min, max;      /* NUMBER, LIST */
    const char *choices;  /* CHOICE: "espnet-onnx|none"; else NULL */
    const char *fallback; /* the value when nobody sets it; "" = the model's own value */
    const char *help;     /* one line, for people */
};

/* Option i of all families, sorted by family, "all" first; NULL past the last. Static. Options of
 * the same name have the same kind, scope and range in all families. */
STENO_API const struct steno_option_info *steno_option_at(size_t i);
/* The first option of this name; NULL: no family has it. Static. */
STENO_API const struct steno_option_info *steno_option_find(const char *name);
/* Check a name and a value against the tables. STENO_ERR_INVAL: no family has such an option (the
 * message lists the existing ones), or the value is not of its kind or not in its range. */
STENO_API STENO_MUST steno_status steno_option_check(const char *name, const char *value,
                                                     steno_err *err);

/* ---- languages ------------------------------------------------------------------------------- */

/* The code ("en", "yue": ISO 639, with Whisper's "jw" for Javanese) of a language given by code, by
 * English name ("english") or as a tag of BCP 47 ("en-US"), in any case. NULL: not known here.
 * Static. */
STENO_API const char *steno_language_code(const char *language);
/* The English name of a code, in lower case. NULL: not known here. Static. */
STENO_API const char *steno_language_name(const char *code);

/* What is known of the speech beforehand, for models that can use it. Texts have at most
 * STENO_HINT_BYTES bytes; NULL and "" = not given. */
#define STENO_HINT_BYTES 8192
struct steno_hints {
    /* As steno_language_code takes it; "auto", "multi", "detect" = "". Several with commas between:
     * the model is to find which of these is spoken (family whisper). */
    const char *language;
    bool translate;       /* translate into English */
    const char *prompt;   /* text that came before: its names and spellings become likelier */
    const char *prefix;   /* text that the recording begins with */
    const char *hotwords; /* words that are likely anywhere in the recording */
};

/* ---- models ---------------------------------------------------------------------------------- */

struct steno_model_options {
    /* The highest CPU level to use: "scalar", "avx2", "avx512", "vnni", "bf16", "amx" (x86-64);
     * "scalar", "neon", "dotprod" (arm64). NULL = everything that the CPU has. */
    const char *cpu;
    int threads; /* threads that one stream may use; 0 = 1 */
    bool plain;  /* run networks as they are in the file, without graph passes: slow, for comparison
                  * (`steno verify`) */
    /* STENO_AUTO_WEIGHTS: the fastest that the model allows: int8 on CPUs with AVX2 or AArch64's
     * dot products, else bf16 on CPUs that multiply such numbers, else fp32. In networks that are
     * already quantized, all but STENO_FP32 round the activations of 8-bit products over the range
     * of each row, and do not round those between products; AUTO and INT8 keep the other weights in
     * bf16 where the CPU multiplies such numbers. */
    enum steno_precision precision;
    const struct steno_option
        *options; /* [n_options] of the model's family; borrowed for the call */
    size_t n_options;
};
/* All defaults, the same as NULL: f32 weights, one thread. */
STENO_API struct steno_model_options steno_model_options_default(void);

struct steno_endpoint_rules { /* seconds; in stream options a value <= 0 = the model's own */
    double silence_alone;     /* trailing silence, no speech yet */
    double silence_after;     /* trailing silence after speech */
    double longest;           /* length of an utterance */
};

/* Strings belong to the model, and are never NULL. */
struct steno_model_info {
    const char *dir, *name, *version, *family;
    const char *language; /* code of its only one; "" = it has several, or not known */
    const char *license;
    const char *network; /* file name of the (first) network */
    /* The program whose results the model reproduces, with its faults; "" = none. */
    const char *results_of;
    int sample_rate; /* Hz that the network was trained at */
    int feature_bins;
    double frame_seconds; /* length of one frame of scores: the resolution of word times */
    double chunk_seconds; /* audio per network step */
    double
        lookahead_seconds; /* audio after a chunk that the network needs for the chunk's scores */
    size_t weight_bytes;   /* of the packed weights, which all streams share */
    size_t stream_bytes;   /* about what one stream needs: states and audio */
    size_t vocab_size;
    struct steno_endpoint_rules endpoint;
    /* Which of struct steno_hints the model can use: */
    const char *languages; /* codes that hints may name, "en de fr"; "" = not known */
    bool detects_language; /* when hints name none */
    bool translates, takes_prompt, takes_hotwords; /* takes_prompt: Whisper prefix, too */
    /* The model cuts a recording into sections itself. Open the stream of a whole recording with
     * no_endpointing then. */
    bool cuts;
};

/* Find the model directory to open. In this order: `given`, unless NULL or empty; the environment
 * variable STENO_MODEL; the first model of the catalogue that was fetched (steno model fetch); the
 * model digits-en that comes with steno, in the source tree of the program if it runs from there,
 * then where it is installed. `given` is a path or a name of the catalogue. *out belongs to the
 * caller: steno_free. STENO_ERR_IO: there is no model, or the named one was not fetched. */
STENO_API STENO_MUST steno_status steno_model_find(char **out, const char *given, steno_err *err);
/* Load a model directory; its files tell the family. opt may be NULL; both arguments are borrowed
 * for the call. If the environment variable STENO_CACHE (or systemd's CACHE_DIRECTORY) names a
 * folder, the first load leaves packed weights there and later loads map them. Takes milliseconds
 * to seconds. Messages name file and place. STENO_ERR_IO: a file is missing or cannot be read.
 * STENO_ERR_FORMAT: a file is damaged, or the directory is of no known family.
 * STENO_ERR_UNSUPPORTED: an operator or feature that this library does not have. STENO_ERR_INVAL:
 * an option that the family does not have, an unknown CPU level or precision, or threads below 0.
 * STENO_ERR_NOMEM. */
STENO_API STENO_MUST steno_status steno_model_open(steno_model **out, const char *dir,
                                                   const struct steno_model_options *opt,
                                                   steno_err *err);
/* Grammars that write numbers and dates of finals (docs/itn.md), instead of the fetched ones, which
 * a model has at first: "en=DIR,zh=DIR", or "none"; NULL or "": the fetched ones. Before its first
 * stream. A model whose directory has a grammar keeps it, and one that writes numbers itself has
 * none. STENO_ERR_INVAL: the list's form; STENO_ERR_IO, STENO_ERR_FORMAT, STENO_ERR_UNSUPPORTED: a
 * grammar cannot be read; the model then has the ones from before. */
STENO_API STENO_MUST steno_status steno_model_use_grammars(steno_model *m, const char *list,
                                                           steno_err *err);
/* The same for networks that write marks and capitals of finals (docs/punctuation.md). A model that
 * writes marks itself has none. */
STENO_API STENO_MUST steno_status steno_model_use_punctuators(steno_model *m, const char *list,
                                                              steno_err *err);
/* Close a model, after all its streams. NULL is accepted. */
STENO_API void steno_model_close(steno_model *m);
/* Name of the family of a model directory; NULL: of no known family. Loads nothing. Static. */
STENO_API const char *steno_model_family(const char *dir);
/* The languages of a model directory, as steno_model_get_info tells them of an open model. */
struct steno_model_languages {
    char language[32];   /* code of its only one, "" if it has several */
    char languages[400]; /* codes, "en de fr" */
    bool translates;     /* to English */
};
/* Read them from the directory's headers and vocabularies. False: they are not named there, or not
 * before the model is open. Loads no weights. */
STENO_API bool steno_model_languages(const char *dir, struct steno_model_languages *out);
/* Check that the family of the directory has these options, and that the directory has the files
 * that they need. Loads nothing. STENO_ERR_INVAL names the option; STENO_ERR_FORMAT: this is no
 * model directory; STENO_ERR_IO: it is not there. */
STENO_API STENO_MUST steno_status steno_model_check(const char *dir,
                                                    const struct steno_option *options, size_t n,
                                                    steno_err *err);
/* Fill in *info; its strings stay valid until the model is closed. */
STENO_API void steno_model_get_info(const steno_model *m, struct steno_model_info *info);
/* Check that a model can use these hints. STENO_ERR_INVAL: the message begins with the field's
 * name, as in "language: ". */
STENO_API STENO_MUST steno_status steno_hints_check(const struct steno_model_info *info,
                                                    const struct steno_hints *hints,
                                                    steno_err *err);
/* Print the model's information for people, one "key  value" per line, as `steno model info` does.
 */
STENO_API void steno_model_describe(const steno_model *m, FILE *out);

/* ---- voice activity -------------------------------------------------------------------------- */

typedef struct steno_vad steno_vad;
/* Open a detector that tells speech from silence, for the fields vad and turn_vad of struct
 * steno_stream_options. dir: a directory with silero-vad's silero_vad_16k_op15.onnx or
 * silero_vad.onnx; NULL: a rule on energy, without a network. STENO_ERR_IO, STENO_ERR_FORMAT,
 * STENO_ERR_NOMEM. Frozen. */
STENO_API STENO_MUST steno_status steno_vad_open(steno_vad **out, const char *dir, steno_err *err);
/* Whether a directory has a network that steno_vad_open takes. Loads nothing. */
STENO_API bool steno_vad_is_dir(const char *dir);
/* Find the directory of a detector's network. `given`: a path or a name of the catalogue; NULL:
 * silero-vad, if it was fetched (steno model fetch silero-vad). *out belongs to the caller:
 * steno_free. STENO_ERR_IO: it is not on this machine. */
STENO_API STENO_MUST steno_status steno_vad_find(char **out, const char *given, steno_err *err);
/* Close a detector, after all streams that use it. NULL is accepted. */
STENO_API void steno_vad_close(steno_vad *v);

/* ---- speakers -------------------------------------------------------------------------------- */

typedef struct steno_speakers steno_speakers;
/* Open the networks that tell speakers apart. dir: a directory that has, in it or in its
 * directories, two ONNX files: a segmentation network (pyannote's segmentation-3.0) and an
 * embedding network of 3D-Speaker, WeSpeaker or NeMo with the metadata of sherpa-onnx; or NVIDIA's
 * streaming Sortformer, which then tells speakers apart alone: an embedding network beside it only
 * finds known people. threads: of the engine; 0 = 1. STENO_ERR_IO, STENO_ERR_FORMAT,
 * STENO_ERR_UNSUPPORTED, STENO_ERR_NOMEM. Frozen. */
STENO_API STENO_MUST steno_status steno_speakers_open(steno_speakers **out, const char *dir,
                                                      int threads, steno_err *err);
/* Whether a directory has such networks. Loads nothing. */
STENO_API bool steno_speakers_is_dir(const char *dir);
/* Find that directory. `given`: a path, a name of the catalogue or of a directory among the fetched
 * models; NULL: the environment's STENO_SPEAKERS, else "speakers", if it was fetched (steno model
 * fetch speakers). *out belongs to the caller: steno_free. STENO_ERR_IO: it is not on this machine.
 */
STENO_API STENO_MUST steno_status steno_speakers_find(char **out, const char *given,
                                                      steno_err *err);
/* Close them, after all diarizations that use them. NULL is accepted. */
STENO_API void steno_speakers_close(steno_speakers *s);
/* Seconds after which a Sortformer tells who speaks live: 0.32, 1.04, 10 or 30.4, which NVIDIA
 * documents; without this call, what its file says, or 10. Before any use of s. STENO_ERR_INVAL;
 * STENO_ERR_UNSUPPORTED: it is no Sortformer, or one with fixed lengths. */
STENO_API STENO_MUST steno_status steno_speakers_set_latency(steno_speakers *s, double seconds,
                                                             steno_err *err);
/* Print what the networks are for people, one "key  value" per line, as `steno model info` does. */
STENO_API void steno_speakers_describe(const steno_speakers *s, FILE *out);

/* To a Sortformer, `speakers` and max_speakers are both upper bounds; it takes no threshold. */
struct steno_speaker_options {
    int speakers;                   /* how many there are, up to 1000; 0 = to be found */
    int min_speakers, max_speakers; /* bounds of the number to be found; 0 = none */
    double threshold; /* cosine distance from which two voices are two speakers; 0 = default */
};

/* Somebody talks, in seconds. Speakers are numbered from 0, in the order in which they begin. */
struct steno_turn {
    double start, end;
    int speaker;
};

/* Who speaks when in one recording. Its memory grows by some megabytes an hour. Confined. */
typedef struct steno_diarization steno_diarization;
/* sample_rate: Hz of the pushed audio; 0 = the networks' own. opt may be NULL. speakers must
 * outlive it. STENO_ERR_INVAL names the option. */
STENO_API STENO_MUST steno_status steno_diarization_open(steno_diarization **out,
                                                         const steno_speakers *speakers,
                                                         int sample_rate,
                                                         const struct steno_speaker_options *opt,
                                                         steno_err *err);
STENO_API void steno_diarization_close(steno_diarization *d);
/* Append mono samples [n], f32 in [-1,1]. STENO_ERR_LIMIT: longer than some days. */
STENO_API STENO_MUST steno_status steno_diarization_push(steno_diarization *d, const float *pcm,
                                                         size_t n, steno_err *err);
/* End the recording and find its turns. */
STENO_API STENO_MUST steno_status steno_diarization_end(steno_diarization *d, steno_err *err);
/* Turns [*n] by start, valid until close; those of two speakers may overlap. Before the end: none.
 */
STENO_API const struct steno_turn *steno_diarization_turns(const steno_diarization *d, size_t *n);
/* The same with one speaker at a time, and with the shortest ones too: for words. */
STENO_API const struct steno_turn *steno_diarization_exclusive(const steno_diarization *d,
                                                               size_t *n);
/* The number of speakers found. */
STENO_API int steno_diarization_speakers(const steno_diarization *d);
/* Seconds of audio so far. */
STENO_API double steno_diarization_seconds(const steno_diarization *d);

/* A voice print: the floats by which a known person's voice is found again. It is personal data:
 * who keeps one must be allowed to. Prints of different networks do not compare. */
STENO_API size_t steno_speaker_print_floats(const steno_speakers *s);
/* Make one of mono samples [n] of a person, f32 in [-1,1]: out [floats]. seconds, if not NULL: of
 * clear speech in it. STENO_ERR_INVAL: less than a second, and zeros, which are like no voice; five
 * and more are better. */
STENO_API STENO_MUST steno_status steno_speaker_print_make(const steno_speakers *s, int sample_rate,
                                                           const float *pcm, size_t n, float *out,
                                                           double *seconds, steno_err *err);
/* The same of a recording that has ended, of the one who talks most. s: those of the diarization.
 */
STENO_API STENO_MUST steno_status steno_diarization_print(const steno_diarization *d,
                                                          const steno_speakers *s, float *out,
                                                          double *seconds, steno_err *err);
/* Which of n known voices, prints [n, floats], are the speakers of a recording that has ended: who
 * [steno_diarization_speakers] gets the index of each, or -1. A voice is one speaker at most.
 * least: cosine from which two voices are one; 0 = 0.55. s: those of the diarization. */
STENO_API STENO_MUST steno_status steno_diarization_identify(const steno_diarization *d,
                                                             const steno_speakers *s,
                                                             const float *prints, size_t n,
                                                             double least, int *who,
                                                             steno_err *err);

/* People whose prints are in a directory: a file of mode 0600 for each, in a directory of 0700
 * that belongs to the user of the process. As they are when it is opened. Frozen. */
typedef struct steno_enrolled steno_enrolled;
#define STENO_SPEAKER_NAME 65  /* bytes of a name with its NUL */
#define STENO_ENROLLED_MAX 256 /* people of a directory */
struct steno_enrolled_speaker {
    const char *name; /* valid until close */
    double seconds;   /* of clear speech that made the print */
    int64_t since;    /* s of 1970 */
    bool known;       /* false: the print is of another network, or its file is damaged */
};
/* STENO_ERR_INVAL: the name is not 1 to STENO_SPEAKER_NAME - 1 bytes of UTF-8, or has control
 * characters, or blanks at its ends. */
STENO_API STENO_MUST steno_status steno_speaker_name_check(const char *name, steno_err *err);
/* Read them. No directory: nobody. s: networks; NULL: nobody is known, and there are no prints.
 * STENO_ERR_IO: others may use the directory, or the reason. */
STENO_API STENO_MUST steno_status steno_enrolled_open(steno_enrolled **out, const char *dir,
                                                      const steno_speakers *s, steno_err *err);
STENO_API void steno_enrolled_close(steno_enrolled *e); /* accepts NULL */
STENO_API size_t steno_enrolled_count(const steno_enrolled *e);
/* Report one, by name. False past the last one. */
STENO_API bool steno_enrolled_at(const steno_enrolled *e, size_t i,
                                 struct steno_enrolled_speaker *out);
/* Their prints [count, floats], zeros, which are like nobody, for those that are not known. */
STENO_API const float *steno_enrolled_prints(const steno_enrolled *e);
/* Write a person's print, in place of an earlier one of that name; the directory is made if it is
 * absent. name: UTF-8 without control characters. On the disk when it returns. STENO_ERR_INVAL: the
 * name; STENO_ERR_LIMIT: there are too many; STENO_ERR_IO: as above. */
STENO_API STENO_MUST steno_status steno_enroll(const char *dir, const char *name,
                                               const steno_speakers *s, const float *print,
                                               double seconds, steno_err *err);
/* Delete a person's print. STENO_ERR_INVAL: there is none. */
STENO_API STENO_MUST steno_status steno_enrolled_delete(const char *dir, const char *name,
                                                        steno_err *err);

/* Who speaks, told while it is said. A speaker that was told is never renamed; two that turn out to
 * be one are told as a merge. Memory does not grow: some MB, labels for the last minutes. Confined.
 */
typedef struct steno_live_speakers steno_live_speakers;
/* What runs the networks, some 35 MB, for any number of live_speakers, one after the other.
 * Confined. speakers must outlive both. */
typedef struct steno_live_networks steno_live_networks;
STENO_API STENO_MUST steno_status steno_live_networks_open(steno_live_networks **out,
                                                           const steno_speakers *speakers,
                                                           steno_err *err);
STENO_API void steno_live_networks_close(steno_live_networks *w);
#define STENO_LIVE_SPEAKERS 32 /* of one session, merged ones too; later voices get the nearest */
/* sample_rate: Hz of the pushed audio; 0 = the networks' own. max_speakers: 0 = the most.
 * STENO_ERR_INVAL, STENO_ERR_NOMEM, STENO_ERR_UNSUPPORTED. */
STENO_API STENO_MUST steno_status steno_live_speakers_open(steno_live_speakers **out,
                                                           const steno_speakers *speakers,
                                                           int sample_rate, int max_speakers,
                                                           steno_err *err);
STENO_API void steno_live_speakers_close(steno_live_speakers *l);
/* Append mono samples [n], f32 in [-1,1]. The networks run for each hop (2.5 s); a silent one costs
 * nothing. How the samples are divided does not matter. */
STENO_API STENO_MUST steno_status steno_live_speakers_push(steno_live_speakers *l,
                                                           steno_live_networks *w, const float *pcm,
                                                           size_t n, steno_err *err);
/* Tell who spoke up to now, as at a pause: the networks run once more, without what follows. What
 * is told stays. */
STENO_API STENO_MUST steno_status steno_live_speakers_flush(steno_live_speakers *l,
                                                            steno_live_networks *w, steno_err *err);
/* The audio is over: tell what is left. */
STENO_API STENO_MUST steno_status steno_live_speakers_end(steno_live_speakers *l,
                                                          steno_live_networks *w, steno_err *err);
/* Seconds from the begin up to which speakers are known. */
STENO_API double steno_live_speakers_known(const steno_live_speakers *l);
/* The speaker at this time, from 0; in a gap the nearest, `within` s of it (0 to 60). -1: nobody,
 * not known yet, or no longer. Merged speakers: the earlier one. */
STENO_API int steno_live_speakers_at(const steno_live_speakers *l, double seconds, double within);
/* Compare speakers with n known voices, prints [n, floats], borrowed until close. */
STENO_API void steno_live_speakers_know(steno_live_speakers *l, const float *prints, size_t n);
/* Which of them a speaker is. -1: none, or not yet; what was told stays. A voice is one speaker at
 * most. */
STENO_API int steno_live_speakers_person(const steno_live_speakers *l, int speaker);
/* Two speakers were one: `speaker` is the earlier `is`. */
struct steno_live_merge {
    int speaker, is;
};
/* Take the next merge that was not taken. False: there is none. */
STENO_API bool steno_live_speakers_merge(steno_live_speakers *l, struct steno_live_merge *out);

/* ---- end of turn ----------------------------------------------------------------------------- */

/* Tells whether a speaker who fell silent has finished or only pauses. */
typedef struct steno_turn_detector steno_turn_detector;
/* Open its network, smart-turn 3 (github.com/pipecat-ai/smart-turn). path: an ONNX file, or a
 * directory with a file smart-turn*.onnx. STENO_ERR_IO, STENO_ERR_FORMAT: not such a network;
 * STENO_ERR_UNSUPPORTED, STENO_ERR_NOMEM. Frozen. */
STENO_API STENO_MUST steno_status steno_turn_detector_open(steno_turn_detector **out,
                                                           const char *path, steno_err *err);
/* Whether a directory has such a file. Loads nothing. */
STENO_API bool steno_turn_detector_is_dir(const char *dir);
/* Find the network. `given`: a path, a name of the catalogue or of a directory among the fetched
 * models; NULL: the environment's STENO_TURN, else "smart-turn", if it was fetched (steno model
 * fetch smart-turn). *out belongs to the caller: steno_free. STENO_ERR_IO: it is not on this
 * machine. */
STENO_API STENO_MUST steno_status steno_turn_detector_find(char **out, const char *given,
                                                           steno_err *err);
/* Close a detector, after all streams that use it. NULL is accepted. */
STENO_API void steno_turn_detector_close(steno_turn_detector *d);

/* ---- recordings ------------------------------------------------------------------------------ */

/* A recording decoded to mono samples, read in pieces: memory is bounded for every length. The
 * first bytes decide the format, not the name: WAV, FLAC, Ogg Opus, Ogg Vorbis, MP3, AIFF, AU, CAF,
 * W64. WebM, MP4, AAC and others are decoded by the program steno-decode, if it is installed. */
typedef struct steno_recording steno_recording;

struct steno_recording_info {
    int sample_rate;    /* Hz */
    int channels;       /* of the file; reading gives one */
    int64_t frames;     /* samples per channel as the file states them; -1 = not known */
    const char *format; /* "wav", "flac", "ogg", "mp3", ...; valid until close */
    const char *codec;  /* "s16le", "opus", "vorbis", ...; likewise */
    bool truncated;     /* the file ended early; known once read has given 0 samples */
};

/* Open a file. path is borrowed for the call. channel: 0 = the mean of all, else the one to take,
 * counted from 1. STENO_ERR_IO: the file cannot be opened or read. STENO_ERR_FORMAT: empty, damaged
 * or of no known format. STENO_ERR_UNSUPPORTED: a sample rate or codec that cannot be decoded.
 * STENO_ERR_INVAL: there is no such channel. STENO_ERR_NOMEM. Confined. */
STENO_API STENO_MUST steno_status steno_recording_open(steno_recording **out, const char *path,
                                                       int channel, steno_err *err);
/* The same for a file in memory. data: [n] bytes, borrowed until close. */
STENO_API STENO_MUST steno_status steno_recording_open_memory(steno_recording **out,
                                                              const void *data, size_t n,
                                                              int channel, steno_err *err);
/* NULL is accepted. */
STENO_API void steno_recording_close(steno_recording *r);
/* Fill in *info. */
STENO_API void steno_recording_get_info(const steno_recording *r,
                                        struct steno_recording_info *info);
/* Read the next samples. mono: [max] f32 in [-1,1] at the recording's rate; *n receives their
 * number, 0 at the end. STENO_ERR_FORMAT: the recording is damaged from here on; earlier calls gave
 * the samples before the damage. STENO_ERR_IO. */
STENO_API STENO_MUST steno_status steno_recording_read(steno_recording *r, float *mono, size_t max,
                                                       size_t *n, steno_err *err);

/* ---- streams --------------------------------------------------------------------------------- */

#define STENO_MAX_BEAM 64

struct steno_stream_options {
    int sample_rate;     /* Hz of the pushed audio, 8000..192000; 0 = the model's */
    bool no_endpointing; /* one final at the end; the segment then grows with the recording */
    bool no_partials;
    /* Partials leave out the newest audio where a model would decode it once more for each. */
    bool no_tail;
    int beam;   /* hypotheses of the search, 1..STENO_MAX_BEAM; 1 = greedy; 0 = the model's own, at
                 * least n_best; -N = N, or more if n_best or hints.hotwords need it */
    int n_best; /* alternatives in finals, 1..beam; 0 = 1 */
    struct steno_endpoint_rules endpoint; /* zero-initialised = the model's own */
    double
        utterance_end; /* s from the end of a word without another until UTTERANCE_END; 0 = none */
    /* Audio in which nobody speaks does not go through the network; models that cut recordings cut
     * there. Borrowed until close. NULL: all audio goes through the network. */
    const steno_vad *vad;
    /* Tells when the speaker is silent, for the endpoint rules. Borrowed until close. NULL: a rule
     * on energy. */
    const steno_vad *turn_vad;
    struct steno_hints hints; /* borrowed for the call */
    /* Times of words may be estimates: models with a separate network for them do not run it. */
    bool no_word_times;
    const struct steno_option
        *options; /* [n_options] of the model's family; borrowed for the call */
    size_t n_options;
};
/* All defaults, the same as NULL. */
STENO_API struct steno_stream_options steno_stream_options_default(void);

struct steno_word {
    const char *text;
    double start, end; /* s */
    float confidence;  /* 0..1: docs/decoder.md says how it is computed */
};

struct steno_token {
    int32_t id;        /* in the model's vocabulary */
    float confidence;  /* highest posterior in its frames */
    double start, end; /* s: its frames of scores */
};

struct steno_alternative {
    const char *text;
    float confidence;
    double
        score; /* natural log-probability of the text under the model; greedy: of its best path */
    size_t n_words;
    const struct steno_word *words;
    size_t n_tokens;
    const struct steno_token *tokens;
    size_t n_ids;       /* 0 without an attention decoder */
    const int32_t *ids; /* the hypothesis of the search, with the tokens of beginning and end */
};

/* What a model says of a segment or section beside its words, in lower case; NULL = nothing. */
struct steno_labels {
    const char *emotion; /* of the voice: "neutral", "happy", "sad", "angry", ... */
    const char *sound;   /* what is heard: "speech", "bgm", "applause", "laughter", ... */
};

/* A part of a segment that the model itself has cut (Whisper calls it a segment). */
struct steno_section {
    double start, end;            /* s */
    const char *text;             /* with the blank before it, if the model wrote one */
    size_t first_word, n_words;   /* of the event's words */
    size_t first_token, n_tokens; /* of its tokens */
    size_t n_ids;
    const int32_t *ids; /* tokens as decoded, with those of times */
    double score;       /* sum of their log-probabilities */
    /* These describe the piece of audio that it was decoded from: */
    double seek;             /* s: begin of the piece */
    float temperature;       /* of the sampling; 0 = no sampling */
    char language[4];        /* code of what is spoken there; "" = the event's */
    double avg_log_prob;     /* mean over the tokens */
    float compression_ratio; /* of the text: a text that repeats itself has a large one; 0 = the
                              * model gives none of these four */
    float no_speech;         /* probability that nobody speaks */
    struct steno_labels labels;
};

enum steno_event_kind {
    STENO_SPEECH_START,
    STENO_PARTIAL,
    STENO_FINAL,
    /* No new word for options.utterance_end, or (steno_stream_set_turn) a pause that may be an end,
     * with `confidence`; `end` is that of the last word. */
    STENO_UTTERANCE_END
};
enum steno_final_reason {
    STENO_FINAL_ENDPOINT,   /* silence, or the model says that the turn is over */
    STENO_FINAL_LENGTH,     /* the longest utterance was reached */
    STENO_FINAL_REQUEST,    /* steno_stream_finalize */
    STENO_FINAL_END,        /* steno_stream_end */
    STENO_FINAL_BACKCHANNEL /* the model says that the speaker only showed that he listens */
};

/* Strings and arrays belong to the stream, and are valid until the next call of push, finalize,
 * end, next or close.
 * Order within a segment: at most one SPEECH_START, any number of PARTIAL, one FINAL. A segment
 * without speech has no events, unless its end was requested (FINAL_REQUEST: the final may
 * be empty). An UTTERANCE_END comes once per pause, within a segment or after it. The events do
 * not depend on how the audio was cut into pushes. */
struct steno_event {
    enum steno_event_kind kind;
    int64_t segment;     /* counts finals from 0 */
    double time;         /* s of audio that the networks had seen when the event was made */
    double start, end;   /* s: first word's start, last word's end; SPEECH_START: start only */
    const char *text;    /* the whole hypothesis of the segment, "" if none; never NULL */
    size_t stable_bytes; /* partial: text[0, stable_bytes) will not change any more */
    size_t stable_words; /* the same in whole words */
    float confidence;    /* SPEECH_START: 1 if silero-vad finds a voice, 0 if there is sound */
    size_t n_words;
    const struct steno_word *words;
    size_t n_tokens;
    const struct steno_token *tokens; /* of the text */
    size_t n_alternatives; /* finals: the first is the best one, which text and words give too */
    const struct steno_alternative *alternatives;
    enum steno_final_reason reason;
    size_t n_sections; /* 0 if the model does not cut; partials: of the text that is complete */
    const struct steno_section *sections;
    const char *language;       /* code of the spoken language, detected or given; "" = not known */
    float language_probability; /* 1 if the language was given; 0 = not known */
    struct steno_labels labels; /* finals */
};

/* Open a stream on a model, which must stay open until the stream is closed. opt may be NULL.
 * STENO_ERR_INVAL: a rate or beam out of range, a hint that the model cannot use, an option that
 * its family does not have. STENO_ERR_NOMEM. Confined, as is every function with a stream. */
STENO_API STENO_MUST steno_status steno_stream_open(steno_stream **out, steno_model *m,
                                                    const struct steno_stream_options *opt,
                                                    steno_err *err);
/* A line of a text that is spoken in the audio, and where to look for it: from..to in s; to <=
 * from: anywhere behind the lines before it. */
struct steno_line {
    const char *text;
    double from, to;
};
/* Open a stream that does not recognize, but finds where the words of lines [n] are spoken
 * (docs/align.md), which are borrowed for the call. One final comes at the end, with a section for
 * each line that has words. A word that was not found has confidence 0 and lies between its
 * neighbours. Tokens are characters, or what the model spells words with; id -1 is what it has no
 * token for. ids of a section has two numbers for each of its tokens: where it begins and ends in
 * the section's text, in bytes behind the blank before it. opt's search, endpoint rules and options
 * of text have no effect.
 * STENO_ERR_INVAL also: lines that are no UTF-8, or whose times are not in order.
 * STENO_ERR_UNSUPPORTED: the model gives no scores of CTC. STENO_ERR_LIMIT: more than 1 MiB. */
STENO_API STENO_MUST steno_status steno_stream_open_lines(steno_stream **out, steno_model *m,
                                                          const struct steno_stream_options *opt,
                                                          const struct steno_line *lines, size_t n,
                                                          steno_err *err);
/* Close a stream at any time; audio and events that wait are dropped. NULL is accepted. */
STENO_API void steno_stream_close(steno_stream *s);
/* Whether finals may be begun in the silence before their endpoint, and words be shown between two
 * partials, where the model can; they may at first. Text comes sooner, and costs time where
 * somebody speaks on. So it is of no use for audio that does not come in real time. Before the
 * first push. */
STENO_API void steno_stream_set_early(steno_stream *s, bool early);
/* Words of the text that are written as others, or that nobody is to see; NULL or "": none.
 * replace: "FROM:TO,FROM:TO", in any case. An empty TO leaves them out.
 * redact: of "pci,ssn,numbers,aggressive_numbers,email,phone": what becomes "[REDACTED]": numbers
 * of cards with what is said of their code and end, social security numbers, numbers of three
 * digits and more, all numbers, addresses, numbers of telephones. Digits of every language, number
 * words of English.
 * mask: a word or phrase per line, in any case: an asterisk for each of its letters.
 * no_fillers: uh, um, mhmm, mm-mm, uh-uh, uh-huh and nuh-uh are left out.
 * Tokens and ids are left out where a text changes. */
struct steno_filter_options {
    const char *replace, *redact, *mask;
    bool no_fillers;
};
/* STENO_ERR_INVAL begins with the name of the member that is wrong. */
STENO_API STENO_MUST steno_status steno_filters_check(const struct steno_filter_options *o,
                                                      steno_err *err);
/* Filter the partials and finals of a stream. o: borrowed for the call. Before the first push.
 * STENO_ERR_INVAL as above, or too late; STENO_ERR_NOMEM. */
STENO_API STENO_MUST steno_status steno_stream_set_filters(steno_stream *s,
                                                           const struct steno_filter_options *o,
                                                           steno_err *err);
/* When the speaker has been silent for 0.2 s, a network judges the utterance so far: if the speaker
 * has finished, a final comes now, with reason ENDPOINT; else the endpoint rules wait on, and the
 * network is asked again when more was said. d: borrowed until close. threshold: the probability
 * from which on it is an end; 0 = 0.5, 1 = none is. early: the probability below it from which on
 * an UTTERANCE_END says that it may be one; 0 = none does. Before the first push. STENO_ERR_INVAL:
 * others, no_endpointing, or too late; STENO_ERR_NOMEM. */
STENO_API STENO_MUST steno_status steno_stream_set_turn(steno_stream *s,
                                                        const steno_turn_detector *d,
                                                        double threshold, double early,
                                                        steno_err *err);
/* Append audio and run the networks over what is complete. pcm: [n] f32 in [-1,1] at the stream's
 * sample rate (NaN and Inf count as 0); borrowed for the call. n may be 0. Read the events with
 * steno_stream_next after each call: all finals are kept for it, but of unread partials only the
 * newest. STENO_ERR_INVAL: after steno_stream_end. STENO_ERR_NOMEM. */
STENO_API STENO_MUST steno_status steno_stream_push(steno_stream *s, const float *pcm, size_t n,
                                                    steno_err *err);
/* The same for pcm [n] in signed 16 bits, native byte order. */
STENO_API STENO_MUST steno_status steno_stream_push_s16(steno_stream *s, const int16_t *pcm,
                                                        size_t n, steno_err *err);
/* End the current segment now: everything said so far becomes final. Silence is appended first, as
 * the networks' look-ahead. The stream goes on from this sample with new states. */
STENO_API STENO_MUST steno_status steno_stream_finalize(steno_stream *s, steno_err *err);
/* End the audio: run the networks to its end and make the last final. Only next, samples, skipped
 * and close may follow. */
STENO_API STENO_MUST steno_status steno_stream_end(steno_stream *s, steno_err *err);
/* Take the next event, in order. False: there is none yet; *ev stays as it was. */
STENO_API bool steno_stream_next(steno_stream *s, struct steno_event *ev);
/* Samples pushed so far, at the input rate. */
STENO_API int64_t steno_stream_samples(const steno_stream *s);
/* Seconds of audio so far that went through no network because options.vad heard no speech. */
STENO_API double steno_stream_skipped(const steno_stream *s);

#ifdef __cplusplus
}
#endif

#endif
