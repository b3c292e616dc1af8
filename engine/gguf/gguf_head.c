/* engine/gguf/gguf_head.c - finds the end of a GGUF file's head (everything before the tensor data), even while the
 * file is being downloaded.
 *
 * Records are skipped by their lengths alone; gguf_parse.c checks the content later. At an invalid record the search
 * ends as if the head were complete, and gguf_parse.c then reports the error. */
#include "engine/engine.h"
#include "engine/gguf/gguf.h"

#include "engine/gguf/cursor.h"

enum { DIMS_MOST = 8, RECORDS_MOST = 1 << 20 };
enum { HEAD_BEHIND = 4096 }; /* bytes kept after the last record, because error messages may quote them */

static void skip_string(struct cursor *c)
{
	cursor_bytes(c, cursor_u64(c, "length"), "string");
}

/* Skip a value. Return -1 if its type is unknown or its size overflows. */
static int skip_value(struct cursor *c, uint32_t type)
{
	uint64_t n = 1, bytes;
	uint32_t elem = type;

	if (type == GGUF_ARRAY) {
		elem = cursor_u32(c, "type");
		n = cursor_u64(c, "count");
	}
	if (elem > GGUF_F64 || elem == GGUF_ARRAY)
		return -1;
	if (elem == GGUF_STRING) {
		for (uint64_t i = 0; i < n && !c->failed; i++)
			skip_string(c);
		return 0;
	}
	if (size_mul(n, gguf_type_size((enum gguf_type)elem), &bytes))
		return -1;
	cursor_bytes(c, bytes, "value");
	return 0;
}

enum head_state { WHOLE, CUT_OFF, WRONG };

/* Skip the records of the head in the n bytes at p. Return WHOLE if the head ends within these bytes, CUT_OFF if a
 * record extends past them, and WRONG if a record is invalid. Set *reached to the offset of the first byte that was not
 * skipped. */
static enum head_state head_scan(const void *p, uint64_t n, uint64_t *reached)
{
	struct cursor c = { .base = p, .size = n };
	uint64_t n_tensor, n_kv;
	enum head_state got = WRONG;

	if (n >= 4 && memcmp(p, "GGUF", 4) != 0)
		goto done;
	cursor_u64(&c, "magic and version");
	n_tensor = cursor_u64(&c, "tensors");
	n_kv = cursor_u64(&c, "keys");
	if (n_tensor > RECORDS_MOST || n_kv > RECORDS_MOST)
		goto done;
	for (uint64_t i = 0; i < n_kv && !c.failed; i++) {
		skip_string(&c);
		if (skip_value(&c, cursor_u32(&c, "type")) && !c.failed)
			goto done;
	}
	for (uint64_t i = 0; i < n_tensor && !c.failed; i++) {
		uint32_t dims;

		skip_string(&c);
		dims = cursor_u32(&c, "dimensions");
		if (dims > DIMS_MOST)
			goto done;
		cursor_bytes(&c, 8 * (uint64_t)dims + 4 + 8, "tensor");
	}
	got = c.failed ? CUT_OFF : WHOLE;
done:
	*reached = c.pos;
	return got;
}

uint64_t gguf_head_bytes(const void *p, uint64_t n)
{
	uint64_t reached;
	enum head_state got = head_scan(p, n, &reached);

	return got == WHOLE ? reached : got == WRONG ? n : 0;
}

uint64_t gguf_head_reach(const void *p, uint64_t n)
{
	uint64_t reached;

	head_scan(p, n, &reached);
	return n - reached < HEAD_BEHIND ? n : reached + HEAD_BEHIND;
}

uint64_t engine_head_bytes(const void *p, uint64_t n)
{
	return gguf_head_bytes(p, n);
}
