/* The chain of boxes at the top of an MP4 or QuickTime file (ISO/IEC 14496-12, 4.2) that comes as a
 * stream. FFmpeg takes any four bytes for the name of a box and skips as many bytes as the box
 * claims to have, so damage behind the head would be read as a box of up to 4 GB, and a live stream
 * would end by its idle timeout alone. This module finds the damage at its first box. Pure. */
#ifndef STENO_DECODE_BOXES_H
#define STENO_DECODE_BOXES_H

#include "base/status.h"

struct steno_boxes { /* confined; zero it before use */
    uint64_t at;     /* bytes taken */
    uint64_t next;   /* where the next box begins; UINT64_MAX: the last box has no end */
    unsigned n_head; /* bytes of its head in `head` */
    unsigned char head[16];
    bool foreign; /* begins neither with ftyp nor with styp: nothing is checked */
    bool damaged;
};

/* Take the next n bytes. Returns how many of them belong to boxes that are whole or plausible: n,
 * or fewer, then the rest begins inside or at the head of what is no box, and err says where and
 * what. From then on it returns 0. The head of a box may have been counted before it turned out
 * damaged. */
size_t steno_boxes_take(struct steno_boxes *b, const unsigned char *p, size_t n, steno_err *err);

#endif
