/* engine/chat_write.c - renders a conversation as a family's template does.
 *
 * write_plain() uses formats (struct chat_style); families whose templates rewrite answers or keep state have their own
 * writer.  All write through literal(), whose bytes are marked as the template's own, and content(), whose bytes are not: only
 * marked bytes may become control tokens. */
#include "engine/chat_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- output ---- */

static void fail(struct writer *w, const char *why)
{
	if (!w->failed)
		err_set(w->e, ERR_USAGE, "the chat template '%s' %s", w->f->name, why);
	w->failed = 1;
}

static void literal_n(struct writer *w, const char *p, size_t n)
{
	struct chat_text *o = w->out;
	struct span *last = o->n_special ? o->special + o->n_special - 1 : NULL;

	if (!n)
		return;
	if (last && last->off + last->len == o->text.n) {
		last->len += n;
	} else {
		if (o->n_special == o->cap_special) {
			o->cap_special = o->cap_special ? o->cap_special * 2 : 16;
			o->special = xrealloc(o->special, o->cap_special * sizeof *o->special);
		}
		o->special[o->n_special++] = (struct span){ o->text.n, n };
	}
	str_add(&o->text, p, n);
}

static void literal(struct writer *w, const char *s) { literal_n(w, s, strlen(s)); }

/* Write text of message i; SIZE_MAX: of no single message.  Of several parts of a message the longest has the place. */
static void content(struct writer *w, struct part v, size_t i)
{
	if (w->place && i < w->n && v.p >= w->m[i].text && v.p + v.n <= w->m[i].text + w->m[i].len &&
	    (w->place[i].at == SIZE_MAX || v.n >= w->place[i].n))
		w->place[i] = (struct text_place){ .at = w->out->text.n, .from = (size_t)(v.p - w->m[i].text), .n = v.n };
	if (v.n)
		str_add(&w->out->text, v.p, v.n);
}

static struct part part_strip(struct part v, int sides)
{
	v.p = chat_strip(v.p, &v.n, sides);
	return v;
}

static struct part strip_newlines(struct part v, int sides)
{
	while ((sides & STRIP_LEFT) && v.n && *v.p == '\n')
		v.p++, v.n--;
	while ((sides & STRIP_RIGHT) && v.n && v.p[v.n - 1] == '\n')
		v.n--;
	return v;
}

