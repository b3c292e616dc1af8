/* app/lab/picture.c - small pictures with a palette, written as PNG or PPM. */
#include "app/lab/picture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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
	int32_t dx = x1 > x0 ? x1 - x0 : x0 - x1, dy = y1 > y0 ? y1 - y0 : y0 - y1, n = MAX(dx, dy);

	for (int32_t i = 0; i <= n; i++)
		picture_put(p, n ? (int32_t)(x0 + (int64_t)(x1 - x0) * i / n) : x0,
		            n ? (int32_t)(y0 + (int64_t)(y1 - y0) * i / n) : y0, colour);
}

/* Five rows of three bits each, the left and upper one highest. */
static int letter(char c)
{
	static const char known[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.,:=/+-%()_";
	/* clang-format off */
	static const uint16_t rows[] = {
		/* 0-9 */
		075557, 026227, 071747, 071717, 055711, 074717, 074757, 071111, 075757, 075717,
		/* A-L */
		025755, 065656, 034443, 065556, 074647, 074644, 034553, 055755, 072227, 011152, 055655, 044447,
		/* M-X */
		057755, 065555, 025552, 065644, 025573, 065655, 034216, 072222, 055557, 055552, 055775, 055255,
		/* Y Z . , : = / + - % ( ) */
		055222, 071247, 000002, 000024, 002020, 007070, 011244, 002720, 000700, 051245, 012221, 042224,
		/* _ */
		000007,
	};
	/* clang-format on */
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

static void add_be32(struct str *out, uint32_t v)
{
	str_add(out, (const char *)(uint8_t[]){ (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v },
	        4);
}

static void png_chunk(struct str *out, const char type[4], const char *p, size_t n)
{
	size_t from = out->n + 4;

	add_be32(out, (uint32_t)n);
	str_add(out, type, 4);
	str_add(out, p, n);
	add_be32(out, (uint32_t)crc32_z(0, (const Bytef *)out->p + from, out->n - from));
}

static void png_bytes(const struct picture *p, struct str *out)
{
	size_t row = (size_t)p->w + 1, n = row * (size_t)p->h;
	uint8_t *rows = xmalloc(n);
	uLongf n_body = compressBound(n);
	Bytef *body = xmalloc(n_body);
	struct str head = { 0 };

	for (size_t y = 0; y < (size_t)p->h; y++) {
		rows[y * row] = 0; /* no filter */
		memcpy(rows + y * row + 1, p->at + y * (size_t)p->w, (size_t)p->w);
	}
	add_be32(&head, (uint32_t)p->w);
	add_be32(&head, (uint32_t)p->h);
	str_add(&head, "\x08\x03\0\0\0", 5); /* 8 bits, a palette */
	compress(body, &n_body, rows, n);    /* cannot fail: there is room for the bound */
	str_add(out, "\x89PNG\r\n\x1a\n", 8);
	png_chunk(out, "IHDR", head.p, head.n);
	png_chunk(out, "PLTE", (const char *)p->rgb, sizeof p->rgb);
	png_chunk(out, "IDAT", (const char *)body, n_body);
	png_chunk(out, "IEND", "", 0);
	free(rows);
	str_free(&head);
	free(body);
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
	struct str out = { 0 };
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
