/* app/tools/sessions_import.c - weir sessions import: makes a session from the output of weir sessions export json.
 *
 * The file is not trusted. It is checked while it is stored, in one transaction, so a file that is refused leaves
 * nothing behind. */
#include "app/tools/tools.h"
#include "app/retrieval/retrieval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/import/import.h"
#include "sessions/store/store.h"
#include "engine/base/utf8.h"

enum { FILE_MOST = 64 << 20, MESSAGES_MOST = 100000, DOCUMENTS_MOST = 10000, WORDS_MOST = 4000, RECORD_MOST = 4096 };
#define NUMBER_MOST (INT64_C(1) << 53)    /* a double represents all whole numbers up to 2^53 exactly */
#define AT_MOST     INT64_C(253402300799) /* the end of the year 9999, in seconds since 1970 */

struct importing {
	const struct options *o;
	const char *file;
	struct jv all;
	/* the part of the file that is being read, such as "message 3", for error messages */
	char where[60];
	int64_t session, *message; /* message[i] is the id in the store of the file's message i */
	size_t n_message, n_document, n_lost;
	struct str notice;
};

/* ---- values ---- */

static int import_refuse(const struct importing *x, const char *key, const char *why, struct err *e)
{
	return err_set(e, ERR_USAGE, "'%.200s' is not imported: %s: \"%.40s\" %s", x->file, x->where, key, why);
}

/* Read a member that is a text into *out, which is cleared first. */
static int get_text(const struct importing *x, struct jv object, const char *key, struct str *out, struct err *e)
{
	str_clear(out);
	return jv_text(jv_get(object, key), out) < 0 ? import_refuse(x, key, "is missing or no text", e) : 0;
}

/* Read a member that is a text of at most `most` bytes, without NUL bytes. */
static int get_words(const struct importing *x, struct jv object, const char *key, size_t most, struct str *out,
                     struct err *e)
{
	if (get_text(x, object, key, out, e))
		return -1;
	if (memchr(out->p, 0, out->n))
		return import_refuse(x, key, "has a NUL byte", e);
	return out->n > most ? import_refuse(x, key, "is too long", e) : 0;
}

static int whole_number(struct jv v, int64_t most, int64_t *out)
{
	double d;

	if (jv_number(v, &d) < 0 || !(d >= 0 && d <= (double)most) || d != (double)(int64_t)d)
		return -1;
	*out = (int64_t)d;
	return 0;
}

/* Read a member that is a number from 0 to `most`. *out is set to 0 if the member is missing. */
static int get_number(const struct importing *x, struct jv object, const char *key, int64_t most, int64_t *out,
                      struct err *e)
{
	struct jv v = jv_get(object, key);
	char why[80];

	*out = 0;
	if (!v.p || !whole_number(v, most, out))
		return 0;
	snprintf(why, sizeof why, "is no whole number from 0 to %lld", (long long)most);
	return import_refuse(x, key, why, e);
}

/* Read a member that is an object or a list. *out becomes empty if the member is missing. */
static int get_members(const struct importing *x, struct jv object, const char *key, char bracket, struct jv *out,
                       struct err *e)
{
	*out = jv_get(object, key);
	return !out->p || *out->p == bracket ? 0
	                                     : import_refuse(x, key, bracket == '[' ? "is no list" : "is no object", e);
}

/* ---- settings ---- */

static const struct option_def *kept_option(const char *name)
{
	for (const struct option_def *d = option_defs; d->name; d++)
		if ((d->flags & OPT_KEPT) && !strcmp(d->name, name))
			return d;
	return NULL;
}

/* Check the value of a setting, by parsing it as the value of its option. A session with an invalid value could not be
 * opened. */
static int check_setting(const struct importing *x, const struct option_def *d, const struct str *value, struct err *e)
{
	struct options scratch;
	struct err why = { 0 };
	int rc;

	options_default(&scratch);
	rc = option_set(&scratch, d, d->name, options_own(&scratch, value->p, value->n), &why);
	options_free(&scratch);
	return rc < 0 ? err_set(e, ERR_USAGE, "'%.200s' is not imported: its settings: %.300s", x->file, why.msg) : 0;
}

