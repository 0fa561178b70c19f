/* steno transcribe: print the text of recordings. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "speech/audio/file.h"
#include "base/clock.h"
#include "tools/cli/family_options.h"
#include "tools/cli/known.h"
#include "tools/cli/output.h"
#include "tools/cli/recordings.h"
#include "tools/cli/voices.h"
#include "protocol/result_json.h"
#include "protocol/voices.h"
#include "protocol/word_times.h"
#include "steno.h"

#define BLOCK 4096
#define BAR_FROM_SECONDS 10.0 /* shorter recordings are done before anyone reads a bar */

struct job {
    const char *model_dir;
    const char *vad_name; /* off, energy, silero or a directory */
    int format;           /* enum cli_format */
    struct steno_subtitle_options subtitle;
    bool stream, words, times;
    long channel;
    struct cli_family_options family;
    struct steno_model_options model_opt;
    struct steno_stream_options stream_opt;
    steno_model *model;
    steno_vad *vad;                     /* NULL: off */
    const char *grammars, *punctuators; /* NULL: the fetched ones */
    const char *aligner_dir;
    steno_model *aligner; /* tells the times of words; NULL: the model itself */
    const char *speakers_text, *speakers_dir;
    struct cli_voice_options voices;
    struct steno_filter_options filters;
    steno_speakers *speakers; /* NULL: they are not told apart */
    struct cli_known known;
    struct steno_model_info info;
};

/* A recording that is being transcribed. */
struct recording {
    const struct job *job;
    const char *name;
    steno_audio *audio;
    steno_stream *stream;
    steno_diarization *voices; /* or NULL */
    steno_transcript *transcript;
    struct steno_audio_info info;
    int64_t started_ns, bar_ns;
    bool bar, listed; /* listed: its n-best list has been printed */
    size_t shown;     /* characters of the partial on the terminal's line */
};

static const char usage[] =
    "Usage: steno transcribe [OPTION]... FILE...|-\n"
    "Prints the text of each recording (WAV, FLAC, Ogg, MP3, MP4, WebM, ...; - = stdin).\n";

/* ---- printing ------------------------------------------------------------------------------ */

/* --stream on a terminal: rewrite the partial in its line. */
static void print_line(struct recording *r, const struct steno_event *ev)
{
    bool tty = isatty(STDOUT_FILENO);
    const char *kind = ev->kind == STENO_PARTIAL ? "partial" : "final";
    if (ev->kind == STENO_SPEECH_START)
        return;
    if (tty && r->shown)
        fputs("\r\033[K", stdout);
    if (tty && ev->kind == STENO_PARTIAL)
        printf("%.*s|%s", (int)ev->stable_bytes, ev->text, ev->text + ev->stable_bytes);
    else if (tty)
        printf("%s\n", ev->text);
    else
        printf("%.2f %s %s\n", ev->time, kind, ev->text);
    r->shown = tty && ev->kind == STENO_PARTIAL;
    cli_flush();
}

static steno_status print_json(const struct steno_event *ev)
{
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, CLI_MAX_OUTPUT);
    st = steno_event_json_write(&b, ev);
    if (!st) {
        fputs(b.data, stdout);
        cli_flush();
    }
    steno_buf_free(&b);
    return st;
}

static steno_status print_nbest(struct recording *r, const struct steno_event *ev)
{
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, CLI_MAX_OUTPUT);
    st = steno_nbest_json_write(&b, ev);
    if (!st)
        fputs(b.data, stdout);
    steno_buf_free(&b);
    r->listed = true;
    return st;
}

static steno_status take_events(struct recording *r, steno_err *err)
{
    struct steno_event ev;
    steno_status st = STENO_OK;
    while (!st && steno_stream_next(r->stream, &ev)) {
        st = steno_transcript_add(r->transcript, &ev, err);
        if (!st && r->job->format == CLI_FORMAT_NBEST && ev.kind == STENO_FINAL)
            st = print_nbest(r, &ev);
        if (st || !r->job->stream)
            continue;
        if (r->job->format == CLI_FORMAT_JSON)
            st = print_json(&ev);
        else
            print_line(r, &ev);
    }
    return st;
}

