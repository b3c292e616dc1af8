/* app/tools/pull_fit.c - finds what a model needs on this machine, before its weights are fetched (pull.h).
 *
 * The header of each file is written into a sparse file that has the size of the whole file. The engine opens it like
 * any model. So weir refuses a model that it cannot run before the weights are fetched. */
#include "app/tools/pull.h"
#include "engine/engine_machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Write a sparse file that has the size of the whole file: the fetched header, and a hole. */
static int write_shape(const struct fetched *f, const char *path, struct err *e)
{
	int from = f->whole ? open(f->path, O_RDONLY | O_CLOEXEC) : f->fd,
	    to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc = 0;
	char buf[65536];

	for (uint64_t at = 0; to >= 0 && from >= 0 && at < f->head && !rc;) {
		ssize_t n =
			pread(from, buf, f->head - at < sizeof buf ? (size_t)(f->head - at) : sizeof buf, (off_t)at);

		rc = n <= 0 || write_all(to, buf, (size_t)n);
		at += n > 0 ? (uint64_t)n : 0;
	}
	if (to < 0 || from < 0 || rc || ftruncate(to, (off_t)f->file->bytes))
		rc = err_set(e, ERR_FAIL, "cannot write '%.200s': %s", path, strerror(errno));
	if (to >= 0)
		close(to);
	if (f->whole && from >= 0)
		close(from);
	return rc;
}

/* Set the context size that a conversation would get with the memory that is free now, and whether the model fits. */
static int find_cache(struct engine *engine, const struct options *o, struct fit *fit, struct err *e)
{
	struct timeline_options to = { .ctx = o->ctx, .kv = o->kv, .kv_type = o->kv_type, .kv_memory = o->kv_memory };
	struct timeline_need need = { 0 };

	if (timeline_need(engine, &to, &need, e))
		return -1;
	fit->ctx = need.held;
	fit->cache = need.kv_bytes;
	fit->memory = need.free_bytes;
	fit->fits = fit->weights + need.kv_bytes + need.scratch_bytes <= fit->memory;
	return 0;
}

/* Round to two digits, because the estimate is not more precise. */
static double two_digits(double v)
{
	double unit = v > 0 ? pow(10, floor(log10(v)) - 1) : 1;

	return round(v / unit) * unit;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Estimate the tokens per second from the memory bandwidth. For each token the weights are read once, at 0.9 times the
 * speed of plain reading. The median of several measurements is taken. The first one does not count, because the CPU's
 * clock is still low then. */
static double find_speed(const struct engine_info *i)
{
	enum { RUNS = 5, WAKE = 1 };
	double run[RUNS];
	/* Read as many bytes as the weights have, at most 512 MiB. The weights of a small model stay in the CPU's
	 * caches, which are faster than memory. */
	uint64_t bytes = i->bytes_per_token < (512u << 20) ? i->bytes_per_token : 512u << 20;

	for (int k = -WAKE; k < RUNS; k++) {
		double v = engine_bandwidth(i->threads, bytes);

		if (k >= 0)
			run[k] = v;
	}
	qsort(run, RUNS, sizeof *run, by_value);
	return two_digits(0.9 * run[RUNS / 2] / (double)i->bytes_per_token);
}

static int header_fit(const struct options *o, const char *folder, const char *path, struct fit *fit, struct err *e)
{
	struct engine_options eo = { .model_path = path, .device = o->device, .threads = o->threads, .plan_only = 1 };
	const struct engine_info *i;
	struct engine *engine;
	struct err why = { 0 }, none = { 0 };
	int rc = model_check(path, NULL, 0, &why) ? -1 : encoder_look(path, &fit->encoder, &none);

	if (rc < 0 && none.code)
		why = none;
	if (rc < 0 || (!rc && engine_open(&engine, &eo, &why))) {
		/* Remove the path of the temporary folder from the message. */
		const char *at = strstr(why.msg, folder), *rest = at ? at + strlen(folder) + 1 : NULL;

		return at ? err_set(e, why.code, "%.*s%s", (int)(at - why.msg), why.msg, rest)
		          : err_set(e, why.code, "%s", why.msg);
	}
	fit->memory = engine_memory_free();
	fit->encodes = rc;
	if (rc)
		return 0;
	i = engine_info(engine);
	snprintf(fit->family, sizeof fit->family, "%s", i->arch);
	snprintf(fit->quant, sizeof fit->quant, "%s", i->quant);
	snprintf(fit->template_name, sizeof fit->template_name, "%s", i->template_name);
	fit->has_template = i->has_template;
	fit->weights = i->weight_bytes;
	fit->trained = i->ctx_train;
	rc = find_cache(engine, o, fit, e);
	if (!i->device_total && i->bytes_per_token)
		fit->tps = find_speed(i);
	engine_close(engine);
	return rc;
}

/* Remove the folder .look-PID and its files. */
static void remove_folder(const char *path)
{
	DIR *d = opendir(path);

	for (struct dirent *f; d && (f = readdir(d));)
		if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
			unlinkat(dirfd(d), f->d_name, 0);
	if (d)
		closedir(d);
	rmdir(path);
}

/* Remove the folders .look-PID of processes that were killed. */
static void remove_stale(const char *folder)
{
	DIR *d = opendir(folder);
	struct str path = { 0 };

	for (struct dirent *f; d && (f = readdir(d));) {
		int pid;

		if (sscanf(f->d_name, ".look-%d", &pid) != 1 ||
		    (pid > 0 && pid != getpid() && (!kill(pid, 0) || errno != ESRCH)))
			continue;
		str_clear(&path);
		str_addf(&path, "%s/%s", folder, f->d_name);
		remove_folder(path.p);
	}
	if (d)
		closedir(d);
	str_free(&path);
}

int fit_find(const struct options *o, const struct fetched *f, int n, const char *folder, struct fit *fit,
             struct err *e)
{
	struct str dir = { 0 }, path = { 0 };
	int rc = 0;

	*fit = (struct fit){ .fits = 0 };
	remove_stale(folder);
	str_addf(&dir, "%s/.look-%d", folder, (int)getpid());
	if (mkdir(dir.p, 0700)) {
		rc = err_set(e, ERR_FAIL, "cannot make a directory in '%.200s': %s", folder, strerror(errno));
		str_free(&dir);
		return rc;
	}
	for (int i = n - 1; i >= 0 && !rc; i--) {
		str_clear(&path);
		str_addf(&path, "%s%s", dir.p, strrchr(f[i].path, '/'));
		rc = write_shape(&f[i], path.p, e);
	}
	if (!rc)
		rc = header_fit(o, dir.p, path.p, fit, e);
	for (int i = 0; i < n && fit->encodes; i++)
		fit->weights += f[i].file->bytes;
	if (fit->encodes)
		fit->fits = fit->weights + (256u << 20) <= fit->memory;
	remove_folder(dir.p);
	str_free(&dir);
	str_free(&path);
	return rc;
}
