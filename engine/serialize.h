/* engine/serialize.h (private to engine/) - state as bytes and back, by one walk.
 *
 * What has state describes it once, field after field, in a function that takes a struct serializer; the same walk measures,
 * saves and loads, so that what is written and what is read cannot drift apart.  Bytes that are loaded are hostile: every
 * number comes with its range, nothing is read past the end, and the first thing that is wrong sticks: from then on no
 * field is touched.  What was loaded up to there is for the caller to throw away.
 *
 * Numbers are stored as they lie in memory (little-endian; engine_identity() says so).  Floats may be anything, NaN
 * included: whoever computes with them has to bear that anyway. */
#ifndef WEIR_SERIALIZE_H
#define WEIR_SERIALIZE_H

#include "engine/kv_store.h"

enum serialize_mode { SERIALIZE_MEASURE, SERIALIZE_SAVE, SERIALIZE_LOAD };

struct serializer {
	enum serialize_mode mode;
	uint8_t *at;               /* SAVE: where the next field goes; LOAD: where it lies (not written to) */
	uint64_t left;             /* bytes from there on */
	uint64_t bytes;            /* MEASURE: so far */
	const char *bad;           /* what was wrong first; NULL = nothing */
};

static inline int serialize_loading(const struct serializer *a) { return a->mode == SERIALIZE_LOAD; }
/* "the number of tokens": what was loaded cannot be. */
void serialize_fail(struct serializer *, const char *what);

/* n bytes of any content: floats, for instance. */
void serialize_bytes(struct serializer *, void *p, uint64_t n);
/* A number from lo to hi. */
void serialize_i32(struct serializer *, int32_t *x, int32_t lo, int32_t hi, const char *what);
void serialize_i64(struct serializer *, int64_t *x, int64_t lo, int64_t hi, const char *what);
/* n numbers from lo to hi. */
void serialize_i32s(struct serializer *, int32_t *x, uint64_t n, int32_t lo, int32_t hi, const char *what);
/* A number that must be the same where it is loaded: shapes, and marks between the parts. */
void serialize_expect(struct serializer *, uint64_t x, const char *what);
/* n numbers from lo to hi in an i32 tensor of the backend, from element `first` on. */
void serialize_tensor_i32(struct serializer *, struct backend *, struct tensor *, uint64_t first, uint64_t n, int32_t lo, int32_t hi,
                  const char *what);
/* n numbers of any content in an f32 tensor of the backend, from element `first` on. */
void serialize_tensor_f32(struct serializer *, struct backend *, struct tensor *, uint64_t first, uint64_t n);
/* Rows row0 .. row0 + n of all planes; the caller knows that they are there. */
void serialize_kv(struct serializer *, struct kv_store *, int32_t row0, int32_t n);

/* 64 bits that say whether bytes are the same; against accidents, not against people. */
uint64_t hash64(uint64_t seed, const void *p, size_t n);

#endif
