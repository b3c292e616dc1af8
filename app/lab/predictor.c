/* app/lab/predictor.c - weir eval predictor train: trains the network with which the cache policy `predict` selects
 * KV entries.
 *
 * Windows of each text are prefilled; then their last tokens are computed one at a time, under full attention. Every
 * fifth window and the last one are held out: the results on them decide which epoch is stored. */
#include <stdlib.h>
#include <string.h>

#include "app/lab/lab.h"
#include "app/models/models.h"
#include "engine/base/json.h"
#include "engine/lab/lab.h"

#define TEXT_MAX (1u << 30)
enum { WINDOW = 2048, LAST = 192, HELD_EVERY = 5, DENSE = 2 };

struct training {
	const struct options *o;
	struct engine *engine;
	struct predictor_trainer *trainer;
	struct predictor_settings s;
	int32_t window, last;
	struct progress progress;
	int n_train, n_held; /* number of training windows and held-out windows of all texts */
	int done;            /* number of windows computed so far */
};

/* ---- texts ---- */

static int text_read(struct training *w, const char *path, struct tokens *t, struct err *e)
{
	struct str text = { 0 };
	int rc = read_whole(path, TEXT_MAX, &text, e);
	size_t from = (size_t)lab_of(w->o)->offset, n;

	if (rc < 0 && e)
		e->code = ERR_DOCUMENT;
	if (!rc)
		rc = engine_tokenize(w->engine, str_text(&text), text.n,
		                     engine_info(w->engine)->add_bos ? TOKENIZE_BOS : 0, t, e);
	str_free(&text);
	if (rc)
		return -1;
	from = MIN(from, t->n);
	n = lab_of(w->o)->tokens && (size_t)lab_of(w->o)->tokens < t->n - from ? (size_t)lab_of(w->o)->tokens
	                                                                       : t->n - from;
	memmove(t->id, t->id + from, n * sizeof *t->id);
	t->n = n;
	if (n < (size_t)w->window)
		return err_set(e, ERR_USAGE, "'%.200s' has %zu tokens from %zu on, one window takes %d", path, n, from,
		               w->window);
	return 0;
}

static int windows_of(const struct training *w, const struct tokens *t)
{
	size_t most = t->n / (size_t)w->window, wanted = (size_t)(lab_of(w->o)->samples);

	return (int)(MIN(most, wanted));
}

/* 1 if window i of n is held out. */
static int held_out(int i, int n)
{
	return i % HELD_EVERY == HELD_EVERY - 1 || i + 1 == n;
}

/* Compute a window, and collect examples of its attention. If `held` is 1, the window is held out: its examples
 * evaluate the network, and do not train it. */
static int window_take(struct training *w, const int32_t *id, int held, struct err *e)
{
	struct timeline *tl = NULL;
	struct timeline_options to = { .kv = "full", .kv_type = w->o->kv_type, .batch = w->o->chunk, .ctx = w->window };
	size_t fill = (size_t)(w->window - w->last);
	int32_t per = held ? (w->s.crops / 24 + w->n_held) / w->n_held : (w->s.crops + w->n_train - 1) / w->n_train;
	int rc = timeline_open(&tl, w->engine, &to, e) < 0 ||
	                         timeline_rows_begin(tl, w->s.block, w->s.rows, w->s.rows + w->last, e) < 0
	                 ? -1
	                 : 0;

	signals_watch(tl);
	if (!rc)
		rc = timeline_sync(tl, id, fill, NULL, NULL, e) < 0 ? -1 : 0;
	for (size_t at = 0; !rc && at < (size_t)w->last; at += 16) {
		size_t n = (size_t)w->last - at < 16 ? (size_t)w->last - at : 16;

		progress_show(&w->progress, (int64_t)w->done * w->window + (int64_t)(fill + at),
		              (int64_t)(w->n_train + w->n_held) * w->window);
		rc = timeline_extend(tl, id + fill + at, n, 1, NULL, NULL, e);
	}
	signals_watch(NULL);
	if (!rc)
		predictor_trainer_add(w->trainer, tl, per, held);
	timeline_close(tl);
	w->done++;
	return rc;
}

static int texts_take(struct training *w, struct err *e)
{
	struct tokens *t = xcalloc((size_t)w->o->n_file, sizeof *t);
	int first = 1, rc = 0; /* file[0] is the word "train", so the texts begin at file[1] */

	for (int f = first; !rc && f < w->o->n_file; f++) {
		rc = text_read(w, w->o->file[f], &t[f], e);
		for (int i = 0, n = rc ? 0 : windows_of(w, &t[f]); i < n; i++)
			*(held_out(i, n) ? &w->n_held : &w->n_train) += 1;
	}
	if (!rc && !w->n_train)
		rc = err_set(
			e, ERR_USAGE,
			"the texts give one window each, which is held out; take a longer text, a smaller --window or more --samples");
	progress_init(&w->progress, w->o->quiet, w->o->verbose, "watching", "tokens");
	for (int f = first; !rc && f < w->o->n_file; f++)
		for (int i = 0, n = windows_of(w, &t[f]); !rc && i < n; i++)
			rc = window_take(w, t[f].id + (size_t)i * (t[f].n / (size_t)n), held_out(i, n), e);
	progress_clear(&w->progress);
	for (int f = 0; f < w->o->n_file; f++)
		tokens_free(&t[f]);
	free(t);
	return rc;
}