/* Store the settings. Settings that this version of weir does not have are left out. */
static int import_settings(struct importing *x, struct store *store, struct err *e)
{
	struct jv list, it = { 0 }, k = { 0 };
	struct str key = { 0 }, value = { 0 };
	int rc;

	snprintf(x->where, sizeof x->where, "the session");
	rc = get_members(x, x->all, "settings", '{', &list, e);
	snprintf(x->where, sizeof x->where, "its settings");
	while (!rc && jv_next(list, &it, &k)) {
		const struct option_def *d;

		str_clear(&key);
		str_clear(&value);
		jv_text(k, &key);
		d = kept_option(key.p);
		if (!d && strcmp(key.p, "system") != 0)
			continue;
		if (jv_text(it, &value) < 0 || memchr(value.p, 0, value.n))
			rc = import_refuse(x, key.p, "is no text, or has a NUL byte", e);
		else if (d && value.n)
			rc = check_setting(x, d, &value, e);
		if (!rc)
			rc = session_set(store, x->session, key.p, value.p, value.n, e);
	}
	str_free(&key);
	str_free(&value);
	return rc;
}

/* ---- messages ---- */

static int get_tokens(const struct importing *x, struct jv object, struct tokens *out, struct err *e)
{
	struct jv list, it = { 0 };
	int64_t id;

	out->n = 0;
	if (get_members(x, object, "tokens", '[', &list, e))
		return -1;
	while (jv_next(list, &it, NULL)) {
		int32_t token;

		if (whole_number(it, INT32_MAX, &id) < 0)
			return import_refuse(x, "tokens", "has something that is no token's number", e);
		token = (int32_t)id;
		tokens_append(out, &token, 1);
	}
	return 0;
}

/* If the object has a complete record of how an answer was made, append it. */
static void add_record(struct jv object, struct str *out)
{
	struct jv made = jv_get(object, "made");
	size_t n = made.p ? (size_t)(made.end - made.p) : 0;
	struct answer_record record;
	struct str with = { 0 }, value = { 0 };

	if (!n || n > RECORD_MOST)
		return;
	str_add(&value, made.p, n);
	str_addf(&with, "{\"made\":%s}", value.p);
	if (answer_record_read(with.p, &record) == 0)
		json_value(out, "made", &value);
	answer_record_free(&record);
	str_free(&with);
	str_free(&value);
}

/* Set *out to the JSON that the store keeps with a message: for a question, its context; for an answer, its sources and
 * the record of how it was made. */
static int get_stats(const struct importing *x, struct jv object, int role, struct str *out, struct err *e)
{
	struct message m = { .role = role };
	struct jv list, it = { 0 };
	size_t n = 0;
	int rc = 0;

	str_clear(out);
	if (role == ROLE_USER && jv_get(object, "context").p) {
		rc = get_text(x, object, "context", &m.context, e);
	} else if (role == ROLE_ASSISTANT && !(rc = get_members(x, object, "sources", '[', &list, e))) {
		while (jv_next(list, &it, NULL))
			n++;
		answer_sources_read(list, &m.sources);
		if (m.sources.n < n)
			rc = import_refuse(x, "sources", "has too many entries, or one without \"doc\" and \"text\"",
			                   e);
	}
	if (!rc && (m.context.n || role == ROLE_ASSISTANT)) {
		json_open(out, NULL, '{');
		if (role == ROLE_USER)
			json_text(out, "context", m.context.p, m.context.n);
		else if (m.sources.n)
			answer_sources_json(&m.sources, out);
		if (role == ROLE_ASSISTANT)
			add_record(object, out);
		json_close(out, '}');
		if (out->n == strlen("{}"))
			str_clear(out);
	}
	message_free(&m);
	return rc;
}

struct buffers {
	struct str text, stats;
	struct tokens token;
};

