/* engine/lab/train_file.c - the files of training: checkpoints, adapters, models.
 *
 * A checkpoint is a header of 64 bytes, then for each parameter its values and both moments of AdamW as f32. Numbers
 * are little-endian. The header has, at byte
 *
 *      0   "WEIRTRN1"
 *      8   u32 steps made
 *     16   u64 hash of model and settings
 *     24   u64 number of values in the file
 *     32   u64 hash of these values
 *
 * and zeros elsewhere.
 *
 * A file is written as PATH.new and then renamed, so that PATH is always a complete file, the old or the new one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/base.h"
#include "engine/lab/train.h"

/* ---- a file that is replaced atomically ---- */

/* A file that is being written. */
struct whole {
	struct str next; /* path of the file while it is being written */
	const char *path;
	FILE *f;
	int failed; /* errno of the first failure */
};

/* Begin to write PATH.new. */
static int whole_open(struct whole *w, const char *path, struct err *err)
{
	int fd;

	*w = (struct whole){ .path = path };
	str_addf(&w->next, "%s.new", path);
	fd = open(w->next.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0 || !(w->f = fdopen(fd, "wb"))) {
		err_set(err, ERR_FAIL, "cannot write '%s': %s", w->next.p, strerror(errno));
		if (fd >= 0)
			close(fd);
		str_free(&w->next);
		return -1;
	}
	return 0;
}

/* Write n bytes. If this fails, whole_close() reports the error. */
static void whole_put(struct whole *w, const void *p, size_t n)
{
	if (!w->failed && n && fwrite(p, 1, n, w->f) != n)
		w->failed = errno ? errno : EIO;
}

/* Finish the file and rename it. After an error, delete it. */
static int whole_close(struct whole *w, struct err *err)
{
	int rc = 0;

	if (!w->failed && (fflush(w->f) || fsync(fileno(w->f))))
		w->failed = errno;
	if (fclose(w->f) && !w->failed)
		w->failed = errno;
	if (!w->failed && rename(w->next.p, w->path))
		w->failed = errno;
	if (w->failed) {
		rc = err_set(err, ERR_FAIL, "cannot write '%s': %s", w->path, strerror(w->failed));
		unlink(w->next.p);
	}
	str_free(&w->next);
	return rc;
}

int trainer_can_write(const char *path, struct err *err)
{
	struct whole w;

	if (whole_open(&w, path, err))
		return -1;
	fclose(w.f);
	unlink(w.next.p);
	str_free(&w.next);
	return 0;
}

/* ---- checkpoints ---- */

enum { HEAD_BYTES = 64 };
static const char magic[8] = { 'W', 'E', 'I', 'R', 'T', 'R', 'N', '1' };

/* Hash the model and the settings: a checkpoint can be continued only if its hash is the same. The 0.0 stands for a
 * setting of older versions, the weight decay, so that their checkpoints stay usable. */
static uint64_t training_hash(const struct trainer *t)
{
	const struct train_settings *s = &t->s;
	const struct gguf_tensor *norm = gguf_tensor_find(t->e->gguf, "output_norm.weight");
	char text[400];
	int n = snprintf(text, sizeof text, "%d %d %d %d %d %a %a %a %d %a %d %d %d %d %" PRIu64 " %d %d %d",
	                 s->context, s->batch, s->fixed, s->steps, s->warmup, s->rate, 0.0, s->clip, s->rank, s->alpha,
	                 s->mask.k, s->mask.prefill, s->mask.stride, s->mask.pool, s->seed, t->n_layer, t->n_embd,
	                 t->n_vocab);

	return hash64(hash64(0, text, (size_t)n), norm->data, (size_t)norm->bytes);
}

