/* The state of a recording, for the files that work on it. recording.c moves it from phase to
 * phase. recording_language.c detects the language, recording_prompt.c makes the prompt of a
 * window, recording_segments.c cuts the decoded text into segments and words, and
 * recording_partial.c decodes a window that still grows. Confined. */
#ifndef STENO_FAMILIES_WHISPER_RECORDING_INTERNAL_H
#define STENO_FAMILIES_WHISPER_RECORDING_INTERNAL_H

#include "speech/families/whisper/live.h"
#include "speech/families/whisper/mel.h"
#include "speech/families/whisper/recording.h"
#include "speech/families/whisper/words.h"

#define STENO_WHISPER_WINDOW_FRAMES (STENO_WHISPER_WINDOW / STENO_WHISPER_HOP)
#define STENO_WHISPER_FRAME_S 0.01                              /* seconds of a mel frame */
#define STENO_WHISPER_MAX_SEGMENTS (STENO_WHISPER_MAX_TEXT + 1) /* of a window */
#define STENO_WHISPER_TEXT_BYTES ((size_t)1 << 20)              /* of a prompt or a segment */

/* A segment while its window is worked on: pieces first .. first + n of the window's. */
struct steno_whisper_cut {
    size_t first, n;
    double start, end;
    bool empty;                 /* it has no length */
    size_t first_word, n_words; /* of the window's words */
};

struct steno_whisper_pieces {
    int32_t *ids;
    size_t n, cap;
};

enum steno_whisper_phase {
    STENO_WHISPER_LISTENING, /* waits for the samples of a window */
    STENO_WHISPER_DETECTING, /* detects its language */
    STENO_WHISPER_DOUBTING,  /* detects its language again, with the frame of padding */
    STENO_WHISPER_DECODING,  /* finds its text */
    STENO_WHISPER_ALIGNING,  /* finds the times of its words */
    STENO_WHISPER_HEARING,   /* a partial: detects the language of the window so far */
    STENO_WHISPER_WRITING    /* a partial: finds its text */
};

/* A place in a recording: what its steps carry from one window to the next. */
struct steno_whisper_place {
    int language;               /* of the window; -1: not known yet */
    int first_language;         /* of the first window; -1: not known yet */
    float language_probability; /* of first_language */
    int spoken; /* language of the last window with text, also of the utterance before; -1: none */
    int heard;  /* language of the last partial; -1: not known yet */
    struct steno_whisper_pieces context; /* text that was said before the window */
    double last_speech;                  /* end of the speech so far, s */
    size_t windows;                      /* finished */
    size_t seek, size;                   /* the window, frames */
    size_t next_seek;
};

struct steno_whisper_early {
    bool ended;                     /* early, and not resumed */
    struct steno_whisper_place was; /* before the steps behind the end */
};

struct steno_whisper_recording {
    const struct steno_whisper *m;
    struct steno_whisper_recording_options o; /* texts are not read after open */
    steno_whisper_decoder *decoder;
    steno_whisper_aligner *aligner;
    steno_whisper_state *state;
    steno_whisper_mel *mel;
    enum steno_whisper_phase phase;
    bool ended;
    struct steno_whisper_place at;
    struct steno_whisper_pieces prompt_text, hotwords, prefix;

    /* the window */
    int32_t prompt[STENO_WHISPER_PROMPT_MAX];
    size_t n_prompt;
    struct steno_whisper_decoded decoded;
    int32_t text_ids[STENO_WHISPER_MAX_TEXT]; /* [n_text] of decoded, without timestamps */
    size_t n_text;
    struct steno_whisper_cut cut[STENO_WHISPER_MAX_SEGMENTS];
    size_t n_cuts, n_read; /* n_read: given by steno_whisper_recording_next */
    struct steno_whisper_words words;

    /* partials of the window that grows */
    steno_whisper_live *live; /* NULL: there were none */
    bool encoded;             /* the window is encoded for the current partial */
    bool forced;              /* the decoder continues the agreed text */
    bool timed;               /* the window is decoded again, with timestamps */
    size_t n_behind;          /* given pieces that follow the prompt */

    struct steno_whisper_early early;

    /* the segment that steno_whisper_recording_next gave last */
    struct steno_buf text;
    struct steno_whisper_word *out;
};

static inline size_t steno_whisper_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- prompts: recording_prompt.c ------------------------------------------------------------- */

/* Append ids [n]. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_pieces_add(struct steno_whisper_pieces *p, const int32_t *ids,
                                                 size_t n, steno_err *err);
/* Append a blank and text without the white space at its ends, as pieces: at most `most`, from the
 * front. NULL: nothing. STENO_ERR_NOMEM, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_whisper_pieces_encode(const struct steno_whisper *m, const char *text,
                                                    size_t most, struct steno_whisper_pieces *p,
                                                    steno_err *err);
/* j->prefix: the prefix, behind the timestamp that begins a window. */
STENO_MUST steno_status steno_whisper_prompt_encode_prefix(steno_whisper_recording *j,
                                                           steno_err *err);
