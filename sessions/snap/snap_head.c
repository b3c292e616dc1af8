/* sessions/snap/snap_head.c - writes and parses the first 64 bytes of a head (record of a timeline at one message). */
#include "sessions/snap/snap_private.h"

#include <string.h>

static void put_le(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_le(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

static const uint8_t magic[8] = { 'w', 'e', 'i', 'r', 'h', 'e', 'a', 'd' };

void head_layout_put(uint8_t out[HEAD_FIXED], const struct head_layout *h)
{
	memset(out, 0, HEAD_FIXED);
	memcpy(out, magic, 8);
	put_le(out + 8, (uint64_t)h->session, 8);
	put_le(out + 16, (uint64_t)h->message, 8);
	put_le(out + 24, h->row_bytes, 8);
	put_le(out + 32, h->n_head, 8);
	put_le(out + 40, h->n_extra, 8);
	put_le(out + 48, (uint32_t)h->tokens, 4);
	put_le(out + 52, (uint32_t)h->ready, 4);
}

int head_layout_get(struct head_layout *h, const uint8_t *p, uint64_t n)
{
	if (n < HEAD_FIXED || memcmp(p, magic, 8) || get_le(p + 56, 8))
		return -1;
	h->session = (int64_t)get_le(p + 8, 8);
	h->message = (int64_t)get_le(p + 16, 8);
	h->row_bytes = get_le(p + 24, 8);
	h->n_head = get_le(p + 32, 8);
	h->n_extra = get_le(p + 40, 8);
	h->tokens = (int32_t)get_le(p + 48, 4);
	h->ready = (int32_t)get_le(p + 52, 4);
	if (h->tokens < 0 || h->ready < 0 || h->ready > h->tokens)
		return -1;
	n -= HEAD_FIXED;
	if (n / 5 < (uint64_t)h->tokens)
		return -1;
	n -= (uint64_t)h->tokens * 5;
	return h->n_head > n || h->n_extra != n - h->n_head ? -1 : 0;
}
