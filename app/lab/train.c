/* app/lab/train.c - weir train: reads texts, runs the training steps, writes the result.
 *
 * The loss is measured on windows of a held-out text, before the first step and after the last one. It is measured
 * under full attention and, if the training has an attention mask, also under this mask. The change of the loss is the
 * mean over windows of (loss after - loss before). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/models/models.h"
#include "app/lab/lab.h"
#include "engine/base/json.h"
#include "engine/lab/lab.h"

#define TEXT_MAX (1u << 30)
enum { HELD = 20, SAVE_SECONDS = 120, MASKS = 2 };
/* The scale of an adapter is LORA_ALPHA / rank. GRADIENT_MOST is the norm to which gradients are clipped. */
enum { LORA_ALPHA = 16, GRADIENT_MOST = 1 };

struct training {
	const struct options *o;
	struct engine *engine;
	struct trainer *trainer;
	struct train_settings s;
	struct tokens text, held;
	int n_held;
	/* [before, after][mask][n_held] the loss of each window, measured before and after the training */
	double *loss[2][MASKS];
	struct progress progress;
};

/* ---- texts ---- */

static int text_add(struct training *w, const char *path, struct tokens *t, struct err *e)
{
	struct str text = { 0 };
	int rc = read_whole(path, TEXT_MAX, &text, e);

	if (rc < 0 && e)
		e->code = ERR_DOCUMENT;
	if (!rc)
		rc = engine_tokenize(w->engine, str_text(&text), text.n,
		                     engine_info(w->engine)->add_bos ? TOKENIZE_BOS : 0, t, e);
	str_free(&text);
	return rc;
}

static int texts_read(struct training *w, struct err *e)
{
	size_t one = (size_t)w->s.context + 1, wanted = (size_t)(lab_of(w->o)->samples ? lab_of(w->o)->samples : HELD);
	int rc = 0;

	for (int i = 0; !rc && i < w->o->n_file; i++)
		rc = text_add(w, w->o->file[i], &w->text, e);
	if (!rc && w->text.n < one)
		return err_set(
			e, ERR_USAGE,
			"the texts have %zu tokens, one window takes %zu; take a longer text or a smaller --context",
			w->text.n, one);
	if (rc || !lab_of(w->o)->held)
		return rc;
	if (text_add(w, lab_of(w->o)->held, &w->held, e))
		return -1;
	w->n_held = (int)(w->held.n / one < wanted ? w->held.n / one : wanted);
	if (!w->n_held)
		return err_set(e, ERR_USAGE, "'%.200s' has %zu tokens, one window takes %zu", lab_of(w->o)->held,
		               w->held.n, one);
	for (int i = 0; i < 2 * MASKS; i++)
		w->loss[i / MASKS][i % MASKS] = xcalloc((size_t)w->n_held, sizeof(double));
	return 0;
}

/* ---- the held-out text ---- */

/* Return the number of attention masks under which the loss is measured. */
static int masks_of(const struct training *w)
{
	return w->s.mask.k ? 2 : 1;
}

/* Measure the loss on all held-out windows. `after` is 0 before the training, and 1 after it. */
static int held_measure(struct training *w, int after, struct err *e)
{
	const struct train_mask masks[MASKS] = { { 0 }, w->s.mask };
	double tokens = w->s.context - w->s.fixed;
	int n = w->n_held * masks_of(w), rc = 0;

	progress_init(&w->progress, w->o->quiet, w->o->verbose, "measuring", "windows");
	for (int i = 0; !rc && i < n; i++) {
		int window = i / masks_of(w), mask = i % masks_of(w);
		const int32_t *id = w->held.id + (size_t)window * ((w->held.n - 1) / (size_t)w->n_held);

		rc = signals_stopped() ? err_set(e, ERR_CANCELLED, "stopped")
		                       : trainer_loss(w->trainer, id, &masks[mask], &w->loss[after][mask][window], e);
		w->loss[after][mask][window] /= tokens;
		progress_show(&w->progress, i + 1, n);
	}
	progress_clear(&w->progress);
	return rc;
}

/* Return the mean of the n values x[i], or of the differences x[i] - minus[i] if minus is not NULL. *error receives the
 * standard error of the mean. */
static double mean_of(const double *x, const double *minus, int n, double *error)
{
	double sum = 0, squares = 0;

	for (int i = 0; i < n; i++)
		sum += x[i] - (minus ? minus[i] : 0);
	sum /= n;
	for (int i = 0; i < n; i++)
		squares += pow(x[i] - (minus ? minus[i] : 0) - sum, 2);
	*error = n > 1 ? sqrt(squares / (n - 1) / n) : NAN;
	return sum;
}

