/* tests/lib/scene.h - a chat with a tiny model and a front end that records what it shows. The front end replaces line
 * mode and the full screen. */
#ifndef WEIR_SCENE_H
#define WEIR_SCENE_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/chat/chat.h"
#include "tests/lib/test.h"

#define TINY "tests/vectors/models/llama-block32.gguf"
enum { WORDS_MOST = 32 };

/* ---- a front ---- */

struct scene {
	struct options o;
	struct chat c;
	struct str said, errors, shown, draft; /* output since the last command; shown: text of answers */
	struct str resumed;                    /* notice about the resumed session */
	int answer;                            /* the answer that ask() returns */
	/* turns, came_back: calls of these functions; stop_after: stop the answer after so many pieces, 0 = never */
	int turns, came_back, stop_after;
	int kill_after; /* kill the process after this many pieces; 0 = never */
	/* stop the work at the progress report with this text; NULL = never */
	const char *stop_at;
	char *args[WORDS_MOST];
	int n_arg;
};
static char home[64];

/* Record as a notice what say() has printed. */
static void on_say(const char *text, size_t n, void *ud)
{
	struct scene *s = ud;

	str_add(&s->said, text, n);
	str_adds(&s->said, "\n");
}

static void on_notice(struct chat *c, const char *text, size_t n)
{
	struct scene *s = c->ud;

	str_add(&s->said, text, n);
	str_adds(&s->said, "\n");
}

static void on_error(struct chat *c, const struct err *e)
{
	struct scene *s = c->ud;

	str_addf(&s->errors, "%s\n", e->msg);
}

static void on_progress(struct chat *c, const char *verb, int32_t done, int32_t total)
{
	struct scene *s = c->ud;

	(void)done, (void)total;
	if (s->stop_at && strstr(verb, s->stop_at))
		signals_stop();
}

static void on_turn(struct chat *c, const char *question, size_t n)
{
	struct scene *s = c->ud;

	(void)question, (void)n;
	s->turns++;
	str_clear(&s->shown);
}

static int on_text(struct chat *c, const char *bytes, size_t n, struct err *e)
{
	struct scene *s = c->ud;

	str_add(&s->shown, bytes, n);
	if (s->kill_after && !--s->kill_after)
		kill(getpid(), SIGKILL);
	if (s->stop_after && !--s->stop_after)
		return err_set(e, ERR_CANCELLED, "stopped");
	return 0;
}

static int on_turned(struct chat *c, const struct turn *turn, int rc, struct err *e)
{
	(void)c, (void)turn, (void)e;
	return rc;
}

static void on_came_back(struct chat *c)
{
	((struct scene *)c->ud)->came_back++;
}

static void on_reading(struct chat *c, const struct reading *r)
{
	(void)c, (void)r;
}

static void on_draft(struct chat *c, const char *text, size_t n)
{
	struct scene *s = c->ud;

	str_clear(&s->draft);
	str_add(&s->draft, text, n);
}

static int on_summary(struct chat *c, const char *text, size_t n, struct err *e)
{
	struct scene *s = c->ud;

	(void)e;
	str_clear(&s->shown);
	str_add(&s->shown, text, n);
	return 0;
}

static int on_ask(struct chat *c, const char *question)
{
	struct scene *s = c->ud;

	str_addf(&s->said, "%s\n", question);
	return s->answer;
}

/* clang-format off */
static const struct front front = {
	.notice = on_notice, .error = on_error, .progress = on_progress, .turn = on_turn, .text = on_text, .turned = on_turned,
	.came_back = on_came_back, .reading = on_reading, .draft = on_draft, .ask = on_ask, .summary = on_summary,
};
/* clang-format on */

__attribute__((unused)) static void open_scene(struct scene *s, const char *words)
{
	static const char *const first[] = { "weir", "-m", TINY, "--temp", "0", "-q", "--threads", "1", NULL };
	struct str note = { 0 };
	struct err e = { 0 };
	char *copy = xstrndup(words, strlen(words)), *save = NULL;

	memset(s, 0, sizeof *s);
	if (!home[0]) {
		snprintf(home, sizeof home, "/tmp/weir-talk-XXXXXX");
		if (!mkdtemp(home))
			SKIP("no directory can be made");
		setenv("XDG_CONFIG_HOME", home, 1);
		setenv("XDG_STATE_HOME", home, 1);
		setenv("XDG_DATA_HOME", home, 1);
		setenv("WEIR_CPU", "c", 1);
	}
	for (int i = 0; first[i]; i++)
		s->args[s->n_arg++] = (char *)first[i];
	for (char *w = strtok_r(copy, " ", &save); w && s->n_arg < WORDS_MOST - 1; w = strtok_r(NULL, " ", &save))
		s->args[s->n_arg++] = w;
	if (options_parse(&s->o, s->n_arg, s->args, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	s->c.front = &front;
	s->c.ud = s;
	say_to(on_say, s);
	if (chat_open(&s->c, &s->o, &note, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	s->c.interactive = 1;
	s->resumed = note;
	s->args[WORDS_MOST - 1] = copy;
}

__attribute__((unused)) static void close_scene(struct scene *s)
{
	chat_close(&s->c, &s->o);
	say_to(NULL, NULL);
	options_free(&s->o);
	str_free(&s->said);
	str_free(&s->errors);
	str_free(&s->shown);
	str_free(&s->draft);
	str_free(&s->resumed);
	free(s->args[WORDS_MOST - 1]);
}

__attribute__((unused)) static void do_line(struct scene *s, const char *line)
{
	struct str text = { 0 };

	str_clear(&s->said);
	str_clear(&s->errors);
	str_adds(&text, line);
	chat_take(&s->c, &text);
	str_free(&text);
}

/* Run a line as if it were typed. A % in the line is replaced by the folder. */
__attribute__((unused)) static void do_line_in(struct scene *s, const char *folder, const char *line)
{
	struct str text = { 0 };

	for (; *line; line++)
		if (*line == '%')
			str_adds(&text, folder);
		else
			str_add(&text, line, 1);
	do_line(s, text.p);
	str_free(&text);
}

__attribute__((unused)) static int has(const struct str *s, const char *what)
{
	return s->n && strstr(s->p, what) != NULL;
}

__attribute__((unused)) static void cleanup(void)
{
	char command[100];

	snprintf(command, sizeof command, "rm -rf %.60s", home);
	if (home[0] && system(command)) { /* on failure only a directory is left behind */
	}
	home[0] = 0;
}

/* Set *out to all messages as one text, with roles and token ids. */
__attribute__((unused)) static void whole(const struct conversation *conv, struct str *out)
{
	str_clear(out);
	str_adds(out, "");
	for (size_t i = 0; i < conv->n_msg; i++) {
		str_addf(out, "%d:", (int)conv->msg[i].role);
		str_add(out, str_text(&conv->msg[i].text), conv->msg[i].text.n);
		for (size_t k = 0; k < conv->msg[i].id.n; k++)
			str_addf(out, " %d", conv->msg[i].id.id[k]);
		str_adds(out, "\n");
	}
}

#define SAME(a, b) CHECK((a).n == (b).n && !memcmp((a).p, (b).p, (a).n))

#endif
