/* app/remote/events.c - parses server-sent events as their bytes arrive (remote.h; WHATWG HTML, 9.2).
 *
 * A line ends with CR, LF or CR LF; an empty line ends an event. Only the field `data` is used; several data lines of
 * an event are joined by newlines. A line that begins with a colon is a comment, sent to keep the connection open. */
#include "app/remote/remote.h"

#include <string.h>

void sse_free(struct sse *s)
{
	str_free(&s->line);
	str_free(&s->data);
	*s = (struct sse){ 0 };
}

static int event_dispatch(struct sse *s, sse_fn *fn, void *ud, struct err *e)
{
	int rc = 0;

	if (s->has_data)
		rc = fn(str_text(&s->data), s->data.n, ud, e);
	str_clear(&s->data);
	s->has_data = 0;
	return rc ? -1 : 0;
}

/* Handle a complete line. */
static int take_line(struct sse *s, sse_fn *fn, void *ud, struct err *e)
{
	const char *p = str_text(&s->line), *colon;
	size_t n = s->line.n, name;

	if (!s->begun && n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
		p += 3;
		n -= 3;
	}
	s->begun = 1;
	if (!n)
		return event_dispatch(s, fn, ud, e);
	colon = memchr(p, ':', n);
	name = colon ? (size_t)(colon - p) : n;
	if (name != 4 || memcmp(p, "data", 4))
		return 0;
	p += colon ? name + 1 : name;
	n -= colon ? name + 1 : name;
	if (n && *p == ' ') {
		p++;
		n--;
	}
	if (s->data.n + n + 1 > SSE_EVENT_MOST)
		return err_set(e, ERR_FAIL, "the server sent an event of more than 1 MiB");
	if (s->has_data)
		str_adds(&s->data, "\n");
	str_add(&s->data, p, n);
	s->has_data = 1;
	return 0;
}

int sse_feed(struct sse *s, const char *bytes, size_t n, sse_fn *fn, void *ud, struct err *e)
{
	for (size_t i = 0; i < n;) {
		size_t from = i;
		int rc;

		if (s->cr && bytes[i] == '\n') { /* skip the LF of CR LF */
			s->cr = 0;
			i++;
			continue;
		}
		s->cr = 0;
		while (i < n && bytes[i] != '\n' && bytes[i] != '\r')
			i++;
		if (s->line.n + (i - from) > SSE_LINE_MOST)
			return err_set(e, ERR_FAIL, "the server sent a line of more than 1 MiB");
		str_add(&s->line, bytes + from, i - from);
		if (i == n)
			break;
		s->cr = bytes[i++] == '\r';
		rc = take_line(s, fn, ud, e);
		str_clear(&s->line);
		if (rc)
			return -1;
	}
	return 0;
}

int sse_end(struct sse *s, sse_fn *fn, void *ud, struct err *e)
{
	int rc = s->line.n ? take_line(s, fn, ud, e) : 0;

	str_clear(&s->line);
	return rc ? rc : event_dispatch(s, fn, ud, e);
}
