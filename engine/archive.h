/* engine/archive.h (private to engine/) - state as bytes and back, by one walk.
 *
 * What has state describes it once, field after field, in a function that takes a struct archive; the same walk measures,
 * saves and loads, so that what is written and what is read cannot drift apart.  Bytes that are loaded are hostile: every
 * number comes with its range, nothing is read past the end, and the first thing that is wrong sticks: from then on no
 * field is touched.  What was loaded up to there is for the caller to throw away.
 *
 * Numbers are stored as they lie in memory (little-endian; engine_identity() says so).  Floats may be anything, NaN
 * included: whoever computes with them has to bear that anyway. */
#ifndef WEIR_ARCHIVE_H
#define WEIR_ARCHIVE_H

#include "engine/kv_store.h"

enum archive_mode { ARCHIVE_MEASURE, ARCHIVE_SAVE, ARCHIVE_LOAD };

struct archive {
	enum archive_mode mode;
	uint8_t *at;               /* SAVE: where the next field goes; LOAD: where it lies (not written to) */
	uint64_t left;             /* bytes from there on */
	uint64_t bytes;            /* MEASURE: so far */
	const char *bad;           /* what was wrong first; NULL = nothing */
};

static inline int archive_loads(const struct archive *a) { return a->mode == ARCHIVE_LOAD; }
/* "the number of tokens": what was loaded cannot be. */
void archive_fail(struct archive *, const char *what);

/* n bytes of any content: floats, for instance. */
void archive_bytes(struct archive *, void *p, uint64_t n);
/* A number from lo to hi. */
void archive_i32(struct archive *, int32_t *x, int32_t lo, int32_t hi, const char *what);
void archive_i64(struct archive *, int64_t *x, int64_t lo, int64_t hi, const char *what);
/* n numbers from lo to hi. */
void archive_i32s(struct archive *, int32_t *x, uint64_t n, int32_t lo, int32_t hi, const char *what);
/* A number that must be the same where it is loaded: shapes, and marks between the parts. */
void archive_same(struct archive *, uint64_t x, const char *what);
/* n numbers from lo to hi in an i32 tensor of the backend, from element `first` on. */
void archive_list(struct archive *, struct backend *, struct tensor *, uint64_t first, uint64_t n, int32_t lo, int32_t hi,
                  const char *what);
/* n numbers of any content in an f32 tensor of the backend, from element `first` on. */
void archive_floats(struct archive *, struct backend *, struct tensor *, uint64_t first, uint64_t n);
/* Rows row0 .. row0 + n of all planes; the caller knows that they are there. */
void archive_planes(struct archive *, struct kv_store *, int32_t row0, int32_t n);

/* 64 bits that say whether bytes are the same; against accidents, not against people. */
uint64_t hash64(uint64_t seed, const void *p, size_t n);

#endif
