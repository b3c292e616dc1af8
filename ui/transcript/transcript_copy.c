/* ui/transcript/transcript_copy.c - copies messages for the clipboard. Control characters are removed, because some
 * programs obey control characters in pasted text. */
#include "ui/transcript/transcript_private.h"

static void add_copy(struct str *out, const struct str *raw)
{
	for (size_t i = 0, len; i < raw->n; i += len) {
		int32_t cp;

		len = (size_t)utf8_decode(raw->p + i, raw->n - i, &cp);
		if (cp < 0)
			str_adds(out, "\xef\xbf\xbd");
		else if (cp == '\n' || cp == '\t' || (cp >= 0x20 && cp < 0x7f) || cp > 0x9f)
			str_add(out, raw->p + i, len);
	}
}

/* Append a text with all its parts, because a long text is split into several entries. */
static void add_parts(const struct transcript *t, size_t entry, struct str *out)
{
	do
		add_copy(out, &t->entry[entry].raw);
	while (t->entry[entry++].more);
}

int transcript_copy_message(const struct transcript *t, size_t message, struct str *out)
{
	if (message >= t->n_message)
		return 0;
	add_parts(t, t->message[message], out);
	return 1;
}

int transcript_copy_focus(const struct transcript *t, struct str *out)
{
	if (!t->n)
		return 0;
	add_parts(t, transcript_focus(t), out);
	return 1;
}

int transcript_copy_code(const struct transcript *t, size_t which, struct str *out)
{
	struct str text = { 0 };
	int found = 0;

	for (size_t i = t->n_message; which && i-- > 0 && !found;) {
		const struct entry *e = &t->entry[t->message[i]];
		size_t n;

		if (e->role != UI_ASSISTANT)
			continue;
		str_clear(&text);
		add_parts(t, t->message[i], &text);
		if (!text.n)
			continue;
		n = markdown_code(text.p, text.n, 0, out);
		if (which > n) {
			which -= n;
			continue;
		}
		markdown_code(text.p, text.n, n - which + 1, out);
		found = 1;
	}
	str_free(&text);
	return found;
}

int transcript_copy_all(const struct transcript *t, struct str *out)
{
	struct str text = { 0 };

	for (size_t i = 0; i < t->n_message; i++) {
		const struct entry *e = &t->entry[t->message[i]];
		size_t n;

		str_clear(&text);
		add_parts(t, t->message[i], &text);
		for (n = text.n; n && text.p[n - 1] == '\n'; n--)
			;
		if (i)
			str_adds(out, "\n");
		/* quote questions, to distinguish them from answers */
		for (size_t k = 0; k < n; k++) {
			if (e->role == UI_USER && (!k || text.p[k - 1] == '\n'))
				str_adds(out, "> ");
			str_add(out, text.p + k, 1);
		}
		str_adds(out, "\n");
	}
	str_free(&text);
	return t->n_message > 0;
}
