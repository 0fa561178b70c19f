#include "speech/features/internal.h"
#include "speech/features/logmel.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N 4000
#define MAX_FRAMES 256
#define MAX_BINS 128

/* A rough sweep with noise. Samples are integers / 32768, so that other programs could compute
 * the references from exactly the same samples. */
static void signal_fill(float *x, size_t n)
{
    uint32_t s = 12345;
    for (size_t i = 0; i < n; i++) {
        s = (s * 1103515245u + 12345u) & 0x7FFFFFFF;
        x[i] = (float)((int)((s >> 16) & 0x3FF) - 512 + ((int)((i * i / 50) % 2000) - 1000) * 8) /
               32768;
    }
}

static struct steno_fbank_options digits(void)
{
    struct steno_fbank_options o = steno_fbank_kaldi(8000, 40);
    o.low = 60;
    o.high = 3800;
    return o;
}

static struct steno_fbank_options reflect(void)
{
    struct steno_fbank_options o = steno_fbank_kaldi(16000, 80);
    o.edges = STENO_EDGES_REFLECT;
    o.high = -400;
    return o;
}

static struct steno_fbank_options hamming(void)
{
    return steno_fbank_funasr();
}

static struct steno_fbank_options nemo(void)
{
    struct steno_fbank_options o = steno_fbank_nemo(16000, 80);
    o.high = 8000;
    return o;
}

static struct steno_fbank_options espnet(void)
{
    return steno_logmel_espnet(16000, 512, 512, 128, 80, 0, 8000);
}

static struct steno_fbank_options short_window(void)
{
    return steno_logmel_espnet(16000, 512, 400, 128, 80, 0, 8000);
}

static struct steno_fbank_options odd_window(void)
{
    return steno_logmel_espnet(16000, 512, 401, 128, 80, 0, 8000);
}

static struct steno_fbank_options whisper(void)
{
    return steno_logmel_whisper(80);
}

static struct steno_fbank_options long_hop(void) /* the hop is longer than the window */
{
    struct steno_fbank_options o = digits();
    o.length_ms = 10;
    o.shift_ms = 17;
    o.bins = 20;
    return o;
}

static struct steno_fbank_options nemo_itself(void)
{
    return steno_logmel_nemo(16000, 128);
}

static struct steno_fbank_options gigaam_2(void)
{
    return steno_logmel_gigaam(16000, 64, false);
}

static struct steno_fbank_options gigaam_3(void)
{
    return steno_logmel_gigaam(16000, 64, true);
}

static struct steno_fbank_options lasr(void)
{
    return steno_logmel_lasr();
}

static struct steno_fbank_options samples(void)
{
    return steno_fbank_samples(8000, 80);
}

typedef struct steno_fbank_options maker(void);
static maker *const makers[] = {digits,     reflect, hamming,  nemo,        espnet,   short_window,
                                odd_window, whisper, long_hop, nemo_itself, gigaam_2, gigaam_3};
#define N_MAKERS (sizeof makers / sizeof makers[0])

static size_t whole(const struct steno_fbank_options *o, const float *x, size_t n, float *out)
{
    steno_fbank *f;
    size_t frames;
    assert_int_equal(steno_fbank_open(&f, o, NULL), STENO_OK);
    assert_int_equal(steno_fbank_whole(f, x, n, out, MAX_FRAMES, &frames), STENO_OK);
    steno_fbank_close(f);
    return frames;
}

struct row {
    size_t frame;
    float bin[5];
};

static void check(maker *make, size_t frames, const size_t *bins, const struct row *rows, size_t n,
                  float tolerance)
{
    struct steno_fbank_options o = make();
    static float x[N], out[MAX_FRAMES * MAX_BINS];
    signal_fill(x, N);
    assert_int_equal(whole(&o, x, N, out), frames);
    if (make == whisper)
        steno_logmel_whisper_scale(out, frames - 1, o.bins);
    for (size_t r = 0; r < n; r++)
        for (size_t b = 0; b < 5 && (b == 0 || bins[b]); b++) {
            float got = out[rows[r].frame * o.bins + bins[b]];
            if (fabsf(got - rows[r].bin[b]) > tolerance)
                fail_msg("frame %zu bin %zu: %g, expected %g", rows[r].frame, bins[b], (double)got,
                         (double)rows[r].bin[b]);
        }
}

