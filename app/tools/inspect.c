/* app/tools/inspect.c - weir inspect model|tokens|logits: prints the metadata of a model file, token ids, or
 * logits. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/models/models.h"
#include "app/conversation/conversation.h"
#include "app/tools/tools.h"
#include "ui/text/text.h"
#include "engine/base/json.h"

#define TEXT_MAX (256u << 20)

/* ---- model ---- */

static void json_id(struct str *s, const char *key, int32_t id)
{
	if (id < 0)
		json_null(s, key);
	else
		json_int(s, key, id);
}

static void model_json(const struct engine_info *i, struct str *s)
{
	json_open(s, NULL, '{');
	json_string(s, "path", i->path);
	json_string(s, "name", i->name);
	json_string(s, "arch", i->arch);
	json_string(s, "quant", i->quant);
	json_string(s, "types", i->n_types);
	json_uint(s, "weight_bytes", i->weight_bytes);
	json_uint(s, "params", i->n_params);
	json_uint(s, "bytes_per_token", i->bytes_per_token);
	json_int(s, "layers", i->n_layer);
	json_int(s, "embd", i->n_embd);
	json_int(s, "ff", i->n_ff);
	json_int(s, "heads", i->n_head);
	json_int(s, "kv_heads", i->n_kv_head);
	json_int(s, "head_dim", i->head_dim);
	json_int(s, "vocab", i->n_vocab);
	json_int(s, "experts", i->n_expert);
	json_int(s, "experts_used", i->n_expert_used);
	json_int(s, "window", i->window);
	json_int(s, "kv_heads_windowed", i->n_kv_head_windowed);
	json_int(s, "head_dim_windowed", i->head_dim_windowed);
	json_int(s, "borrowing_layers", i->n_borrowed);
	json_int(s, "windowed_layers", i->n_windowed);
	json_int(s, "recurrent_layers", i->n_recurrent);
	json_int(s, "state_bytes", (int64_t)i->state_bytes);
	json_int(s, "context", i->ctx_train);
	json_real(s, "rope_base", i->rope_base, "%.9g");
	json_string(s, "rope_scaling", i->rope_scaling ? i->rope_scaling : "none");
	json_bool(s, "tied_output", i->tied_output);
	json_bool(s, "qkv_bias", i->qkv_bias);
	json_bool(s, "qk_norm", i->qk_norm);
	json_string(s, "tokenizer", i->tokenizer);
	json_id(s, "bos", i->bos);
	json_id(s, "eos", i->eos);
	json_id(s, "eot", i->eot);
	json_bool(s, "add_bos", i->add_bos);
	json_string(s, "template", i->template_name[0] ? i->template_name : NULL);
	json_bool(s, "system_messages", i->takes_system);
	json_string(s, "template_error", i->template_error[0] ? i->template_error : NULL);
}

static void add_row(struct str *s, const char *key, const char *value)
{
	str_addf(s, "%-13s", key);
	clean_line(value, strlen(value), s);
	str_adds(s, "\n");
}

/* Append the sampling settings. If the model has different settings with and without reasoning, append both. */
static void model_sampling(const struct options *o, const struct engine *engine, struct str *s)
{
	static const struct {
		const char *think, *key, *row;
	} how[] = {
		{ "auto", "sampling", "sampling" },
		{ "on", "sampling_reasoning", "... reasoning" },
		{ "off", "sampling_no_reasoning", "... without" },
	};
	struct str usual = { 0 }, line = { 0 };
	struct options with = *o;

	for (size_t i = 0; i < LEN(how); i++) {
		struct sampling_choice c;

		with.think = how[i].think;
		sampling_choose(&with, engine, &c);
		str_clear(&line);
		sampling_line(&c, &line);
		if (o->json)
			sampling_json(&c, how[i].key, s);
		else if (!i || strcmp(line.p, usual.p) != 0)
			add_row(s, how[i].row, line.p);
		if (!i)
			str_adds(&usual, line.p);
	}
	if (o->json)
		json_string(s, "sampling_note",
		            engine_info(engine)->sampling_note[0] ? engine_info(engine)->sampling_note : NULL);
	else if (engine_info(engine)->sampling_note[0])
		add_row(s, "", engine_info(engine)->sampling_note);
	str_free(&usual);
	str_free(&line);
}

static void row_id(struct str *s, const char *key, int32_t id)
{
	if (id >= 0)
		str_addf(s, "  %s %d", key, id);
}

