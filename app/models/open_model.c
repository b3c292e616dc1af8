/* app/models/open_model.c - opens the model that the options name, and a timeline (a token sequence with its KV
 * cache) of it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/models/models.h"
#include "app/remote/remote.h"

int (*model_precheck)(const char *path, const struct options *, struct err *);

const char *model_server(const struct options *o)
{
	return o->remote ? o->remote : remote_is_address(o->model) ? o->model : NULL;
}

int model_path(const struct options *o, struct str *out, struct err *e)
{
	struct stat st;

	if (remote_is_address(o->model))
		return err_set(e, ERR_USAGE, "'%.100s' is a server, which only a chat can ask; this wants a model file",
		               o->model);
	if (o->model)
		return model_find(o->model, out, e);
	if (user_path(out, DIR_CACHE, "models/" DEFAULT_MODEL, e))
		return -1;
	if (!stat(out->p, &st))
		return 0;
	str_clear(out);
	if (model_newest(out))
		return 0;
	return err_set(
		e, ERR_MODEL,
		"no model: 'weir pull' lists models to fetch, 'weir pull qwen3-4b' fetches one; -m FILE.gguf opens a file");
}

int encoder_path(const struct options *o, struct str *out, struct err *e)
{
	struct stat st;

	if (!o->encoder || !strcmp(o->encoder, "off"))
		return 0;
	if (strcmp(o->encoder, "auto") != 0)
		return encoder_find(o->encoder, out, e) ? -1 : 1;
	if (user_path(out, DIR_CACHE, "encoders/" DEFAULT_ENCODER, e))
		return -1;
	return !stat(out->p, &st);
}

static int read_first(const char *path, const struct options *o, struct err *e)
{
	return path && model_precheck ? model_precheck(path, o, e) : 0;
}

/* Load the readers that belong to an encoder, if their files exist: FILE-reader.gguf, which reads questions in every
 * language, and FILE-reader-en.gguf, which reads English questions. They are beside the encoder's FILE.gguf. A reader
 * finds the answer to a question in a passage. Returns 0 or -1. */
static int readers_open_for(struct encoder *encoder, const struct str *path, const struct options *o, struct err *e)
{
	static const char end[] = ".gguf";
	static const struct {
		enum encoder_reader_for questions;
		const char *end;
	} readers[] = { { READER_ANY, "-reader.gguf" }, { READER_ENGLISH, "-reader-en.gguf" } };
	struct str file = { 0 };
	struct stat st;
	int rc = 0;

	if (path->n < sizeof end || strcmp(path->p + path->n - (sizeof end - 1), end) != 0)
		return 0;
	for (size_t i = 0; i < LEN(readers) && !rc; i++) {
		str_clear(&file);
		str_add(&file, path->p, path->n - (sizeof end - 1));
		str_adds(&file, readers[i].end);
		if (!stat(file.p, &st))
			rc = read_first(file.p, o, e) || encoder_reader_open(encoder, readers[i].questions, file.p, e)
			             ? -1
			             : 0;
	}
	str_free(&file);
	return rc;
}

int encoder_open_for(struct encoder **out, const struct options *o, struct err *e)
{
	struct str path = { 0 };
	int found = encoder_path(o, &path, e);

	*out = NULL;
	if (found > 0 && (read_first(path.p, o, e) || encoder_open(out, path.p, "cpu", o->threads, e) ||
	                  readers_open_for(*out, &path, o, e))) {
		encoder_close(*out);
		*out = NULL;
		found = -1;
	}
	str_free(&path);
	return found;
}

static void on_loaded(uint64_t done, uint64_t total, void *ud)
{
	progress_show(ud, (int64_t)(done >> 20), (int64_t)(total >> 20));
}

/* Split "FILE:SCALE" into *file and *scale; without ":SCALE" the scale is 1. If there is a file with the whole name
 * `text`, which then contains a colon, *file is `text` and *scale is 1. */
static int read_lora(const char *text, struct str *file, double *scale, struct err *e)
{
	const char *colon = strrchr(text, ':');
	struct stat st;
	char *end;

	*scale = 1;
	str_adds(file, text);
	if (!colon || !stat(text, &st))
		return 0;
	*scale = strtod(colon + 1, &end);
	if (end == colon + 1 || *end || !(*scale >= -100 && *scale <= 100))
		return err_set(e, ERR_USAGE,
		               "option '--lora' wants FILE or FILE:SCALE with a number from -100 to 100, not '%.200s'",
		               text);
	file->p[file->n = (size_t)(colon - text)] = 0;
	return 0;
}

int model_open(struct engine **engine, const struct options *o, enum model_use use, struct err *e)
{
	struct engine_options eo = {
		.device = o->device,
		.gpu_checks = gpu_checks_for(o),
		.threads = o->threads,
		.vocab_only = use == MODEL_VOCAB,
		.inspect_only = use == MODEL_LOOK,
		.check_weights = o->check_tensors,
		.pre = o->pre,
		.chat_template = o->chat_template,
	};
	struct progress progress;
	struct str path = { 0 }, lora = { 0 };
	int rc;

	if (model_path(o, &path, e) < 0 || (o->lora && read_lora(o->lora, &lora, &eo.lora_scale, e) < 0)) {
		str_free(&path);
		str_free(&lora);
		return -1;
	}
	eo.lora = lora.p;
	if (read_first(path.p, o, e) < 0 || read_first(lora.p, o, e) < 0) {
		str_free(&path);
		str_free(&lora);
		return -1;
	}
	progress_init(&progress, o->quiet, o->verbose, "loading", "MiB");
	eo.model_path = path.p;
	eo.progress = on_loaded;
	eo.progress_ud = &progress;
	rc = engine_open(engine, &eo, e);
	progress_clear(&progress);
	str_free(&path);
	str_free(&lora);
	if (!rc && (!o->quiet || (o->device && !strcmp(o->device, "cuda"))) && engine_info(*engine)->device_note[0])
		say("%s", engine_info(*engine)->device_note);
	if (!rc && !o->quiet && use == MODEL_RUN && engine_info(*engine)->sampling_note[0])
		say("%s", engine_info(*engine)->sampling_note);
	return rc;
}

int timeline_open_for(struct timeline **tl, struct engine *engine, const struct options *o, int32_t ctx, struct err *e)
{
	/* Without --kv, a conversation uses the default cache policy (NULL); measurements and inspections keep every
	 * KV entry ("full"). */
	const char *kv = o->kv ? o->kv : o->command & (CMD_CHAT | CMD_READ | CMD_TOUR) ? NULL : "full";
	struct timeline_options to = { .ctx = ctx,
		                       .kv = kv,
		                       .kv_type = o->kv_type,
		                       .kv_memory = o->kv_memory,
		                       .read_share = o->read_share,
		                       .batch = o->chunk };

	return timeline_open(tl, engine, &to, e);
}
