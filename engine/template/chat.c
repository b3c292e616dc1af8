/* engine/template/chat.c - finds, compiles and runs chat templates, which turn a conversation into text (chat.h). */
#include "engine/template/chat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gguf/gguf.h"
#include "engine/jinja/jinja.h"

struct chat_template {
	char name[32];
	struct jinja *jinja;
	int channels; /* 1: answers have channels */
	/* [role] 1: the template shows the text of the role only if the text is given as a list of parts
	 * (choose_parts()) */
	int in_parts[ROLE_ASSISTANT + 1];
	int loses_question; /* 1: the rendered text is the same for all questions (choose_parts()) */
};

/* ---- names ---- */

static void name_set(struct chat_template *t, const char *text, size_t n)
{
	uint64_t h = 14695981039346656037u;
	const char *known;

	for (size_t i = 0; (known = chat_builtin_name(i)); i++) {
		const char *s = chat_builtin_text(known);

		if (strlen(s) == n && !memcmp(s, text, n)) {
			snprintf(t->name, sizeof t->name, "%s", known);
			return;
		}
	}
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)text[i]) * 1099511628211u;
	snprintf(t->name, sizeof t->name, "jinja-%016" PRIx64, h);
}

static void choose_parts(struct chat_template *);

int chat_compile(struct chat_template **out, const char *text, size_t len, struct err *e)
{
	struct chat_template *t = xcalloc(1, sizeof *t);

	if (jinja_compile(&t->jinja, text, len, e) < 0) {
		free(t);
		return -1;
	}
	name_set(t, text, len);
	t->channels = memmem(text, len, CHANNEL_FINAL, sizeof CHANNEL_FINAL - 1) != NULL;
	choose_parts(t);
	*out = t;
	return 0;
}

void chat_free(struct chat_template *t)
{
	if (!t)
		return;
	jinja_free(t->jinja);
	free(t);
}

const char *chat_name(const struct chat_template *t)
{
	return t->name;
}

int chat_channels(const struct chat_template *t)
{
	return t->channels;
}

/* Return the names of the first built-in templates, about 120 bytes, for an error message. The caller frees the
 * text. */
static char *some_names(void)
{
	struct str o = { 0 };
	size_t n = 0, all = 0;
	const char *name;

	while (chat_builtin_name(all))
		all++;
	for (; (name = chat_builtin_name(n)) && o.n < 120; n++)
		str_addf(&o, "%s%s", n ? ", " : "", name);
	if (n < all)
		str_addf(&o, " and %zu more", all - n);
	return o.p;
}

static int open_file(struct chat_template **out, const char *path, struct err *e)
{
	FILE *f = fopen(path, "rb");
	char *text;
	size_t n;
	int rc;

	if (!f)
		return err_set(e, ERR_USAGE, "the chat template '%s' cannot be read: %s", path, strerror(errno));
	text = xmalloc(JINJA_TEXT_MAX + 2);
	n = fread(text, 1, JINJA_TEXT_MAX + 1, f);
	rc = ferror(f) ? err_set(e, ERR_USAGE, "the chat template '%s' cannot be read: %s", path, strerror(errno))
	               : chat_compile(out, text, n, e);
	fclose(f);
	free(text);
	return rc;
}

/* Compile the model's default template: the template without a name, or else the template called "default". If the
 * model has neither, set *out to NULL. */
static int open_own(struct chat_template **out, const struct gguf *g, struct err *e)
{
	struct view text = { 0 };

	*out = NULL;
	if (gguf_find(g, "tokenizer.chat_template"))
		return gguf_string(g, "tokenizer.chat_template", &text, e) != 1 ? -1
		                                                                : chat_compile(out, text.p, text.n, e);
	if (gguf_string(g, "tokenizer.chat_template.default", &text, NULL) == 1)
		return chat_compile(out, text.p, text.n, e);
	return 0;
}

int chat_find(struct chat_template **out, const struct gguf *g, const char *name, struct err *e)
{
	const char *known = name ? chat_builtin_text(name) : NULL;
	struct view text = { 0 };
	struct str key = { 0 };
	char *names;
	int own;

	if (!name)
		return open_own(out, g, e);
	if (known)
		return chat_compile(out, known, strlen(known), e);
	str_addf(&key, "tokenizer.chat_template.%s", name);
	own = g && gguf_string(g, key.p, &text, NULL) == 1;
	str_free(&key);
	if (own)
		return chat_compile(out, text.p, text.n, e);
	if (strchr(name, '/') || strstr(name, ".jinja"))
		return open_file(out, name, e);
	names = some_names();
	err_set(e, ERR_USAGE, "the chat template '%s' is not known; pass the path of a file (./%s) or one of %s", name,
	        name, names);
	free(names);
	return -1;
}

