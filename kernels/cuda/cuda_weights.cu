/* kernels/cuda/cuda_weights.cu - weights on the device: load_weight, embed, conversion to f16 for cuBLAS.
 *
 * A quantised weight is copied to the device some rows at a time, in the layout of the file. A kernel then rearranges
 * the rows into planes (cuda_quant.cuh). Rows of floats are only padded. For weights of types other than f16, another
 * kernel stores the largest magnitude of the weight in front of the rows. A conversion to f16 computes its scale from
 * this value on the device, so the host need not wait for the value.
 *
 * An embedding table that is also the output weight is loaded by two calls with the same host address. The device
 * stores it once.
 *
 * Launches: embed: 1 for every 4096 tokens. load_weight: 1 for every 32 MiB, and 1 for the largest magnitude.
 * Conversion to f16: 1. */
#include <stdlib.h>

#include "kernels/cuda/cuda_quant.cuh"

extern "C" {
#include "kernels/common/quant.h"
}

enum { PIECE_BYTES = 32 << 20, THREADS = 256 };

static uint32_t align16(uint64_t n)
{
	return (uint32_t)((n + 15) / 16 * 16);
}

/* Return how many bytes a row takes in the model file. */
static size_t file_row(const struct tensor *t)
{
	return (size_t)dtype_bytes(t->type, (uint64_t)t->cols);
}

/* Set the offsets of the planes of a row. */
static void rows_layout(struct weight_rows *w, const struct tensor *t)
{
	uint64_t blocks = (uint64_t)t->cols / 32, super = (uint64_t)t->cols / 256;
	uint32_t head = 0, head2 = 0;

	w->rows = t->rows;
	w->cols = t->cols;
	w->type = t->type;
	w->extra = w->head = w->head2 = 0;
	if (!quant_is(t->type)) {
		w->stride = (file_row(t) + 15) / 16 * 16;
		return;
	}
	switch (t->type) {
	case DT_Q4_1:
	case DT_Q5_1: head = align16(4 * blocks); break;
	case DT_Q4_K:
	case DT_Q5_K: head = align16(16 * super); break;
	case DT_IQ4_XS: head = align16(8 * super); break;
	case DT_Q2_K:
		head = align16(2 * blocks);
		head2 = align16(4 * super);
		break;
	case DT_Q3_K:
	case DT_Q6_K:
		head = align16(2 * blocks);
		head2 = align16(2 * super);
		break;
	default: head = align16(2 * blocks);
	}
	w->extra = align16((uint64_t)t->cols * (unsigned)quant_main_bits(t->type) / 8);
	w->head = w->extra + align16((uint64_t)t->cols * (unsigned)quant_extra_bits(t->type) / 8);
	w->head2 = w->head + head;
	w->stride = (uint64_t)w->head2 + head2;
}

int cuda_weight_rows(struct cuda *c, const struct tensor *t, struct weight_rows *out)
{
	if (!t || !t->data || (unsigned)t->type >= DT_COUNT || (t->layout == LAYOUT_PLAIN && t->rows != 1))
		return backend_fail(&c->base, "internal: matmul got a weight of the wrong shape");
	rows_layout(out, t);
	out->p = (const uint8_t *)t->data + (t->layout == LAYOUT_WEIGHT ? sizeof(struct weight_head) : 0);
	return 0;
}

const struct weight_head *cuda_weight_head(const struct tensor *t)
{
	return t->layout == LAYOUT_WEIGHT && t->type != DT_F16 ? (const struct weight_head *)t->data : NULL;
}

/* ---- from the file's blocks to planes ---- */

struct repack_args {
	const uint8_t *src; /* rows of the weight, in the layout of the file */
	uint8_t *dst;
	uint64_t src_stride;
	struct weight_rows w;
	int64_t blocks; /* number of blocks of 32 weights in the rows of this launch */
};

