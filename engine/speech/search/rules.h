/* Whose rules a search follows where implementations of one algorithm differ. */
#ifndef STENO_SEARCH_RULES_H
#define STENO_SEARCH_RULES_H

enum steno_search_rules {
    STENO_RULES_ESPNET,     /* ESPnet's own searches */
    STENO_RULES_ESPNET_ONNX /* espnet_onnx 0.2.1, with its faults */
};

#endif
