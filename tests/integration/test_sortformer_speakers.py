"""All of test_speakers.py once more, with a Sortformer (toy_sortformer.py) instead of windows and clusters. TAP."""
# not under sanitizers: the server's part is that of test_speakers, the network's that of test_sortformer
import sys

import test_speakers
import toy_sortformer

if __name__ == "__main__":
    test_speakers.toy.write = toy_sortformer.write
    sys.exit(test_speakers.main())
