"""A stenod whose calls fail on demand, or that is killed at one of them: tests/faults/inject.c is preloaded into it."""
import mmap
import os
import shutil
import struct
import tempfile

from daemon import BUILD, SAN, Stenod

MEMORY, RECEIVE, SEND, DISK, THREAD, DESCRIPTOR, HANG, SHRINK = range(1, 9)
LIBRARY = os.path.join(BUILD, "tests", "faults", "inject.so")
HAS_MEMORY = not {"address", "thread"} & set(SAN.split(","))  # otherwise the sanitizer's allocator is called, not the preloaded one
SECRET = "a-secret-of-the-test-0123456789"
HEADERS = {"Authorization": "Bearer " + SECRET}

# the library comes before the sanitizer's runtime, because it must see the caller
os.environ["ASAN_OPTIONS"] = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))
if not os.path.exists(LIBRARY):
    raise SystemExit(f"{LIBRARY} is not built (make tests)")


class Broken:
    """A stenod whose calls fail on demand."""

    def __init__(self, *settings):
        self.folder = tempfile.mkdtemp(prefix="stenod-faults-")
        self.file = open(os.path.join(self.folder, "page"), "wb+")
        self.file.write(bytes(4096))
        self.file.flush()
        self.page = mmap.mmap(self.file.fileno(), 4096)
        keys = os.path.join(self.folder, "keys")
        with open(keys, "w", encoding="utf-8") as f:
            f.write(f"[tester]\nkey = {SECRET}\n")
        os.chmod(keys, 0o600)
        self.admin = os.path.join(self.folder, "admin")
        self.d = Stenod("auth.keys=" + keys, "server.admin=" + self.admin, "limits.header_timeout=5s", *settings)
        self.d.env = {**self.d.env, "STENO_INJECT": self.file.name, "LD_PRELOAD": os.path.basename(LIBRARY),
                      "LD_LIBRARY_PATH": os.path.dirname(LIBRARY),  # may have blanks, which LD_PRELOAD may not
                      "STENO_POOL_CALIBRATION": os.path.join(self.folder, "costs")}

    def fail(self, kind, n, always=False, kill=False):
        """The nth call from now fails, or the process is killed at it."""
        self.page[40:48] = struct.pack("q", kill)
        self.page[0:24] = struct.pack("qqq", 0, n, always)
        self.page[0:8] = struct.pack("q", kind)

    def left(self):
        """Number of calls until one fails; 0 or less once it has failed."""
        return struct.unpack("q", self.page[8:16])[0]

    def mend(self):
        """Let no call fail any more. Returns the number of calls that were left."""
        self.page[0:8] = bytes(8)
        return self.left()

    def jump(self, seconds):
        """Set the wall clock wrong by so many seconds."""
        self.page[32:40] = struct.pack("q", seconds)

    def sleep(self, seconds):
        """Advance the monotonic clock by so many seconds at once, as after a suspension of the machine."""
        self.page[48:56] = struct.pack("q", seconds + struct.unpack("q", self.page[48:56])[0])

    def close(self):
        self.page.close()
        self.file.close()
        shutil.rmtree(self.folder, ignore_errors=True)
