/* app/chat/cmd_sessions.c - the commands about sessions. */
#include "app/chat/chat_private.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTED = 20, FOUND = 10 };

/* Argument of the callbacks that list sessions or found messages. */
struct shown {
	struct chat *c;
	struct listing list;
};

static int list_one(const struct session *s, void *ud)
{
	struct shown *x = ud;
	struct str id = { 0 }, rest = { 0 };
	struct listing_cell row[] = {
		{ .title = "id" },
		{ .title = "name",
		  .width = -34,
		  .text = *s->name    ? s->name
		          : *s->title ? s->title
		                      : "(empty)" },
		{ .title = "messages" },
	};

	if (chat_is_deleted(x->c, s->id))
		return 0;
	if (x->list.rows == LISTED) {
		/* count row LISTED + 1 but do not list it: the count then tells that there are more sessions */
		x->list.rows++;
		return 1;
	}
	str_addf(&id, "%c %-3lld", s->id == x->c->log->session ? '*' : ' ', (long long)s->id);
	str_addf(&rest, "%3d %s ", s->messages, s->messages == 1 ? "message, " : "messages,");
	human_age(&rest, s->used);
	row[0].text = id.p;
	row[2].text = rest.p;
	listing_row(&x->list, row, LEN(row));
	str_free(&id);
	str_free(&rest);
	return 0;
}

void slash_sessions(struct chat *c, char *arg)
{
	struct shown x = { .c = c };
	struct err e = { 0 };

	(void)arg;
	if (chat_sessionless(c))
		return;
	if (session_list(c->log->store, list_one, &x, &e) < 0)
		chat_error(c, &e);
	else
		notice(c, "%s%s", x.list.rows ? x.list.out.p : "[there is no session yet]",
		       x.list.rows > LISTED ? "\n... `weir sessions ls` lists them all" : "");
	str_free(&x.list.out);
}

void slash_switch(struct chat *c, char *arg)
{
	struct err e = { 0 };
	int64_t id;

	if (chat_sessionless(c))
		return;
	if (!*arg)
		err_set(&e, ERR_USAGE, "/switch wants the name or number of a session; /sessions lists them");
	else if (session_find(c->log->store, arg, &id, &e) == 0 && chat_is_deleted(c, id))
		err_set(&e, ERR_USAGE, "session '%.60s' is deleted; /undelete restores it", arg);
	else if (!e.code)
		chat_switch(c, id, 0);
	if (e.code)
		chat_error(c, &e);
}

void slash_rename(struct chat *c, char *arg)
{
	struct err e = { 0 };

	if (chat_unkept(c))
		return;
	chat_delete_due(c, 1); /* a deleted session may have the new name, because it is still on the disk */
	if (!*arg)
		err_set(&e, ERR_USAGE, "/rename wants a name for this session, as in '/rename lease'");
	if (e.code || session_log_rename(c->log, &c->conv, arg, &e) < 0)
		chat_error(c, &e);
	else
		notice(c, "[this session is called '%.60s'; /sessions lists all]", arg);
}

void slash_fork(struct chat *c, char *arg)
{
	struct err e = { 0 };
	struct str title = { 0 };

	if (chat_unkept(c))
		return;
	chat_delete_due(c, 1);
	if (session_log_fork(c->log, &c->conv, *arg ? arg : NULL, &e) < 0) {
		chat_error(c, &e);
		return;
	}
	session_log_title(c->log, &title);
	notice(c, "[from here on this is session %lld, '%s'; the other one stays as it was]",
	       (long long)c->log->session, str_text(&title));
	str_free(&title);
}

static int find_one(const struct found *f, void *ud)
{
	struct shown *x = ud;
	struct str *out = &x->list.out;

	if (chat_is_deleted(x->c, f->session))
		return 0;
	str_addf(out, "%s%s (%s): ", x->list.rows++ ? "\n" : "", *f->name ? f->name : f->title,
	         f->role == ROLE_USER ? "you" : "answer");
	one_line(out, f->snippet, strlen(f->snippet), "*");
	return 0;
}

void slash_find(struct chat *c, char *arg)
{
	struct shown x = { .c = c };
	struct err e = { 0 };

	if (chat_sessionless(c))
		return;
	if (!*arg)
		err_set(&e, ERR_USAGE, "/find wants words");
	else
		store_search(c->log->store, arg, FOUND, find_one, &x, &e);
	if (e.code)
		chat_error(c, &e);
	else
		notice(c, "%s", x.list.rows ? x.list.out.p : "[nothing found]");
	str_free(&x.list.out);
}

/* Write text to a new file; never overwrite an existing file. */
static int write_new(const char *path, const struct str *text, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc = 0;

	if (fd < 0)
		return err_set(e, ERR_FAIL, "cannot write '%.120s': %s%s", path, strerror(errno),
		               errno == EEXIST ? "; name another file" : "");
	if (write_all(fd, str_text(text), text->n) < 0 || fsync(fd) < 0)
		rc = err_set(e, ERR_FAIL, "cannot write '%.120s': %s", path, strerror(errno));
	close(fd);
	if (rc)
		unlink(path); /* otherwise the partial file would make the next try fail */
	return rc;
}

/* Parse "FORMAT [FILE]", such as "md notes.md". Returns the offset of FILE, or 0 if arg does not begin with a
 * format. */
static size_t format_named(const char *arg, enum export_format *format)
{
	static const struct {
		const char *name;
		enum export_format is;
	} known[] = {
		{ "md", EXPORT_MARKDOWN },
		{ "json", EXPORT_JSON },
		{ "txt", EXPORT_TEXT },
	};
	size_t n = strcspn(arg, " \t");

	for (size_t i = 0; i < LEN(known); i++)
		if (strlen(known[i].name) == n && !memcmp(arg, known[i].name, n)) {
			*format = known[i].is;
			return n + strspn(arg + n, " \t");
		}
	return 0;
}