static steno_status print_result(struct recording *r, steno_err *err)
{
    const struct job *j = r->job;
    const struct cli_output o = {.format = (enum cli_format)j->format,
                                 .words = j->words,
                                 .speakers = r->voices != NULL,
                                 .subtitle = j->subtitle,
                                 .file = r->name,
                                 .model = j->info.name,
                                 .language = j->info.language};
    if (j->stream)
        return STENO_OK; /* was printed as it came */
    if (j->format == CLI_FORMAT_NBEST)
        return r->listed ? STENO_OK : print_nbest(r, NULL);
    return cli_output_print(&o, r->transcript, err);
}

static void draw_bar(struct recording *r)
{
    double done = (double)steno_stream_samples(r->stream) / r->info.sample_rate;
    double total = (double)r->info.frames / r->info.sample_rate;
    int64_t now = steno_now_ns();
    int filled;
    if (!r->bar || now - r->bar_ns < 100000000)
        return;
    r->bar_ns = now;
    filled = (int)(30 * done / total);
    fprintf(stderr, "\r%s [%-30.*s] %.0f/%.0f s, %.0fx real time\033[K", r->name,
            filled < 0    ? 0
            : filled > 30 ? 30
                          : filled,
            "##############################", done, total,
            done / ((double)(now - r->started_ns) * 1e-9));
}

static void clear_bar(struct recording *r)
{
    if (r->bar && r->bar_ns != r->started_ns)
        fputs("\r\033[K", stderr);
}

/* ---- one recording ------------------------------------------------------------------------- */

static steno_status open_recording(struct recording *r, int fd, steno_err *err)
{
    struct steno_stream_options so = r->job->stream_opt;
    steno_status st = steno_audio_open_fd(
        &r->audio, fd, &(struct steno_audio_options){.channel = (unsigned)r->job->channel}, err);
    if (st)
        return st;
    steno_audio_get_info(r->audio, &r->info);
    so.sample_rate = r->info.sample_rate;
    so.no_partials = !r->job->stream;
    so.no_endpointing |= r->job->info.cuts && !r->job->stream;
    so.no_word_times = r->job->aligner ||
                       (r->job->format == CLI_FORMAT_TEXT && !r->job->words && !r->job->speakers);
    r->transcript = steno_transcript_new(0);
    if (!r->transcript)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    r->started_ns = r->bar_ns = steno_now_ns();
    r->bar = isatty(STDERR_FILENO) && !r->job->stream &&
             (double)r->info.frames > BAR_FROM_SECONDS * r->info.sample_rate;
    st = steno_stream_open(&r->stream, r->job->model, &so, err);
    if (!st)
        st = steno_stream_set_filters(r->stream, &r->job->filters, err);
    if (!st)
        steno_stream_set_early(r->stream, false);
    if (!st && r->job->speakers)
        st = cli_voices_begin(&r->voices, r->job->speakers, r->info.sample_rate, &r->job->voices,
                              err);
    return st;
}

static steno_status give_speakers(struct recording *r, steno_err *err)
{
    const struct steno_turn *turn;
    const char **names;
    size_t n;
    steno_transcript *t;
    steno_status st = steno_diarization_end(r->voices, err);
    if (!st)
        st = cli_known_names(&r->job->known, r->job->speakers, r->voices, &names, err);
    if (st)
        return st;
    turn = steno_diarization_exclusive(r->voices, &n);
    t = steno_transcript_with_voices(r->transcript, turn, n, names);
    free(names);
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    steno_transcript_free(r->transcript);
    r->transcript = t;
    return STENO_OK;
}

/* The text is there: give its words the times of the aligner, which hears the recording once more.
 */
static steno_status align_words(struct recording *r, steno_err *err)
{
    struct steno_stream_options so = {.sample_rate = r->info.sample_rate};
    struct steno_text_lines l;
    steno_stream *s = NULL;
    steno_recording *again = NULL;
    struct steno_event ev;
    steno_status st = steno_word_times_lines(&l, r->transcript, err);
    if (st)
        return st;
    st = steno_recording_open(&again, r->name, (int)r->job->channel, err);
    if (!st)
        st = steno_stream_open_lines(&s, r->job->aligner, &so, l.lines, l.n, err);
    if (!st)
        st = recordings_push(again, s, err);
    while (!st && steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL)
            st = steno_word_times_take(r->transcript, &ev, err);
    steno_stream_close(s);
    steno_recording_close(again);
    steno_text_lines_free(&l);
    return st;
}