/* References: kaldi-native-fbank 1.22.5 (dither 0) on the same samples, recorded with seven
 * digits. Two float implementations differ most in log energies near the floor. */
static void kaldi_features_of_the_shipped_model_match_kaldi_native_fbank(void **state)
{
    static const size_t bins[5] = {0, 1, 7, 20, 39};
    static const struct row rows[] = {
        {0, {-7.811711f, -9.532547f, -7.293493f, -4.333012f, -1.367565f}},
        {17, {-7.396525f, -6.853772f, -3.568858f, 0.8924184f, 1.414459f}},
        {47, {-5.171822f, -5.660203f, -5.216502f, 2.333467f, 2.570483f}},
    };
    (void)state;
    check(digits, 48, bins, rows, 3, 1e-4f);
}

static void kaldi_reflected_edges_match_kaldi_native_fbank(void **state)
{
    static const size_t bins[5] = {0, 9, 40, 79};
    static const struct row rows[] = {
        {0, {-2.59713f, -8.979739f, -3.838868f, -0.2642243f}},
        {1, {-2.271736f, -2.069246f, -1.290759f, 0.1907955f}},
        {12, {-10.73109f, -7.851985f, 0.4196515f, 2.108309f}},
        {24, {-8.317481f, -5.208798f, -1.81434f, 3.389584f}},
    };
    (void)state;
    check(reflect, 25, bins, rows, 4, 1e-4f);
}

static void int16_scale_and_hamming_match_kaldi_native_fbank(void **state)
{
    static const size_t bins[5] = {0, 9, 40, 79};
    static const struct row rows[] = {
        {0, {19.10889f, 17.60972f, 18.77791f, 20.44692f}},
        {11, {13.15415f, 13.05159f, 23.04214f, 23.47833f}},
    };
    (void)state;
    check(hamming, 23, bins, rows, 2, 1e-4f);
}

static void librosa_mode_matches_kaldi_native_fbank(void **state)
{
    static const size_t bins[5] = {0, 9, 40, 79};
    static const struct row rows[] = {
        {0, {-4.25274f, -12.21811f, -8.278541f, -6.278388f}},
        {12, {-11.72759f, -10.34726f, -5.469441f, -2.983916f}},
        {24, {-11.00915f, -8.615086f, -6.000119f, -2.203323f}},
    };
    (void)state;
    check(nemo, 25, bins, rows, 3, 2e-4f);
}

/* References: torch 2.13, torch.stft(center=True, pad_mode="reflect"), and the formula of
 * librosa.filters.mel in double precision, on the same samples. */
static void espnet_frontend_matches_torch(void **state)
{
    static const size_t bins[5] = {0, 9, 40, 79};
    static const struct row rows[] = {
        {0, {3.143685f, -8.655495f, -8.075047f, -7.561861f}},
        {1, {2.866057f, -4.44432f, -6.175043f, -7.353858f}},
        {15, {-5.680799f, -5.672882f, -2.175725f, -4.038826f}},
        {31, {-4.390104f, -4.720285f, -5.534371f, -3.261904f}},
    };
    (void)state;
    check(espnet, 32, bins, rows, 4, 1e-4f);
}

/* torch.stft puts a window of win_length samples in the middle of n_fft. */
static void a_window_shorter_than_the_transform_stands_in_its_middle(void **state)
{
    static const size_t bins[5] = {0, 9, 40, 79};
    static const struct row even[] = {
        {0, {3.108639f, -8.821302f, -9.024323f, -7.912067f}},
        {1, {2.595388f, -8.1079f, -6.768432f, -7.583626f}},
        {15, {-6.016561f, -5.872793f, -2.744105f, -4.267792f}},
        {31, {-4.570027f, -4.577109f, -6.199498f, -3.487219f}},
    };
    static const struct row odd[] = {
        {0, {3.109371f, -8.822391f, -9.017149f, -7.908474f}},
        {1, {2.60242f, -8.091019f, -6.77147f, -7.581811f}},
        {15, {-6.019266f, -5.870581f, -2.726394f, -4.265161f}},
        {31, {-4.571076f, -4.582717f, -6.181753f, -3.485526f}},
    };
    (void)state;
    check(short_window, 32, bins, even, 4, 1e-4f);
    check(odd_window, 32, bins, odd, 4, 1e-4f);
}

