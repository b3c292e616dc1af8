/* app/retrieval/meaning.c - compares passages with a question by meaning: the cosine of their vectors, which a text
 * encoder computes (engine/encoder.h).
 *
 * The vectors of a text are computed when it is first searched, and stored beside its index. If the computation is
 * interrupted, the next search continues it. A stored vector has one signed byte per component, scaled so that the
 * largest is 127.
 *
 * All vectors of an encoder have a large common part, which hides their differences. So a mean vector is subtracted:
 * from a passage's vector, the mean of all passages; from a question's vector, the mean of usual questions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/models/models.h"
#include "app/retrieval/retrieval_private.h"
#include "engine/base/sentences.h"
#include "engine/encoder.h"
#include "engine/engine_machine.h"

enum {
	SENTENCES_MOST = 32, /* maximum number of sentences of a passage that are compared with the question */
	/* in the mean vector of all passages, the mean vector of usual[] has the same weight as FEW passages */
	FEW = 10,
	/* number of passages that are encoded between two progress reports; 16 passages take 0.2 s on two cores with
	 * AVX-512 */
	AT_ONCE = 16,
	/* If there are more passages than this, the search uses only words, not vectors. Encoding this number of
	 * passages takes 7 minutes, once, on two cores with AVX-512. */
	PASSAGES_MOST = 40000,
	PASSAGES_MOST_C = 400, /* PASSAGES_MOST on a processor without SIMD kernels */
};
/* Bonus for the sentence that the search by words has chosen; it is added to the sentence's cosine. */
static const double PREFERRED = 0.05;
/* Questions of all kinds. Their mean vector shows what all questions have in common. */
static const char *const usual[] = {
	"what is it about?",
	"who is he and what does he want?",
	"why did they do that?",
	"how does it work?",
	"when did it happen?",
	"where do they live?",
	"how many are there?",
	"what does the author say about this?",
	"which one should I use?",
	"what happens if it fails?",
	"who told her the news?",
	"what did she find in the room?",
	"what is the name of the place they came from?",
	"how long does it take?",
	"how much does it cost?",
	"is it allowed to change the order?",
	"what is the difference between the two?",
	"what colour was the door?",
	"how do I set the size of the buffer?",
	"what reason is given for the decision?",
	"does the old man die in the end?",
	"what does this function return on error?",
	"whose idea was it to leave?",
	"what kind of person is the captain?",
};

/* Open the encoder that the options name. Each name is tried only once. Returns 1 if the encoder is open, else 0. */
static int meaning_open(struct conversation *conv)
{
	struct meaning *m = &search_of(conv)->meaning;
	const char *named = conv->o->encoder ? conv->o->encoder : "off";
	struct err why = { 0 };

	if (m->tried && !strcmp(m->tried, named))
		return m->encoder != NULL;
	meaning_close(m);
	m->tried = named;
	if (encoder_open_for(&m->encoder, conv->o, &why) < 0)
		conversation_notice(conv, "documents are searched by words alone: %s", why.msg);
	return m->encoder != NULL;
}

void meaning_close(struct meaning *m)
{
	encoder_close(m->encoder);
	free(m->centre);
	free(m->question);
	str_free(&m->stored);
	*m = (struct meaning){ 0 };
}

/* ---- vectors of passages ---- */

/* Append the vectors v[n][dims] with one byte per component. Each vector is scaled so that its largest component, by
 * magnitude, becomes 127 or -127. */
static void vectors_pack(const float *v, size_t n, size_t dims, struct str *out)
{
	for (size_t i = 0; i < n; i++, v += dims) {
		float most = 1e-20f;
		char byte[1024];

		for (size_t k = 0; k < dims; k++)
			most = fmaxf(most, fabsf(v[k]));
		for (size_t k = 0; k < dims; k += sizeof byte) {
			size_t some = MIN(dims - k, sizeof byte);

			for (size_t j = 0; j < some; j++)
				byte[j] = (char)lrintf(v[k + j] * 127 / most);
			str_add(out, byte, some);
		}
	}
}

