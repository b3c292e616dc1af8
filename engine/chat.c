/* engine/chat.c - recognises chat templates.
 *
 * Recognition compares the template's skeleton (chat_skeleton.c) with the known ones.  A known skeleton may have gaps in its
 * literals, mostly for a default system message; the template's text there is captured, and the family is then a copy of the
 * table row with these captures.  Callers hold plain pointers, so copies are never freed; equal ones are shared, and there are
 * at most MAX_DERIVED. */
#include "engine/chat_private.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DERIVED = 1024 };

const char *chat_name(const struct chat_family *f) { return f->name; }

const struct chat_family *chat_families(size_t i) { return i < chat_table_n ? &chat_table[i] : NULL; }

/* The first of the families' names, as many as fit an error message. */
static char *some_names(void)
{
	struct str o = {0};
	size_t i;
	for (i = 0; i < chat_table_n && o.n < 150; i++)
		str_addf(&o, "%s%s", i ? ", " : "", chat_table[i].name);
	str_addf(&o, " and %zu more", chat_table_n - i);
	return o.p;
}

/* ---- recognition ---- */

/* Decode the escapes of a literal printed by chat_skeleton().  The caller frees. */
static char *unescape(const char *p, size_t n)
{
	struct str o = {0};
	size_t i;

	str_add(&o, "", 0);
	for (i = 0; i < n; i++) {
		char c = p[i];
		if (c == '\\' && i + 1 < n) {
			c = p[++i];
			c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
		}
		str_add(&o, &c, 1);
	}
	return o.p;
}

static size_t skip_string(const char *p, size_t n, size_t i)      /* p[i] is the opening quote */
{
	for (i++; i < n && p[i] != '\''; i++)
		i += p[i] == '\\';
	return i + 1;
}

/* Length of the blocks and outputs from p[0] to the end of the enclosing block; with one_macro, of one macro at p[0]. */
static size_t skip_blocks(const char *p, size_t n, int one_macro)
{
	size_t i = 0, depth = 0;

	while (i < n) {
		if (p[i] == '\'') {
			i = skip_string(p, n, i);
			continue;
		}
		if (p[i] == '{') {
			const char *tag = p + i;
			size_t left = n - i;
			int macro = left > 8 && !memcmp(tag, "{%macro ", 8);
			if (!depth && one_macro && (i || !macro))
				return i;
			if (left >= 7 && !memcmp(tag, "{%end%}", 7)) {
				if (!depth--)
					return i;
				i += 6;
			} else if (!depth && left >= 5 && !memcmp(tag, "{%el", 4)) {
				return i;
			} else if (macro || (left > 6 && (!memcmp(tag, "{%for ", 6) || !memcmp(tag, "{%set ", 6))) ||
			           (left > 5 && !memcmp(tag, "{%if ", 5))) {
				depth++;
			}
		}
		i++;
	}
	return n;
}

/* 1 when the known skeleton matches all of text[0..n).  Fills cap[i] with allocated captures, also on failure. */
static int fits(const char *known, const char *text, size_t n, char *cap[CHAT_CAPTURES])
{
	static const char marks[] = "\1\2\3\4\5\6\7";
	size_t at = 0;

	while (*known) {
		size_t k = strcspn(known, marks), next;
		char mark = known[k];

		if (k > n - at || memcmp(known, text + at, k))
			return 0;
		known += k;
		at += k;
		if (!mark)
			break;
		next = strcspn(++known, marks);
		if (mark >= '\6') {
			for (k = 1; k && at < n && !(mark == '\7' && n - at >= next && !memcmp(text + at, known, next)); ) {
				k = skip_blocks(text + at, n - at, mark == '\7');
				at = k > n - at ? n : at + k;
				if (mark == '\6')
					break;
			}
			continue;
		}
		/* a gap in a literal: it ends where the known rest of the literal is found, within the literal */
		for (k = at; k < n && text[k] != '\''; k += text[k] == '\\' ? 2 : 1)
			if (next && n - k >= next && known[0] != '\'' && !memcmp(text + k, known, next))
				break;
		if (k > n || (mark != '\5' && cap[mark - 1]))
			return 0;
		if (mark != '\5')
			cap[mark - 1] = unescape(text + at, k - at);
		at = k;
	}
	return at == n;
}