/* Append "weir-NAME.ENDING". NAME is the session's title, with "-" for each sequence of characters other than ASCII
 * letters and digits. */
static void default_name(struct chat *c, const char *ending, struct str *out)
{
	struct str title = { 0 };

	session_log_title(c->log, &title);
	str_adds(out, "weir-");
	for (size_t i = 0; i < title.n && i < 40; i++) {
		char ch = title.p[i];

		if (byte_is_alnum(ch))
			str_add(out, &ch, 1);
		else if (out->p[out->n - 1] != '-')
			str_adds(out, "-");
	}
	while (out->p[out->n - 1] == '-')
		out->p[--out->n] = 0;
	str_addf(out, ".%s", ending);
	str_free(&title);
}

static enum export_format format_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && !strcmp(dot, ".json") ? EXPORT_JSON : dot && !strcmp(dot, ".txt") ? EXPORT_TEXT : EXPORT_MARKDOWN;
}

void slash_export(struct chat *c, char *arg)
{
	enum export_format format = EXPORT_MARKDOWN;
	struct str path = { 0 }, text = { 0 };
	struct err e = { 0 };
	size_t named;

	if (chat_unkept(c))
		return;
	named = format_named(arg, &format);
	unquote(arg + named, &path);
	if (!path.n)
		default_name(c, format == EXPORT_JSON ? "json" : format == EXPORT_TEXT ? "txt" : "md", &path);
	else if (!named)
		format = format_of(path.p);
	if (!c->log->session)
		err_set(&e, ERR_USAGE, "there is nothing to export yet");
	else if (session_export(c->log->store, c->log->session, format, message_export_more, &text, &e) == 0)
		write_new(path.p, &text, &e);
	if (e.code)
		chat_error(c, &e);
	else
		notice(c, "[written to %s, as %s]", path.p,
		       format == EXPORT_JSON   ? "JSON"
		       : format == EXPORT_TEXT ? "text"
		                               : "Markdown");
	str_free(&path);
	str_free(&text);
}

void slash_save(struct chat *c, char *arg)
{
	struct err e = { 0 };
	struct str s = { 0 }, saved = { 0 };

	if (chat_unkept(c))
		return;
	if (*arg)
		chat_delete_due(c, 1);
	if (*arg && session_log_rename(c->log, &c->conv, arg, &e) < 0) {
		chat_error(c, &e);
		return;
	}
	if (!c->log->session) {
		notice(c, "[there is nothing to save yet; every turn is saved by itself]");
		return;
	}
	session_log_title(c->log, &s);
	str_adds(&s, "' is saved, as after every turn");
	if (session_log_saved(c->log, &saved, &e) == 0 && saved.n)
		str_addf(&s, "; its cache takes %s", saved.p);
	notice(c, "['%s]", s.p);
	str_free(&s);
	str_free(&saved);
}

/* /kv dump FILE: write what the cache panel shows, as JSON. */
static void dump_cache(struct chat *c, const char *arg)
{
	struct listener nobody = { .on = 0 };
	struct cache_report *p = cache_report_new();
	struct str path = { 0 }, text = { 0 };
	struct err e = { 0 };

	unquote(arg, &path);
	/* --json is accepted and changes nothing. */
	if (path.n > 7 && !strcmp(path.p + path.n - 7, " --json"))
		path.p[path.n -= 7] = 0;
	if (!path.n)
		err_set(&e, ERR_USAGE, "/kv dump wants a file name");
	cache_report_take(p, &c->conv, &nobody, 2, -1);
	if (p->cache.none)
		err_set(&e, ERR_USAGE, "the server keeps the KV cache, and /kv dump sees nothing of it");
	cache_report_json(p, &text);
	if (!e.code)
		write_new(path.p, &text, &e);
	if (e.code)
		chat_error(c, &e);
	else
		notice(c, "[written to %s]", path.p);
	listener_off(&nobody, NULL);
	cache_report_free(p);
	str_free(&path);
	str_free(&text);
}

void slash_kv(struct chat *c, char *arg)
{
	struct err e = { 0 };
	struct str s = { 0 }, saved = { 0 };

	if (!strncmp(arg, "dump", 4) && (!arg[4] || arg[4] == ' ')) {
		dump_cache(c, arg + 4 + strspn(arg + 4, " "));
		return;
	}
	if (chat_unkept(c))
		return;
	if (*arg && strcmp(arg, "drop") != 0 && strcmp(arg, "size") != 0)
		err_set(&e, ERR_USAGE,
		        "/kv size shows what the saved cache of this session takes; /kv drop removes it, /kv dump FILE writes what "
		        "the cache holds");
	else if (!c->log->snaps || !c->log->session)
		str_adds(&s, "[no cache is saved]");
	else if (!strcmp(arg, "drop"))
		snap_drop(c->log->snaps, c->log->session, &e);
	else
		session_log_saved(c->log, &saved, &e);
	if (e.code) {
		chat_error(c, &e);
	} else {
		if (!s.n && !strcmp(arg, "drop"))
			str_adds(&s, "[the saved snapshots are dropped; the session is recomputed when it is opened]");
		else if (!s.n) {
			str_addf(&s, "[the saved cache of this session takes %s; /kv drop removes it]",
			         str_text(&saved));
		}
		notice(c, "%s", s.p);
	}
	str_free(&saved);
	str_free(&s);
}