static int held_print(struct training *w, struct err *e)
{
	struct str s = { 0 };
	int rc;

	for (int m = 0; m < masks_of(w); m++) {
		const char *name = m ? lab_of(w->o)->mask : "full";
		double error, change_error, before = mean_of(w->loss[0][m], NULL, w->n_held, &error),
					    after = mean_of(w->loss[1][m], NULL, w->n_held, &error),
					    change = mean_of(w->loss[1][m], w->loss[0][m], w->n_held, &change_error);

		if (w->o->json) {
			json_open(&s, NULL, '{');
			json_string(&s, "held", name);
			json_int(&s, "windows", w->n_held);
			json_real(&s, "before", before, "%.6f");
			json_real(&s, "after", after, "%.6f");
			json_real(&s, "after_error", error, "%.6f");
			json_real(&s, "change", change, "%.6f");
			json_real(&s, "change_error", change_error, "%.6f");
			json_close(&s, '}');
			str_adds(&s, "\n");
		} else {
			str_addf(&s, "held out, %d windows, %s: loss %.4f, was %.4f: %+.4f +- %.4f\n", w->n_held, name,
			         after, before, change, change_error);
		}
	}
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

/* ---- steps ---- */

static int step_print(struct training *w, const struct train_report *r, struct err *e)
{
	struct str s = { 0 };
	int rc;

	if (w->o->json) {
		json_open(&s, NULL, '{');
		json_int(&s, "step", r->step);
		json_real(&s, "loss", r->loss, "%.6f");
		json_real(&s, "rate", r->rate, "%.6g");
		json_real(&s, "norm", r->norm, "%.6g");
		json_close(&s, '}');
		str_adds(&s, "\n");
	} else {
		str_addf(&s, "step %d of %d  loss %.4f  rate %.3g  gradient %.3g\n", r->step, w->s.steps, r->loss,
		         r->rate, r->norm);
	}
	progress_clear(&w->progress);
	rc = print_json(&s, e);
	str_free(&s);
	return rc;
}

/* Run the training steps. If --resume names a file, store the state there: every SAVE_SECONDS, when the user stops the
 * run, and at the end. */
static int steps_run(struct training *w, struct err *e)
{
	struct train_report r;
	double saved = now_seconds();
	int rc = 0;

	progress_init(&w->progress, w->o->quiet, w->o->verbose, "training", "tokens");
	while (!rc && trainer_at(w->trainer) < w->s.steps) {
		int64_t step = (int64_t)w->s.batch * w->s.context;

		progress_show(&w->progress, trainer_at(w->trainer) * step, w->s.steps * step);
		rc = trainer_step(w->trainer, w->text.id, w->text.n, signals_stopped, &r, e);
		if (!rc)
			rc = step_print(w, &r, e);
		if (!rc && lab_of(w->o)->resume && now_seconds() - saved > SAVE_SECONDS) {
			rc = trainer_save(w->trainer, lab_of(w->o)->resume, e);
			saved = now_seconds();
		}
	}
	progress_clear(&w->progress);
	if (lab_of(w->o)->resume && (!rc || e->code == ERR_CANCELLED)) {
		struct err other = { 0 };

		if (trainer_save(w->trainer, lab_of(w->o)->resume, &other)) {
			*e = other;
			return -1;
		}
		if (rc)
			err_set(e, ERR_CANCELLED, "stopped after step %d; the same command goes on",
			        trainer_at(w->trainer));
	} else if (rc && e->code == ERR_CANCELLED) {
		err_set(e, ERR_CANCELLED,
		        "stopped after step %d, of which nothing is kept; with --resume FILE the same command goes on",
		        trainer_at(w->trainer));
	}
	return rc;
}

int cmd_train(const struct options *o)
{
	struct training w = { .o = o };
	struct err e = { 0 };
	int rc = 0;

	w.s = (struct train_settings){ .context = lab_of(o)->context,
		                       .fixed = lab_of(o)->fixed,
		                       .batch = lab_of(o)->batch,
		                       .steps = lab_of(o)->steps,
		                       .warmup = lab_of(o)->warmup,
		                       .rate = (double)lab_of(o)->rate,
		                       .clip = GRADIENT_MOST,
		                       .rank = lab_of(o)->full ? 0 : lab_of(o)->rank,
		                       .alpha = LORA_ALPHA,
		                       .seed = o->seed_set ? o->seed : 1,
		                       .threads = o->threads };
	if (!o->n_file)
		rc = err_set(&e, ERR_USAGE, "'weir train' wants a text FILE (-: standard input)");
	else if (!o->out)
		rc = err_set(&e, ERR_USAGE, "'weir train' wants --out FILE: where the result goes");
	if (!rc)
		rc = train_mask_parse(lab_of(o)->mask, &w.s.mask, &e);
	if (rc < 0)
		return fail(&e);
	signals_work(1);
	rc = model_open(&w.engine, o, MODEL_LOOK, &e);
	if (!rc)
		rc = texts_read(&w, &e);
	if (!rc)
		rc = trainer_open(&w.trainer, w.engine, &w.s, &e);
	if (!rc && (trainer_can_write(o->out, &e) || (lab_of(o)->resume && trainer_can_write(lab_of(o)->resume, &e))))
		rc = -1;
	if (!rc && w.n_held)
		rc = held_measure(&w, 0, &e);
	if (!rc && lab_of(o)->resume)
		rc = trainer_load(w.trainer, lab_of(o)->resume, &e) < 0 ? -1 : 0;
	if (!rc)
		rc = steps_run(&w, &e);
	if (!rc)
		rc = trainer_write(w.trainer, o->out, !strcmp(lab_of(o)->type, "f16"), &e);
	if (!rc && w.n_held)
		rc = held_measure(&w, 1, &e) || held_print(&w, &e) ? -1 : 0;
	signals_work(0);
	if (!rc && !o->quiet)
		say("written to '%s'; %s", o->out,
		    lab_of(o)->full ? "-m opens it" : "--lora loads it beside this model");
	for (int i = 0; i < 2 * MASKS; i++)
		free(w.loss[i / MASKS][i % MASKS]);
	tokens_free(&w.text);
	tokens_free(&w.held);
	trainer_close(w.trainer);
	engine_close(w.engine);
	return rc < 0 ? fail(&e) : 0;
}
