// Live audio: live MODEL RATE <PCM prints partials and finals while raw samples (signed 16 bits, mono) arrive on
// standard input.
//     c++ live.cpp $(pkg-config --cflags --libs steno) -o live
//     arecord -q -f S16_LE -r 16000 | ./live conf/models/digits-en 16000
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include <steno/steno.h>

namespace
{
struct closer {
    void operator()(steno_model *m) const { steno_model_close(m); }
    void operator()(steno_stream *s) const { steno_stream_close(s); }
};
using model_ptr = std::unique_ptr<steno_model, closer>;
using stream_ptr = std::unique_ptr<steno_stream, closer>;

steno_err error;

void check(steno_status st)
{
    if (st != STENO_OK)
        throw std::runtime_error(error.msg);
}

model_ptr open_model(const char *dir)
{
    steno_model *m = nullptr;
    check(steno_model_open(&m, dir, nullptr, &error));
    return model_ptr(m);
}

stream_ptr open_stream(steno_model *m, int rate)
{
    steno_stream_options options = steno_stream_options_default();
    steno_stream *s = nullptr;
    options.sample_rate = rate;
    check(steno_stream_open(&s, m, &options, &error));
    return stream_ptr(s);
}

void print_events(steno_stream *s)
{
    steno_event ev;
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_PARTIAL || ev.kind == STENO_FINAL)
            std::printf("%s %s\n", ev.kind == STENO_FINAL ? "final" : "partial", ev.text);
    std::fflush(stdout);
}
} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "Usage: %s MODEL RATE <PCM\n", argv[0]);
        return 2;
    }
    try {
        int rate = std::atoi(argv[2]);
        model_ptr model = open_model(argv[1]);
        stream_ptr stream = open_stream(model.get(), rate);
        std::vector<int16_t> pcm(static_cast<size_t>(rate) / 10); // 100 ms
        while (size_t n = std::fread(pcm.data(), sizeof pcm[0], pcm.size(), stdin)) {
            check(steno_stream_push_s16(stream.get(), pcm.data(), n, &error));
            print_events(stream.get());
        }
        check(steno_stream_end(stream.get(), &error));
        print_events(stream.get());
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    return 0;
}
