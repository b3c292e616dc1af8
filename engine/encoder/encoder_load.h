/* engine/encoder/encoder_load.h (private to engine/encoder/) - helpers for loading an encoder's file: encoder_load.c and
 * encoder_position.c. */
#ifndef WEIR_ENCODER_LOAD_H
#define WEIR_ENCODER_LOAD_H

#include "engine/encoder/encoder.h"

struct loader {
	struct encoder *e;
	uint8_t *used; /* [n_tensor] 1 = load_find() has returned the tensor */
	struct err *err;
	int failed;
};

/* Load the key "FAMILY.name", an integer from min to max. Return 0; or -1 if it is missing or out of range. */
int load_int(const struct encoder *, const char *name, int64_t min, int64_t max, int32_t *out, struct err *);
/* Load the key "FAMILY.name", a number from min to max. If the file lacks the key, the number is `standard`; but if
 * `standard` is NAN, a missing key is an error. */
int load_float(const struct encoder *, const char *name, double min, double max, double standard, double *out,
               struct err *);

/* 1 if the file has the tensor named prefix + name. */
int load_has(const struct loader *, const char *prefix, const char *name);
/* Return the tensor named prefix + name and check its shape [rows][cols]; rows = 0 allows any number of rows. If
 * it is missing or has another shape, set l->failed and return NULL. */
const struct gguf_tensor *load_find(struct loader *, const char *prefix, const char *name, int32_t rows, int32_t cols);
/* Allocate a tensor on the backend. On error set l->failed. */
void load_alloc(struct loader *, struct tensor *, enum dtype, int32_t rows, int32_t cols);

/* Load the embeddings of positions and of token type 0. */
void positions_load(struct loader *);
/* Fill the family's tables for RoPE, ALiBi or relative positions. The layers and buffers must be loaded. */
void position_tables_load(struct loader *);

#endif
