/* app/tui/draft_file.c - saves unsent text in a file, so that it is not lost when the program is killed.
 *
 * The file contains the queued messages and the text of the input line. It is written at most once a second. But if the
 * text has become shorter, the file is written at once. It is deleted when the screen is closed normally. A private
 * conversation has no draft file. A lock lets only one process use the file, so a second weir saves no drafts. */
#include "app/tui/tui_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { DRAFT_MOST = 1 << 20 };
#define EVERY 1.0

/* Append the path of the draft file. Returns 1; 0 if no draft is saved. */
static int draft_path(const struct tui *t, struct str *path)
{
	return t->keeps_draft && !user_path(path, DIR_STATE, "draft", NULL);
}

/* Lock the draft file until the program ends. Returns 1; 0 if another process has locked it. */
static int draft_lock(void)
{
	/* descriptor that holds the lock; the next screen of this program closes it and locks the file again */
	static int fd = -1;
	struct str path = { 0 };
	int mine = 0;

	if (fd >= 0)
		close(fd);
	fd = -1;
	if (!user_path(&path, DIR_STATE, "draft.lock", NULL) && !make_parents(path.p)) {
		fd = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		mine = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB);
	}
	str_free(&path);
	return mine;
}

void draft_restore(struct tui *t)
{
	struct str path = { 0 }, text = { 0 };
	struct err e = { 0 };

	t->keeps_draft = t->chat->log && !t->chat->log->failed && draft_lock();
	if (draft_path(t, &path) && !access(path.p, R_OK)) {
		if (!read_whole(path.p, DRAFT_MOST, &text, &e) && text.n) {
			untyped_note(text.p, text.n);
			ui_draft(t->ui, text.p, text.n);
			ui_say(t->ui, "weir was killed; the text that was not sent is in the input line again");
		}
		unlink(path.p);
	}
	str_free(&path);
	str_free(&text);
}

/* Replace the file atomically: after a crash it has either the old text or the new one. */
static void write_draft(const struct str *path, const struct str *text)
{
	struct str fresh = { 0 };
	int fd;

	str_addf(&fresh, "%s.new", path->p);
	if (!text->n) {
		unlink(path->p);
	} else if (!make_parents(path->p) &&
	           (fd = open(fresh.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) >= 0) {
		int rc = write_all(fd, text->p, text->n);

		if (close(fd) || rc || rename(fresh.p, path->p))
			unlink(fresh.p);
	}
	str_free(&fresh);
}

double draft_save(struct tui *t, double now)
{
	struct str text = { 0 }, path = { 0 };
	double due = 0;

	if (!t->keeps_draft)
		return 0;
	ui_unsent(t->ui, &text);
	if (text.n > DRAFT_MOST || (text.n == t->saved.n && (!text.n || !memcmp(text.p, t->saved.p, text.n)))) {
		str_free(&text);
		return 0;
	}
	/* if the text has become shorter, a message was perhaps sent: write at once, so that a sent message is not
	 * restored as unsent */
	if (now < t->saved_at + EVERY && text.n >= t->saved.n) {
		due = t->saved_at + EVERY;
		str_free(&text);
	} else {
		if (draft_path(t, &path))
			write_draft(&path, &text);
		str_free(&t->saved);
		t->saved = text;
		t->saved_at = now;
	}
	str_free(&path);
	return due;
}

void draft_forget(struct tui *t)
{
	struct str path = { 0 };

	if (draft_path(t, &path))
		unlink(path.p);
	str_free(&path);
	str_free(&t->saved);
}