/* Make the header of a checkpoint of the trainer's current state. */
static void head_of(uint8_t head[HEAD_BYTES], const struct trainer *t)
{
	uint32_t step = (uint32_t)t->step;
	uint64_t about = training_hash(t), n = 0, sum = 0;

	for (size_t i = 0; i < t->n_param; i++) {
		const struct train_param *p = t->param[i];

		n += 3 * p->n;
		sum = hash64(hash64(hash64(sum, p->w, p->n * sizeof *p->w), p->m, p->n * sizeof *p->m), p->v,
		             p->n * sizeof *p->v);
	}
	memset(head, 0, HEAD_BYTES);
	memcpy(head, magic, 8);
	memcpy(head + 8, &step, 4);
	memcpy(head + 16, &about, 8);
	memcpy(head + 24, &n, 8);
	memcpy(head + 32, &sum, 8);
}

int trainer_save(const struct trainer *t, const char *path, struct err *err)
{
	uint8_t head[HEAD_BYTES];
	struct whole w;

	if (whole_open(&w, path, err))
		return -1;
	head_of(head, t);
	whole_put(&w, head, sizeof head);
	for (size_t i = 0; i < t->n_param; i++) {
		const struct train_param *p = t->param[i];

		whole_put(&w, p->w, p->n * sizeof *p->w);
		whole_put(&w, p->m, p->n * sizeof *p->m);
		whole_put(&w, p->v, p->n * sizeof *p->v);
	}
	return whole_close(&w, err);
}

int trainer_load(struct trainer *t, const char *path, struct err *err)
{
	uint8_t head[HEAD_BYTES], want[HEAD_BYTES];
	FILE *f = fopen(path, "rbe");
	uint32_t step;
	int bad;

	if (!f)
		return errno == ENOENT ? 0 : err_set(err, ERR_FAIL, "cannot read '%s': %s", path, strerror(errno));
	head_of(want, t);
	if (fread(head, 1, sizeof head, f) != sizeof head || memcmp(head, magic, 8) ||
	    memcmp(head + 16, want + 16, 16)) {
		fclose(f);
		return err_set(err, ERR_USAGE,
		               "'%s' is of another training: model or settings differ; remove it, or name another file",
		               path);
	}
	memcpy(&step, head + 8, 4);
	bad = step > INT32_MAX;
	for (size_t i = 0; !bad && i < t->n_param; i++) {
		struct train_param *p = t->param[i];

		bad = fread(p->w, sizeof *p->w, p->n, f) != p->n || fread(p->m, sizeof *p->m, p->n, f) != p->n ||
		      fread(p->v, sizeof *p->v, p->n, f) != p->n;
	}
	bad = bad || fgetc(f) != EOF;
	fclose(f);
	if (!bad) {
		t->step = (int32_t)step;
		head_of(want, t);
		bad = memcmp(head, want, sizeof head) != 0;
	}
	return bad ? err_set(err, ERR_FAIL, "'%s' is damaged; remove it", path) : 1;
}

/* ---- GGUF ---- */

/* The parts of a GGUF file before the tensors' data: keys, and the directory of tensors in the order of their data.
 * `at` is the offset of the next tensor within the data. */
struct gguf_out {
	struct str keys, dir;
	uint64_t n_keys, n_tensors, at;
	uint32_t alignment;
};

static void put32(struct str *s, uint32_t v)
{
	str_add(s, &v, sizeof v);
}

static void put_text(struct str *s, const char *p, size_t len)
{
	uint64_t n = len;

	str_add(s, &n, sizeof n);
	str_add(s, p, len);
}

/* Append the name and type of a key. The caller appends its value. */
static void key(struct gguf_out *o, const char *name, enum gguf_type type)
{
	put_text(&o->keys, name, strlen(name));
	put32(&o->keys, (uint32_t)type);
	o->n_keys++;
}

static void key_text(struct gguf_out *o, const char *name, const char *text, size_t n)
{
	key(o, name, GGUF_STRING);
	put_text(&o->keys, text, n);
}

/* Return how many bytes of padding must follow n bytes to reach a multiple of the alignment. */
static uint64_t padding(uint64_t n, uint32_t alignment)
{
	return (alignment - n % alignment) % alignment;
}