/* References: the formulas of FilterbankFeatures (NeMo 2.4, features.py) in double precision with
 * NumPy, without its normalisation: pre-emphasis of the whole signal, 256 zeros on both sides.
 * Frame 0 and the last two frames reach over the edges. */
static void nemo_frontend_matches_its_formulas(void **state)
{
    static const size_t bins[5] = {0, 5, 40, 90, 127};
    static const struct row rows[] = {
        {0, {-4.14709f, -6.108915f, -6.903106f, -6.207479f, -5.683448f}},
        {1, {-4.918368f, -8.444663f, -10.03514f, -7.721248f, -6.688166f}},
        {12, {-12.53196f, -11.60898f, -6.868857f, -2.781165f, -2.952541f}},
        {23, {-12.33711f, -12.30298f, -8.143701f, -4.599533f, -2.292097f}},
        {24, {-10.67265f, -9.807079f, -6.090705f, -5.621456f, -3.607487f}},
    };
    (void)state;
    check(nemo_itself, 25, bins, rows, 5, 2e-4f);
}

/* References: the formulas of FeatureExtractor (gigaam/preprocess.py) and torchaudio's filters in
 * double precision with NumPy; of version 3 with window and filters rounded to bfloat16. */
static void gigaam_frontends_match_their_formulas(void **state)
{
    static const size_t bins[5] = {0, 9, 40, 63};
    static const struct row centred[] = {
        {0, {5.849767f, -3.909801f, -2.999649f, -2.367503f}},
        {1, {5.281685f, -1.764573f, -3.048254f, -2.077957f}},
        {12, {-3.888424f, -2.734095f, -0.2515799f, 1.204434f}},
        {25, {-1.543807f, -0.7672466f, 1.582199f, 2.052616f}},
    };
    static const struct row whole_frames[] = {
        {0, {3.72087f, -4.976272f, -3.725279f, -2.537439f}},
        {11, {-6.632127f, -3.010438f, -0.5979738f, 0.7022622f}},
        {23, {-4.285359f, -3.095592f, 0.5610724f, 1.519271f}},
    };
    (void)state;
    check(gigaam_2, 26, bins, centred, 4, 1e-4f);
    check(gigaam_3, 24, bins, whole_frames, 3, 1e-4f);
}

/* References: the formulas of LasrFeatureExtractor (transformers, models/lasr) in double precision
 * with NumPy. Filter 0 has no FFT bin. */
static void lasr_frontend_matches_its_formulas(void **state)
{
    static const size_t bins[5] = {0, 1, 40, 127};
    static const struct row rows[] = {
        {0, {-11.51293f, 1.994279f, -1.298947f, -2.270145f}},
        {11, {-11.51293f, -2.842217f, -4.076517f, 0.1189056f}},
        {22, {-11.51293f, -3.598218f, -1.671384f, 0.7548165f}},
    };
    (void)state;
    check(lasr, 23, bins, rows, 3, 1e-4f);
}

static void frames_of_samples_are_the_samples(void **state)
{
    static float x[N], out[N];
    struct steno_fbank_options o = samples();
    (void)state;
    signal_fill(x, N);
    assert_int_equal(whole(&o, x, N, out), N / 80);
    assert_memory_equal(out, x, sizeof x);
    o.bins = 79;
    assert_int_equal(steno_fbank_open(&(steno_fbank *){NULL}, &o, NULL), STENO_ERR_INVAL);
}

static void whisper_frontend_matches_torch(void **state)
{
    static const size_t bins[5] = {0, 9, 40, 79};
    static const struct row rows[] = {
        {0, {1.294781f, 0.03540546f, 0.01313281f, 0.1137689f}},
        {1, {1.233102f, 0.3806422f, 0.293407f, 0.1464756f}},
        {12, {0.2374702f, 0.3328486f, 0.6771884f, 0.5094695f}},
        {24, {0.3974814f, 0.2265525f, 0.4863738f, 0.5727138f}},
    };
    (void)state;
    check(whisper, 26, bins, rows, 4, 1e-5f);
}

