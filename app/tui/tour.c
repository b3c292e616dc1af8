/* app/tui/tour.c - the tour for new users: a few steps, in an ordinary conversation.
 *
 * A step shows a notice and puts a text into the input line. When the user has done, in any way, what the notice asks
 * for, the next step begins. The notices are not part of the conversation. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/tui/tui_private.h"

/* A document of invented facts. The model cannot know them, so a right answer shows that it has read the document. */
static const char document[] =
	"# The light on Grey Skerry\n\n"
	"Notes about a lighthouse, from its logs. It stands in no atlas: it was made up for the tour of weir.\n\n"
	"## The tower\n\n"
	"The tower was built in 1874 of red granite from the mainland. It is 31 metres high and has 142 steps. The lens came by ship in eleven "
	"crates; two were opened by the sea on the way, and the prisms in them were ground anew.\n\n"
	"## The night of the storm\n\n"
	"On 11 November 1907 the clockwork that turned the lens broke in a storm from the north-west. The keeper turned the lens by hand, for nine "
	"hours, until daylight. Three ships passed the skerry that night, and all three reached the harbour. The keeper was given a silver watch, "
	"which hangs in the lamp room.\n\n"
	"## Supplies\n\n"
	"A boat came every second Tuesday with oil, flour, coffee and letters, if the landing stage was free of ice. In the winter of 1912 it was "
	"not for seven weeks, and the log ends each day with the number of candles left. On the last day there were four.\n\n"
	"## Today\n\n"
	"Since 1983 the light works without a keeper. It flashes white twice every fifteen seconds and is seen for nineteen nautical miles. "
	"Storm petrels nest in the empty oil store, which is closed from May to August.\n";

enum { STEPS = 6 };

/* Functions that tell whether a step is done. */
static int has_answer(const struct tui *t)
{
	return t->tour.answers > t->tour.before;
}
static int has_document(const struct tui *t)
{
	return t->tour.documents > t->tour.before;
}
/* 1 if the cache panel is open, even if it was opened before this step of the tour. */
static int has_panel(const struct tui *t)
{
	return t->tour.panel;
}
static int is_away(const struct tui *t)
{
	return t->session != t->tour.session;
}
static int is_back(const struct tui *t)
{
	return t->session == t->tour.session;
}

/* `draft` is the text for the input line; "%" in it stands for the document's path. done() returns 1 if the step is
 * done. If the model is on a server, the notice `served` is shown instead of `text`, unless `served` is NULL. */
static const struct step {
	const char *text, *draft;
	int (*done)(const struct tui *);
	const char *served;
} steps[STEPS] = {
	{ "Tour, 1 of 5: talk.\nThe line below is a message. Change it if you like; Enter sends it. Esc stops an answer, Ctrl-X g asks for another one. "
	  "(/tour ends the tour.)",
	  "Tell me in two sentences why the sea is salty.", has_answer, NULL },
	{ "Tour, 2 of 5: a document.\nEnter opens a page about a lighthouse. It works the same with a book or a folder, in PDF, EPUB, Word, HTML or plain text: "
	  "what does not fit the context is searched for each question.",
	  "/open %", has_document, NULL },
	{ "Tour, 3 of 5: ask it.\nAbove the answer stand the places that it comes from; F7 opens them in the document, Esc closes it. The default model answers "
	  "with the best sentence itself; larger ones, which 'weir models' lists, answer in their own words.",
	  "For how many hours did the keeper turn the lens by hand?", has_answer, NULL },
	{ "Tour, 4 of 5: memory.\nF2 shows the KV cache, which is what the model remembers of this conversation; F2 again on the whole screen, and once more "
	  "not at all. When it is full, the oldest text leaves it first and is dimmed here: nothing is forgotten in silence.",
	  NULL, has_panel,
	  "Tour, 4 of 5: memory.\nThe server keeps the KV cache, which is what the model remembers of this conversation. When its context is full, the oldest "
	  "messages are not sent any more: weir says so, and F2 dims them. F2 again is on the whole screen, and once more not at all." },
	{ "Tour, 5 of 5: come back.\nThis conversation is saved, and the cache with it. Ctrl-X n begins another one.",
	  NULL, is_away, "Tour, 5 of 5: come back.\nThis conversation is saved. Ctrl-X n begins another one." },
	{ "Tour, 5 of 5: come back.\nF4 lists the sessions; Enter on the one with the lighthouse continues it. Its cache comes from the disk: nothing is read again. "
	  "It is the same after weir was closed.",
	  NULL, is_back,
	  "Tour, 5 of 5: come back.\nF4 lists the sessions; Enter on the one with the lighthouse continues it. It is the same after weir was closed." },
};