static void model_text(const struct engine_info *i, struct str *s)
{
	add_row(s, "file", i->path);
	add_row(s, "name", i->name);
	add_row(s, "architecture", i->arch);
	add_row(s, "tensors", i->n_types);
	str_addf(s, "%-13s", "weights");
	human_bytes(s, i->weight_bytes);
	str_adds(s, ", ");
	human_count(s, i->n_params);
	str_adds(s, " parameters, ");
	human_bytes(s, i->bytes_per_token);
	str_addf(s, " read a token\n%-13s%d layers of %d, feed-forward %d", "shape", i->n_layer, i->n_embd, i->n_ff);
	if (i->n_expert)
		str_addf(s, ", %d of %d experts", i->n_expert_used, i->n_expert);
	str_addf(s, "\n%-13s%d query and %d KV heads of %d%s%s", "attention", i->n_head, i->n_kv_head, i->head_dim,
	         i->qkv_bias ? ", QKV bias" : "", i->qk_norm ? ", QK norm" : "");
	if (i->n_windowed)
		str_addf(s, ", a window of %d in %d of the layers", i->window, i->n_windowed);
	if (i->n_windowed && (i->n_kv_head_windowed != i->n_kv_head || i->head_dim_windowed != i->head_dim))
		str_addf(s, ", which have %d KV heads of %d", i->n_kv_head_windowed, i->head_dim_windowed);
	if (i->n_borrowed)
		str_addf(s, "; the last %d layers read the KV entries of earlier ones", i->n_borrowed);
	str_adds(s, "\n");
	if (i->n_recurrent) {
		str_addf(s, "%-13s%d of the layers keep a state of ", "recurrent", i->n_recurrent);
		human_bytes(s, i->state_bytes);
		str_addf(s, " in all instead of a KV cache; cache policies apply to the other %d\n",
		         i->n_layer - i->n_recurrent);
	}
	str_addf(s, "%-13strained for %d tokens; rope base %.9g, scaling %s\n", "context", i->ctx_train, i->rope_base,
	         i->rope_scaling ? i->rope_scaling : "none");
	str_addf(s, "%-13s%d tokens, ", "vocabulary", i->n_vocab);
	clean_line(i->tokenizer, strlen(i->tokenizer), s);
	str_addf(s, "%s\n%-13s", i->tied_output ? ", output tied to the embedding" : "", "tokens");
	str_addf(s, "BOS %s", i->add_bos ? "added" : "not added");
	row_id(s, "bos", i->bos);
	row_id(s, "eos", i->eos);
	row_id(s, "eot", i->eot);
	str_adds(s, "\n");
	add_row(s, "template", i->template_name[0] ? i->template_name : i->template_error);
	if (!i->takes_system)
		add_row(s, "system", "in front of the first question: the template has no place for it");
}

int cmd_inspect_model(const struct options *given)
{
	struct options o = *given;
	struct engine *engine;
	struct err e = { 0 };
	struct str s = { 0 };
	int rc;

	if (o.n_file)
		o.model = o.file[0];
	if (model_open(&engine, &o, MODEL_LOOK, &e) < 0)
		return fail(&e);
	if (o.json)
		model_json(engine_info(engine), &s);
	else
		model_text(engine_info(engine), &s);
	model_sampling(&o, engine, &s);
	if (o.json) {
		json_close(&s, '}');
		str_adds(&s, "\n");
	}
	rc = (o.json ? print_json(&s, &e) : print_all(s.p, s.n, &e)) < 0 ? fail(&e) : 0;
	str_free(&s);
	engine_close(engine);
	return rc;
}

/* ---- tokens ---- */

/* Parse token ids that are separated by white space. `name` is the name of the file, for error messages. */
static int parse_ids(const char *name, const struct str *text, int32_t n_vocab, struct tokens *out, struct err *e)
{
	const char *p = str_text(text), *end = p + text->n;

	for (;;) {
		char *stop;
		long v;
		while (p < end && strchr(" \t\r\n\f\v", *p) && *p)
			p++;
		if (p == end)
			return 0;
		errno = 0;
		v = strtol(p, &stop, 10);
		if (stop == p || (stop < end && (!*stop || !strchr(" \t\r\n\f\v", *stop))))
			return err_set(e, ERR_USAGE,
			               "'%.200s' byte %zu: token ids are numbers with white space between them", name,
			               (size_t)(p - text->p));
		if (errno || v < 0 || v >= n_vocab)
			return err_set(e, ERR_USAGE, "'%.200s': token %zu is %.20s, the vocabulary has 0 to %d", name,
			               out->n, p, n_vocab - 1);
		tokens_add(out, (int32_t)v);
		p = stop;
	}
}

/* 1 if the tokenizer puts a blank before a text. The blank is then at the beginning of the first token. */
static int adds_blank(const struct engine *engine)
{
	struct tokens t = { 0 };
	char piece[64] = "";
	int adds = 0;

	if (!engine_tokenize(engine, "a", 1, 0, &t, NULL))
		for (size_t i = 0; i < t.n && !adds; i++) {
			size_t n = engine_piece(engine, t.id[i], 0, piece, sizeof piece);
			if (!n)
				continue;
			adds = piece[0] == ' ';
			break;
		}
	tokens_free(&t);
	return adds;
}

static void ids_decode(const struct engine *engine, const struct tokens *t, int special, struct str *out)
{
	int blank = adds_blank(engine);

	for (size_t i = 0; i < t->n; i++) {
		size_t n = engine_piece_add(engine, t->id[i], special, out);
		char first;

		/* drop the blank that the tokenizer has added; tokens without text (BOS) may come before it */
		if (blank && engine_piece(engine, t->id[i], 0, &first, 1)) {
			if (first == ' ') {
				memmove(out->p + out->n - n, out->p + out->n - n + 1, n);
				out->n--;
			}
			blank = 0;
		}
	}
}

