"""Every format by every way: a file, a pipe, an upload, a live stream. The table in docs/audio.md is made by this test:

    build/venv/bin/python tests/integration/test_containers.py --write

Needs ffmpeg, which encodes the samples, PyAV for AMR-NB and libvo-amrwbenc0 for AMR-WB."""
import contextlib
import ctypes
import glob
import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

import numpy as np
from daemon import BUILD, DIGITS, DIGITS_TEXT, ROOT, SAN, SLOW, Skip, Stenod, case, converse, eventually, pcm, tap
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

try:
    import av
except ImportError:
    av = None

WRITE = "--write" in sys.argv
sys.argv = [a for a in sys.argv if a != "--write"]
WAYS = ("file", "pipe", "upload", "live")
PAGE = os.path.join(ROOT, "docs", "audio.md")
BEGIN, END = "<!-- test_containers.py --write: begin -->\n", "<!-- end -->\n"
VIDEO = "-f lavfi -i testsrc=d=5.8:s=64x64:r=10"
# name, file name, arguments of ffmpeg, arguments before the input
FORMATS = (
    ("WAV, 16 bit", "a.wav", "-c:a pcm_s16le", ""),
    ("WAV, A-law", "alaw.wav", "-c:a pcm_alaw", ""),
    ("WAV, IMA ADPCM", "ima.wav", "-c:a adpcm_ima_wav", ""),
    ("WAV, GSM", "gsm.wav", "-c:a libgsm_ms", ""),
    ("WAV, MP3", "mp3.wav", "-c:a libmp3lame -ar 16000", ""),
    ("AIFF", "a.aiff", "-c:a pcm_s16be", ""),
    ("AU", "a.au", "-c:a pcm_mulaw", ""),
    ("FLAC", "a.flac", "-c:a flac", ""),
    ("MP3", "a.mp3", "-c:a libmp3lame -ar 16000 -b:a 64k", ""),
    ("Ogg Opus", "opus.ogg", "-c:a libopus -b:a 32k", ""),
    ("Ogg Vorbis", "vorbis.ogg", "-c:a libvorbis -ar 16000 -q:a 5", ""),
    ("Ogg FLAC", "flac.ogg", "-c:a flac", ""),
    ("Ogg Speex", "a.spx", "-c:a libspeex -ar 16000 -b:a 28k", ""),
    ("WebM, Opus", "opus.webm", "-c:a libopus -b:a 32k", ""),
    ("WebM, Vorbis", "vorbis.webm", "-c:a libvorbis -ar 16000 -q:a 5", ""),
    ("WebM, Opus and video", "video.webm", "-c:v libvpx -c:a libopus -b:a 32k", VIDEO),
    ("Matroska, FLAC", "flac.mka", "-c:a flac", ""),
    ("Matroska, AAC and video", "video.mkv", "-c:v mpeg4 -c:a aac -ar 16000 -b:a 64k", VIDEO),
    ("MP4, AAC", "a.m4a", "-c:a aac -ar 16000 -b:a 64k", ""),
    ("MP4, AAC, index first", "first.m4a", "-c:a aac -ar 16000 -b:a 64k -movflags +faststart", ""),
    ("MP4, AAC, in fragments", "fragments.mp4", "-c:a aac -ar 16000 -b:a 64k -movflags +frag_keyframe+empty_moov -frag_duration 200000", ""),
    ("MP4, ALAC", "alac.m4a", "-c:a alac", ""),
    ("MP4, AAC and video", "video.mp4", "-c:v mpeg4 -c:a aac -ar 16000 -b:a 64k", VIDEO),
    ("QuickTime, 16 bit", "a.mov", "-c:a pcm_s16le", ""),
    ("AAC (ADTS)", "a.aac", "-c:a aac -ar 16000 -b:a 64k", ""),
    ("AMR-NB", "nb.amr", "libopencore_amrnb 8000 12200", None),
    ("AMR-WB", "wb.amr", "libvo-amrwbenc.so.0 16000 23850", None),
    ("WMA 2", "a.wma", "-c:a wmav2 -ar 16000 -b:a 64k", ""),
    ("AC-3", "a.ac3", "-c:a ac3 -ar 32000 -b:a 96k", ""),
    ("E-AC-3", "a.eac3", "-c:a eac3 -ar 32000 -b:a 96k", ""),
    ("GSM", "a.gsm", "-c:a libgsm", ""),
    ("CAF, 16 bit", "a.caf", "-c:a pcm_s16le", ""),
    ("CAF, ALAC", "alac.caf", "-c:a alac", ""),
    ("MPEG-TS, AAC", "a.ts", "-c:a aac -ar 16000 -b:a 64k", ""),
    ("FLV, AAC", "a.flv", "-c:a aac -ar 44100 -b:a 64k", ""),
    ("AVI, MP3 and video", "a.avi", "-c:v mpeg4 -c:a libmp3lame -ar 16000 -b:a 64k", VIDEO),
    ("WavPack", "a.wv", "-c:a wavpack", ""),
    ("TTA", "a.tta", "-c:a tta", ""),
)
folder = tempfile.TemporaryDirectory(prefix="steno-formats-")


