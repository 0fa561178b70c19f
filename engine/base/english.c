#include "base/english.h"

#include <string.h>

#include "base/ascii.h"

/* Sorted by word. */
static const struct steno_english_word words[] = {
    {"a", STENO_EN_A, 1, false},
    {"a.m", STENO_EN_HALF_DAY, 0, false},
    {"am", STENO_EN_HALF_DAY, 0, false},
    {"and", STENO_EN_AND, 0, false},
    {"april", STENO_EN_MONTH, 4, false},
    {"august", STENO_EN_MONTH, 8, false},
    {"billion", STENO_EN_MAGNITUDE, 1000000000, false},
    {"billionth", STENO_EN_MAGNITUDE, 1000000000, true},
    {"cent", STENO_EN_CENT, 0, false},
    {"cents", STENO_EN_CENT, 0, false},
    {"december", STENO_EN_MONTH, 12, false},
    {"dollar", STENO_EN_CURRENCY, 0, false},
    {"dollars", STENO_EN_CURRENCY, 0, false},
    {"eight", STENO_EN_DIGIT, 8, false},
    {"eighteen", STENO_EN_TEEN, 18, false},
    {"eighteenth", STENO_EN_TEEN, 18, true},
    {"eighth", STENO_EN_DIGIT, 8, true},
    {"eighths", STENO_EN_FRACTION, 8, false},
    {"eighties", STENO_EN_DECADE, 80, false},
    {"eightieth", STENO_EN_TENS, 80, true},
    {"eighty", STENO_EN_TENS, 80, false},
    {"eleven", STENO_EN_TEEN, 11, false},
    {"eleventh", STENO_EN_TEEN, 11, true},
    {"euro", STENO_EN_CURRENCY, 1, false},
    {"euros", STENO_EN_CURRENCY, 1, false},
    {"february", STENO_EN_MONTH, 2, false},
    {"fifteen", STENO_EN_TEEN, 15, false},
    {"fifteenth", STENO_EN_TEEN, 15, true},
    {"fifth", STENO_EN_DIGIT, 5, true},
    {"fifths", STENO_EN_FRACTION, 5, false},
    {"fifties", STENO_EN_DECADE, 50, false},
    {"fiftieth", STENO_EN_TENS, 50, true},
    {"fifty", STENO_EN_TENS, 50, false},
    {"first", STENO_EN_DIGIT, 1, true},
    {"five", STENO_EN_DIGIT, 5, false},
    {"forties", STENO_EN_DECADE, 40, false},
    {"fortieth", STENO_EN_TENS, 40, true},
    {"forty", STENO_EN_TENS, 40, false},
    {"four", STENO_EN_DIGIT, 4, false},
    {"fourteen", STENO_EN_TEEN, 14, false},
    {"fourteenth", STENO_EN_TEEN, 14, true},
    {"fourth", STENO_EN_DIGIT, 4, true},
    {"fourths", STENO_EN_FRACTION, 4, false},
    {"halves", STENO_EN_FRACTION, 2, false},
    {"hundred", STENO_EN_HUNDRED, 100, false},
    {"hundredth", STENO_EN_HUNDRED, 100, true},
    {"hundredths", STENO_EN_FRACTION, 100, false},
    {"january", STENO_EN_MONTH, 1, false},
    {"july", STENO_EN_MONTH, 7, false},
    {"june", STENO_EN_MONTH, 6, false},
    {"m", STENO_EN_M, 0, false},
    {"march", STENO_EN_MONTH, 3, false},
    {"may", STENO_EN_MONTH, 5, false},
    {"million", STENO_EN_MAGNITUDE, 1000000, false},
    {"millionth", STENO_EN_MAGNITUDE, 1000000, true},
    {"nine", STENO_EN_DIGIT, 9, false},
    {"nineteen", STENO_EN_TEEN, 19, false},
    {"nineteenth", STENO_EN_TEEN, 19, true},
    {"nineties", STENO_EN_DECADE, 90, false},
    {"ninetieth", STENO_EN_TENS, 90, true},
    {"ninety", STENO_EN_TENS, 90, false},
    {"ninth", STENO_EN_DIGIT, 9, true},
    {"ninths", STENO_EN_FRACTION, 9, false},
    {"november", STENO_EN_MONTH, 11, false},
    {"o", STENO_EN_OH, 0, false},
    {"october", STENO_EN_MONTH, 10, false},
    {"of", STENO_EN_OF, 0, false},
    {"oh", STENO_EN_OH, 0, false},
    {"one", STENO_EN_DIGIT, 1, false},
    {"p", STENO_EN_P, 0, false},
    {"p.m", STENO_EN_HALF_DAY, 1, false},
    {"pm", STENO_EN_HALF_DAY, 1, false},
    {"point", STENO_EN_POINT, 0, false},
    {"quarters", STENO_EN_FRACTION, 4, false},
    {"second", STENO_EN_DIGIT, 2, true},
    {"september", STENO_EN_MONTH, 9, false},
    {"seven", STENO_EN_DIGIT, 7, false},
    {"seventeen", STENO_EN_TEEN, 17, false},
    {"seventeenth", STENO_EN_TEEN, 17, true},
    {"seventh", STENO_EN_DIGIT, 7, true},
    {"sevenths", STENO_EN_FRACTION, 7, false},
    {"seventies", STENO_EN_DECADE, 70, false},
    {"seventieth", STENO_EN_TENS, 70, true},
    {"seventy", STENO_EN_TENS, 70, false},
    {"six", STENO_EN_DIGIT, 6, false},
    {"sixteen", STENO_EN_TEEN, 16, false},
    {"sixteenth", STENO_EN_TEEN, 16, true},
    {"sixth", STENO_EN_DIGIT, 6, true},
    {"sixths", STENO_EN_FRACTION, 6, false},
    {"sixties", STENO_EN_DECADE, 60, false},
    {"sixtieth", STENO_EN_TENS, 60, true},
    {"sixty", STENO_EN_TENS, 60, false},
    {"ten", STENO_EN_TEEN, 10, false},
    {"tenth", STENO_EN_TEEN, 10, true},
    {"tenths", STENO_EN_FRACTION, 10, false},
    {"the", STENO_EN_THE, 0, false},
    {"third", STENO_EN_DIGIT, 3, true},
    {"thirds", STENO_EN_FRACTION, 3, false},
    {"thirteen", STENO_EN_TEEN, 13, false},
    {"thirteenth", STENO_EN_TEEN, 13, true},
    {"thirties", STENO_EN_DECADE, 30, false},
    {"thirtieth", STENO_EN_TENS, 30, true},
    {"thirty", STENO_EN_TENS, 30, false},
    {"thousand", STENO_EN_MAGNITUDE, 1000, false},
    {"thousandth", STENO_EN_MAGNITUDE, 1000, true},
    {"thousandths", STENO_EN_FRACTION, 1000, false},
    {"three", STENO_EN_DIGIT, 3, false},
    {"trillion", STENO_EN_MAGNITUDE, 1000000000000, false},
    {"trillionth", STENO_EN_MAGNITUDE, 1000000000000, true},
    {"twelfth", STENO_EN_TEEN, 12, true},
    {"twelve", STENO_EN_TEEN, 12, false},
    {"twenties", STENO_EN_DECADE, 20, false},
    {"twentieth", STENO_EN_TENS, 20, true},
    {"twenty", STENO_EN_TENS, 20, false},
    {"two", STENO_EN_DIGIT, 2, false},
    {"zero", STENO_EN_DIGIT, 0, false}};

const struct steno_english_word *steno_english_word(const char *p, size_t n)
{
    static const struct steno_english_word other = {"", STENO_EN_OTHER, 0, false};
    size_t low = 0, high = sizeof words / sizeof *words;
    char word[STENO_EN_WORD] = "";
    if (n >= sizeof word)
        return &other;
    for (size_t i = 0; i < n; i++)
        word[i] = steno_to_small(p[i]);
    while (low < high) {
        const size_t mid = (low + high) / 2;
        const int order = strcmp(word, words[mid].word);
        if (!order)
            return &words[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return &other;
}

const char *steno_english_digit(int digit)
{
    const struct steno_english_word *w = words;
    while (w->kind != STENO_EN_DIGIT || w->ordinal || w->value != digit)
        w++;
    return w->word;
}
