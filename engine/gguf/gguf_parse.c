/* engine/gguf/gguf_parse.c - reads and checks the content of a GGUF file: header, metadata, tensor directory, data
 * layout.
 *
 * A file has these parts, in this order. All numbers are little-endian; a string is a u64 length and its bytes.
 * - header: "GGUF", u32 version, u64 n_tensors, u64 n_kv;
 * - n_kv times: string key, u32 type of the value, value;
 * - n_tensors times: string name, u32 n_dims, u64 ne[n_dims], u32 type, u64 offset;
 * - padding up to a multiple of the alignment;
 * - the tensors' data, each tensor at its offset from the end of the padding.
 *
 * After a successful parse all pointers in struct gguf are valid, keys and names are unique printable ASCII, and
 * tensors are inside the file without overlap. Before memory is allocated for n records, n is compared with the number
 * of records that fit into the rest of the file. So memory use is proportional to the file size. */
#include "engine/gguf/gguf.h"

#include "engine/gguf/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Limits on a file. MAX_KV and MAX_TENSORS limit the numbers of keys and tensors. MAX_KEY, MAX_NAME and MAX_STRING
 * limit the length of a key, of a tensor's name and of a string, in bytes. MAX_ARRAY limits the number of elements of
 * an array, and MAX_ALIGNMENT the alignment in bytes. */
#define MAX_KV            65536u
#define MAX_TENSORS       65536u
#define MAX_KEY           65535u
#define MAX_NAME          64u
#define MAX_STRING        (16u << 20)
#define MAX_ARRAY         (64u << 20)
#define MAX_ALIGNMENT     65536u
/* size in bytes of the smallest record of a key: key length, a one-byte key, type, a one-byte value */
#define MIN_KV_RECORD     (8 + 1 + 4 + 1)
/* size in bytes of the smallest record of a tensor: name length, a one-byte name, n_dims, ne[0], type, offset */
#define MIN_TENSOR_RECORD (8 + 1 + 4 + 8 + 4 + 8)

struct parse {
	struct gguf *g;
	struct cursor c;
	struct err *e;
	/* Members for error messages: */
	const char *kind; /* what is being read: a "key", a "tensor", or NULL for neither */
	uint64_t index;   /* index of the record being read, counted from 0 */
	struct view name; /* name of the record; empty until it has been read */
};

/* ---- messages ---- */

/* Set the error "byte OFF: FIELD of key 'NAME' REST" and return -1. `rest` is a printf format such as "is %u, and must
 * be 1". */
static int bad_field(struct parse *p, uint64_t off, const char *field, const char *rest, ...)
	__attribute__((format(printf, 4, 5)));
static int bad_field(struct parse *p, uint64_t off, const char *field, const char *rest, ...)
{
	char text[240], name[80], record[120] = "";
	va_list ap;

	va_start(ap, rest);
	vsnprintf(text, sizeof text, rest, ap);
	va_end(ap);
	if (p->kind && p->name.n)
		snprintf(record, sizeof record, " of %s '%s'", p->kind, view_show(p->name, name));
	else if (p->kind && !strcmp(field, p->kind))
		snprintf(record, sizeof record, " number %" PRIu64, p->index + 1);
	else if (p->kind)
		snprintf(record, sizeof record, " of %s number %" PRIu64, p->kind, p->index + 1);
	return gguf_err(p->g, p->e, "byte %" PRIu64 ": %s%s %s", off, field, record, text);
}

/* Return the number of bytes from offset `at` to the end of the file. (cursor_left() is not the same: the cursor's
 * buffer ends soon after the head.) */
static uint64_t file_left(const struct parse *p, uint64_t at)
{
	return p->g->size - at;
}

/* Report that a field goes beyond the end of the bytes to parse. Either the file is truncated, or another program
 * changed the file while weir copied its head. */
static int bad_end(struct parse *p)
{
	if (p->c.failed_need <= file_left(p, p->c.failed_at))
		return gguf_err(p->g, p->e,
		                "byte %" PRIu64
		                ": the file is being changed by another program: open it again when that has ended",
		                p->c.failed_at);
	return bad_field(p, p->c.failed_at, p->c.failed,
	                 "is cut off: it needs %" PRIu64 " bytes, and the file has %" PRIu64 " left", p->c.failed_need,
	                 file_left(p, p->c.failed_at));
}

/* ---- header ---- */

