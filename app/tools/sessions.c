/* app/tools/sessions.c - weir sessions ls|show|search|rename|rm|export|import|gc|check: stored sessions, without a
 * model.
 *
 * All of them run beside other weirs; a session that one of these has open is not deleted. */
#include "app/tools/tools.h"
#include "app/retrieval/retrieval.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sessions/store/store.h"
#include "sessions/snap/snap.h"

static int print_str(struct str *s, struct err *e)
{
	int rc = print_json(s, e); /* through the terminal filter where that is where it goes */

	str_free(s);
	return rc;
}

/* ---- ls ---- */

struct listing {
	const struct options *o;
	struct str s;
	int n;
};

static void list_json(const struct session *s, struct str *out)
{
	json_open(out, NULL, '{');
	json_int(out, "id", s->id);
	json_string(out, "name", s->name);
	json_string(out, "title", s->title);
	json_string(out, "model", s->model);
	json_string(out, "kv", s->kv);
	json_int(out, "messages", s->messages);
	json_int(out, "tokens", s->tokens);
	json_int(out, "created", s->created);
	json_int(out, "used", s->used);
	json_close(out, '}');
	str_adds(out, "\n");
}

static int list_one(const struct session *s, void *ud)
{
	struct listing *x = ud;
	struct str age = { 0 };

	if (x->o->json) {
		list_json(s, &x->s);
		return 0;
	}
	if (!x->n++)
		str_addf(&x->s, "%4s  %-18s %-28s %5s %7s  %s\n", "id", "name", "title", "said", "tokens", "used");
	human_age(&age, s->used);
	str_addf(&x->s, "%4lld  ", (long long)s->id);
	table_cell(&x->s, s->name, 18);
	str_adds(&x->s, " ");
	table_cell(&x->s, s->title, 28);
	str_addf(&x->s, " %5d %7d  %s\n", s->messages, s->tokens, str_text(&age));
	str_free(&age);
	return 0;
}

static int list(struct store *store, const struct options *o, struct err *e)
{
	struct listing x = { .o = o };

	if (session_list(store, list_one, &x, e) < 0)
		return -1;
	if (!x.n && !o->json && !o->quiet)
		say("there is no session yet; every conversation at a terminal becomes one");
	return print_str(&x.s, e);
}

/* ---- search ---- */

static int found_one(const struct found *f, void *ud)
{
	struct listing *x = ud;
	int colour = !x->o->json && isatty(1);
	struct str text = { 0 };

	/* 1 and 2 stand before and after a word that was found. */
	for (const char *p = f->snippet; *p; p++)
		if (*p == 1 || *p == 2)
			str_adds(&text, colour ? "*" : "");
		else
			str_add(&text, *p == '\n' ? " " : p, 1);
	if (x->o->json) {
		json_open(&x->s, NULL, '{');
		json_int(&x->s, "session", f->session);
		json_int(&x->s, "message", f->message);
		json_string(&x->s, "name", f->name);
		json_string(&x->s, "role", f->role == ROLE_USER ? "user" : "assistant");
		json_int(&x->s, "at", f->at);
		json_text(&x->s, "snippet", text.p, text.n);
		json_close(&x->s, '}');
	} else {
		str_addf(&x->s, "%lld %s: %s", (long long)f->session, *f->name ? f->name : f->title, str_text(&text));
	}
	str_adds(&x->s, "\n");
	str_free(&text);
	x->n++;
	return 0;
}

static int search(struct store *store, const struct options *o, struct err *e)
{
	struct listing x = { .o = o };
	struct str words = { 0 };
	int rc;

	if (!o->n_file)
		return err_set(e, ERR_USAGE, "'weir sessions search' wants words");
	for (int i = 0; i < o->n_file; i++)
		str_addf(&words, "%s%s", i ? " " : "", o->file[i]);
	rc = store_search(store, words.p, o->limit, found_one, &x, e);
	str_free(&words);
	if (rc < 0)
		return -1;
	if (!x.n && !o->quiet)
		say("nothing found");
	return print_str(&x.s, e) < 0 ? -1 : !x.n; /* exit status 1, as of grep */
}

/* ---- the others ---- */

