/* tests/app/t_gallery.c - every pane and dialog (tests/gallery/NAME.keys, see play.h): each screen has text, and a cursor
 * within it. The test plays them at 80 x 24. `make gallery` (WEIR_GALLERY=FOLDER) plays them at four sizes, with the
 * default model, and draws each screen in all themes as FOLDER/NAME-SIZE-THEME.svg: look at these pictures before you
 * commit a change of the screen. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/tui/tui_private.h"
#include "kernels/cpu/fns.h"
#include "tests/app/play.h"
#include "tests/app/svg.h"
#include "tests/lib/recite.h"
#include "tests/lib/test.h"
#include "ui/screen/theme.h"

static void write_picture(const struct grid *g, const char *name, const char *theme)
{
	struct str drawn = { 0 };
	char path[300];
	FILE *f;

	snprintf(path, sizeof path, "%.150s/%.60s-%dx%d-%s.svg", getenv("WEIR_GALLERY"), name, g->w, g->h, theme);
	svg_draw(g, theme, name, &drawn);
	f = fopen(path, "w");
	CHECK(f && fwrite(drawn.p, 1, drawn.n, f) == drawn.n && !fclose(f));
	str_free(&drawn);
}

/* Check that the screen has text and that the cursor is on the screen. */
static void look(struct play *p, const char *name)
{
	const struct grid *g = ui_draw(p->t->ui, now_seconds());
	int text = 0;

	for (int i = 0; i < g->w * g->h; i++)
		text += g->cell[i].cp != ' ';
	if (g->w != p->w || g->h != p->h || text < g->h || g->cursor_x >= g->w || g->cursor_y >= g->h)
		play_problem(p, name);
	for (size_t i = 0; getenv("WEIR_GALLERY") && theme_at(i); i++)
		write_picture(g, name, theme_at(i));
}

static void tour(const char *name)
{
	static const struct {
		int w, h;
	} sizes[] = { { 80, 24 }, { 120, 40 }, { 40, 12 }, { 20, 6 } };
	int draws = getenv("WEIR_GALLERY") != NULL;
	size_t n_sizes = draws ? LEN(sizes) : 1;
	char keys[200];

	if (!draws && recite_make() < 0) {
		test_fail(__FILE__, __LINE__, "the model cannot be written");
		return;
	}
	snprintf(keys, sizeof keys, "tests/gallery/%.100s.keys", name);
	for (size_t i = 0; i < n_sizes; i++) {
		const char *const args[] = { "weir",   "-m", draws ? test_model() : recite_model,
			                     "--temp", "0",  "--color",
			                     "always", NULL };
		struct play p = { .screen = look, .w = sizes[i].w, .h = sizes[i].h };

		play_script(&p, keys, args, draws ? cpu_level_name[1] : "c");
		str_free(&p.got);
	}
}

TEST(start)
{
	tour("start");
}
TEST(talk)
{
	tour("talk");
}
TEST(outgrown)
{
	tour("outgrown");
}
