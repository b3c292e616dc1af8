/* tests/ui/t_patterns_screen.c - on repeating patterns the time is in proportion to the text (tests/lib/patterns.h):
 * the filter, wrapping, Markdown, the transcript, keys. */
#include "tests/lib/patterns.h"
#include "ui/panes/doc_text.h"
#include "ui/screen/keys.h"
#include "ui/text/text.h"
#include "ui/transcript/lines.h"
#include "ui/transcript/transcript_private.h"

/* ---- passes ---- */

static void clean_of(const char *p, size_t n, struct str *out)
{
	struct clean c;

	str_clear(out);
	clean_init(&c, 0);
	clean_text(&c, p, n, out);
	clean_end(&c, out);
}

static void pass_clean(const char *p, size_t n)
{
	static struct str out;
	struct clean c;

	clean_of(p, n, &out);
	str_clear(&out);
	clean_init(&c, CLEAN_SHOW);
	for (size_t i = 0; i < n; i += 7)
		clean_text(&c, p + i, n - i < 7 ? n - i : 7, &out);
	clean_end(&c, &out);
	str_clear(&out);
	clean_line(p, n, &out);
}

static void pass_wrap(const char *p, size_t n)
{
	static struct str clean, out;
	struct lines l = { 0 };
	struct wrap w = { 0 };

	clean_of(p, n, &clean);
	str_clear(&out);
	wrap_text(&w, 80, clean.p, clean.n, &out);
	wrap_free(&w);
	lines_plain(&l, clean.p, clean.n, 80, 0);
	lines_free(&l);
}

static void pass_markdown(const char *p, size_t n)
{
	static struct str clean, code;
	struct lines l = { 0 };

	clean_of(p, n, &clean);
	lines_markdown(&l, clean.p, clean.n, 80);
	lines_free(&l);
	str_clear(&code);
	markdown_code(clean.p, clean.n, 1, &code);
}

static void pass_growing(const char *p, size_t n)
{
	static struct str clean;
	struct lines l = { 0 };
	struct growth g = { 0 };

	clean_of(p, n, &clean);
	for (size_t k = 4000; k < clean.n + 4000; k += 4000)
		lines_grow_markdown(&l, &g, clean.p, MIN(k, clean.n), 80);
	lines_free(&l);
}

static void pass_code(const char *p, size_t n)
{
	static const char *const languages[] = { "c", "python", "html", "sh", "lua", "ruby", "json" };
	static struct str clean;

	clean_of(p, n, &clean);
	for (size_t i = 0; i < LEN(languages); i++) {
		struct code c;
		unsigned style;

		code_start(&c, languages[i], strlen(languages[i]));
		for (size_t at = 0, end; at < clean.n; at = end + 1) {
			end = line_end(clean.p, clean.n, at);
			for (size_t k = 0; k < end - at;)
				k = code_token(&c, clean.p + at, end - at, k, &style);
			code_newline(&c);
		}
	}
}

static struct grid *screen(void)
{
	static struct grid grid;

	if (!grid.w)
		grid_resize(&grid, 80, 24);
	return &grid;
}

/* Use the transcript like the screen: draw the end, search, go to the top, copy. */
static void look(struct transcript *t)
{
	struct area a = area_of(screen());
	static struct str copy;
	size_t at;

	transcript_draw(t, &a);
	transcript_search(t, "zq", 0, &at);
	transcript_search(t, "a", -1, &at);
	transcript_search(t, NULL, 0, NULL);
	transcript_top(t);
	transcript_draw(t, &a);
	transcript_scroll(t, 50);
	transcript_draw(t, &a);
	str_clear(&copy);
	transcript_copy_all(t, &copy);
	transcript_copy_code(t, 1, &copy);
}

static void transcript_whole(enum ui_role role, const char *p, size_t n)
{
	struct transcript *t = transcript_new();

	transcript_add(t, role, p, n);
	transcript_end(t, NULL);
	look(t);
	transcript_free(t);
}

static void pass_answer(const char *p, size_t n)
{
	transcript_whole(UI_ASSISTANT, p, n);
}
static void pass_message(const char *p, size_t n)
{
	transcript_whole(UI_USER, p, n);
}

/* The answer comes in pieces of a token or two and is drawn as often as a fast answer on the screen. */
static void pass_answer_grows(const char *p, size_t n)
{
	struct transcript *t = transcript_new();
	struct area a = area_of(screen());

	transcript_add(t, UI_ASSISTANT, "", 0);
	for (size_t i = 0, count = 0; i < n; i += 5, count++) {
		transcript_append(t, p + i, n - i < 5 ? n - i : 5);
		if (count % 800 == 0)
			transcript_draw(t, &a);
	}
	transcript_end(t, NULL);
	look(t);
	transcript_free(t);
}

static void pass_document_pane(const char *p, size_t n)
{
	struct doc_text t = { 0 };

	str_adds(&t.name, "a.md");
	t.raw = xstrndup(p, n);
	t.n_raw = n;
	doc_text_ready(&t, 0);
	for (size_t at = 0; at < t.text.n; at += t.text.n / 64 + 1) {
		doc_text_page(&t, (uint32_t)at);
		doc_text_head(&t, (uint32_t)at);
		doc_text_line(&t, (uint32_t)at);
	}
	doc_text_free(&t);
}

static void no_key(const struct key *k, void *ud)
{
	(void)k, (void)ud;
}

/* Typed, or pasted into a terminal that marks no pastes. */
static void pass_keys(const char *p, size_t n)
{
	struct keys k = { 0 };

	for (size_t i = 0; i < n; i += 4096)
		keys_feed(&k, p + i, n - i < 4096 ? n - i : 4096, 1, no_key, NULL);
	keys_free(&k);
}

static const struct pass passes[] = {
	{ "the filter", pass_clean, 2 },
	{ "wrapping", pass_wrap, 2 },
	{ "Markdown", pass_markdown, 2 },
	{ "Markdown that grows", pass_growing, 1 },
	{ "colours of code", pass_code, 2 },
	{ "an answer on the screen", pass_answer, 1 },
	{ "an answer that grows on the screen", pass_answer_grows, 1 },
	{ "a message on the screen", pass_message, 1 },
	{ "the pane of documents", pass_document_pane, 2 },
	{ "keys", pass_keys, 2 },
};

TEST(twice_the_text_takes_no_more_than_three_times_as_long)
{
	measure_all(passes, LEN(passes));
}