static int bad_magic(struct parse *p)
{
	const char *what = gguf_looks_like(p->c.base, p->c.size);
	char hex[16] = "";
	for (uint64_t i = 0; i < 4 && i < p->c.size; i++)
		snprintf(hex + strlen(hex), sizeof hex - strlen(hex), "%s%02x", i ? " " : "", p->c.base[i]);
	if (what)
		return gguf_err(p->g, p->e, "byte 0: this looks like %s, not a GGUF model (magic is %s)", what, hex);
	return gguf_err(p->g, p->e, "byte 0: this is not a GGUF file (magic is %s, not 47 47 55 46)", hex);
}

/* Check that a count n is at most `cap`, and that n records of at least `record` bytes each fit into the rest of the
 * file. */
static int check_count(struct parse *p, uint64_t off, const char *field, uint64_t n, uint64_t cap, uint64_t record)
{
	uint64_t left = file_left(p, p->c.pos);

	if (n > cap)
		return bad_field(p, off, field, "is %" PRIu64 ", and the limit is %" PRIu64, n, cap);
	if (n > left / record)
		return bad_field(p, off, field,
		                 "is %" PRIu64 ", but the %" PRIu64 " bytes left can hold at most %" PRIu64, n, left,
		                 left / record);
	return 0;
}

static int parse_header(struct parse *p)
{
	struct gguf *g = p->g;
	const uint8_t *magic;

	if (!p->c.size)
		return gguf_err(g, p->e, "byte 0: the file is empty, so it has no magic");
	magic = cursor_bytes(&p->c, 4, "magic");
	if (!magic) {
		if (memcmp(p->c.base, "GGUF", p->c.size))
			return bad_magic(p);
		return bad_end(p);
	}
	if (memcmp(magic, "GGUF", 4))
		return bad_magic(p);
	g->version = cursor_u32(&p->c, "version");
	if (p->c.failed)
		return bad_end(p);
	if (g->version != 2 && g->version != 3) {
		uint32_t swapped = __builtin_bswap32(g->version);
		if (swapped > 0 && swapped <= 0xffff)
			return bad_field(p, 4, "version",
			                 "is 0x%08" PRIx32 ": this is a big-endian file (version %" PRIu32
			                 "), and only little-endian files can be read",
			                 g->version, swapped);
		return bad_field(p, 4, "version", "is %" PRIu32 ", and only 2 and 3 are supported", g->version);
	}
	g->n_tensor = cursor_u64(&p->c, "n_tensors");
	g->n_kv = cursor_u64(&p->c, "n_kv");
	if (p->c.failed)
		return bad_end(p);
	return check_count(p, 8, "n_tensors", g->n_tensor, MAX_TENSORS, MIN_TENSOR_RECORD) ||
	                       check_count(p, 16, "n_kv", g->n_kv, MAX_KV, MIN_KV_RECORD)
	               ? -1
	               : 0;
}

/* ---- metadata ---- */

static int is_printable(struct view v)
{
	for (size_t i = 0; i < v.n; i++)
		if (v.p[i] < 0x20 || v.p[i] > 0x7e)
			return 0;
	return 1;
}

/* Read a key or a tensor name: 1 to max bytes of printable ASCII. */
static int read_name(struct parse *p, const char *field, const char *field_bytes, uint64_t max, struct view *out)
{
	uint64_t off = p->c.pos, n = cursor_u64(&p->c, field);
	char shown[80];

	if (p->c.failed)
		return bad_end(p);
	if (n < 1 || n > max)
		return bad_field(p, off, field, "is %" PRIu64 ", and must be 1 to %" PRIu64, n, max);
	out->p = (const char *)cursor_bytes(&p->c, n, field_bytes);
	out->n = n;
	if (p->c.failed)
		return bad_end(p);
	if (!is_printable(*out))
		return bad_field(p, off + 8, field_bytes, "is '%s', and must be printable ASCII",
		                 view_show(*out, shown));
	p->name = *out;
	return 0;
}

/* Read the length and the bytes of one string value. */
static int read_string(struct parse *p, struct view *out)
{
	uint64_t off = p->c.pos, n = cursor_u64(&p->c, "string length");

	if (p->c.failed)
		return bad_end(p);
	if (n > MAX_STRING)
		return bad_field(p, off, "string length", "is %" PRIu64 ", and the limit is %u", n, MAX_STRING);
	out->p = (const char *)cursor_bytes(&p->c, n, "string");
	out->n = n;
	return p->c.failed ? bad_end(p) : 0;
}

static int check_bools(struct parse *p, const uint8_t *b, uint64_t n, uint64_t off)
{
	for (uint64_t i = 0; i < n; i++)
		if (b[i] > 1)
			return bad_field(p, off + i, "bool", "is %u, and must be 0 or 1", b[i]);
	return 0;
}