int cmd_inspect_tokens(const struct options *o)
{
	struct engine *engine;
	const char *name = o->n_file ? o->file[0] : "-";
	struct str text = { 0 }, out = { 0 };
	struct tokens t = { 0 };
	struct err e = { 0 };
	int rc;

	if (model_open(&engine, o, MODEL_VOCAB, &e) < 0)
		return fail(&e);
	rc = read_whole(name, TEXT_MAX, &text, &e);
	if (!rc && o->decode) {
		rc = parse_ids(name, &text, engine_info(engine)->n_vocab, &t, &e);
		if (!rc)
			ids_decode(engine, &t, o->special, &out);
		/* a file gets the exact bytes, a terminal gets filtered text */
		if (!rc && isatty(1)) {
			struct str raw = out;
			struct clean clean;
			out = (struct str){ 0 };
			clean_init(&clean, 0);
			clean_text(&clean, str_text(&raw), raw.n, &out);
			clean_end(&clean, &out);
			str_free(&raw);
		}
	} else if (!rc) {
		rc = engine_tokenize(engine, str_text(&text), text.n,
		                     (o->special ? TOKENIZE_SPECIAL : 0u) | (o->bos ? TOKENIZE_BOS : 0u), &t, &e);
		for (size_t i = 0; !rc && i < t.n; i++)
			str_addf(&out, "%d\n", t.id[i]);
	}
	if (!rc)
		rc = print_all(str_text(&out), out.n, &e);
	rc = rc < 0 ? fail(&e) : 0;
	str_free(&text);
	str_free(&out);
	tokens_free(&t);
	engine_close(engine);
	return rc;
}

/* ---- logits ---- */

struct logits_out {
	int fd, failed; /* `failed` is the errno of the write that failed; 0 = none has failed */
	int32_t n_vocab, n;
	struct timeline *tl;
	struct progress progress;
	int32_t total;
};

static void write_logits(int32_t pos, const float *logits, void *ud)
{
	struct logits_out *out = ud;
	size_t bytes = (size_t)out->n_vocab * sizeof *logits;

	(void)pos;
	if (out->failed)
		return;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	uint32_t *swapped = xmalloc(bytes);
	memcpy(swapped, logits, bytes);
	for (int32_t i = 0; i < out->n_vocab; i++)
		swapped[i] = __builtin_bswap32(swapped[i]);
	if (write_all(out->fd, (const char *)swapped, bytes) < 0)
		out->failed = errno;
	free(swapped);
#else
	if (write_all(out->fd, (const char *)logits, bytes) < 0)
		out->failed = errno;
#endif
	if (out->failed)
		timeline_cancel(out->tl); /* stop computing logits that cannot be written */
	progress_show(&out->progress, ++out->n, out->total);
}

static int logits_run(const struct options *o, struct engine *engine, const struct tokens *t, struct err *e)
{
	struct logits_out out = { .n_vocab = engine_info(engine)->n_vocab, .total = (int32_t)t->n };
	int to_stdout = !strcmp(o->out, "-"), rc;

	if (timeline_open_for(&out.tl, engine, o, o->ctx ? o->ctx : (int32_t)t->n, e) < 0)
		return -1;
	out.fd = to_stdout ? 1 : open(o->out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (out.fd < 0) {
		timeline_close(out.tl);
		return err_set(e, ERR_USAGE, "cannot write '%.200s': %s", o->out, strerror(errno));
	}
	progress_init(&out.progress, o->quiet, o->verbose, "computing", "tokens");
	signals_watch(out.tl);
	rc = timeline_extend(out.tl, t->id, t->n, 0, write_logits, &out, e);
	signals_watch(NULL);
	progress_clear(&out.progress);
	if (out.failed)
		rc = err_set(e, ERR_FAIL, "cannot write '%.200s': %s", o->out, strerror(out.failed));
	if (!to_stdout && close(out.fd) < 0 && !rc)
		rc = err_set(e, ERR_FAIL, "cannot write '%.200s': %s", o->out, strerror(errno));
	timeline_close(out.tl);
	return rc;
}

int cmd_inspect_logits(const struct options *o)
{
	struct engine *engine;
	struct str text = { 0 };
	struct tokens t = { 0 };
	struct err e = { 0 };
	int rc;

	if (!o->token_file || !o->out) {
		err_set(&e, ERR_USAGE, "'weir inspect logits' wants --tokens FILE and --out FILE");
		return fail(&e);
	}
	if (model_open(&engine, o, MODEL_RUN, &e) < 0)
		return fail(&e);
	rc = read_whole(o->token_file, TEXT_MAX, &text, &e);
	if (!rc)
		rc = parse_ids(o->token_file, &text, engine_info(engine)->n_vocab, &t, &e);
	if (!rc && (!t.n || t.n > INT32_MAX))
		rc = err_set(&e, ERR_USAGE, "'%.200s' holds no token ids", o->token_file);
	if (!rc)
		rc = logits_run(o, engine, &t, &e);
	rc = rc < 0 ? fail(&e) : 0;
	str_free(&text);
	tokens_free(&t);
	engine_close(engine);
	return rc;
}