/* Add a tensor to the directory. Its name is the n bytes `name`. */
static void tensor(struct gguf_out *o, const char *name, size_t n, enum dtype type, int n_dims, int64_t cols,
                   int64_t rows)
{
	int64_t dims[2] = { cols, rows };

	put_text(&o->dir, name, n);
	put32(&o->dir, (uint32_t)n_dims);
	str_add(&o->dir, dims, (size_t)n_dims * sizeof *dims);
	put32(&o->dir, (uint32_t)dtype_info(type)->ggml_id);
	str_add(&o->dir, &o->at, sizeof o->at);
	o->at += dtype_bytes(type, (uint64_t)(cols * rows));
	o->at += padding(o->at, o->alignment);
	o->n_tensors++;
}

static void zeros(struct whole *w, uint64_t n)
{
	static const char zero[64];

	for (; n; n -= n < sizeof zero ? n : sizeof zero)
		whole_put(w, zero, n < sizeof zero ? (size_t)n : sizeof zero);
}

/* Write the parts before the tensors' data. */
static void put_head(struct whole *w, const struct gguf_out *o)
{
	uint32_t version = 3;

	whole_put(w, "GGUF", 4);
	whole_put(w, &version, 4);
	whole_put(w, &o->n_tensors, 8);
	whole_put(w, &o->n_keys, 8);
	whole_put(w, o->keys.p, o->keys.n);
	whole_put(w, o->dir.p, o->dir.n);
	zeros(w, padding(24 + o->keys.n + o->dir.n, o->alignment));
}

/* Write the n values of a tensor, and padding. */
static void put_data(struct whole *w, const struct gguf_out *o, enum dtype type, const float *v, size_t n)
{
	enum { PIECE = 4096 };
	uint16_t half[PIECE];

	for (size_t i = 0; type == DT_F16 && i < n; i += PIECE) {
		size_t k = n - i < PIECE ? n - i : PIECE;

		dtype_from_f32(DT_F16, half, v + i, (int64_t)k);
		whole_put(w, half, 2 * k);
	}
	if (type == DT_F32)
		whole_put(w, v, n * sizeof *v);
	zeros(w, padding(dtype_bytes(type, n), o->alignment));
}

static void adapter_keys(const struct trainer *t, struct gguf_out *o)
{
	const char *arch = t->e->model.hp.arch->name;
	float alpha = (float)t->s.alpha;

	key_text(o, "general.architecture", arch, strlen(arch));
	key_text(o, "general.type", "adapter", 7);
	key_text(o, "adapter.type", "lora", 4);
	key(o, "adapter.lora.alpha", GGUF_F32);
	str_add(&o->keys, &alpha, sizeof alpha);
}

/* Add an adapter's tensors to the directory. Each adapted matrix of the model has two of them: A, followed by B. */
static void adapter_tensors(const struct trainer *t, struct gguf_out *o, enum dtype type)
{
	for (int32_t i = 0; i < t->n_layer; i++)
		for (int p = 0; p < TRAIN_TARGETS; p++) {
			const struct train_matrix *m = &t->layer[i].m[p];
			char name[80];

			tensor(o, name,
			       (size_t)snprintf(name, sizeof name, "blk.%d.%s.weight.lora_a", i, train_target_name(p)),
			       type, 2, m->cols, m->rank);
			tensor(o, name,
			       (size_t)snprintf(name, sizeof name, "blk.%d.%s.weight.lora_b", i, train_target_name(p)),
			       type, 2, m->rank, m->rows);
		}
}

static int adapter_write(const struct trainer *t, const char *path, enum dtype type, struct err *err)
{
	struct gguf_out o = { .alignment = 32 };
	struct whole w;
	int rc = whole_open(&w, path, err);

	adapter_keys(t, &o);
	adapter_tensors(t, &o, type);
	if (!rc) {
		put_head(&w, &o);
		for (int32_t i = 0; i < t->n_layer; i++)
			for (int p = 0; p < TRAIN_TARGETS; p++) {
				put_data(&w, &o, type, t->layer[i].m[p].a.w, t->layer[i].m[p].a.n);
				put_data(&w, &o, type, t->layer[i].m[p].b.w, t->layer[i].m[p].b.n);
			}
		rc = whole_close(&w, err);
	}
	str_free(&o.keys);
	str_free(&o.dir);
	return rc;
}