/* Compute the vectors of passages found[have .. n) of one text, and append them to m->stored. Returns 0; 1 if the
 * computation was postponed; -1 on error. */
static int vectors_add(struct conversation *conv, const struct indexed_text *text, const struct found_passage *found,
                       size_t have, size_t n, struct err *e)
{
	struct source_search *s = search_of(conv);
	size_t dims = (size_t)encoder_dims(s->meaning.encoder);
	float *v = xcalloc(AT_ONCE * dims, sizeof *v);
	int rc = 0;

	for (size_t i = have, some; i < n && !rc; i += some) {
		struct encoder_string at[AT_ONCE];

		int what = s->encoding ? s->encoding(i - have, n - have, s->search_ud) : ENCODING_ON;

		if (what) {
			rc = what == ENCODING_LATER ? 1 : err_set(e, ERR_CANCELLED, "stopped");
			break;
		}
		some = MIN(n - i, (size_t)AT_ONCE);
		for (size_t k = 0; k < some; k++)
			at[k] = (struct encoder_string){ text->p + found[i + k].from,
				                         found[i + k].to - found[i + k].from };
		rc = encoder_texts(s->meaning.encoder, ENCODER_PASSAGE, at, (int32_t)some, v, NULL, e);
		if (!rc)
			vectors_pack(v, some, dims, &s->meaning.stored);
	}
	if (!rc && s->encoding)
		s->encoding(n - have, n - have, s->search_ud);
	free(v);
	return rc;
}

/* Append the vectors of the passages found[0 .. n) of one text to *out. Missing vectors are computed and stored.
 * Returns 0; 1 if the computation was postponed; -1 on error. */
static int text_vectors(struct conversation *conv, struct passage_index *index, const struct indexed_text *text,
                        const struct found_passage *found, size_t n, struct str *out, struct err *e)
{
	struct meaning *m = &search_of(conv)->meaning;
	size_t dims = (size_t)encoder_dims(m->encoder), have;
	int stored, rc = 0;

	str_clear(&m->stored);
	stored = vectors_read(index, text, encoder_id(m->encoder), &m->stored, e);
	if (stored < 0)
		return -1;
	if (m->stored.n > n * dims || m->stored.n % dims)
		str_clear(&m->stored);
	have = m->stored.n / dims;
	if (have < n) {
		struct err why = { 0 };

		rc = vectors_add(conv, text, found, have, n, e);
		/* If storing fails, the next search computes the vectors again. */
		if (m->stored.n > have * dims)
			vectors_write(index, text, encoder_id(m->encoder), &m->stored, &why);
	}
	if (!rc)
		str_add(out, m->stored.p, m->stored.n);
	return rc;
}

/* ---- similarity ---- */

/* Compute m->centre. It has a vector for each enum encoder_side: the mean vector of the questions in usual[], encoded
 * for that side. Returns 0 or -1. */
static int centre_compute(struct meaning *m, struct err *e)
{
	struct encoder_string text[LEN(usual)];
	size_t dims = (size_t)encoder_dims(m->encoder);
	float *v = xcalloc(LEN(usual) * dims, sizeof *v), *centre = xcalloc(ENCODER_SIDES * dims, sizeof *centre);
	int rc = 0;

	for (size_t i = 0; i < LEN(usual); i++)
		text[i] = (struct encoder_string){ usual[i], strlen(usual[i]) };
	for (size_t side = 0; side < ENCODER_SIDES && !rc; side++) {
		float *mean = centre + side * dims;

		rc = encoder_texts(m->encoder, (enum encoder_side)side, text, LEN(usual), v, NULL, e);
		for (size_t i = 0; i < LEN(usual) * dims && !rc; i++)
			mean[i % dims] += v[i] / LEN(usual);
	}
	free(v);
	if (rc)
		free(centre);
	else
		m->centre = centre;
	return rc;
}

