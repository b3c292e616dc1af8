/* tests/app/t_worker.c - the thread of the full screen: it starts, or fails without leaking; it owns the chat while it
 * runs; it reads the session's title from the store only when the title may have changed.
 *
 * Under the thread sanitizer `reads_at_once` shows that the main thread does not touch the chat, which the worker
 * changes from its first moment on. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "app/chat/cache_view.h"
#include "app/retrieval/retrieval_private.h"
#include "app/tui/tui.h"
#include "app/tui/tui_private.h"
#include "app/tui/worker.h"
#include "tests/lib/test.h"

#define MODEL "tests/vectors/models/llama-block32.gguf"

static struct {
	struct options o;
	struct chat c;
	struct str note;
	char home[64];
} p;

/* args: the words of the command line between "weir" and "-m MODEL", ended by NULL. */
static void opened(const char *const *args)
{
	static char *word[24];
	struct err e = { 0 };
	int n = 0;

	memset(&p, 0, sizeof p);
	snprintf(p.home, sizeof p.home, "/tmp/weir-worker-XXXXXX");
	CHECK(mkdtemp(p.home) != NULL);
	setenv("XDG_CONFIG_HOME", p.home, 1);
	setenv("XDG_STATE_HOME", p.home, 1);
	setenv("XDG_DATA_HOME", p.home, 1);
	word[n++] = (char *)"weir";
	for (; *args; args++)
		word[n++] = (char *)*args;
	for (const char *const *more = (const char *const[]){ "-m", MODEL, "--threads", "1", "--temp", "0", NULL };
	     *more; more++)
		word[n++] = (char *)*more;
	CHECK_MSG(options_parse(&p.o, n, word, &e) == 0 && chat_open(&p.c, &p.o, &p.note, &e) == 0, "%s", e.msg);
}

static void closed(void)
{
	char clean[100];

	chat_close(&p.c, &p.o);
	options_free(&p.o);
	str_free(&p.note);
	snprintf(clean, sizeof clean, "rm -rf '%.60s'", p.home);
	if (system(clean)) { /* on failure only a directory is left behind */
	}
}

static void settle(struct tui *t)
{
	for (int i = 0; i < 20000; i++) {
		if (!tui_step(t, 0.005))
			return;
		if (tui_idle(t) && tui_step(t, 0) && tui_idle(t))
			return;
	}
	CHECK(!"it comes to rest");
}

/* ---- starting ---- */

enum { TRIES = 50, NOISE = 4096 }; /* NOISE: most bytes by which malloc()'s caches may change the figures */

static size_t allocated(void)
{
	return mallinfo2().uordblks;
}

/* No file descriptor is free for the pipe of events. */
TEST(no_event_descriptor)
{
	struct rlimit before, none;
	struct worker *w = NULL;
	struct err e = { 0 };
	size_t had, leaked;

	opened((const char *const[]){ "--private", NULL });
	getrlimit(RLIMIT_NOFILE, &before);
	none = before;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	CHECK(worker_open(&w, &p.c, &e) < 0);
	had = allocated();
	for (int i = 0; i < TRIES; i++)
		CHECK(worker_open(&w, &p.c, &e) < 0);
	leaked = allocated() - had;
	setrlimit(RLIMIT_NOFILE, &before);
	CHECK_MSG(leaked < NOISE, "%zu bytes are lost", leaked);
	CHECK(w == NULL && strstr(e.msg, "cannot make a pipe"));
	closed();
}

/* Make pthread_create() fail by a default stack size beyond the address space. Returns the bytes that `tries` failed
 * starts leave allocated. */
static size_t without_threads(int tries)
{
	pthread_attr_t before, huge;
	size_t had = 0;

	pthread_getattr_default_np(&before);
	pthread_attr_init(&huge);
	pthread_attr_setstacksize(&huge, (size_t)1 << 47);
	CHECK_INT(pthread_setattr_default_np(&huge), 0);
	for (int i = -1; i < tries; i++) {
		struct worker *w = NULL;
		struct err e = { 0 };

		CHECK(worker_open(&w, &p.c, &e) == 0);
		CHECK(worker_start(w, &e) < 0 && strstr(e.msg, "thread"));
		worker_close(w);
		if (i < 0)
			had = allocated();
	}
	pthread_setattr_default_np(&before);
	pthread_attr_destroy(&before);
	pthread_attr_destroy(&huge);
	return allocated() - had;
}