/* Any chunks and any room for output give exactly the same bits. */
static void any_chunking_gives_the_same_bits_as_the_whole(void **state)
{
    static float x[N], want[MAX_FRAMES * MAX_BINS], got[MAX_FRAMES * MAX_BINS];
    (void)state;
    signal_fill(x, N);
    srand(4);
    for (size_t m = 0; m < N_MAKERS; m++) {
        struct steno_fbank_options o = makers[m]();
        size_t frames = whole(&o, x, N, want);
        steno_fbank *f;
        assert_int_equal(steno_fbank_open(&f, &o, NULL), STENO_OK);
        for (int round = 0; round < 12; round++) {
            size_t at = 0, total = 0, used, made, step = round == 0 ? 1 : 1 + (size_t)rand() % 1500;
            while (at < N) {
                size_t k = round < 2 ? step : 1 + (size_t)rand() % step, room = (size_t)rand() % 4;
                k = k < N - at ? k : N - at;
                room = room < MAX_FRAMES - total ? room : MAX_FRAMES - total;
                assert_in_range(
                    steno_fbank_push(f, x + at, k, &used, got + total * o.bins, room, &made),
                    STENO_OK, STENO_NEED_MORE);
                assert_true(made <= room && (used == k || made == room));
                at += used;
                total += made;
            }
            do {
                size_t room = 1 + (size_t)rand() % 3;
                assert_int_equal(steno_fbank_flush(f, got + total * o.bins, room, &made), STENO_OK);
                total += made;
            } while (made);
            assert_int_equal(total, frames);
            assert_memory_equal(got, want, frames * o.bins * sizeof *got);
        }
        steno_fbank_close(f);
    }
}

/* Front ends that compute eight frames at a time, where the CPU can, against one frame at a
 * time. The signal is loud, quiet and silent in turn, so that floors and denormals occur. */
static void frames_side_by_side_have_the_bits_of_single_ones(void **state)
{
    static float x[N], one[MAX_FRAMES * MAX_BINS], many[MAX_FRAMES * MAX_BINS];
    (void)state;
    signal_fill(x, N);
    for (size_t i = N / 2; i < N; i++)
        x[i] *= i < 3 * N / 4 ? 1e-18f : 0;
    for (size_t m = 0; m < N_MAKERS; m++) {
        struct steno_fbank_options o = makers[m]();
        for (size_t n = N; n > N - 700; n -= 97) {
            size_t frames, single;
            steno_fbank *f;
            assert_int_equal(steno_fbank_open(&f, &o, NULL), STENO_OK);
            assert_int_equal(steno_fbank_whole(f, x, n, many, MAX_FRAMES, &frames), STENO_OK);
            f->frames = NULL;
            steno_fbank_reset(f);
            assert_int_equal(steno_fbank_whole(f, x, n, one, MAX_FRAMES, &single), STENO_OK);
            steno_fbank_close(f);
            assert_int_equal(frames, single);
            assert_memory_equal(many, one, frames * o.bins * sizeof *one);
        }
    }
}

