"""Texts of the synthetic voices: digit strings, strings in sentences, ordinary sentences, words similar to digits."""
import glob
import os
import re

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "oh"]
TOKEN = {w: i + 1 for i, w in enumerate(DIGITS)}
UNK = 12

NEAR = """wine line mine fine find vine sign time dine nighttime night knife life five-star alive arrive drive hive
tree free sea see me he she three-piece thread threat through throw true do you who blue shoe tooth to-day too-much
sex sick sixth sixty sixteen seeks sits mix fix ticks heaven seventh seventy seventeen eleven even event several
sever ever never weaven hero nearer year zebra zeal Nero narrow row go no so owe oath own old over only open okay
fore forth fourth forty fourteen floor more door form force fort war wore your fifth fifty fifteen fight fire files
want once wand wonder run sun fun done gun under another ate-up eighth eighty eighteen hate gate wait late day ace
age ninth ninety nineteen nice name none noon nun twenty thirty twelve ten tens thousand hundred million double
triple dash dot star pound hash minus plus point comma stop hello yes no maybe please thanks right left""".split()
NEAR = [w for w in NEAR if w not in ("to", "too", "for", "ate", "won", "oh", "five-star", "three-piece")]

CONTEXT = """my number is @|call me at @ please|the pin is @|code @|it's @|please dial @|the meter reading is @|room @ please
account number @ thank you|um @|uh @ uh @|yes it is @|extension @|that's @ and then @|my phone number is @ okay
the code was @ I think|sorry I meant @|no it is @|the last digits are @|area code @ number @|flight @ is late
press @ to go back|bus number @ leaves now|my card ends in @|you can reach me on @ after lunch|@ is my order number
@ thank you|@ please|@ that is all|well @ right|okay so @ then @|the house number is @|reading @ from the meter
and the zip code is @|he said @ but she wrote @|channel @ over|version @ of the manual|track @""".replace("\n", "|").split("|")

HOMOPHONE = """I want to go to the market for some bread|she ate too much and so did he|they won the game for the school
oh what a lovely day it is|it is time to eat and to sleep|we went there for a walk|he ate the cake for breakfast
who won the race to the top|oh no not again|this is for you and for me too|I have to tell you to wait for him
too many people came to see the show|oh I see what you mean|one of them is mine|no one told me about this one
for a long time nobody came to the house|she won a prize for the best story|we ate before the others
the one who laughs last|everyone has only one life to live|I would like to thank you for coming
what are you looking for|go to sleep|one day I will go to see the sea|to be or not to be|it is for free
oh my dear friend|oh yes of course|he used to sing to them|a gift for my mother|what is it for
he has won before|the team that won went to the park|the dog ate my homework""".replace("\n", "|").split("|")


# Digits with the accents of other languages, spelled for the espeak-ng voice of that language; in DIGITS' order.
ACCENTED = {
    "fr": ["ziro ouane tou sri fore faïve sixe sévène éïte naïne o", "zéro ouanne tou fri faure faïf sikse sèvène éte naïne ô"],
    "de": ["siero uann tu srih fohr faif siks sewen äit nein oh", "zero wann tuh sri for faiw siks sewn eet nain o"],
    "es": ["sirou uan tu tri for faif siks seven eit nain ou", "sero guan tu sri for faib sics seben eit nain o"],
    "it": ["ziro uan tu tri for faiv sics seven eit nain o"], "nl": ["ziero wan toe srie foor faif siks sevven eet nain oo"],
    "pt-br": ["zirou uan tu fri fór faive síquis séven eite naine ôu"], "pl": ["ziro łan tu sri for fajf siks sewen ejt najn oł"],
    "ru": ["зироу уан ту сри фор файв сикс сэвэн эйт найн оу"], "hi": ["ज़ीरो वन टू थ्री फोर फाइव सिक्स सेवन एट नाइन ओ"],
    "sv": ["siro oann to tri får fajv sicks seven ejt najn å"], "tr": ["ziro uan tu tıri for fayv siks sevın eyt nayn o"],
    "el": ["ζίρο γουάν του θρι φορ φάιβ σιξ σέβεν έιτ νάιν όου"], "cs": ["zírou uan tů srí fór fajv siks sevn ejt najn ou"],
    "hu": ["zíró uan tú szrí fór fájv sziksz szeven éjt nájn ó"], "fi": ["siirou uan tuu trii foor faiv siks seven eit nain ou"],
    "ja": ["ゼロ ワン ツー スリー フォー ファイブ シックス セブン エイト ナイン オー"],
    "ko": ["지로 원 투 쓰리 포 파이브 식스 세븐 에잇 나인 오"], "ro": ["ziro uan tu tri for faiv sics seven eit nain ou"],
    "da": ["siro van tu sri får fajv siks seven ejt najn å"],
}