static int same(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static int is_same_family(const struct chat_family *a, const struct chat_family *b)
{
	int i;
	if (a->name != b->name || !same(a->s.start, b->s.start))
		return 0;
	for (i = 0; i < CHAT_CAPTURES; i++)
		if (!same(a->cap[i], b->cap[i]))
			return 0;
	return 1;
}

/* The table row or lasting copy that equals *f; a new copy takes over the captures.  NULL: too many copies. */
static const struct chat_family *intern(struct chat_family *f, char *cap[CHAT_CAPTURES])
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct chat_family *kept[MAX_DERIVED];
	static size_t n;
	const struct chat_family *r = NULL;
	size_t i;

	for (i = 0; i < chat_table_n && !r; i++)
		if (is_same_family(&chat_table[i], f))
			r = &chat_table[i];
	pthread_mutex_lock(&lock);
	for (i = 0; i < n && !r; i++)
		if (is_same_family(kept[i], f))
			r = kept[i];
	if (!r && n < MAX_DERIVED) {
		kept[n] = xmalloc(sizeof *f);
		*kept[n] = *f;
		r = kept[n++];
		memset(cap, 0, CHAT_CAPTURES * sizeof *cap);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static void free_captures(char *cap[CHAT_CAPTURES])
{
	int i;
	for (i = 0; i < CHAT_CAPTURES; i++) {
		free(cap[i]);
		cap[i] = NULL;
	}
}

/* 1 and *out when row i knows the skeleton, 0 when not, -1 when there is no room for another family. */
static int try_row(size_t i, const char *text, size_t n, int bos, const struct chat_family **out)
{
	const struct chat_family *row = &chat_table[i];
	const char *const *k = row->skeletons;

	for (; k && *k; k++) {
		char *cap[CHAT_CAPTURES] = {0};
		int c, ok = fits(*k, text, n, cap);
		for (c = 0; ok && c < CHAT_CAPTURES && (row->flags & CHAT_FIXED); c++)
			ok = same(cap[c], row->cap[c]);
		if (ok) {
			struct chat_family f = *row;
			for (c = 0; c < CHAT_CAPTURES; c++)
				f.cap[c] = cap[c];
			/* chat_detect() removed a {bos_token} at the template's start: the family writes BOS there exactly when
			 * the template did, unless its skeletons have bos_token elsewhere. */
			if (strstr(*k, "bos_token"))
				ok = !bos;
			else if (f.s.start && !strncmp(f.s.start, "@b", 2))
				f.s.start += bos ? 0 : 2;
			else if (bos && !f.s.start)
				f.s.start = "@b";
			else
				ok = !bos;
			*out = ok ? intern(&f, cap) : NULL;
		}
		free_captures(cap);
		if (ok)
			return *out ? 1 : -1;
	}
	return 0;
}

/* The family that an unknown template resembles, as advice for --chat-template. */
static const char *looks_like(const char *text, size_t n)
{
	static const struct { const char *mark, *family; } known[] = {
		{ "<|im_start|>", "chatml" }, { "<|start_header_id|>", "llama3" }, { "<start_of_turn>", "gemma" },
		{ "<<SYS>>", "llama2" }, { "[INST]", "mistral" }, { "<|START_OF_TURN_TOKEN|>", "command-r" },
		{ "<|start_of_role|>", "granite" }, { "<|im_middle|>", "kimi" }, { "[gMASK]", "chatglm4" },
		{ "<｜User｜>", "deepseek-v3" }, { "<|channel|>", "gpt-oss" }, { "<|turn>", "gemma4" },
		{ "<|assistant|>", "phi3 or zephyr" }, { "### Instruction", "deepseek-coder" }, { "ASSISTANT:", "vicuna" },
	};
	size_t i;
	for (i = 0; i < sizeof known / sizeof *known; i++)
		if (memmem(text, n, known[i].mark, strlen(known[i].mark)))
			return known[i].family;
	return NULL;
}

int chat_detect(const struct chat_family **out, const char *text, size_t len, struct err *e)
{
	static const char bos[] = "{bos_token}";
	struct str s = {0};
	struct err why = {0};
	const char *p, *like;
	char *names;
	size_t i, n;
	int r = 0, has_bos;

	if (!chat_skeleton(text, len, &s, &why)) {
		p = s.p ? s.p : "";
		n = s.n;
		has_bos = n >= sizeof bos - 1 && !memcmp(p, bos, sizeof bos - 1);
		if (has_bos)
			p += sizeof bos - 1, n -= sizeof bos - 1;
		for (i = 0; i < chat_table_n && !r; i++)
			r = try_row(i, p, n, has_bos, out);
	}
	str_free(&s);
	if (r == 1)
		return 0;
	if (r < 0)
		return err_set(e, ERR_MODEL, "too many different chat templates have been loaded, the limit is %d; restart the program",
		               MAX_DERIVED);
	like = len <= CHAT_TEMPLATE_MAX ? looks_like(text, len) : NULL;
	names = some_names();
	err_set(e, ERR_MODEL, "the model's chat template is not supported%s%s%s%s%s; pass --chat-template NAME "
	        "(one of %s)", *why.msg ? ": " : "", why.msg, like ? "; it resembles '" : "", like ? like : "",
	        like ? "'" : "", names);
	free(names);
	return -1;
}

int chat_by_name(const struct chat_family **out, const char *name, struct err *e)
{
	char *names;
	size_t i;

	for (i = 0; i < chat_table_n; i++)
		if (!strcmp(chat_table[i].name, name)) {
			*out = &chat_table[i];
			return 0;
		}
	names = some_names();
	err_set(e, ERR_USAGE, "the chat template '%s' is not known; pass one of %s", name, names);
	free(names);
	return -1;
}

void chat_thinks(const struct chat_family *f, int *first, int *off)
{
	static const char open[] = "<think>\n";
	size_t n = f->s.reply ? strlen(f->s.reply) : 0;

	*first = n >= sizeof open - 1 && !strcmp(f->s.reply + n - (sizeof open - 1), open);
	*off = f->s.reply_off || f->write == write_smollm3;
}

/* ---- rendering ---- */

void chat_text_free(struct chat_text *t)
{
	str_free(&t->text);
	free(t->special);
	*t = (struct chat_text){0};
}

int chat_write(const struct chat_family *f, const char *bos, const char *eos, const struct chat_msg *m, size_t n,
               unsigned reply, struct chat_text *out, struct err *e)
{
	return chat_compose(f, bos, eos, m, n, reply, out, NULL, e);
}
