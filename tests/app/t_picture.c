/* tests/app/t_picture.c - pictures: what a PNG says, taken apart and inflated by zlib, is what was drawn. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "app/lab/picture.h"

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
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
	struct str file = { 0 };
	uint8_t *rows = NULL;
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
		CHECK_INT(be32(at + 8 + n), crc32(0, at + 4, n + 4));
		if (!memcmp(at + 4, "IHDR", 4)) {
			CHECK_INT(be32(at + 8), p->w);
			CHECK_INT(be32(at + 12), p->h);
			CHECK(!memcmp(at + 16, "\x08\x03\0\0\0", 5));
		} else if (!memcmp(at + 4, "PLTE", 4)) {
			CHECK(n == 768 && !memcmp(at + 8, p->rgb, 768));
		} else if (!memcmp(at + 4, "IDAT", 4)) {
			uLongf size = row * (size_t)p->h;

			rows = try_alloc(size, 1, "rows", NULL);
			CHECK_INT(uncompress(rows, &size, at + 8, n), Z_OK);
			CHECK_INT(size, row * (size_t)p->h);
		} else {
			ended = !memcmp(at + 4, "IEND", 4);
		}
		at += 12 + n;
	}
	CHECK(ended && at == end && rows);
	for (int32_t y = 0; rows && y < p->h; y++)
		CHECK(!rows[(size_t)y * row] &&
		      !memcmp(rows + (size_t)y * row + 1, p->at + (size_t)y * (size_t)p->w, (size_t)p->w));
	str_free(&file);
	free(rows);
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
	static const int32_t size[][2] = { { 1, 1 },   { 2, 3 },     { 17, 5 },   { 300, 4 },
		                           { 258, 9 }, { 1000, 60 }, { 40000, 3 } };

	for (size_t i = 0; i < LEN(size); i++)
		for (int kind = 0; kind < 4; kind++) {
			struct picture p = picture_of(size[i][0], size[i][1]);
			size_t n = (size_t)p.w * (size_t)p.h;

			/* One colour; noise; runs; rows that are alike. */
			for (size_t k = 0; k < n && kind; k++)
				p.at[k] = kind == 1   ? (uint8_t)test_rand()
				          : kind == 2 ? (k && test_rand() % 40 ? p.at[k - 1] : (uint8_t)test_rand())
				          : k >= (size_t)p.w && test_rand() % 90 ? p.at[k - (size_t)p.w]
				                                                 : (uint8_t)test_rand();
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
	picture_put(&p, 3, 1, 9); /* outside: nothing */
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

	CHECK(picture_write(&p, "/nowhere/at/all.png", &e) == -1 && e.code == ERR_FAIL &&
	      strstr(e.msg, "'/nowhere/at/all.png'"));
	picture_free(&p);
}