static void say_step(struct tui *t, const char *text)
{
	ui_entry(t->ui, UI_NOTICE, text, strlen(text));
	ui_entry_end(t->ui, NULL);
}

/* Write the document to a file. Append the file's path as the user would type it, with "~" for the home directory. */
static int write_document(struct str *path, struct err *e)
{
	const char *home = getenv("HOME");
	size_t n = home ? strlen(home) : 0;
	int fd, rc;

	if (user_path(path, DIR_CACHE, "lighthouse.md", e))
		return -1;
	make_parents(path->p);
	fd = open(path->p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	rc = fd < 0 || write_all(fd, document, sizeof document - 1)
	             ? err_set(e, ERR_FAIL, "cannot write '%.200s': %s", path->p, strerror(errno))
	             : 0;
	if (fd >= 0)
		close(fd);
	if (n > 1 && !strncmp(path->p, home, n) && path->p[n] == '/') {
		path->p[0] = '~';
		memmove(path->p + 1, path->p + n, path->n + 1 - n);
		path->n -= n - 1;
	}
	return rc;
}

static void tour_propose(struct tui *t, const char *draft)
{
	struct str text = { 0 }, path = { 0 };
	struct err e = { 0 };
	const char *mark = strchr(draft, '%');

	ui_unsent(t->ui, &text);
	if (text.n) {
		; /* leave the input line as it is, because the user has begun to type */
	} else if (mark && write_document(&path, &e)) {
		say_step(t, e.msg);
	} else {
		str_add(&text, draft, mark ? (size_t)(mark - draft) : strlen(draft));
		str_adds(&text, str_text(&path));
		ui_draft(t->ui, text.p, text.n);
	}
	str_free(&text);
	str_free(&path);
}

static void tour_end(struct tui *t)
{
	t->tour.step = 0;
	say_step(
		t,
		t->store
			? "That was the tour. F1 lists the keys, Ctrl-P finds commands by what they do, 'man weir' has it all. In the list of sessions, F4, Ctrl-D deletes "
			  "what you do not want to keep."
			: "That was the tour: this conversation is private, so there is no session to come back to. F1 lists the keys, Ctrl-P finds commands "
			  "by what they do, 'man weir' has it all.");
}

static void begin_step(struct tui *t)
{
	const struct step *s = &steps[t->tour.step - 1];

	t->tour.before = s->done == has_document ? t->tour.documents : t->tour.answers;
	if (s->done == is_away)
		t->tour.session = t->session;
	say_step(t, t->served && s->served ? s->served : s->text);
	if (s->draft)
		tour_propose(t, s->draft);
}

void tour_begin(struct tui *t)
{
	if (t->tour.step) {
		t->tour.step = 0;
		say_step(t, "The tour has ended; /tour begins it again.");
		return;
	}
	t->tour.step = 1;
	begin_step(t);
}

void tour_go_on(struct tui *t)
{
	if (!t->tour.step || t->working || !steps[t->tour.step - 1].done(t))
		return;
	if (t->tour.step == STEPS || (steps[t->tour.step].done == is_away && !t->store)) {
		tour_end(t);
		return;
	}
	t->tour.step++;
	begin_step(t);
}
