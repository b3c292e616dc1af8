/* app/files.c - where things are: XDG directories, the model, free memory and disk. */
#include "app/app.h"
#include "app/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The XDG rules: an absolute path in the variable, or the default under the home directory. */
static void xdg(struct str *out, const char *variable, const char *fallback, const char *name)
{
	const char *dir = getenv(variable), *home = getenv("HOME");

	if (dir && *dir == '/') {
		str_adds(out, dir);
	} else {
		if (!home || *home != '/') {
			const struct passwd *pw = getpwuid(getuid());
			home = pw && pw->pw_dir ? pw->pw_dir : "/";
		}
		str_addf(out, "%s/%s", home, fallback);
	}
	str_addf(out, "/weir%s%s", *name ? "/" : "", name);
}

void path_config(struct str *out, const char *name) { xdg(out, "XDG_CONFIG_HOME", ".config", name); }
void path_state(struct str *out, const char *name)  { xdg(out, "XDG_STATE_HOME", ".local/state", name); }
void path_cache(struct str *out, const char *name)  { xdg(out, "XDG_CACHE_HOME", ".cache", name); }

int make_parents(const char *path)
{
	char *copy = xstrndup(path, strlen(path));
	int rc = 0;

	for (char *p = copy + 1; !rc && *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			rc = -1;
		*p = '/';
	}
	free(copy);
	return rc;
}

int64_t disk_free_bytes(const char *path)
{
	char *copy = xstrndup(path, strlen(path));
	struct statvfs fs;
	int64_t free_bytes = -1;

	for (;;) {
		char *slash;
		if (!statvfs(copy, &fs)) {
			uint64_t bytes;
			if (!size_mul(fs.f_bavail, fs.f_frsize, &bytes) && bytes <= INT64_MAX)
				free_bytes = (int64_t)bytes;
			break;
		}
		slash = strrchr(copy, '/');
		if (!slash || slash == copy)
			break;
		*slash = 0;
	}
	free(copy);
	return free_bytes;
}

int read_whole(const char *path, size_t max, struct str *out, struct err *e)
{
	int is_stdin = !strcmp(path, "-"), fd, rc = 0;
	char buf[65536];
	ssize_t n;

	if (is_stdin)
		path = "standard input";
	fd = is_stdin ? 0 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, ERR_USAGE, "cannot open '%.200s': %s", path, strerror(errno));
	while ((n = read(fd, buf, sizeof buf)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			rc = err_set(e, ERR_USAGE, "cannot read '%.200s': %s", path, strerror(errno));
			break;
		}
		if (out->n + (size_t)n > max) {
			rc = err_set(e, ERR_USAGE, "'%.200s' is longer than %zu bytes", path, max);
			break;
		}
		str_add(out, buf, (size_t)n);
	}
	if (!is_stdin)
		close(fd);
	return rc;
}

int model_path(const struct options *o, struct str *out, struct err *e)
{
	struct stat st;

	if (o->model) {
		str_adds(out, o->model);
		return 0;
	}
	path_cache(out, "models/" DEFAULT_MODEL);
	if (!stat(out->p, &st))
		return 0;
	str_clear(out);
	return err_set(e, ERR_MODEL, "no model: run 'make run' once to fetch the default one, or give -m FILE.gguf");
}

static void on_loaded(uint64_t done, uint64_t total, void *ud)
{
	progress_show(ud, (int64_t)(done >> 20), (int64_t)(total >> 20));
}

int model_open(struct engine **engine, const struct options *o, enum model_use use, struct err *e)
{
	struct engine_options eo = {
		.device = o->device, .threads = o->threads, .vocab_only = use == MODEL_VOCAB, .inspect_only = use == MODEL_LOOK,
		.check_weights = o->check_tensors, .pre = o->pre, .chat_template = o->chat_template,
	};
	struct progress progress;
	struct str path = {0};
	int rc;

	if (model_path(o, &path, e) < 0) {
		str_free(&path);
		return -1;
	}
	progress_init(&progress, o, "loading", "MiB");
	eo.model_path = path.p;
	eo.progress = on_loaded;
	eo.progress_ud = &progress;
	rc = engine_open(engine, &eo, e);
	progress_clear(&progress);
	str_free(&path);
	if (!rc && !o->quiet && engine_info(*engine)->device_note[0])
		say("%s", engine_info(*engine)->device_note);
	return rc;
}

int timeline_open_for(struct timeline **tl, struct engine *engine, const struct options *o, int32_t ctx, struct err *e)
{
	/* A talk takes the default policy; what measures and inspects is exact unless it is told otherwise. */
	const char *kv = o->kv ? o->kv : o->command == CMD_CHAT || o->command == CMD_READ ? NULL : "full";
	struct timeline_options to = {.ctx = ctx, .kv = kv, .kv_type = o->kv_type, .batch = o->chunk};

	return timeline_open(tl, engine, &to, e);
}