/* Compute the vector of a text, subtract the mean of usual questions, scale the result to length 1, and add it to
 * q[dims]. English questions are encoded with the reader's adapter. It was trained on English, and makes the search
 * worse for other languages. Returns 0 or -1. */
static int question_add(struct meaning *m, const struct str *text, float *q, struct err *e)
{
	enum encoder_side side = question_is_english(text->p, text->n) ? ENCODER_QUERY_ADAPTED : ENCODER_QUERY;
	size_t dims = (size_t)encoder_dims(m->encoder);
	float *v = xcalloc(dims, sizeof *v);
	double squares = 0;
	int rc = encoder_texts(m->encoder, side, &(struct encoder_string){ text->p, text->n }, 1, v, NULL, e);

	for (size_t k = 0; k < dims && !rc; k++) {
		v[k] -= m->centre[side * dims + k];
		squares += v[k] * v[k];
	}
	for (size_t k = 0; k < dims && !rc && squares > 0; k++)
		q[k] += (float)(v[k] / sqrt(squares));
	free(v);
	return rc;
}

/* Set q[dims] to the vector of the question (struct asked), scaled to length 1. Returns 0 or -1. */
static int question_vector(struct meaning *m, const struct asked *a, float *q, struct err *e)
{
	size_t dims = (size_t)encoder_dims(m->encoder);
	double squares = 0;

	if ((!m->centre && centre_compute(m, e)) || question_add(m, &a->text[0], q, e) ||
	    (a->text[1].n && question_add(m, &a->text[1], q, e)))
		return -1;
	for (size_t k = 0; k < dims; k++)
		squares += q[k] * q[k];
	for (size_t k = 0; k < dims && squares > 0; k++)
		q[k] = (float)(q[k] / sqrt(squares));
	return 0;
}

/* Set mean[dims] to the mean of the vectors v[n][dims] and of usual_mean[dims], which has the weight of FEW vectors.
 * Set similar[i] to the cosine between q[dims] and (vector i - mean). */
static void cosines(const int8_t *v, size_t n, size_t dims, const float *q, const float *usual_mean, float *mean,
                    float *similar)
{
	float mean_q = 0, mean_mean = 0, all = (float)n + FEW;

	for (size_t k = 0; k < dims; k++)
		mean[k] = usual_mean[k] * FEW / all;
	for (size_t i = 0; i < n; i++) {
		const int8_t *at = v + i * dims;
		int32_t squares = 1;

		for (size_t k = 0; k < dims; k++)
			squares += at[k] * at[k];
		/* for now, only the factor that scales the vector to length 1 */
		similar[i] = 1 / sqrtf((float)squares);
		for (size_t k = 0; k < dims; k++)
			mean[k] += (float)at[k] * similar[i] / all;
	}
	for (size_t k = 0; k < dims; k++) {
		mean_q += mean[k] * q[k];
		mean_mean += mean[k] * mean[k];
	}
	for (size_t i = 0; i < n; i++) {
		const int8_t *at = v + i * dims;
		float with_q = 0, with_mean = 0, squares;

		for (size_t k = 0; k < dims; k++) {
			with_q += (float)at[k] * q[k];
			with_mean += (float)at[k] * mean[k];
		}
		squares = 1 - 2 * with_mean * similar[i] + mean_mean;
		similar[i] = squares > 1e-6f ? (with_q * similar[i] - mean_q) / sqrtf(squares) : 0;
	}
}

int without_meaning(struct conversation *conv, const struct err *e)
{
	struct meaning *m = &search_of(conv)->meaning;

	if (e->code == ERR_CANCELLED)
		return -1;
	conversation_notice(conv, "documents are searched by words alone: %s", e->msg);
	meaning_close(m);
	m->tried = conv->o->encoder;
	return 0;
}