/* One front end serves two signals alternately, in uneven pieces. */
static void signals_that_share_a_front_end_have_the_bits_of_their_own(void **state)
{
    static float x[2][N], want[2][MAX_FRAMES * MAX_BINS], got[2][MAX_FRAMES * MAX_BINS];
    (void)state;
    signal_fill(x[0], N);
    for (size_t i = 0; i < N; i++)
        x[1][i] = 0.5f * x[0][N - 1 - i];
    for (size_t m = 0; m < N_MAKERS; m++) {
        struct steno_fbank_options o = makers[m]();
        steno_fbank *like, *f[2];
        size_t at[2] = {0}, made[2] = {0}, n, k, frames[2];
        assert_int_equal(steno_fbank_open(&like, &o, NULL), STENO_OK);
        for (size_t i = 0; i < 2; i++) {
            frames[i] = whole(&o, x[i], N, want[i]);
            assert_int_equal(steno_fbank_open_like(&f[i], like, NULL), STENO_OK);
        }
        for (size_t turn = 0; at[0] < N || at[1] < N; turn++) {
            size_t i = turn % 2, piece = 100 + turn * 37 % 700;
            piece = piece < N - at[i] ? piece : N - at[i];
            assert_true(steno_fbank_push(f[i], x[i] + at[i], piece, &k, got[i] + made[i] * o.bins,
                                         MAX_FRAMES - made[i], &n) <= STENO_NEED_MORE);
            at[i] += k;
            made[i] += n;
        }
        for (size_t i = 0; i < 2; i++) {
            do {
                assert_int_equal(
                    steno_fbank_flush(f[i], got[i] + made[i] * o.bins, MAX_FRAMES - made[i], &n),
                    STENO_OK);
                made[i] += n;
            } while (n);
            assert_int_equal(made[i], frames[i]);
            assert_memory_equal(got[i], want[i], frames[i] * o.bins * sizeof(float));
            steno_fbank_close(f[i]);
        }
        steno_fbank_close(like);
    }
}

/* A front end that follows another one in the middle of a signal gives the rest of its frames, and
 * the other one gives them too. */
static void one_that_follows_another_has_the_bits_of_its_rest(void **state)
{
    static float x[N], rest[2][MAX_FRAMES * MAX_BINS];
    (void)state;
    signal_fill(x, N);
    for (size_t m = 0; m < N_MAKERS; m++) {
        struct steno_fbank_options o = makers[m]();
        steno_fbank *f[2];
        size_t used, frames[2];
        assert_int_equal(steno_fbank_open(&f[0], &o, NULL), STENO_OK);
        assert_int_equal(steno_fbank_open_like(&f[1], f[0], NULL), STENO_OK);
        assert_int_equal(
            steno_fbank_push(f[0], x, N / 2 + 77, &used, rest[0], MAX_FRAMES, &frames[0]),
            STENO_OK);
        assert_int_equal(used, N / 2 + 77);
        steno_fbank_follow(f[1], f[0]);
        for (int i = 1; i >= 0; i--)
            assert_int_equal(steno_fbank_whole(f[i], x + N / 2 + 77, N - N / 2 - 77, rest[i],
                                               MAX_FRAMES, &frames[i]),
                             STENO_OK);
        assert_int_equal(frames[0], frames[1]);
        assert_true(frames[0] > 0);
        assert_memory_equal(rest[0], rest[1], frames[0] * o.bins * sizeof *rest[0]);
        steno_fbank_close(f[1]);
        steno_fbank_close(f[0]);
    }
}

static void number_of_frames_follows_the_formula_at_every_length(void **state)
{
    static float x[1200], out[MAX_FRAMES * MAX_BINS];
    (void)state;
    signal_fill(x, 1200);
    for (size_t m = 0; m < N_MAKERS; m++) {
        struct steno_fbank_options o = makers[m]();
        steno_fbank *f;
        assert_int_equal(steno_fbank_open(&f, &o, NULL), STENO_OK);
        for (size_t n = 0; n < 1200; n += n < 30 ? 1 : 13) {
            size_t frames;
            assert_int_equal(steno_fbank_whole(f, x, n, out, MAX_FRAMES, &frames), STENO_OK);
            assert_int_equal(frames, steno_fbank_count(&o, (int64_t)n));
            for (size_t i = 0; i < frames * o.bins; i++)
                assert_true(isfinite(out[i]));
        }
        steno_fbank_close(f);
    }
}

/* A frame that needs samples past the newest one waits. The end of the signal emits no frame
 * twice and changes none. */
static void last_frames_wait_for_the_end(void **state)
{
    struct steno_fbank_options o = reflect();
    static float x[N], out[MAX_FRAMES * MAX_BINS];
    size_t used, made, tail;
    steno_fbank *f;
    (void)state;
    signal_fill(x, N);
    assert_int_equal(steno_fbank_open(&f, &o, NULL), STENO_OK);
    assert_int_equal(steno_fbank_push(f, x, N, &used, out, MAX_FRAMES, &made), STENO_OK);
    /* hop 160, window 400: frame t ends at 160 t + 280, so t = 23 is the last one inside 4000 */
    assert_int_equal(made, 24);
    assert_int_equal(steno_fbank_flush(f, out, MAX_FRAMES, &tail), STENO_OK);
    assert_int_equal(tail, 1);
    steno_fbank_close(f);
}