static int read_array(struct parse *p, struct gguf_value *v)
{
	uint64_t off = p->c.pos;
	uint32_t elem = cursor_u32(&p->c, "array type");
	uint64_t n = cursor_u64(&p->c, "array count"), least, left, start;

	if (p->c.failed)
		return bad_end(p);
	if (elem > GGUF_F64)
		return bad_field(p, off, "array type", "is %" PRIu32 ", and must be 0 to 12", elem);
	if (elem == GGUF_ARRAY)
		return bad_field(p, off, "array type", "is %" PRIu32 ", an array of arrays, which is not supported",
		                 elem);
	if (n > MAX_ARRAY)
		return bad_field(p, off + 4, "array count", "is %" PRIu64 ", and the limit is %u", n, MAX_ARRAY);
	least = elem == GGUF_STRING ? 8 : gguf_type_size((enum gguf_type)elem);
	left = file_left(p, p->c.pos);
	if (n > left / least)
		return bad_field(p, off + 4, "array count",
		                 "is %" PRIu64 ", but the %" PRIu64 " bytes left can hold at most %" PRIu64, n, left,
		                 left / least);
	v->elem = (enum gguf_type)elem;
	v->n = n;
	start = p->c.pos;
	v->data = p->c.base + start;
	if (elem == GGUF_STRING) {
		struct view s;
		for (uint64_t i = 0; i < n; i++)
			if (read_string(p, &s))
				return -1;
	} else {
		cursor_bytes(&p->c, n * least, "array");
	}
	v->bytes = p->c.pos - start;
	return elem == GGUF_BOOL ? check_bools(p, v->data, n, start) : 0;
}

static int read_kv(struct parse *p, struct gguf_value *v)
{
	uint64_t off;
	uint32_t type;

	p->name.n = 0;
	v->off = p->c.pos;
	if (read_name(p, "key length", "key", MAX_KEY, &v->key))
		return -1;
	off = p->c.pos;
	type = cursor_u32(&p->c, "value type");
	if (p->c.failed)
		return bad_end(p);
	if (type > GGUF_F64)
		return bad_field(p, off, "value type", "is %" PRIu32 ", and must be 0 to 12", type);
	v->type = (enum gguf_type)type;
	v->n = 1;
	if (type == GGUF_ARRAY)
		return read_array(p, v);
	if (type == GGUF_STRING) {
		struct view s;
		if (read_string(p, &s))
			return -1;
		v->data = (const uint8_t *)s.p;
		v->bytes = s.n;
		return 0;
	}
	off = p->c.pos;
	v->bytes = gguf_type_size(v->type);
	v->data = cursor_bytes(&p->c, v->bytes, "value");
	if (p->c.failed)
		return bad_end(p);
	return type == GGUF_BOOL ? check_bools(p, v->data, 1, off) : 0;
}

static int by_key(const void *a, const void *b)
{
	const struct gguf_value *x = *(const struct gguf_value *const *)a;
	const struct gguf_value *y = *(const struct gguf_value *const *)b;
	int c = view_cmp(x->key, y->key);
	return c ? c : x->off < y->off ? -1 : x->off > y->off;
}

static int parse_kv(struct parse *p)
{
	struct gguf *g = p->g;
	char name[80];

	g->kv = try_alloc(g->n_kv, sizeof *g->kv, "the metadata of a model file", p->e);
	g->kv_sorted = try_alloc(g->n_kv, sizeof *g->kv_sorted, "the metadata of a model file", p->e);
	if (!g->kv || !g->kv_sorted)
		return -1;
	p->kind = "key";
	for (p->index = 0; p->index < g->n_kv; p->index++) {
		if (read_kv(p, &g->kv[p->index]))
			return -1;
		g->kv_sorted[p->index] = &g->kv[p->index];
	}
	p->kind = NULL;
	/* Sort the keys, so that duplicates are adjacent and a binary search finds a key. A hash table could become
	 * slow, because hostile keys could collide. */
	qsort(g->kv_sorted, g->n_kv, sizeof *g->kv_sorted, by_key);
	for (uint64_t i = 1; i < g->n_kv; i++)
		if (!view_cmp(g->kv_sorted[i - 1]->key, g->kv_sorted[i]->key))
			return bad_field(p, g->kv_sorted[i]->off, "key",
			                 "'%s' is a duplicate, first seen at byte %" PRIu64,
			                 view_show(g->kv_sorted[i]->key, name), g->kv_sorted[i - 1]->off);
	return 0;
}

/* Check the keys that describe the file itself: alignment, name of the architecture, number of files of a split
 * model. */
