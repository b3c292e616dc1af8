/* tests/t_picture.c - pictures: what a PNG says, taken apart by a small reader of our own, is what was drawn. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/picture.h"

/* ---- the fixed codes of deflate (RFC 1951, 3.2.6), read bit by bit ---- */

struct reader { const uint8_t *p, *end; int bit, bad; };

static int bit(struct reader *r)
{
	int b;

	if (r->p >= r->end)
		return r->bad = 1, 0;
	b = *r->p >> r->bit & 1;
	if (++r->bit == 8)
		r->bit = 0, r->p++;
	return b;
}

static int number(struct reader *r, int n)
{
	int v = 0;

	for (int i = 0; i < n; i++)
		v |= bit(r) << i;
	return v;
}

static int symbol(struct reader *r)
{
	int v = 0;

	for (int i = 0; i < 7; i++)
		v = v << 1 | bit(r);
	if (v < 24)
		return v + 256;
	v = v << 1 | bit(r);
	if (v >= 0x30 && v < 0xc0)
		return v - 0x30;
	if (v >= 0xc0 && v < 0xc8)
		return v - 0xc0 + 280;
	return (v << 1 | bit(r)) - 0x190 + 144;
}

static void inflate(struct reader *r, struct str *out)
{
	static const int length[] = { 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
	static const int more[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
	static const int from[] = { 1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145,
	                            8193, 12289, 16385, 24577 };

	CHECK_INT(number(r, 3), 3);
	while (!r->bad) {
		int v = symbol(r), d = 0, n, back;

		if (v == 256)
			return;
		if (v < 256) {
			str_add(out, (const char *)&(uint8_t){ (uint8_t)v }, 1);
			continue;
		}
		if (v > 285)
			break;
		n = length[v - 257] + number(r, more[v - 257]);
		for (int i = 0; i < 5; i++)
			d = d << 1 | bit(r);
		if (d > 29)
			break;
		back = from[d] + number(r, d < 4 ? 0 : (d - 2) / 2);
		if ((size_t)back > out->n)
			break;
		for (; n > 0; n--)
			str_add(out, &(char){ out->p[out->n - (size_t)back] }, 1);
	}
	CHECK_MSG(0, "no end of the data");
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t crc_of(const uint8_t *p, size_t n)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

static void file_of(const struct picture *p, const char *name, struct str *out)
{
	char path[64], buf[4096];
	struct err e = { 0 };
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "/tmp/weir-picture-%d-%s", (int)getpid(), name);
	CHECK_MSG(picture_write(p, path, &e) == 0, "%s", e.msg);
	f = fopen(path, "rb");
	while (f && (n = fread(buf, 1, sizeof buf, f)) > 0)
		str_add(out, buf, n);
	if (f)
		fclose(f);
	unlink(path);
}

static void check_png(const struct picture *p)
{
	struct str file = { 0 }, rows = { 0 };
	const uint8_t *at, *end;
	size_t row = (size_t)p->w + 1;
	int ended = 0;

	file_of(p, "a.png", &file);
	at = (const uint8_t *)file.p + 8;
	end = (const uint8_t *)file.p + file.n;
	CHECK(file.n > 57 && !memcmp(file.p, "\x89PNG\r\n\x1a\n", 8));
	while (end - at >= 12) {
		uint32_t n = be32(at);

		if ((size_t)(end - at) < 12 + (size_t)n)
			break;
		CHECK_INT(be32(at + 8 + n), crc_of(at + 4, (size_t)n + 4));
		if (!memcmp(at + 4, "IHDR", 4)) {
			CHECK_INT(be32(at + 8), p->w);
			CHECK_INT(be32(at + 12), p->h);
			CHECK(!memcmp(at + 16, "\x08\x03\0\0\0", 5));
		} else if (!memcmp(at + 4, "PLTE", 4)) {
			CHECK(n == 768 && !memcmp(at + 8, p->rgb, 768));
		} else if (!memcmp(at + 4, "IDAT", 4)) {
			struct reader r = { at + 10, at + 8 + n - 4, 0, 0 };
			uint32_t low = 1, high = 0;

			CHECK((at[8] * 256 + at[9]) % 31 == 0 && at[8] == 0x78);
			inflate(&r, &rows);
			for (size_t i = 0; i < rows.n; i++) {
				low = (low + (uint8_t)rows.p[i]) % 65521;
				high = (high + low) % 65521;
			}
			CHECK_INT(be32(at + 8 + n - 4), high << 16 | low);
		} else {
			ended = !memcmp(at + 4, "IEND", 4);
		}
		at += 12 + n;
	}
	CHECK(ended && at == end);
	CHECK_INT(rows.n, row * (size_t)p->h);
	for (int32_t y = 0; y < p->h && rows.n == row * (size_t)p->h; y++)
		CHECK(!rows.p[(size_t)y * row] && !memcmp(rows.p + (size_t)y * row + 1, p->at + (size_t)y * (size_t)p->w, (size_t)p->w));
	str_free(&file);
	str_free(&rows);
}

static struct picture picture_of(int32_t w, int32_t h)
{
	struct picture p;
	struct err e;

	CHECK(picture_init(&p, w, h, &e) == 0);
	for (int i = 0; i < 256; i++)
		for (int c = 0; c < 3; c++)
			p.rgb[i][c] = (uint8_t)test_rand();
	return p;
}

TEST(a_png_holds_what_was_drawn)
{
	static const int32_t size[][2] = { { 1, 1 }, { 2, 3 }, { 17, 5 }, { 300, 4 }, { 258, 9 }, { 1000, 60 }, { 40000, 3 } };

	for (size_t i = 0; i < sizeof size / sizeof *size; i++)
		for (int kind = 0; kind < 4; kind++) {
			struct picture p = picture_of(size[i][0], size[i][1]);
			size_t n = (size_t)p.w * (size_t)p.h;

			/* One colour; noise; runs; rows that are alike. */
			for (size_t k = 0; k < n && kind; k++)
				p.at[k] = kind == 1 ? (uint8_t)test_rand() : kind == 2 ? (k && test_rand() % 40 ? p.at[k - 1] : (uint8_t)test_rand()) :
				          k >= (size_t)p.w && test_rand() % 90 ? p.at[k - (size_t)p.w] : (uint8_t)test_rand();
			check_png(&p);
			picture_free(&p);
		}
}

TEST(runs_take_little_room)
{
	struct picture p = picture_of(1000, 1000);
	struct str file = { 0 };

	file_of(&p, "b.png", &file);
	CHECK_MSG(file.n < 8000, "%zu bytes", file.n);
	str_free(&file);
	picture_free(&p);
}

TEST(a_ppm_is_plain)
{
	struct picture p = picture_of(3, 2);
	struct str file = { 0 };

	picture_put(&p, 2, 1, 7);
	picture_put(&p, 3, 1, 9);    /* outside: nothing */
	picture_put(&p, -1, 0, 9);
	picture_put(&p, 0, 2, 9);
	file_of(&p, "c.ppm", &file);
	CHECK_INT(file.n, 11 + 18);
	CHECK(!memcmp(file.p, "P6\n3 2\n255\n", 11));
	for (int i = 0; i < 6; i++)
		CHECK(!memcmp(file.p + 11 + 3 * i, p.rgb[i == 5 ? 7 : 0], 3));
	str_free(&file);
	picture_free(&p);
}

TEST(lines_and_letters_are_where_they_should_be)
{
	struct picture p = picture_of(40, 20);
	int n = 0;

	picture_line(&p, 0, 0, 39, 19, 1);
	CHECK(p.at[0] == 1 && p.at[19 * 40 + 39] == 1);
	picture_line(&p, 5, 3, 5, 3, 2);
	CHECK(p.at[3 * 40 + 5] == 2);
	picture_line(&p, -100, 10, 100, 10, 3);
	for (int x = 0; x < 40; x++)
		CHECK_INT(p.at[10 * 40 + x], 3);
	memset(p.at, 0, 800);
	CHECK_INT(picture_text(&p, 1, 1, 2, 4, "i?L"), 25);
	/* The I's columns; nothing for what has no letter; the L's left column and foot. */
	CHECK(p.at[1 * 40 + 1] == 4 && p.at[5 * 40 + 3] == 4 && p.at[5 * 40 + 1] == 0);
	for (int y = 0; y < 20; y++)
		for (int x = 9; x < 17; x++)
			n += p.at[y * 40 + x] != 0;
	CHECK_INT(n, 0);
	CHECK(p.at[1 * 40 + 17] == 4 && p.at[10 * 40 + 22] == 4 && p.at[1 * 40 + 20] == 0);
	picture_text(&p, 36, 18, 3, 5, "over the edge");
	picture_free(&p);
}

TEST(a_place_that_cannot_be_written_is_an_error)
{
	struct picture p = picture_of(2, 2);
	struct err e = { 0 };

	CHECK(picture_write(&p, "/nowhere/at/all.png", &e) == -1 && e.code == ERR_FAIL && strstr(e.msg, "'/nowhere/at/all.png'"));
	picture_free(&p);
}
