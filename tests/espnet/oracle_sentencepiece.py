#!/usr/bin/env python3
"""The texts of sentencepiece itself for the cases in tests/unit/test_sentencepiece.c."""
import sentencepiece

MARK = "\u2581"


def piece(text, kind):
    body = text.encode()
    body = bytes([0x0A, len(body)]) + body + b"\x15\0\0\0\0\x18" + bytes([kind])
    return bytes([0x0A, len(body)]) + body


def model(trims):
    pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3), (MARK + "a", 1), ("b", 1), (MARK, 1),
              ("x%sy" % MARK, 4)] + [("<0x%02X>" % i, 6) for i in range(256)]
    byte_fallback = b"\x12\x03\x98\x02\x01"       # sentencepiece requires all bytes, or none
    return b"".join(piece(*p) for p in pieces) + byte_fallback + b"\x1A\x02\x20" + bytes([trims])


def main():
    cases = {
        True: [[], [MARK + "a", "b", MARK + "a"], ["b", MARK + "a"], [MARK, MARK, "b"],
               ["<s>", MARK + "a", "</s>", "b"], ["b", "<unk>", "b"], ["<blank>", "b", "<sos/eos>"],
               ["b", "<0xC3>", "<0xA4>", "b"], ["<0xC3>", "b", "<0xFF>"],
               ["<0xA4>", "<0xC3>", "<0xA4>"], ["x%sy" % MARK, MARK + "a"], ["c", MARK + "q"]],
        False: [[MARK, MARK, "b"], [MARK, "b"], ["<0xC3>", "<0xA4>", MARK + "a"]],
    }
    for trims, lists in cases.items():
        sp = sentencepiece.SentencePieceProcessor()
        sp.LoadFromSerializedProto(model(trims))
        for pieces in lists:
            print(trims, "|".join(pieces), "->", repr(sp.DecodePieces(pieces)))


if __name__ == "__main__":
    main()