static int check_container_keys(struct parse *p)
{
	struct gguf *g = p->g;
	const struct gguf_value *v;
	struct view s;
	int64_t n, no = 0;
	int have;

	g->alignment = 32;
	if ((v = gguf_find(g, "general.alignment"))) {
		uint32_t a;
		if (v->type != GGUF_U32)
			return bad_field(p, v->off, "general.alignment", "is of type %s, and must be u32",
			                 gguf_type_name(v->type));
		a = (uint32_t)bytes_le(v->data, 4);
		if (a < 8 || a > MAX_ALIGNMENT || (a & (a - 1)))
			return bad_field(p, v->off, "general.alignment",
			                 "is %" PRIu32 ", and must be a power of two from 8 to %u", a, MAX_ALIGNMENT);
		g->alignment = a;
	}
	have = gguf_string(g, "general.architecture", &s, p->e);
	if (have < 0)
		return -1;
	if (have && (s.n < 1 || s.n > 64 || !is_printable(s)))
		return bad_field(p, gguf_find(g, "general.architecture")->off, "general.architecture",
		                 "is %zu bytes long, and must be 1 to 64 bytes of printable ASCII", s.n);
	have = gguf_int(g, "split.count", 1, 65535, &n, p->e);
	if (have < 0)
		return -1;
	if (gguf_int(g, "split.no", 0, have ? n - 1 : 0, &no, p->e) < 0)
		return -1;
	if (have && n > 1)
		return 0; /* This file has only some of the tensors. gguf_split.c opens the other files. */
	n = (int64_t)g->n_tensor;
	return gguf_int(g, "split.tensors.count", n, n, &n, p->e) < 0 ? -1 : 0;
}

/* ---- tensor directory ---- */

/* Read the number of dimensions and their sizes. Set *count to the number of values. */
static int read_shape(struct parse *p, struct gguf_tensor *t, uint64_t *count)
{
	static const char *const ne_field[4] = { "ne[0]", "ne[1]", "ne[2]", "ne[3]" };
	uint64_t off;
	uint32_t n_dims;

	*count = 1;
	off = p->c.pos;
	n_dims = cursor_u32(&p->c, "n_dims");
	if (p->c.failed)
		return bad_end(p);
	if (n_dims < 1 || n_dims > 4)
		return bad_field(p, off, "n_dims", "is %" PRIu32 ", and must be 1 to 4", n_dims);
	t->n_dims = (int32_t)n_dims;
	for (uint32_t i = 0; i < 4; i++)
		t->ne[i] = 1;
	for (uint32_t i = 0; i < n_dims; i++) {
		uint64_t ne;
		off = p->c.pos;
		ne = cursor_u64(&p->c, ne_field[i]);
		if (p->c.failed)
			return bad_end(p);
		if (ne < 1 || ne > INT64_MAX)
			return bad_field(p, off, ne_field[i], "is %" PRIu64 ", and must be 1 to %" PRId64, ne,
			                 INT64_MAX);
		if (size_mul(*count, ne, count) || *count > INT64_MAX)
			return bad_field(p, off, ne_field[i],
			                 "is %" PRIu64 ", and the number of values then passes %" PRId64, ne,
			                 INT64_MAX);
		t->ne[i] = (int64_t)ne;
	}
	return 0;
}

/* Read the type, and set t->bytes to the size of `count` values. */
static int read_type(struct parse *p, struct gguf_tensor *t, uint64_t count)
{
	const struct dtype_info *info;
	const char *type_name = NULL;
	uint64_t off;
	uint32_t id;
	int type;

	off = p->c.pos;
	id = cursor_u32(&p->c, "type");
	if (p->c.failed)
		return bad_end(p);
	type = dtype_from_ggml(id, &type_name);
	if (type < 0 && type_name)
		return bad_field(
			p, off, "type",
			"is %" PRIu32
			" (%s), which is not supported: take the model in another quantization, such as Q4_K_M or Q3_K_M",
			id, type_name);
	if (type < 0)
		return bad_field(p, off, "type", "is %" PRIu32 ", which is not known", id);
	t->type = (enum dtype)type;
	info = dtype_info(t->type);
	if (t->ne[0] % info->block)
		return bad_field(p, off, "ne[0]", "is %" PRId64 ", and must be a multiple of the block of %s, %" PRId32,
		                 t->ne[0], info->name, info->block);
	if (size_mul(count / (uint64_t)info->block, (uint64_t)info->block_bytes, &t->bytes))
		return bad_field(p, off, "size",
		                 "is %" PRIu64 " blocks of %" PRId32 " bytes, more than 64 bits can count",
		                 count / (uint64_t)info->block, info->block_bytes);
	if (t->bytes > p->g->size)
		return bad_field(p, off, "size",
		                 "is %" PRIu64 " bytes, and the whole file has only %" PRIu64
		                 ": it is cut short or damaged",
		                 t->bytes, p->g->size);
	return 0;
}