/* ---- text ---- */

struct writer {
	const struct chat_msg *m;
	struct chat_text *out;
	struct text_range *range;
	/* A run is a range of one message that has been copied without changes to the end of the text. The next piece
	 * of the message may extend the run. */
	int32_t last;     /* index of the message from which the run was copied; -1: there is no run */
	size_t from, at;  /* where the run starts: `from` is its offset in the message, `at` its offset in the text */
	const char *next; /* points into the message, to the byte after the run */
};

/* Record that the next n bytes of the text come from the template and not from a message. */
static void add_special(struct chat_text *o, size_t n)
{
	struct span *last = o->n_special ? o->special + o->n_special - 1 : NULL;

	if (last && last->off + last->len == o->text.n) {
		last->len += n;
		return;
	}
	GROW(o->special, o->n_special, o->cap_special);
	o->special[o->n_special++] = (struct span){ o->text.n, n };
}

/* Copying a message to the text may take several pieces. A run is a sequence of pieces that are adjacent both in the
 * message and in the text. Extend the current run by the piece `x`, or begin a new run if `x` does not continue it. The
 * message's range in the text is its longest run. */
static void add_message(struct writer *w, const struct jinja_piece *x)
{
	struct text_range *range = &w->range[x->from];
	size_t n;

	if (w->last != x->from || w->next != x->p) {
		w->last = x->from;
		w->from = (size_t)(x->p - w->m[x->from].text);
		w->at = w->out->text.n;
	}
	w->next = x->p + x->n;
	n = (size_t)(w->next - w->m[x->from].text) - w->from;
	if (range->at == SIZE_MAX || n >= range->n)
		*range = (struct text_range){ .at = w->at, .from = w->from, .n = n };
}

static void write_piece(void *ud, const struct jinja_piece *x)
{
	struct writer *w = ud;

	if (x->from == JINJA_TEMPLATE)
		add_special(w->out, x->n);
	if (x->from >= 0 && w->range)
		add_message(w, x);
	else
		w->last = -1;
	str_add(&w->out->text, x->p, x->n);
}

void chat_text_free(struct chat_text *t)
{
	str_free(&t->text);
	free(t->special);
	*t = (struct chat_text){ 0 };
}

int chat_write(const struct chat_template *t, const char *bos, const char *eos, const struct chat_msg *m, size_t n,
               unsigned flags, struct chat_text *out, struct text_range *range, struct err *e)
{
	static const char *const role[] = { "system", "user", "assistant" };
	struct writer w = { .m = m, .out = out, .range = range, .last = -1 };
	struct jinja_message *list = xcalloc(n + 1, sizeof *list);
	struct jinja_chat c = { .m = list, .n = n, .bos = bos, .eos = eos, .reply = (flags & REPLY_HEAD) != 0 };
	int rc;

	c.thinking = flags & REPLY_NO_THOUGHT ? 0 : flags & REPLY_THOUGHT ? 1 : -1;
	for (size_t i = 0; i < n; i++) {
		list[i] = (struct jinja_message){
			.role = m[i].role_name ? m[i].role_name : role[m[i].role],
			.text = m[i].text,
			.len = m[i].len,
			.in_parts = t->in_parts[m[i].role_name ? ROLE_USER : m[i].role],
		};
		if (range)
			range[i] = (struct text_range){ .at = SIZE_MAX };
	}
	rc = n ? jinja_run(t->jinja, &c, write_piece, &w, e) : err_set(e, ERR_USAGE, "there is no message to render");
	free(list);
	if (!rc && t->channels && flags & REPLY_HEAD && flags & REPLY_NO_THOUGHT)
		write_piece(&w, &(struct jinja_piece){
					.p = CHANNEL_FINAL, .n = sizeof CHANNEL_FINAL - 1, .from = JINJA_TEMPLATE });
	return rc;
}

/* Render a single question with these flags, and return the text, or "" if the template refuses the question. */
static struct str render_question(const struct chat_template *t, unsigned flags)
{
	struct chat_msg m = { .role = ROLE_USER, .text = "Hi", .len = 2 };
	struct chat_text text = { 0 };

	if (chat_write(t, "", "", &m, 1, REPLY_HEAD | flags, &text, NULL, NULL) < 0)
		text.text.n = 0;
	free(text.special);
	return text.text;
}