static int import_message(struct importing *x, struct store *store, struct jv v, struct buffers *b, struct err *e)
{
	struct jv role = jv_get(v, "role"), complete = jv_get(v, "complete");
	struct stored_message m = { .role = jv_is(role, "user") ? ROLE_USER : ROLE_ASSISTANT,
		                    .complete = !complete.p || *complete.p == 't' };

	if (m.role != ROLE_USER && !jv_is(role, "assistant"))
		return import_refuse(x, "role", "is neither \"user\" nor \"assistant\"", e);
	if (m.role == ROLE_ASSISTANT && !x->n_message)
		return import_refuse(x, "role", "is an answer without a question before it", e);
	if (complete.p && *complete.p != 't' && *complete.p != 'f')
		return import_refuse(x, "complete", "is neither true nor false", e);
	if (get_text(x, v, "text", &b->text, e) || get_number(x, v, "at", AT_MOST, &m.at, e) ||
	    get_tokens(x, v, &b->token, e) || get_stats(x, v, m.role, &b->stats, e))
		return -1;
	if (m.role == ROLE_USER && b->token.n)
		return import_refuse(x, "tokens", "is of answers alone", e);
	m.parent = x->n_message ? x->message[x->n_message - 1] : 0;
	m.text = b->text.p;
	m.n_text = b->text.n;
	m.token = b->token.id;
	m.n_token = b->token.n;
	m.stats = str_text(&b->stats);
	x->message = xrealloc(x->message, (x->n_message + 1) * sizeof *x->message);
	return message_append(store, x->session, &m, &x->message[x->n_message++], e);
}

/* ---- documents ---- */

static int get_marks(struct importing *x, struct jv object, const struct str *text, struct mark **out, size_t *n,
                     struct err *e)
{
	struct jv list, it = { 0 };
	struct str label = { 0 };
	int64_t at, level, before = 0;
	int rc = get_members(x, object, "marks", '[', &list, e);

	while (!rc && jv_next(list, &it, NULL)) {
		struct jv kind = jv_get(it, "kind");
		struct mark m = { .kind = jv_is(kind, "page") ? MARK_PAGE : MARK_HEADING };

		snprintf(x->where, sizeof x->where, "document %zu, mark %zu", x->n_document, *n + 1);
		if (m.kind == MARK_HEADING && !jv_is(kind, "heading"))
			rc = import_refuse(x, "kind", "is neither \"page\" nor \"heading\"", e);
		else if (get_number(x, it, "at", (int64_t)text->n, &at, e) ||
		         get_number(x, it, "level", 6, &level, e) || get_words(x, it, "text", WORDS_MOST, &label, e))
			rc = -1;
		else if (at < before || utf8_continues(text->p[at]))
			rc = import_refuse(x, "at",
			                   at < before ? "is before that of the mark before it"
			                               : "is inside of a letter",
			                   e);
		if (rc)
			break;
		before = at;
		m.at = (size_t)at;
		m.level = (int)level;
		m.text = xstrndup(label.p, label.n);
		if (!(*n & (*n - 1))) /* the list is full if it has 0, 1, 2, 4, 8, ... marks: double it */
			*out = xrealloc(*out, (*n ? 2 * *n : 1) * sizeof **out);
		(*out)[(*n)++] = m;
	}
	str_free(&label);
	return rc;
}

static int import_document(struct importing *x, struct store *store, struct jv v, struct buffers *b, struct err *e)
{
	struct jv type = jv_get(v, "type"), text = jv_get(v, "text");
	struct stored_document d = { .type = DOC_TEXT };
	struct mark *mark = NULL;
	int64_t bytes, after, id;
	int rc;

	while (d.type < DOC_TYPES && (d.type == DOC_GZIP || !jv_is(type, doc_type_name[d.type])))
		d.type++;
	if (d.type == DOC_TYPES)
		return import_refuse(x, "type", "is no type of documents", e);
	if (get_words(x, v, "name", WORDS_MOST, &b->stats, e) || get_number(x, v, "bytes", NUMBER_MOST, &bytes, e) ||
	    get_number(x, v, "after", (int64_t)x->n_message, &after, e))
		return -1;
	if (text.p && *text.p == 'n') {
		x->n_lost++;
		str_addf(&x->notice, "document '%.200s' is left out: its text was lost before the export\n",
		         b->stats.p);
		return 0;
	}
	if (get_words(x, v, "text", FILE_MOST, &b->text, e))
		return -1;
	rc = get_marks(x, v, &b->text, &mark, &d.n_mark, e);
	d.mark = mark;
	d.name = b->stats.p;
	d.text = b->text.p;
	d.n_text = b->text.n;
	d.bytes = (uint64_t)bytes;
	d.after = after ? x->message[after - 1] : 0;
	if (!rc)
		rc = session_add_document(store, x->session, &d, &id, e);
	marks_free(mark, d.n_mark);
	return rc;
}