static steno_status run_recording(struct recording *r, steno_err *err)
{
    float pcm[BLOCK];
    size_t n = 1;
    steno_status st = STENO_OK, damaged = STENO_OK;
    steno_err damage;
    char warning[256];
    while (!st && n) {
        n = 0;
        damaged = steno_audio_read(r->audio, pcm, BLOCK, &n, &damage);
        st = n ? steno_stream_push(r->stream, pcm, n, err) : STENO_OK;
        if (!st && n && r->voices)
            st = steno_diarization_push(r->voices, pcm, n, err);
        if (!st)
            st = take_events(r, err);
        draw_bar(r);
        if (damaged)
            break;
    }
    if (!st)
        st = steno_stream_end(r->stream, err);
    if (!st)
        st = take_events(r, err);
    if (!st)
        steno_transcript_set_duration(r->transcript, (double)steno_stream_samples(r->stream) /
                                                         r->info.sample_rate);
    if (!st && r->job->aligner)
        st = align_words(r, err);
    if (!st && r->voices)
        st = give_speakers(r, err);
    clear_bar(r);
    if (st)
        return st;
    steno_audio_get_info(r->audio, &r->info);
    r->info.truncated &= !damaged;
    steno_audio_warning(&r->info, (double)steno_stream_samples(r->stream) / r->info.sample_rate,
                        warning, sizeof warning);
    if (*warning)
        fprintf(stderr, "steno: %s: %s\n", r->name, warning);
    st = print_result(r, err);
    if (!st && damaged && err) { /* results before the damage have been printed */
        *err = damage;
        st = damaged;
    }
    return st;
}

static int open_input(const char *name, steno_err *err)
{
    int fd = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        steno_fail(err, STENO_ERR_IO, "%s: %s", name, strerror(errno));
    return fd;
}