int chat_thinks_first(const struct chat_template *t, unsigned flag)
{
	struct str head = render_question(t, flag);
	const struct reasoning_mark *mark;
	size_t n = head.n, len;
	int opens = 0;

	while (n && (head.p[n - 1] == '\n' || head.p[n - 1] == ' '))
		n--;
	for (size_t i = 0; (mark = reasoning_mark_at(i)) && !opens; i++) {
		len = strlen(mark->open);
		opens = n >= len && !memcmp(head.p + n - len, mark->open, len);
	}
	str_free(&head);
	return opens;
}

int chat_flag_matters(const struct chat_template *t, unsigned flag)
{
	struct str plain = render_question(t, 0), with = render_question(t, flag);
	int differ = plain.n && with.n && (plain.n != with.n || memcmp(plain.p, with.p, plain.n) != 0);

	str_free(&plain);
	str_free(&with);
	return differ;
}

/* ---- capabilities of a template, found by rendering ---- */

/* 1 if the rendered text contains the text of every message m[n]; 0 if the text of a message is missing; -1 if the
 * template refuses the messages. */
static int shows_all(const struct chat_template *t, const struct chat_msg *m, size_t n)
{
	struct chat_text text = { 0 };
	struct err none = { 0 };
	int shown = chat_write(t, "", "", m, n, REPLY_HEAD, &text, NULL, &none) < 0 ? -1 : 1;

	for (size_t i = 0; i < n && shown > 0; i++)
		shown = text.text.n && memmem(text.text.p, text.text.n, m[i].text, m[i].len) != NULL;
	chat_text_free(&text);
	return shown;
}

/* messages for trying out a template; no template contains their words */
#define SAID(r, words)                                                                                                 \
	{                                                                                                              \
		.role = (r), .text = words, .len = sizeof(words) - 1                                                   \
	}
static const struct chat_msg said[] = {
	SAID(ROLE_SYSTEM, "Answer like zu7q."),
	SAID(ROLE_USER, "Why is q7uz?"),
	SAID(ROLE_ASSISTANT, "Because 7uqz."),
	SAID(ROLE_USER, "Is u7zq?"),
};

/* 1 if the rendered text changes with the text of message `which`; 0 if it does not change; -1 if the template refuses
 * the messages. The messages are rendered twice, the second time with the bytes of message `which` reversed. So the
 * result is 1 even for a template that changes or shortens the message. */
static int depends_on(const struct chat_template *t, const struct chat_msg *m, size_t n, size_t which)
{
	struct chat_msg other[LEN(said)];
	struct chat_text text[2] = { 0 };
	struct err none = { 0 };
	char words[32];
	int differ = -1;

	memcpy(other, m, n * sizeof *m);
	for (size_t i = 0; i < m[which].len; i++)
		words[i] = m[which].text[m[which].len - 1 - i];
	other[which].text = words;
	if (!chat_write(t, "", "", m, n, REPLY_HEAD, &text[0], NULL, &none) &&
	    !chat_write(t, "", "", other, n, REPLY_HEAD, &text[1], NULL, &none))
		differ = text[0].text.n != text[1].text.n ||
		         (text[0].text.n && memcmp(text[0].text.p, text[1].text.p, text[0].text.n));
	chat_text_free(&text[0]);
	chat_text_free(&text[1]);
	return differ;
}

/* Set in_parts for each role whose text the template shows only as a list of parts, as some templates of multimodal
 * models do. Set loses_question if the template omits a question's text, both as plain text and as a list of parts. */
static void choose_parts(struct chat_template *t)
{
	static const struct {
		enum chat_role role;
		size_t from, n;
	} tried[] = { { ROLE_USER, 1, 1 }, { ROLE_SYSTEM, 0, 2 }, { ROLE_ASSISTANT, 1, 3 } };
	int seen;

	for (size_t i = 0; i < LEN(tried); i++) {
		const struct chat_msg *m = said + tried[i].from;
		enum chat_role role = tried[i].role;
		size_t which = role == ROLE_ASSISTANT;

		seen = depends_on(t, m, tried[i].n, which);
		if (seen > 0)
			continue;
		t->in_parts[role] = 1;
		if (depends_on(t, m, tried[i].n, which) > 0)
			continue;
		t->in_parts[role] = 0;
		if (role == ROLE_USER) {
			t->loses_question = !seen;
			return;
		}
	}
}

int chat_shows_question(const struct chat_template *t)
{
	return !t->loses_question;
}

int chat_takes_system(const struct chat_template *t)
{
	return shows_all(t, said, 2) > 0;
}

int chat_wants_turns(const struct chat_template *t)
{
	return shows_all(t, (struct chat_msg[]){ said[1], said[3] }, 2) <= 0;
}