/* Return the parameter that was loaded from this tensor of the model file, or NULL if there is none. */
static const struct train_param *param_of(const struct trainer *t, struct view name)
{
	char full[80];

	if (view_is(name, "token_embd.weight"))
		return &t->embd;
	if (view_is(name, "output_norm.weight"))
		return &t->out_norm;
	if (view_is(name, "output.weight"))
		return &t->out.w;
	for (int32_t i = 0; i < t->n_layer; i++) {
		const struct train_layer *l = &t->layer[i];

		for (int p = 0; p < TRAIN_TARGETS + 2; p++) {
			snprintf(full, sizeof full, "blk.%d.%s.weight", i,
			         p < TRAIN_TARGETS    ? train_target_name(p)
			         : p == TRAIN_TARGETS ? "attn_norm"
			                              : "ffn_norm");
			if (view_is(name, full))
				return p < TRAIN_TARGETS    ? &l->m[p].w
				       : p == TRAIN_TARGETS ? &l->attn_norm
				                            : &l->ffn_norm;
		}
	}
	return NULL;
}

/* Copy the model file's keys, except keys that would be wrong for the new file. */
static void model_keys(const struct gguf *g, struct gguf_out *o, int half)
{
	const uint8_t *head = g->head ? g->head : g->base;

	for (uint64_t i = 0; i < g->n_kv; i++) {
		const struct gguf_value *v = &g->kv[i];

		if (view_is(v->key, "general.file_type") || (v->key.n > 6 && !memcmp(v->key.p, "split.", 6)))
			continue;
		str_add(&o->keys, head + v->off, (size_t)(v->data + v->bytes - (head + v->off)));
		o->n_keys++;
	}
	key(o, "general.file_type", GGUF_U32);
	put32(&o->keys, half ? 1 : 0);
}

static int model_write(const struct trainer *t, const char *path, int half, struct err *err)
{
	const struct gguf *g = t->e->gguf;
	struct gguf_out o = { .alignment = g->alignment };
	struct whole w;
	int rc;

	if (g->version < 2)
		return gguf_err(g, err, "version %u of GGUF has other keys than a file that is written now",
		                g->version);
	if (whole_open(&w, path, err))
		return -1;
	model_keys(g, &o, half);
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			put_head(&w, &o);
		for (uint64_t i = 0; i < g->n_tensor; i++) {
			const struct gguf_tensor *s = &g->tensor[i];
			const struct train_param *p = param_of(t, s->name);
			enum dtype type = !p ? s->type : half && s->n_dims > 1 ? DT_F16 : DT_F32;

			if (!pass)
				tensor(&o, s->name.p, s->name.n, type, s->n_dims > 1 ? 2 : 1, s->ne[0],
				       p ? (int64_t)p->n / s->ne[0] : s->ne[1]);
			else if (p)
				put_data(&w, &o, type, p->w, p->n);
			else {
				whole_put(&w, s->data, (size_t)s->bytes);
				zeros(&w, padding(s->bytes, o.alignment));
			}
		}
	}
	rc = whole_close(&w, err);
	str_free(&o.keys);
	str_free(&o.dir);
	return rc;
}

int trainer_write(const struct trainer *t, const char *path, int half, struct err *err)
{
	for (size_t i = 0; i < t->n_param; i++)
		for (size_t k = 0; k < t->param[i]->n; k++)
			if (!isfinite(t->param[i]->w[k]))
				return err_set(err, ERR_FAIL, "training gave weights that are no numbers");
	return t->s.rank ? adapter_write(t, path, half ? DT_F16 : DT_F32, err) : model_write(t, path, half, err);
}
