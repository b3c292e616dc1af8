/* tests/app/t_patterns_answers.c - parsers of servers' answers, reasoning and the passages of documents over repeating
 * patterns take time in proportion to the text (tests/lib/patterns.h). */
#include "app/conversation/conversation.h"
#include "app/remote/remote.h"
#include "engine/base/json.h"
#include "engine/base/sentences.h"
#include "tests/lib/patterns.h"

/* ---- passes ---- */

static void pass_passages(const char *p, size_t n)
{
	struct passage *out;

	passages_cut(p, n, &out);
	free(out);
}

static void pass_places(const char *p, size_t n)
{
	for (size_t at = 1; at < n; at++)
		text_break(p, n, at);
}

static int on_event(const char *data, size_t n, void *ud, struct err *e)
{
	struct chunk c = { .fault = 0 };

	(void)ud, (void)e;
	chunk_clear(&c);
	chunk_parse(&c, data, n);
	chunk_free(&c);
	return 0;
}

static void pass_events(const char *p, size_t n)
{
	struct sse s = { 0 };
	struct err e;

	for (size_t i = 0; i < n; i += 1000)
		if (sse_feed(&s, p + i, n - i < 1000 ? n - i : 1000, on_event, NULL, &e) < 0)
			break;
	sse_end(&s, on_event, NULL, &e);
	sse_free(&s);
}

static void walk_json(struct jv v)
{
	struct jv it = { 0 }, key;
	struct str s = { 0 };
	double number;

	while (jv_next(v, &it, &key)) {
		str_clear(&s);
		jv_text(it, &s);
		jv_number(it, &number);
	}
	jv_get(v, "none");
	str_free(&s);
}

/* Parse the pattern as the content of a list, an object and a string, and unchanged. */
static void pass_json(const char *p, size_t n)
{
	static struct str s;

	for (int i = 0; i < 4; i++) {
		struct chunk c = { .fault = 0 };

		wrap(&s,
		     i == 0   ? "["
		     : i == 1 ? "{\"a\":["
		     : i == 2 ? "{\"choices\":[{\"delta\":{\"content\":\""
		              : "",
		     p, n, 0,
		     i == 0   ? "1]"
		     : i == 1 ? "1]}"
		     : i == 2 ? "\"}}]}"
		              : "");
		json_valid(s.p, s.n);
		walk_json(jv_parse(s.p, s.n));
		chunk_clear(&c);
		chunk_parse(&c, s.p, s.n);
		chunk_free(&c);
	}
}

static void pass_reasoning(const char *p, size_t n)
{
	static struct str out;
	struct reasoning r = { .first = 0 };

	str_clear(&out);
	for (size_t i = 0; i < n; i += 5)
		reasoning_feed(&r, p + i, n - i < 5 ? n - i : 5, &out);
	reasoning_end(&r, &out);
	reasoning_free(&r);
	reasoning_length(p, n);
	str_clear(&out);
	str_add(&out, p, n);
	reasoning_closed(out.p);
}

static const struct pass passes[] = {
	{ "passages", pass_passages, 2 }, { "places", pass_places, 2 },       { "events of a server", pass_events, 2 },
	{ "JSON", pass_json, 2 },         { "reasoning", pass_reasoning, 2 },
};

TEST(twice_the_text_takes_no_more_than_three_times_as_long)
{
	measure_all(passes, LEN(passes));
}
