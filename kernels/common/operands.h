/* kernels/common/operands.h (private to kernels/) - checks of operands, the same for every backend. A *_ok function
 * returns 1 or 0. A *_check function returns 0, or -1 with the backend's error set to a sentence with the name of the
 * operation. These functions check shapes, types and layouts. They do not check the contents of lists, which may be in
 * device memory. */
#ifndef WEIR_OPERANDS_H
#define WEIR_OPERANDS_H

#ifdef __cplusplus
extern "C" {
#endif
#include "kernels/backend.h"

/* Set the backend's error, unless an earlier error is set. Return -1. */
int backend_fail(struct backend *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- single operands ---- */

/* 1 if a cache plane can have this element type. */
static inline int kv_type_ok(enum dtype t)
{
	return t == DT_F16 || t == DT_F32 || t == DT_BF16 || t == DT_Q8_0 || t == DT_Q4_0;
}

/* 1 if planes of this type store the Hadamard transform of each key or value instead of the vector itself. Transformed
 * vectors have no outliers, so fewer bits are enough for them. The transform keeps dot products: attention transforms
 * the query instead of every key, and the output instead of every value. */
static inline int kv_transformed(enum dtype t)
{
	return t == DT_Q4_0;
}

static inline int predicate_ok(const struct predicate *p)
{
	return !p->flag ||
	       (p->flag->data && p->flag->type == DT_I32 && p->col >= 0 && p->col < p->flag->cols && p->flag->rows > 0);
}

/* 1 if the tensor is a plane of one layer's keys or values, [n_kv_head * cap][head_dim]. */
int kv_plane_ok(const struct tensor *, int32_t n_kv_head, int32_t cap, int32_t head_dim);

/* ---- attention ---- */

enum { PROBE_HEADS = 256 }; /* maximum number of heads that a probe reduces to one row */

/* Check all arguments except `out` and the queries and predicates of seg[]. Set *slots to the number of slots of all
 * segments. */
int attn_check(struct backend *, const struct attn_args *, int32_t n, int32_t *slots);
int read_blocks_check(struct backend *, const struct read_blocks_args *, int32_t n);
/* Check that the selection's scan writes the scores that its topk reads, for n_kv_head KV heads. */
int attn_selection_check(struct backend *, const struct attn_selection *, int32_t n_kv_head);
/* Check the probe of a call that reads `slots` slots. */
int attn_probe_check(struct backend *, const struct attn_args *, int32_t slots);
/* 1 if the probe measures any of the call's n tokens; 0 if the probe is NULL. */
int attn_probe_wanted(const struct attn_probe *, int32_t n);

/* ---- selection ---- */

int key_sketch_check(struct backend *, const struct tensor *sketch, const struct tensor *plane, int32_t n_kv_head,
                     int32_t cap, int32_t bits, int32_t slot0, int32_t n);
/* Check the arguments that key_scan() and page_scan() share, except `keys` and `q`. n is the number of scores per KV
 * head. */
int scan_check(struct backend *, const struct scan_args *, int32_t n);
/* Check all arguments of key_scan(): the arguments that scan_check() checks, and the keys or the key sketch. */
int key_scan_check(struct backend *, const struct scan_args *);
int topk_check(struct backend *, const struct topk_args *);
int kv_move_check(struct backend *, const struct tensor *plane, const struct kv_moves *);
int fetch_range_check(struct backend *, const struct tensor *to, const struct tensor *from, int32_t n_kv_head,
                      int32_t cap, int32_t slot0, int32_t n);
int fetch_check(struct backend *, const struct fetch_args *);

/* ---- the comparison policies' operations ---- */

int page_bounds_check(struct backend *, const struct tensor *bounds, const struct tensor *plane, int32_t n_kv_head,
                      int32_t cap, int32_t page, int32_t slot0, int32_t n);
/* Check all arguments of a scan of n pages: the arguments that scan_check() checks, and the page bounds. */
int page_scan_check(struct backend *, const struct scan_args *, int32_t n);
int page_slots_check(struct backend *, const struct tensor *slots, const struct tensor *pages, int32_t n_kv_head,
                     int32_t page, int32_t n);

/* ---- experts (experts.c) ---- */

/* Do what experts() does by operations of the backend: read the choice of experts, then compute each expert for all
 * tokens that use it. */
void experts_each(struct backend *, const struct experts_args *, int32_t n);

/* ---- rows ---- */

int copy_check(struct backend *, const struct tensor *dst, int32_t dst_row, const struct tensor *src, int32_t src_row,
               int32_t n);
int columns_check(struct backend *, const struct tensor *out, const struct tensor *src, int32_t n);
int largest_check(struct backend *, const struct tensor *out, const struct tensor *x, int32_t k, int32_t n);
int route_check(struct backend *, const struct route_args *, int32_t n);
/* Check all arguments except the weights and the scratch memory. */
int experts_check(struct backend *, const struct experts_args *, int32_t n);
int short_conv_check(struct backend *, const struct short_conv *, int32_t n);
int delta_rule_check(struct backend *, const struct delta_rule *, int32_t n);
int state_space_check(struct backend *, const struct state_space *, int32_t n);
int layernorm_check(struct backend *, const struct tensor *out, const struct tensor *x, const struct tensor *w,
                    const struct tensor *b, int32_t n);
int relative_check(struct backend *, const struct relative_args *, int32_t n);
int gelu_check(struct backend *, const struct tensor *x, int32_t n);
int gate_check(struct backend *, const struct tensor *x, const struct tensor *gate, int32_t n);
/* Check the operands of take_rows() or add_rows(). `out` must have at least n_out rows. (take_rows() passes n as n_out,
 * add_rows() passes 0.) Every row number row[i] must be below `most`. */
int rows_check(struct backend *, const char *op, const struct tensor *out, int32_t n_out, const struct tensor *x,
               int32_t most, const int32_t *row, int32_t n);

#ifdef __cplusplus
}
#endif
#endif