TEST(no_thread)
{
	struct tui *t;
	struct err e = { 0 };
	size_t leaked;

	opened((const char *const[]){ "--private", "tests/screens/document.md", NULL });
	leaked = without_threads(TRIES);
	CHECK_MSG(leaked < NOISE, "%zu bytes are lost", leaked);
	/* With the normal stack size the screen opens. */
	CHECK(tui_open(&t, &p.c, -1, 80, 24, NULL, &e) == 0);
	settle(t);
	tui_close(t);
	closed();
}

/* ---- what waits for the thread ---- */

static int says_working(struct worker *w)
{
	struct worker_status s;

	CHECK(worker_status(w, &s));
	CHECK(!s.working == !s.verb[0]);
	return s.working;
}

/* Here the thread never takes the message. The status reports work from worker_do() until worker_stop() drops the
 * message. */
TEST(a_message_that_waits_for_the_thread_is_work)
{
	struct worker *w;
	struct err e = { 0 };

	opened((const char *const[]){ "--private", NULL });
	CHECK(worker_open(&w, &p.c, &e) == 0);
	CHECK(!says_working(w));
	worker_do(w, JOB_REPORT, 0, NULL, 0); /* a small job, which the user did not send, is not reported as work */
	CHECK(!worker_status(w, &(struct worker_status){ 0 }));
	worker_do(w, JOB_LINE, 0, "hello", 5);
	CHECK(says_working(w));
	CHECK_INT(worker_stop(w), 1);
	CHECK(!says_working(w));
	CHECK_INT(worker_stop(w), 0);
	CHECK(!says_working(w));
	worker_close(w);
	closed();
}

/* A message that is stopped as soon as it was sent either ran or is reported as dropped; then nothing runs. */
TEST(a_message_is_stopped_as_soon_as_it_is_sent)
{
	enum { ROUNDS = 40 };
	struct tui *t;
	struct str screen = { 0 };
	struct err e = { 0 };
	int dropped = 0;

	opened((const char *const[]){ "--private", "-q", "-n", "5", NULL });
	CHECK(tui_open(&t, &p.c, -1, 80, 24, NULL, &e) == 0);
	settle(t);
	for (int i = 0; i < ROUNDS; i++) {
		tui_feed(t, "/new\r", 5);
		settle(t);
		tui_feed(t, "hello\r", 6);
		for (int k = i % 4; k; k--)
			tui_step(t, 0);
		tui_feed(t, "\003", 1);
		settle(t);
		tui_dump(t, 0, &screen);
		dropped += strstr(screen.p, "stopped before it began") != NULL;
		CHECK_MSG(strstr(screen.p, "stopped before it began") || strstr(screen.p, "withdrawn") ||
		                  strstr(screen.p, "stopped]") || strstr(screen.p, "tokens"),
		          "%s", screen.p);
		CHECK_MSG(strstr(screen.p, "F1 Help") != NULL, "%s", screen.p);
		str_clear(&screen);
	}
	test_note("%d of %d messages were stopped before the thread came to them", dropped, ROUNDS);
	tui_close(t);
	closed();
	str_free(&screen);
}

/* ---- whose the chat is ---- */

TEST(reads_at_once)
{
	struct tui *t;
	struct str text = { 0 };
	struct err e = { 0 };

	for (int i = 0; i < 5; i++) {
		opened((const char *const[]){ "read", "--private", "--chat-template", "chatml", "--kv",
		                              "sink:size=64,stride=16", "tests/screens/document.md", NULL });
		CHECK_MSG(tui_open(&t, &p.c, -1, 80, 24, "a note", &e) == 0, "%s", e.msg);
		settle(t);
		tui_dump(t, 0, &text);
		CHECK_MSG(strstr(text.p, "[a note]") && strstr(text.p, "the end of"), "%s", text.p);
		str_clear(&text);
		tui_close(t);
		closed();
	}
	str_free(&text);
}

/* Send SIGTERM while the screen runs, and return the chat's exit code. Runs in a child process, because the signal
 * stays noted. */
