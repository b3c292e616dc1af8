/* app/oneshot.c - weir -p TEXT: one answer on standard output, everything else on standard error. */
#include "app/app.h"

#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/output.h"
#include "app/record.h"
#include "app/stream.h"
#include "app/talk.h"
#include "app/think.h"
#include "sessions/sessions.h"

struct sink {
	struct output out;
	struct progress progress;
	int json;
	int hides; struct think think; struct str shown;   /* --think hide */
};

static int sink_text(const char *bytes, size_t n, void *ud, struct err *e)
{
	struct sink *s = ud;

	progress_clear(&s->progress);
	if (s->json)
		return 0;
	if (!s->hides)
		return output_text(&s->out, bytes, n, e);
	str_clear(&s->shown);
	if (bytes)
		think_feed(&s->think, bytes, n, &s->shown);
	else
		think_end(&s->think, &s->shown);
	return output_text(&s->out, s->shown.p ? s->shown.p : "", s->shown.n, e);
}

/* Standard input is the document, unless FILEs are named: a loop that feeds us names must keep its input. */
static int stdin_is_document(const struct options *o)
{
	return o->command == CMD_CHAT && !o->n_file && !isatty(0);
}

/* weir read: the whole text, to its end. */
static int read_text(struct talk *t, const struct options *o, struct err *e)
{
	struct progress progress;
	struct stream *source;
	struct str piece = {0}, line = {0};
	int got = STREAM_TEXT, rc = 0;

	if (!o->n_file)
		return err_set(e, ERR_USAGE, "'weir read' wants a file, or - for standard input");
	if (talk_stream_wanted(t, e) < 0 || stream_open(&source, o->file[0], e) < 0)
		return -1;
	progress_init(&progress, o, "reading", "tokens");
	signals_watch(t->tl);
	while (!rc && got != STREAM_END) {
		str_clear(&piece);
		str_clear(&line);
		got = stream_next(source, 100, &piece, e);
		rc = got < 0 ? -1 : talk_stream(t, piece.p ? piece.p : "", piece.n, got != STREAM_TEXT, NULL, NULL, e);
		if (!rc && signals_stopped())
			rc = err_set(e, ERR_CANCELLED, "stopped");
		reading_text(talk_streamed(t), stream_percent(source), 0, got == STREAM_LATER, &line);
		progress_line(&progress, line.p);
	}
	progress_clear(&progress);
	signals_watch(NULL);
	stream_close(source);
	str_free(&piece);
	str_free(&line);
	return rc;
}

static int documents(struct talk *t, const struct options *o, struct err *e)
{
	if (o->command == CMD_READ)
		return read_text(t, o, e);
	for (int i = 0; i < o->n_file; i++)
		if (talk_document(t, o->file[i], e) < 0)
			return -1;
	return 0;
}

/* An empty input (`</dev/null`, a closed descriptor, a pipe without a byte) is no document. */
static int document_from_stdin(struct talk *t, struct err *e)
{
	struct pollfd wait = {.fd = 0, .events = POLLIN};
	struct stat st;
	struct str bytes = {0};
	int rc;

	if (fstat(0, &st) < 0 || S_ISCHR(st.st_mode))
		return 0;
	/* What looks like a hang is a caller who left the input open: say what is awaited. */
	if (!t->o->quiet && isatty(2) && !poll(&wait, 1, 1000))
		say("waiting for a document on standard input; </dev/null says that there is none");
	rc = read_whole("-", DOC_BYTES_MAX, &bytes, e);
	if (rc < 0)
		e->code = ERR_DOCUMENT;
	else if (bytes.n)
		rc = talk_document_bytes(t, "standard input", bytes.p, bytes.n, e);
	str_free(&bytes);
	return rc;
}

int cmd_oneshot(struct options *o)
{
	struct talk t = {.o = o};
	struct record *record = NULL;
	struct str note = {0};
	struct sink sink = {.json = o->json};
	struct talk_hooks hooks = {
		.text = sink_text, .text_ud = &sink, .progress = progress_tokens, .progress_ud = &sink.progress,
	};
	struct turn turn;
	struct err e = {0}, later = {0};
	int rc;

	if (record_open(&record, o, &e) < 0 || talk_open(&t, o, &e) < 0 || record_resume(record, &t, &note, &e) < 0 ||
	    documents(&t, o, &e) < 0 || (stdin_is_document(o) && document_from_stdin(&t, &e) < 0)) {
		record_close(record);
		talk_close(&t);
		str_free(&note);
		if (e.code == ERR_CANCELLED)
			return signals_quit() ? 128 + signals_quit() : 130;
		return fail(&e);
	}
	if (note.n && !o->quiet)
		say("%s", note.p);
	str_free(&note);
	output_init(&sink.out, o);
	progress_init(&sink.progress, o, "reading", "tokens");
	sink.hides = !strcmp(o->think, "hide");
	sink.think.first = engine_info(t.engine)->thinks_first;
	rc = talk_ask(&t, o->prompt, strlen(o->prompt), &hooks, &turn, &e);
	progress_clear(&sink.progress);
	if (sink.hides && turn.answered && !sink.out.broken)
		sink_text(NULL, 0, &sink, &later);
	think_free(&sink.think);
	str_free(&sink.shown);
	if ((turn.answered || turn.stop == STOP_CANCEL) && !sink.out.broken && !(o->json && rc < 0 && e.code == ERR_FAIL)) {
		int written;
		if (o->json) {
			struct str line = {0};
			talk_json(&t, &turn, &line);
			written = print_json(&line, &later);
			str_free(&line);
		} else {
			written = turn.answered ? output_end(&sink.out, &later) : 0;
		}
		if (written < 0 && !rc) {
			e = later;
			rc = -1;
		}
	}
	if (!rc && turn.stop == STOP_LENGTH && o->predict < 0)
		say("the answer was cut at %d tokens, the length of the context", turn.answer_tokens);
	if (turn.outgrown && !o->quiet)
		say("the text has outgrown the cache: older tokens have left it");
	if (o->verbose && turn.answered)
		say("%d tokens read (%d reused), %.1f t/s; %d tokens answered, %.1f t/s; first after %.3f s", turn.prompt_tokens,
		    turn.reused_tokens, turn.prefill_tps, turn.answer_tokens, turn.decode_tps, turn.ttft_s);
	output_free(&sink.out);
	record_close(record);
	talk_close(&t);
	if (rc < 0 && e.code == ERR_CANCELLED)
		return signals_quit() ? 128 + signals_quit() : 130;   /* who stopped it knows */
	return rc < 0 ? fail(&e) : 0;
}
