"""Compare the structs and constants of steno_asr with a C compiler's view of steno.h. Prints what differs.

layout.py HEADER WORK: the installed header, a folder to compile in. steno_asr is the installed package.
"""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

from steno_asr import _library as library

header, work = Path(sys.argv[1]), Path(sys.argv[2])
structs = {
    name: s for name, s in vars(library).items() if isinstance(s, type) and issubclass(s, ctypes.Structure) and s is not ctypes.Structure
}


def c_name(name):
    return "steno_err" if name == "Err" else "struct steno" + re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name)


lines = []
for name, s in structs.items():
    lines.append(f'printf("{name} %zu\\n", sizeof({c_name(name)}));')
    for field in s._fields_:
        f = field[0]
        lines.append(
            f'printf("{name}.{f} %zu %zu\\n", offsetof({c_name(name)}, {f}), sizeof((({c_name(name)} *)0)->{f}));'
        )
for n, kind in enumerate(library.KINDS):
    lines.append(f'printf("{kind} %d\\n", STENO_{kind.upper()} == {n});')
for n, reason in enumerate(library.REASONS):
    lines.append(f'printf("reason {reason} %d\\n", STENO_FINAL_{reason.upper()} == {n});')
lines.append('printf("abi %d\\n", STENO_ABI_VERSION);')
source = work / "layout.c"
source.write_text(
    f'#include <stdio.h>\n#include "{header}"\nint main(void)\n{{\n' + "\n".join(lines) + "\nreturn 0;\n}\n"
)
subprocess.run(["gcc", "-std=c11", "-o", work / "layout", source], check=True)
said = subprocess.run([work / "layout"], check=True, capture_output=True, text=True).stdout.splitlines()

expected = []
for name, s in structs.items():
    expected.append(f"{name} {ctypes.sizeof(s)}")
    for field in s._fields_:
        d = getattr(s, field[0])
        expected.append(f"{name}.{field[0]} {d.offset} {d.size}")
expected += [f"{kind} 1" for kind in library.KINDS] + [f"reason {r} 1" for r in library.REASONS]
expected.append(f"abi {library.ABI}")
wrong = [f"C: {a}, Python: {b}" for a, b in zip(said, expected) if a != b]
# A field that is missing at the end of a struct shows in its size; the number of structs of the header is counted.
unused = {"steno_enrolled_speaker", "steno_filter_options", "steno_line", "steno_live_merge", "steno_option_info", "steno_model_languages",
          "steno_speaker_options", "steno_turn"}  # by the package
declared = set(re.findall(r"^struct (steno_\w+) \{", header.read_text(), re.MULTILINE)) - unused
missing = declared - {c_name(n).removeprefix("struct ") for n in structs}
wrong += [f"{m} is not in the package" for m in sorted(missing)]
print("\n".join(wrong), end="")
sys.exit(bool(wrong))