static void silence_gives_the_floor(void **state)
{
    static float x[N], out[MAX_FRAMES * MAX_BINS];
    struct steno_fbank_options o = digits();
    size_t frames = whole(&o, x, N, out);
    (void)state;
    for (size_t i = 0; i < frames * o.bins; i++)
        assert_true(out[i] == logf(1.1920929e-7f));
}

static void scale_is_a_shift_of_the_logarithm(void **state)
{
    static float x[N], a[MAX_FRAMES * MAX_BINS], b[MAX_FRAMES * MAX_BINS];
    struct steno_fbank_options o = digits();
    size_t frames;
    (void)state;
    signal_fill(x, N);
    frames = whole(&o, x, N, a);
    o.scale = 32768;
    assert_int_equal(whole(&o, x, N, b), frames);
    for (size_t i = 0; i < frames * o.bins; i++)
        assert_true(fabsf(b[i] - a[i] - 2 * logf(32768)) < 1e-4f);
}

static void wrong_options_are_named(void **state)
{
    static const char *const says[] = {"window 0 ms",   "FFT size 100", "pre-emphasis 2",
                                       "0 mel filters", "3900 to 3800", "mel filter",
                                       "sample rate 5", "up to 4000"};
    (void)state;
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        struct steno_fbank_options o = digits();
        steno_fbank *f = NULL;
        steno_err err = {0};
        switch (i) {
        case 0:
            o.length_ms = 0;
            break;
        case 1:
            o.fft_size = 100;
            break;
        case 2:
            o.preemph = 2;
            break;
        case 3:
            o.bins = 0;
            break;
        case 4:
            o.low = 3900;
            break;
        case 5:
            o.bins = 300;
            break;
        case 6:
            o.sample_rate = 5;
            break;
        default:
            o.high = 5000;
            break;
        }
        assert_int_equal(steno_fbank_open(&f, &o, &err), STENO_ERR_INVAL);
        assert_null(f);
        if (i < 7)
            assert_non_null(strstr(err.msg, i == 4 ? "3900" : says[i]));
        else
            assert_non_null(strstr(err.msg, "4000"));
    }
    steno_fbank_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kaldi_features_of_the_shipped_model_match_kaldi_native_fbank),
        cmocka_unit_test(kaldi_reflected_edges_match_kaldi_native_fbank),
        cmocka_unit_test(int16_scale_and_hamming_match_kaldi_native_fbank),
        cmocka_unit_test(librosa_mode_matches_kaldi_native_fbank),
        cmocka_unit_test(espnet_frontend_matches_torch),
        cmocka_unit_test(a_window_shorter_than_the_transform_stands_in_its_middle),
        cmocka_unit_test(nemo_frontend_matches_its_formulas),
        cmocka_unit_test(gigaam_frontends_match_their_formulas),
        cmocka_unit_test(lasr_frontend_matches_its_formulas),
        cmocka_unit_test(frames_of_samples_are_the_samples),
        cmocka_unit_test(whisper_frontend_matches_torch),
        cmocka_unit_test(any_chunking_gives_the_same_bits_as_the_whole),
        cmocka_unit_test(frames_side_by_side_have_the_bits_of_single_ones),
        cmocka_unit_test(signals_that_share_a_front_end_have_the_bits_of_their_own),
        cmocka_unit_test(one_that_follows_another_has_the_bits_of_its_rest),
        cmocka_unit_test(number_of_frames_follows_the_formula_at_every_length),
        cmocka_unit_test(last_frames_wait_for_the_end),
        cmocka_unit_test(silence_gives_the_floor),
        cmocka_unit_test(scale_is_a_shift_of_the_logarithm),
        cmocka_unit_test(wrong_options_are_named),
    };
    return cmocka_run_group_tests_name("fbank", tests, NULL, NULL);
}
