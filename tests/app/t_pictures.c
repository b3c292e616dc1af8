/* tests/app/t_pictures.c - the pictures of the README and the manuals, with the default model: tests/pictures/NAME.svg
 * must equal, byte for byte, what the program shows at the command `screen` of NAME.keys (see play.h). `make pictures`
 * (WEIR_PICTURES=write) writes the files. */
#include <stdio.h>
#include <stdlib.h>

#include "app/tui/tui_private.h"
#include "kernels/backend.h"
#include "tests/app/play.h"
#include "tests/app/svg.h"
#include "tests/lib/test.h"

#define LEVEL "avx2"

/* Draw the picture. about: the words after `screen`, which describe it. The time is a minute later, so that no notice
 * covers the status row. */
static void draw(struct play *p, const char *about)
{
	svg_draw(ui_draw(p->t->ui, now_seconds() + 60), "dusk", about, &p->got);
}

/* Return a copy of the screen without the speed in the note below an answer, "[20 tokens, 23.6 t/s, context ...]",
 * because it differs from run to run. The caller frees `cell`. */
static struct grid screen_without_speed(struct play *p)
{
	static const char unit[] = " t/s, ";
	struct grid g = *ui_draw(p->t->ui, now_seconds() + 60);
	size_t bytes = (size_t)g.w * (size_t)g.h * sizeof *g.cell, n = sizeof unit - 1;

	g.cell = memcpy(malloc(bytes), g.cell, bytes);
	for (int y = 0; y < g.h; y++) {
		struct cell *row = g.cell + (size_t)y * (size_t)g.w;

		for (size_t x = 1, from; row->cp == '[' && x + n < (size_t)g.w; x++) {
			size_t k = 0;

			while (k < n && row[x + k].cp == unit[k])
				k++;
			for (from = x; k == n && row[from - 1].cp != ' '; from--)
				;
			if (k < n)
				continue;
			memmove(row + from, row + x + n, ((size_t)g.w - x - n) * sizeof *row);
			for (size_t i = (size_t)g.w - (x + n - from); i < (size_t)g.w; i++)
				row[i] = (struct cell){ .cp = ' ', .width = 1, .style = row[i].style };
		}
	}
	return g;
}

static void draw_with_notes(struct play *p, const char *about)
{
	struct grid g = screen_without_speed(p);

	svg_draw(&g, "dusk", about, &p->got);
	free(g.cell);
}

/* Draw an inline screen: the shell's command line, and below it everything from the first question on. The rows between
 * them are left out, because they tell a time that differs from run to run. */
static void draw_inline(struct play *p, const char *about)
{
	static const char command[] = "$ weir --inline parish.md";
	struct grid all = screen_without_speed(p), g = all;
	int first = 0;

	while (first < all.h && all.cell[first * all.w].cp != '>')
		first++;
	CHECK(first >= 2 && first < all.h);
	g.cell += (first - 2) * g.w;
	g.h -= first - 2;
	g.cursor_y -= first - 2;
	for (int x = 0; x < g.w; x++)
		g.cell[x].cp = x < (int)strlen(command) ? command[x] : ' ';
	svg_draw(&g, "dusk", about, &p->got);
	free(all.cell);
}

/* Skip the test on processors without this level of CPU kernels: logits of other levels differ in their last bits, so
 * later words of an answer may differ. */
static void skip_where_others(void)
{
	struct backend *be = NULL;
	char err[160] = "", text[64] = "";

	if (test_patience() > 1)
		SKIP("the build is slow; pictures are those of the ordinary one");
	setenv("WEIR_CPU", LEVEL, 1);
	if (!backend_open(&be, "cpu", &(struct backend_options){ .threads = 1 }, err)) {
		be->ops->describe(be, text, sizeof text);
		be->ops->close(be);
	}
	if (strncmp(text, "cpu " LEVEL ",", strlen("cpu " LEVEL ",")))
		SKIP("this processor has no " LEVEL);
}

/* Report the first line in which two files differ. */
static void compare(const char *path, const char *a, const char *b)
{
	for (int line = 1; *a || *b; line++) {
		int na = (int)strcspn(a, "\n"), nb = (int)strcspn(b, "\n");

		if (na != nb || memcmp(a, b, (size_t)na)) {
			test_fail(path, line,
			          "the program shows another picture (make pictures): expected |%.*s|, is |%.*s|", na,
			          a, nb, b);
			return;
		}
		a += na + (a[na] != 0);
		b += nb + (b[nb] != 0);
	}
}

/* Compare the drawn picture with the file, or write the file. */
static void check_or_write(const char *name, const struct str *drawn)
{
	char path[200], *expected;
	size_t n;

	snprintf(path, sizeof path, "tests/pictures/%.100s.svg", name);
	CHECK(drawn->n > 1000 && drawn->n < 60000);
	if (getenv("WEIR_PICTURES")) {
		FILE *f = fopen(test_file(path), "w");
		CHECK(f && fwrite(drawn->p, 1, drawn->n, f) == drawn->n && !fclose(f));
	} else {
		expected = test_read(test_file(path), &n);
		compare(path, expected ? expected : "", str_text(drawn));
		free(expected);
	}
}

static void picture_of_screen(const char *name)
{
	const char *const args[] = { "weir", "-m", test_model(), "--seed", "1", "-q", "--color", "always", NULL };
	struct play p = { .screen = draw };
	char keys[200];

	skip_where_others();
	snprintf(keys, sizeof keys, "tests/pictures/%.100s.keys", name);
	play_script(&p, keys, args, LEVEL);
	check_or_write(name, &p.got);
	str_free(&p.got);
}

TEST(cache)
{
	picture_of_screen("cache");
}

/* Without -q and with sampling, as users run weir. */
static void picture_as_used(const char *name, void (*screen)(struct play *, const char *))
{
	const char *const args[] = { "weir", "-m", test_model(), "--seed", "1", "--color", "always", NULL };
	struct play p = { .screen = screen };
	char keys[200];

	skip_where_others();
	snprintf(keys, sizeof keys, "tests/pictures/%.100s.keys", name);
	play_script(&p, keys, args, LEVEL);
	check_or_write(name, &p.got);
	str_free(&p.got);
}

TEST(document)
{
	picture_as_used("document", draw_with_notes);
}

TEST(inlined)
{
	picture_as_used("inline", draw_inline);
}
