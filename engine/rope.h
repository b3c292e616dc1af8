/* engine/rope.h (private to engine/) - tables of rotary angles (RoPE) for the backend's rope().
 *
 * Angles are computed in double: in float the angle at position 10^6 would be off by 0.06 rad, and the positions of an endless
 * stream grow without limit. */
#ifndef WEIR_ROPE_H
#define WEIR_ROPE_H

#include "engine/model.h"

struct rope {
	const struct hparams *hp;
	struct backend *be;
	struct tensor table;       /* f32 [rows][rope_dims]: cos, sin per pair */
	float *host;               /* the same table in host memory, to be uploaded */
};

uint64_t rope_bytes(const struct hparams *, int32_t rows);
int  rope_init(struct rope *, const struct hparams *, struct backend *, int32_t rows, struct err *);
void rope_release(struct rope *);
/* Row i, i < n, rotates by position pos + i. */
void rope_set(struct rope *, int64_t pos, int32_t n);
/* Row i, i < n, rotates on by shift[i] positions.  The model's factor on cos and sin is left out: a rotated key has it
 * already. */
void rope_set_shifts(struct rope *, const int64_t *shift, int32_t n);

#endif