/* ---- epochs ---- */

/* Argument of show_batch(), which updates the progress line in an epoch. */
struct epoch {
	struct training *w;
	int nth;
};

static int show_batch(int32_t done, int32_t total, void *ud)
{
	struct epoch *p = ud;

	progress_show(&p->w->progress, (int64_t)(p->nth - 1) * total + done, (int64_t)p->w->s.epochs * total);
	return signals_stopped();
}

static int epoch_print(struct training *w, int nth, const struct predictor_epoch *ep, struct err *e)
{
	struct str s = { 0 };
	int rc;

	if (w->o->json) {
		json_open(&s, NULL, '{');
		json_string(&s, "task", "predictor");
		json_int(&s, "block", w->s.block);
		json_int(&s, "rows", w->s.rows);
		json_int(&s, "epoch", nth);
		json_real(&s, "loss", ep->loss, "%.9g");
		json_real(&s, "found", ep->found.net, "%.6f");
		json_real(&s, "last_row", ep->found.last, "%.6f");
		json_real(&s, "mean_row", ep->found.mean, "%.6f");
		json_real(&s, "mixed", ep->found.mixed, "%.6f");
		json_real(&s, "best", ep->found.best, "%.6f");
		json_int(&s, "kept", ep->best);
		json_close(&s, '}');
		str_adds(&s, "\n");
	} else {
		if (!nth)
			str_addf(&s, "%5s %12s %8s %8s %8s %8s\n", "epoch", "loss", "found", "last", "mean", "mixed");
		str_addf(&s, "%5d %12.4g %8.2f %8.2f %8.2f %8.2f%s\n", nth, ep->loss, 100 * ep->found.net,
		         100 * ep->found.last, 100 * ep->found.mean, 100 * ep->found.mixed, ep->best ? "  kept" : "");
	}
	progress_clear(&w->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

static int epochs_run(struct training *w, struct err *e)
{
	struct epoch p = { .w = w };
	int rc = 0;

	progress_init(&w->progress, w->o->quiet, w->o->verbose, "training", "batches");
	signals_work(1);
	for (; !rc && p.nth <= w->s.epochs; p.nth++) {
		struct predictor_epoch ep;

		rc = predictor_trainer_epoch(w->trainer, show_batch, &p, &ep, e);
		if (!rc)
			rc = epoch_print(w, p.nth, &ep, e);
	}
	signals_work(0);
	progress_clear(&w->progress);
	return rc;
}

int cmd_eval_predictor(const struct options *o)
{
	struct training w = { .o = o,
		              .window = lab_of(o)->window ? lab_of(o)->window : WINDOW,
		              .last = lab_of(o)->last ? lab_of(o)->last : LAST };
	struct str path = { 0 };
	struct err e = { 0 };
	int rc = 0;

	w.s = (struct predictor_settings){ .block = lab_of(o)->block,
		                           .rows = lab_of(o)->rows,
		                           .dense = DENSE,
		                           .crops = lab_of(o)->crops,
		                           .epochs = lab_of(o)->epochs,
		                           .seed = o->seed_set ? o->seed : 1 };
	if (!o->n_file || strcmp(o->file[0], "train"))
		rc = err_set(
			&e, ERR_USAGE,
			"'weir eval predictor' wants the word 'train' and texts: weir eval predictor train FILE ...");
	else if (o->n_file < 2)
		rc = err_set(&e, ERR_USAGE, "'weir eval predictor train' wants a text FILE (-: standard input)");
	else if (w.last >= w.window)
		rc = err_set(&e, ERR_USAGE, "the last %d tokens are no part of a window of %d; take a smaller --last",
		             w.last, w.window);
	if (rc < 0)
		return fail(&e);
	rc = model_open(&w.engine, o, MODEL_RUN, &e);
	if (!rc)
		rc = predictor_trainer_open(&w.trainer, w.engine, &w.s, &e);
	if (!rc)
		rc = texts_take(&w, &e);
	if (!rc)
		rc = epochs_run(&w, &e);
	if (!rc)
		rc = predictor_trainer_save(w.trainer, &path, &e);
	if (!rc && !o->quiet)
		say("stored in '%s'", path.p);
	str_free(&path);
	predictor_trainer_close(w.trainer);
	engine_close(w.engine);
	return rc < 0 ? fail(&e) : 0;
}