def path(name):
    return os.path.join(folder.name, name)


def encode_by_pyav(name, codec, rate, bits):
    samples, source_rate = pcm()
    with av.open(path(name), "w", format="amr") as out:
        stream = out.add_stream(codec, rate=int(rate))
        stream.bit_rate, stream.layout, stream.format = int(bits), "mono", "s16"
        frame = av.AudioFrame.from_ndarray(np.frombuffer(samples, "<i2").reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = source_rate
        sampler = av.AudioResampler(format="s16", layout="mono", rate=int(rate), frame_size=stream.frame_size or int(rate) // 50)
        for f in [*sampler.resample(frame), *sampler.resample(None)]:
            f.pts = None
            out.mux(stream.encode(f))
        out.mux(stream.encode(None))


def encode_by_vo_amrwbenc(name, library, rate, _bits):
    """AMR-WB: neither Debian's FFmpeg nor PyAV has an encoder of it, but the library is a package (enc_if.h is its interface)."""
    encoder = ctypes.CDLL(library)
    encoder.E_IF_init.restype = ctypes.c_void_p
    state, out = ctypes.c_void_p(encoder.E_IF_init()), ctypes.create_string_buffer(64)
    samples = subprocess.run(["ffmpeg", "-v", "error", "-i", DIGITS, "-ar", rate, "-f", "s16le", "-"], stdout=subprocess.PIPE, check=True).stdout
    with open(path(name), "wb") as f:
        f.write(b"#!AMR-WB\n")  # RFC 4867, 5.1
        for at in range(0, len(samples) - 639, 640):  # frames of 20 ms; mode 8 is 23.85 kbit/s
            n = encoder.E_IF_encode(state, 8, samples[at:at + 640], out, 0)
            f.write(out.raw[:n])
    encoder.E_IF_exit(state)


def make_samples():
    """The formats that could be encoded here; reasons for the others."""
    made, absent = [], []
    for row in FORMATS:
        name, file, arguments, before = row
        if before is None:
            library = ".so" in arguments
            if av is None and not library:
                absent.append(f"{name}: PyAV is not installed")
                continue
            try:
                (encode_by_vo_amrwbenc if library else encode_by_pyav)(file, *arguments.split())
            except (ValueError, OSError) as why:
                absent.append(f"{name}: {why!r}")
                continue
        else:
            got = subprocess.run(["ffmpeg", "-v", "error", "-y", *before.split(), "-i", DIGITS, *arguments.split(), path(file)],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if got.returncode:
                absent.append(f"{name}: ffmpeg: {got.stderr.strip()[-80:]}")
                continue
        made.append(row)
    return made, absent


def samples_of(way, file, rate=0):
    """(rate, samples), or the reason why there are none. rate: of Opus, which has all."""
    with open(path(file), "rb") as f:
        got = subprocess.run([os.path.join(BUILD, "tests", "formats", "ways"), way, path(file), str(rate)], stdin=f, capture_output=True,
                             timeout=60 * SLOW, check=False)
    says = got.stderr.decode().strip().splitlines()[-1]
    return says if got.returncode else (int(says.split()[0]), np.frombuffer(got.stdout, "<f4"))


def likeness(rate, x):
    """Correlation with the source at the best shift of at most 0.2 s."""
    source = np.frombuffer(pcm()[0], "<i2").astype(np.float64)
    x = np.frombuffer(subprocess.run(["ffmpeg", "-v", "error", "-f", "f32le", "-ar", str(rate), "-ac", "1", "-i", "-", "-ar",
                                      str(pcm()[1]), "-f", "f64le", "-"], input=x.tobytes(), stdout=subprocess.PIPE, check=True).stdout)
    n = 1 << (len(x) + len(source)).bit_length()
    r = np.fft.irfft(np.fft.rfft(x, n) * np.conj(np.fft.rfft(source, n)), n) / (np.linalg.norm(x) * np.linalg.norm(source))
    most = int(0.2 * pcm()[1])
    return float(max(r[:most].max(), r[-most:].max()))


def alike(a, b):
    n = min(len(a), len(b))
    best = max((float(np.dot(a[i:n], b[:n - i])) / float(np.linalg.norm(a[i:n]) * np.linalg.norm(b[:n - i])) for i in range(0, 2400)),
               default=0)
    return max(best, max(float(np.dot(b[i:n], a[:n - i])) / float(np.linalg.norm(b[i:n]) * np.linalg.norm(a[:n - i])) for i in range(0, 2400)))


def row_of(name, file):
    """A row of the table: the likeness to the source, then what each way gives in comparison with the file. Under sanitizers what is not
    the same is not compared: the plain build does that."""
    rate, x = samples_of("file", file)
    cells = []
    for way in WAYS[1:]:
        got = samples_of(way, file, rate)
        if isinstance(got, str):
            cells.append(f"no: {got.split(': upload it')[0]}")  # the rest says what to do
        elif got[0] == rate and np.array_equal(got[1], x):
            cells.append("the same")
        else:
            assert got[0] == rate and (SAN or alike(got[1], x) > 0.999), (name, way, got[0], len(got[1]), len(x))
            cells.append("alike")
    return [name, f"{rate}", "" if SAN else f"{likeness(rate, x):.3f}", *cells]


def table(rows):
    head = ["format", "Hz", "file: correlation", "pipe", "upload", "live"]
    return "".join(f"| {' | '.join(r)} |\n" for r in [head, ["---"] * len(head), *rows])


made, absent = make_samples() if shutil.which("ffmpeg") else ([], ["ffmpeg is not installed"])
for reason in absent:
    print("# not tested:", reason)


def need_samples():
    if not made:
        raise Skip("; ".join(absent))


@case
def every_way_gives_the_samples_of_the_file(_):
    need_samples()
    rows = [row_of(name, file) for name, file, _, _ in made]
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    if WRITE:
        page = page[:page.index(BEGIN) + len(BEGIN)] + table(rows) + page[page.index(END):]
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(page)
    known = {}
    for line in page[page.index(BEGIN):page.index(END)].splitlines():
        cells = line.strip("| ").split(" | ")
        known[cells[0]] = cells
    for row in rows:
        want = known[row[0]]
        assert SAN or float(row[2]) > 0.7 and abs(float(row[2]) - float(want[2])) < 0.01, (row, want)
        assert [row[1], *row[3:]] == [want[1], *want[3:]], (row, want)


# file name, arguments of ffmpeg behind the sound, whether it can be streamed
LATE = (
    ("late.mkv", "-c:v mpeg4 -c:a aac -ar 16000 -b:a 64k", True),
    ("late.webm", "-c:v libvpx -deadline realtime -c:a libopus -b:a 32k", True),
    ("late.mp4", "-c:v mpeg4 -c:a aac -ar 16000 -b:a 64k", False),  # an empty edit
    ("late-fragments.mp4", "-c:v mpeg4 -c:a aac -ar 16000 -b:a 64k -movflags +frag_keyframe+empty_moov", True),
    ("late.mov", "-c:v mpeg4 -c:a pcm_s16le", False),
    ("late.ts", "-c:v mpeg4 -c:a aac -ar 16000 -b:a 64k", True),  # its clock begins at 1.4 s
    ("late.mpg", "-c:v mpeg2video -r 25 -c:a mp2 -ar 16000", True),
    ("late.flv", "-c:v flv -c:a aac -ar 44100 -b:a 64k", True),
    ("late.avi", "-c:v mpeg4 -c:a pcm_s16le", True),
    ("late.wmv", "-c:v wmv2 -c:a wmav2 -ar 16000 -b:a 64k", True),
    ("alone.mka", "-vn -c:a flac", True),
    ("alone.m4a", "-vn -c:a aac -ar 16000 -b:a 64k", False),
)
LEAD = 3.5


def encode(file, arguments):
    subprocess.run(["ffmpeg", "-v", "error", "-y", *arguments, path(file)], stdin=subprocess.DEVNULL, check=True)


def make_late(file, arguments):
    encode(file, ["-f", "lavfi", "-i", "testsrc=d=9.5:s=64x64:r=10", "-itsoffset", str(LEAD), "-i", DIGITS, *arguments.split()])
    if file.endswith(".avi"):  # FFmpeg writes 0 as the start of each stream (strh, dwStart), and reads it
        with open(path(file), "r+b") as f:
            sound = f.read().index(b"auds")
            f.seek(sound + 20)
            scale, rate = struct.unpack("<2I", f.read(8))
            f.seek(sound + 28)
            f.write(struct.pack("<I", int(LEAD * rate / scale)))


@case
def sound_that_begins_late_keeps_the_time_of_its_container(_):
    need_samples()
    for file, arguments, streamed in LATE:
        make_late(file, arguments)
        of_file = None
        for way in WAYS if streamed else WAYS[:-1]:
            got = samples_of(way, file)
            assert not isinstance(got, str), (file, way, got)
            if of_file and got[0] == of_file[0] and np.array_equal(got[1], of_file[1]):
                continue  # judged already
            of_file = of_file or got
            rate, x = got
            lead = int((LEAD - 0.1) * rate)  # priming is before the sound
            assert np.abs(x[:lead]).max() < 1e-4 and (SAN or likeness(rate, x[int(LEAD * rate):]) > 0.9), (file, way)
            assert abs(len(x) / rate - LEAD - len(pcm()[0]) / 2 / pcm()[1]) < 0.2, (file, way, len(x) / rate)


@case
def every_form_says_the_time_of_the_container(d):
    need_samples()
    make_late("late.mkv", LATE[0][1])
    with open(path("late.mkv"), "rb") as f, open(DIGITS, "rb") as wav:
        late, plain = f.read(), wav.read()

    def times(form, data):
        """First begin and last end; in subtitles every line of times."""
        code, _, text = d.request("POST", f"/v1/transcribe?format={form}", data)
        assert code == 200, (form, text)
        if form == "json":
            words = json.loads(text)["segments"][0]["words"]
            return [t for w in words for t in (w["start"], w["end"])]
        return [sum(float(p) * k for p, k in zip(re.split(":", t.replace(",", ".")), (3600, 60, 1)))
                for t in re.findall(r"\d\d:\d\d:\d\d[.,]\d{3}", text.decode())]
    for form in ("json", "srt", "vtt"):
        a, b = times(form, plain), times(form, late)
        assert len(a) == len(b) > 1 and all(abs(y - x - LEAD) < 0.15 for x, y in zip(a, b)), (form, a, b)
    got = subprocess.run([os.path.join(BUILD, "steno"), "transcribe", "--format", "json", path("late.mkv")], capture_output=True, text=True, check=True)
    assert abs(json.loads(got.stdout)["segments"][0]["words"][0]["start"] - times("json", plain)[0] - LEAD) < 0.15, got.stdout
    got = live(d, "/v1/stream", late, 5000, {"type": "start", "encoding": "container"}, {"type": "end"})
    first = next(m for _, m in got if m["type"] == "final" and m["text"])
    assert abs(first["words"][0]["start"] - times("json", plain)[0] - LEAD) < 0.15, first


@case
def a_gap_in_the_middle_is_silence(_):
    """Packets that are missing (a pause in which a conference sent nothing, damage) move nothing behind them."""
    need_samples()
    source, rate = np.frombuffer(pcm()[0], "<i2") / 32768, pcm()[1]
    for file, codec, ways in (("gap.mkv", "pcm_s16le", WAYS), ("gap.mp4", "aac", WAYS[:-1])):
        encode(file, ["-i", DIGITS, "-af", "aselect='not(between(t,1,3))'", "-c:a", codec, "-b:a", "64k"])
        for way in ways:
            got = samples_of(way, file)
            assert not isinstance(got, str) and got[0] == rate, (file, way, got)
            x = got[1]
            assert abs(len(x) - len(source)) < 0.2 * rate, (file, way, len(x), len(source))
            gap = slice(int(1.2 * rate), int(2.8 * rate))
            assert not x[gap].any() and source[gap].any(), (file, way)
            tail = slice(int(3.2 * rate), int(5.5 * rate))
            assert np.corrcoef(x[tail], source[tail])[0, 1] > 0.99, (file, way)
    # a clock that starts anew is no gap
    encode("one.ts", ["-i", DIGITS, "-c:a", "aac", "-ar", "16000"])
    encode("two.ts", ["-itsoffset", "500", "-i", DIGITS, "-c:a", "aac", "-ar", "16000"])
    for order in (("one.ts", "two.ts"), ("two.ts", "one.ts")):
        with open(path("both.ts"), "wb") as out:
            for name in order:
                with open(path(name), "rb") as f:
                    out.write(f.read())
        rate, x = samples_of("file", "both.ts")
        assert abs(len(x) / rate - 2 * len(pcm()[0]) / 2 / pcm()[1]) < 0.3, (order, len(x) / rate)


@case
def every_format_is_understood_as_an_upload(d):
    need_samples()
    for name, file, _, _ in made:
        with open(path(file), "rb") as f:
            code, _, text = d.request("POST", "/v1/transcribe?format=text", f.read())
        assert code == 200 and text.decode().strip() == DIGITS_TEXT, (name, code, text)


def live(d, where, data, piece, start=None, end=None, pause=0.0):
    """Messages of a live stream."""
    got = []
    with connect(d.ws.replace("/v1/stream", where), max_size=None) as ws:
        if start:
            ws.send(json.dumps(start))
        for at in range(0, len(data), piece):
            ws.send(data[at:at + piece])
            while pause:
                try:
                    got.append((at + piece, json.loads(ws.recv(timeout=pause))))
                except TimeoutError:
                    break
        ws.send(json.dumps(end))
        try:
            for m in ws:
                got.append((len(data), json.loads(m)))
        except ConnectionClosedError:
            pass  # its last message says why
    return got


STREAMED = ("opus.webm", "video.webm", "fragments.mp4", "first.m4a", "a.flac", "flac.ogg", "a.spx", "nb.amr", "a.aac", "vorbis.ogg", "a.mp3")


@case
def recordings_of_browsers_and_others_are_understood_live(d):
    need_samples()
    for file in STREAMED:
        if file not in [m[1] for m in made]:
            continue
        with open(path(file), "rb") as f:
            data = f.read()
        got = live(d, "/v1/stream", data, 1000, {"type": "start", "encoding": "container"}, {"type": "end"})
        text = " ".join(m["text"] for _, m in got if m["type"] == "final")
        assert text == DIGITS_TEXT and got[-1][1]["type"] == "end", (file, got)
        got = live(d, "/v1/listen", data, 3000, None, {"type": "CloseStream"})
        text = " ".join(m["channel"]["alternatives"][0]["transcript"] for _, m in got if m["type"] == "Results" and m["is_final"])
        assert text == DIGITS_TEXT and got[-1][1]["type"] == "Metadata", (file, got)
    assert eventually_no_helper(d)


@case
def partials_of_a_browser_come_while_it_records(d):
    need_samples()
    for file in ("opus.webm", "fragments.mp4"):
        with open(path(file), "rb") as f:
            data = f.read()
        got = live(d, "/v1/stream", data, len(data) // 24, {"type": "start", "encoding": "container"}, {"type": "end"}, pause=0.25)
        first = next(at for at, m in got if m["type"] == "partial" and m["text"])
        assert first < 0.6 * len(data), (file, first, len(data))


@case
def a_stream_named_opus_may_be_webm(d):
    need_samples()
    with open(path("opus.webm"), "rb") as f:
        data = f.read()
    got = live(d, "/v1/stream", data, 4096, {"type": "start", "encoding": "opus"}, {"type": "end"})
    assert " ".join(m["text"] for _, m in got if m["type"] == "final") == DIGITS_TEXT, got


def helpers(d):
    """How many children of the daemon are steno-decode (proc(5), stat: pid, name, state, parent)."""
    n = 0
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(stat) as f:
            name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
            n += name == "steno-decode" and int(rest.split()[1]) == d.proc.pid
    return n


def eventually_no_helper(d):
    return eventually(lambda: not helpers(d))


@case
def damaged_and_cut_files_are_errors_of_their_upload_alone(_):
    need_samples()
    random.seed(7)
    with Stenod("limits.audio=60s") as d:  # damaged times make hours of pauses
        for name, file, _, _ in made:
            with open(path(file), "rb") as f:
                data = f.read()
            bad = bytearray(data)
            for _ in range(40):
                bad[random.randrange(len(bad))] = random.randrange(256)
            head = bytearray(data)
            for _ in range(30):
                head[random.randrange(8, min(1500, len(head)))] = random.choice((0, 0x7F, 0x80, 0xFF))
            for body in (data[:len(data) // 3], bytes(bad), bytes(head), data[:40] + data[len(data) // 2:]):
                code, _, text = d.request("POST", "/v1/transcribe", body)
                assert code in (200, 400, 413, 415), (name, code, text)
                assert code == 200 or json.loads(text)["error"]["message"], (name, text)
        with open(DIGITS, "rb") as f:
            code, _, text = d.request("POST", "/v1/transcribe?format=text", f.read())
        assert code == 200 and text.decode().strip() == DIGITS_TEXT


@case
def tables_of_mp4_that_claim_too_much_are_errors(d):
    with open(os.path.join(ROOT, "tests/data/containers/chirp.m4a"), "rb") as f:
        data = f.read()
    for table in (b"stts", b"stsc", b"stco", b"stsz"):
        at = data.index(table) + (12 if table == b"stsz" else 8)  # the number of its entries
        for entries in (0x0fffffff, 0x1fffffff, 0xffffffff):
            code, _, text = d.request("POST", "/v1/transcribe", data[:at] + entries.to_bytes(4, "big") + data[at + 4:])
            assert code == 400 and "error" in json.loads(text), (table, entries, code, text)
    assert eventually_no_helper(d)


@case
def a_stream_that_breaks_off_leaves_no_process(d):
    need_samples()
    with open(path("opus.webm"), "rb") as f:
        data = f.read()
    for _ in range(3):
        ws = connect(d.ws)
        ws.send(json.dumps({"type": "start", "encoding": "webm"}))
        ws.send(data[:4000])
        ws.recv()
        ws.socket.shutdown(socket.SHUT_RDWR)
    assert eventually_no_helper(d)


@case
def audio_longer_than_allowed_ends_the_process(_):
    need_samples()
    with Stenod("limits.audio=2s") as d, open(path("opus.webm"), "rb") as f:
        data = f.read()
        code, _, text = d.request("POST", "/v1/transcribe", data)
        assert code == 413 and "2.0 s" in text.decode(), (code, text)
        got = live(d, "/v1/stream", data, 1 << 20, {"type": "start", "encoding": "webm"}, {"type": "end"})
        assert got[-1][1]["code"] == "limit_exceeded", got
        assert eventually_no_helper(d)


@case
def more_processes_than_allowed_are_refused(_):
    need_samples()
    with Stenod("audio.helpers=1") as d, open(path("opus.webm"), "rb") as f:
        data = f.read()
        with connect(d.ws) as ws:
            ws.send(json.dumps({"type": "start", "encoding": "webm"}))
            ws.send(data[:5000])
            assert json.loads(ws.recv())["type"] == "ready"
            assert d.metric("steno_decoders") == 1
            code, headers, text = d.request("POST", "/v1/transcribe", data)
            assert code == 503 and "audio.helpers" in text.decode() and "retry-after" in dict(headers), (code, headers, text)
            with open(DIGITS, "rb") as wav:
                assert d.request("POST", "/v1/transcribe", wav.read())[0] == 200
        assert eventually_no_helper(d)
        assert d.request("POST", "/v1/transcribe", data)[0] == 200


@case
def the_command_reads_them_from_files_and_pipes(_):
    need_samples()
    for file in ("opus.webm", "a.m4a", "video.mp4", "a.wma", "flac.ogg"):
        command = [os.path.join(BUILD, "steno"), "transcribe"]
        got = subprocess.run([*command, path(file)], capture_output=True, text=True, check=False)
        assert got.stdout.strip() == DIGITS_TEXT and not got.stderr, (file, got)
        with open(path(file), "rb") as f:
            got = subprocess.run([*command, "-"], input=f.read(), capture_output=True, check=False)
        assert got.stdout.decode().strip() == DIGITS_TEXT, (file, got)


@case
def a_missing_program_is_named(_):
    need_samples()
    os.environ["STENO_DECODE"] = "/nowhere/steno-decode"
    try:
        with Stenod() as d, open(path("opus.webm"), "rb") as f:
            code, _, text = d.request("POST", "/v1/transcribe", f.read())
            assert code == 415 and "steno-decode" in text.decode(), (code, text)
            assert "steno-decode is not installed" in d.output()
    finally:
        del os.environ["STENO_DECODE"]


@case
def audio_that_is_no_container_is_named_soon(d):
    """The first bytes tell, or else a mebibyte without sound; not the idle timeout."""
    samples = pcm()[0]
    for where, code in (("/v1/listen?encoding=amr-nb", 1008), ("/v1/listen?encoding=flac", 1008), ("/v1/stream?encoding=webm", 1007)):
        got, closed, _, _ = converse(d.url.replace("http", "ws") + where, [samples[:64000]])
        assert closed == code and "encoding: a container was named: not a recognised audio format" in got[-1]["message"], (where, got, closed)
    # nothing at the beginning tells: pieces too small, or the right mark before nonsense
    nonsense = b"#!AMR\n" + b"\xff" * 1500000
    for first, shown in ((samples[:20], "no container that is known"), (nonsense[:20], "AMR")):
        data = nonsense if shown == "AMR" else samples * 16
        got, closed, _, _ = converse(d.url.replace("http", "ws") + "/v1/listen?encoding=amr-nb", [first, *[data[i:i + 30000] for i in range(20, len(data), 30000)]])
        assert closed == 1008, (closed, got)
        assert got[-1]["message"] == f"encoding: no sound was found in the audio, which begins as {shown}", got[-1]


@case
def an_mp4_whose_head_is_followed_by_noise_ends_at_once(d):
    """FFmpeg would take the noise for a box of gigabytes, and wait for it until the idle timeout (60 s)."""
    need_samples()
    noise = random.Random(3).randbytes(100000)

    def encoded(*options):
        made_now = os.path.join(folder.name, "noise.mp4")
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", DIGITS, "-c:a", "aac", *options, made_now], check=True)
        with open(made_now, "rb") as f:
            return f.read()

    def upto(data, kind, count=1):
        """What comes before the count-th box of this kind."""
        at = 0
        while True:
            count -= data[at + 4:at + 8] == kind
            if not count:
                return data[:at]
            at += int.from_bytes(data[at:at + 4], "big")
    pieces = encoded("-movflags", "empty_moov+default_base_moof", "-frag_duration", "1000000")
    first = encoded("-movflags", "faststart")
    heads = {"ftyp": pieces[:int.from_bytes(pieces[:4], "big")], "head of fragments": upto(pieces, b"moof"),
             "index first": upto(first, b"mdat"), "two fragments": upto(pieces, b"moof", 3)}
    assert len(heads["two fragments"]) > len(heads["head of fragments"]) + 4000
    for name, head in heads.items():
        for where, start, code in (("/v1/stream", [{"type": "start", "encoding": "mp4"}], 1007), ("/v1/listen", [], 1008)):
            got, closed, _, _ = converse(d.url.replace("http", "ws") + where, [*start, head + noise[:1000], *[noise[i:i + 3000] for i in range(1000, 100000, 3000)]])
            assert closed == code, (name, where, got, closed)
            assert f"the MP4 is damaged at byte {len(head)}: no box begins there" in got[-1]["message"], (name, got[-1])
        code, _, text = d.request("POST", "/v1/transcribe", head + noise)  # files end, so nothing waits
        assert code == (200 if name == "two fragments" else 400), (name, code, text)
    # noise inside a box: the decoder finds nothing
    head = upto(first, b"mdat") + b"\x7f\xff\xff\xffmdat"
    got, closed, _, _ = converse(d.ws, [{"type": "start", "encoding": "mp4"}, head, *[noise[i:i + 3000] for i in range(0, 100000, 3000)]])
    assert closed == 1007 and "none of its audio can be decoded" in got[-1]["message"], (got[-1], closed)
    assert eventually_no_helper(d)


if __name__ == "__main__":
    with Stenod() as daemon:
        result = tap(daemon)
    folder.cleanup()
    sys.exit(result)