/* Unpack the 32 levels (stored integers) from 32 i on of the file's block or super-block at p. */
static __device__ void file_levels(int type, const uint8_t *p, int i, uint8_t u[32])
{
	const uint8_t *qs, *qh = NULL;
	int shift;

	switch (type) {
	case DT_Q8_0:
		for (int j = 0; j < 32; j++)
			u[j] = (uint8_t)((const struct block_q8_0 *)p)->qs[j];
		return;
	case DT_Q2_K:
	case DT_Q3_K:
		qs = type == DT_Q2_K ? ((const struct block_q2_k *)p)->qs : ((const struct block_q3_k *)p)->qs;
		if (type == DT_Q3_K)
			qh = ((const struct block_q3_k *)p)->hmask;
		for (int j = 0; j < 32; j++)
			u[j] = (uint8_t)((qs[i / 4 * 32 + j] >> i % 4 * 2 & 3) | (qh ? (qh[j] >> i & 1) << 2 : 0));
		return;
	case DT_Q4_K:
	case DT_Q5_K:
		qs = type == DT_Q4_K ? ((const struct block_q4_k *)p)->qs : ((const struct block_q5_k *)p)->qs;
		if (type == DT_Q5_K)
			qh = ((const struct block_q5_k *)p)->qh;
		for (int j = 0; j < 32; j++)
			u[j] = (uint8_t)((qs[i / 2 * 32 + j] >> i % 2 * 4 & 15) | (qh ? (qh[j] >> i & 1) << 4 : 0));
		return;
	case DT_Q6_K:
		qs = ((const struct block_q6_k *)p)->ql + i / 4 * 64 + i % 2 * 32;
		qh = ((const struct block_q6_k *)p)->qh + i / 4 * 32;
		shift = i % 4 / 2 * 4;
		for (int j = 0; j < 32; j++)
			u[j] = (uint8_t)((qs[j] >> shift & 15) | (qh[j] >> i % 4 * 2 & 3) << 4);
		return;
	case DT_Q4_1: qs = ((const struct block_q4_1 *)p)->qs; break;
	case DT_Q5_0:
		qs = ((const struct block_q5_0 *)p)->qs;
		qh = ((const struct block_q5_0 *)p)->qh;
		break;
	case DT_Q5_1:
		qs = ((const struct block_q5_1 *)p)->qs;
		qh = ((const struct block_q5_1 *)p)->qh;
		break;
	case DT_IQ4_NL: qs = ((const struct block_iq4_nl *)p)->qs; break;
	case DT_IQ4_XS: qs = ((const struct block_iq4_xs *)p)->qs + 16 * i; break;
	case DT_MXFP4: qs = ((const struct block_mxfp4 *)p)->qs; break;
	default: qs = ((const struct block_q4_0 *)p)->qs;
	}
	for (int j = 0; j < 16; j++) {
		u[j] = (uint8_t)((qs[j] & 15) | (qh ? (qh[j / 8] >> j % 8 & 1) << 4 : 0));
		u[j + 16] = (uint8_t)(qs[j] >> 4 | (qh ? (qh[2 + j / 8] >> j % 8 & 1) << 4 : 0));
	}
}

/* Pack the low bits of a block's 32 levels into words of the plane `main` (cuda_quant.cuh). Return the number of
 * words. */
static __device__ int pack_main(int type, const uint8_t u[32], uint32_t out[8])
{
	int bits = quant_main_bits(type), n = bits, per = 8 / bits;

	for (int i = 0; i < n; i++)
		out[i] = 0;
	for (int j = 0; j < 32; j++) {
		uint32_t level = u[j] & ((1u << bits) - 1);
		int k = j / 4, byte = j % 4;

		if (quant_table(type))
			out[k & 3] |= level << (16 * (k >> 2) + 4 * byte);
		else if (bits == 4)
			out[k & 3] |= level << (8 * byte + 4 * (k >> 2));
		else
			out[k / per] |= level << (8 * byte + bits * (k % per));
	}
	return n;
}

static __device__ int pack_extra(int type, const uint8_t u[32], uint32_t out[2])
{
	int bits = quant_extra_bits(type), main = quant_main_bits(type), per = bits == 2 ? 4 : 8;

	out[0] = out[1] = 0;
	for (int j = 0; bits && j < 32; j++)
		out[j / 4 / per] |= (uint32_t)(u[j] >> main) << (8 * (j % 4) + bits * (j / 4 % per));
	return bits;
}