int meaning_similar(struct conversation *conv, struct passage_index *index, const struct indexed_text *text,
                    const struct asked *asked, const struct found_passage *found, size_t n, float *similar,
                    struct err *e)
{
	struct source_search *s = search_of(conv);
	struct meaning *m = &s->meaning;
	size_t most = strncmp(engine_cpu_level(), "c ", 2) ? PASSAGES_MOST : PASSAGES_MOST_C, dims;
	struct str all = { 0 };
	int rc;

	if (!n || n > most || !meaning_open(conv))
		return 0;
	dims = (size_t)encoder_dims(m->encoder);
	free(m->question);
	m->question = xcalloc(2 * dims, sizeof *m->question);
	rc = question_vector(m, asked, m->question, e);
	for (size_t i = 0, end; i < n && !rc; i = end) {
		for (end = i; end < n && found[end].text == found[i].text; end++)
			;
		rc = text_vectors(conv, index, &text[found[i].text], found + i, end - i, &all, e);
	}
	if (!rc)
		cosines((const int8_t *)all.p, n, dims, m->question, m->centre + ENCODER_PASSAGE * dims,
		        m->question + dims, similar);
	str_free(&all);
	return rc < 0 ? without_meaning(conv, e) : !rc;
}

/* ---- sentences ---- */

/* Return the index of the sentence that is closest to the question. v[n][dims] has the vectors of the sentences.
 * `preferred` is the index of the sentence that the search by words chose, or SIZE_MAX. */
static size_t closest(const struct meaning *m, const float *v, size_t n, size_t preferred)
{
	size_t dims = (size_t)encoder_dims(m->encoder), best = 0;
	const float *q = m->question, *mean = q + dims;
	double most = -2;

	for (size_t i = 0; i < n; i++, v += dims) {
		double dot = 0, squares = 0;

		for (size_t k = 0; k < dims; k++) {
			double d = v[k] - mean[k];

			dot += d * q[k];
			squares += d * d;
		}
		dot = (squares > 0 ? dot / sqrt(squares) : 0) + (i == preferred ? PREFERRED : 0);
		if (dot > most) {
			most = dot;
			best = i;
		}
	}
	return best;
}

int meaning_quote(struct conversation *conv, const char *body, struct found_passage *f, struct err *e)
{
	struct meaning *m = &search_of(conv)->meaning;
	struct sentence *at;
	struct encoder_string *text;
	size_t n, kept = 0, preferred = SIZE_MAX, best;
	float *v;
	int rc = 0;

	if (!m->encoder) /* the encoder was closed after an error */
		return 0;
	n = sentences_cut(body + f->from, f->to - f->from, &at, NULL, NULL);
	text = xcalloc(n + 1, sizeof *text);
	v = xcalloc((n + 1) * (size_t)encoder_dims(m->encoder), sizeof *v);

	/* Leave out headings, because they answer nothing. */
	for (size_t i = 0; i < n && kept < SENTENCES_MOST; i++)
		if (!(at[i].flags & SENTENCE_HEADING)) {
			at[kept] = at[i];
			text[kept] = (struct encoder_string){ body + f->from + at[i].from, at[i].to - at[i].from };
			if (f->sentence > 0 && f->from + at[i].from == f->quote)
				preferred = kept;
			kept++;
		}
	if (kept > 1)
		rc = encoder_texts(m->encoder, ENCODER_PASSAGE, text, (int32_t)kept, v, NULL, e);
	if (!rc && kept) {
		best = kept > 1 ? closest(m, v, kept, preferred) : 0;
		if (best != preferred)
			f->sentence = 0; /* the quote is no longer the sentence that the search by words chose */
		f->quote = f->from + at[best].from;
		f->quote_end = f->from + at[best].to;
	}
	free(at);
	free(text);
	free(v);
	return rc ? without_meaning(conv, e) : 0;
}