# Debian's prompts for the telephone exchange Asterisk, by file: their digits in order. A prompt that is neither here
# nor in UNSURE has none. A word `for`, `to` or `one` that is no number does not count, as in the sentences above.
PROMPTS = {
    "dictate/forhelp": [0], "dictate/record_help": [1, 8], "dir-instr": [1], "dir-multi9": [9], "dir-usingkeypad": [7, 9],
    "followme/options": [1, 2], "vm-advopts": [3], "vm-calldiffnum": [2], "vm-Cust1": [5], "vm-Cust2": [6], "vm-Cust3": [7],
    "vm-Cust4": [8], "vm-Cust5": [9], "vm-delete": [7], "vm-forward-multiple": [1, 2], "vm-forwardoptions": [1, 2],
    "vm-forward": [1, 2], "vm-instructions": [1], "vm-leavemsg": [5], "vm-next": [6], "vm-onefor-full": [1], "vm-onefor": [1],
    "vm-opts": [2, 3, 0], "vm-prev": [4], "vm-reachoper": [0], "vm-repeat": [5], "vm-review": [1, 2, 3],
    "vm-review-nonurgent": [4], "vm-review-urgent": [4], "vm-savemessage": [9], "vm-saveoper": [1], "vm-tempgreeting2": [1, 2],
    "vm-tempgreeting": [1], "vm-tocallback": [2], "vm-tocallnum": [1], "vm-toenternumber": [1], "vm-toforward": [8],
    "vm-tohearenv": [3], "vm-tomakecall": [4], "vm-toreply": [1], "vm-torerecord": [3], "vm-undelete": [7],
}
# Too many digits for a scene, digits too far apart, a doubtful digit, or no certain transcript.
UNSURE = """basic-pbx-ivr-main conf-adminmenu-162 conf-adminmenu-18 conf-adminmenu-menu8 conf-adminmenu conf-usermenu-162
conf-usermenu demo-instruct dictate/play_help dir-intro-fn dir-intro priv-callee-options screen-callee-options vm-options
vm-opts-full vm-msginstruct if-correct-press to-call-this-number to-listen-to-it to-rerecord-it spy-h323 conf-onlyone
confbridge-only-one one-moment-please demo-enterkeywords for vm-for dir-multi2 phonetic/9_p confbridge-mute-extended
confbridge-lock-extended beep beeperr ascending-2tone descending-2tone confbridge-join confbridge-leave tt-monkeys""".split()


def digit_string(rng, low=2, high=10):
    n = int(rng.integers(low, high + 1))
    oh = rng.random() < 0.35  # a speaker says zero or oh, rarely both
    out = []
    for _ in range(n):
        if out and rng.random() < 0.12:
            out.append(out[-1])
            continue
        w = DIGITS[int(rng.integers(0, 11))]
        if w in ("zero", "oh") and rng.random() < 0.9:
            w = "oh" if oh else "zero"
        out.append(w)
    return out


def punctuate(rng, words):
    style = rng.random()
    if style < 0.5:
        return " ".join(words)
    if style < 0.7:
        return ", ".join(words)
    out, k = [], 0
    group = int(rng.integers(2, 5))
    for w in words:
        k += 1
        out.append(w)
        if k == group:
            out[-1] += ","
            k, group = 0, int(rng.integers(2, 5))
    return " ".join(out).rstrip(",")


def context(rng):
    """A sentence with digit strings in it: (text, tokens)."""
    parts = re.split("(@)", CONTEXT[int(rng.integers(len(CONTEXT)))])
    text, tokens = [], []
    for p in parts:
        if p == "@":
            words = digit_string(rng, 1, 6)
            text.append(punctuate(rng, words))
            tokens += [TOKEN[w] for w in words]
        elif p.strip():
            text.append(p.strip())
            tokens += [UNK] * len(p.split())
    return " ".join(text), tokens


def sentences(folder="/usr/share/games/fortunes"):
    """Ordinary sentences of 3 to 20 words without digits (the word `one` may appear where it is no number)."""
    bad = {"zero", "two", "three", "four", "five", "six", "seven", "eight", "nine", "o"}
    out, seen = [], set()
    for path in sorted(glob.glob(os.path.join(folder, "*.u8"))):
        with open(path, encoding="utf-8", errors="ignore") as f:
            blocks = f.read().split("\n%\n")
        for block in blocks:
            block = re.sub(r"\n\s*--.*", "", block, flags=re.S)
            block = " ".join(block.split())
            for s in re.split(r"(?<=[.!?;:])\s+", block):
                s = re.sub(r"[^A-Za-z', -]", " ", s).replace("-", " ")
                s = re.sub(r"\s+", " ", s).strip(" ',")
                words = s.replace(",", " ").split()
                if not 3 <= len(words) <= 20 or any(len(w) > 14 for w in words):
                    continue
                if any(w.lower() in bad for w in words) or sum(w.isupper() and len(w) > 1 for w in words):
                    continue
                key = s.lower()
                if key not in seen:
                    seen.add(key)
                    out.append(s)
    return out


def words(path="/usr/share/dict/words"):
    out = []
    with open(path, encoding="utf-8") as f:
        for w in f:
            w = w.strip()
            if re.fullmatch(r"[a-z]{3,8}", w) and w not in TOKEN and w not in ("won", "too", "for", "ate", "owe", "tow"):
                out.append(w)
    return out
