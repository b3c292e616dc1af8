/* engine/cache/serialize.h (private to engine/) - measures, saves and loads the state of the cache.
 *
 * Each part of the cache has one function that passes all its fields, in order, to a struct serializer. The
 * serializer's mode decides whether the fields are measured, written or read. So the measured size, the written fields
 * and the read fields always agree.
 *
 * Loaded bytes are untrusted: every number is checked against a range, and nothing is read beyond the end. After the
 * first failure no field is changed, and the caller discards the part that failed to load.
 *
 * Numbers are stored as in memory (little-endian). Floats may have any value, even NaN, so code that uses them must
 * tolerate that. */
#ifndef WEIR_SERIALIZE_H
#define WEIR_SERIALIZE_H

#include "engine/cache/kv_store.h"

enum serialize_mode { SERIALIZE_MEASURE, SERIALIZE_SAVE, SERIALIZE_LOAD };

struct serializer {
	enum serialize_mode mode;
	/* When saving, the address at which the next field is written. When loading, the address from which the next
	 * field is read; the bytes there are not changed. */
	uint8_t *at;
	uint64_t left;  /* number of bytes from `at` to the end */
	uint64_t bytes; /* in mode SERIALIZE_MEASURE, the sum of the bytes of all fields passed so far */
	/* the first field that failed, for the error "... is not what it must be"; NULL: no field has failed */
	const char *bad;
};

static inline int serialize_loading(const struct serializer *a)
{
	return a->mode == SERIALIZE_LOAD;
}
/* Record a failure. `what` is the name of the field, for example "the number of tokens". */
void serialize_fail(struct serializer *, const char *what);

/* Measure, save or load n bytes, which may have any values. (The functions below say "save or load" for short.) */
void serialize_bytes(struct serializer *, void *p, uint64_t n);
/* Save or load one number. Loading fails if the number is less than lo or greater than hi. */
void serialize_i32(struct serializer *, int32_t *x, int32_t lo, int32_t hi, const char *what);
void serialize_i64(struct serializer *, int64_t *x, int64_t lo, int64_t hi, const char *what);
/* Save or load n numbers. Loading fails if a number is less than lo or greater than hi. */
void serialize_i32s(struct serializer *, int32_t *x, uint64_t n, int32_t lo, int32_t hi, const char *what);
/* Save x. Loading fails if the saved number is not x. Used for the shapes of arrays, and for markers between
 * sections. */
void serialize_expect(struct serializer *, uint64_t x, const char *what);
/* Save or load n elements of an i32 tensor of the backend, from element `first` on. Loading fails if an element is less
 * than lo or greater than hi. */
void serialize_tensor_i32(struct serializer *, struct backend *, struct tensor *, uint64_t first, uint64_t n,
                          int32_t lo, int32_t hi, const char *what);
/* Save or load n elements of an f32 tensor of the backend, from element `first` on. Any values are accepted. */
void serialize_tensor_f32(struct serializer *, struct backend *, struct tensor *, uint64_t first, uint64_t n);
/* Save or load the KV entries in n slots of every head, from slot0 on, in sliding-window layers (windowed = 1) or in
 * full layers (windowed = 0). The caller checks that these slots exist. */
void serialize_kv(struct serializer *, struct kv_store *, int windowed, int32_t slot0, int32_t n);

#endif
