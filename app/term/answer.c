/* app/term/answer.c - writes an answer to standard output: filters control characters, and wraps lines at the
 * terminal's width. It never splits a UTF-8 character. */
#include "app/term/term.h"

#include <string.h>
#include <unistd.h>

static struct output *mid_line; /* the answer that is in the middle of a line of the terminal, or NULL */

void output_init(struct output *out, int raw)
{
	*out = (struct output){ .filter = !raw || isatty(1), .to_terminal = isatty(1) };
	clean_init(&out->clean, 0);
}

void output_free(struct output *out)
{
	if (mid_line == out)
		mid_line = NULL;
	str_free(&out->held);
	str_free(&out->ready);
	wrap_free(&out->wrap);
}

static int output_ready(struct output *out, struct err *e)
{
	int rc;

	if (!out->ready.n)
		return 0;
	out->mid_line = out->ready.p[out->ready.n - 1] != '\n';
	mid_line = out->to_terminal && out->mid_line ? out : NULL;
	if (out->to_terminal) {
		struct str wrapped = { 0 };
		wrap_text(&out->wrap, terminal_width(1), out->ready.p, out->ready.n, &wrapped);
		rc = wrapped.n ? print_all(wrapped.p, wrapped.n, e) : 0;
		str_free(&wrapped);
	} else {
		rc = print_all(out->ready.p, out->ready.n, e);
	}
	str_clear(&out->ready);
	out->broken |= rc < 0;
	return rc;
}

int output_text(struct output *out, const char *bytes, size_t n, struct err *e)
{
	if (out->filter) {
		clean_text(&out->clean, bytes, n, &out->ready);
	} else {
		size_t whole;
		str_add(&out->held, bytes, n);
		whole = out->held.n ? utf8_complete(out->held.p, out->held.n) : 0;
		str_add(&out->ready, out->held.p, whole);
		if (whole) {
			memmove(out->held.p, out->held.p + whole, out->held.n - whole);
			out->held.n -= whole;
		}
	}
	return output_ready(out, e);
}

int output_end(struct output *out, struct err *e)
{
	if (out->filter) {
		clean_end(&out->clean, &out->ready);
	} else if (out->held.n) {
		str_adds(&out->ready, "\xef\xbf\xbd");
		str_clear(&out->held);
	}
	if (out->ready.n ? out->ready.p[out->ready.n - 1] != '\n' : out->mid_line)
		str_adds(&out->ready, "\n");
	if (output_ready(out, e) < 0)
		return -1;
	out->mid_line = 0;
	mid_line = NULL;
	return 0;
}

void output_break(void)
{
	struct output *out = mid_line;

	if (!out || !isatty(2))
		return;
	str_adds(&out->ready, "\n");
	output_ready(out, &(struct err){ 0 });
}
