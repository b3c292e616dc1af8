/* tests/lib/mkgguf.h - builds GGUF files in memory, good ones and bad ones.
 *
 * Two levels.  put_...() append raw little-endian pieces to a struct str: nothing is counted or checked, so
 * any damage can be written.  struct mk collects keys and tensors and mk_finish() lays out a correct file:
 *
 *	struct mk m = { 0 };
 *	mk_string(&m, "general.architecture", "llama");
 *	mk_u32(&m, "llama.block_count", 1);
 *	mk_array(&m, "tokenizer.ggml.scores", GGUF_F32, 2);      then the elements:
 *	put_f32(&m.kv, 0); put_f32(&m.kv, -1);
 *	mk_tensor(&m, "token_embd.weight", 2, (int64_t[]){ 32, 2 }, 0, data, sizeof data);
 *	struct str file = { 0 };
 *	mk_finish(&m, &file);
 */
#ifndef WEIR_MKGGUF_H
#define WEIR_MKGGUF_H

#include "engine/base/base.h"
#include "engine/gguf/gguf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- raw pieces ---- */

static inline void put_le(struct str *b, uint64_t v, unsigned bytes)
{
	uint8_t p[8];
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
	str_add(b, p, bytes);
}

static inline void put_u8(struct str *b, uint64_t v)
{
	put_le(b, v, 1);
}
static inline void put_u16(struct str *b, uint64_t v)
{
	put_le(b, v, 2);
}
static inline void put_u32(struct str *b, uint64_t v)
{
	put_le(b, v, 4);
}
static inline void put_u64(struct str *b, uint64_t v)
{
	put_le(b, v, 8);
}

static inline void put_f32(struct str *b, float v)
{
	uint32_t u;
	memcpy(&u, &v, 4);
	put_le(b, u, 4);
}

static inline void put_f64(struct str *b, double v)
{
	uint64_t u;
	memcpy(&u, &v, 8);
	put_le(b, u, 8);
}

/* Append a GGUF string, which may have any bytes. */
static inline void put_bytes(struct str *b, const void *p, size_t n)
{
	put_u64(b, n);
	str_add(b, p, n);
}

static inline void put_string(struct str *b, const char *s)
{
	put_bytes(b, s, strlen(s));
}

static inline void put_zeros(struct str *b, size_t n)
{
	static const char zero[256];
	for (; n > sizeof zero; n -= sizeof zero)
		str_add(b, zero, sizeof zero);
	str_add(b, zero, n);
}

static inline void put_pad(struct str *b, size_t alignment)
{
	put_zeros(b, (alignment - b->n % alignment) % alignment);
}

static inline void put_header(struct str *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
	str_add(b, "GGUF", 4);
	put_u32(b, version);
	put_u64(b, n_tensors);
	put_u64(b, n_kv);
}

static inline void put_key(struct str *b, const char *key, uint32_t type)
{
	put_string(b, key);
	put_u32(b, type);
}

static inline void put_tensor(struct str *b, const char *name, uint32_t n_dims, const int64_t *ne, uint32_t ggml_type,
                              uint64_t offset)
{
	put_string(b, name);
	put_u32(b, n_dims);
	for (uint32_t i = 0; i < n_dims; i++)
		put_u64(b, (uint64_t)ne[i]);
	put_u32(b, ggml_type);
	put_u64(b, offset);
}

/* ---- whole files ---- */

struct mk {
	struct str kv, dir, data;
	uint64_t n_kv, n_tensor;
	/* alignment in bytes, 0 = 32. Set it before the first tensor. mk_finish() writes no key for it. */
	uint32_t alignment;
};

static inline void mk_key(struct mk *m, const char *key, enum gguf_type type)
{
	put_key(&m->kv, key, (uint32_t)type);
	m->n_kv++;
}

static inline void mk_u32(struct mk *m, const char *key, uint32_t v)
{
	mk_key(m, key, GGUF_U32);
	put_u32(&m->kv, v);
}

static inline void mk_f32(struct mk *m, const char *key, float v)
{
	mk_key(m, key, GGUF_F32);
	put_f32(&m->kv, v);
}

static inline void mk_bool(struct mk *m, const char *key, int v)
{
	mk_key(m, key, GGUF_BOOL);
	put_u8(&m->kv, (uint64_t)v);
}

static inline void mk_string(struct mk *m, const char *key, const char *s)
{
	mk_key(m, key, GGUF_STRING);
	put_string(&m->kv, s);
}

/* Begin an array; the caller then appends n elements by put_...(&m->kv, ...). */
static inline void mk_array(struct mk *m, const char *key, enum gguf_type elem, uint64_t n)
{
	mk_key(m, key, GGUF_ARRAY);
	put_u32(&m->kv, (uint64_t)elem);
	put_u64(&m->kv, n);
}

/* Add a tensor. data NULL: its bytes are zeros. */
static inline void mk_tensor(struct mk *m, const char *name, uint32_t n_dims, const int64_t *ne, uint32_t ggml_type,
                             const void *data, size_t bytes)
{
	put_pad(&m->data, m->alignment ? m->alignment : 32);
	put_tensor(&m->dir, name, n_dims, ne, ggml_type, m->data.n);
	if (data)
		str_add(&m->data, data, bytes);
	else
		put_zeros(&m->data, bytes);
	m->n_tensor++;
}

/* Append the file to *out and free m. */
static inline void mk_finish(struct mk *m, struct str *out)
{
	put_header(out, 3, m->n_tensor, m->n_kv);
	str_add(out, m->kv.p, m->kv.n);
	str_add(out, m->dir.p, m->dir.n);
	if (m->n_tensor)
		put_pad(out, m->alignment ? m->alignment : 32);
	str_add(out, m->data.p, m->data.n);
	str_free(&m->kv);
	str_free(&m->dir);
	str_free(&m->data);
}

/* Add a SentencePiece vocabulary of n tokens: <unk>, <s>, </s>, the 256 bytes, 26 letters, and words. */
static inline void mk_vocab(struct mk *m, int n)
{
	mk_string(m, "tokenizer.ggml.model", "llama");
	mk_array(m, "tokenizer.ggml.tokens", GGUF_STRING, n);
	for (int i = 0; i < n; i++) {
		char text[16];
		if (i < 3)
			snprintf(text, sizeof text, "%s", i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>");
		else if (i < 259)
			snprintf(text, sizeof text, "<0x%02X>", i - 3);
		else
			snprintf(text, sizeof text, i < 259 + 26 ? "%c" : "w%d", i < 259 + 26 ? 'a' + i - 259 : i);
		put_string(&m->kv, text);
	}
	mk_array(m, "tokenizer.ggml.scores", GGUF_F32, n);
	for (int i = 0; i < n; i++)
		put_f32(&m->kv, (float)-i);
	mk_array(m, "tokenizer.ggml.token_type", GGUF_I32, n);
	for (int i = 0; i < n; i++)
		put_u32(&m->kv, i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1);
}

#endif