static int end_by_signal(void)
{
	struct tui *t;
	struct err e = { 0 };

	opened((const char *const[]){ "--private", NULL });
	signals_init();
	signals_note(1);
	if (tui_open(&t, &p.c, -1, 80, 24, NULL, &e) < 0)
		return 1;
	raise(SIGTERM);
	while (tui_step(t, 0.01)) {
	}
	tui_close(t);
	closed();
	return p.c.rc;
}

TEST(ended_by_a_signal)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child)
		exit(end_by_signal());
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 128 + SIGTERM);
}

/* ---- what it asks the store ---- */

static _Atomic int asked;

static int on_statement(unsigned what, void *ud, void *statement, void *sql)
{
	(void)what, (void)ud, (void)sql;
	asked += !strncmp(sqlite3_sql(statement), "SELECT id, head, created, used", 30);
	return 0;
}

static int on_connection(sqlite3 *db, const char **msg, const struct sqlite3_api_routines *api)
{
	(void)msg, (void)api;
	return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
}

static int shows(struct tui *t, const char *what)
{
	struct str text = { 0 };
	int found;

	tui_dump(t, 0, &text);
	found = strstr(text.p, what) != NULL;
	str_free(&text);
	return found;
}

static void enter(struct tui *t, const char *line)
{
	tui_feed(t, line, strlen(line));
	tui_feed(t, "\r", 1);
	settle(t);
}

/* The status is reported after every chunk of a prefill and ten times a second during an answer, but the title is read
 * only when it may have changed. */
TEST(the_title_is_asked_for_when_it_changes)
{
	struct tui *t;
	struct str question = { 0 };
	struct err e = { 0 };
	int few, many;

	sqlite3_auto_extension((void (*)(void))on_connection);
	opened((const char *const[]){ "-s", "begun", "-q", "-n", "5", "--kv", "sink:size=64,stride=16", NULL });
	CHECK(tui_open(&t, &p.c, -1, 100, 24, NULL, &e) == 0);
	settle(t);
	CHECK(shows(t, "begun  "));
	asked = 0;
	enter(t, "short");
	few = asked;
	str_adds(&question, "\033[200~");
	for (int i = 0; i < 5000; i++)
		str_adds(&question, "word ");
	str_adds(&question, "\033[201~");
	asked = 0;
	enter(t, question.p);
	many = asked;
	str_free(&question);
	test_note("the title is asked for %d times in a short turn, %d times in one of 5000 words", few, many);
	CHECK(few > 0); /* 0 would mean that the hook does not count */
	CHECK_INT(many, few);
	enter(t, "/rename renamed");
	CHECK(shows(t, "renamed  "));
	enter(t, "/new");
	CHECK(!shows(t, "renamed  "));
	enter(t, "titled by this");
	CHECK(shows(t, "titled by this  "));
	tui_close(t);
	closed();
	sqlite3_cancel_auto_extension((void (*)(void))on_connection);
}

/* ---- a stop ---- */

static void paste(struct tui *t, const char *word, int n)
{
	tui_feed(t, "\033[200~", 6);
	for (int i = 0; i < n; i++)
		tui_feed(t, word, strlen(word));
	tui_feed(t, "\033[201~\r", 7);
}

/* Wait until the screen shows the text, at most two minutes. */
static void wait_for(struct tui *t, const char *what)
{
	double until = now_seconds() + 120;

	while (!shows(t, what) && now_seconds() < until)
		tui_step(t, 0.005);
	CHECK_MSG(shows(t, what), "'%s' is not shown", what);
}

/* Set *out to the last line above the one with the text `what` that is not blank; "" if there is none. */
static void line_above(const struct str *screen, const char *what, struct str *out)
{
	const char *end = strstr(screen->p, what), *from = NULL;

	end = end ? memrchr(screen->p, '\n', (size_t)(end - screen->p)) : NULL;
	while (end && (from = memrchr(screen->p, '\n', (size_t)(end - screen->p))) &&
	       strspn(from + 1, " ") == (size_t)(end - from - 1))
		end = from;
	if (end && from)
		str_add(out, from + 1, (size_t)(end - from - 1));
	else
		str_adds(out, "");
}

/* A `sink` cache can roll back at most 64 tokens. Regenerating a longer answer therefore prefills the whole question
 * again, which takes long enough to be stopped before the first token. Meanwhile the old answer is not shown. */
