/* tests/app/t_pictures.c - the pictures of the README and the manuals, with the default model: tests/pictures/NAME.svg must be, byte for
 * byte, what the program shows.  A picture is the one `screen` of NAME.keys (see play.h), or the command NAME.sh with what it prints.
 * `make pictures` (WEIR_PICTURES=write) writes the files. */
#include <stdio.h>
#include <stdlib.h>

#include "app/tui/tui_private.h"
#include "kernels/backend.h"
#include "tests/app/play.h"
#include "tests/app/svg.h"
#include "tests/lib/test.h"

#define LEVEL "avx2"

/* The words behind `screen` say what the picture shows; a minute later, so that no notice covers the status row. */
static void draw(struct play *p, const char *about)
{
	svg_draw(ui_draw(p->t->ui, now_seconds() + 60), "dusk", about, &p->got);
}

/* Answers of another level differ in their last bits, and so do their words sooner or later. */
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

/* The first line that differs. */
static void compare(const char *path, const char *a, const char *b)
{
	for (int line = 1; *a || *b; line++) {
		int na = (int)strcspn(a, "\n"), nb = (int)strcspn(b, "\n");

		if (na != nb || memcmp(a, b, (size_t)na)) {
			test_fail(path, line, "the program shows another picture (make pictures): expected |%.*s|, is |%.*s|", na, a, nb, b);
			return;
		}
		a += na + (a[na] != 0);
		b += nb + (b[nb] != 0);
	}
}

/* What was drawn against the file, or into the file. */
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
		compare(path, expected ? expected : "", drawn->p ? drawn->p : "");
		free(expected);
	}
}

static void picture_of_screen(const char *name)
{
	const char *const args[] = {"weir", "-m", test_model(), "--temp", "0", "-q", "--color", "always", NULL};
	struct play p = {.screen = draw};
	char keys[200];

	skip_where_others();
	snprintf(keys, sizeof keys, "tests/pictures/%.100s.keys", name);
	play_script(&p, keys, args, LEVEL);
	check_or_write(name, &p.got);
	str_free(&p.got);
}

/* The command of NAME.sh, and what it prints where that file lies. */
static void run_command(const char *name, struct str *command, struct str *output)
{
	const char *weir = getenv("WEIR");
	char path[200], shell[600], buf[4096], *text;
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "tests/pictures/%.100s.sh", name);
	text = test_read(test_file(path), &n);
	str_addf(command, "$ %s", text ? text : "");
	free(text);
	/* The program is called by its name, as users do. */
	snprintf(shell, sizeof shell, "PATH=$(dirname \"$(realpath '%.200s')\"):$PATH; export PATH WEIR_MODEL='%.200s' WEIR_CPU=" LEVEL
	         "; cd tests/pictures && sh %.60s.sh 2>/dev/null </dev/null", weir ? weir : "./weir", test_model(), name);
	f = popen(shell, "r");
	CHECK(f != NULL);
	while (f && (n = fread(buf, 1, sizeof buf, f)) > 0)
		str_add(output, buf, n);
	CHECK(f && pclose(f) == 0);
}

/* Lines of ASCII from row y on, broken at the edge as a terminal breaks them; returns the row behind them.  g may be NULL. */
static int put_lines(struct grid *g, int w, int y, unsigned style, const char *text)
{
	while (*text) {
		int n = (int)strcspn(text, "\n");
		struct area a;

		n = n < w ? n : w;
		if (g) {
			a = area_of(g);
			area_text(&a, 0, y, style, text, (size_t)n);
		}
		text += n + (text[n] == '\n');
		y++;
	}
	return y;
}

static void picture_of_command(const char *name, const char *about)
{
	enum { WIDTH = 100 };
	struct str command = {0}, output = {0}, drawn = {0};
	struct grid g = {0};

	skip_where_others();
	run_command(name, &command, &output);
	if (command.n && output.n) {
		grid_resize(&g, WIDTH, put_lines(NULL, WIDTH, put_lines(NULL, WIDTH, 0, 0, command.p), 0, output.p));
		put_lines(&g, WIDTH, put_lines(&g, WIDTH, 0, ST_QUESTION, command.p), ST_TEXT, output.p);
		svg_draw(&g, "dusk", about, &drawn);
	}
	check_or_write(name, &drawn);
	str_free(&command);
	str_free(&output);
	str_free(&drawn);
	grid_free(&g);
}

TEST(chat) { picture_of_screen("chat"); }
TEST(cache) { picture_of_screen("cache"); }
TEST(document) { picture_of_command("document", "A question about a document, its answer, and the passages that the answer rests on"); }
