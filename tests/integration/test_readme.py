"""The README's examples, run like a new user would: every ```sh block, line by line, with a server on a free port
instead of the named one, and with digits instead of sentences, since the tests have no fetched model."""
import os
import re
import shlex
import subprocess
import sys
import tempfile

from daemon import BUILD, DIGITS_TEXT, ROOT, SHARED, SLOW, Skip, Stenod, case, client, need, tap

with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as _f:
    COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", _f.read(), re.S) for line in block.splitlines()]


def run(command, port=0, model=None):
    """What an example prints. model: a directory, which then hears the recording of the example; else digits are said."""
    command = command.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    command = command.replace("build/release/", shlex.quote(BUILD) + "/")
    if not model:
        command = command.replace("tests/data/speech/jfk.wav", "tests/data/digits.wav")
    command = re.sub(r"\bbuild/(stenod?)\b", lambda m: shlex.quote(os.path.join(BUILD, m.group(1))), command)
    p = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, timeout=300 * SLOW, capture_output=True, text=True,
                       check=False, env={**os.environ, "STENO_MODEL": model} if model else None)
    assert p.returncode == 0, (command, p.stdout, p.stderr)
    return p.stdout


def expected():
    return run("build/steno transcribe tests/data/digits.wav").split()


@case
def the_server_starts_as_written(d):
    starts = [c for c in COMMANDS if "stenod" in c]
    assert starts and all(re.fullmatch(r"build/stenod --listen 127\.0\.0\.1:8080", c) for c in starts), starts


@case
@client("curl", "the examples of README.md", "Debian 12's")
def every_curl_example_gives_the_transcript(d):
    examples = [c for c in COMMANDS if c.startswith("curl")]
    assert len(examples) >= 3
    for c in examples:
        text = re.sub(r"[^a-z ]", " ", run(c.replace("curl ", "curl -fsS ", 1), d.port).lower()).split()
        it = iter(text)
        assert expected() and all(word in it for word in expected()), (c, text)  # in order, with other text between


@case
def the_stream_example_gives_the_transcript(d):
    examples = [c for c in COMMANDS if "wsclient" in c]
    assert examples
    for c in examples:
        said = " ".join(re.findall(r" final +(.*?) +\(", run(c, d.port)))
        assert said.split() == expected(), (c, said)


@case
def the_command_examples_give_the_transcript(d):
    examples = [c for c in COMMANDS if "steno transcribe" in c]
    assert len(examples) >= 3
    for c in examples:
        out = run(c)
        assert all(word in out for word in expected()), (c, out)


def tiny_en():
    tiny = os.environ.get("STENO_WHISPER_TINY_EN", "")
    if not os.path.isdir(tiny):
        raise Skip("needs tiny.en: STENO_WHISPER_TINY_EN")
    return tiny


@case
def with_whisper_every_example_gives_the_sentence(_):
    """The examples as they stand, and the Python client of docs/protocol.md, which sends faster than people speak."""
    tiny = tiny_en()
    with open(os.path.join(ROOT, "docs", "protocol.md"), encoding="utf-8") as f:
        python = re.search(r"```python\n(.*?)```", f.read(), re.S).group(1)
    with Stenod("model.dir=" + tiny) as d, tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/client.py", "w", encoding="utf-8") as f:
            f.write(python.replace("127.0.0.1:8080", f"127.0.0.1:{d.port}"))
        examples = [c.replace("curl ", "curl -fsS ", 1) for c in COMMANDS if re.match(r"curl |.*wsclient|.*steno transcribe", c)]
        assert len(examples) >= 7
        for c in [*examples, *[f"{shlex.quote(sys.executable)} {shlex.quote(folder)}/client.py tests/data/speech/jfk.wav"] * 3]:
            text = run(c, d.port, tiny)
            said = re.sub("[^a-z]+", " ", re.sub(r"-->|[0-9:.,]+", " ", text.lower()))
            assert "ask what you can do for your country" in said, (c, text)


@case
def the_dialogue_of_make_demo_speakers_has_two_speakers(_):
    networks, tiny = need(os.path.join(SHARED, "speakers", "models")), tiny_en()
    with tempfile.TemporaryDirectory() as data:
        os.mkdir(f"{data}/models")
        os.symlink(networks, f"{data}/models/speakers")
        p = subprocess.run(["tests/demo_speakers.sh"], cwd=ROOT, timeout=300 * SLOW, capture_output=True, text=True, check=False,
                           env={**os.environ, "STENO_DATA": data, "STENO_MODEL": tiny})
    said = re.findall(r"^Speaker (\d): (.*)", p.stdout, re.M)
    assert p.returncode == 0 and [who for who, _ in said] == ["1", "2", "1", "2", "1"], (p.stdout, p.stderr)
    assert all("country" in said[i][1] for i in (2, 4)), said
    assert len(set(re.findall(r"^SPEAKER dialogue 1 .* (SPEAKER_\d+) <NA> <NA>$", p.stdout, re.M))) == 2, p.stdout


@case
def the_models_to_fetch_are_in_the_catalogue(d):
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        names = re.findall(r"steno model fetch ([a-z0-9.-]+)", f.read())
    known = run("build/steno model list")
    assert names and all(re.search(rf"^{re.escape(n)} ", known, re.M) for n in names), (names, known)


@case
def a_text_is_aligned(_):
    (example,) = [c for c in COMMANDS if "steno align" in c]
    lines = run(example).splitlines()
    assert [line.split()[3] for line in lines] == DIGITS_TEXT.split() and 0 < float(lines[0].split()[0]) < 1, lines


@case
def no_example_is_left_untried(d):
    rest = [c for c in COMMANDS if c and not re.match(r"curl |build/stenod |.*wsclient|.*steno (transcribe|align)", c)]
    assert not rest, rest


if __name__ == "__main__":
    with Stenod() as daemon:
        status = tap(daemon)
    sys.exit(status)