static int read_tensor(struct parse *p, struct gguf_tensor *t)
{
	uint64_t off, count;

	p->name.n = 0;
	t->off = p->c.pos;
	if (read_name(p, "name length", "name", MAX_NAME, &t->name))
		return -1;
	if (memchr(t->name.p, '/', t->name.n) || memchr(t->name.p, '\\', t->name.n))
		return bad_field(p, t->off + 8, "name", "is like a path, and must not contain '/' or '\\'");
	if (read_shape(p, t, &count) || read_type(p, t, count))
		return -1;
	off = p->c.pos;
	t->at = cursor_u64(&p->c, "offset");
	if (p->c.failed)
		return bad_end(p);
	if (t->at % p->g->alignment)
		return bad_field(p, off, "offset", "is %" PRIu64 ", and must be a multiple of the alignment, %" PRIu32,
		                 t->at, p->g->alignment);
	return 0;
}

/* Convert the tensors' offsets, which count from the start of the data, to file offsets and pointers. Check that the
 * tensors' data is inside the file, does not overlap, and has the order of the directory. */
static int place_tensors(struct parse *p)
{
	struct gguf *g = p->g;
	uint64_t align = g->alignment, start, data_bytes, prev = 0, end = 0;

	p->name.n = 0;
	if (size_add(p->c.pos, align - 1, &start) || (start &= ~(align - 1)) > g->size)
		return bad_field(p, p->c.pos, "tensor data",
		                 "is to start at the next multiple of %" PRIu64 ", past the end of the file (%" PRIu64
		                 " bytes)",
		                 align, g->size);
	data_bytes = g->size - start;
	p->kind = "tensor";
	for (p->index = 0; p->index < g->n_tensor; p->index++) {
		struct gguf_tensor *t = &g->tensor[p->index];
		uint64_t field = t->off + 8 + t->name.n + 4 + 8 * (uint64_t)t->n_dims + 4;

		p->name = t->name;
		if (t->at > data_bytes || t->bytes > data_bytes - t->at)
			return bad_field(p, field, "offset",
			                 "is %" PRIu64 " for %" PRIu64 " bytes, but the data section has only %" PRIu64
			                 " bytes: the file is cut short or damaged",
			                 t->at, t->bytes, data_bytes);
		if (t->at < prev)
			return bad_field(p, field, "offset",
			                 "is %" PRIu64 ", out of order: the tensor before it is at %" PRIu64, t->at,
			                 prev);
		if (t->at < end)
			return bad_field(p, field, "offset",
			                 "is %" PRIu64 ", an overlap: the tensor before it ends at %" PRIu64, t->at,
			                 end);
		prev = t->at;
		end = t->at + t->bytes;
		t->at += start;
		t->data = g->base + t->at;
	}
	p->kind = NULL;
	return 0;
}

static int parse_tensors(struct parse *p)
{
	struct gguf *g = p->g;
	uint64_t again;
	char name[80];

	if (!g->n_tensor)
		return 0;
	/* Check n_tensors a second time: after reading the metadata, fewer bytes are left. */
	if (check_count(p, 8, "n_tensors", g->n_tensor, MAX_TENSORS, MIN_TENSOR_RECORD))
		return -1;
	g->tensor = try_alloc(g->n_tensor, sizeof *g->tensor, "the tensor directory of a model file", p->e);
	g->tensor_sorted =
		try_alloc(g->n_tensor, sizeof *g->tensor_sorted, "the tensor directory of a model file", p->e);
	if (!g->tensor || !g->tensor_sorted)
		return -1;
	p->kind = "tensor";
	for (p->index = 0; p->index < g->n_tensor; p->index++) {
		if (read_tensor(p, &g->tensor[p->index]))
			return -1;
	}
	p->kind = NULL;
	again = gguf_sort_tensors(g);
	if (again)
		return bad_field(p, g->tensor_sorted[again]->off, "tensor name",
		                 "'%s' is a duplicate, first seen at byte %" PRIu64,
		                 view_show(g->tensor_sorted[again]->name, name), g->tensor_sorted[again - 1]->off);
	return place_tensors(p);
}

int gguf_parse_all(struct gguf *g, struct err *e)
{
	struct parse p = { .g = g,
		           .e = e,
		           .c = { .base = g->head ? g->head : g->base, .size = g->head ? g->n_head : g->size } };

	return parse_header(&p) || parse_kv(&p) || check_container_keys(&p) || parse_tensors(&p) ? -1 : 0;
}