TEST(a_regenerated_answer_that_is_stopped_before_it_begins_keeps_the_old_one)
{
	struct tui *t;
	struct str screen = { 0 }, answer = { 0 };
	struct err e = { 0 };
	int stopped = 0;

	opened((const char *const[]){ "--private", "-q", "-n", "100", "--kv", "sink:size=64,stride=16", NULL });
	CHECK(tui_open(&t, &p.c, -1, 100, 40, NULL, &e) == 0);
	settle(t);
	paste(t, "word ", 5000);
	settle(t);
	tui_dump(t, 0, &screen);
	line_above(&screen, "[cut at 100 tokens", &answer);
	CHECK_MSG(answer.n > 4 && !strstr(answer.p, "word"), "the answer ends in '%s' on\n%s", answer.p, screen.p);
	/* On a busy machine this thread may miss the prefill: try again. */
	for (int i = 0; i < 50 && !stopped; i++) {
		tui_feed(t, "/regen\r", 7);
		while (!shows(t, "reading") && !tui_idle(t))
			tui_step(t, 0.005);
		if (!shows(t, "reading"))
			continue;
		CHECK(!shows(t, answer.p));
		tui_feed(t, "\003", 1);
		settle(t);
		stopped = shows(t, "[stopped before the answer began");
	}
	str_clear(&screen);
	tui_dump(t, 0, &screen);
	CHECK_MSG(strstr(screen.p, answer.p) != NULL, "'%s' is not on\n%s", answer.p, screen.p);
	CHECK_MSG(strstr(screen.p, "[stopped before the answer began: the answer stays as it was]") != NULL,
	          "no line says that it was stopped\n%s", screen.p);
	tui_close(t);
	CHECK_INT(p.c.conv.n_msg, 2);
	closed();
	str_free(&screen);
	str_free(&answer);
}

/* A command that only shows something opens a pane at once, even during an answer. A command that may change something
 * waits. */
TEST(looking_does_not_wait)
{
	struct tui *t;
	struct str text = { 0 };
	struct err e = { 0 };

	opened((const char *const[]){ "--private", "-q", "-n", "100", "--kv", "sink:size=64,stride=16", NULL });
	CHECK_MSG(tui_open(&t, &p.c, -1, 100, 30, NULL, &e) == 0, "%s", e.msg);
	settle(t);
	paste(t, "word ", 20000);
	wait_for(t, "reading");
	tui_feed(t, "/stats\r", 7);
	wait_for(t, "so far ");
	CHECK(shows(t, "reading"));
	tui_feed(t, "\33[27u", 5);
	tui_feed(t, "/copy code 99\r", 14);
	/* shown in the status row, because an answer is being appended to the transcript */
	CHECK(shows(t, "there is no block of code"));
	tui_feed(t, "/set temp\r", 10);
	tui_feed(t, "\003", 1);
	settle(t);
	tui_dump(t, 0, &text);
	/* after a stop, the waiting command is back in the input line */
	CHECK_MSG(!strstr(text.p, "so far ") && strstr(text.p, "> /set temp"), "%s", text.p);
	str_free(&text);
	tui_close(t);
	closed();
}

static void keys(struct tui *t, const char *k)
{
	tui_feed(t, k, strlen(k));
	tui_step(t, 0.05);
}

/* Sessions are deleted and restored while an answer runs, and the list stays open. Deleting the session of the running
 * answer waits for the end of the answer. /undelete before that cancels the deletion; stopping the answer does not. */
