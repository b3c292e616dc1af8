/* app/tools/pull_choose.c - groups the files of a repository into models, which may have several files, and chooses one
 * model (pull.h). */
#include "app/tools/pull.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TAIL = sizeof "-00001-of-00002" - 1 };

/* Quantizations in order of preference. Take the first one that the repository has and that fits into memory. The best
 * quantizations with four bits come first: they lose little quality, and files with more bits are slower. */
static const char *const quants[] = {
	"Q4_K_M", "MXFP4", "Q4_K_L", "Q4_K_S", "Q5_K_M", "Q5_K_S", "IQ4_NL", "IQ4_XS", "Q4_1", "Q4_0", "Q4",
	"Q5_1",   "Q5_0",  "Q6_K",   "Q8_0",   "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K",   "BF16", "F16",  "F32",
};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* If a file is a part of a split model, return the part's number: 2 for "NAME-00002-of-00005". *of receives the number
 * of parts, 5. Returns 0 if the model is one file. */
static int part_of(const char *name, size_t n, int *of)
{
	int no, end = 0;

	if (n <= TAIL || sscanf(name + n - TAIL, "-%5d-of-%5d%n", &no, of, &end) != 2 || end != TAIL || no < 1 ||
	    no > *of || *of > PARTS_MOST)
		return 0;
	return no;
}

/* 1 if the word names a quantization: "Q4_K_M", "IQ4_XS", "TQ1_0", "q4", "MXFP4", "BF16". */
static int is_quant(const char *p, size_t n)
{
	static const char *const whole[] = { "F16", "FP16", "BF16", "F32", "MXFP4" };
	size_t at = 0;

	for (size_t i = 0; i < LEN(whole); i++)
		if (n == strlen(whole[i]) && !strncasecmp(p, whole[i], n))
			return 1;
	at += n > 0 && strchr("IiTt", p[0]) != NULL;
	if (n < at + 2 || n > 16 || (p[at] | 32) != 'q' || p[at + 1] < '1' || p[at + 1] > '8')
		return 0;
	return n == at + 2 || p[at + 2] == '_';
}

/* Find the last word of the name that is a quantization, and write it to `out` in capitals; "" if there is none. */
static void find_quant(const char *name, size_t n, char out[24])
{
	*out = 0;
	for (size_t i = 0, k; i < n; i += k + 1) {
		k = strcspn(name + i, "-.");
		if (!is_quant(name + i, k))
			continue;
		for (size_t j = 0; j <= k; j++)
			out[j] = j < k ? (char)toupper((unsigned char)name[i + j]) : 0;
	}
}

/* Return the model to which a file belongs. If m[] has a model with other parts of the same file, return this model;
 * otherwise add a new model to m[]. */
static struct hub_model *model_of(struct hub_model *m, size_t *n, const char *path, size_t len, int of)
{
	const char *base = base_of(path);
	size_t n_base = len - (size_t)(base - path);

	for (size_t i = 0; of && i < *n; i++)
		if (m[i].n == of && strlen(m[i].name) == n_base && !strncmp(m[i].name, base, n_base))
			return &m[i];
	m[*n] = (struct hub_model){ .name = xstrndup(base, n_base), .n = of ? of : 1 };
	find_quant(m[*n].name, n_base, m[*n].quant);
	return &m[(*n)++];
}

size_t hub_models(const struct hub_repo *r, struct hub_model **out)
{
	struct hub_model *m = xcalloc(r->n + 1, sizeof *m);
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		const char *path = r->file[i].path, *base = base_of(path);
		size_t len = strlen(path) - 5;
		int of = 0, no = part_of(path, len, &of);
		struct hub_model *to;

		/* skip image encoders of vision models, and importance matrices (data used for quantizing) */
		if (!strncasecmp(base, "mmproj", 6) || strcasestr(base, "imatrix"))
			continue;
		to = model_of(m, &n, path, no ? len - TAIL : len, no ? of : 0);
		to->part[no ? no - 1 : 0] = &r->file[i];
		to->bytes += r->file[i].bytes;
	}
	for (size_t i = 0; i < n; i++) {
		int whole = 1;

		for (int k = 0; k < m[i].n; k++)
			whole &= m[i].part[k] != NULL;
		if (whole)
			m[kept++] = m[i];
		else
			free(m[i].name);
	}
	*out = m;
	return kept;
}

void hub_models_free(struct hub_model *m, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(m[i].name);
	free(m);
}

static void list_quants(const struct hub_model *m, size_t n, struct str *out)
{
	for (size_t i = 0; i < n && out->n < 160; i++) {
		str_addf(out, "%s%.60s (", i ? ", " : "", m[i].quant[0] ? m[i].quant : m[i].name);
		human_bytes(out, m[i].bytes);
		str_adds(out, ")");
	}
}

static int is_called(const struct hub_model *m, const char *wanted)
{
	size_t n = strlen(m->name);

	if (!strcasecmp(m->quant, wanted) || !strcasecmp(m->name, wanted))
		return 1;
	return !strncasecmp(m->name, wanted, n) && !strcasecmp(wanted + n, ".gguf");
}

const struct hub_model *hub_choose(const struct hub_repo *r, const struct hub_model *m, size_t n, const char *wanted,
                                   uint64_t memory, struct err *e)
{
	struct str list = { 0 };
	const struct hub_model *least = NULL;

	for (size_t i = 0; wanted && i < n; i++)
		if (is_called(&m[i], wanted))
			return &m[i];
	for (size_t q = 0; !wanted && q < LEN(quants); q++)
		for (size_t i = 0; i < n; i++) {
			if (strcmp(m[i].quant, quants[q]) != 0)
				continue;
			if (m[i].bytes + m[i].bytes / 16 + (256u << 20) <= memory)
				return &m[i];
			if (!least || m[i].bytes < least->bytes)
				least = &m[i];
		}
	if (!wanted && n == 1)
		return m;
	list_quants(m, n, &list);
	if (!n) {
		err_set(e, ERR_FAIL, "'%.100s' holds no whole GGUF model", r->name);
	} else if (least) {
		struct str size = { 0 }, left = { 0 };

		human_bytes(&size, least->bytes);
		human_bytes(&left, memory);
		err_set(e, ERR_FIT,
		        "no model of '%.80s' fits: the smallest, %s, has %s, and %s of memory are free; weir pull %.80s:%s fetches it anyway",
		        r->name, least->quant, size.p, left.p, r->name, least->quant);
		str_free(&size);
		str_free(&left);
	} else {
		err_set(e, ERR_USAGE, "'%.80s' has %s%.40s%s; choose with :QUANT among %s", r->name,
		        wanted ? "no '" : "several models", wanted ? wanted : "", wanted ? "'" : "", list.p);
	}
	str_free(&list);
	return NULL;
}