static int export_one(struct store *store, const char *format, const char *name, struct err *e)
{
	struct str text = { 0 };
	enum export_format f = !strcmp(format, "json")  ? EXPORT_JSON
	                       : !strcmp(format, "txt") ? EXPORT_TEXT
	                                                : EXPORT_MARKDOWN;
	int64_t id;

	if (f == EXPORT_MARKDOWN && strcmp(format, "md") != 0)
		return err_set(e, ERR_USAGE, "'%.40s' is no format of sessions; it is md, json or txt", format);
	if (session_find(store, name, &id, e) < 0 || session_export(store, id, f, message_export_more, &text, e) < 0)
		return -1;
	return print_str(&text, e);
}

static int remove_all(struct store *store, struct snaps *snaps, const struct options *o, struct err *e)
{
	int64_t id;
	long by;

	if (!o->n_file)
		return err_set(e, ERR_USAGE, "'weir sessions rm' wants the names of sessions");
	/* All names are looked up, and nobody has them open, before the first session is deleted. */
	for (int i = 0; i < o->n_file; i++)
		if (session_find(store, o->file[i], &id, e) < 0)
			return -1;
		else if (session_hold(store, id, &by, e) < 0)
			return err_set(e, e->code, "session '%.80s' is not deleted: %s", o->file[i], e->msg);
	for (int i = 0; i < o->n_file; i++)
		if (session_find(store, o->file[i], &id, e) < 0 || (snaps && snap_drop(snaps, id, e) < 0) ||
		    session_delete(store, id, e) < 0)
			return -1;
	return 0;
}

static int collect(struct snaps *snaps, const struct options *o, struct err *e)
{
	struct str s = { 0 };
	uint64_t freed = 0;

	if (!snaps)
		return 0;
	if (snaps_gc(snaps, &freed, e) < 0)
		return -1;
	human_bytes(&s, freed);
	if (!o->quiet)
		say("%s freed", s.p);
	str_free(&s);
	return 0;
}

static int check(struct store *store, struct snaps *snaps, struct err *e)
{
	struct str report = { 0 };
	int bad = store_check(store, &report, e), more = bad < 0 || !snaps ? 0 : snaps_check(snaps, &report, e);

	if (bad < 0 || more < 0) {
		str_free(&report);
		return -1;
	}
	if (!bad && !more)
		str_adds(&report, "everything that is stored is as it was written\n");
	else if (report.n && report.p[report.n - 1] != '\n')
		str_adds(&report, "\n");
	if (print_str(&report, e) < 0)
		return -1;
	return bad || more ? 1 : 0;
}

int cmd_sessions(const struct options *o)
{
	int reads =
		(o->command & (CMD_SESSIONS_LS | CMD_SESSIONS_SHOW | CMD_SESSIONS_SEARCH | CMD_SESSIONS_EXPORT)) != 0;
	struct store *store = NULL;
	struct snaps *snaps = NULL;
	struct str notice = { 0 };
	struct err e = { 0 };
	int64_t id;
	int rc = store_open(&store, &(struct store_options){ .read_only = reads, .notice = &notice }, &e);

	if (!rc && !reads)
		rc = snaps_open(&snaps, store, &(struct snaps_options){ .budget = 0 }, &notice, &e);
	say_lines(&notice);
	if (!rc) {
		switch (o->command) {
		case CMD_SESSIONS_LS: rc = list(store, o, &e); break;
		case CMD_SESSIONS_SEARCH: rc = search(store, o, &e); break;
		case CMD_SESSIONS_SHOW:
			rc = o->n_file == 1
			             ? export_one(store, "txt", o->file[0], &e)
			             : err_set(&e, ERR_USAGE, "'weir sessions show' wants the name of a session");
			break;
		case CMD_SESSIONS_EXPORT:
			rc = o->n_file == 2
			             ? export_one(store, o->file[0], o->file[1], &e)
			             : err_set(&e, ERR_USAGE,
			                       "'weir sessions export' wants a format (md, json, txt) and the name of a session");
			break;
		case CMD_SESSIONS_IMPORT: rc = session_import(store, o, &e); break;
		case CMD_SESSIONS_RENAME:
			rc = o->n_file != 2
			             ? err_set(&e, ERR_USAGE, "'weir sessions rename' wants a name and the new one")
			     : session_find(store, o->file[0], &id, &e) < 0 ? -1
			                                                    : session_rename(store, id, o->file[1], &e);
			break;
		case CMD_SESSIONS_RM: rc = remove_all(store, snaps, o, &e); break;
		case CMD_SESSIONS_GC: rc = collect(snaps, o, &e); break;
		default: rc = check(store, snaps, &e);
		}
	}
	if (snaps)
		snaps_close(snaps);
	if (store)
		store_close(store);
	str_free(&notice);
	return rc < 0 ? fail(&e) : rc;
}