static __device__ void copy_bytes(uint8_t *out, const void *in, int n)
{
	for (int i = 0; i < n; i++)
		out[i] = ((const uint8_t *)in)[i];
}

/* Copy the scales of block number b of a row; a block has 32 weights. `p` is the block or super-block of the model file
 * that has these weights, and i is the block's number in it. If i is 0, also copy the scales that all blocks of a
 * super-block share. */
static __device__ void pack_head(const weight_rows &w, uint8_t *row, const uint8_t *p, int b, int i)
{
	uint8_t *head = row + w.head, *head2 = row + w.head2;

	switch (w.type) {
	case DT_Q4_1:
	case DT_Q5_1: copy_bytes(head + 4 * (size_t)b, p, 4); return;
	case DT_Q4_K:
	case DT_Q5_K:
		if (!i)
			copy_bytes(head + 2 * (size_t)b, p, 16);
		return;
	case DT_IQ4_XS:
		if (!i)
			copy_bytes(head + (size_t)b, p, 8);
		return;
	case DT_Q2_K:
		copy_bytes(head + 2 * (size_t)b, ((const struct block_q2_k *)p)->scales + 2 * i, 2);
		if (!i)
			copy_bytes(head2 + (size_t)b / 2, &((const struct block_q2_k *)p)->d, 4);
		return;
	case DT_Q3_K: {
		const uint8_t *s = ((const struct block_q3_k *)p)->scales;

		for (int h = 0, j = 2 * i; h < 2; h++, j++) {
			int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;

			head[2 * (size_t)b + h] = (uint8_t)((low | (s[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32);
		}
		if (!i)
			copy_bytes(head2 + (size_t)b / 4, &((const struct block_q3_k *)p)->d, 2);
		return;
	}
	case DT_Q6_K:
		copy_bytes(head + 2 * (size_t)b, ((const struct block_q6_k *)p)->scales + 2 * i, 2);
		if (!i)
			copy_bytes(head2 + (size_t)b / 4, &((const struct block_q6_k *)p)->d, 2);
		return;
	case DT_MXFP4: {
		uint32_t e = p[0], upper = e < 2 ? 0x20u << e : (e - 1) << 7;

		head[2 * (size_t)b] = (uint8_t)upper;
		head[2 * (size_t)b + 1] = (uint8_t)(upper >> 8);
		return;
	}
	default: copy_bytes(head + 2 * (size_t)b, p, 2);
	}
}

static __device__ int block_bytes(int type)
{
	switch (type) {
	case DT_Q4_0:
	case DT_IQ4_NL: return 18;
	case DT_Q4_1: return 20;
	case DT_Q5_0: return 22;
	case DT_Q5_1: return 24;
	case DT_Q8_0: return 34;
	case DT_Q2_K: return 84;
	case DT_Q3_K: return 110;
	case DT_Q4_K: return 144;
	case DT_Q5_K: return 176;
	case DT_Q6_K: return 210;
	case DT_MXFP4: return 17;
	default: return 136;
	}
}

/* Rearrange rows from the layout of the file into planes. A thread rearranges one block of 32 weights. */
__global__ void weight_repack(struct repack_args a)
{
	int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int per_row = a.w.cols / 32, b, i, n;
	uint8_t u[32], *row;
	uint32_t words[8];
	const uint8_t *p;

	if (at >= a.blocks)
		return;
	b = (int)(at % per_row);
	p = a.src + (size_t)(at / per_row) * a.src_stride;
	row = a.dst + (size_t)(at / per_row) * a.w.stride;
	if (a.w.type == DT_IQ4_XS || (a.w.type >= DT_Q2_K && a.w.type <= DT_Q6_K)) {
		i = b % 8;
		p += (size_t)(b / 8) * (size_t)block_bytes(a.w.type);
	} else {
		i = 0;
		p += (size_t)b * (size_t)block_bytes(a.w.type);
	}
	file_levels(a.w.type, p, i, u);
	n = pack_main(a.w.type, u, words);
	for (int k = 0; k < n; k++)
		((uint32_t *)row)[(size_t)b * n + k] = words[k];
	n = pack_extra(a.w.type, u, words);
	for (int k = 0; k < n; k++)
		((uint32_t *)(row + a.w.extra))[(size_t)b * n + k] = words[k];
	pack_head(a.w, row, p, b, i);
}

struct pad_args {
	const uint8_t *src;
	uint8_t *dst;
	uint64_t src_stride, dst_stride;
	int64_t n;
};

/* Pad rows of floats to a multiple of 16 bytes. A thread copies two bytes. */
__global__ void weight_pad(struct pad_args a)
{
	int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, per = (int64_t)a.src_stride / 2;

	if (at < a.n)
		((uint16_t *)(a.dst + (size_t)(at / per) * a.dst_stride))[at % per] = ((const uint16_t *)a.src)[at];
}

struct largest_args {
	struct weight_rows w;
	struct weight_head *head;
	int64_t eights;
	int32_t per_row;
};

/* Find the largest magnitude of a weight. Magnitudes are compared as the bits of floats, where infinity and NaN are
 * highest. */
__global__ void weight_largest(struct largest_args a)
{
	unsigned most = 0;

	for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < a.eights;
	     at += (int64_t)gridDim.x * blockDim.x) {
		int j = (int)(at % a.per_row);
		float v[8];

		weight_eight(a.w, at / a.per_row, j, min(8, a.w.cols - 8 * j), v);
		for (int i = 0; i < 8; i++)
			most = max(most, __float_as_uint(v[i]) & 0x7fffffffu);
	}
	for (int d = WARP / 2; d > 0; d /= 2)
		most = max(most, __shfl_xor_sync(FULL_WARP, most, d));
	if (threadIdx.x % WARP == 0)
		atomicMax(&a.head->largest, most);
}

/* ---- loading ---- */

/* A weight on the device, identified by its host address. */
struct cuda_weight {
	struct cuda_weight *next;
	const void *host;
	void *p;
	enum dtype type;
	int32_t rows, cols;
	int table; /* value of the argument as_table in the first load_weight() call for this weight */
	int users; /* number of tensors that share the weight */
};

/* Return the weight that load_weight() loaded from this host address before, as a table for embed() if as_table is 0,
 * or as a weight for matmul() if as_table is 1. Return NULL if there is no such weight. */
static struct cuda_weight *weight_known(struct cuda *c, const struct tensor *t, const void *host, int as_table)
{
	for (struct cuda_weight *w = c->weights; w; w = w->next)
		if (w->host == host && w->type == t->type && w->rows == t->rows && w->cols == t->cols &&
		    w->table != as_table)
			return w;
	return NULL;
}

int cuda_weight_release(struct cuda *c, void *p)
{
	for (struct cuda_weight **at = &c->weights, *w; (w = *at); at = &w->next) {
		if (w->p != p)
			continue;
		if (--w->users > 0)
			return 0;
		*at = w->next;
		free(w);
		return 1;
	}
	return 1;
}

/* Copy the rows of a weight to the device, some at a time through c->tile, and rearrange them there. Return 0, or -1
 * with the error set. */
static int send_rows(struct cuda *c, const struct weight_rows *w, const struct tensor *t, const uint8_t *host)
{
	size_t row = file_row(t);
	int32_t per = (int32_t)MIN(MAX(PIECE_BYTES / row, 1u), (size_t)t->rows);

	if (cuda_buffer_grow(c, &c->tile, (size_t)per * row) < 0)
		return -1;
	for (int32_t r = 0, n; r < t->rows; r += n) {
		uint8_t *dst = (uint8_t *)w->p + (size_t)r * w->stride;

		n = MIN(t->rows - r, per);
		gpu_write(c->gpu, c->tile.p, host + (size_t)r * row, (size_t)n * row);
		if (quant_is(t->type)) {
			struct repack_args a = {};

			a.src = (const uint8_t *)c->tile.p;
			a.dst = dst;
			a.src_stride = row;
			a.w = *w;
			a.blocks = (int64_t)n * (t->cols / 32);
			cuda_launch(c, weight_repack, cuda_blocks(a.blocks, THREADS), 1, 1, THREADS, 0, a);
		} else {
			struct pad_args a = {};

			a.src = (const uint8_t *)c->tile.p;
			a.dst = dst;
			a.src_stride = row;
			a.dst_stride = w->stride;
			a.n = (int64_t)n * (int64_t)(row / 2);
			cuda_launch(c, weight_pad, cuda_blocks(a.n, THREADS), 1, 1, THREADS, 0, a);
		}
	}
	return 0;
}

static void note_largest(struct cuda *c, const struct weight_rows *w, struct weight_head *head)
{
	struct largest_args a = {};
	unsigned blocks;

	a.w = *w;
	a.head = head;
	a.per_row = w->cols / 8 + (w->cols % 8 != 0);
	a.eights = (int64_t)w->rows * a.per_row;
	blocks = cuda_blocks(a.eights, THREADS);
	cuda_launch(c, weight_largest, MIN(blocks, 2048u), 1, 1, THREADS, 0, a);
}

int cuda_load_weight(struct backend *be, struct tensor *t, const void *host, int as_table)
{
	struct cuda *c = cuda_of(be);
	struct weight_rows w;
	struct cuda_weight *known;
	uint64_t size;
	int vector;

	if (be->failed)
		return -1;
	t->data = NULL;
	t->layout = LAYOUT_PLAIN;
	if ((unsigned)t->type >= DT_COUNT || t->rows <= 0 || t->cols <= 0 || t->cols % dtype_info(t->type)->block)
		return backend_fail(be, "cannot take a weight of %d x %d", (int)t->rows, (int)t->cols);
	/* Vectors of floats (norm weights, biases) keep the plain layout, because single elements of them are read. */
	vector = t->rows == 1 && !quant_is(t->type);
	known = vector ? NULL : weight_known(c, t, host, as_table != 0);
	if (known) {
		known->users++;
		t->data = known->p;
		t->layout = LAYOUT_WEIGHT;
		return 0;
	}
	rows_layout(&w, t);
	if (__builtin_mul_overflow(w.stride, (uint64_t)t->rows, &size) || size > SIZE_MAX / 2)
		return backend_fail(be, "cannot take a weight of %d x %d", (int)t->rows, (int)t->cols);
	size += vector ? 0 : sizeof(struct weight_head);
	t->data = gpu_alloc(c->gpu, (size_t)size);
	if (!t->data)
		return backend_fail(be, "cannot get %llu bytes of GPU memory for a weight of %d x %d",
		                    (unsigned long long)size, (int)t->rows, (int)t->cols);
	if (vector) {
		gpu_write(c->gpu, t->data, host, file_row(t));
		return 0;
	}
	w.p = (const uint8_t *)t->data + sizeof(struct weight_head);
	known = (struct cuda_weight *)malloc(sizeof *known);
	if (!known ||
	    ((quant_is(t->type) || w.stride != file_row(t)) && send_rows(c, &w, t, (const uint8_t *)host) < 0)) {
		free(known);
		gpu_free(c->gpu, t->data);
		t->data = NULL;
		return backend_fail(be, "cannot get memory for a weight of %d x %d", (int)t->rows, (int)t->cols);
	}
	if (!quant_is(t->type) && w.stride == file_row(t))
		gpu_write(c->gpu, (void *)w.p, host, (size_t)size - sizeof(struct weight_head));
	if (t->type != DT_F16)
		note_largest(c, &w, (struct weight_head *)t->data);
	*known = (struct cuda_weight){ c->weights, host, t->data, t->type, t->rows, t->cols, as_table != 0, 1 };
	c->weights = known;
	t->layout = LAYOUT_WEIGHT;
	return 0;
}

/* ---- rows as floats, and as f16 ---- */

struct embed_args {
	struct weight_rows w;
	float *out;
	const int32_t *id;
	int32_t per_row;
};

/* Write the rows of the tokens (blockIdx.y) as floats, eight values per thread. */
__global__ void embed_rows(struct embed_args a)
{
	int j = (int)(blockIdx.x * blockDim.x + threadIdx.x), n;
	float v[8], *out;

	if (j >= a.per_row)
		return;
	n = min(8, a.w.cols - 8 * j);
	weight_eight(a.w, a.id[blockIdx.y], j, n, v);
	out = a.out + (size_t)blockIdx.y * (size_t)a.w.cols + 8 * (size_t)j;
	for (int i = 0; i < n; i++)
		out[i] = v[i];
}

enum { EMBED_MOST = 4096 }; /* maximum number of tokens of one launch */

void cuda_embed(struct backend *be, struct tensor *out, const struct tensor *table, const int32_t *id, int32_t n)
{
	struct cuda *c = cuda_of(be);
	struct embed_args a = {};

	if (cuda_stopped(be) || n <= 0)
		return;
	if (!out || !out->data || out->type != DT_F32 || out->layout != LAYOUT_PLAIN || n > out->rows || !table ||
	    out->cols != table->cols) {
		backend_fail(be, "internal: embed got an operand of the wrong shape");
		return;
	}
	for (int32_t i = 0; i < n; i++)
		if (id[i] < 0 || id[i] >= table->rows) {
			backend_fail(be, "token id %d is not within a vocabulary of %d", (int)id[i], (int)table->rows);
			return;
		}
	if (cuda_weight_rows(c, table, &a.w) < 0)
		return;
	a.per_row = table->cols / 8 + (table->cols % 8 != 0);
	for (int32_t i = 0, m; i < n; i += m) {
		m = MIN(n - i, (int32_t)EMBED_MOST);
		a.out = (float *)out->data + (size_t)i * (size_t)out->cols;
		a.id = (const int32_t *)gpu_stage(c->gpu, id + i, (size_t)m * sizeof *id);
		if (!a.id)
			return;
		cuda_launch(c, embed_rows, cuda_blocks(a.per_row, 128), (unsigned)m, 1, 128, 0, a);
	}
}

struct half_args {
	struct weight_rows w;
	const struct weight_head *head;
	uint16_t *out;
	uint32_t eights, per_row;
	int32_t row0;
};

/* Convert rows to f16, eight values per thread. Neighbouring threads have neighbouring values, so that reads and writes
 * are contiguous. */
__global__ void weight_to_half(struct half_args a)
{
	uint32_t at = blockIdx.x * blockDim.x + threadIdx.x, row = at / a.per_row;
	int j = (int)(at % a.per_row), n, e = a.head ? half_exponent(a.head->largest) : 0;
	uint16_t h[8], *out;
	float v[8];

	if (at >= a.eights)
		return;
	n = min(8, a.w.cols - 8 * j);
	weight_eight(a.w, a.row0 + (int64_t)row, j, n, v);
	for (int i = 0; i < 8; i++)
		h[i] = __half_as_ushort(__float2half_rn(times_power(v[i], e)));
	out = a.out + (size_t)row * (size_t)a.w.cols + 8 * (size_t)j;
	if (a.w.cols % 8 == 0)
		*(uint4 *)out = make_uint4(h[0] | (uint32_t)h[1] << 16, h[2] | (uint32_t)h[3] << 16,
		                           h[4] | (uint32_t)h[5] << 16, h[6] | (uint32_t)h[7] << 16);
	else
		for (int i = 0; i < n; i++)
			out[i] = h[i];
}

void cuda_weight_half(struct cuda *c, const struct weight_rows *w, const struct weight_head *head, int32_t row0,
                      int32_t n, void *out)
{
	struct half_args a = {};

	a.w = *w;
	a.head = head;
	a.out = (uint16_t *)out;
	/* Use 32-bit indices, because most of the kernel's time is a division by per_row. A call converts at most about
	 * 2^23 groups of eight values. */
	a.per_row = (uint32_t)w->cols / 8 + (w->cols % 8 != 0);
	a.eights = (uint32_t)n * a.per_row;
	a.row0 = row0;
	cuda_launch(c, weight_to_half, cuda_blocks(a.eights, THREADS), 1, 1, THREADS, 0, a);
}