TEST(sessions_are_deleted_while_an_answer_runs)
{
	static const char list[] = "\33OS", down[] = "\33[B", erase[] = "\4", yes[] = "y", undo[] = "\25",
			  close[] = "\33[27u", stop[] = "\3";
	struct tui *t;
	struct err e = { 0 };
	int64_t here;

	opened((const char *const[]){ "-s", "the other", "-q", "-n", "100", "--kv", "sink:size=64,stride=16", NULL });
	CHECK_MSG(tui_open(&t, &p.c, -1, 100, 30, NULL, &e) == 0, "%s", e.msg);
	settle(t);
	enter(t, "hello");
	enter(t, "/new");
	enter(t, "this one");
	here = p.c.log->session;
	paste(t, "word ", 20000);
	wait_for(t, "reading");
	keys(t, list);
	wait_for(t, "the other");
	keys(t, down), keys(t, erase), keys(t, yes);
	wait_for(t, "session 'the other' is deleted");
	CHECK(shows(t, "Sessions"));
	keys(t, undo);
	wait_for(t, "session 'the other' is there again");
	CHECK(shows(t, "Sessions"));
	keys(t, close), keys(t, list), keys(t, erase), keys(t, yes);
	wait_for(t, "deleted 'this one'");
	keys(t, undo);
	wait_for(t, "the session stays");
	CHECK(shows(t, "reading"));
	keys(t, erase), keys(t, yes);
	wait_for(t, "deleted 'this one'");
	keys(t, close), keys(t, stop);
	settle(t);
	CHECK_INT(p.c.n_deleted, 1);
	CHECK(chat_is_deleted(&p.c, here));
	CHECK_INT(p.c.conv.n_msg, 0);
	keys(t, stop); /* clears the text that was typed meanwhile */
	enter(t, "/undelete");
	CHECK_INT(p.c.n_deleted, 0);
	CHECK_INT(p.c.log->session, here);
	tui_close(t);
	closed();
}

/* The status row does not count the tokens of an undone turn. */
TEST(the_status_does_not_count_undone_turns)
{
	struct tui *t;
	struct err e = { 0 };
	struct timeline_stats st;
	char words[40];

	opened((const char *const[]){ "--private", "-q", "-n", "40", "--kv", "full", "--temp", "0", NULL });
	CHECK_MSG(tui_open(&t, &p.c, -1, 120, 30, NULL, &e) == 0, "%s", e.msg);
	settle(t);
	tui_feed(t, "one\r", 4);
	settle(t);
	timeline_stats(p.c.conv.tl, &st);
	snprintf(words, sizeof words, "(%d of ", st.n_tokens);
	CHECK(shows(t, words));
	tui_feed(t, "/undo\r", 6);
	settle(t);
	CHECK(!shows(t, words));
	tui_feed(t, "/redo\r", 6);
	settle(t);
	CHECK(shows(t, words));
	tui_close(t);
	closed();
}

/* During the prefill of a question, the status also counts the cached tokens before it. */
TEST(the_status_of_a_prefill_counts_what_was_there)
{
	struct tui *t;
	struct err e = { 0 };
	struct timeline_stats st;
	struct worker_status status;

	opened((const char *const[]){ "--private", "-q", "-n", "40", "--kv", "sink:size=64,stride=16", NULL });
	CHECK_MSG(tui_open(&t, &p.c, -1, 120, 30, NULL, &e) == 0, "%s", e.msg);
	settle(t);
	enter(t, "one");
	timeline_stats(p.c.conv.tl, &st);
	paste(t, "word ", 20000);
	wait_for(t, "reading");
	worker_status(t->worker, &status);
	CHECK_MSG(status.seen - status.done > st.n_tokens - 8 && status.seen - status.done <= st.n_tokens + 1,
	          "%d tokens were there; %lld of %lld are read, and %d are shown", st.n_tokens, (long long)status.done,
	          (long long)status.total, status.seen);
	tui_feed(t, "\003", 1);
	settle(t);
	tui_close(t);
	closed();
}

/* A token that at least one head keeps counts as kept, so kept and evicted tokens add up to all tokens. */
TEST(kept_and_evicted_tokens_are_all)
{
	struct tui *t;
	struct err e = { 0 };
	struct cache_report *r = cache_report_new();
	struct listener nobody = { 0 };
	struct ui_cache *c = &r->cache;

	opened((const char *const[]){ "--private", "-q", "-n", "100", "--kv", "cascade:size=64,n=2,stride=16", NULL });
	CHECK_MSG(tui_open(&t, &p.c, -1, 120, 30, NULL, &e) == 0, "%s", e.msg);
	settle(t);
	enter(t, "one");
	enter(t, "two");
	tui_close(t);
	cache_report_take(r, &p.c.conv, &nobody, 2, -1);
	CHECK(c->evicted > 0 && c->thinned > 0);
	CHECK_INT(c->kept + c->evicted, c->seen);
	CHECK(c->kept >= c->region[0].fill + c->region[1].fill);
	cache_report_take(r, &p.c.conv, &nobody, 2, c->seen - 3); /* the last three tokens are not prefilled yet */
	CHECK_INT(c->kept + c->evicted, c->seen);
	cache_report_free(r);
	closed();
}

