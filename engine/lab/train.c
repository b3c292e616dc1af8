/* engine/lab/train.c - training steps: windows of a text, the mean gradient of their loss, AdamW.
 *
 * AdamW (Loshchilov and Hutter 2019) decays the moments by 0.9 and 0.999; there is no weight decay. The position of a
 * window in the text depends only on the seed and the window's number, so training can continue at any step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/train.h"

enum { CONTEXT_MOST = 1 << 16, TASK_FLOATS = 1 << 16 };
#define BETA1   0.9
#define BETA2   0.999
#define EPSILON 1e-8

/* ---- the mask's text ---- */

/* Parse a number from 1 to CONTEXT_MOST at *at, and move *at behind the number. Return -1 if there is no such
 * number. */
static int32_t number_of(const char **at)
{
	char *end;
	long n = strtol(*at, &end, 10);

	if (end == *at || n < 1 || n > CONTEXT_MOST)
		return -1;
	*at = end;
	return (int32_t)n;
}

int train_mask_parse(const char *text, struct train_mask *out, struct err *err)
{
	struct train_mask m = { .k = 64, .prefill = 0, .stride = 50, .pool = 7 };
	const struct {
		const char *name;
		int32_t *at;
	} keys[] = { { "prefill=", &m.prefill }, { "k=", &m.k }, { "stride=", &m.stride }, { "pool=", &m.pool } };
	const char *at = text + strlen("recycled:");
	int bad;

	if (!strcmp(text, "full")) {
		*out = (struct train_mask){ 0 };
		return 0;
	}
	for (bad = strncmp(text, "recycled:", strlen("recycled:")) != 0; !bad; at++) {
		size_t i = 0;

		while (i < 4 && strncmp(at, keys[i].name, strlen(keys[i].name)))
			i++;
		if (i == 4) {
			bad = 1;
			break;
		}
		at += strlen(keys[i].name);
		*keys[i].at = number_of(&at);
		bad = *keys[i].at < 0 || (*at && *at != ',');
		if (!*at)
			break;
	}
	if (bad)
		return err_set(err, ERR_USAGE,
		               "'%.100s' is no mask; it is full, or recycled:prefill=N,k=N,stride=N,pool=N", text);
	if (m.prefill < m.k || m.pool % 2 == 0)
		return err_set(err, ERR_USAGE, "mask '%.100s': %s", text,
		               m.pool % 2 == 0 ? "pool is odd"
		                               : "prefill is at least k, whose entries it selects from");
	*out = m;
	return 0;
}

/* ---- opening ---- */

static int settings_check(const struct train_settings *s, struct err *err)
{
	if (s->context < 2 || s->context > CONTEXT_MOST || s->batch < 1 || s->steps < 1 || s->warmup < 0 ||
	    !(s->rate >= 0))
		return err_set(err, ERR_USAGE, "a window has 2 to %d tokens, a step one window or more", CONTEXT_MOST);
	if (s->fixed < 0 || s->fixed >= s->context)
		return err_set(err, ERR_USAGE, "a fixed prefix of %d tokens leaves nothing of a window of %d", s->fixed,
		               s->context);
	if (s->mask.k && s->mask.prefill >= s->context)
		return err_set(err, ERR_USAGE, "a mask with a prefill of %d tokens leaves nothing of a window of %d",
		               s->mask.prefill, s->context);
	if (s->rank < 0 || s->rank > 1024 || (s->rank && !(s->alpha > 0)))
		return err_set(err, ERR_USAGE, "a LoRA adapter has a rank of 1 to 1024, and an alpha above 0");
	return 0;
}

int trainer_open(struct trainer **out, struct engine *e, const struct train_settings *s, struct err *err)
{
	struct trainer *t;
	char why[160];

	if (settings_check(s, err))
		return -1;
	t = xcalloc(1, sizeof *t);
	t->e = e;
	t->s = *s;
	if (backend_open(&t->be, "cpu", &(struct backend_options){ .threads = s->threads }, why) < 0) {
		free(t);
		return err_set(err, ERR_FAIL, "cannot open device 'cpu': %s", why);
	}
	if (train_model_load(t, err)) {
		trainer_close(t);
		return -1;
	}
	*out = t;
	return 0;
}

