"""Options that do nothing are errors that say where they belong; misspelt names are answered with the one that is meant. TAP."""
import os
import subprocess
import sys

from daemon import BUILD, ROOT, case, tap

NETWORK = os.path.join(ROOT, "conf", "models", "digits-en", "encoder.onnx")
MODEL = os.path.dirname(NETWORK)


def refused(said, *args):
    r = subprocess.run([os.path.join(BUILD, "steno"), *args], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "STENO_SERVER": "http://127.0.0.1:1"})
    assert r.returncode and said in r.stderr, (args, r)
    return r


@case
def an_option_of_another_subcommand_is_named():
    for args, owners in ((("jobs", "list", "--callback", "x"), "submit"), (("jobs", "list", "--format=json"), "submit, watch, get"),
                         (("jobs", "--state", "done", "get", "x"), "list"), (("jobs", "watch", "--set", "a=b"), "submit"), (("jobs", "get", "x", "--watch"), "submit"),
                         (("jobs", "remove", "x", "--output-dir", "d"), "submit, watch"), (("jobs", "resend", "x", "--dead"), "list"),
                         (("model", "list", "--again"), "fetch"), (("model", "remove", "base", "--hub", "x"), "fetch"),
                         (("model", "ops", "--precision", "fp32"), "info"), (("model", "options", "--opt-level", "0"), "info")):
        option = next(a for a in args if a.startswith("--")).split("=")[0]
        sub = next(a for a in args[1:] if a in ("list", "get", "watch", "remove", "resend", "ops", "options"))
        r = refused(f"{args[0]} {sub}: {option} is an option of {owners}", *args)
        assert r.returncode == 64


@case
def an_option_that_needs_another_says_so():
    refused("jobs submit: --format needs --output-dir", "jobs", "submit", "--watch", "--format", "srt", "x.wav")
    refused("jobs watch: --format needs --output-dir", "jobs", "watch", "--format", "text")
    refused("jobs submit: --output-dir needs --watch", "jobs", "submit", "--output-dir", "x", "x.wav")
    refused("--precision is for model directories", "model", "info", "--precision", "fp32", NETWORK)
    refused("passes can be chosen for a network", "model", "info", "--opt-level", "0", MODEL)
    for option, forms in (("--max-line-width=40", "srt, vtt or lrc"), ("--max-line-count=1", "srt, vtt or lrc"), ("--max-words-per-line=3", "srt, vtt or lrc"),
                          ("--highlight-words", "srt or vtt"), ("--nbest=3", "json or nbest")):
        for form in ((), ("--stream",), ("--format", "tsv")):
            refused(f"{option.split('=')[0]} is for --format {forms}", "transcribe", option, *form, "x.wav")
    refused("--words is for --format text", "transcribe", "--words", "--format", "srt", "x.wav")


@case
def a_misspelt_name_is_answered_with_the_one_that_is_meant():
    refused("unknown option --beam-size (--beam is known)", "transcribe", "--beam-size=3", "x.wav")
    refused("unknown option --hotword (--hotwords is known)", "transcribe", "--hotword", "a", "x.wav")
    refused("unknown option --calback (--callback is known)", "jobs", "submit", "--calback", "x")
    refused("unknown option --zzz (see", "transcribe", "--zzz")
    refused("unknown command 'transcrib' (transcribe is known)", "transcrib")
    refused("unknown command 'qqq' (see", "qqq")
    refused("no model of the catalogue (tiny.en is known)", "transcribe", "--model", "tny.en", "x.wav")
    refused("qqq: No such file", "transcribe", "--model", "qqq", "x.wav")
    refused("./tny.en: No such file", "transcribe", "--model", "./tny.en", "x.wav")


if __name__ == "__main__":
    sys.exit(tap())