/* The status of a new conversation counts neither the tokens nor the speed of the previous one, even if a bounded cache
 * has evicted most of those tokens. */
TEST(the_status_of_a_new_conversation_is_its_own)
{
	static const char *const policy[] = { "full", "sink:size=64,stride=16" };

	for (size_t i = 0; i < LEN(policy); i++) {
		struct tui *t;
		struct err e = { 0 };
		struct timeline_stats st;
		struct worker_status status;
		int32_t first;

		opened((const char *const[]){ "--private", "-q", "-n", "100", "--kv", policy[i], "--temp", "0",
		                              "--system", "Be brief.", NULL });
		CHECK_MSG(tui_open(&t, &p.c, -1, 120, 30, NULL, &e) == 0, "%s", e.msg);
		settle(t);
		enter(t, "one");
		enter(t, "two");
		timeline_stats(p.c.conv.tl, &st);
		first = p.c.conv.pinned;
		worker_status(t->worker, &status);
		CHECK(status.last_tps > 0);
		CHECK_INT(status.evicted > 0, i);
		enter(t, "/new");
		worker_status(t->worker, &status);
		CHECK_INT(status.kept, first);
		CHECK(!(status.last_tps > 0));
		CHECK_INT(status.evicted, 0);
		CHECK(first > 0 && first < st.n_tokens);
		CHECK_INT(conversation_cached_tokens(&p.c.conv, &st), first);
		enter(t, "/stats");
		CHECK(shows(t, "of the conversation before, until the next question"));
		enter(t, "three");
		worker_status(t->worker, &status);
		CHECK(status.last_tps > 0);
		tui_close(t);
		closed();
	}
}

/* Left and Right without a draft go between the variants of a turn. */
TEST(left_and_right_show_variants)
{
	struct tui *t;
	struct err e = { 0 };

	opened((const char *const[]){ "-s", "many", "-n", "4", "--kv", "full", NULL });
	CHECK(tui_open(&t, &p.c, -1, 100, 60, NULL, &e) == 0);
	settle(t);
	tui_feed(t, "one\r", 4);
	settle(t);
	tui_feed(t, "/edit two\r", 10);
	settle(t);
	CHECK(shows(t, "variant 2 of 2]"));
	tui_feed(t, "\33[D", 3);
	settle(t);
	CHECK(shows(t, "[variant 1 of 2]") && !shows(t, "2 of 2"));
	CHECK(!shows(t, "/variant") && !shows(t, "[variant 1 of 2;")); /* said once */
	/* with a draft, Left and Right move the cursor */
	tui_feed(t, "x\33[C\177", 5);
	settle(t);
	CHECK(shows(t, "[variant 1 of 2]"));
	tui_feed(t, "\33[C", 3);
	settle(t);
	CHECK(shows(t, "[variant 2 of 2]") && !shows(t, "1 of 2"));
	tui_close(t);
	closed();
}

/* Answers that differ only after a NUL byte are two variants. */
TEST(variants_may_hold_any_bytes)
{
	struct tui *t;
	struct err e = { 0 };
	int64_t question = 0, id = 0;

	opened((const char *const[]){ "-s", "zero", "-n", "4", "--kv", "full", NULL });
	CHECK(!message_append(p.c.log->store, p.c.log->session,
	                      &(struct stored_message){ .role = ROLE_USER, .text = "one", .n_text = 3, .complete = 1 },
	                      &question, &e));
	for (int i = 0; i < 2; i++)
		CHECK(!message_append(p.c.log->store, p.c.log->session,
		                      &(struct stored_message){ .parent = question,
		                                                .role = ROLE_ASSISTANT,
		                                                .text = i ? "x\0here is another one"
		                                                          : "x\0here is the first one",
		                                                .n_text = i ? 21 : 23,
		                                                .complete = 1 },
		                      &id, &e));
	CHECK(tui_open(&t, &p.c, -1, 100, 60, NULL, &e) == 0);
	settle(t);
	tui_feed(t, "/switch zero\r", 13);
	settle(t);
	CHECK(shows(t, "[variant 2 of 2]"));
	tui_close(t);
	closed();
}