void trainer_close(struct trainer *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_owned; i++)
		free(t->owned[i]);
	free(t->owned);
	free(t->layer);
	free(t->param);
	free(t->sets);
	t->be->ops->close(t->be);
	free(t);
}

int32_t trainer_at(const struct trainer *t)
{
	return t->step;
}

/* ---- windows ---- */

/* Allocate t->sets with the size that this mask needs. A test may use another mask than training. */
static int sets_reserve(struct trainer *t, const struct train_mask *m, struct err *err)
{
	size_t n = (size_t)train_mask_sets(m, t->s.context) * (size_t)t->n_kv_head * (size_t)m->k;

	free(t->sets);
	t->sets = NULL;
	return n && !(t->sets = try_alloc(n, sizeof *t->sets, "training", err)) ? -1 : 0;
}

/* Return the address of the first token of window i of this step. The window has a random position in the text, which
 * is the n tokens id[]. */
static const int32_t *window_at(const struct trainer *t, const int32_t *id, size_t n, int32_t i)
{
	uint64_t nth = (uint64_t)t->step * (uint64_t)t->s.batch + (uint64_t)i, seed = t->s.seed,
		 state = random_next(&seed) + nth * 0x9e3779b97f4a7c15u;

	return id + random_next(&state) % (n - (size_t)t->s.context);
}

static int ids_check(const struct trainer *t, const int32_t *id, size_t n, struct err *err)
{
	if (n < (size_t)t->s.context + 1)
		return err_set(err, ERR_USAGE, "the texts have %zu tokens, one window takes %d", n, t->s.context + 1);
	for (size_t i = 0; i < n; i++)
		if (id[i] < 0 || id[i] >= t->n_vocab)
			return err_set(err, ERR_USAGE, "token %d is not in the vocabulary", id[i]);
	return 0;
}

/* ---- AdamW ---- */

/* An operation on one parameter; task i processes the TASK_FLOATS values from i * TASK_FLOATS on. */
struct update {
	struct trainer *t;
	struct train_param *p;
	double rate;
	double cut;        /* factor by which the gradient is multiplied to clip it; 1: the gradient is not clipped */
	double fix1, fix2; /* bias corrections of AdamW's two moments */
	double *part;      /* [tasks] for each task, the sum of the squared gradients of the task's values */
};

static size_t task_end(const struct update *u, int task)
{
	size_t end = ((size_t)task + 1) * TASK_FLOATS;

	return MIN(end, u->p->n);
}

static int tasks_of(const struct train_param *p)
{
	return (int)((p->n + TASK_FLOATS - 1) / TASK_FLOATS);
}

/* Compute the sum of the squared gradients of one task's values. */
static void square_part(void *arg, int task)
{
	struct update *u = arg;
	double sum = 0;

	for (size_t i = (size_t)task * TASK_FLOATS; i < task_end(u, task); i++)
		sum += (double)u->p->g[i] * (double)u->p->g[i];
	u->part[task] = sum;
}

/* Update one task's values of a parameter. */
static void adam_part(void *arg, int task)
{
	struct update *u = arg;
	struct train_param *p = u->p;

	for (size_t i = (size_t)task * TASK_FLOATS; i < task_end(u, task); i++) {
		double g = (double)p->g[i] * u->cut, m = BETA1 * (double)p->m[i] + (1 - BETA1) * g,
		       v = BETA2 * (double)p->v[i] + (1 - BETA2) * g * g;

		p->m[i] = (float)m;
		p->v[i] = (float)v;
		p->w[i] = (float)((double)p->w[i] - u->rate * (m * u->fix1) / (sqrt(v * u->fix2) + EPSILON));
	}
}

