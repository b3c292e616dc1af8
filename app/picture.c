/* app/picture.c - small pictures with a palette, written as PNG or PPM.
 *
 * A PNG's bytes are compressed with the fixed codes of deflate (RFC 1951) and repeat only the byte or the row before: pictures
 * that are drawn consist of runs and of rows that are alike. */
#include "app/picture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"

int picture_init(struct picture *p, int32_t w, int32_t h, struct err *e)
{
	*p = (struct picture){ .w = w, .h = h };
	p->at = try_alloc((size_t)w * (size_t)h, 1, "a picture", e);
	if (!p->at)
		return -1;
	memset(p->at, 0, (size_t)w * (size_t)h);
	return 0;
}

void picture_free(struct picture *p)
{
	free(p->at);
	p->at = NULL;
}

/* ---- drawing ---- */

void picture_put(struct picture *p, int32_t x, int32_t y, uint8_t colour)
{
	if (x >= 0 && y >= 0 && x < p->w && y < p->h)
		p->at[(size_t)y * (size_t)p->w + (size_t)x] = colour;
}

void picture_line(struct picture *p, int32_t x0, int32_t y0, int32_t x1, int32_t y1, uint8_t colour)
{
	int32_t dx = x1 > x0 ? x1 - x0 : x0 - x1, dy = y1 > y0 ? y1 - y0 : y0 - y1, n = dx > dy ? dx : dy;

	for (int32_t i = 0; i <= n; i++)
		picture_put(p, n ? (int32_t)(x0 + (int64_t)(x1 - x0) * i / n) : x0, n ? (int32_t)(y0 + (int64_t)(y1 - y0) * i / n) : y0, colour);
}