/* ---- the session ---- */

typedef int import_fn(struct importing *, struct store *, struct jv, struct buffers *, struct err *);

static int import_list(struct importing *x, struct store *store, const char *key, const char *one, size_t most,
                       import_fn *fn, struct err *e)
{
	struct buffers b = { 0 };
	struct jv list, it = { 0 };
	size_t n = 0;
	int rc;

	snprintf(x->where, sizeof x->where, "the session");
	rc = get_members(x, x->all, key, '[', &list, e);
	while (!rc && jv_next(list, &it, NULL)) {
		if (n++ == most)
			rc = import_refuse(x, key, "has too many entries", e);
		else {
			snprintf(x->where, sizeof x->where, "%s %zu", one, n);
			x->n_document = n;
			rc = fn(x, store, it, &b, e);
		}
	}
	x->n_document = n;
	str_free(&b.text);
	str_free(&b.stats);
	tokens_free(&b.token);
	return rc;
}

static int import_all(struct store *store, void *arg, struct err *e)
{
	struct importing *x = arg;
	struct str name = { 0 }, model = { 0 }, kv = { 0 };
	int rc;

	/* reset the results: if an index was damaged, the transaction runs a second time */
	x->n_message = x->n_lost = 0;
	str_clear(&x->notice);
	snprintf(x->where, sizeof x->where, "the session");
	rc = (!x->o->session && get_words(x, x->all, "name", WORDS_MOST, &name, e)) ||
	                     get_words(x, x->all, "model", WORDS_MOST, &model, e) ||
	                     get_words(x, x->all, "kv", WORDS_MOST, &kv, e)
	             ? -1
	             : 0;
	if (!rc && session_new(store, x->o->session ? x->o->session : name.p, &x->session, e) < 0)
		rc = err_set(e, e->code, e->code == ERR_USAGE ? "%s; -s NAME imports it under another name" : "%s",
		             e->msg);
	if (!rc)
		rc = import_settings(x, store, e);
	if (!rc)
		rc = import_list(x, store, "messages", "message", MESSAGES_MOST, import_message, e);
	if (!rc)
		rc = import_list(x, store, "documents", "document", DOCUMENTS_MOST, import_document, e);
	if (!rc)
		rc = session_touch(store, x->session, model.p, kv.p, 0, e);
	str_free(&name);
	str_free(&model);
	str_free(&kv);
	return rc;
}

static int check_file(const struct importing *x, const struct str *text, struct err *e)
{
	int32_t cp;

	for (size_t i = 0, n; i < text->n; i += n) {
		n = (size_t)utf8_decode(text->p + i, text->n - i, &cp);
		if (cp < 0)
			return err_set(e, ERR_USAGE, "'%.200s' is not imported: byte %zu is not UTF-8", x->file, i + 1);
	}
	if (!text->n || !json_valid(text->p, text->n) || *x->all.p != '{')
		return err_set(e, ERR_USAGE,
		               "'%.200s' is not imported: it is not the JSON that 'weir sessions export json' writes",
		               x->file);
	return 0;
}

int session_import(struct store *store, const struct options *o, struct err *e)
{
	struct importing x = { .o = o,
		               .file = o->n_file && strcmp(o->file[0], "-") != 0 ? o->file[0] : "standard input" };
	struct str text = { 0 };
	struct session s;
	int rc;

	if (o->n_file != 1)
		return err_set(e, ERR_USAGE,
		               "'weir sessions import' wants a file that 'weir sessions export json' wrote");
	rc = read_whole(o->file[0], FILE_MOST, &text, e);
	x.all = jv_parse(str_text(&text), text.n);
	if (!rc)
		rc = check_file(&x, &text, e);
	if (!rc)
		rc = store_change(store, import_all, &x, e);
	if (!rc)
		rc = session_get(store, x.session, &s, e);
	if (!rc)
		say_lines(&x.notice);
	if (!rc && !o->quiet)
		say("session %lld '%s': messages %zu, documents %zu", (long long)s.id, *s.name ? s.name : s.title,
		    x.n_message, x.n_document - x.n_lost);
	str_free(&x.notice);
	str_free(&text);
	free(x.message);
	return rc;
}
