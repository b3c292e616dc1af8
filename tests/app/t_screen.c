/* tests/app/t_screen.c - the whole program, drawing on a grid of cells instead of a terminal: plays scripts of keys
 * (tests/screens/NAME.keys, see play.h) and compares the screens with the expected ones (NAME.screen: "=== NAME" and
 * the screen, for each `screen NAME` of the script). WEIR_SCREENS=write writes the current screens as the expected
 * ones: look at them before you commit them. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/app/play.h"
#include "tests/lib/recite.h"
#include "tests/lib/test.h"

static void dump(struct play *p, const char *name)
{
	str_addf(&p->got, "=== %s\n", name);
	tui_dump(p->t, 0, &p->got);
}

/* Report the first line that differs from the expected screens, with the lines around it. */
static void compare(const struct play *p, const char *expected)
{
	const char *a = expected, *b = str_text(&p->got), *part = "";

	for (int line = 1; *a || *b; line++) {
		size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");

		if (na >= 4 && !strncmp(a, "=== ", 4))
			part = a + 4;
		if (na != nb || memcmp(a, b, na)) {
			test_fail(p->path, line, "screen '%.*s': expected |%.*s|, is |%.*s|", (int)strcspn(part, "\n"),
			          part, (int)na, a, (int)nb, b);
			fprintf(stderr, "%s", str_text(&p->got));
			return;
		}
		a += na + (a[na] != 0);
		b += nb + (b[nb] != 0);
	}
}

static void play(const char *name)
{
	const char *const args[] = { "weir", "-m", recite_model, "--temp", "0", "-q", "--threads", "1", NULL };
	struct play p = { .screen = dump };
	char keys[200], screen[200], *expected;
	size_t n;

	if (recite_make() < 0) {
		test_fail(__FILE__, __LINE__, "the model cannot be written");
		return;
	}
	snprintf(keys, sizeof keys, "tests/screens/%.100s.keys", name);
	snprintf(screen, sizeof screen, "tests/screens/%.100s.screen", name);
	play_script(&p, keys, args, "c"); /* kernels in plain C give the same answer on every machine */
	if (getenv("WEIR_SCREENS")) {
		FILE *f = fopen(test_file(screen), "w");
		if (f) {
			fwrite(p.got.p, 1, p.got.n, f);
			fclose(f);
		}
	} else {
		expected = test_read(test_file(screen), &n);
		compare(&p, expected ? expected : "");
		free(expected);
	}
	str_free(&p.got);
}

#define SCREEN(name)                                                                                                   \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		play(#name);                                                                                           \
	}
SCREEN(start)
SCREEN(chat)
SCREEN(stop)
SCREEN(commands)
SCREEN(back)
SCREEN(delete)
SCREEN(help)
SCREEN(search)
SCREEN(sessions)
SCREEN(document)
SCREEN(cache)
SCREEN(outgrown)
SCREEN(reading)
SCREEN(small)
SCREEN(tour)
SCREEN(wide)
