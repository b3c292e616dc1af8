/* tests/lib/json.c - elements, numbers and strings of reference files (json.h). */
#include "tests/lib/json.h"

struct jv jv_at(struct jv array, size_t i)
{
	struct jv it = { 0 };

	while (jv_next(array, &it, NULL))
		if (!i--)
			return it;
	return (struct jv){ 0 };
}

size_t jv_len(struct jv array)
{
	struct jv it = { 0 };
	size_t n = 0;

	while (jv_next(array, &it, NULL))
		n++;
	return n;
}

double jv_num(struct jv v)
{
	double x;

	return jv_number(v, &x) ? 0 : x;
}

char *jv_str(struct jv v, size_t *n)
{
	struct str s = { 0 };

	if (jv_text(v, &s))
		return NULL;
	if (n)
		*n = s.n;
	return s.p;
}
