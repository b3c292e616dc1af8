/* app/lab/recovery_detail.c - see recovery_detail.h. */
#include "app/lab/recovery_detail.h"

#include <math.h>
#include <stdlib.h>

/* Write n numbers as a JSON list. */
static void numbers_write(struct str *out, const char *key, const double *x, int32_t n)
{
	struct str list = { 0 };

	for (int32_t i = 0; i < n; i++)
		json_real(&list, NULL, x[i], "%.12g");
	json_list(out, key, &list);
	str_free(&list);
}

/* 1 if the list has n numbers and none is below `least`. */
static int numbers_sound(struct jv list, int64_t n, double least)
{
	struct jv it = { 0 };
	int64_t i = 0;

	for (double x; jv_next(list, &it, NULL); i++)
		if (i == n || jv_number(it, &x) < 0 || !(x >= least && x <= 1e15))
			return 0;
	return i == n;
}

/* Add the numbers of a JSON list to sum[]. */
static void numbers_add(struct jv list, double *sum)
{
	struct jv it = { 0 };

	for (double x; jv_next(list, &it, NULL); sum++)
		if (!jv_number(it, &x))
			*sum += x;
}

/* Write sum[i] / n[i] as a list; null if n[i] is 0. */
__attribute__((format(printf, 6, 0))) static void means_json(struct str *out, const char *key, const double *sum,
                                                             const double *n, int32_t count, const char *fmt)
{
	struct str list = { 0 };

	for (int32_t i = 0; i < count; i++)
		if (n[i] > 0)
			json_real(&list, NULL, sum[i] / n[i], fmt);
		else
			json_null(&list, NULL);
	json_list(out, key, &list);
	str_free(&list);
}

/* ---- sets ---- */

void set_sums_write(const struct timeline *tl, int k, int32_t n_layer, struct str *out)
{
	struct recovered_ages ages;
	double n[RECOVERY_AGES], all = 0, *tokens, *selected;

	if (timeline_recovery_ages(tl, k, &ages) < 0)
		return;
	tokens = xcalloc(2 * (size_t)n_layer, sizeof *tokens);
	selected = tokens + n_layer;
	for (int i = 0; i < RECOVERY_AGES; i++) {
		n[i] = (double)ages.n[i];
		all += n[i];
	}
	for (int32_t i = 0; i < n_layer; i++) {
		struct recovered_layer l;

		if (timeline_recovery_layer(tl, k, i, &l) < 0)
			continue;
		tokens[i] = (double)l.tokens;
		selected[i] = (double)l.selected;
	}
	if (all > 0) {
		numbers_write(out, "age_n", n, RECOVERY_AGES);
		numbers_write(out, "age_mass", ages.mass, RECOVERY_AGES);
		numbers_write(out, "layer_n", tokens, n_layer);
		numbers_write(out, "layer_selected", selected, n_layer);
	}
	free(tokens);
}

int set_sums_sound(struct jv result, int32_t n_layer)
{
	return !jv_get(result, "age_n").p || (numbers_sound(jv_get(result, "age_n"), RECOVERY_AGES, 0) &&
	                                      numbers_sound(jv_get(result, "age_mass"), RECOVERY_AGES, 0) &&
	                                      numbers_sound(jv_get(result, "layer_n"), n_layer, 0) &&
	                                      numbers_sound(jv_get(result, "layer_selected"), n_layer, 0));
}

void set_sums_add(struct set_sums *s, struct jv result, int32_t n_layer)
{
	if (!jv_get(result, "age_n").p)
		return;
	if (!s->layer_n) {
		s->layer_n = xcalloc((size_t)n_layer, sizeof *s->layer_n);
		s->layer_selected = xcalloc((size_t)n_layer, sizeof *s->layer_selected);
	}
	numbers_add(jv_get(result, "age_n"), s->age_n);
	numbers_add(jv_get(result, "age_mass"), s->age_mass);
	numbers_add(jv_get(result, "layer_n"), s->layer_n);
	numbers_add(jv_get(result, "layer_selected"), s->layer_selected);
}

