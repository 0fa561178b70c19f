#!/usr/bin/env python3
"""Write what manual pages, the sample configuration and the API descriptions say of options, from the two places where
options stand: the rows of config_table.h, and the tables of the model families as `steno model options` prints them.

    make options                                  # writes the files
    docs/options.py --build build/release --check # names the files that differ; exit status 1
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN, END = "begin: docs/options.py", "end: docs/options.py"
KINDS = {"STRING": "text", "SECONDS": "time", "BYTES": "size", "INT": "number", "RATIO": "number", "BOOL": "yes or no"}


def settings():
    """The rows of config_table.h: (kind, section, key, variable, default, min, max, text)."""
    path, = glob.glob(os.path.join(ROOT, "server", "**", "config_table.h"), recursive=True)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    string = r'"((?:[^"\\]|\\.)*)"'
    row = re.compile(r'ROW\((\w+),\s*\w+,\s*' + r',\s*'.join([string] * 4) + r',\s*([^,\s]+),\s*([^,\s]+),((?:\s*' + string + r')+)\)')
    rows = [m.groups()[:7] + (re.sub(r'\\(.)', r'\1', "".join(re.findall(string, m[8]))),) for m in row.finditer(text)]
    if len(rows) != len(re.findall(r"^ROW\(", text, re.M)):
        sys.exit(f"options.py: {path}: {len(rows)} rows read of {len(re.findall('^ROW', text, re.M))}")
    return rows


def named(families):
    if families == ["all"]:
        return "All families"
    return f"{'Family' if len(families) == 1 else 'Families'} {', '.join(families)}"


class Option:
    """An option of model families: what all say alike, and the text of each."""

    def __init__(self, name, scope, values, default):
        self.name, self.scope, self.values = name, scope, values
        self.default = "" if default == "-" else default
        self.texts = {}  # text: families

    def told(self):
        return ". ".join(f"{named(f)}: {text}" for text, f in self.texts.items())

    def ranged(self):
        return bool(re.fullmatch(r"[-+.e\d]+\.\.[-+.e\d]+", self.values))

    def variable(self):
        return "STENO_MODEL_" + self.name.upper()


def family_options(steno):
    """Options of all families, by name, in the order of `steno model options`."""
    options = {}
    for line in subprocess.check_output([steno, "model", "options"], text=True).splitlines():
        family, name, scope, values, default, text = re.match(r"(\S+) +(\S+) +(\S+) +(\S+) +(\S+) +(.*)", line).groups()
        o = options.setdefault(name, Option(name, scope, values, default))
        o.texts.setdefault(text, []).append(family)
    return list(options.values())


# ---- manual pages -----------------------------------------------------------------------------

def scd(text):
    return re.sub(r"([*_\\])", r"\\\1", text)


def entry(head, *paragraphs):
    out = [head]
    for p in paragraphs:
        out += ["\t" + line for line in textwrap.wrap(scd(p), 96, break_on_hyphens=False, break_long_words=False)] + [""]
    return out


def facts(default, values, variable):
    return f"Default {default or 'empty'}{values}. Environment: {variable}."


def steno_conf(rows, options):
    out, section = [], None
    for i, (kind, of, key, variable, default, low, high, text) in enumerate(rows):
        if of != section:
            out += [f"# SECTION [{of}]", ""]
            section = of
        values = "" if (low, high) == ("0", "0") else f", {low} to {high.removesuffix('.0')}"
        out += entry(f"*{key}* = _{KINDS[kind]}_", facts(default, values, variable), text)
        if of == "model" and (i + 1 == len(rows) or rows[i + 1][1] != "model"):
            out += ["The following keys are options of model families. A key is ignored for models whose family does not have",
                    "the option. A request may override it by the same name.", ""]
            for o in options:
                values = "" if o.values == "yes|no" else f", {o.values.replace('|', ', ')}"
                values = values.replace("..", " to ") if o.ranged() else values
                default = o.default or "empty, the model's own"
                what = "yes or no" if o.values == "yes|no" else "number" if o.ranged() else "text"
                out += entry(f"*{o.name}* = _{what}_", facts(default, values, o.variable()), o.told() + ".")
    return out


def steno_1(_, options):
    out, own = [], "the model's own"
    for o in options:
        values = re.sub(r"[^|]+", r"*\g<0>*", o.values) if "|" in o.values else "_N,N..._" if "," in o.values else "_N_"
        switch = o.values == "yes|no" and o.default != "yes"
        span = o.values.replace("..", " to ") + ", default" if o.ranged() else "Default"
        default = "" if switch else f" {span} {o.default or own}."
        out += entry(f"*--{o.name.replace('_', '-')}*" + ("" if switch else f" {values}"), o.told() + "." + default)
    return out


# ---- API descriptions -------------------------------------------------------------------------

def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def schema(o, of_json):
    default = f", default: {o.default}" if o.default else ""
    if o.values == "yes|no":
        return f"type: boolean, default: {'true' if o.default == 'yes' else 'false'}"
    if o.ranged():
        low, high = o.values.split("..")
        return f"type: number, minimum: {float(low):g}, maximum: {float(high):g}".replace("1e+06", "1000000") + default
    if "|" in o.values:
        return f"enum: [{o.values.replace('|', ', ')}]{default}"
    default = f", default: {quoted(o.default)}"
    if of_json:
        return f"oneOf: [{{type: string}}, {{type: integer}}, {{type: array, items: {{type: integer}}}}]{default}"
    return f"type: string{default}"


def openapi(_, options):
    return [f"        - {{name: {o.name}, in: query, schema: {{{schema(o, False)}}}, description: {quoted(o.told())}}}" for o in options]


def asyncapi(_, options):
    return [f"        {o.name}: {{{schema(o, True)}, description: {quoted(o.told())}}}" for o in options]


# ---- files ------------------------------------------------------------------------------------

def with_block(text, block):
    """The text with what stands between the marks replaced."""
    before, rest = re.match(rf"(.*?{BEGIN}[^\n]*\n)(.*)", text, re.S).groups()
    return before + "\n".join(block) + "\n" + re.search(rf"[^\n]*{END}.*", rest, re.S)[0]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--build", default=os.path.join(ROOT, "build", "release"), help="folder of steno and stenod")
    p.add_argument("--check", action="store_true", help="write nothing; name what differs")
    a = p.parse_args()
    rows, options = settings(), family_options(os.path.join(a.build, "steno"))
    sample = subprocess.check_output([os.path.join(a.build, "stenod"), "--print-sample-config"], text=True)
    old = 0
    for name, block in [("conf/steno.conf", None), ("docs/man/steno.conf.5.scd", steno_conf), ("docs/man/steno.1.scd", steno_1),
                        ("docs/openapi.yaml", openapi), ("docs/asyncapi.yaml", asyncapi)]:
        path = os.path.join(ROOT, name)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        new = with_block(text, block(rows, options)) if block else sample
        if new == text:
            continue
        old += 1
        if a.check:
            print(f"{name}: not what its tables say (make options writes it)")
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(new)
            print(f"{name}: written")
    return 1 if a.check and old else 0


if __name__ == "__main__":
    sys.exit(main())
