/* engine/template/render_text.c - turns a conversation into text in three cases: with a template, without a template
 * (base models), and with an unfinished last message. */
#include "engine/template/chat.h"

#include <stdlib.h>
#include <string.h>

/* Return the text of a control token, which the caller frees. For id -1 the text is "". */
static char *token_text(const struct vocab *v, int32_t id)
{
	size_t n = id < 0 ? 0 : vocab_piece(v, id, 1, NULL, 0);
	char *s = xcalloc(n + 1, 1);

	if (n)
		vocab_piece(v, id, 1, s, n);
	return s;
}

/* Render for a base model: only the texts of the messages. A newline follows the system prompt and each answer that is
 * not the last message. */
static int compose_plain(const struct chat_msg *m, size_t n, struct chat_text *out, struct text_range *range,
                         struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		range[i] = (struct text_range){ .at = out->text.n, .n = m[i].len };
		if (m[i].len)
			str_add(&out->text, m[i].text, m[i].len);
		if ((m[i].role == ROLE_SYSTEM && m[i].len) || (m[i].role == ROLE_ASSISTANT && i + 1 < n))
			str_adds(&out->text, "\n");
	}
	return out->text.n ? 0 : err_set(e, ERR_USAGE, "there is no text to continue");
}

/* Shorten t to n bytes. */
static void cut_text(struct chat_text *t, size_t n)
{
	t->text.n = n;
	while (t->n_special && t->special[t->n_special - 1].off >= n)
		t->n_special--;
	if (t->n_special && t->special[t->n_special - 1].off + t->special[t->n_special - 1].len > n)
		t->special[t->n_special - 1].len = n - t->special[t->n_special - 1].off;
}

static int compose_closed(const struct chat_template *f, const struct vocab *v, const struct chat_msg *m, size_t n,
                          unsigned flags, struct chat_text *out, struct text_range *range, struct err *e)
{
	char *bos, *eos;
	int rc;

	if (!f)
		return compose_plain(m, n, out, range, e);
	bos = token_text(v, vocab_info(v)->bos);
	eos = token_text(v, vocab_info(v)->eos);
	rc = chat_write(f, bos, eos, m, n, flags, out, range, e);
	free(bos);
	free(eos);
	return rc;
}

/* Render a conversation whose last message is unfinished. Many templates strip white space at the end of a message. So
 * render the conversation twice, with "A" and with "1" at the end of the message, and truncate the text where the two
 * renderings begin to differ. */
static int compose_open(const struct chat_template *f, const struct vocab *v, const struct chat_msg *m, size_t n,
                        unsigned flags, struct chat_text *out, struct text_range *range, struct err *e)
{
	static const char *const way[2] = { "A", "1" };
	struct chat_msg *list = xcalloc(n, sizeof *list);
	struct chat_text other = { 0 };
	size_t same = 0;
	int rc = 0;

	memcpy(list, m, n * sizeof *m);
	for (int i = 0; i < 2 && !rc; i++) {
		struct str text = { 0 };

		str_add(&text, m[n - 1].text, m[n - 1].len);
		str_adds(&text, way[i]);
		list[n - 1].text = text.p;
		list[n - 1].len = text.n;
		rc = compose_closed(f, v, list, n, flags & REPLY_NO_THOUGHT, i ? &other : out, range, e);
		str_free(&text);
	}
	while (!rc && same < out->text.n && same < other.text.n && out->text.p[same] == other.text.p[same])
		same++;
	if (!rc)
		cut_text(out, same);
	if (!rc && range[n - 1].at != SIZE_MAX && range[n - 1].n)
		range[n - 1].n--;
	chat_text_free(&other);
	free(list);
	return rc;
}

int chat_compose(const struct chat_template *f, const struct vocab *v, const struct chat_msg *m, size_t n,
                 unsigned flags, struct chat_text *out, struct text_range *range, struct err *e)
{
	return flags & RENDER_OPEN && n ? compose_open(f, v, m, n, flags, out, range, e)
	                                : compose_closed(f, v, m, n, flags, out, range, e);
}

int chat_render_text(const struct chat_template *f, const struct vocab *v, const struct chat_msg *m, size_t n,
                     unsigned flags, const char *bos, const char *eos, struct str *out, struct err *e)
{
	char *own_bos = token_text(v, vocab_info(v)->bos), *own_eos = token_text(v, vocab_info(v)->eos);
	struct chat_text t = { 0 };
	int rc = chat_write(f, bos ? bos : own_bos, eos ? eos : own_eos, m, n, flags, &t, NULL, e);

	if (!rc && t.text.n)
		str_add(out, t.text.p, t.text.n);
	chat_text_free(&t);
	free(own_bos);
	free(own_eos);
	return rc;
}