/* Keep the last STENO_WHISPER_CONTEXT pieces of the context; none if the options say so. */
void steno_whisper_prompt_forget(steno_whisper_recording *j);
/* The start of a transcript into out [3]; returns its length. */
size_t steno_whisper_prompt_start(const steno_whisper_recording *j, int32_t *out);
/* j->prompt, of the window or of the partial that begins. */
void steno_whisper_prompt_make(steno_whisper_recording *j);
/* The first window begins with the prefix, as if it had been sampled: the result has it, and the
 * rules count it. Its pieces have log-probability 0. */
void steno_whisper_prompt_give_prefix(steno_whisper_recording *j,
                                      struct steno_whisper_search_options *o);

/* ---- segments: recording_segments.c ---------------------------------------------------------- */

/* j->cut: cut where two timestamps follow each other. Returns the frames to go on by. */
size_t steno_whisper_segments_cut(steno_whisper_recording *j);
/* Number of pieces in the window's segments. */
size_t steno_whisper_segments_pieces(const steno_whisper_recording *j);
/* j->text_ids: the window's pieces without timestamps. */
void steno_whisper_segments_text(steno_whisper_recording *j);
/* What the alignment of the window's words wants of the next step. The words lie before the next
 * window, if they do not decide where it begins. */
STENO_MUST steno_status steno_whisper_segments_ask(steno_whisper_recording *j,
                                                   struct steno_whisper_ask *ask, steno_err *err);
/* The step has been run: j->words, and the words of each cut. */
STENO_MUST steno_status steno_whisper_segments_take(steno_whisper_recording *j,
                                                    steno_whisper_runner *net,
                                                    const struct steno_whisper_ask *ask,
                                                    steno_err *err);
/* End of the last word, or of the last segment where there are none; there are segments. */
double steno_whisper_segments_end(const steno_whisper_recording *j);
/* Whether the words leave out seconds of the window before one of them. Needs recover. */
bool steno_whisper_segments_skip(const steno_whisper_recording *j);
/* The frame behind the window's words, unless a timestamp alone says that there is no more; where
 * timestamps decide, the one that they name (`seek`), or one before words that are too dense, whose
 * segments are dropped. */
size_t steno_whisper_segments_seek(steno_whisper_recording *j, size_t seek);
/* Segments with a text and a length are added to what was said; where partials have agreed on text
 * already, those without a length too. */
STENO_MUST steno_status steno_whisper_segments_keep(steno_whisper_recording *j, steno_err *err);

/* Where a window was decoded again with timestamps: those after it have none, as before. */
void steno_whisper_end_times(steno_whisper_recording *j);

/* ---- languages: recording_language.c --------------------------------------------------------- */

struct steno_whisper_guess {
    int language;
    float probability, second; /* second: of the next best language */
    float before;              /* of that of the text before; 0: there is none */
};

/* The language that the options name. STENO_ERR_INVAL, STENO_ERR_UNSUPPORTED. */
STENO_MUST steno_status steno_whisper_language_choose(steno_whisper_recording *j, steno_err *err);
/* Keep to the language of the text before, unless another one is much likelier: noise sounds like
 * any language, and a word like one of several. */
struct steno_whisper_guess steno_whisper_language_keep(const steno_whisper_recording *j,
                                                       struct steno_whisper_guess g);
/* What detection wants of the next step. */
void steno_whisper_language_ask(const steno_whisper_recording *j, struct steno_whisper_ask *ask);
/* The step has been run: the most probable language. */
struct steno_whisper_guess steno_whisper_language_best(const steno_whisper_recording *j,
                                                       const struct steno_whisper_ask *ask);
/* faster-whisper detects the language with the frame of padding behind the recording, and decodes
 * without it. A window is encoded for both at once, so there is no such frame; where two languages
 * are close, it may decide which is first. */
bool steno_whisper_language_has_padding(const steno_whisper_recording *j);

/* ---- made-up text: recording_hallucination.c ------------------------------------------------- */

/* The window's words have times; `before` is the end of the speech before it in seconds. Cuts off
 * the segments from the first on that is probably made up and lies in silence. *next: the frame
 * where the next window begins. True: the window has no text, and its beginning is silence.
 * (faster-whisper 1.2.1, transcribe.py, hallucination_silence_threshold.) */
bool steno_whisper_hallucination_cut(steno_whisper_recording *j, double before, size_t *next);

/* ---- partials: recording_partial.c ----------------------------------------------------------- */

/* Pieces that partials of the window agree on. */
size_t steno_whisper_partial_agreed(const steno_whisper_recording *j);
/* Whether the result begins with the text that partials agree on. Agreed text behind the last
 * segment belongs to the next window. */
bool steno_whisper_partial_kept(const steno_whisper_recording *j);
/* The window is finished: partials of the next one begin. */
void steno_whisper_partial_end_window(steno_whisper_recording *j);
/* What a partial wants of the next step; its window is encoded first. */
STENO_MUST steno_status steno_whisper_partial_ask(steno_whisper_recording *j,
                                                  steno_whisper_runner *net,
                                                  struct steno_whisper_ask *ask, steno_err *err);
/* The step has been run. */
STENO_MUST steno_status steno_whisper_partial_take(steno_whisper_recording *j,
                                                   steno_whisper_runner *net,
                                                   const struct steno_whisper_ask *ask,
                                                   steno_err *err);

#endif
