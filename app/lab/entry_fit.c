/* app/lab/entry_fit.c - see entry_fit.h. */
#include "app/lab/entry_fit.h"
#include "engine/lab/lab.h"

#include <math.h>
#include <stdio.h>

/* Set policy number i of the list to the policy that the user gave, with its fitted setting (k or size) set to
 * `value`. */
static int set_value(struct entry_fit *f, struct policy_list *l, int i, double value, struct err *e)
{
	struct fitted *one = &f->one[i];
	char text[32];

	snprintf(text, sizeof text, "%.0f", value);
	str_clear(&one->kv);
	if (kv_policy_with(f->asked.v[i], one->key, text, &one->kv, e) < 0)
		return -1;
	one->value = value;
	l->v[i] = one->kv.p;
	return 0;
}

int entry_fit_begin(struct entry_fit *f, struct policy_list *l, int32_t want, struct err *e)
{
	*f = (struct entry_fit){ .want = want, .asked = *l };
	for (int i = 0; want && i < l->n; i++) {
		f->one[i].key = "k";
		if (!set_value(f, l, i, want, NULL))
			continue;
		f->one[i].key = "size";
		if (set_value(f, l, i, want, e) < 0)
			return -1;
	}
	return 0;
}

int entry_fit_next(struct entry_fit *f, struct policy_list *l, int i, double read, double all, struct err *e)
{
	struct fitted *one = &f->one[i];
	double want = f->want, value = one->value, slope, next;

	if (!want || one->done || one->whole > 0 || fabs(read - want) <= want / 100 || all <= want)
		return 0;
	if (one->read > 0 && fabs(read - want) >= fabs(one->read - want)) {
		one->done = 1;
		return set_value(f, l, i, one->before, e) < 0 ? -1 : 1;
	}
	/* `slope` tells how many more entries are read per token if the setting grows by 1. After later rounds, compute
	 * it from the last two rounds. After the first round, assume that a share s of the steps and layers always
	 * reads all entries, and that the rest reads exactly `value` entries. The slope is then 1 - s. */
	slope = one->read > 0 ? (read - one->read) / (value - one->before) : 1 - (read - value) / (all - value);
	if (!(slope > 0))
		/* the last two values of the setting select the same number of pages, so the same number of entries was
		 * read */
		slope = 1;
	next = round(value + (want - read) / slope);
	if (next < 1) {
		one->whole = read - slope * value;
		return set_value(f, l, i, want, e) < 0 ? -1 : 1;
	}
	if (next == value)
		return 0;
	one->before = value;
	one->read = read;
	return set_value(f, l, i, next, e) < 0 ? -1 : 1;
}

void entry_fit_free(struct entry_fit *f)
{
	for (int i = 0; i < LIST_MAX; i++)
		str_free(&f->one[i].kv);
}