/* Five rows of three bits each, the left and upper one highest. */
static int letter(char c)
{
	static const char known[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.,:=/+-%()_";
	static const uint16_t rows[] = {
		075557, 026227, 071747, 071717, 055711, 074717, 074757, 071111, 075757, 075717,                     /* 0-9 */
		025755, 065656, 034443, 065556, 074647, 074644, 034553, 055755, 072227, 011152, 055655, 044447,     /* A-L */
		057755, 065555, 025552, 065644, 025573, 065655, 034216, 072222, 055557, 055552, 055775, 055255,     /* M-X */
		055222, 071247, 000002, 000024, 002020, 007070, 011244, 002720, 000700, 051245, 012221, 042224,     /* Y Z . , : = / + - % ( ) */
		000007,                                                                                              /* _ */
	};
	const char *at;

	if (c >= 'a' && c <= 'z')
		c = (char)(c - 'a' + 'A');
	at = c ? strchr(known, c) : NULL;
	return at ? rows[at - known] : 0;
}

int32_t picture_text(struct picture *p, int32_t x, int32_t y, int32_t size, uint8_t colour, const char *text)
{
	for (; *text; text++, x += 4 * size) {
		int bits = letter(*text);

		for (int32_t i = 0; i < 15 * size * size; i++) {
			int32_t px = i % (3 * size), py = i / (3 * size);

			if (bits >> (14 - (py / size * 3 + px / size)) & 1)
				picture_put(p, x + px, y + py, colour);
		}
	}
	return x;
}

/* ---- PNG ---- */

struct bits { struct str *out; uint32_t held; int n; };

static void bits_put(struct bits *b, uint32_t v, int n)
{
	b->held |= v << b->n;
	for (b->n += n; b->n >= 8; b->n -= 8, b->held >>= 8)
		str_add(b->out, (const char *)&(uint8_t){ (uint8_t)b->held }, 1);
}

/* Codes are sent from their highest bit on. */
static void bits_code(struct bits *b, uint32_t code, int n)
{
	for (int i = n - 1; i >= 0; i--)
		bits_put(b, code >> i & 1, 1);
}

/* A literal, or a length's code, by the fixed table. */
static void fixed_code(struct bits *b, int v)
{
	if (v < 144)
		bits_code(b, 0x30u + (uint32_t)v, 8);
	else if (v < 256)
		bits_code(b, 0x190u + (uint32_t)(v - 144), 9);
	else if (v < 280)
		bits_code(b, (uint32_t)(v - 256), 7);
	else
		bits_code(b, 0xc0u + (uint32_t)(v - 280), 8);
}

/* n bytes (3 .. 258) as they were `back` bytes before (1 .. 32768). */
static void fixed_match(struct bits *b, int n, int32_t back)
{
	int code = 257, base = 3, extra = 0, d = 0;
	int32_t from = 1, more = 0;

	if (n == 258) {
		fixed_code(b, 285);
	} else {
		for (; n >= base + (1 << extra); code++) {
			base += 1 << extra;
			extra = code - 257 + 1 < 8 ? 0 : (code - 257 + 1 - 4) / 4;
		}
		fixed_code(b, code);
		bits_put(b, (uint32_t)(n - base), extra);
	}
	for (; back >= from + (1 << more); d++) {
		from += 1 << more;
		more = d + 1 < 4 ? 0 : (d + 1 - 2) / 2;
	}
	bits_code(b, (uint32_t)d, 5);
	bits_put(b, (uint32_t)(back - from), more);
}

static int same_for(const uint8_t *p, size_t at, size_t n, size_t back)
{
	int same = 0;

	if (back > at || back > 32768)
		return 0;
	while (same < 258 && at + (size_t)same < n && p[at + (size_t)same] == p[at + (size_t)same - back])
		same++;
	return same;
}

static void deflate(const uint8_t *p, size_t n, size_t row, struct str *out)
{
	struct bits b = { .out = out };
	uint32_t low = 1, high = 0;

	str_add(out, "\x78\x01", 2);
	bits_put(&b, 1, 1);          /* the last block */
	bits_put(&b, 1, 2);          /* fixed codes */
	for (size_t at = 0; at < n; ) {
		int near = same_for(p, at, n, 1), above = same_for(p, at, n, row);

		if (near < 3 && above < 3) {
			fixed_code(&b, p[at++]);
			continue;
		}
		fixed_match(&b, near >= above ? near : above, near >= above ? 1 : (int32_t)row);
		at += (size_t)(near >= above ? near : above);
	}
	fixed_code(&b, 256);
	bits_put(&b, 0, 7);          /* to a whole byte */
	for (size_t i = 0; i < n; i++) {
		low = (low + p[i]) % 65521;
		high = (high + low) % 65521;
	}
	str_add(out, (const char *)(uint8_t[]){ (uint8_t)(high >> 8), (uint8_t)high, (uint8_t)(low >> 8), (uint8_t)low }, 4);
}

static void add_be32(struct str *out, uint32_t v)
{
	str_add(out, (const char *)(uint8_t[]){ (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v }, 4);
}

static void png_chunk(struct str *out, const char type[4], const char *p, size_t n)
{
	uint32_t crc = ~0u;
	size_t from;

	add_be32(out, (uint32_t)n);
	from = out->n;
	str_add(out, type, 4);
	str_add(out, p, n);
	for (size_t i = from; i < out->n; i++) {
		crc ^= (uint8_t)out->p[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	add_be32(out, ~crc);
}

static void png_bytes(const struct picture *p, struct str *out)
{
	size_t row = (size_t)p->w + 1, n = row * (size_t)p->h;
	uint8_t *rows = xmalloc(n);
	struct str head = {0}, body = {0};

	for (size_t y = 0; y < (size_t)p->h; y++) {
		rows[y * row] = 0;       /* no filter */
		memcpy(rows + y * row + 1, p->at + y * (size_t)p->w, (size_t)p->w);
	}
	add_be32(&head, (uint32_t)p->w);
	add_be32(&head, (uint32_t)p->h);
	str_add(&head, "\x08\x03\0\0\0", 5);   /* 8 bits, a palette */
	deflate(rows, n, row, &body);
	str_add(out, "\x89PNG\r\n\x1a\n", 8);
	png_chunk(out, "IHDR", head.p, head.n);
	png_chunk(out, "PLTE", (const char *)p->rgb, sizeof p->rgb);
	png_chunk(out, "IDAT", body.p, body.n);
	png_chunk(out, "IEND", "", 0);
	free(rows);
	str_free(&head);
	str_free(&body);
}

static void ppm_bytes(const struct picture *p, struct str *out)
{
	str_addf(out, "P6\n%d %d\n255\n", p->w, p->h);
	for (size_t i = 0; i < (size_t)p->w * (size_t)p->h; i++)
		str_add(out, (const char *)p->rgb[p->at[i]], 3);
}

int picture_write(const struct picture *p, const char *path, struct err *e)
{
	size_t n = strlen(path);
	struct str out = {0};
	FILE *f;
	int failed;

	if (n > 4 && !strcmp(path + n - 4, ".ppm"))
		ppm_bytes(p, &out);
	else
		png_bytes(p, &out);
	f = fopen(path, "wbe");
	failed = !f || fwrite(out.p, 1, out.n, f) != out.n;
	if (f && fclose(f))
		failed = 1;
	str_free(&out);
	return failed ? err_set(e, ERR_FAIL, "cannot write '%s': %s", path, strerror(errno)) : 0;
}
