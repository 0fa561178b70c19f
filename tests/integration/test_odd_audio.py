"""Odd recordings against ffmpeg: foreign bytes, lost and chained Ogg pages, joined and cut files, odd WAV headers. What
ffmpeg makes of a file is what people hear elsewhere. Skipped without ffmpeg."""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np
from daemon import BUILD, DIGITS, SLOW, Skip, case, tap

folder = tempfile.TemporaryDirectory(prefix="steno-odd-")
NOISE = bytes(random.Random(5).randrange(0, 127) for _ in range(3000))  # no byte 255: no MPEG sync word
WAYS = os.path.join(BUILD, "tests", "formats", "ways")


def encoded(name, arguments, source=DIGITS):
    path = os.path.join(folder.name, name)
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", source, *arguments.split(), path], stdin=subprocess.DEVNULL, check=True)
    with open(path, "rb") as f:
        return f.read()


def by_ffmpeg(path, rate):
    got = subprocess.run(["ffmpeg", "-v", "quiet", "-i", path, "-f", "f32le", "-ac", "1", "-ar", str(rate), "-"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    return np.frombuffer(got.stdout, "<f4")


def by_steno(way, path):
    with open(path, "rb") as f:
        got = subprocess.run([WAYS, way, path, "0"], stdin=f, capture_output=True, timeout=60 * SLOW, check=False)
    says = got.stderr.decode().strip().splitlines()[-1]
    return (0, says) if got.returncode else (int(says.split()[0]), np.frombuffer(got.stdout, "<f4"))


def pages(ogg):
    """The pages of an Ogg file."""
    out, at = [], 0
    while at < len(ogg):
        size = 27 + ogg[at + 26] + sum(ogg[at + 27:at + 27 + ogg[at + 26]])
        out.append(ogg[at:at + size])
        at += size
    return out


def chunk(name, data, size=None, pad=True):
    return name + struct.pack("<I", len(data) if size is None else size) + data + (b"\0" if pad and len(data) & 1 else b"")


def wav(pcm, before=b"", after=b"", size=None, riff=None, fmt=None, tag=b"RIFF"):
    fmt = struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16) if fmt is None else fmt
    body = b"WAVE" + chunk(b"fmt ", fmt) + before + chunk(b"data", pcm, size) + after
    return tag + struct.pack("<I", len(body) if riff is None else riff) + body


def wav_forms():
    with open(DIGITS, "rb") as f:
        pcm = f.read()[44:]
    long = struct.pack("<HHIIHHHHI", 0xfffe, 1, 8000, 16000, 2, 16, 22, 16, 4) + \
        bytes.fromhex("0100000000001000800000aa00389b71")
    yield "data length 0, at the end", wav(pcm, size=0, riff=0)
    yield "data length of all ones", wav(pcm, size=0xffffffff, riff=0xffffffff)
    yield "data length too long", wav(pcm, size=len(pcm) + 5000)
    yield "a chunk in front of the data", wav(pcm, before=chunk(b"LIST", b"INFOISFT\6\0\0\0abcde\0"))
    yield "an odd chunk in front", wav(pcm, before=chunk(b"junk", b"abc"))
    yield "a fact and a cue chunk", wav(pcm, before=chunk(b"fact", struct.pack("<I", 7)), after=chunk(b"cue ", b"\0" * 4))
    yield "a tag behind the data", wav(pcm, after=chunk(b"id3 ", NOISE[:501]))
    yield "foreign bytes behind the data", wav(pcm) + NOISE[:777]
    yield "EXTENSIBLE", wav(pcm, fmt=long)
    yield "a longer fmt chunk", wav(pcm, fmt=struct.pack("<HHIIHHH", 1, 1, 8000, 16000, 2, 16, 0))
    yield "byte rate and block align 0", wav(pcm, fmt=struct.pack("<HHIIHH", 1, 1, 8000, 0, 0, 16))
    yield "cut within a sample", wav(pcm)[:-1001]


def other_forms():
    mp3 = encoded("a.mp3", "-c:a libmp3lame -ar 16000 -b:a 64k -write_xing 0 -id3v2_version 0")
    tagged = encoded("t.mp3", "-c:a libmp3lame -ar 16000 -b:a 64k -metadata title=x -id3v2_version 3")
    flac = encoded("a.flac", "-c:a flac")
    id3 = b"ID3\3\0\0" + bytes([0, 0, 7, 104]) + b"\0" * 1000
    yield "MP3 without Xing header", mp3
    yield "MP3 with tag and Xing header", tagged
    yield "MP3 behind 3000 foreign bytes", NOISE + mp3
    yield "MP3 behind an ID3v2 tag", id3 + mp3
    yield "MP3 in front of an ID3v1 tag", mp3 + b"TAG" + b"x" * 125
    yield "MP3 that begins within a frame", mp3[137:]
    yield "MP3 cut within a frame", mp3[:-100]
    yield "MP3 with a hole", mp3[:9000] + mp3[9700:]
    yield "two MP3 files", mp3 + mp3
    yield "FLAC behind an ID3v2 tag", id3 + flac
    yield "FLAC cut within a frame", flac[:-700]
    for name, codec in (("Opus", "libopus -b:a 32k"), ("Vorbis", "libvorbis -ar 16000 -q:a 5"), ("FLAC", "flac"),
                        ("Speex", "libspeex -ar 16000 -b:a 28k")):
        ogg = encoded(f"{name}.ogg" if name != "Speex" else "a.spx", f"-c:a {codec} -page_duration 200000")
        p = pages(ogg)
        other = encoded(f"{name}2.ogg" if name != "Speex" else "b.spx", f"-c:a {codec} -page_duration 200000 -serial_offset 77")
        yield f"Ogg {name} with a lost page", b"".join(p[:9] + p[10:])
        yield f"Ogg {name} with foreign bytes between pages", b"".join(p[:9]) + NOISE[:500] + b"".join(p[9:])
        yield f"Ogg {name} behind foreign bytes", NOISE[:700] + ogg
        yield f"Ogg {name} cut within a page", ogg[:-400]
        yield f"Ogg {name}, a chain", ogg + other


# Where ffmpeg's samples are not the measure: how many of them ours must equal from the beginning, and our own length
# (None: within 1,152 of ffmpeg's).
OTHERWISE = {
    "MP3 cut within a frame": (93000, None),  # ffmpeg plays what it has of the last frame
    "MP3 with a hole": (18000, None),  # both begin anew, at different frames
    "Ogg Opus with a lost page": (10000, 46592),  # concealed: what follows stays in its place
    "Ogg Vorbis, a chain": (93184, 186368),  # the overlap at the end of a link is no sound
}


def differs(name, rate, x, y):
    if name.startswith("Ogg") and name.endswith("behind foreign bytes"):  # ffmpeg does not find the stream
        with open(os.path.join(folder.name, name.split()[1] + ".ogg" if "Speex" not in name else "a.spx"), "rb") as f:
            plain = os.path.join(folder.name, "plain")
            shutil.copyfile(f.name, plain)
        y = by_ffmpeg(plain, rate)
    same, length = OTHERWISE.get(name, (len(y), len(y)))
    if len(x) != length and not (length is None and abs(len(x) - len(y)) <= 1152):
        return f"{len(x)} samples at {rate} Hz, ffmpeg has {len(y)}"
    # 1/128: ffmpeg resamples Opus from 48 kHz by another filter
    worst = np.abs(x[:same] - y[:same]).max() if len(y) >= same else 9
    return f"largest difference {worst:.4f} in {same} samples" if worst > 1 / 128 else ""


def check(forms):
    for name, data in forms:
        path = os.path.join(folder.name, "odd")
        with open(path, "wb") as f:
            f.write(data)
        rate, x = by_steno("file", path)
        assert rate, (name, x)
        why = differs(name, rate, x, by_ffmpeg(path, rate))
        assert not why, (name, why)
        for way in ("pipe", "upload"):
            other, z = by_steno(way, path)
            assert other == rate and np.array_equal(z, x), (name, way, other, z)


def need_ffmpeg():
    if not shutil.which("ffmpeg"):
        raise Skip("ffmpeg is not installed")


@case
def odd_wav_files_have_the_samples_that_ffmpeg_finds():
    need_ffmpeg()
    check(wav_forms())


@case
def odd_mpeg_flac_and_ogg_files_have_the_samples_that_ffmpeg_finds():
    need_ffmpeg()
    check(other_forms())


if __name__ == "__main__":
    result = tap()
    folder.cleanup()
    sys.exit(result)