/* An answer that a crash has cut short gets a note that names the command to continue. */
TEST(an_interrupted_answer_is_marked)
{
	struct tui *t;
	struct err e = { 0 };
	int64_t id = 0;

	opened((const char *const[]){ "-s", "cut", "-n", "4", "--kv", "full", NULL });
	CHECK(!message_append(p.c.log->store, p.c.log->session,
	                      &(struct stored_message){ .role = ROLE_USER, .text = "one", .n_text = 3, .complete = 1 },
	                      &id, &e));
	CHECK(!message_append(p.c.log->store, p.c.log->session,
	                      &(struct stored_message){
				      .parent = id, .role = ROLE_ASSISTANT, .text = "it was", .n_text = 6 },
	                      &id, &e));
	CHECK(tui_open(&t, &p.c, -1, 100, 60, NULL, &e) == 0);
	settle(t);
	tui_feed(t, "/switch cut\r", 12);
	settle(t);
	CHECK(shows(t, "[interrupted; /continue goes on]"));
	tui_feed(t, "/continue\r", 10);
	settle(t);
	CHECK(!shows(t, "interrupted"));
	/* The note below a question whose answer had not begun. */
	CHECK(!message_append(p.c.log->store, p.c.log->session,
	                      &(struct stored_message){ .parent = p.c.conv.msg[1].stored,
	                                                .role = ROLE_USER,
	                                                .text = "two",
	                                                .n_text = 3,
	                                                .complete = 1 },
	                      &id, &e));
	tui_feed(t, "/new\r/switch cut\r", 17);
	settle(t);
	CHECK(shows(t, "[not answered; /continue answers]"));
	tui_feed(t, "/continue\r", 10);
	settle(t);
	CHECK(!shows(t, "not answered"));
	CHECK_INT(p.c.conv.n_msg, 4);
	tui_close(t);
	closed();
}

/* A resumed session shows the sources of every answer; F7 and a click open those of the visible answer. */
TEST(answers_come_back_with_their_sources)
{
	static const char *const args[] = {
		"-s", "kept", "-n", "4", "--kv", "full", "tests/screens/document.md", NULL
	};
	struct str screen = { 0 };
	struct tui *t;
	struct err e = { 0 };
	char *first, *second;

	opened(args);
	search_of(&p.c.conv)->rerank.tokens = -1; /* no reranking: the tiny model cannot rank passages */
	CHECK(tui_open(&t, &p.c, -1, 100, 60, NULL, &e) == 0);
	settle(t);
	tui_feed(t, "What does the tenant pay?\r", 26);
	settle(t);
	tui_feed(t, "/set passages 0\r", 16);
	tui_feed(t, "Who found the landlord?\r", 24);
	settle(t);
	tui_feed(t, "/new\r/switch kept\r", 18);
	settle(t);
	tui_dump(t, 0, &screen);
	first = strstr(screen.p, "[1] document.md, ");
	second = first ? strstr(first + 1, "[1] document.md, ") : NULL;
	CHECK_MSG(second && !strstr(second + 1, "[1] document.md, "), "%s", screen.p);
	CHECK(first > strstr(screen.p, "What does the tenant pay?") && first < strstr(screen.p, "Who found"));
	tui_feed(t, "\33[18~", 5);
	settle(t);
	str_clear(&screen);
	tui_dump(t, 0, &screen);
	CHECK_MSG(strstr(screen.p, "source [1] of ") != NULL, "%s", screen.p);
	/* After the document is dropped, opening a source reports that it is missing. */
	tui_feed(t, "\3", 1);
	settle(t);
	tui_feed(t, "/drop 1\r", 8);
	settle(t);
	tui_feed(t, "\33[18~", 5);
	settle(t);
	str_clear(&screen);
	tui_dump(t, 0, &screen);
	CHECK_MSG(strstr(screen.p, "source [1]: 'document.md' is not among the documents any more") != NULL &&
	                  strstr(screen.p, "Who found"),
	          "%s", screen.p);
	tui_feed(t, "/redo\r", 6);
	settle(t);
	tui_feed(t, "\33[18~", 5);
	settle(t);
	str_clear(&screen);
	tui_dump(t, 0, &screen);
	CHECK_MSG(strstr(screen.p, "source [1] of ") != NULL, "%s", screen.p);
	tui_close(t);
	closed();
	str_free(&screen);
}