/* Return the norm of the gradient of all parameters together. */
static double gradient_norm(struct trainer *t)
{
	double sum = 0;

	for (size_t i = 0; i < t->n_param; i++) {
		struct update u = { .t = t, .p = t->param[i] };
		int n = tasks_of(u.p);

		u.part = xcalloc((size_t)n, sizeof *u.part);
		backend_each(t->be, square_part, &u, n);
		for (int k = 0; k < n; k++)
			sum += u.part[k];
		free(u.part);
	}
	return sqrt(sum);
}

/* Return the learning rate of a step (see `warmup` in struct train_settings). */
static double rate_at(const struct train_settings *s, int32_t step)
{
	double done;

	if (step < s->warmup)
		return s->rate * (step + 1) / s->warmup;
	done = s->steps > s->warmup ? fmin(1, (double)(step - s->warmup) / (s->steps - s->warmup)) : 1;
	return s->rate * (0.1 + 0.9 * (0.5 + 0.5 * cos(3.14159265358979 * done)));
}

/* Update all parameters. `norm` is the norm of the gradient before clipping. */
static void update(struct trainer *t, double rate, double norm)
{
	struct update u = { .t = t,
		            .rate = rate,
		            .cut = t->s.clip > 0 && norm > t->s.clip ? t->s.clip / norm : 1,
		            .fix1 = 1 / (1 - pow(BETA1, t->step + 1)),
		            .fix2 = 1 / (1 - pow(BETA2, t->step + 1)) };

	for (size_t i = 0; i < t->n_param; i++) {
		u.p = t->param[i];
		backend_each(t->be, adam_part, &u, tasks_of(u.p));
	}
}

int trainer_step(struct trainer *t, const int32_t *id, size_t n, int (*stopped)(void), struct train_report *out,
                 struct err *err)
{
	int32_t rows = t->s.context - t->s.fixed;
	double loss = 0;

	if (ids_check(t, id, n, err) || sets_reserve(t, &t->s.mask, err))
		return -1;
	for (size_t i = 0; i < t->n_param; i++)
		memset(t->param[i]->g, 0, t->param[i]->n * sizeof *t->param[i]->g);
	for (int32_t i = 0; i < t->s.batch; i++) {
		const int32_t *w = window_at(t, id, n, i);

		if (stopped && stopped())
			return err_set(err, ERR_CANCELLED, "stopped");
		train_forward(t, w, t->s.context, &t->s.mask);
		loss += train_loss(t, w, w + 1, t->s.fixed, t->s.context, 1 / ((float)t->s.batch * (float)rows));
	}
	*out = (struct train_report){ .step = t->step + 1,
		                      .loss = loss / ((double)t->s.batch * rows),
		                      .rate = rate_at(&t->s, t->step),
		                      .norm = gradient_norm(t) };
	if (t->be->failed)
		return err_set(err, ERR_FIT, "%s", t->be->err);
	if (!isfinite(out->loss) || !isfinite(out->norm))
		return err_set(err, ERR_FAIL, "step %d: the loss is no number; take a smaller rate", out->step);
	update(t, out->rate, out->norm);
	t->step++;
	return 0;
}

int trainer_loss(struct trainer *t, const int32_t *id, const struct train_mask *m, double *out, struct err *err)
{
	if (ids_check(t, id, (size_t)t->s.context + 1, err) || sets_reserve(t, m, err))
		return -1;
	train_forward(t, id, t->s.context, m);
	*out = train_loss(t, id, id + 1, t->s.fixed, t->s.context, 0);
	return t->be->failed ? err_set(err, ERR_FIT, "%s", t->be->err) : 0;
}

int trainer_logits(struct trainer *t, const int32_t *id, const struct train_mask *m, float *out, struct err *err)
{
	const struct train_matrix head = { .w = t->out.w.w ? t->out.w : t->embd,
		                           .rows = t->n_vocab,
		                           .cols = t->n_embd };

	if (ids_check(t, id, (size_t)t->s.context + 1, err) || sets_reserve(t, m, err))
		return -1;
	train_forward(t, id, t->s.context, m);
	train_linear(t->be, &head, t->x_normed, NULL, out, t->s.context);
	return t->be->failed ? err_set(err, ERR_FIT, "%s", t->be->err) : 0;
}