/* Today, or the day of WEIR_TODAY=YYYY-MM-DD. */
static void date(struct writer *w, const char *format)
{
	const char *env = getenv("WEIR_TODAY");
	struct tm tm = {0};
	time_t now = time(NULL);
	static const char *const month[] = { "January", "February", "March", "April", "May", "June", "July", "August",
	                                     "September", "October", "November", "December" };
	char text[64];
	const char *end = env ? strptime(env, "%Y-%m-%d", &tm) : NULL;

	if ((!end || *end) && !localtime_r(&now, &tm))
		memset(&tm, 0, sizeof tm), tm.tm_year = 70, tm.tm_mday = 1;
	if (*format == 'd')
		snprintf(text, sizeof text, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
	else if (*format == 'D')
		snprintf(text, sizeof text, "%02d %.3s %04d", tm.tm_mday, month[tm.tm_mon], tm.tm_year + 1900);
	else
		snprintf(text, sizeof text, "%s %02d, %04d", month[tm.tm_mon], tm.tm_mday, tm.tm_year + 1900);
	literal(w, text);
}

static void format(struct writer *w, const char *f, struct part v, size_t i)
{
	const char *q;

	for (; f && *f; f = q + 2) {
		q = strchr(f, '@');
		literal_n(w, f, q ? (size_t)(q - f) : strlen(f));
		if (!q)
			break;
		switch (q[1]) {
		case 'c': content(w, v, i); break;
		case 't': content(w, part_strip(v, STRIP_BOTH), i); break;
		case 'l': content(w, part_strip(v, STRIP_LEFT), i); break;
		case 'r': content(w, part_strip(v, STRIP_RIGHT), i); break;
		case 's': content(w, w->system, SIZE_MAX); break;
		case 'S': content(w, part_strip(w->system, STRIP_BOTH), SIZE_MAX); break;
		case 'b': literal(w, w->bos); break;
		case 'e': literal(w, w->eos); break;
		case 'd': case 'D': case 'B': date(w, q + 1); break;
		case '1': case '2': case '3': case '4':
			literal(w, w->f->cap[q[1] - '1'] ? w->f->cap[q[1] - '1'] : "");
			break;
		}
	}
}

static const struct part none = { "", 0 };

static void text(struct writer *w, const char *f) { format(w, f, none, SIZE_MAX); }

/* The default system message captured from the template; unknown when the family was chosen by name. */
static int has_captures(const struct chat_family *f, const char *s)
{
	for (; s && (s = strchr(s, '@')); s += 2)
		if (s[1] >= '1' && s[1] <= '4' && !f->cap[s[1] - '1'])
			return 0;
	return 1;
}

/* ---- searching messages ---- */

static struct part message(const struct writer *w, size_t i)
{
	return (struct part){ w->m[i].text ? w->m[i].text : "", w->m[i].len };
}

static const char *find(struct part v, const char *word)
{
	return v.n ? memmem(v.p, v.n, word, strlen(word)) : NULL;
}

static const char *find_last(struct part v, const char *word)
{
	const char *last = NULL, *q;
	size_t n = strlen(word);
	while ((q = find(v, word))) {
		last = q;
		v.n -= (size_t)(q + n - v.p);
		v.p = q + n;
	}
	return last;
}

static struct part after(struct part v, const char *q, const char *word)
{
	const char *from = q + strlen(word);
	return (struct part){ from, v.n - (size_t)(from - v.p) };
}

static struct part before(struct part v, const char *q)
{
	return (struct part){ v.p, (size_t)(q - v.p) };
}

static int starts_with(struct part v, const char *s) { size_t n = strlen(s); return v.n >= n && !memcmp(v.p, s, n); }
static int ends_with(struct part v, const char *s)
{
	size_t n = strlen(s);
	return v.n >= n && !memcmp(v.p + v.n - n, s, n);
}

static struct part cut(const struct chat_family *f, struct part v)
{
	const char *word = f->cut == CUT_FINAL ? "[BEGIN FINAL RESPONSE]" : "</think>", *q;

	if (f->cut == CUT_NONE)
		return v;
	q = f->cut == CUT_FIRST || f->cut == CUT_FIRST_NL ? find(v, word) : find_last(v, word);
	if (q)
		v = after(v, q, word);
	else if (f->cut != CUT_LAST_NL)
		return v;
	if (f->cut == CUT_LAST_NL || f->cut == CUT_FIRST_NL)
		return strip_newlines(v, STRIP_LEFT);
	return f->cut == CUT_LAST_TRIM || f->cut == CUT_FINAL ? part_strip(v, STRIP_BOTH) : v;
}

/* Split an answer "...<think>REASONING</think>...</think>REPLY", without newlines at the inner ends. */
static int split_thought(struct part v, const char *open, const char *close, int sides, struct part *thought,
                         struct part *reply)
{
	const char *first = find(v, close), *q;

	*thought = none;
	*reply = v;
	if (!first)
		return 0;
	*thought = strip_newlines(before(v, first), sides == STRIP_BOTH ? STRIP_BOTH : STRIP_RIGHT);
	if ((q = find_last(*thought, open)))
		*thought = after(*thought, q, open);
	*thought = strip_newlines(*thought, sides == STRIP_BOTH ? STRIP_BOTH : STRIP_LEFT);
	*reply = strip_newlines(after(v, find_last(v, close), close), sides == STRIP_BOTH ? STRIP_BOTH : STRIP_LEFT);
	return 1;
}

static size_t last_of(const struct writer *w, enum chat_role role)      /* SIZE_MAX when there is none */
{
	size_t i = w->n;
	while (i--)
		if (w->m[i].role == role)
			return i;
	return SIZE_MAX;
}

/* ---- the plain writer ---- */

/* Write the system message or the default one.  Returns the index of the next message. */
static size_t write_head(struct writer *w)
{
	const struct chat_family *f = w->f;
	const struct chat_style *s = &f->s;
	size_t i, first = w->n && w->m[0].role == ROLE_SYSTEM;
	size_t any = last_of(w, ROLE_SYSTEM) != SIZE_MAX, have = first;
	struct part v;

	text(w, s->start);
	if (f->flags & (CHAT_SYS_LAST | CHAT_SYS_JOIN | CHAT_SYS_JOIN2)) {
		int started = 0;
		for (i = 0; i < w->n; i++) {
			if (w->m[i].role != ROLE_SYSTEM)
				continue;
			if (f->flags & CHAT_SYS_LAST)
				str_clear(&w->keep);
			else if (started && (f->flags & CHAT_SYS_JOIN2))
				str_adds(&w->keep, "\n\n");
			started = 1;
			if (w->m[i].len)
				str_add(&w->keep, w->m[i].text, w->m[i].len);
		}
		w->system = (struct part){ w->keep.n ? w->keep.p : "", w->keep.n };
		have = any;
	} else if (first) {
		w->system = message(w, 0);
	}
	if (first && (f->flags & CHAT_NO_SYSTEM))
		fail(w, "has no place for a system message");
	v = f->flags & CHAT_SYS_TRIM ? part_strip(w->system, STRIP_BOTH) : w->system;
	if (have && !v.n) {
		if (f->flags & CHAT_SYS_SKIP)
			return first;
		if (f->flags & CHAT_SYS_DEFAULT)
			have = 0;
		if (f->flags & CHAT_SYS_TO_LATER) {
			text(w, s->no_sys);
			text(w, s->sys_later);
			return first;
		}
	}
	if (f->flags & (CHAT_MERGE_FIRST | CHAT_MERGE_LAST))
		return first;
	if (have && !(f->flags & CHAT_SYS_ANYWHERE))
		format(w, s->sys, w->system, SIZE_MAX);
	else if (!(f->flags & CHAT_SYS_ANYWHERE ? any : have) && has_captures(f, s->no_sys))
		text(w, s->no_sys);
	return f->flags & CHAT_SYS_ANYWHERE ? 0 : first;
}

static void write_reply(struct writer *w)
{
	const struct chat_family *f = w->f;
	size_t i = w->n;

	/* the last message that is not a system message, as the template counts */
	while (i && (f->flags & CHAT_REPLY_USER) && w->m[i - 1].role == ROLE_SYSTEM)
		i--;
	if (w->reply || (f->flags & CHAT_REPLY_ALWAYS)) {
		if ((f->flags & CHAT_REPLY_USER) && !(i && w->m[i - 1].role == ROLE_USER))
			return;
		if ((f->flags & CHAT_REPLY_LOOP) && w->n == 1 && w->m[0].role == ROLE_SYSTEM)
			return;
		if ((f->flags & CHAT_REPLY_NO_ASST) && i && w->m[i - 1].role == ROLE_ASSISTANT)
			return;
		text(w, w->no_thought && f->s.reply_off ? f->s.reply_off : f->s.reply);
	} else {
		text(w, f->s.no_reply);
	}
}

void write_plain(struct writer *w)
{
	const struct chat_family *f = w->f;
	const struct chat_style *s = &f->s;
	size_t i = write_head(w), first = i, turn = 0, last_answer = last_of(w, ROLE_ASSISTANT);
	int prev = -1;

	for (; i < w->n && !w->failed; i++) {
		struct part v = message(w, i);
		enum chat_role role = w->m[i].role;
		int end = i + 1 == w->n;
		if ((f->flags & CHAT_ALTERNATE) && !((f->flags & CHAT_COUNT_TURNS) && role == ROLE_SYSTEM)) {
			if ((role == ROLE_USER) != (turn % 2 == 0))
				fail(w, "wants user and assistant to take turns, the user first");
			turn++;
		}
		if ((f->flags & CHAT_SKIP_EMPTY) && !v.n)
			continue;
		switch (role) {
		case ROLE_SYSTEM:
			if (f->flags & (CHAT_SYS_LAST | CHAT_SYS_JOIN | CHAT_SYS_JOIN2))
				continue;
			if (f->flags & CHAT_SYS_ANYWHERE)
				format(w, s->sys, v, SIZE_MAX);
			else if (s->sys_later && !strcmp(s->sys_later, "!"))
				fail(w, "has a place for a system message at the start only");
			else if (v.n || !(f->flags & CHAT_SYS_SKIP_LATER))
				format(w, s->sys_later, v, SIZE_MAX);
			break;
		case ROLE_USER: {
			int merge = first && (((f->flags & CHAT_MERGE_FIRST) && i == first) ||
			                      ((f->flags & CHAT_MERGE_LAST) && end));
			if (merge && s->user_sys_blank && !part_strip(v, STRIP_BOTH).n)
				format(w, s->user_sys_blank, v, i);
			else
				format(w, merge ? s->user_sys : s->user_first && i <= 1 ? s->user_first :
				       s->user_again && prev == ROLE_USER ? s->user_again : s->user, v, i);
			break;
		}
		case ROLE_ASSISTANT:
			if (f->cut_when == CUT_ALWAYS || (f->cut_when == CUT_NOT_END ? !end : i != last_answer))
				v = cut(f, v);
			if (prev == ROLE_USER)
				text(w, s->asst_head);
			if (s->asst_void && !w->m[i].len && !strcmp(s->asst_void, "!"))
				fail(w, "has no place for an empty answer");
			else if (s->asst_void && !w->m[i].len)
				format(w, s->asst_void, v, i);
			else if (s->asst_empty && !part_strip(v, STRIP_BOTH).n)
				format(w, s->asst_empty, v, i);
			else
				format(w, end && s->asst_end ? s->asst_end : end && !w->reply && s->asst_last ?
				       s->asst_last : s->asst, v, i);
			break;
		}
		prev = role == ROLE_SYSTEM ? prev : (int)role;
	}
	write_reply(w);
}

/* ---- families that rewrite answers ---- */

/* Qwen 3 and its relatives: the reasoning of answers after the last question stays, in a <think> block. */
void write_qwen3(struct writer *w)
{
	const struct chat_style *s = &w->f->s;
	int kind = w->f->variant, strip = kind == QWEN35;
	size_t i, query = w->n - 1;
	int found = 0;

	for (i = w->n; i-- && !found; ) {
		struct part v = message(w, i);
		if (strip)
			v = part_strip(v, STRIP_BOTH);
		if (w->m[i].role == ROLE_USER && !(starts_with(v, "<tool_response>") && ends_with(v, "</tool_response>")))
			query = i, found = 1;
	}
	if (!found && kind == QWEN35)
		fail(w, "wants a user's message in the conversation");
	text(w, s->start);
	for (i = 0; i < w->n && !w->failed; i++) {
		struct part v = message(w, i), thought, reply;
		int end = i + 1 == w->n, block;
		if (strip)
			v = part_strip(v, STRIP_BOTH);
		if (w->m[i].role != ROLE_ASSISTANT) {
			if (i && strip && w->m[i].role == ROLE_SYSTEM)
				fail(w, "has a place for a system message at the start only");
			format(w, w->m[i].role == ROLE_SYSTEM ? s->sys : s->user, v, i);
			continue;
		}
		split_thought(v, "<think>", "</think>", STRIP_LEFT, &thought, &reply);
		block = i > query && (kind == QWEN35 || kind == QWEN_STEP || thought.n || (kind == QWEN3 && end));
		literal(w, "<|im_start|>assistant\n");
		if (block) {
			literal(w, "<think>\n");
			if (kind == QWEN35)
				thought = part_strip(thought, STRIP_BOTH);
			else if (kind != QWEN_STEP)
				thought = strip_newlines(thought, STRIP_BOTH);
			content(w, thought, SIZE_MAX);
			literal(w, kind == QWEN_STEP ? "\n</think>\n" : "\n</think>\n\n");
			if (kind == QWEN3 || kind == QWEN_MINICPM)
				reply = strip_newlines(reply, STRIP_LEFT);
		}
		content(w, reply, i);
		literal(w, "<|im_end|>\n");
	}
	write_reply(w);
}

void write_glm(struct writer *w)
{
	const struct chat_style *s = &w->f->s;
	size_t i, user = last_of(w, ROLE_USER);
	int glm46 = w->f->variant == GLM46;

	text(w, s->start);
	for (i = 0; i < w->n; i++) {
		struct part v = message(w, i), thought, reply;
		if (w->m[i].role != ROLE_ASSISTANT) {
			format(w, w->m[i].role == ROLE_SYSTEM ? s->sys : s->user, v, i);
			continue;
		}
		split_thought(v, "<think>", "</think>", STRIP_LEFT, &thought, &reply);
		literal(w, glm46 ? "<|assistant|>\n" : "<|assistant|>");
		if ((user == SIZE_MAX || i > user) && thought.n) {
			literal(w, "<think>");
			content(w, part_strip(thought, STRIP_BOTH), SIZE_MAX);
			literal(w, "</think>");
		} else {
			literal(w, glm46 ? "<think></think>" : "</think>");
		}
		reply = part_strip(reply, STRIP_BOTH);
		if (reply.n) {
			literal(w, glm46 ? "\n" : "");
			content(w, reply, i);
		}
	}
	write_reply(w);
}

void write_minimax(struct writer *w)
{
	const struct chat_style *s = &w->f->s;
	int m3 = w->f->variant == MINIMAX3;
	size_t i = write_head(w), user = last_of(w, ROLE_USER);

	for (; i < w->n; i++) {
		struct part v = message(w, i), thought, reply;
		if (w->m[i].role == ROLE_SYSTEM)
			continue;
		if (w->m[i].role == ROLE_USER) {
			format(w, s->user, v, i);
			continue;
		}
		split_thought(v, m3 ? "<mm:think>" : "<think>", m3 ? "</mm:think>" : "</think>", STRIP_BOTH, &thought, &reply);
		literal(w, "]~b]ai\n");
		if (m3) {
			literal(w, thought.n ? "<mm:think>" : "");
			content(w, thought, SIZE_MAX);
			literal(w, "</mm:think>");
		} else if (thought.n && (user == SIZE_MAX || i > user)) {
			literal(w, "<think>\n");
			content(w, thought, SIZE_MAX);
			literal(w, "\n</think>\n\n");
		}
		content(w, reply, i);
		literal(w, "[e~[\n");
	}
	write_reply(w);
}

void write_bielik(struct writer *w)
{
	size_t i = write_head(w);

	for (; i < w->n; i++) {
		struct part v = message(w, i), thought = none;
		const char *close = find(v, "</think>"), *open;
		if (w->m[i].role == ROLE_USER)
			format(w, w->f->s.user, v, i);
		if (w->m[i].role != ROLE_ASSISTANT)
			continue;
		if (close && find(v, "<think>")) {
			thought = before(v, close);
			if ((open = find_last(thought, "<think>")))
				thought = after(thought, open, "<think>");
			v = after(v, close, "</think>");
		}
		literal(w, "<|im_start|>assistant\n");
		if (thought.n) {
			literal(w, "<think>\n");
			content(w, part_strip(thought, STRIP_BOTH), SIZE_MAX);
			literal(w, "\n</think>\n");
		}
		content(w, part_strip(v, STRIP_LEFT), i);
		literal(w, "<|im_end|>\n");
	}
	write_reply(w);
}

void write_gemma4(struct writer *w)
{
	size_t i = write_head(w), first = i;

	for (; i < w->n; i++) {
		struct part v = message(w, i), rest = v;
		struct str kept = {0};
		int answer = w->m[i].role == ROLE_ASSISTANT;
		if (!(answer && w->f->variant == GEMMA4 && i > first && w->m[i - 1].role == ROLE_ASSISTANT))
			literal(w, answer ? "<|turn>model\n" : w->m[i].role == ROLE_USER ? "<|turn>user\n" : "<|turn>system\n");
		if (answer && (find(v, "<channel|>") || find(v, "<|channel>"))) {      /* reasoning is removed */
			while (rest.p) {
				const char *end = find(rest, "<channel|>"), *open;
				struct part part = end ? before(rest, end) : rest;
				if ((open = find(part, "<|channel>")))
					part = before(part, open);
				str_add(&kept, part.p, part.n);
				rest = end ? after(rest, end, "<channel|>") : (struct part){ NULL, 0 };
			}
			v = (struct part){ kept.n ? kept.p : "", kept.n };
		}
		content(w, part_strip(v, STRIP_BOTH), i);
		literal(w, "<turn|>\n");
		str_free(&kept);
	}
	write_reply(w);
}

void write_gpt_oss(struct writer *w)
{
	size_t i;
	for (i = 0; i < w->n; i++)
		if (w->m[i].role == ROLE_ASSISTANT && (find(message(w, i), "<|channel|>analysis<|message|>") ||
		                                       find(message(w, i), "<|channel|>final<|message|>")))
			fail(w, "refuses answers that contain its channel marks");
	if (!w->failed)
		write_plain(w);
}

void write_nemotron3(struct writer *w)
{
	size_t i = write_head(w), user = last_of(w, ROLE_USER);

	for (; i < w->n; i++) {
		struct part v = message(w, i);
		const char *close = find_last(v, "</think>"), *open = find(v, "<think>");
		if (w->m[i].role != ROLE_ASSISTANT) {
			format(w, w->m[i].role == ROLE_SYSTEM ? w->f->s.sys : w->f->s.user, v, i);
			continue;
		}
		literal(w, "<|im_start|>assistant\n");
		if (!close && !open) {
			literal(w, "<think></think>");
			v = part_strip(v, STRIP_RIGHT);
		} else if (user != SIZE_MAX && i < user && close && open) {
			literal(w, "<think></think>");
			v = part_strip(after(v, close, "</think>"), STRIP_RIGHT);
		} else {
			v = part_strip(v, STRIP_BOTH);
		}
		content(w, v, i);
		literal(w, "<|im_end|>\n");
	}
	write_reply(w);
}

/* v without two words, removed one after the other. */
static void remove_words(struct part v, const char *one, const char *two, struct str *out)
{
	struct str mid = {0};
	const char *q;

	str_add(&mid, "", 0);
	for (; (q = find(v, one)); v = after(v, q, one))
		str_add(&mid, v.p, (size_t)(q - v.p));
	str_add(&mid, v.p, v.n);
	str_add(out, "", 0);
	for (v = (struct part){ mid.p, mid.n }; (q = find(v, two)); v = after(v, q, two))
		str_add(out, v.p, (size_t)(q - v.p));
	str_add(out, v.p, v.n);
	str_free(&mid);
}

void write_nemotron2(struct writer *w)
{
	size_t i, first = w->m[0].role == ROLE_SYSTEM, n = w->n;
	struct part tail = none;
	const char *open;
	int think = 1;

	for (i = 0; i < w->n; i++) {
		struct part v = message(w, i);
		if (w->m[i].role == ROLE_ASSISTANT)
			continue;
		if (find(v, "/think"))
			think = 1;
		else if (find(v, "/no_think"))
			think = 0;
	}
	open = think ? "<SPECIAL_11>Assistant\n<think>\n" : "<SPECIAL_11>Assistant\n<think></think>";
	if (first == n) {
		fail(w, "wants a user's message in the conversation");
		return;
	}
	if (w->m[n - 1].role == ROLE_ASSISTANT)
		tail = part_strip(message(w, --n), STRIP_BOTH);
	text(w, w->f->s.start);
	literal(w, "<SPECIAL_10>System\n");
	for (i = 0; i < n || !i; i++) {
		struct part v = message(w, i);
		struct str plain = {0};
		if (w->m[i].role != ROLE_ASSISTANT && i < n)
			remove_words(v, "/think", "/no_think", &plain);
		if (!i) {
			if (first)
				content(w, part_strip((struct part){ plain.p, plain.n }, STRIP_BOTH), SIZE_MAX);
			literal(w, "\n\n");
		}
		if (i < n && w->m[i].role == ROLE_USER) {
			literal(w, "<SPECIAL_11>User\n");
			content(w, part_strip((struct part){ plain.p, plain.n }, STRIP_BOTH), SIZE_MAX);
			literal(w, "\n");
		} else if (i < n && w->m[i].role == ROLE_ASSISTANT) {
			const char *q = find(v, "</think>");
			if (q) {
				v = after(v, q, "</think>");
				if ((q = find(v, "</think>")))
					v = before(v, q);
			}
			literal(w, "<SPECIAL_11>Assistant\n");
			content(w, part_strip(v, STRIP_BOTH), i);
			literal(w, "\n<SPECIAL_12>\n");
		}
		str_free(&plain);
	}
	if (w->reply || tail.n)
		literal(w, open);
	content(w, tail, w->n - 1);
	if (!w->reply && tail.n)
		literal(w, "\n<SPECIAL_12>\n");
}

void write_smollm3(struct writer *w)
{
	struct part v = w->m[0].role == ROLE_SYSTEM ? message(w, 0) : none;
	struct str own = {0};
	int think = !find(v, "/no_think") && !w->no_thought;
	size_t i;

	remove_words(v, "/no_think", "/think", &own);
	v = part_strip((struct part){ own.p, own.n }, STRIP_RIGHT);
	text(w, w->f->s.start);
	literal(w, "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nReasoning Mode: ");
	literal(w, think ? "/think\n\n## Custom Instructions\n\n" : "/no_think\n\n## Custom Instructions\n\n");
	if (v.n) {
		content(w, v, SIZE_MAX);
		literal(w, "\n\n");
	} else {
		text(w, think ? "@1" : "@2");
	}
	str_free(&own);
	literal(w, "<|im_end|>\n");
	for (i = 0; i < w->n; i++) {
		v = message(w, i);
		if (w->m[i].role == ROLE_USER)
			format(w, w->f->s.user, v, i);
		if (w->m[i].role != ROLE_ASSISTANT)
			continue;
		literal(w, think ? "<|im_start|>assistant\n" : "<|im_start|>assistant\n<think>\n\n</think>\n");
		content(w, strip_newlines(v, STRIP_LEFT), i);
		literal(w, "<|im_end|>\n");
	}
	if (w->reply)
		literal(w, think ? "<|im_start|>assistant\n" : "<|im_start|>assistant\n<think>\n\n</think>\n");
}

void write_apertus(struct writer *w)
{
	size_t i = write_head(w);
	int open = 0;

	for (; i < w->n && !w->failed; i++) {
		struct part v = message(w, i);
		if (w->m[i].role == ROLE_SYSTEM) {
			fail(w, "has a place for a system message at the start only");
		} else if (w->m[i].role == ROLE_USER) {
			literal(w, open ? "<|assistant_end|>" : "");
			format(w, w->f->s.user, v, i);
			open = 0;
		} else {
			literal(w, open ? "" : "<|assistant_start|>");
			content(w, v, i);
			open = 1;
		}
	}
	write_reply(w);
}

/* *out = v with each pair's first word replaced by its second, one pair after the other. */
static void replace_words(struct part v, const char *const (*pairs)[2], size_t n, struct str *out)
{
	struct str in = {0};
	size_t k;

	str_add(&in, v.p, v.n);
	for (k = 0; k < n; k++) {
		struct part rest = { in.p ? in.p : "", in.n };
		const char *q;
		str_clear(out);
		for (; (q = find(rest, pairs[k][0])); rest = after(rest, q, pairs[k][0])) {
			str_add(out, rest.p, (size_t)(q - rest.p));
			str_adds(out, pairs[k][1]);
		}
		str_add(out, rest.p, rest.n);
		str_clear(&in);
		if (out->n)
			str_add(&in, out->p, out->n);
	}
	str_free(&in);
}

void write_muse(struct writer *w)
{
	static const char *const pairs[][2] = {
		{ "Reasoning effort", "Reasoning strength" }, { "Reasoning Effort", "Reasoning Strength" },
		{ "reasoning effort", "reasoning strength" }, { "REASONING EFFORT", "REASONING STRENGTH" },
	};
	size_t i, k, n = strlen("reasoning strength");

	text(w, w->f->s.start);
	if (last_of(w, ROLE_SYSTEM) == SIZE_MAX && has_captures(w->f, w->f->s.no_sys))
		text(w, w->f->s.no_sys);
	for (i = 0; i < w->n; i++) {
		struct part v = message(w, i);
		if (w->m[i].role == ROLE_SYSTEM) {
			struct str own = {0};
			int said = 0;
			replace_words(v, pairs, 4, &own);
			for (k = 0; own.p && k + n <= own.n && !said; k++)
				said = !strncasecmp(own.p + k, "reasoning strength", n);
			literal(w, "<|start|>system<|message|>");
			content(w, (struct part){ own.p ? own.p : "", own.n }, SIZE_MAX);
			text(w, said ? "" : "\n\nReasoning strength: high.");
			text(w, "\n\n# Valid recipients: \"self\", \"user\".<|eot|>");
			str_free(&own);
		} else {
			format(w, w->m[i].role == ROLE_USER ? w->f->s.user : w->f->s.asst, v, i);
		}
	}
	write_reply(w);
}

/* Llama 2 with a default system message, unless the user's text brings its own. */
void write_vigogne(struct writer *w)
{
	size_t i, first = w->m[0].role == ROLE_SYSTEM;
	struct part sys = first ? message(w, 0) : none;
	int have = first;

	if (!first && w->f->cap[0] && !find(message(w, 0), "<<SYS>>")) {
		sys = (struct part){ w->f->cap[0], strlen(w->f->cap[0]) };
		have = 2;
	}
	text(w, w->f->s.start);
	for (i = first; i < w->n && !w->failed; i++) {
		struct part v = message(w, i);
		if ((w->m[i].role == ROLE_USER) != ((i - first) % 2 == 0))
			fail(w, "wants user and assistant to take turns, the user first");
		if (have && i == first) {
			v = part_strip(v, STRIP_RIGHT);
			literal(w, "[INST] <<SYS>>\n");
			if (have == 2)
				literal_n(w, sys.p, sys.n);
			else
				content(w, sys, SIZE_MAX);
			literal(w, v.n ? "\n<</SYS>>\n\n" : "\n<</SYS>>");
			content(w, v, i);
			literal(w, " [/INST]");
		} else {
			format(w, w->m[i].role == ROLE_USER ? w->f->s.user : w->m[i].role == ROLE_ASSISTANT ? w->f->s.asst :
			       "<<SYS>>\n@t\n<</SYS>>\n\n", v, i);
		}
	}
}

int chat_compose(const struct chat_family *f, const char *bos, const char *eos, const struct chat_msg *m, size_t n,
                 unsigned reply, struct chat_text *out, struct text_place *place, struct err *e)
{
	struct writer w = { .f = f, .bos = bos ? bos : "", .eos = eos ? eos : "", .m = m, .n = n, .reply = reply & REPLY_HEAD,
	                    .no_thought = (reply & REPLY_NO_THOUGHT) != 0, .out = out, .place = place, .system = none, .e = e };
	size_t i;

	if (!n)
		return err_set(e, ERR_USAGE, "the conversation is empty");
	for (i = 0; place && i < n; i++)
		place[i] = (struct text_place){ .at = SIZE_MAX };
	f->write(&w);
	str_free(&w.keep);
	return w.failed ? -1 : 0;
}