/* The sources of earlier answers stay on the screen when the last answer is regenerated, and its own come back. */
TEST(a_regenerated_answer_has_its_sources)
{
	struct tui *t;
	struct str screen = { 0 };
	struct err e = { 0 };
	size_t n = 0;

	opened((const char *const[]){ "--private", "-n", "4", "tests/screens/document.md", NULL });
	search_of(&p.c.conv)->rerank.tokens = -1; /* no reranking: the tiny model cannot rank passages */
	CHECK(tui_open(&t, &p.c, -1, 100, 60, NULL, &e) == 0);
	settle(t);
	for (int i = 0; i < 2; i++) {
		tui_feed(t, "What does the tenant pay?\r", 26);
		settle(t);
	}
	tui_feed(t, "/regen\r", 7);
	settle(t);
	tui_dump(t, 0, &screen);
	for (const char *s = screen.p; (s = strstr(s, "[1] document.md, ")); s++)
		n++;
	CHECK_MSG(n == 2, "%zu times on\n%s", n, screen.p);
	str_clear(&screen);
	tui_feed(t, "\33[18~", 5);
	settle(t);
	tui_dump(t, 0, &screen);
	CHECK_MSG(strstr(screen.p, "source [1] of ") != NULL, "%s", screen.p);
	tui_close(t);
	closed();
	str_free(&screen);
}

/* A message that is sent while a text is read, and whose first word is a synonym of a command that only looks, is
 * answered like any other. */
TEST(a_message_beside_a_stream_is_no_command)
{
	char path[] = "/tmp/weir-stream-XXXXXX";
	int fd = mkstemp(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	struct tui *t;
	struct err e = { 0 };

	CHECK(f != NULL);
	for (int i = 0; f && i < 40000; i++)
		fprintf(f, "line %05d\n", i);
	CHECK(f && !fclose(f));
	opened((const char *const[]){ "read", "--private", "--chat-template", "chatml", "-n", "4", "--kv",
	                              "sink:size=64,stride=16", path, NULL });
	CHECK(tui_open(&t, &p.c, -1, 80, 24, NULL, &e) == 0);
	wait_for(t, "line 0");
	tui_feed(t, "old letters?\r", 13);
	/* The answer comes into the transcript, not into a pane over it, and the text goes on below it. */
	for (int i = 0; !shows(t, "line 06") && !shows(t, "old letters? \342\224\200") && i < 20000; i++)
		tui_step(t, 0.005);
	CHECK(shows(t, "line 06"));
	tui_feed(t, "\003", 1);
	settle(t);
	tui_close(t);
	closed();
	unlink(path);
}

/* All text that was taken from the stream before the stop is in the conversation and on the screen, even if it is not
 * prefilled yet. */
TEST(a_stopped_stream_shows_all_that_was_taken)
{
	enum { LINES = 40000 };
	char path[] = "/tmp/weir-stream-XXXXXX", line[40];
	int fd = mkstemp(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	struct tui *t;
	struct str screen = { 0 };
	struct err e = { 0 };
	const struct message *m;
	long last;

	CHECK(f != NULL);
	for (int i = 0; f && i < LINES; i++)
		fprintf(f, "line %05d\n", i);
	CHECK(f && !fclose(f));
	opened((const char *const[]){ "read", "--private", "--chat-template", "chatml", "--kv",
	                              "sink:size=64,stride=16", path, NULL });
	CHECK(tui_open(&t, &p.c, -1, 80, 24, NULL, &e) == 0);
	wait_for(t, "line 0");
	tui_feed(t, "\003", 1);
	settle(t);
	tui_dump(t, 0, &screen);
	tui_close(t);
	m = &p.c.conv.msg[p.c.conv.n_msg - 1];
	last = (long)(m->text.n / 11) - 1;
	CHECK_MSG(last > 0 && last < LINES - 1, "the stop came after line %ld", last);
	snprintf(line, sizeof line, "line %05ld", last);
	CHECK_MSG(strstr(screen.p, line) != NULL, "'%s' is not on\n%s", line, screen.p);
	closed();
	unlink(path);
	str_free(&screen);
}