/* Processor time of this process, all threads. */
static double processor_seconds(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t)
               ? 0
               : (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_times(const struct recording *r, double spent)
{
    fprintf(stderr, "steno: %s: %.2f s of audio, %.4f s of processor, %.4f s\n", r->name,
            (double)steno_stream_samples(r->stream) / r->info.sample_rate, spent,
            (double)(steno_now_ns() - r->started_ns) * 1e-9);
}

/* Transcribe one recording. Returns its exit code. */
static int transcribe(const struct job *j, const char *name)
{
    struct recording r = {.job = j, .name = name};
    steno_err err = {0};
    steno_status st;
    double spent;
    int fd = open_input(name, &err);
    if (fd < 0) {
        (void)cli_fail(&err);
        if (j->format == CLI_FORMAT_TEXT)
            puts("");
        return EX_NOINPUT;
    }
    spent = processor_seconds();
    st = open_recording(&r, fd, &err);
    if (!st)
        st = run_recording(&r, &err);
    if (!st && j->times)
        print_times(&r, processor_seconds() - spent);
    if (st && j->format == CLI_FORMAT_TEXT && !r.info.frames)
        puts(""); /* line n belongs to file n */
    steno_stream_close(r.stream);
    steno_diarization_close(r.voices);
    steno_transcript_free(r.transcript);
    steno_audio_close(r.audio);
    if (fd != STDIN_FILENO)
        close(fd);
    if (!st)
        return EX_OK;
    st = steno_fail_in(&err, st, "%s", name);
    return cli_fail(&err);
}

/* ---- arguments ----------------------------------------------------------------------------- */

/* EX_OK; EX_USAGE with the reason printed: an option that does nothing for this form of output. */
static int check_forms(const struct job *j)
{
    const bool vtt = j->format == CLI_FORMAT_SRT || j->format == CLI_FORMAT_VTT;
    const bool json = j->format == CLI_FORMAT_JSON;
    const bool words = json || j->format == CLI_FORMAT_TEXT || j->format == CLI_FORMAT_WHISPER ||
                       j->format == CLI_FORMAT_WHISPERX;
    int rc = EX_OK;
    if (!vtt && j->format != CLI_FORMAT_LRC)
        rc = cli_idle("transcribe", "--max-line-width, --max-line-count, --max-words-per-line",
                      "is for --format srt, vtt or lrc");
    if (rc == EX_OK && !vtt)
        rc = cli_idle("transcribe", "--highlight-words", "is for --format srt or vtt");
    if (rc == EX_OK && !json && j->format != CLI_FORMAT_NBEST)
        rc = cli_idle("transcribe", "--nbest", "is for --format json or nbest");
    if (rc == EX_OK && !words)
        rc = cli_idle("transcribe", "--words, --word-times",
                      "is for --format text, and JSON has them");
    return rc;
}

static int check_job(struct job *j, const char *const *files, int n)
{
    if (!n)
        return cli_usage("transcribe: no recording given");
    if (check_forms(j))
        return EX_USAGE;
    for (int i = 0; i < n && j->aligner_dir; i++)
        if (!strcmp(files[i], "-"))
            return cli_usage("transcribe: --align-model: standard input cannot be heard twice");
    if (j->stream && j->format != CLI_FORMAT_TEXT && j->format != CLI_FORMAT_JSON)
        return cli_usage("transcribe: --stream needs format text or json");
    if (j->stream && j->words && j->format == CLI_FORMAT_TEXT)
        return cli_usage("transcribe: --stream prints no words as text; --format json does");
    if (j->stream && j->speakers_text)
        return cli_usage("transcribe: --speakers needs the whole recording, not --stream");
    if (j->speakers_text &&
        ((j->words && j->format == CLI_FORMAT_TEXT) || j->format == CLI_FORMAT_NBEST))
        return cli_usage("transcribe: %s says nothing of --speakers; --format json does",
                         j->words ? "--words" : "--format nbest");
    if (j->aligner_dir && j->format == CLI_FORMAT_TEXT && !j->words && !j->speakers_text)
        return cli_usage(
            "transcribe: --align-model gives times, and text without --words has none");
    if (j->stream && j->aligner_dir)
        return cli_usage("transcribe: --align-model needs the whole recording, not --stream");
    if (j->speakers_text && strcmp(j->speakers_text, "auto") != 0 &&
        !cli_int("--speakers", j->speakers_text, 1, 1000, &j->voices.speakers))
        return EX_USAGE;
    if ((j->known.given.n || j->known.enrolled_dir || j->speakers_dir) && !j->speakers_text)
        return cli_usage("transcribe: %s needs --speakers", j->known.given.n ? "--known"
                                                            : j->known.enrolled_dir
                                                                ? "--enrolled"
                                                                : "--speaker-model");
    if (j->stream_opt.beam && j->stream_opt.n_best > j->stream_opt.beam)
        return cli_usage("transcribe: --nbest %d is more than --beam %d", j->stream_opt.n_best,
                         j->stream_opt.beam);
    if (!cli_family_check(&j->family))
        return EX_USAGE;
    cli_family_give(&j->family, &j->model_opt, &j->stream_opt);
    return EX_OK;
}

/* files: [argc], their number to *n. EX_OK; an exit code after printing the error; -1 after --help.
 */
static int parse_transcribe(struct job *j, int argc, char **argv, const char **files, int *n)
{
    long beam = 0, n_best = 0, threads = 1, width = 0, lines = 0, line_words = 0;
    int precision = STENO_AUTO_WEIGHTS; /* indices in CLI_PRECISIONS are those of the enum */
    struct cli_option options[31 + CLI_FAMILY_ROWS] = {
        {"--model", CLI_TEXT, "NAME|DIR", &j->model_dir, 0, 0,
         "a fetched model or a model directory (default: $STENO_MODEL, else the first fetched "
         "model, else the one that ships)"},
        {"--format", CLI_CHOICE, "text|json|nbest|srt|vtt|lrc|tsv|whisper|whisperx", &j->format, 0,
         0,
         "text: one line per file, the default; nbest: a list of hypotheses per segment; whisper, "
         "whisperx: the JSON of openai-whisper, of whisperX"},
        {"--max-line-width", CLI_NUMBER, "N", &width, 1, 1000,
         "srt, vtt, lrc: columns of a line (default 42)"},
        {"--max-line-count", CLI_NUMBER, "N", &lines, 1, 100,
         "srt, vtt, lrc: lines of a cue (default 2)"},
        {"--max-words-per-line", CLI_NUMBER, "N", &line_words, 1, 1000,
         "srt, vtt, lrc: words of a line"},
        {"--highlight-words", CLI_FLAG, NULL, &j->subtitle.highlight, 0, 0,
         "srt, vtt: underline each word while it is heard"},
        {"--words", CLI_FLAG, NULL, &j->words, 0, 0,
         "text: a line per word, \"start end confidence word\""},
        {"--word-times", CLI_FLAG, NULL, &j->words, 0, 0, "the same"},
        {"--align-model", CLI_TEXT, "NAME|DIR", &j->aligner_dir, 0, 0,
         "times of words by this model with CTC, which hears each file once more (docs/align.md)"},
        {"--language", CLI_TEXT, "LANGUAGE", &j->stream_opt.hints.language, 0, 0,
         "what is spoken, by code or English name; auto = detected, where the model can; en,de = "
         "one of these is detected (Whisper)"},
        {"--translate", CLI_FLAG, NULL, &j->stream_opt.hints.translate, 0, 0,
         "the text in English, where the model can"},
        {"--prompt", CLI_TEXT, "TEXT", &j->stream_opt.hints.prompt, 0, 0,
         "text that came before: names and spellings"},
        {"--prefix", CLI_TEXT, "TEXT", &j->stream_opt.hints.prefix, 0, 0,
         "text that each recording begins with"},
        {"--hotwords", CLI_TEXT, "WORDS", &j->stream_opt.hints.hotwords, 0, 0,
         "words that are likely"},
        {"--replace", CLI_TEXT, "FROM:TO,...", &j->filters.replace, 0, 0,
         "words that are written as others"},
        {"--no-fillers", CLI_FLAG, NULL, &j->filters.no_fillers, 0, 0,
         "leave out uh, um, mhmm, mm-mm, uh-uh, uh-huh, nuh-uh"},
        {"--redact", CLI_TEXT, "LIST", &j->filters.redact, 0, 0,
         "what becomes [REDACTED]: pci, ssn, numbers, aggressive_numbers, email, phone"},
        {"--stream", CLI_FLAG, NULL, &j->stream, 0, 0,
         "print partial results as they come (text, json)"},
        {"--vad", CLI_TEXT, "off|energy|silero|DIR", &j->vad_name, 0, 0,
         "leave out what is not speech, by a rule on loudness or by silero-vad (fetched, or in "
         "DIR); Whisper also cuts recordings there"},
        {"--speakers", CLI_TEXT, "auto|N", &j->speakers_text, 0, 0,
         "say who speaks: as many as are found, or N"},
        {"--speaker-model", CLI_TEXT, "NAME|DIR", &j->speakers_dir, 0, 0,
         "networks for it (default: $STENO_SPEAKERS, else those of steno model fetch)"},
        CLI_KNOWN_OPTIONS(&j->known),
        {"--grammars", CLI_TEXT, "LIST", &j->grammars, 0, 0,
         "grammars for --itn, as en=DIR,zh=DIR (default: those of the model, else the fetched "
         "ones)"},
        {"--punctuators", CLI_TEXT, "LIST", &j->punctuators, 0, 0,
         "networks for --punctuation, as en=DIR,zh=DIR (default: those of the model, else the "
         "fetched ones)"},
        {"--channel", CLI_NUMBER, "N", &j->channel, 1, 64,
         "use channel N, counted from 1, instead of the mean of all"},
        {"--beam", CLI_NUMBER, "N", &beam, 1, STENO_MAX_BEAM,
         "hypotheses of the search; 1 = greedy (default: the model's)"},
        {"--nbest", CLI_NUMBER, "N", &n_best, 1, STENO_MAX_BEAM,
         "json, nbest: alternatives of each segment, at most the beam"},
        {"--precision", CLI_CHOICE, CLI_PRECISIONS, &precision, 0, 0,
         "weights: auto (fast and as accurate; the default), fp32 (unchanged)"},
        {"--times", CLI_FLAG, NULL, &j->times, 0, 0,
         "print the time of each file on standard error"},
        {"--no-endpoint", CLI_FLAG, NULL, &j->stream_opt.no_endpointing, 0, 0,
         "do not cut at silences: one segment per recording"},
        {"--threads", CLI_NUMBER, "N", &threads, 1, 256, "threads of the engine (default 1)"},
        {"--cpu", CLI_TEXT, "LEVEL", &j->model_opt.cpu, 0, 0, CLI_CPU_LEVELS}};
    int own = 0, rc;
    while (options[own].name)
        own++;
    cli_family_rows(&j->family, options + own);
    rc = cli_parse(argc, argv, usage, options, files, argc, n);
    j->model_opt.threads = (int)threads;
    j->voices.threads = threads;
    j->stream_opt.beam = (int)beam;
    j->stream_opt.n_best = (int)n_best;
    j->subtitle.line_chars = (int)width;
    j->subtitle.lines = (int)lines;
    j->subtitle.line_words = (int)line_words;
    j->model_opt.precision = (enum steno_precision)precision;
    return rc ? rc : check_job(j, files, *n);
}

static steno_status open_vad(struct job *j, steno_err *err)
{
    const char *name = j->vad_name;
    char *dir = NULL;
    steno_status st = STENO_OK;
    if (!name || !strcmp(name, "off"))
        return STENO_OK;
    if (strcmp(name, "energy") != 0)
        st = steno_vad_find(&dir, strcmp(name, "silero") ? name : NULL, err);
    if (!st)
        st = steno_vad_open(&j->vad, dir, err);
    steno_free(dir);
    j->stream_opt.vad = j->vad;
    return st ? steno_fail_in(err, st, "--vad") : STENO_OK;
}

/* Returns an exit code; an error is printed. */
static int open_for_job(struct job *j)
{
    steno_err err = {0};
    int rc = cli_open_model(&j->model, NULL, j->model_dir, &j->model_opt);
    if (rc == EX_OK && j->grammars && steno_model_use_grammars(j->model, j->grammars, &err))
        rc = cli_fail(&err);
    if (rc == EX_OK && j->punctuators &&
        steno_model_use_punctuators(j->model, j->punctuators, &err))
        rc = cli_fail(&err);
    if (rc != EX_OK)
        return rc;
    steno_model_get_info(j->model, &j->info);
    return steno_hints_check(&j->info, &j->stream_opt.hints, &err) ||
                   steno_filters_check(&j->filters, &err)
               ? cli_fail(&err)
               : EX_OK;
}

/* Returns an exit code; an error is printed. */
static int open_aligner(struct job *j)
{
    const struct steno_model_options mo = {.cpu = j->model_opt.cpu,
                                           .threads = j->model_opt.threads,
                                           .precision = j->model_opt.precision};
    return j->aligner_dir ? cli_open_model(&j->aligner, "--align-model", j->aligner_dir, &mo)
                          : EX_OK;
}

/* The first failure decides. */
static int transcribe_files(const struct job *j, const char **files, int n)
{
    int code = EX_OK;
    for (int i = 0; i < n; i++) {
        const int one = transcribe(j, files[i]);
        code = code ? code : one;
    }
    return code;
}

static int transcribe_all(struct job *j, const char **files, int n)
{
    steno_err err = {0};
    int code = open_vad(j, &err) ? cli_fail(&err) : open_aligner(j);
    if (code == EX_OK)
        code = open_for_job(j);
    if (code == EX_OK && j->speakers_text)
        code = cli_voices_open(&j->speakers, j->speakers_dir, &j->voices);
    if (code == EX_OK && j->speakers)
        code = cli_known_open(&j->known, j->speakers);
    if (code == EX_OK)
        code = transcribe_files(j, files, n);
    steno_model_close(j->model);
    steno_model_close(j->aligner);
    steno_vad_close(j->vad);
    cli_known_close(&j->known);
    steno_speakers_close(j->speakers);
    return code;
}

int cli_transcribe(int argc, char **argv)
{
    struct job j = {.format = CLI_FORMAT_TEXT,
                    .model_opt = steno_model_options_default(),
                    .stream_opt = steno_stream_options_default()};
    const char **files = calloc((size_t)argc + 1, sizeof *files);
    int n, rc;
    if (!files) {
        fputs("steno: out of memory\n", stderr);
        return EX_OSERR;
    }
    rc = parse_transcribe(&j, argc, argv, files, &n);
    if (!rc)
        rc = transcribe_all(&j, files, n);
    free(files);
    return rc;
}
