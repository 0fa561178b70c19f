#include "speech/text/language.h"

#include <string.h>
#include <strings.h>

/* whisper/tokenizer.py, LANGUAGES: in the order of its pieces, on which the numbers rest. Behind
 * them what other models speak: ISO 639. */
static const struct {
    const char *code, *name;
} languages[] = {
    {"en", "english"},        {"zh", "chinese"},     {"de", "german"},        {"es", "spanish"},
    {"ru", "russian"},        {"ko", "korean"},      {"fr", "french"},        {"ja", "japanese"},
    {"pt", "portuguese"},     {"tr", "turkish"},     {"pl", "polish"},        {"ca", "catalan"},
    {"nl", "dutch"},          {"ar", "arabic"},      {"sv", "swedish"},       {"it", "italian"},
    {"id", "indonesian"},     {"hi", "hindi"},       {"fi", "finnish"},       {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},   {"el", "greek"},         {"ms", "malay"},
    {"cs", "czech"},          {"ro", "romanian"},    {"da", "danish"},        {"hu", "hungarian"},
    {"ta", "tamil"},          {"no", "norwegian"},   {"th", "thai"},          {"ur", "urdu"},
    {"hr", "croatian"},       {"bg", "bulgarian"},   {"lt", "lithuanian"},    {"la", "latin"},
    {"mi", "maori"},          {"ml", "malayalam"},   {"cy", "welsh"},         {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},     {"lv", "latvian"},       {"bn", "bengali"},
    {"sr", "serbian"},        {"az", "azerbaijani"}, {"sl", "slovenian"},     {"kn", "kannada"},
    {"et", "estonian"},       {"mk", "macedonian"},  {"br", "breton"},        {"eu", "basque"},
    {"is", "icelandic"},      {"hy", "armenian"},    {"ne", "nepali"},        {"mn", "mongolian"},
    {"bs", "bosnian"},        {"kk", "kazakh"},      {"sq", "albanian"},      {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},     {"pa", "punjabi"},       {"si", "sinhala"},
    {"km", "khmer"},          {"sn", "shona"},       {"yo", "yoruba"},        {"so", "somali"},
    {"af", "afrikaans"},      {"oc", "occitan"},     {"ka", "georgian"},      {"be", "belarusian"},
    {"tg", "tajik"},          {"sd", "sindhi"},      {"gu", "gujarati"},      {"am", "amharic"},
    {"yi", "yiddish"},        {"lo", "lao"},         {"uz", "uzbek"},         {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},      {"tk", "turkmen"},       {"nn", "nynorsk"},
    {"mt", "maltese"},        {"sa", "sanskrit"},    {"lb", "luxembourgish"}, {"my", "myanmar"},
    {"bo", "tibetan"},        {"tl", "tagalog"},     {"mg", "malagasy"},      {"as", "assamese"},
    {"tt", "tatar"},          {"haw", "hawaiian"},   {"ln", "lingala"},       {"ha", "hausa"},
    {"ba", "bashkir"},        {"jw", "javanese"},    {"su", "sundanese"},     {"yue", "cantonese"},
    {"ay", "aymara"},         {"gn", "guarani"},     {"ig", "igbo"},          {"ku", "kurdish"},
    {"ky", "kyrgyz"},         {"nah", "nahuatl"},    {"nb", "bokmal"},        {"ny", "chichewa"},
    {"or", "odia"},           {"qu", "quechua"},     {"rw", "kinyarwanda"},   {"sm", "samoan"},
    {"to", "tongan"},         {"zu", "zulu"},
};

/* ... TO_LANGUAGE_CODE, and the codes of ISO 639-1 and BCP 47 for what has another here. */
static const struct {
    const char *alias, *code;
} aliases[] = {
    {"burmese", "my"},
    {"valencian", "ca"},
    {"flemish", "nl"},
    {"haitian", "ht"},
    {"letzeburgesch", "lb"},
    {"pushto", "ps"},
    {"panjabi", "pa"},
    {"moldavian", "ro"},
    {"moldovan", "ro"},
    {"sinhalese", "si"},
    {"castilian", "es"},
    {"mandarin", "zh"},
    {"jv", "jw"},
    {"iw", "he"},
    {"fil", "tl"},
};

#define N_LANGUAGES ((int)(sizeof languages / sizeof *languages))

const char *steno_language_code_at(int i)
{
    return i >= 0 && i < N_LANGUAGES ? languages[i].code : NULL;
}

const char *steno_language_name_at(int i)
{
    return i >= 0 && i < N_LANGUAGES ? languages[i].name : NULL;
}

/* n: bytes of text to compare. */
static int find_language(const char *text, size_t n)
{
    for (int i = 0; i < N_LANGUAGES; i++)
        if ((strlen(languages[i].code) == n && !strncasecmp(text, languages[i].code, n)) ||
            (strlen(languages[i].name) == n && !strncasecmp(text, languages[i].name, n)))
            return i;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strlen(aliases[i].alias) == n && !strncasecmp(text, aliases[i].alias, n))
            return find_language(aliases[i].code, strlen(aliases[i].code));
    return -1;
}

int steno_language_find(const char *text)
{
    const size_t primary = strcspn(text, "-_");
    int i = find_language(text, strlen(text));
    if (strchr(text, ','))
        return -1; /* "zh-TW,en" */
    return i < 0 && (primary == 2 || primary == 3) ? find_language(text, primary) : i;
}

void steno_language_next(const char **list, char out[STENO_LANGUAGE_ITEM])
{
    const char *from = *list + strspn(*list, " ");
    size_t n = strcspn(from, ",");
    *list = from[n] ? from + n + 1 : NULL;
    while (n > 0 && from[n - 1] == ' ')
        n--;
    if (n >= STENO_LANGUAGE_ITEM)
        n = STENO_LANGUAGE_ITEM - 1;
    memcpy(out, from, n);
    out[n] = '\0';
}
