"""steno convert: what published ESPnet2 checkpoints have besides the plain form: a file of tokens, options and wrappers in the
pickle, names of tokens, statistics in part. TAP."""
import argparse
import io
import os
import pathlib
import pickle
import struct
import sys
import zipfile

import yaml
from daemon import run_in_folders
from test_convert import DATA, RECORDING, members, pack, refused, steno

CONF, PTH = "exp/asr/config.yaml", "exp/asr/valid.acc.ave.pth"


def changed(base, **values):
    """The archive with these values in its configuration."""
    config = yaml.safe_load(base[CONF])
    for key, value in values.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    return base | {CONF: yaml.safe_dump(config)}


def converted(d, content, name):
    steno("convert", pack(f"{d}/{name}.zip", content), "-o", f"{d}/{name}")
    with open(f"{d}/{name}/config.yaml", encoding="utf-8") as f:
        return yaml.safe_load(f)


def networks(d, name):
    return {n: open(f"{d}/{name}/full/{n}", "rb").read() for n in sorted(os.listdir(f"{d}/{name}/full"))}


def wrapped(pth, **around):
    """The checkpoint as a dictionary with the state below "module", and other values beside it."""
    with zipfile.ZipFile(io.BytesIO(pth)) as z:
        inner = {n: z.read(n) for n in z.namelist()}
    name = next(n for n in inner if n.endswith("data.pkl"))

    def text(s):
        return b"X" + struct.pack("<I", len(s)) + s.encode()

    def body(p):
        assert p[:2] == b"\x80\x02" and p[-1:] == b"."
        return p[2:-1]

    inner[name] = (b"\x80\x02}(" + b"".join(text(k) + body(pickle.dumps(v, 2)) for k, v in around.items()) +
                   text("module") + body(inner[name]) + b"u.")  # fmt: skip
    b = io.BytesIO()
    pack(b, inner)
    return b.getvalue()


def tokens_of_a_file(d):
    base = members("transformer-linear")
    tokens = yaml.safe_load(base[CONF])["token_list"]
    want = converted(d, base, "list")
    file = "data/token_list/char/tokens.txt"
    got = converted(d, changed(base, token_list=file) | {file: "\n".join(tokens) + "\r\n"}, "file")
    assert want == got and networks(d, "list") == networks(d, "file")
    refused(d, changed(base, token_list=file), "tokens.txt is missing", 74)
    refused(d, changed(base, token_list=file) | {file: "a\n"}, "token_list has 1 tokens", 65)
    refused(d, changed(base, token_list=file) | {file: "a\0\nb\nc"}, "a zero byte", 65)
    refused(d, changed(base, token_list=file) | {file: "\n".join(tokens[1:])}, "token_list asks for", 65)
    refused(d, changed(base, token_list=None), "token_list has 0 tokens", 65)


def options_and_wrappers_in_the_pickle(d):
    base = members("transformer-linear")
    options = argparse.Namespace(lr=0.1, out=pathlib.PurePosixPath("exp/asr"), more=argparse.Namespace(seed=3))
    want = converted(d, base, "plain")
    got = converted(d, base | {PTH: wrapped(base[PTH], args=options, epoch=7)}, "wrapped")
    assert want == got and networks(d, "plain") == networks(d, "wrapped")
    refused(d, base | {PTH: wrapped(base[PTH], args=os.system)}, "system", 65)


def names_of_tokens_and_parts_of_statistics(d):
    base = members("transformer-linear")
    names = dict(sym_sos="A", sym_eos="B", sym_blank="<unk>")
    tokens = yaml.safe_load(base[CONF])["token_list"]
    got = converted(d, changed(base, model_conf=names, normalize_conf=dict(norm_vars=False)), "names")
    want = [tokens.index(t) for t in names.values()]
    assert [got["token"][k] for k in ("sos", "eos", "blank")] == want, got["token"]
    assert got["encoder"]["normalize"]["norm_vars"] is False and got["encoder"]["normalize"]["norm_means"] is True
    steno("transcribe", "--model", f"{d}/names", RECORDING)


def a_decoder_that_was_not_trained_is_left_out(d):
    base = members("transformer-linear")
    got = converted(d, changed(base, model_conf=dict(ctc_weight=1.0)), "ctc")
    assert "decoder" not in got and got["weights"]["ctc"] == 1, got["weights"]
    assert sorted(networks(d, "ctc")) == ["ctc.onnx", "default_encoder.onnx"]


def what_is_not_known_is_refused_by_name(d):
    base = members("transformer-linear")
    for values, part in ((dict(frontend="s3prl"), "frontend: s3prl; known: default"),
                         (dict(frontend="fused"), "frontend: fused; known: default"),
                         (dict(frontend_conf=dict(apply_stft=False)), "apply_stft: false; known: true"),
                         (dict(frontend_conf=dict(frontend_conf=dict(use_wpe=True))), "use_wpe: true; known: false"),
                         (dict(input_size=83), "input_size: 83; known: null"),
                         (dict(preencoder="linear"), "preencoder: linear"),
                         (dict(postencoder="hugging_face_transformers"), "postencoder: hugging_face_transformers"),
                         (dict(model="maskctc"), "model: maskctc; known: espnet"),
                         (dict(use_adapter=True), "use_adapter: true; known: false"),
                         (dict(token_type="hugging_face"), "token_type: hugging_face; known: char"),
                         (dict(normalize_conf=dict(axis=1)), "normalize_conf.axis is not known")):  # fmt: skip
        refused(d, changed(base, **values), part, 65)
    refused(d, base | {CONF: ""}, "the file is empty", 65)
    os.makedirs(f"{d}/folder")
    for name, content in (("config.yaml", b""), ("model.pth", base[PTH])):
        with open(f"{d}/folder/{name}", "wb") as f:
            f.write(content)
    assert "the file is empty" in steno("convert", f"{d}/folder", "-o", f"{d}/out", want=65)[1]
    meta = base | {"meta.yaml": base["meta.yaml"].replace(b"asr_", b"s2t_")}
    refused(d, meta, "other tasks, such as s2t", 65)


TESTS = [tokens_of_a_file, options_and_wrappers_in_the_pickle, names_of_tokens_and_parts_of_statistics,
         a_decoder_that_was_not_trained_is_left_out, what_is_not_known_is_refused_by_name]

if __name__ == "__main__":
    sys.exit(run_in_folders(TESTS))