void set_sums_free(struct set_sums *s)
{
	free(s->layer_n);
	free(s->layer_selected);
	*s = (struct set_sums){ .layer_n = NULL };
}

double set_sums_stride(const struct set_sums *s, int32_t n_layer)
{
	double tokens = 0, selected = 0;

	for (int32_t i = 0; s->layer_n && i < n_layer; i++) {
		tokens += s->layer_n[i];
		selected += s->layer_selected[i];
	}
	return selected > 0 ? tokens / selected : 0;
}

void set_sums_json(const struct set_sums *s, int32_t n_layer, struct str *out)
{
	if (!s->layer_n)
		return;
	means_json(out, "ages", s->age_mass, s->age_n, RECOVERY_AGES, "%.5f");
	means_json(out, "strides", s->layer_n, s->layer_selected, n_layer, "%.3f");
}

/* ---- queries ---- */

void query_sums_write(const struct timeline *tl, int32_t n_layer, int32_t n_head, struct str *out)
{
	double *cosine = xcalloc((size_t)n_layer * (size_t)n_head, sizeof *cosine),
	       *pairs = xcalloc((size_t)n_layer, sizeof *pairs);

	for (int32_t i = 0; i < n_layer; i++) {
		int64_t n = timeline_query_cosine(tl, i, cosine + (size_t)i * (size_t)n_head);

		pairs[i] = n > 0 ? (double)n : 0;
	}
	str_clear(out);
	json_open(out, NULL, '{');
	numbers_write(out, "pairs", pairs, n_layer);
	numbers_write(out, "cosine", cosine, n_layer * n_head);
	json_close(out, '}');
	free(cosine);
	free(pairs);
}

int query_sums_sound(struct jv result, int32_t n_layer, int32_t n_head)
{
	return numbers_sound(jv_get(result, "pairs"), n_layer, 0) &&
	       numbers_sound(jv_get(result, "cosine"), (int64_t)n_layer * n_head, -1e15);
}

void query_sums_add(struct query_sums *s, struct jv result, int32_t n_layer, int32_t n_head)
{
	if (!s->cosine) {
		s->cosine = xcalloc((size_t)n_layer * (size_t)n_head, sizeof *s->cosine);
		s->pairs = xcalloc((size_t)n_layer, sizeof *s->pairs);
	}
	numbers_add(jv_get(result, "pairs"), s->pairs);
	numbers_add(jv_get(result, "cosine"), s->cosine);
}

void query_sums_free(struct query_sums *s)
{
	free(s->cosine);
	free(s->pairs);
	*s = (struct query_sums){ .cosine = NULL };
}

double query_sums_layer(const struct query_sums *s, int32_t layer, int32_t n_head, double *low, double *high)
{
	const double *head = s->cosine + (size_t)layer * (size_t)n_head;
	double n = s->pairs[layer], sum = 0;

	*low = INFINITY;
	*high = -INFINITY;
	for (int32_t h = 0; h < n_head; h++) {
		sum += head[h] / n;
		*low = fmin(*low, head[h] / n);
		*high = fmax(*high, head[h] / n);
	}
	return n > 0 ? sum / n_head : NAN;
}

void query_sums_json(const struct query_sums *s, int32_t n_layer, int32_t n_head, struct str *out)
{
	struct str list = { 0 };

	for (int32_t i = 0; i < n_layer; i++)
		for (int32_t h = 0; h < n_head; h++)
			if (s->pairs[i] > 0)
				json_real(&list, NULL, s->cosine[(size_t)i * (size_t)n_head + (size_t)h] / s->pairs[i],
				          "%.4f");
			else
				json_null(&list, NULL);
	json_list(out, "cosine", &list);
	str_free(&list);
}
